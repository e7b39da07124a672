"""How good predictions with error bars are: accuracy, density, calibration, sharpness.

`summary` has all metrics of a predictive distribution. Scorers for scikit-learn are in
`probprop.metrics.scorers`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution

LEVELS: FloatArray = np.arange(5, 100, 5) / 100  # 0.05, 0.10, ..., 0.95
"""The coverages at which calibration is measured unless others are given."""

_NAMED = 5  # rows that are named in words


# ---- Accuracy of the mean


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error, in target units.

    Parameters
    ----------
    y, mean : array-like of shape (n,)
        Observed targets and predicted means, in target units.

    Examples
    --------
    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    y, mean = check_columns(y=y, mean=mean)
    return _root_mean_square(y - mean)


def mae(y: ArrayLike, mean: ArrayLike) -> float:
    """Mean absolute error, in target units.

    Parameters
    ----------
    y, mean : array-like of shape (n,)
        Observed targets and predicted means, in target units.

    Examples
    --------
    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    y, mean = check_columns(y=y, mean=mean)
    return _mean(np.abs(y - mean))


def r2(y: ArrayLike, mean: ArrayLike) -> float:
    """Coefficient of determination: the share of the variance of the targets that is explained.

    It is 1 for perfect predictions, 0 for the mean of these targets, below 0 for worse ones, and
    NaN if all targets are equal.

    Parameters
    ----------
    y, mean : array-like of shape (n,)
        Observed targets and predicted means, in target units.

    Examples
    --------
    >>> round(r2([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]), 6)
    0.5
    """
    y, mean = check_columns(y=y, mean=mean)
    spread = _root_mean_square(y - _mean(y))
    if y.min() == y.max() or spread == 0.0:
        return float("nan")
    with np.errstate(over="ignore"):
        return float(1.0 - np.square(_root_mean_square(y - mean) / spread))


def _root_mean_square(errors: FloatArray) -> float:
    largest = float(np.abs(errors).max()) or 1.0  # squares of 1e-200 or 1e200 are not floats
    return largest * float(np.sqrt(np.mean((errors / largest) ** 2)))


def _mean(values: FloatArray) -> float:
    """Return the mean, also where the sum would overflow."""
    with np.errstate(over="ignore"):
        mean = float(np.mean(values))
    if np.isfinite(mean):
        return mean
    return float(np.sum(values / len(values)))


# ---- The whole distribution


def log_likelihood(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Mean log density of the targets under Gaussian predictions, in nats; higher is better.

    It is a density: targets in other units shift it, by the log of the factor between the units.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)
        Observed targets, predicted means and standard deviations, in target units.

    Examples
    --------
    >>> round(log_likelihood([0.0, 2.0], [0.0, 0.0], [1.0, 2.0]), 4)
    -1.5155
    """
    y, mean, std = check_columns(y=y, mean=mean, std=std)
    z = _standardised(y, mean, std)
    with np.errstate(over="ignore"):  # -inf is right beyond 1e154 standard deviations
        log_p = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - np.log(std)
    return float(np.mean(log_p))


def crps_gaussian(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Mean continuous ranked probability score of Gaussian predictions; lower is better.

    The score of one target is the integral over t of (F(t) - 1[t >= y])^2, where F is the
    predicted distribution function. It is in target units, is the absolute error when the
    standard deviation goes to zero, and punishes outliers less than the log density does.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)
        Observed targets, predicted means and standard deviations, in target units.

    References
    ----------
    T. Gneiting and A. E. Raftery, "Strictly Proper Scoring Rules, Prediction, and
    Estimation", JASA 2007, section 4.2.

    Examples
    --------
    >>> round(crps_gaussian([0.0, 2.0], [0.0, 0.0], [1.0, 2.0]), 4)
    0.7193
    """
    y, mean, std = check_columns(y=y, mean=mean, std=std)
    z = _standardised(y, mean, std)
    with np.errstate(over="ignore", under="ignore"):  # the density of an outlier is 0
        density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    score = (y - mean) * erf(z / np.sqrt(2.0)) + std * (2.0 * density - 1.0 / np.sqrt(np.pi))
    return _mean(score)


# ---- Intervals


def interval_coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Share of the targets inside their intervals, ends included, between 0 and 1.

    Parameters
    ----------
    y, lower, upper : array-like of shape (n,)
        Targets and the ends of their intervals, in target units.

    Examples
    --------
    >>> interval_coverage([1.0, 2.0, 3.0, 9.0], [0.0] * 4, [3.0] * 4)
    0.75
    """
    y, lower, upper = check_columns(y=y, lower=lower, upper=upper)
    if (crossed := np.flatnonzero(lower > upper)).size:
        i = crossed[0]
        raise ValueError(
            f"lower must not be above upper. Got {lower[i]} and {upper[i]} in row {i}; "
            "check the order of the arguments: y, lower, upper."
        )
    return float(np.mean((lower <= y) & (y <= upper)))


def calibration_curve(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, levels: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Share of the targets inside the central Gaussian intervals of several levels.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)
    levels : array-like of shape (n_levels,), default=None
        Expected coverages, each strictly between 0 and 1; None is 0.05, 0.10, ..., 0.95.

    Returns
    -------
    expected, observed : ndarray of shape (n_levels,)
        The levels, and the share of the targets inside each: below it, error bars are too small.

    Examples
    --------
    >>> expected, observed = calibration_curve([0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.5, 0.9])
    >>> observed
    array([0.5, 1. ])
    """
    y, mean, std = check_columns(y=y, mean=mean, std=std)
    z = _standardised(y, mean, std)
    (expected,) = check_columns(levels=LEVELS if levels is None else levels)
    if (bad := expected[(expected <= 0.0) | (expected >= 1.0)]).size:
        raise ValueError(
            f"levels must lie strictly between 0 and 1. Got {bad[0]}; give 0.95 for 95 %."
        )
    return expected.copy(), share_inside(erf(np.abs(z) / np.sqrt(2.0)), expected)


