"""Checks of the arguments of the metrics: columns of finite numbers, of the same length."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import FloatArray


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
