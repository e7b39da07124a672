"""Functions of a column that interpolate values at knots."""

from __future__ import annotations

import numpy as np

from probprop._types import FloatArray
from probprop.inference.inputs import ColumnBasis


def continuous(knots: FloatArray, values: FloatArray, ends: FloatArray) -> ColumnBasis:
    """Return the functions that interpolate values at knots, (K, n_functions).

    `ends` are their slopes left and right of all knots, (2, n_functions).
    """
    inner = np.diff(values, axis=0) / np.diff(knots)[:, np.newaxis]
    slope = np.concatenate([ends[:1], inner, ends[1:]])
    return ColumnBasis(knots, np.concatenate([values[:1], values]), slope)
