"""Data in, zero mean and unit variance out; frozen after fit ([PBP15] section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from probprop._types import Array, FloatArray
from probprop.inference.inputs import Coded, Encoded, Samples, dense, is_listed

_CONSTANT = 1e-12  # a column whose spread is below this share of its size is constant
_NARROW = 0.1  # a column of some rows hardly varies if its spread is below this share of all rows'
_SMALLEST_SCALE = 1e-150  # of equal targets: its square is a float
_BLOCK_ENTRIES = 1 << 18  # entries per block: what is copied on the way stays at 2 MB

TINY = 1e-300
"""A feature whose standard deviation is smaller is treated as constant: its values have lost
digits, and a derivative per unit of it overflows."""

LARGEST = {np.dtype(np.float64): 1e30, np.dtype(np.float32): 1e6}
"""How far from the training mean a value may lie, in standard deviations. Fourth powers of the
inputs appear in the updates, so beyond this the arithmetic of the dtype would overflow."""


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Means and scales of the training data.

    Parameters
    ----------
    x_mean, x_scale : ndarray of shape (n_features,)
        In the units of each feature.
    y_mean, y_scale : ndarray of shape (K,)
        Mean and scale of each target, in target units.
    missing_variance : ndarray of shape (n_features,), default=None
        Variance of an entry that is missing, in units of x_scale squared: 1, or 0 in a constant
        column. None is 1 for all.
    """

    x_mean: FloatArray
    x_scale: FloatArray
    y_mean: FloatArray
    y_scale: FloatArray
    missing_variance: FloatArray | None = None

    @property
    def spreads(self) -> FloatArray:
        """The standard deviations of the features, (n_features,), 0 in a constant or empty one."""
        if self.missing_variance is None:
            return self.x_scale
        return np.where(self.missing_variance == 0.0, 0.0, self.x_scale)

    def checked_X(self, X: Array, dtype: np.dtype[Any]) -> Array:
        """Return a standardized copy of X; refuse values that the dtype could not compute with."""
        out = np.empty(X.shape, dtype)
        largest = 0.0
        with np.errstate(over="ignore"):  # refused below
            for rows in _row_blocks(X):
                block = (X[rows] - self.x_mean) / self.x_scale
                extremes = np.fmax.reduce(block, axis=None), -np.fmin.reduce(block, axis=None)
                largest = max(largest, *extremes)
                out[rows] = block
        check_magnitude("X", largest, dtype)
        return out

    def divided(self, X: Any, dtype: np.dtype[Any]) -> Any:
        """Return sparse rows divided by the scales; refuse values as `checked_X` does."""
        values = X.data / self.x_scale[X.indices]
        check_magnitude("X", float(np.abs(values).max(initial=0.0)), dtype)
        return sparse.csr_array((values.astype(dtype), X.indices, X.indptr), shape=X.shape)

    def check_X(self, X: Samples, dtype: np.dtype[Any]) -> None:
        """Refuse values that the arithmetic of the dtype could not hold, without a copy."""
        for rows in _row_blocks(X):
            self.checked_X(dense(X[rows]), dtype)

    def check_y(self, y: Array, dtype: np.dtype[Any]) -> None:
        """Refuse targets that the arithmetic of the dtype could not hold, without a copy."""
        ends = y if len(y) <= 2 else np.array([y.min(axis=0), y.max(axis=0)])
        check_magnitude("y", max(map(abs, self.transform_y(ends).ravel().tolist())), dtype)

    def largest_std(self, std: Any) -> float:
        """Return the largest of the standard deviations, standardized."""
        with np.errstate(over="ignore"):  # the caller refuses what is too large
            if sparse.issparse(std):
                return float((std.data / self.x_scale[std.indices]).max(initial=0.0))
            return float((std.max(axis=0) / self.x_scale).max())

    @cached_property
    def leaves_targets(self) -> bool:
        """Whether targets are left as they are."""
        return not self.y_mean.any() and bool((self.y_scale == 1.0).all())

    @cached_property
    def log_y_scale(self) -> float:
        """The log of the scales of all targets together: log densities are that much larger."""
        return float(np.log(self.y_scale).sum())

    def transform_y(self, y: Array) -> FloatArray:
        """Return the standardized targets, shape (n,) or (n, K)."""
        return (np.asarray(y, np.float64) - self.y_mean) / self.y_scale


