"""Calibration verdict: the size of a miscalibration, and whether chance explains it.

The size of a miscalibration is in the intervals' own units: the factor s by which all central
intervals would have to be scaled. With u the predictive cdf of a target and z = Phi^-1(u), which is
N(0, 1) if the prediction is calibrated, s is the maximum likelihood estimate of z ~ N(0, s^2).
Values beyond the 95 % interval count only as being there, so that outliers do not decide.

Whether chance explains it is decided by two tests: a Wald test of log s = 0 (from 20 samples on),
and, for what is not a matter of scale, a Kolmogorov-Smirnov test over all levels: `|2 u - 1|` is
the level of the smallest central interval that contains the target, and is uniform if intervals are
calibrated. The p-value is twice the smaller one of both (Bonferroni). The same tests are applied to
thirds of the samples, by size of the prediction and of its standard deviation, because intervals
can be calibrated on average only. Class probabilities are compared with the accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import erfc, log_ndtr, ndtri
from scipy.stats import chi2, kstest, kstwo

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.metrics.regression import Pointwise, pointwise, share_inside

SIGNIFICANCE = 0.05
"""Share of calibrated models that the test rejects."""

NEGLIGIBLE = 0.01
"""A coverage this close to its level counts as calibrated, whatever the number of samples."""

_NAMED = np.array([0.5, 0.8, 0.9, 0.95])  # levels that readers know
_FEWEST = 20  # samples of a third that is tested, and of a scale
_CENSORED = float(ndtri(0.975))  # |z| of the ends of a 95 % interval
_LARGEST_SCALE = 100.0  # the scale is sought between its inverse and this
_STEP = 0.01  # of log scale, between differences
_TWO_SIDED = 1.96  # standard errors in a 95 % interval


class Scale(NamedTuple):
    """Factor by which the central intervals would have to be scaled to be calibrated."""

    factor: float  # below 1 if they are too wide
    error: float  # standard error of its logarithm

    @property
    def off(self) -> float:
        """Width of the intervals relative to the right width, minus 1: 0.08 is 8 % too wide."""
        return 1.0 / self.factor - 1.0

    @property
    def words(self) -> tuple[str, str]:
        """How far off they are, such as "about 8 % too wide", and half the 95 % interval of it."""
        take = "a factor of several"  # a few samples, or all of them far outside
        if self.error <= 1.0:
            take = _percent((1.0 + self.off) * math.expm1(_TWO_SIDED * self.error))
        return f"about {_percent(self.off)} {_side(self.off)}", take


def _side(off: float) -> str:
    return "too wide" if off > 0.0 else "too narrow"


def _percent(share: float) -> str:
    """Write a share, such as 3 %; below 1 % with one decimal."""
    value = 100.0 * abs(share)
    return f"{value:,.0f} %" if value >= 0.95 else f"{value:.1f} %"


@dataclass(frozen=True)
class Intervals:
    """How the central intervals of some samples compare with calibrated ones."""

    n: int  # samples
    p_value: float  # of both tests together
    calibrated: bool  # whether chance explains the distance, or it is negligible
    level: float  # 50, 80, 90 or 95 %, whose coverage is furthest off
    inside: float  # empirical coverage at this level
    scale: Scale
    where: str = ""  # such as "where predictions are above 300,000"; empty for all samples

    @property
    def too_narrow(self) -> bool:
        """Whether intervals are not calibrated and contain too few targets."""
        return not self.calibrated and self.inside < self.level

    @property
    def words(self) -> tuple[str, str]:
        """How far off they are, and half the 95 % interval of it.

        If no one factor makes all levels right, as for heavy tails, it is about one level: a
        Gaussian has the half-width z(level), and z(inside) is the half-width that it should have.
        """
        off, scale = self.inside - self.level, self.scale
        clear = abs(math.log(scale.factor)) > _TWO_SIDED * scale.error
        if self.calibrated or (clear and off * scale.off > 0.0):
            return scale.words
        take = _TWO_SIDED * math.sqrt(self.inside * (1.0 - self.inside) / self.n)
        ends = np.clip(self.inside + take * np.array([-1.0, 0.0, 1.0]), 0.001, 0.999)
        low, size, high = ndtri(0.5 * (1.0 + ends)) / ndtri(0.5 * (1.0 + self.level)) - 1.0
        at = f"about {_percent(size)} {_side(off)} at the {100 * self.level:.0f} % level"
        return at, _percent(0.5 * (high - low))

    def as_dict(self) -> dict[str, Any]:
        """Return it in values of JSON."""
        factor, error = self.scale
        return {
            **({"where": self.where} if self.where else {}),
            "rows": self.n,
            "scale": factor,
            "log_scale_error": error if math.isfinite(error) else None,
            "p_value": self.p_value,
            "level": self.level,
            "inside": self.inside,
        }


@dataclass(frozen=True)
class Verdict:
    """The calibration on all samples, and on the thirds of them that are not calibrated."""

    all_rows: Intervals
    doubtful: tuple[Intervals, ...]  # thirds whose distance chance does not explain

    @property
    def calibrated(self) -> bool:
        """Whether neither all samples nor a third of them give a reason to doubt."""
        return self.all_rows.calibrated and not self.doubtful

    def __str__(self) -> str:
        size = "{}, give or take {}".format(*self.all_rows.words)
        if self.all_rows.calibrated:
            size = f"calibrated{' on average' if self.doubtful else ''} ({size})"
        text = f"The intervals are {size}."
        if self.doubtful:
            each = "; ".join(f"{part.where} they are {part.words[0]}" for part in self.doubtful)
            text += f" {'But w' if self.all_rows.calibrated else 'W'}{each[1:]}."
        return text

    def as_dict(self) -> dict[str, Any]:
        """Return it in values of JSON: whether it is calibrated, in words, and where it is not."""
        return {
            "calibrated": self.calibrated,
            "words": str(self),
            "all_rows": self.all_rows.as_dict(),
            "parts": [each.as_dict() for each in self.doubtful],
        }


def verdict(y: ArrayLike, predictive: TargetDistribution) -> Verdict:
    """Test the calibration of intervals on samples whose targets are known.

    `y`, (n,), are observed targets, `predictive` the TargetDistribution of the same samples.
    ``str`` of the verdict says it in words. From 60 samples on, thirds by size of the prediction
    and of its standard deviation are tested too.

    >>> import numpy as np
    >>> from probprop import Mixture
    >>> y = np.random.RandomState(0).standard_normal(500)
    >>> verdict(y, Mixture.of_one(np.zeros(500), np.zeros(500), 1.0)).calibrated
    True
    """
    return verdict_of(pointwise(y, predictive))


def verdict_of(at: Pointwise) -> Verdict:
    """Test intervals by the predictive cdf of the targets, and by means and std of the samples."""
    _, mean, std, _, _, u = at
    # Thirds by a standard deviation that hardly varies would be arbitrary.
    groups = [
        _thirds(mean, "predictions", 1e-6 * float(np.abs(mean).max())),
        _thirds(std, "predicted stds", 0.05 * float(std.min())),
    ]
    allowed = SIGNIFICANCE / max(1, sum(map(len, groups)))  # Bonferroni
    all_rows, doubtful = _judge(u, SIGNIFICANCE), list[Intervals]()
    for thirds in groups:
        judged = [_judge(u[rows], allowed, where) for where, rows in thirds.items()]
        if judged and (all_rows.calibrated or _differ([each.scale for each in judged])):
            doubtful += [each for each in judged if not each.calibrated]
    return Verdict(all_rows, tuple(doubtful))


def _judge(u: FloatArray, significance: float, where: str = "") -> Intervals:
    """Test samples by the predictive cdf of their targets, (n,)."""
    needed, n = np.sort(np.abs(2.0 * u - 1.0)), len(u)
    distance, p_shape = map(float, kstest(needed, "uniform", method="exact"))
    scale = scale_of(u)
    p_value = p_shape
    if n >= _FEWEST:
        p_scale = float(erfc(abs(math.log(scale.factor)) / (math.sqrt(2.0) * scale.error)))
        p_value = min(2.0 * min(p_shape, p_scale), 1.0)
    inside = share_inside(needed, _NAMED)
    i = int(np.abs(inside - _NAMED).argmax())
    calibrated = p_value >= significance or distance <= NEGLIGIBLE
    furthest = float(_NAMED[i]), float(inside[i])
    return Intervals(n, p_value, calibrated, *furthest, scale, where)


def _differ(scales: list[Scale]) -> bool:
    """Whether scales differ by more than chance; else intervals are equally wrong everywhere."""
    factor, error = np.array(scales).T
    weights = 1.0 / error**2
    distance = np.log(factor) - np.average(np.log(factor), weights=weights + 1e-300)
    statistic = float((weights * distance**2).sum())
    return bool(chi2.sf(statistic, len(scales) - 1) < SIGNIFICANCE / 2.0)


def _thirds(size: FloatArray, what: str, least: float) -> dict[str, Array]:
    """Return the samples of each third by size, in words; nothing if they are few or alike."""
    low, middle, high = np.array_split(np.argsort(size, kind="stable"), 3)
    if len(size) < 3 * _FEWEST or size[middle[-1]] - size[low[-1]] <= least:
        return {}
    pair = float(size[low[-1]]), float(size[middle[-1]])
    digits = next(n for n in range(3, 18) if n == 17 or _size(pair[0], n) != _size(pair[1], n))
    a, b = (_size(end, digits) for end in pair)
    ends = f"below {a}", f"between {a} and {b}", f"above {b}"
    named = (f"where {what} are {end}" for end in ends)
    return dict(zip(named, (low, middle, high), strict=True))


def _size(value: float, digits: int) -> str:
    """Write a number with this many significant digits, such as 472,000 for 471983.2 and 3."""
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded) or 1.0)))
    plain = 1e3 <= abs(rounded) < 1e15
    text = f"{rounded:,.{decimals}f}" if plain else f"{rounded:.{digits}g}"
    return text.replace("-", "−")


def largest_by_chance(n: int) -> float:
    """Return the critical distance of coverage and level at 5 %, over all levels."""
    return float(kstwo.isf(SIGNIFICANCE, n))


def scale_of(u: FloatArray) -> Scale:
    """Return the factor by which central intervals would have to be scaled, with its error.

    The maximum likelihood estimate of s in z ~ N(0, s^2), with z the standard normal quantile of
    the predictive cdf u of the targets, (n,), censored beyond the 95 % interval. It lies between
    0.01 and 100.

    >>> from probprop import Mixture
    >>> y = np.random.RandomState(0).standard_normal(2_000)
    >>> found = scale_of(Mixture.of_one(np.zeros(2_000), np.zeros(2_000), 1.25).cdf(y))
    >>> found.words
    ('about 27 % too wide', '4 %')
    """
    z = np.abs(ndtri(u))
    inside = z < _CENSORED
    n_inside, square = int(inside.sum()), float((z[inside] ** 2).sum())
    n_outside = len(z) - n_inside

    def surprise(log_s: float) -> float:
        outside = n_outside * log_ndtr(-_CENSORED * math.exp(-log_s))
        return float(n_inside * log_s + 0.5 * square * math.exp(-2.0 * log_s) - outside)

    end = math.log(_LARGEST_SCALE)
    at = float(minimize_scalar(surprise, bounds=(-end, end), method="bounded").x)
    below, here, above = (surprise(at + d) for d in (-_STEP, 0.0, _STEP))
    curvature = (above - 2.0 * here + below) / _STEP**2
    return Scale(math.exp(at), 1.0 / math.sqrt(curvature) if curvature > 0.0 else math.inf)


# ---- Classification: confidence against accuracy


@dataclass(frozen=True)
class ClassVerdict:
    """The calibration of class probabilities."""

    n: int  # rows
    n_right: int  # rows whose most probable class is right
    confidence: float  # mean probability of the most probable class
    error: float  # standard deviation of the accuracy of calibrated probabilities, by chance

    @property
    def off(self) -> float:
        """Mean confidence minus accuracy: 0.03 is 3 points overconfident."""
        return self.confidence - self.n_right / self.n

    @property
    def p_value(self) -> float:
        """p-value: probability of a larger difference for calibrated probabilities."""
        return float(erfc(abs(self.off) / self.error / math.sqrt(2.0))) if self.error else 1.0

    @property
    def calibrated(self) -> bool:
        """Whether chance explains the difference between confidence and accuracy.

        The accuracy is a count over the rows, so that half a row more or less is nothing.
        """
        return abs(self.off) <= _TWO_SIDED * self.error + 0.5 / self.n

    def __str__(self) -> str:
        size = f"about {_points(self.off)} {'over' if self.off > 0.0 else 'under'}confident"
        take = f"give or take {_points(_TWO_SIDED * self.error)}"
        found = f"calibrated ({size}, {take})" if self.calibrated else f"{size}, {take}"
        return f"The probabilities are {found}."

    def as_dict(self) -> dict[str, Any]:
        """Return it in values of JSON."""
        known = {"calibrated": self.calibrated, "words": str(self), **vars(self)}
        return known | {"too_sure_by": self.off, "p_value": self.p_value}


def _points(share: float) -> str:
    """Write a difference of shares in percentage points, such as 3 points."""
    value = 100.0 * abs(share)
    text = f"{value:.0f}" if value >= 0.95 else f"{value:.1f}"
    return f"{text} point{'' if text == '1' else 's'}"


def class_verdict(n_right: int, confidence: FloatArray) -> ClassVerdict:
    """Test whether chance explains the difference between confidence and accuracy.

    `n_right` counts the rows whose most probable class is right; `confidence`, (n,), is its
    probability in each row.

    >>> print(class_verdict(87, np.full(100, 0.9)))
    The probabilities are calibrated (about 3 points overconfident, give or take 6 points).
    >>> print(class_verdict(60, np.full(100, 0.9)))
    The probabilities are about 30 points overconfident, give or take 6 points.
    """
    n = len(confidence)
    variance = float((confidence * (1.0 - confidence)).clip(0.0).sum())
    return ClassVerdict(n, n_right, float(confidence.mean()), math.sqrt(variance) / n)
