"""Are predictions calibrated? How far intervals and probabilities are off, and whether by chance.

The size of a fault is in the intervals' own units: the factor s by which all central intervals
would have to be scaled. With u the predictive cdf of a target and z = Phi^-1(u), which is N(0, 1)
if the prediction is calibrated, s is the maximum likelihood estimate of z ~ N(0, s^2). Values
beyond the 95 % interval count only as being there, so that outliers do not decide.

Whether chance explains it is one test over the intervals of all levels: the share of the targets
inside their interval is compared with every level at once, and the largest distance, in its
standard deviations, with the distances of calibrated intervals on as many samples. The same test
then judges parts of the samples, by size of the prediction and of its standard deviation, since
intervals can be right on average and wrong everywhere. Probabilities of classes are judged by the
share of the predicted classes that is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import erfc, log_ndtr, ndtri
from scipy.stats import chi2

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.metrics.regression import LEVELS, check_columns, share_inside

SIGNIFICANCE = 0.05
"""Share of calibrated models that the test doubts."""

NEGLIGIBLE = 0.01
"""A share inside this near to its level does no harm, though many rows tell the two apart."""

_N_DRAWS = 10_000
_FEWEST, _MANY = 20, 100  # rows of a part that is judged: of thirds, and of fifths
_QUOTED = {"wide": (0.5, 0.8, 0.9, 0.95), "narrow": (0.95, 0.9, 0.8, 0.5)}  # levels people know
_CENSORED = float(ndtri(0.975))  # |z| of the ends of a 95 % interval
_LARGEST_SCALE = 100.0  # the scale is sought between its inverse and this
_STEP = 0.01  # of log scale, between differences
_TWO_SIDED = 1.96  # standard errors in a 95 % interval

By = Literal["prediction", "standard deviation"]


@dataclass(frozen=True)
class Part:
    """Rows whose prediction, or its standard deviation, is of some size.

    >>> str(Part("prediction", 300_000.0, None)), str(Part("standard deviation", 1.5, 2.25))
    ('where predictions are above 300,000', 'where predicted stds are between 1.5 and 2.25')
    """

    by: By
    low: float | None  # ends, in target units; None where there is none
    high: float | None
    digits: int = 3  # significant digits that tell the ends of neighbors apart

    def __str__(self) -> str:
        what = "predictions" if self.by == "prediction" else "predicted stds"
        ends = [_size(end, self.digits) for end in (self.low, self.high) if end is not None]
        if self.low is None:
            return f"where {what} are below {ends[0]}"
        if self.high is None:
            return f"where {what} are above {ends[0]}"
        return f"where {what} are between {ends[0]} and {ends[1]}"


class Scale(NamedTuple):
    """Factor by which the central intervals would have to be scaled to be calibrated."""

    factor: float  # below 1 if they are too wide
    error: float  # standard error of its logarithm

    @property
    def off(self) -> float:
        """Width of the intervals relative to the right width, minus 1: 0.08 is 8 % too wide."""
        return 1.0 / self.factor - 1.0

    @property
    def is_clear(self) -> bool:
        """Whether the factor differs from 1 by more than chance explains."""
        return abs(math.log(self.factor)) > _TWO_SIDED * self.error

    @property
    def words(self) -> str:
        """How far off they are, such as "about 8 % too wide"."""
        return f"about {_percent(self.off)} {'too wide' if self.off > 0.0 else 'too narrow'}"

    @property
    def give_or_take(self) -> str:
        """Half the 95 % interval of the width, relative to the right width."""
        if self.error > 1.0:
            return "a factor of several"  # a few rows, or all of them far outside
        return _percent((1.0 + self.off) * math.expm1(_TWO_SIDED * self.error))


def _percent(share: float) -> str:
    """Write a share, such as 3 %; of less than 1 % one decimal."""
    value = 100.0 * abs(share)
    return f"{value:,.0f} %" if value >= 0.95 else f"{value:.1f} %"


@dataclass(frozen=True)
class Intervals:
    """How the intervals of some rows hold at all levels.

    `wide` and `narrow` have a level, and the share of the targets inside, where intervals hold
    more, or fewer, than chance explains, by more than a percentage point: 50, 80, 90 or 95 % if one
    of these does, else the level furthest off. They are None if no level does.
    """

    part: Part | None  # None: all rows
    n: int  # rows
    p_value: float  # share of calibrated models that are further off on as many rows
    wide: tuple[float, float] | None
    narrow: tuple[float, float] | None
    scale: Scale

    @property
    def calibrated(self) -> bool:
        """Whether chance explains what was observed, or it is less than a percentage point off."""
        return self.wide is None and self.narrow is None

    @property
    def faults(self) -> list[tuple[str, float, float]]:
        """What is wrong: "too wide" or "too narrow", a level, and the share inside."""
        sides = {"too wide": self.wide, "too narrow": self.narrow}
        return [(word, *found) for word, found in sides.items() if found is not None]

    @property
    def sizes(self) -> list[tuple[str, str]]:
        """What is wrong, such as "about 8 % too wide", and the figure after "give or take"."""
        scale, sides = self.scale, (self.wide is not None, self.narrow is not None)
        if scale.is_clear and sides == (scale.off > 0.0, scale.off < 0.0):
            return [(scale.words, scale.give_or_take)]
        # Tails that are too heavy or too light: no one factor makes all levels right.
        return [_size_at(*fault, self.n) for fault in self.faults]

    @property
    def words(self) -> str:
        """What is wrong, without the figures after "give or take"."""
        return " and ".join(words for words, _ in self.sizes)

    def as_dict(self) -> dict[str, Any]:
        """Return it in values of JSON."""
        of = self.part
        part = {} if of is None else {"by": of.by, "low": of.low, "high": of.high}
        faults = [
            {"intervals": word, "level": level, "inside": inside}
            for word, level, inside in self.faults
        ]
        error = self.scale.error if math.isfinite(self.scale.error) else None
        scale = {"scale": self.scale.factor, "log_scale_error": error}
        return {**part, "rows": self.n, **scale, "p_value": self.p_value, "faults": faults}


def _size_at(word: str, level: float, inside: float, n: int) -> tuple[str, str]:
    """Return how far intervals of one level are off that hold the share inside, in words.

    A Gaussian has the half-width z(level); the interval that holds the share inside has z(inside).
    """
    take = _TWO_SIDED * math.sqrt(inside * (1.0 - inside) / n)
    ends = np.clip([inside - take, inside, inside + take], 0.001, 0.999)  # of all or none: no width
    low, off, high = ndtri(0.5 * (1.0 + ends)) / ndtri(0.5 * (1.0 + level)) - 1.0
    words = f"about {_percent(off)} {word} at the {100 * level:.0f} % level"
    return words, _percent(0.5 * (high - low))


@dataclass(frozen=True)
class Verdict:
    """The judgement on all rows, and on the parts of them that are not calibrated."""

    all_rows: Intervals
    doubtful: tuple[Intervals, ...]  # parts of the rows whose faults chance does not explain

    @property
    def calibrated(self) -> bool:
        """Whether neither all rows nor a part of them give a reason to doubt."""
        return self.all_rows.calibrated and not self.doubtful

    def __str__(self) -> str:
        rows, scale = self.all_rows, self.all_rows.scale
        if rows.calibrated:
            where = " on average" if self.doubtful else ""
            size = f"{scale.words}, give or take {scale.give_or_take}"
            text = f"The intervals are calibrated{where} ({size})."
        else:
            sizes = [f"{words}, give or take {take}" for words, take in rows.sizes]
            text = f"The intervals are {', and '.join(sizes)}."
        if self.doubtful:
            each = "; ".join(f"{found.part} they are {found.words}" for found in self.doubtful)
            text += f" {'But w' if rows.calibrated else 'W'}{each[1:]}."
        return text

    def as_dict(self) -> dict[str, Any]:
        """Return it in values of JSON: whether it is calibrated, in words, and where it is not."""
        return {
            "calibrated": self.calibrated,
            "words": str(self),
            "all_rows": self.all_rows.as_dict(),
            "parts": [each.as_dict() for each in self.doubtful],
        }


def _size(value: float, digits: int) -> str:
    """Write a number with this many significant digits, such as 472,000 for 471983.2 and 3."""
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded) or 1.0)))
    plain = 1e3 <= abs(rounded) < 1e15
    text = f"{rounded:,.{decimals}f}" if plain else f"{rounded:.{digits}g}"
    return text.replace("-", "−")


def verdict(y: ArrayLike, predictive: TargetDistribution) -> Verdict:
    """Judge intervals on rows whose targets are known.

    Parameters
    ----------
    y : array-like of shape (n,)
        Observed targets, in target units.
    predictive : TargetDistribution
        Predictions for the same n samples.

    Returns
    -------
    Verdict
        ``str`` of it says it in words. Parts are fifths of the rows, by size of the prediction and
        of its standard deviation; thirds below 500 rows, and none below 60.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import Mixture
    >>> y = np.random.RandomState(0).standard_normal(500)
    >>> verdict(y, Mixture.of_one(np.zeros(500), np.zeros(500), 1.0)).calibrated
    True
    """
    y, mean, std = check_columns(y=y, predictive=predictive.mean, predicted_std=predictive.std)
    groups = [_parts(mean, "prediction"), _parts(std, "standard deviation")]
    allowed = SIGNIFICANCE / max(1, sum(map(len, groups)))  # all of them together err as seldom
    u = predictive.cdf(y)
    all_rows, inside = _judge(u, None, SIGNIFICANCE), _inside(u)
    doubtful: list[Intervals] = []
    for parts in groups:
        judged = [_judge(u[rows], part, allowed) for part, rows in parts]
        shares = [_inside(u[rows]) for _, rows in parts]
        if not (all_rows.calibrated or _differ(shares, [each.n for each in judged], inside)):
            continue
        pairs = zip(judged, parts, strict=True)
        for faults, run in groupby(pairs, lambda pair: [word for word, *_ in pair[0].faults]):
            found = list(run)
            if not faults:
                continue
            if len(found) == len(parts):  # wrong everywhere, but not to the same degree
                doubtful += judged
                continue
            (first, _), (last, _) = found[0][1], found[-1][1]
            part = replace(first, high=last.high)
            rows = np.concatenate([rows for _, (_, rows) in found])
            merged = _judge(u[rows], part, allowed)
            doubtful += [merged] if not merged.calibrated else [each for each, _ in found]
    return Verdict(all_rows, tuple(doubtful))


def _differ(shares: Sequence[FloatArray], n: Sequence[int], inside: FloatArray) -> bool:
    """Whether the share inside 50 or 95 % intervals differs between parts by more than chance.

    Otherwise intervals that are wrong are so everywhere, and there is no place to name.
    """
    if not shares:
        return False
    at = [int(np.abs(LEVELS - level).argmin()) for level in (0.5, 0.95)]
    pooled = inside[at].clip(1e-6, 1.0 - 1e-6)
    distance = (np.stack(shares)[:, at] - pooled) ** 2 / (pooled * (1.0 - pooled))
    statistic = (np.array(n)[:, np.newaxis] * distance).sum(axis=0)  # chi squared, by level
    return bool(chi2.sf(statistic, len(n) - 1).min() < SIGNIFICANCE / len(at))


def _inside(u: FloatArray) -> FloatArray:
    """Return the share of targets inside the intervals of all levels, given their cdf, (n,)."""
    return share_inside(np.abs(2.0 * u - 1.0), LEVELS)


def _judge(u: FloatArray, part: Part | None, allowed: float) -> Intervals:
    """Judge rows by the predictive cdf of their targets, (n,)."""
    expected, observed, n = LEVELS, _inside(u), len(u)
    distance = (observed - expected) / coverage_std(expected, n)
    p_value = float(np.mean(_by_chance(n) >= np.abs(distance).max() - 1e-9))
    limit = largest_by_chance(n, allowed)

    def beyond(signed: FloatArray, side: str) -> tuple[float, float] | None:
        known = [int(np.abs(expected - level).argmin()) for level in _QUOTED[side]]
        matters = np.where(np.abs(observed - expected) > NEGLIGIBLE, signed, 0.0)
        for i in (*known, int(matters.argmax())):
            if matters[i] > limit + 1e-9:
                return float(expected[i]), float(observed[i])
        return None

    sides = beyond(distance, "wide"), beyond(-distance, "narrow")
    return Intervals(part, n, p_value, *sides, scale_of(u))


def _parts(size: FloatArray, by: By) -> list[tuple[Part, Array]]:
    """Return parts of the rows by size, (n / 3,) or (n / 5,); none if there are too few."""
    n_parts = 5 if len(size) >= 5 * _MANY else 3
    order = np.argsort(size, kind="stable")
    parts = np.array_split(order, n_parts)
    if len(size) < n_parts * _FEWEST:
        return []
    ends = [float(size[rows[-1]]) for rows in parts[:-1]]
    # Standard deviations that are nearly the same everywhere are no place to name.
    least = 0.05 * ends[0] if by == "standard deviation" else 1e-6 * np.abs(size).max()
    if ends[-1] - ends[0] <= least:
        return []
    digits = next((n for n in range(3, 12) if len({_size(e, n) for e in ends}) == len(ends)), 12)
    lows, highs = [None, *ends], [*ends, None]
    return [(Part(by, a, b, digits), rows) for a, b, rows in zip(lows, highs, parts, strict=True)]


# ---- How far off: the scale of the standard normal quantiles of the targets


def scale_of(u: FloatArray) -> Scale:
    """Return the factor by which central intervals would have to be scaled, with its error.

    The maximum likelihood estimate of s in z ~ N(0, s^2), with z the standard normal quantile of
    the predictive cdf u of the targets, (n,), censored beyond the 95 % interval. It lies between
    0.01 and 100.

    >>> from probprop import Mixture
    >>> y = np.random.RandomState(0).standard_normal(2_000)
    >>> found = scale_of(Mixture.of_one(np.zeros(2_000), np.zeros(2_000), 1.25).cdf(y))
    >>> found.words, found.give_or_take
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


