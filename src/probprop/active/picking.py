"""What strategies share: the scale of the features, and the best of scores."""

from __future__ import annotations

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from probprop._types import FloatArray
from probprop.inference.standardize import fit_standardizer

IntArray = NDArray[np.intp]

_TIE = 1e-10  # scores that differ by less, relative to the best, are equal: the rest is rounding


def unit_variance(X: FloatArray) -> FloatArray:
    """Return the columns that vary, with mean 0 and variance 1; what is missing is 0.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        NaN where an entry is missing.

    Returns
    -------
    ndarray of shape (n, n_varying)

    Examples
    --------
    >>> import numpy as np
    >>> unit_variance(np.array([[1.0, 7.0], [3.0, 7.0], [np.nan, 7.0]]))
    array([[-1.],
           [ 1.],
           [ 0.]])
    """
    scale = fit_standardizer(X, None)
    scaled = np.nan_to_num((X - scale.x_mean) / scale.x_scale)
    varies = scaled.min(axis=0) < scaled.max(axis=0)
    found: FloatArray = scaled[:, varies]
    return found


def highest(score: FloatArray, chosen: list[int], random_state: RandomState) -> int:
    """Return the index of the highest score not chosen yet; ties are broken at random."""
    free = np.delete(np.arange(len(score)), chosen)
    best = score[free].max()
    tied = free[score[free] >= best - _TIE * abs(best)]
    return int(tied[random_state.randint(len(tied))])
