"""Columns of finite numbers, of the same length, and weighted means of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import FloatArray
from probprop.estimators.validation import check_sample_weight


def check_columns(**columns: ArrayLike) -> list[FloatArray]:
    """Return the named arguments as finite float64 arrays of one shape (n,), n > 0.

    Raises ValueError where that is not possible, or where ``std`` is not above 0.
    """
    arrays = {}
    for name, column in columns.items():
        try:
            arrays[name] = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be numbers: {error}. Convert it first.") from error
        if arrays[name].ndim != 1 or arrays[name].size == 0:
            raise ValueError(
                f"{name} must be 1-dimensional with one value or more. Got shape "
                f"{arrays[name].shape}; give one value per target, for example by ravel()."
            )
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"{', '.join(lengths)} must have the same length. Got "
            f"{', '.join(map(str, lengths.values()))}; give one value per target in each."
        )
    for name, array in arrays.items():
        bad = ~np.isfinite(array)
        if name == "std":
            bad |= array <= 0.0
        if bad.any():
            raise ValueError(
                f"{name} must be {'finite and above 0' if name == 'std' else 'finite'}. Got "
                f"{array[bad][0]} in row {np.flatnonzero(bad)[0]}, and {bad.sum()} such "
                f"{'value' if bad.sum() == 1 else 'values'} in all; correct or leave out the rows."
            )
    return list(arrays.values())


def weights_of(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    """Return weights of n samples, 0 or more and not all of them 0; None is equal weights."""
    weights = check_sample_weight(sample_weight, np.empty(n))
    return np.ones(n) if weights is None else weights


def weighted_mean(values: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Return the mean of values, (n,), with weights of 0 or more, (n,); None is equal weights.

    A value of weight 0 does not count, also if it is infinite.

    >>> import numpy as np
    >>> weighted_mean(np.array([1.0, 4.0, -np.inf]), [2.0, 1.0, 0.0])
    2.0
    """
    if sample_weight is None:
        return float(np.mean(values))
    weights = weights_of(sample_weight, len(values))
    counts = weights > 0.0
    return float(np.average(values[counts], weights=weights[counts]))
