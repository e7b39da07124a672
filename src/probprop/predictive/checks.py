"""Checks of the arguments of predictive distributions and of their methods."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray

Rows = slice | ArrayLike
"""Which rows: a slice, a boolean mask of shape (n,), integers; one integer is a single row."""

_SHAPES = {1: "(n,) or (n, K)", 2: "(S, n) or (S, n, K)"}


def check_open_range(name: str, of: str, value: ArrayLike, low: float, high: float) -> None:
    """Raise a ValueError in scikit-learn's words unless low < value < high everywhere.

    `of` is the class or the method that has the parameter.
    """
    values = np.asarray(value, dtype=np.float64)
    bad = values[~((values > low) & (values < high))]
    if bad.size:
        raise ValueError(
            f"The {name!r} parameter of {of} must be a float in the range "
            f"({low}, {high}). Got {float(bad[0])} instead."
        )


def check_moments(
    names: tuple[str, str], mean: ArrayLike, std: ArrayLike, n_axes: int
) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations as arrays of one shape, or raise a ValueError.

    They have `n_axes` axes, and one more where there are several targets.
    """
    mean, std = _floats(mean), _floats(std)
    if mean.ndim not in (n_axes, n_axes + 1) or std.shape != mean.shape:
        raise ValueError(
            f"{names[0]!r} and {names[1]!r} must be arrays of the same shape, {_SHAPES[n_axes]}. "
            f"Got shapes {mean.shape} and {std.shape} instead."
        )
    bad = std[~((std >= 0.0) & (std < np.inf))]
    if bad.size:
        raise ValueError(
            f"{names[1]!r} must be an array with values in the range [0.0, inf). "
            f"Got {float(bad[0])} instead."
        )
    return mean, std


def broadcast(name: str, value: ArrayLike, mean: FloatArray) -> FloatArray:
    """Return a quantity of each entry of the mean, in its shape, or raise a ValueError."""
    try:
        return np.broadcast_to(np.asarray(value, np.float64), mean.shape)
    except ValueError as error:
        raise ValueError(
            f"{name!r} must broadcast to the shape of 'mean', {mean.shape}. "
            f"Got the shape {np.shape(value)} instead."
        ) from error


def as_rows(rows: Rows) -> slice | Array:
    """Return an index that selects rows of an array and keeps its axes.

    Examples
    --------
    >>> as_rows(slice(3)), as_rows(-1), as_rows([True, False])
    (slice(None, 3, None), array([-1]), array([ True, False]))
    """
    if isinstance(rows, slice):
        return rows
    index = np.atleast_1d(rows)
    if index.ndim > 1:
        raise IndexError(
            "rows are chosen by a slice, integers or a boolean mask of shape (n,). "
            f"Got an array of shape {index.shape} instead."
        )
    return index if index.size else index.astype(np.intp)  # NumPy makes an empty list floats


def _floats(values: ArrayLike) -> FloatArray:
    """Return an array of floats, the same object where it is one; single precision stays."""
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)
