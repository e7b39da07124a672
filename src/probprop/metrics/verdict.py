"""Are the error bars honest? One test over the intervals of all levels, and its words.

The share of the targets inside their interval is compared with every level at once: the largest
distance, in its standard deviations, is set against those of honest error bars on as many rows.
The same test then judges thirds of the rows, by size of the prediction and of its standard
deviation, since error bars can be right on average and wrong everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.metrics.columns import check_columns
from probprop.metrics.regression import LEVELS, predictive_coverage
from probprop.predictive.protocol import TargetDistribution

SIGNIFICANCE = 0.05
"""The share of honest models that the test doubts."""

_N_DRAWS = 10_000
_FEWEST = 20  # rows of a third that is judged on its own
_THIRDS = ("smallest", "middle", "largest")


@dataclass(frozen=True)
class Honesty:
    """How the intervals of some rows hold at all levels.

    Parameters
    ----------
    where : str
        Which rows these are; empty for all.
    n : int
        Their number.
    p_value : float
        Share of honest error bars that are further off on as many rows.
    wide, narrow : tuple of (float, float), or None
        The level that is furthest off, and the share of the targets inside, where intervals
        hold more, or fewer, than chance explains.
    """

    where: str
    n: int
    p_value: float
    wide: tuple[float, float] | None
    narrow: tuple[float, float] | None

    @property
    def honest(self) -> bool:
        """Whether chance explains what was observed."""
        return self.wide is None and self.narrow is None

    @property
    def sides(self) -> tuple[bool, bool]:
        """Whether intervals are too wide, and whether they are too narrow."""
        return self.wide is not None, self.narrow is not None

    @property
    def fault(self) -> str:
        """What is wrong, such as "too wide (50 % intervals hold 76.7 %)"."""
        sides = ((self.wide, "too wide"), (self.narrow, "too narrow"))
        return " and ".join(
            f"{word} ({100 * found[0]:.0f} % intervals hold {100 * found[1]:.1f} %)"
            for found, word in sides
            if found is not None
        )


@dataclass(frozen=True)
class Verdict:
    """The judgement on all rows, and on the thirds that are not honest.

    Parameters
    ----------
    all_rows : Honesty
    doubtful : tuple of Honesty
        Thirds of the rows whose error bars chance does not explain.
    """

    all_rows: Honesty
    doubtful: tuple[Honesty, ...]

    @property
    def honest(self) -> bool:
        """Whether neither all rows nor a third of them give a reason to doubt."""
        return self.all_rows.honest and not self.doubtful

    def __str__(self) -> str:
        """Say it in one or two sentences."""
        if self.all_rows.honest:
            text = "Judged by one test over all levels, these rows give no reason to doubt the "
            text += f"error bars: {_of_honest(self.all_rows.p_value)} would be further off."
            if self.doubtful:
                text = text.replace("these rows give", "all rows together give", 1)
        else:
            text = "The error bars are not honest: judged by one test over all levels, they are "
            text += f"{self.all_rows.fault}; {_of_honest(self.all_rows.p_value)} would be "
            text += "further off by chance."
        if self.doubtful:
            text += (" But they" if self.all_rows.honest else " They") + " are "
            text += "; ".join(f"{each.fault} {each.where}" for each in self.doubtful) + "."
        return text


def _of_honest(p_value: float) -> str:
    share = "fewer than 1" if p_value < 1e-3 else f"{1000 * p_value:.0f}"
    return f"{share} of 1,000 honest models"


def verdict(y: ArrayLike, predictive: TargetDistribution) -> Verdict:
    """Judge error bars on rows whose targets are known.

    Parameters
    ----------
    y : array-like of shape (n,)
        Observed targets, in target units.
    predictive : TargetDistribution
        Predictions for the same n rows.

    Returns
    -------
    Verdict
        ``str`` of it says it in words.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import Predictive
    >>> y = np.random.RandomState(0).standard_normal(500)
    >>> verdict(y, Predictive(np.zeros(500), np.zeros(500), 1.0, 6.0)).honest
    True
    >>> str(verdict(y, Predictive(np.zeros(500), np.zeros(500), 4.0, 6.0)))[:33]
    'The error bars are not honest: ju'
    """
    y, mean, std = check_columns(y=y, mean=predictive.mean, std=predictive.std)
    groups = [_thirds(mean, "predictions"), _thirds(std, "standard deviations")]
    allowed = SIGNIFICANCE / max(1, sum(map(len, groups)))  # all of them together err as seldom
    all_rows = _judge(y, predictive, "", SIGNIFICANCE)
    doubtful: list[Honesty] = []
    for thirds in groups:
        judged = [_judge(y[rows], predictive[rows], where, allowed) for where, rows in thirds]
        if any(each.sides != all_rows.sides for each in judged):  # else it is so everywhere
            doubtful += [each for each in judged if not each.honest]
    return Verdict(all_rows, tuple(doubtful))


def _judge(y: FloatArray, predictive: TargetDistribution, where: str, allowed: float) -> Honesty:
    expected, observed = predictive_coverage(y, predictive)
    n = len(y)
    distance = (observed - expected) / coverage_std(expected, n)
    p_value = float(np.mean(_by_chance(n) >= np.abs(distance).max() - 1e-9))
    limit = largest_by_chance(n, allowed)

    def furthest(signed: FloatArray) -> tuple[float, float] | None:
        worst = int(signed.argmax())
        beyond = signed[worst] > limit + 1e-9
        return (float(expected[worst]), float(observed[worst])) if beyond else None

    return Honesty(where, n, p_value, furthest(distance), furthest(-distance))


def _thirds(size: FloatArray, name: str) -> list[tuple[str, Array]]:
    """Return the rows of each third by size, (n / 3,), and where that is; none if too few."""
    order = np.argsort(size, kind="stable")
    parts = np.array_split(order, 3)
    low, high = size[parts[0][-1:]], size[parts[2][:1]]
    # Standard deviations that are all the same, but for rounding, have no order.
    if len(size) < 3 * _FEWEST or not (high - low > 1e-6 * np.abs(size).max()).all():
        return []
    limits = (f"below {low[0]:.3g}", "", f"above {high[0]:.3g}")
    return [
        (f"in the third of the rows with the {third} {name}" + f" ({limit})" * bool(limit), rows)
        for third, limit, rows in zip(_THIRDS, limits, parts, strict=True)
    ]


# ---- What chance does to honest error bars


def coverage_std(level: FloatArray, n: int) -> FloatArray:
    """Return the standard deviation of the share of n targets inside intervals of a level."""
    return np.sqrt(level * (1.0 - level) / n)


def largest_by_chance(n: int, share: float = SIGNIFICANCE) -> float:
    """Return the largest distance over all levels that only a share of honest models exceeds.

    In standard deviations of `coverage_std`, for n rows.

    Examples
    --------
    >>> 2.5 < largest_by_chance(1000) < 3.0  # two would do for one level alone
    True
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


# ---- Classes


def class_verdict(n_right: int, confidence: FloatArray) -> str:
    """Say whether chance explains the difference between confidence and accuracy.

    Parameters
    ----------
    n_right : int
        Rows whose most probable class is right.
    confidence : ndarray of shape (n,)
        Its probability in each row.
    """
    expected = float(confidence.sum())
    by_chance = 1.96 * math.sqrt(float((confidence * (1.0 - confidence)).clip(0.0).sum()))
    low = max(0, math.floor(expected - by_chance))
    high = min(len(confidence), math.ceil(expected + by_chance))
    sentence = (
        f"The predicted classes have a probability of {100 * confidence.mean():.1f} % on "
        f"average. Give or take chance, honest probabilities are right in {low:,} to {high:,}"
    )
    if n_right < low:
        return sentence + ": they are too sure here. A smaller memory or more rows usually help."
    if n_right > high:
        return sentence + ": they are more cautious here than they need be."
    return sentence + ": these rows give no reason to doubt them."