def predictive_coverage(
    y: ArrayLike, predictive: TargetDistribution
) -> tuple[FloatArray, FloatArray]:
    """Calibration curve of a predictive distribution, which need not be Gaussian.

    Return the levels 0.05, 0.10, ..., 0.95 and the share of the targets inside
    ``predictive.interval(level)``, both (19,). `predictive` is a TargetDistribution of n samples.

    >>> from probprop import Mixture
    >>> p = Mixture.of_one([0.0, 0.0], [0.0, 0.0], 1.0, dof=12.0)
    >>> expected, observed = predictive_coverage([0.0, 1.0], p)
    >>> observed[expected >= 0.7]
    array([0.5, 1. , 1. , 1. , 1. , 1. ])
    """
    y, _ = check_columns(y=y, predictive=predictive.mean)
    return LEVELS.copy(), share_inside(np.abs(2.0 * predictive.cdf(y) - 1.0), LEVELS)


def share_inside(needed: FloatArray, levels: FloatArray) -> FloatArray:
    """Share of the targets inside at each level, given the level that each target needs."""
    return np.searchsorted(np.sort(needed), levels, side="right") / len(needed)


def calibration_error(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Mean absolute difference of expected and observed coverage, over 0.05, ..., 0.95.

    It is 0 when calibrated, at most 0.5; chance alone gives about 0.3 / sqrt(n).

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)
        Observed targets, predicted means and standard deviations, in target units.

    Examples
    --------
    >>> calibration_error([0.0, 0.0], [0.0, 0.0], [1.0, 1.0])  # far too cautious
    0.5
    """
    expected, observed = calibration_curve(y, mean, std)
    return float(np.mean(np.abs(expected - observed)))


def sharpness(std: ArrayLike) -> float:
    """Mean predicted standard deviation, in target units: smaller is sharper.

    Parameters
    ----------
    std : array-like of shape (n,)
        Predicted standard deviations, in target units.

    Examples
    --------
    >>> sharpness([1.0, 3.0])
    2.0
    """
    (std,) = check_columns(std=std)
    return float(np.mean(std))


# ---- All of them


class Scores(NamedTuple):
    """Every metric of a predictive distribution, and the samples that one of them leaves out."""

    values: dict[str, float]  # the keys of `summary`
    without_density: Array  # indices of targets of density 0: not in the log-likelihood


def scores(y: ArrayLike, predictive: TargetDistribution) -> Scores:
    """Return every metric of a predictive distribution for y, (n,); `summary` describes them."""
    y, mean = check_columns(y=y, predictive=predictive.mean)
    (std,) = check_columns(predicted_std=predictive.std)
    expected, observed = predictive_coverage(y, predictive)
    coverage = dict(zip(expected.tolist(), observed.tolist(), strict=True))
    log_p = predictive.logpdf(y)
    has_density = np.isfinite(log_p)
    values = {
        "rmse": rmse(y, mean),
        "mae": mae(y, mean),
        "r2": r2(y, mean),
        "log_likelihood": float(np.mean(log_p[has_density])) if has_density.any() else float("nan"),
        "crps": _mean(predictive.crps(y)),
        **{f"coverage_{level:.0%}"[:-1]: coverage[level] for level in (0.5, 0.8, 0.9, 0.95)},
        "calibration_error": float(np.mean(np.abs(expected - observed))),
        "sharpness": _mean(std),
    }
    return Scores(values, np.flatnonzero(~has_density))


def summary(y: ArrayLike, predictive: TargetDistribution) -> dict[str, float]:
    """Every metric of a predictive distribution.

    All are exact for the distribution, whether it is a mixture, heavy-tailed or transformed.
    Targets with density 0, such as targets of 0 or less under a Box-Cox transformation, are left
    out of the log-likelihood, with a warning.

    Parameters
    ----------
    y : array-like of shape (n,)
    predictive : TargetDistribution, such as Mixture
        Predictions for the same n samples.

    Returns
    -------
    dict
        Keys: rmse, mae, r2, log_likelihood, crps, coverage_50, coverage_80, coverage_90,
        coverage_95, calibration_error, sharpness.

    Examples
    --------
    >>> from probprop import Mixture
    >>> p = Mixture.of_one([0.0, 10.0], [3.0, 0.0], 4.0)
    >>> metrics = summary([4.0, 11.0], p)
    >>> round(metrics["rmse"], 3), metrics["coverage_50"]
    (2.915, 0.5)
    """
    found = scores(y, predictive)
    if len(found.without_density):
        warnings.warn(without_density_in_words(found.without_density), stacklevel=2)
    return found.values


def without_density_in_words(rows: Sequence[int] | Array) -> str:
    """Name the rows that are left out of the log-likelihood."""
    n, shown = len(rows), ", ".join(map(str, rows[:_NAMED]))
    more = f" and {n - _NAMED:,} more" if n > _NAMED else ""
    what = "row" if n == 1 else "rows"
    return f"the log-likelihood leaves out {n:,} {what} whose target has density 0: {shown}{more}"


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


def _standardised(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Return the residuals in standard deviations, shape (n,)."""
    with np.errstate(over="ignore"):  # an infinite residual scores as the limit does
        return (y - mean) / std