# ---- What chance does to calibrated intervals


def coverage_std(level: FloatArray, n: int) -> FloatArray:
    """Return the standard deviation of the share of n targets inside intervals of a level."""
    return np.sqrt(level * (1.0 - level) / n)


def largest_by_chance(n: int, share: float = SIGNIFICANCE) -> float:
    """Return the largest distance over all levels that only a share of calibrated models exceeds.

    In standard deviations of `coverage_std`, for n rows; about 2.8 for 1,000 rows, where 2 would do
    for one level alone.
    """
    return float(np.quantile(_by_chance(n), 1.0 - share, method="higher"))


@lru_cache(maxsize=64)
def _by_chance(n: int) -> FloatArray:
    """Draw the largest distances of calibrated intervals on n rows, (n_draws,).

    Targets fall between two neighboring levels with equal probability; the seed is fixed, so
    that the same rows have the same verdict.
    """
    shares = np.diff(LEVELS, prepend=0.0, append=1.0)
    counts = np.random.default_rng(0).multinomial(n, shares, _N_DRAWS)
    inside = np.cumsum(counts, axis=1)[:, :-1] / n
    drawn: FloatArray = np.abs((inside - LEVELS) / coverage_std(LEVELS, n)).max(axis=1)
    return drawn


# ---- Are the probabilities of classes calibrated? Confidence against the share that is right


