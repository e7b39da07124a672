"""What is not known beyond the range of the training rows.

Inside of it rows held out say how wrong the networks are; beyond it there are none. A network
trained to the end goes on along a line there, and is sure of its slope. Here the slope beyond
the range is a Gaussian more: with d_j the distance of feature j from its range, in standard
deviations of the feature, the model has the additional variance slope^2 sum_j d_j^2. Rows are
bounded before (`probprop.encoding.bounds`), so d_j is limited too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from probprop._types import Array, FloatArray
from probprop.inference.standardize import fit_standardizer

_SLOPE = 0.3  # standard deviations of the target, for one of a feature; 1/sqrt(D) explains it all
# On the data of `benchmarks.guide.far_values`, 0.2 makes far samples too certain: recording errors
# have a log-likelihood of −12.2, with 0.3 −9.1. Just beyond the range 0.4 costs more than 0.3 (0.62
# against 0.72).


@dataclass(frozen=True, eq=False)
class Range:
    """The box that the training rows lie in.

    Parameters
    ----------
    low, high : ndarray of shape (n_features,)
        The smallest and the largest value of each feature.
    scale : ndarray of shape (n_features,)
        Standard deviation of each, infinite for a feature that is constant or has no values: other
        values of it are ignored.
    slope : float
        In target units, for one standard deviation of a feature.

    Examples
    --------
    >>> import numpy as np
    >>> box = range_of(np.array([[-1.0], [1.0]]), unit=5.0 / 3.0)
    >>> box.std(np.array([[0.5], [3.0], [-5.0]])), box.nearest(np.array([[3.0]]))
    (array([0., 1., 2.]), array([[1.]]))
    """

    low: FloatArray
    high: FloatArray
    scale: FloatArray
    slope: float

    def grown(self, X: Array) -> Range:
        """Return the range that holds the rows of X too."""
        low, high = _ends(X)
        return replace(self, low=np.fmin(self.low, low), high=np.fmax(self.high, high))

    def nearest(self, X: Array) -> Array:
        """Return the nearest rows inside; what is missing stays so."""
        low, high = self.low.astype(X.dtype), self.high.astype(X.dtype)
        nearest: Array = np.minimum(np.maximum(X, low), high)
        return nearest

    def std(self, X: Array) -> FloatArray:
        """Return the standard deviation that rows of X have for lying outside, (n,).

        What is missing is inside.
        """
        outside = np.abs(X - self.nearest(X)).astype(np.float64) / self.scale
        known = np.fmax(outside, 0.0)  # 0 in place of NaN
        std: FloatArray = self.slope * np.sqrt((known**2).sum(axis=1))
        return std


def _ends(X: Array) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest value of each feature that is there."""
    low, high = (f.reduce(X, axis=0).astype(np.float64) for f in (np.fmin, np.fmax))
    return low, high


def range_of(X: Array, unit: float) -> Range:
    """Measure the range of rows; `unit` is the standard deviation of their targets."""
    spreads = fit_standardizer(X, None).spreads
    return Range(*_ends(X), np.where(spreads > 0.0, spreads, np.inf), _SLOPE * unit)
