"""Data in, zero mean and unit variance out; frozen after fit ([PBP15] section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from probprop.posterior import Array, FloatArray

_CONSTANT = 1e-12  # a column whose spread is below this share of its size is constant
_BLOCK_ENTRIES = 1 << 18  # entries per block: what is copied on the way stays at 2 MB


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Means and scales of the training data.

    Parameters
    ----------
    x_mean, x_scale : ndarray of shape (n_features,)
        In the units of each feature.
    y_mean, y_scale : float
        In target units.
    """

    x_mean: FloatArray
    x_scale: FloatArray
    y_mean: float
    y_scale: float

    def transform_X(self, X: Array, dtype: np.dtype[Any]) -> tuple[Array, float]:
        """Return a standardised copy of X in the given dtype, and its largest magnitude."""
        out = np.empty(X.shape, dtype)
        largest = 0.0
        with np.errstate(over="ignore"):  # the caller refuses what is too large
            for rows in _row_blocks(X):
                block = (X[rows] - self.x_mean) / self.x_scale
                largest = max(largest, block.max(), -block.min())
                out[rows] = block
        return out, largest

    def transform_y(self, y: Array) -> FloatArray:
        """Return the standardised targets, shape (n,)."""
        return (np.asarray(y, np.float64) - self.y_mean) / self.y_scale


def identity_standardizer(n_features: int) -> Standardizer:
    """Return the standardiser that changes nothing."""
    return Standardizer(np.zeros(n_features), np.ones(n_features), 0.0, 1.0)


def fit_standardizer(X: Array, y: Array | None) -> Standardizer:
    """Measure the means and the standard deviations (ddof=0) of X and y.

    A constant column, or a constant target, gets scale 1. Without y the target is left as it is.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
    y : ndarray of shape (n,), or None

    Returns
    -------
    Standardizer

    Examples
    --------
    >>> import numpy as np
    >>> s = fit_standardizer(np.array([[1.0, 7.0], [3.0, 7.0]]), np.array([0.0, 4.0]))
    >>> s.x_mean, s.x_scale, s.y_scale
    (array([2., 7.]), array([1., 1.]), 2.0)
    """
    x_mean, x_scale = _moments(X)
    if y is None:
        return Standardizer(x_mean, x_scale, 0.0, 1.0)
    y_mean, y_scale = _moments(y.reshape(-1, 1))
    return Standardizer(x_mean, x_scale, float(y_mean[0]), float(y_scale[0]))


def _row_blocks(X: Array) -> list[slice]:
    step = max(1, _BLOCK_ENTRIES // max(1, X.shape[1]))
    return [slice(i, i + step) for i in range(0, X.shape[0], step)]


def _moments(X: Array) -> tuple[FloatArray, FloatArray]:
    """Mean and scale per column, in two passes over blocks of rows.

    The columns are divided by their largest magnitude first: values at 1e150 would
    overflow when squared, and values at 1e-200 would vanish. A block is summed in C order
    whatever the order of X, so that a frame and its array give the same bits.
    """
    n = X.shape[0]
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    size = np.maximum(np.abs(low), np.abs(high))
    unit = np.where(size > 0.0, size, 1.0)
    mean = np.zeros(X.shape[1])
    for rows in _row_blocks(X):
        mean += (np.ascontiguousarray(X[rows]) / unit).sum(axis=0) / n
    variance = np.zeros(X.shape[1])
    for rows in _row_blocks(X):
        variance += ((np.ascontiguousarray(X[rows]) / unit - mean) ** 2).sum(axis=0) / n
    spread = np.sqrt(variance)
    constant = spread < _CONSTANT
    # What is left of a constant column is rounding, about 1e-16 of its size: scale 1 keeps
    # that negligible up to a size of 1e12, and a scale of 1e-12 of the size does beyond.
    scale = np.where(constant, np.maximum(1.0, _CONSTANT * unit), spread * unit)
    return np.where(low == high, low, mean * unit), scale