def identity_standardizer(n_features: int, n_targets: int = 1) -> Standardizer:
    """Return the standardizer that changes nothing."""
    return Standardizer(
        np.zeros(n_features), np.ones(n_features), np.zeros(n_targets), np.ones(n_targets)
    )


def fit_standardizer(X: Samples, y: Array | None) -> Standardizer:
    """Measure the means and the standard deviations (ddof=0) of X, NaN where missing, and y.

    A constant column, or a constant target, gets scale 1, and so does a column whose standard
    deviation is below `TINY`; a column that is missing whole gets an infinite scale. Without y the
    target is left as it is. Listed rows are not centered: their means count as 0, and a
    constant column is scaled to 1.

    >>> s = fit_standardizer(np.array([[1.0, 7.0], [3.0, 7.0]]), np.array([0.0, 4.0]))
    >>> s.x_mean, s.x_scale, s.y_scale
    (array([2., 7.]), array([1., 1.]), array([2.]))
    """
    of_y = None if y is None else measure(y.reshape(len(y), -1))
    if not is_listed(X):
        return standardizer_of(measure(X), of_y)
    x = _measure_listed(X)
    scales = standardizer_of(x, of_y)
    x_scale = np.where(scales.missing_variance == 0.0, x.unit, scales.x_scale)
    return replace(scales, x_mean=np.zeros_like(x_scale), x_scale=x_scale)


def check_magnitude(name: str, largest: float, dtype: np.dtype[Any]) -> None:
    """Refuse standardized values that the arithmetic of the dtype could not hold."""
    if not largest <= LARGEST[dtype]:
        raise ValueError(
            f"{name} contains a value too large for dtype {dtype}: {largest:.3g} standard "
            f"deviations from the training mean, where at most {LARGEST[dtype]:.0e} can be "
            "computed with. Check the units of that row, or fit on data that include such "
            "values with standardize=True."
        )


def check_target_scale(y_scale: FloatArray) -> None:
    """Refuse targets whose variance no float could hold."""
    if len(bad := y_scale[~((y_scale > 1e-152) & (y_scale < 1e152))]):
        raise ValueError(
            f"y has a standard deviation of {bad[0]:.3g}, whose square is outside the range of "
            "floats. Divide y by a constant first."
        )