@dataclass(frozen=True)
class ClassVerdict:
    """The judgement on the probabilities of classes."""

    n: int  # rows
    n_right: int  # rows whose most probable class is right
    confidence: float  # mean probability of the most probable class
    error: float  # standard deviation of the accuracy of calibrated probabilities, by chance

    @property
    def off(self) -> float:
        """Mean confidence minus accuracy: 0.03 is 3 points too sure."""
        return self.confidence - self.n_right / self.n

    @property
    def p_value(self) -> float:
        """Share of calibrated models that are further off on as many rows."""
        return float(erfc(abs(self.off) / self.error / math.sqrt(2.0))) if self.error else 1.0

    @property
    def calibrated(self) -> bool:
        """Whether chance explains the difference between confidence and accuracy.

        The accuracy is a count over the rows, so that half a row more or less is nothing.
        """
        return abs(self.off) <= _TWO_SIDED * self.error + 0.5 / self.n

    def __str__(self) -> str:
        size = f"about {_points(self.off)} too {'sure' if self.off > 0.0 else 'cautious'}"
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
    """Judge whether chance explains the difference between confidence and accuracy.

    `n_right` counts the rows whose most probable class is right; `confidence`, (n,), is its
    probability in each row.

    >>> print(class_verdict(87, np.full(100, 0.9)))
    The probabilities are calibrated (about 3 points too sure, give or take 6 points).
    >>> print(class_verdict(60, np.full(100, 0.9)))
    The probabilities are about 30 points too sure, give or take 6 points.
    """
    n = len(confidence)
    variance = float((confidence * (1.0 - confidence)).clip(0.0).sum())
    return ClassVerdict(n, n_right, float(confidence.mean()), math.sqrt(variance) / n)
