"""Quantiles and intervals of distributions that are symmetric about their mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import FloatArray
from probprop.predictive.checks import check_open_range

HalfWidth = Callable[[FloatArray], FloatArray]
"""Distance from the mean with a probability, at most 1/2, beyond it; it broadcasts as that does."""


def quantile(owner: str, mean: FloatArray, half_width: HalfWidth, q: ArrayLike) -> FloatArray:
    """Return the quantiles, in the shape of q followed by that of the mean.

    Parameters
    ----------
    owner : str
        The class, for the message about a q outside of (0, 1).
    mean : ndarray of shape (n,) or (n, K)
    half_width : callable
    q : array-like

    Examples
    --------
    >>> import numpy as np
    >>> quantile("Box", np.zeros(2), lambda p: 1.0 - 2.0 * p, [0.25, 0.5])
    array([[-0.5, -0.5],
           [ 0. ,  0. ]])
    """
    q = np.asarray(q, dtype=np.float64)
    check_open_range("q", f"{owner}.quantile", q, 0.0, 1.0)
    q = q.reshape(q.shape + (1,) * mean.ndim)
    distance = half_width(np.minimum(q, 1.0 - q))
    return mean + np.where(q < 0.5, -distance, distance)


def interval(
    owner: str, mean: FloatArray, half_width: HalfWidth, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the central intervals that hold `level`; both have the mean's shape."""
    check_open_range("level", f"{owner}.interval", level, 0.0, 1.0)
    distance = half_width(np.asarray(0.5 * (1.0 - level)))
    return mean - distance, mean + distance
