"""The interface of predictive distributions, and their common checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame

FRAME_COLUMNS = ("mean", "std", "epistemic_std", "aleatoric_std", "lower", "upper")
"""The columns of `TargetDistribution.to_frame`, for each target."""

_TINY, _HUGE = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)

# Which rows: a slice, a boolean mask of shape (n,), integers; one integer is a single row.
Rows = slice | ArrayLike


class Moments(NamedTuple):
    """Moments of targets, in target units, in one shape."""

    mean: FloatArray
    epistemic_std: FloatArray
    aleatoric_std: FloatArray


class TargetDistribution(ABC):
    """The predictive distribution of the targets of n samples, each sample on its own.

    All arrays have the shape (n,), or (n, K) for K targets: each target of each sample has its own
    distribution, and the joint log density is the sum over the targets. The variance of a target
    has two parts: epistemic variance, which more data could remove, and aleatoric variance, the
    noise, which may differ from sample to sample. ``p[10:20]`` is the distribution of some samples.
    """

    @property
    def _moments(self) -> Moments:
        """What the next three properties return, unless a class has its own."""
        raise NotImplementedError

    @property
    def mean(self) -> FloatArray:
        """Mean of the target, in target units; (n,) or (n, K)."""
        return self._moments.mean

    @property
    def epistemic_std(self) -> FloatArray:
        """Standard deviation of the expected target, in target units; (n,) or (n, K)."""
        return self._moments.epistemic_std

    @property
    def aleatoric_std(self) -> FloatArray:
        """Root of the mean variance of the noise, in target units; (n,) or (n, K)."""
        return self._moments.aleatoric_std

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the target, noise included, in target units; (n,) or (n, K)."""
        # hypot, because squares of targets near 1e-200 or 1e200 are outside the range of floats.
        return np.asarray(np.hypot(self.epistemic_std, self.aleatoric_std))

    @property
    def var(self) -> FloatArray:
        """Variance of the target, noise included, in target units squared; (n,) or (n, K)."""
        return self.std**2

    @property
    def median(self) -> FloatArray:
        """Median of the target, in target units; (n,) or (n, K)."""
        return self.ppf(0.5)

    def pdf(self, y: ArrayLike) -> FloatArray:
        """Return the density of targets, per target unit; see `logpdf`."""
        return np.exp(self.logpdf(y))

    @abstractmethod
    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Return the log density of targets, per target unit.

        y, in target units, broadcasts against (n,) or (n, K); the result has the broadcast shape.
        """

    @abstractmethod
    def cdf(self, y: ArrayLike) -> FloatArray:
        """Return the probability of a target at or below y, in the shape of `logpdf`.

        It is relatively accurate in the lower tail.
        """

    @abstractmethod
    def ppf(self, q: ArrayLike) -> FloatArray:
        """Return quantiles in target units, of shape q.shape + (n,) or q.shape + (n, K).

        q are probabilities, strictly between 0 and 1.
        """

    def interval(self, coverage: ArrayLike = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the ends of central intervals, in target units.

        `coverage` is the probability inside, strictly between 0 and 1, a float or an array; half of
        the rest is on each side. Both ends have the shape coverage.shape + (n,) or + (n, K).
        """
        check_range("coverage", f"{type(self).__name__}.interval", coverage, 0.0, 1.0)
        tail = 0.5 * (1.0 - np.asarray(coverage, np.float64))
        return self.ppf(tail), self.ppf(1.0 - tail)

    @abstractmethod
    def rvs(self, size: int, random_state: int | RandomState | None = None) -> FloatArray:
        """Draw targets of shape (size, n) or (size, n, K), independently for each sample.

        Pass an int as `random_state` for the same draws in every call.
        """

    @abstractmethod
    def crps(self, y: ArrayLike) -> FloatArray:
        """Return the continuous ranked probability score of targets; lower is better.

        It is the integral over t of (F(t) - 1[t >= y])^2, where F is the predicted distribution
        function (Gneiting and Raftery, JASA 2007, section 4.2): the absolute error if the
        distribution is a point. It is in target units, in the shape of `logpdf`.
        """

    @abstractmethod
    def targets(self) -> list[Self]:
        """Return the distribution of each target, of shape (n,): K of them, or this one alone."""

    @abstractmethod
    def __getitem__(self, rows: Rows) -> Self: ...

    @abstractmethod
    def __len__(self) -> int: ...

    def to_frame(
        self,
        names: Sequence[str] | None = None,
        *,
        coverage: float = 0.95,
        quantiles: Sequence[float] = (),
    ) -> DataFrame:
        """Return a pandas DataFrame with one row per sample.

        It has the columns mean, std, epistemic_std, aleatoric_std, lower and upper, in target
        units; `coverage` is the probability between the last two. Each of `quantiles`, strictly
        between 0 and 1, adds a column such as quantile_0.1. Several targets have their own:
        TARGET_mean, TARGET_std and so on. None as `names` counts the targets from 0.

        Examples
        --------
        >>> from probprop.distributions.mixture import Mixture
        >>> Mixture.of_one([0.0, 10.0], [3.0, 0.0], 4.0).to_frame(coverage=0.9).round(2)
           mean  std  epistemic_std  aleatoric_std  lower  upper
        0   0.0  5.0            3.0            4.0  -8.22   8.22
        1  10.0  4.0            0.0            4.0   3.42  16.58
        """
        import pandas as pd

        each = self.targets()
        names = [str(k) for k in range(len(each))] if names is None else names
        if len(names) != len(each):
            raise ValueError(f"names must have one per target, {len(each)}. Got {names!r}.")
        values = [
            column
            for one in each
            for column in (
                *(getattr(one, k) for k in FRAME_COLUMNS[:4]),
                *one.interval(coverage),
                *(one.ppf(q) for q in quantiles),
            )
        ]
        return pd.DataFrame(dict(zip(frame_columns(names, quantiles), values, strict=True)))


