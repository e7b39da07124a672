"""Metrics of predictive distributions: accuracy, density, calibration, sharpness.

`summary` has all metrics of a predictive distribution. Scorers for scikit-learn are in
`probprop.metrics.scorers`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.mixture import Mixture

LEVELS: FloatArray = np.arange(5, 100, 5) / 100  # 0.05, 0.10, ..., 0.95
"""The coverages at which calibration is measured unless others are given."""

_NAMED = 5  # rows that are named in words


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error of means, (n,), for observed targets y, (n,); in target units.

    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    y, mean = check_columns(y=y, mean=mean)
    return _root_mean_square(y - mean)


def _root_mean_square(errors: FloatArray) -> float:
    largest = float(np.abs(errors).max()) or 1.0  # squares of 1e-200 or 1e200 are not floats
    return largest * float(np.sqrt(np.mean((errors / largest) ** 2)))


def _mean(values: FloatArray) -> float:
    """Return the mean, also where the sum would overflow."""
    with np.errstate(over="ignore"):
        mean = float(np.mean(values))
    return mean if np.isfinite(mean) else float(np.sum(values / len(values)))


def _r2(y: FloatArray, error: float) -> float:
    """Return the coefficient of determination of predictions with this RMSE.

    It is NaN if all targets are equal.
    """
    spread = _root_mean_square(y - _mean(y))
    if y.min() == y.max() or spread == 0.0:
        return float("nan")
    with np.errstate(over="ignore"):
        return float(1.0 - np.square(error / spread))


def interval_coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Share of the targets y, (n,), in [lower, upper], (n,) each, between 0 and 1.

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


class Pointwise(NamedTuple):
    """The basis of every metric: targets and predictions of n samples, (n,) each."""

    y: FloatArray
    mean: FloatArray
    std: FloatArray
    log_p: FloatArray  # log densities of the targets
    crps: FloatArray
    cdf: FloatArray  # predictive cdf of the targets


def pointwise(y: ArrayLike, predictive: TargetDistribution) -> Pointwise:
    """Evaluate a predictive distribution at the observed targets y, (n,)."""
    y, mean = check_columns(y=y, predictive=predictive.mean)
    (std,) = check_columns(predicted_std=predictive.std)
    at = predictive.logpdf(y), predictive.crps(y), predictive.cdf(y)
    return Pointwise(y, mean, std, *at)


def scores(at: Pointwise) -> tuple[dict[str, float], Array]:
    """Return every metric, by the keys of `summary`, and the samples without a density.

    Their targets have density 0 and are left out of the log-likelihood.
    """
    y, mean, std, log_p, crps, cdf = at
    observed = share_inside(np.abs(2.0 * cdf - 1.0), LEVELS)
    coverage = dict(zip(LEVELS.tolist(), observed.tolist(), strict=True))
    has_density = np.isfinite(log_p)
    error = rmse(y, mean)
    values = {
        "rmse": error,
        "mae": _mean(np.abs(y - mean)),
        "r2": _r2(y, error),
        "log_likelihood": float(np.mean(log_p[has_density])) if has_density.any() else float("nan"),
        "crps": _mean(crps),
        **{f"coverage_{level:.0%}"[:-1]: coverage[level] for level in (0.5, 0.8, 0.9, 0.95)},
        "calibration_error": float(np.mean(np.abs(LEVELS - observed))),
        "sharpness": _mean(std),
    }
    return values, np.flatnonzero(~has_density)


def summary(y: ArrayLike, predictive: TargetDistribution) -> dict[str, float]:
    """Every metric of a predictive distribution.

    All are exact for the distribution, whether it is a mixture, heavy-tailed or transformed. For
    Gaussian predictions of another model, give ``Mixture.of_one(mean, np.zeros(n), std)``.
    Targets with density 0, such as targets of 0 or less under a Box-Cox transformation, are left
    out of the log-likelihood, with a warning.

    The keys are rmse, mae (mean absolute error), r2 (coefficient of determination), log_likelihood
    (mean log density, in nats), crps (mean continuous ranked probability score), coverage_50,
    coverage_80, coverage_90, coverage_95 (share of the targets inside), calibration_error (mean
    absolute difference of expected and observed coverage over the levels 0.05 to 0.95; chance alone
    gives about 0.3 / sqrt(n)) and sharpness (mean standard deviation). All but shares and the
    log-likelihood are in target units.

    >>> from probprop import Mixture
    >>> p = Mixture.of_one([0.0, 10.0], [3.0, 0.0], 4.0)
    >>> metrics = summary([4.0, 11.0], p)
    >>> round(metrics["rmse"], 3), metrics["coverage_50"]
    (2.915, 0.5)
    """
    found, left_out = scores(pointwise(y, predictive))
    if len(left_out):
        warnings.warn(without_density_in_words(left_out), stacklevel=2)
    return found


def baseline_summary(y: ArrayLike, mean: float, std: float) -> dict[str, float] | None:
    """Score one Gaussian for all samples, with the marginal mean and std of the training target.

    `y` are the observed targets, array-like of shape (n,); all are in target units. Return a dict
    with the keys of `summary`; None if `std` is 0, because there is no density then.

    >>> found = baseline_summary([1.0, 3.0], mean=2.0, std=1.0)
    >>> found["rmse"], found["r2"], found["sharpness"]
    (1.0, 0.0, 1.0)
    """
    (y,) = check_columns(y=y)
    if not std > 0.0:
        return None
    one = Mixture.of_one(np.full_like(y, mean), np.zeros_like(y), std)
    return scores(pointwise(y, one))[0]


def without_density_in_words(rows: Sequence[int] | Array) -> str:
    """Name the rows that are left out of the log-likelihood."""
    n, shown = len(rows), ", ".join(map(str, rows[:_NAMED]))
    more = f" and {n - _NAMED:,} more" if n > _NAMED else ""
    what = "row" if n == 1 else "rows"
    return f"the log-likelihood leaves out {n:,} {what} whose target has density 0: {shown}{more}"


def check_columns(**columns: ArrayLike) -> list[FloatArray]:
    """Return the named arguments as finite float64 arrays of one shape (n,), n > 0."""
    options = {"dtype": np.float64, "ensure_2d": False}
    arrays = [
        column_or_1d(check_array(column, input_name=name, **options))
        for name, column in columns.items()
    ]
    check_consistent_length(*arrays)
    return arrays
