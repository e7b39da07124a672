"""Are the error bars honest? One test over the intervals of all levels, and its words.

The share of the targets inside their interval is compared with every level at once: the largest
distance, in its standard deviations, is set against those of honest error bars on as many rows.
The same test then judges parts of the rows, by size of the prediction and of its standard
deviation, since error bars can be right on average and wrong everywhere. Probabilities of classes
are judged by the share of the predicted classes that is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.metrics.regression import LEVELS, check_columns, predictive_coverage

SIGNIFICANCE = 0.05
"""The share of honest models that the test doubts."""

NEGLIGIBLE = 0.01
"""A share inside this near to its level does no harm, though many rows tell the two apart."""

_N_DRAWS = 10_000
_FEWEST, _MANY = 20, 100  # rows of a part that is judged: of thirds, and of fifths
_QUOTED = {"wide": (0.5, 0.8, 0.9, 0.95), "narrow": (0.95, 0.9, 0.8, 0.5)}  # levels people know

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


@dataclass(frozen=True)
class Honesty:
    """How the intervals of some rows hold at all levels.

    `wide` and `narrow` have a level, and the share of the targets inside, where intervals hold
    more, or fewer, than chance explains, by more than a percentage point: 50, 80, 90 or 95 % if one
    of these does, else the level furthest off. They are None if no level does.
    """

    part: Part | None  # None: all rows
    n: int  # rows
    p_value: float  # share of calibrated error bars that are further off on as many rows
    wide: tuple[float, float] | None
    narrow: tuple[float, float] | None

    @property
    def honest(self) -> bool:
        """Whether chance explains what was observed, or it is less than a percentage point off."""
        return self.wide is None and self.narrow is None

    @property
    def faults(self) -> list[tuple[str, float, float]]:
        """What is wrong: "too wide" or "too narrow", a level, and the share inside."""
        sides = {"too wide": self.wide, "too narrow": self.narrow}
        return [(word, *found) for word, found in sides.items() if found is not None]

    @property
    def words(self) -> str:
        """What is wrong, such as "too wide (50 % intervals hold 76.7 %)"."""
        return " and ".join(
            f"{word} ({100 * level:.0f} % intervals hold {100 * inside:.1f} %)"
            for word, level, inside in self.faults
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it in values of JSON."""
        of = self.part
        part = {} if of is None else {"by": of.by, "low": of.low, "high": of.high}
        faults = [
            {"error_bars": word, "level": level, "inside": inside}
            for word, level, inside in self.faults
        ]
        return {**part, "rows": self.n, "p_value": self.p_value, "faults": faults}


@dataclass(frozen=True)
class Verdict:
    """The judgement on all rows, and on the parts of them that are not honest."""

    all_rows: Honesty
    doubtful: tuple[Honesty, ...]  # parts of the rows whose error bars chance does not explain

    @property
    def honest(self) -> bool:
        """Whether neither all rows nor a part of them give a reason to doubt."""
        return self.all_rows.honest and not self.doubtful

    def __str__(self) -> str:
        rows = self.all_rows
        if rows.honest and rows.p_value < SIGNIFICANCE:
            text = "The error bars hold what they say to within a percentage point, at all levels."
            text += f" {rows.n:,} rows tell that from chance; for use it makes no difference."
            if self.doubtful:
                text += " But they are not honest everywhere."
        elif rows.honest:
            text = "Judged by one test over all levels, these rows give no reason to doubt the "
            text += f"error bars: {_of_honest(rows.p_value)} would be further off."
            if self.doubtful:
                text = text.replace("these rows give", "all rows together give", 1)
                text += " But they are not honest everywhere."
        else:
            text = "The error bars are not honest: judged by one test over all levels, they are "
            text += f"{rows.words}; {_of_honest(rows.p_value)} would be further off by chance."
        if self.doubtful:
            each = "; ".join(f"{found.part} they are {found.words}" for found in self.doubtful)
            text += f" W{each[1:]}."
        return text

    def as_dict(self) -> dict[str, Any]:
        """Return it in values of JSON: whether it is honest, in words, and where it is not."""
        return {
            "honest": self.honest,
            "words": str(self),
            "all_rows": self.all_rows.as_dict(),
            "parts": [each.as_dict() for each in self.doubtful],
        }


def _of_honest(p_value: float) -> str:
    share = "fewer than 1" if p_value < 1e-3 else f"{1000 * p_value:.0f}"
    return f"{share} of 1,000 honest models"


def _size(value: float, digits: int) -> str:
    """Write a number with this many significant digits, such as 472,000 for 471983.2 and 3."""
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded) or 1.0)))
    plain = 1e3 <= abs(rounded) < 1e15
    text = f"{rounded:,.{decimals}f}" if plain else f"{rounded:.{digits}g}"
    return text.replace("-", "−")