def _row_blocks(X: Samples) -> list[slice]:
    step = max(1, _BLOCK_ENTRIES // max(1, X.shape[1]))
    return [slice(i, i + step) for i in range(0, X.shape[0], step)]


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of columns of numbers, which can be merged."""

    n: FloatArray  # (n_columns,), number of present values
    low: FloatArray  # minimum and maximum; 0 without values
    high: FloatArray
    # In units of the largest magnitude, `unit`: values at 1e150 would overflow when squared, and
    # values at 1e-200 would vanish.
    mean: FloatArray
    variance: FloatArray

    @cached_property
    def unit(self) -> FloatArray:
        """The largest magnitude, (n_columns,); 1 in a column of zeros."""
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        return np.where(size > 0.0, size, 1.0)


def marginal(moments: Moments) -> tuple[tuple[float, float], ...]:
    """Return mean and standard deviation (ddof=0) of each column, in its units."""
    mean, std = moments.mean * moments.unit, np.sqrt(moments.variance) * moments.unit
    return tuple(zip(mean.tolist(), std.tolist(), strict=True))


def measure(X: Array | Coded) -> Moments:
    """Measure columns in two passes over blocks of rows, (n, n_columns), NaN where one is missing.

    A block is summed in C order whatever the order of X, so that a frame and its array give the
    same bits.
    """
    if isinstance(X, Coded):
        return _measure_coded(X)
    n: Any = X.shape[0]  # or of each column
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    total, counts = np.sum, np.full(X.shape[1], n)
    if np.isnan(low).any():  # moments of the present entries
        total, counts = np.nansum, np.count_nonzero(~np.isnan(X), axis=0)
        n = np.maximum(1, counts)
        low, high = (np.where(counts == 0, 0.0, f.reduce(X, axis=0)) for f in (np.fmin, np.fmax))
    mean, variance = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    unit = Moments(counts, low, high, mean, variance).unit
    for rows in _row_blocks(X):
        mean += total(np.ascontiguousarray(X[rows]) / unit, axis=0) / n
    for rows in _row_blocks(X):
        variance += total((np.ascontiguousarray(X[rows]) / unit - mean) ** 2, axis=0) / n
    return Moments(counts, low, high, mean, variance)


def _measure_coded(X: Coded) -> Moments:
    """Measure the columns of samples with codes, of which those in sets are 0 or 1."""
    n, ones = X.counts
    mean = ones / np.maximum(1, n)
    low, high = ((ones == n) & (n > 0)).astype(np.float64), (ones > 0).astype(np.float64)
    found = Moments(n, low, high, mean, mean * (1.0 - mean))
    others = measure(X.numbers)
    for name in ("n", "low", "high", "mean", "variance"):
        getattr(found, name)[X.others] = getattr(others, name)
    return found


def _measure_listed(X: Samples) -> Moments:
    """Measure the columns of listed rows, 0 where nothing is listed."""
    if isinstance(X, Encoded):
        return merged([_measure_listed(X[rows].tocsr()) for rows in _row_blocks(X)])
    n, n_columns = X.shape
    values, columns = X.data.astype(np.float64), X.indices
    listed = np.bincount(columns, minlength=n_columns)
    low, high = np.where(listed < n, 0.0, np.inf), np.where(listed < n, 0.0, -np.inf)
    np.minimum.at(low, columns, values)
    np.maximum.at(high, columns, values)
    zeros = np.zeros(n_columns)
    unit = Moments(zeros, low, high, zeros, zeros).unit
    scaled = values / unit[columns]
    mean = np.bincount(columns, scaled, n_columns) / n
    squares = np.bincount(columns, (scaled - mean[columns]) ** 2, n_columns)
    variance = (squares + (n - listed) * mean**2) / n
    return Moments(np.full(n_columns, n), low, high, mean, variance)


def merged(parts: Sequence[Moments]) -> Moments:
    """Return the moments of all rows of several parts, which are summed in this order.

    >>> X = np.array([[1.0], [2.0], [6.0]])
    >>> both = merged([measure(X[:1]), measure(X[1:])])
    >>> bool(np.allclose(both.variance * both.unit**2, X.var()))
    True
    """
    there = [part.n > 0 for part in parts]
    low = np.min([np.where(t, p.low, np.inf) for t, p in zip(there, parts, strict=True)], axis=0)
    high = np.max([np.where(t, p.high, -np.inf) for t, p in zip(there, parts, strict=True)], axis=0)
    n = np.sum([part.n for part in parts], axis=0)
    low, high = (np.where(n == 0, 0.0, end) for end in (low, high))
    mean, variance = np.zeros(len(n)), np.zeros(len(n))
    unit = Moments(n, low, high, mean, variance).unit
    shares = [part.n / np.maximum(1, n) for part in parts]
    for share, part in zip(shares, parts, strict=True):
        mean += share * (part.mean * (part.unit / unit))
    for share, part in zip(shares, parts, strict=True):
        ratio = part.unit / unit
        variance += share * (part.variance * ratio**2 + (part.mean * ratio - mean) ** 2)
    return Moments(n, low, high, mean, variance)


def standardizer_of(x: Moments, y: Moments | None) -> Standardizer:
    """Return the standardizer of columns with these moments; see `fit_standardizer`."""
    x_mean, x_scale, x_constant = _scales(x)
    x_constant |= x_scale < TINY
    x_scale = np.where(x_scale < TINY, 1.0, x_scale)
    missing_variance = np.where(x_constant, 0.0, 1.0)
    return Standardizer(x_mean, x_scale, *_target_scales(y), missing_variance)


def with_usual_scales(some: Standardizer, usual: FloatArray) -> Standardizer:
    """Return the standardizer of a subset, with the scales of all rows where the subset has none.

    A feature that hardly varies in the subset gets its usual scale: in its own units, other rows
    would lie thousands of standard deviations away. A feature that is constant in all rows gets an
    infinite scale, so that any value of it is ignored. `usual` are the `spreads` of all rows.

    >>> some = fit_standardizer(np.array([[0.0, 7.0, 1.0, 5.0], [1e-3, 7.0, 3.0, 5.0]]), None)
    >>> with_usual_scales(some, np.array([0.5, 3.0, 2.0, 0.0])).x_scale
    array([0.5, 3. , 1. , inf])
    """
    narrow, constant = some.spreads < _NARROW * usual, usual == 0.0
    if not (narrow | constant).any():
        return some
    known = np.ones_like(some.x_scale) if some.missing_variance is None else some.missing_variance
    scale, known = np.where(narrow, usual, some.x_scale), np.where(narrow, 1.0, known)
    return replace(
        some,
        x_scale=np.where(constant, np.inf, scale),
        missing_variance=np.where(constant, 0.0, known),
    )


def leaving_features(n_features: int, y: Moments | None) -> Standardizer:
    """Return the standardizer of the targets only: encoded features have their scales."""
    y_mean, y_scale = _target_scales(y)
    return replace(identity_standardizer(n_features), y_mean=y_mean, y_scale=y_scale)


def with_usual_target_scale(
    some: Standardizer, own: Moments, every: Moments, *, relative: bool
) -> Standardizer:
    """Return the standardizer of some rows, where targets that hardly vary have their usual scale.

    The scale of targets that are all equal would be 1 in target units, and predictions would
    depend on the unit of y. `own` and `every` measure the targets of these rows, and of all rows.
    If all targets of all rows are equal, their size is the usual scale, or 1 if they are 0. Targets
    without a unit (`relative`), such as transformed ones, have the scale 1 then.

    >>> X, y = np.zeros((4, 1)), np.array([[0.0], [0.0], [0.0], [500.0]])
    >>> some, own, every = fit_standardizer(X, y[:3]), measure(y[:3]), measure(y)
    >>> some.y_scale, with_usual_target_scale(some, own, every, relative=False).y_scale.round()
    (array([1.]), array([217.]))
    """
    spread = np.sqrt(every.variance)
    size = 1.0 if relative else np.maximum(every.unit, _SMALLEST_SCALE)
    usual = np.where(spread < _CONSTANT, size, spread * every.unit)
    narrow = np.sqrt(own.variance) * own.unit < _NARROW * usual
    return replace(some, y_scale=np.where(narrow, usual, some.y_scale))


def _target_scales(y: Moments | None) -> tuple[FloatArray, FloatArray]:
    return (np.zeros(1), np.ones(1)) if y is None else _scales(y)[:2]


def _scales(moments: Moments) -> tuple[FloatArray, FloatArray, Array]:
    """Mean and scale per column and whether it is constant."""
    unit, spread = moments.unit, np.sqrt(moments.variance)
    constant = spread < _CONSTANT
    # What is left of a constant column is rounding, about 1e-16 of its size: scale 1 keeps
    # that negligible up to a size of 1e12, and a scale of 1e-12 of the size does beyond.
    scale = np.where(constant, np.maximum(1.0, _CONSTANT * unit), spread * unit)
    scale[moments.n == 0] = np.inf  # a column without any value says nothing, whatever it has later
    mean = np.where(moments.low == moments.high, moments.low, moments.mean * unit)
    return mean, scale, constant
