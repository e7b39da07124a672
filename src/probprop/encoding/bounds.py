"""Bounds on the values of each feature, so that a single far value cannot ruin a prediction.

A value inside the training range [low, high] of its feature is passed as it is. Beyond it the value
grows ever more slowly, by at most `growth`: with d its distance from the nearer end e,

    x' = e ± d / (1 + (d / growth)^3)^(1/3),

whose slope is 1 at the end and 0.85 at half of `growth`. An isolated outlier is not part of the
range, so training samples are bounded by the same rule as new ones.

The constants were chosen on the synthetic data of ``python -m benchmarks.guide.far_values``. With
longer limits a single recording error can destroy predictions of a log-normal target; with shorter
ones, or a smaller exponent, trends just beyond the range are lost. Log-normal features need a limit
of at least the distance from the 1 % or 99 % quantile to the end. The gap that isolates an outlier
follows the tail: a fixed gap misses outliers in Gaussian features or finds some in log-normal ones.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from probprop._types import Array, FloatArray
from probprop.encoding.piecewise import MAX_SAMPLE, by_column, feature_ends, sample_rows
from probprop.inference.inputs import Coded

_TAIL = 0.01  # share of the values at either end that may be outliers
_NEAR = 10.0  # robust standard deviations from the median within which no value is an outlier
_GAPS = (3.0, 10.0)  # an outlier is g times as far from the median as the value before it, with g
_LIGHT = 1.5  # the distance of this value in units of 1.5 robust standard deviations, within _GAPS
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_WIDTHS = (3.2897, 1.3490)  # 5 % to 95 %, and between the quartiles, of a standard Gaussian
_ROUNDING = 1e-12  # of the size of values, below which their differences are rounding
_BEYOND = 0.25  # share of its length by which a range may be exceeded
_ENDS = (0.01, 0.99)  # or the distance between these quantiles and the ends, if that is longer,
_LONGEST = 6.0  # but at most by this many standard deviations
_OUTLIER = 0.25  # robust standard deviations by which a range without its outliers may be exceeded
_WIDEST = 4.0  # times `growth` by which a range is widened at most: one range in most features


@dataclass(frozen=True, eq=False)
class InputBounds:
    """The range of each feature, and by how much a value beyond it may exceed it."""

    low: FloatArray  # smallest training value without isolated outliers, (n_features,), or NaN
    high: FloatArray  # largest
    growth: FloatArray  # limit of the distance from the range; 0 for a constant feature

    def apply(self, X: Any) -> Any:
        """Return bounded samples of the dtype of X; X itself if all values are in the range.

        Samples with codes keep these: of a one-hot set only values of the range are known.
        """
        if isinstance(X, Coded):
            own = InputBounds(*(getattr(self, f.name)[X.others] for f in fields(self)))
            codes = X.codes[:, len(X.others) :]
            return replace(X, codes=np.concatenate([own.apply(X.numbers), codes], axis=1))
        low, high = feature_ends(X)  # with few temporaries, as nothing is outside in most calls
        columns = np.flatnonzero(np.less(low, self.low) | np.greater(high, self.high))
        if not len(columns):
            return X
        bounded, most = X.copy(), np.finfo(X.dtype).max
        for j in columns:
            x = X[:, j].astype(np.float64)
            inside = np.clip(x, self.low[j], self.high[j])
            outside = x != inside  # missing values are among these, and stay missing
            with np.errstate(over="ignore"):  # infinite distances and ratios have the right limit
                distance = (x - inside)[outside]
                ratio = self.growth[j] / np.abs(distance)
                excess = self.growth[j] / (1.0 + ratio**3) ** (1.0 / 3.0)
                there = inside[outside] + np.copysign(excess, distance)
            bounded[outside, j] = np.clip(there, -most, most)
        return bounded

    def slope(self, X: Array) -> FloatArray:
        """Return the derivative of each bounded value by the value, (n, n_features), 0 to 1."""
        slope = np.ones(X.shape)
        outside = np.less(X, self.low) | np.greater(X, self.high)
        _, column = np.nonzero(outside)
        x = X[outside].astype(np.float64)
        with np.errstate(over="ignore", divide="ignore"):
            distance = np.abs(x - np.clip(x, self.low[column], self.high[column]))
            slope[outside] = (1.0 + (distance / self.growth[column]) ** 3) ** (-4.0 / 3.0)
        return slope

    def grown(self, X: Array | Coded) -> InputBounds:
        """Return the bounds widened to the samples of X, by at most 4 `growth` on either side.

        A feature that was constant is widened to all values of X.
        """
        low, high = feature_ends(X)
        low, high = np.fmin(self.low, low), np.fmax(self.high, high)
        varied = ~(self.growth == 0.0)
        with np.errstate(over="ignore"):
            most = np.minimum(_WIDEST * self.growth, np.finfo(np.float64).max)
            low = np.where(varied, np.fmax(low, self.low - most), low)
            high = np.where(varied, np.fmin(high, self.high + most), high)
        growth = np.where(varied, self.growth, _BEYOND * _width(low, high))
        return replace(self, low=low, high=high, growth=growth)


def fit_bounds(X: Array | Coded, ends: Array | None = None) -> InputBounds:
    """Find the range of each feature and whether it has isolated outliers.

    The quantiles of X give a median and a robust standard deviation s. A value is an isolated
    outlier if it is among the outer 1 % of the values of its side, more than 10 s from the median,
    and more than g times as far from it as the next value inward; so is every value beyond it. g is
    3 if the next value is within 4.5 s of the median, 10 if it is beyond 15 s, and proportional to
    its distance in between, so that heavy tails alone make no outliers. If X is only a part
    of the samples, `ends`, (2, n_features), has the smallest and the largest values of all.
    """
    if ends is None and len(X) > MAX_SAMPLE:
        ends = np.array(feature_ends(X))
    X = X[sample_rows(len(X))] if len(X) > MAX_SAMPLE else X
    found = zip(*by_column(_bounds_of, X, ends), strict=True)
    return InputBounds(*(np.array(each) for each in found))


def _bounds_of(x: FloatArray) -> tuple[float, float, float]:
    """Return low, high and growth of a feature with the values x, (n,)."""
    if not len(x):
        return np.nan, np.nan, 0.0
    x = np.sort(x)
    quantiles = np.quantile(0.5 * x, _QUANTILES)  # halves, whose differences are finite
    median, scale = quantiles[2], _robust_scale(x, quantiles)
    n_below, n_above = (
        _n_outliers(distance, scale) for distance in (median - 0.5 * x[::-1], 0.5 * x - median)
    )
    inner = x[n_below : len(x) - n_above]
    low, high = float(inner[0]), float(inner[-1])
    if n_below or n_above:
        return low, high, _OUTLIER * 2.0 * scale
    inner_low, inner_high = np.quantile(0.5 * x, _ENDS)
    tail = float(max(0.5 * high - inner_high, inner_low - 0.5 * low))
    unit = max(abs(low), abs(high)) or 1.0
    longest = _LONGEST * unit * float(np.std(x / unit))
    return low, high, min(max(_BEYOND * float(_width(low, high)), 2.0 * tail), longest)


def _robust_scale(x: FloatArray, quantiles: FloatArray) -> float:
    """Return half the standard deviation of a Gaussian that is at least as wide as the quantiles.

    If the quantiles are equal, it is half the median distance of the other values from them; 0 in a
    constant column.
    """
    far, near, median, also_near, also_far = quantiles
    scale = max((also_far - far) / _WIDTHS[0], (also_near - near) / _WIDTHS[1])
    rounding = _ROUNDING * max(abs(far), abs(also_far))
    if scale > rounding:
        return float(scale)
    distance = np.abs(0.5 * x - median)
    others = distance[distance > rounding]
    return float(np.median(others)) if len(others) else 0.0


def _n_outliers(distance: FloatArray, scale: float) -> int:
    """Count isolated outliers at the end of distances from the median, (n,) ascending."""
    if not scale > 0.0:
        return 0
    n = len(distance)
    tail = distance[max(0, n - 1 - int(np.ceil(_TAIL * n))) :]
    with np.errstate(over="ignore"):
        gap = np.clip(tail[:-1] / (_LIGHT * scale), *_GAPS)
        gaps = np.flatnonzero(tail[1:] > np.maximum(_NEAR * scale, gap * tail[:-1]))
    return len(tail) - 1 - int(gaps[0]) if len(gaps) else 0


def _width(low: FloatArray | float, high: FloatArray | float) -> FloatArray:
    """Return the length of ranges, at most the largest float."""
    with np.errstate(over="ignore"):
        return np.minimum(np.subtract(high, low), np.finfo(np.float64).max)