def frame_columns(names: Sequence[str], quantiles: Sequence[float] = ()) -> list[str]:
    """Return the columns of `TargetDistribution.to_frame` of these targets."""
    each = [*FRAME_COLUMNS, *(f"quantile_{float(q)}" for q in quantiles)]
    return [f"{name}_{k}" if len(names) > 1 else k for name in names for k in each]


# ---- Averages over the members of a mixture


def average(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted mean along the first axis; weights sum to 1."""
    mean: FloatArray = values[0]
    if len(values) > 1:
        equal = (weights == weights[0]).all()
        mean = values.mean(axis=0) if equal else np.tensordot(weights, values, axes=1)
    return mean


def root_mean_square(parts: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    """Return the root of the weighted mean, along the first axis, of the sum of squared parts."""
    values, each = np.concatenate(parts), np.concatenate([weights] * len(parts))
    # In units of the largest, which may be 0 or infinite: squares may leave the range of floats.
    unit = np.minimum(np.maximum(np.abs(values).max(axis=0), _TINY), _HUGE)
    return np.asarray(unit * np.sqrt(np.tensordot(each, (values / unit) ** 2, axes=1)))


# ---- Checks


def member_weights(weights: ArrayLike | None, n_members: int) -> FloatArray:
    """Return weights that sum to 1, or raise a ValueError."""
    if weights is None:
        return np.full(n_members, 1.0 / n_members)
    w = np.asarray(weights, np.float64)
    if w.shape != (n_members,) or not (np.isfinite(w) & (w >= 0.0)).all() or not w.any():
        raise ValueError(
            f"'weights' must have one value in the range [0.0, inf) per member, {n_members}, not "
            f"all of them 0. Got {weights!r} instead."
        )
    return np.asarray(w / w.sum())


def check_range(
    name: str, of: str, value: ArrayLike, low: float, high: float, *, closed: bool = False
) -> None:
    """Raise a ValueError in scikit-learn's words unless low < value < high everywhere.

    `of` is the class or the method that has the parameter. If `closed`, low itself is allowed.
    """
    if isinstance(value, float) and low < value < high:
        return
    values = np.asarray(value, dtype=np.float64)
    above = values >= low if closed else values > low
    bad = values[~(above & (values < high))]
    if bad.size:
        raise ValueError(
            f"The {name!r} parameter of {of} must be a float in the range "
            f"{'[' if closed else '('}{low}, {high}). Got {float(bad[0])} instead."
        )


def as_rows(rows: Rows) -> slice | Array:
    """Return an index that selects rows of an array and keeps its axes."""
    if isinstance(rows, slice):
        return rows
    index = np.atleast_1d(rows)
    if index.ndim > 1:
        raise IndexError(
            "rows are chosen by a slice, integers or a boolean mask of shape (n,). "
            f"Got an array of shape {index.shape} instead."
        )
    return index if index.size else index.astype(np.intp)  # NumPy makes an empty list floats


# ---- Representations


def short_repr(of: object, *parts: str) -> str:
    """Return a representation of an object without its arrays."""
    return f"{type(of).__name__}({', '.join(parts)})"


def span(name: str, values: FloatArray) -> str:
    """Return the range of values in words: 'std from 52 to 61'."""
    return f"{name} from {values.min():.3g} to {values.max():.3g}"


def moments_in_words(mean: FloatArray, std: FloatArray) -> list[str]:
    """Return the number of samples and the ranges of their moments, for a representation.

    Several targets have several units, so their ranges would say nothing.
    """
    n = f"n={len(mean)}"
    if mean.ndim > 1:
        return [n, f"n_targets={mean.shape[1]}"]
    return [n, span("mean", mean), span("std", std)] if len(mean) else [n]