def verdict(y: ArrayLike, predictive: TargetDistribution) -> Verdict:
    """Judge error bars on rows whose targets are known.

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
    >>> verdict(y, Mixture.of_one(np.zeros(500), np.zeros(500), 1.0)).honest
    True
    """
    y, mean, std = check_columns(y=y, predictive=predictive.mean, predicted_std=predictive.std)
    groups = [_parts(mean, "prediction"), _parts(std, "standard deviation")]
    allowed = SIGNIFICANCE / max(1, sum(map(len, groups)))  # all of them together err as seldom
    all_rows = _judge(y, predictive, None, SIGNIFICANCE)
    _, inside = predictive_coverage(y, predictive)
    doubtful: list[Honesty] = []
    for parts in groups:
        judged = [_judge(y[rows], predictive[rows], part, allowed) for part, rows in parts]
        shares = [predictive_coverage(y[rows], predictive[rows])[1] for _, rows in parts]
        if not (all_rows.honest or _differ(shares, [each.n for each in judged], inside)):
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
            merged = _judge(y[rows], predictive[rows], part, allowed)
            doubtful += [merged] if not merged.honest else [each for each, _ in found]
    return Verdict(all_rows, tuple(doubtful))


def _differ(shares: Sequence[FloatArray], n: Sequence[int], inside: FloatArray) -> bool:
    """Whether the share inside 50 or 95 % intervals differs between parts by more than chance.

    Otherwise error bars that are wrong are so everywhere, and there is no place to name.
    """
    if not shares:
        return False
    at = [int(np.abs(LEVELS - level).argmin()) for level in (0.5, 0.95)]
    pooled = inside[at].clip(1e-6, 1.0 - 1e-6)
    distance = (np.stack(shares)[:, at] - pooled) ** 2 / (pooled * (1.0 - pooled))
    statistic = (np.array(n)[:, np.newaxis] * distance).sum(axis=0)  # chi squared, by level
    return bool(chi2.sf(statistic, len(n) - 1).min() < SIGNIFICANCE / len(at))


def _judge(
    y: FloatArray, predictive: TargetDistribution, part: Part | None, allowed: float
) -> Honesty:
    expected, observed = predictive_coverage(y, predictive)
    n = len(y)
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

    return Honesty(part, n, p_value, beyond(distance, "wide"), beyond(-distance, "narrow"))


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


# ---- What chance does to honest error bars


def coverage_std(level: FloatArray, n: int) -> FloatArray:
    """Return the standard deviation of the share of n targets inside intervals of a level."""
    return np.sqrt(level * (1.0 - level) / n)


def largest_by_chance(n: int, share: float = SIGNIFICANCE) -> float:
    """Return the largest distance over all levels that only a share of honest models exceeds.

    In standard deviations of `coverage_std`, for n rows; about 2.8 for 1,000 rows, where 2 would do
    for one level alone.
    """
    return float(np.quantile(_by_chance(n), 1.0 - share, method="higher"))


@lru_cache(maxsize=64)
def _by_chance(n: int) -> FloatArray:
    """Draw the largest distances of honest error bars on n rows, (n_draws,).

    Targets fall between two neighbouring levels with equal probability; the seed is fixed, so
    that the same rows have the same verdict.
    """
    shares = np.diff(LEVELS, prepend=0.0, append=1.0)
    counts = np.random.default_rng(0).multinomial(n, shares, _N_DRAWS)
    inside = np.cumsum(counts, axis=1)[:, :-1] / n
    drawn: FloatArray = np.abs((inside - LEVELS) / coverage_std(LEVELS, n)).max(axis=1)
    return drawn


# ---- Are the probabilities of classes honest? Confidence against the share that is right


@dataclass(frozen=True)
class ClassVerdict:
    """The judgement on the probabilities of classes."""

    n: int  # rows
    n_right: int  # rows whose most probable class is right
    confidence: float  # its mean probability
    low: int  # how many are right, give or take chance, if probabilities are calibrated
    high: int

    @property
    def honest(self) -> bool:
        """Whether chance explains the difference between confidence and accuracy."""
        return self.low <= self.n_right <= self.high

    def __str__(self) -> str:
        text = (
            f"The predicted classes have a probability of {100 * self.confidence:.1f} % on "
            f"average. Give or take chance, honest probabilities are right in {self.low:,} to "
            f"{self.high:,}"
        )
        if self.n_right < self.low:
            return (
                text + ": they are too sure here. A smaller evidence cap or more rows usually help."
            )
        if self.n_right > self.high:
            return text + ": they are more cautious here than they need be."
        return text + ": these rows give no reason to doubt them."

    def as_dict(self) -> dict[str, Any]:
        """Return it in values of JSON."""
        return {"honest": self.honest, "words": str(self), **vars(self)}


def class_verdict(n_right: int, confidence: FloatArray) -> ClassVerdict:
    """Judge whether chance explains the difference between confidence and accuracy.

    `n_right` counts the rows whose most probable class is right; `confidence`, (n,), is its
    probability in each row.

    >>> class_verdict(60, np.full(100, 0.9)).honest
    False
    """
    expected = float(confidence.sum())
    by_chance = 1.96 * math.sqrt(float((confidence * (1.0 - confidence)).clip(0.0).sum()))
    low = max(0, math.floor(expected - by_chance))
    high = min(len(confidence), math.ceil(expected + by_chance))
    return ClassVerdict(len(confidence), n_right, float(confidence.mean()), low, high)
