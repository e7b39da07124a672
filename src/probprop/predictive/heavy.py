"""The predictive distribution of targets whose noise has heavy tails, in target units.

The network output is Gaussian under q. The noise is a Gaussian whose variance is log-normal: its
logarithm has the variance `tail`. Their sum is symmetric, with one mode and all moments; see
`probprop.predictive.log_normal` for the integrals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.optimize import elementwise
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from probprop._types import FloatArray
from probprop.predictive import log_normal, symmetric
from probprop.predictive.checks import Rows, as_rows, broadcast, check_moments, check_open_range
from probprop.predictive.protocol import TargetDistribution
from probprop.predictive.student_t_quantiles import isf_by_series
from probprop.predictive.words import moments_in_words, short_repr, span

_CONVERGED = 1e-12  # of a series of quantiles, in standard deviations
_QUANTILE_ERROR = 1e-13


@dataclass(frozen=True, eq=False, init=False, repr=False)
class HeavyPredictive(TargetDistribution):
    """The predictive distribution of the targets of n rows, with noise that has heavy tails.

    ``p[10:20]`` is the distribution of some rows, chosen by a slice, a mask or integers.

    Parameters
    ----------
    mean : array-like of shape (n,) or (n, K)
        Mean of the target, in target units. Where there are K targets, each target of each row
        has its own distribution, and their joint log density is the sum over the targets.
    std_model : array-like of shape (n,) or (n, K)
        Standard deviation of the network output under q, in target units; 0 or more.
    std_noise : array-like that broadcasts to the shape of mean
        Standard deviation of the noise, in target units; above 0. Most of it may come from a few
        large errors: the noise variance is log-normal, and its median is
        std_noise^2 exp(-tail/2). The attribute has the shape of mean.
    tail : array-like that broadcasts to the shape of mean
        Variance of the logarithm of the noise variance; 0 or more, and 0 is Gaussian noise. The
        attribute has the shape of mean.

    Examples
    --------
    >>> from probprop import HeavyPredictive
    >>> p = HeavyPredictive([0.0, 10.0], [3.0, 0.0], std_noise=4.0, tail=2.0)
    >>> p
    HeavyPredictive(n=2, mean from 0 to 10, std from 4 to 5, tail from 2 to 2)
    >>> p.logpdf([0.0, 100.0]).round(2)
    array([ -2.33, -15.89])
    >>> lower, upper = p[1:].interval(0.9)
    >>> upper.round(2)
    array([15.75])
    """

    mean: FloatArray
    std_model: FloatArray
    std_noise: FloatArray
    tail: FloatArray

    def __init__(
        self, mean: ArrayLike, std_model: ArrayLike, std_noise: ArrayLike, tail: ArrayLike
    ) -> None:
        mean, std_model = check_moments(("mean", "std_model"), mean, std_model, n_axes=1)
        check_open_range("std_noise", "HeavyPredictive", std_noise, 0.0, np.inf)
        given = {"std_noise": std_noise, "tail": tail}
        noise = {name: broadcast(name, value, mean) for name, value in given.items()}
        bad = noise["tail"][~((noise["tail"] >= 0.0) & (noise["tail"] < np.inf))]
        if bad.size:
            raise ValueError(
                "The 'tail' parameter of HeavyPredictive must be a float in the range [0.0, inf). "
                f"Got {float(bad[0])} instead."
            )
        vars(self).update(mean=mean, std_model=std_model, **noise)

    def __repr__(self) -> str:
        tail = [span("tail", self.tail)] if self.tail.size else []
        return short_repr(self, *moments_in_words(self.mean, self.std), *tail)

    def __getitem__(self, rows: Rows) -> Self:
        return self._at(as_rows(rows))

    def targets(self) -> list[Self]:
        if self.mean.ndim == 1:
            return [self]
        return [self._at(np.s_[:, k]) for k in range(self.mean.shape[1])]

    def logpdf(self, y: ArrayLike) -> FloatArray:
        level = self.std_noise_median
        log_p = log_normal.logpdf(self._standardise(y), self.std_model / level, self.tail)
        return log_p - np.log(level)

    def cdf(self, y: ArrayLike) -> FloatArray:
        return self.cdf_of_residual(np.asarray(y, np.float64) - self.mean)

    def cdf_of_residual(self, residual: FloatArray) -> FloatArray:
        """Probability of a target at or below mean + residual, in the broadcast shape.

        Residuals keep the digits that y loses if the mean is large compared with the spread.
        """
        level = self.std_noise_median
        with np.errstate(over="ignore"):
            z = -residual / level
        cdf: FloatArray = np.exp(log_normal.log_sf(z, self.std_model / level, self.tail))
        return cdf

    def quantile(self, q: ArrayLike) -> FloatArray:
        return symmetric.quantile("HeavyPredictive", self.mean, self.half_width, q)

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        return symmetric.interval("HeavyPredictive", self.mean, self.half_width, level)

    def sample(self, n_samples: int, random_state: int | RandomState | None = None) -> FloatArray:
        rng = check_random_state(random_state)
        shape = (n_samples, *self.mean.shape)
        return self.mean + _errors(self.std_model, self.std_noise_median, self.tail, shape, rng)

    @property
    def std_noise_median(self) -> FloatArray:
        """Root of the median of the noise variance, in target units; (n,) or (n, K)."""
        level: FloatArray = self.std_noise * np.exp(-0.25 * self.tail)
        return level

    def flattened(self) -> Self:
        """The same distributions, with all targets of all rows as rows of their own."""
        return type(self)(*(np.ravel(getattr(self, name)) for name in self.__match_args__))

    def _at(self, index: Any) -> Self:
        """The distribution of some of the entries of (n,) or (n, K)."""
        return type(self)(
            self.mean[index], self.std_model[index], self.std_noise[index], self.tail[index]
        )

    def _standardise(self, y: ArrayLike) -> FloatArray:
        """Residuals in units of the noise level."""
        with np.errstate(over="ignore"):
            return (np.asarray(y, dtype=np.float64) - self.mean) / self.std_noise_median

    def half_width(self, outside: FloatArray) -> FloatArray:
        """Distance from the mean with probability `outside` beyond it, in target units.

        `outside` is at most 1/2 and broadcasts against (n,).
        """
        with np.errstate(divide="ignore"):
            log_ratio: FloatArray = np.log(self.std_model) - np.log(self.std_noise)
        tails = np.unique(self.tail)
        if len(tails) == 1:  # rows that differ in the ratio only share a series
            z = isf_by_series(
                outside, log_ratio, lambda p, x: isf(p, x, tails[:1]), converged=_CONVERGED
            )
        else:
            p, x, tail = np.broadcast_arrays(outside, log_ratio, self.tail)
            z = isf(p.ravel(), x.ravel(), tail.ravel()).reshape(p.shape)
        return self.std * z


def isf(outside: FloatArray, log_ratio: FloatArray, tail: FloatArray) -> FloatArray:
    """The z, in standard deviations, with probability `outside` above it, each by root finding.

    Parameters
    ----------
    outside : ndarray of shape (n,)
        Above 0, at most 1/2.
    log_ratio : ndarray of shape (n,)
        log(std_model/std_noise); -inf where the model is certain.
    tail : ndarray of shape (n,) or (1,)

    Examples
    --------
    >>> import numpy as np
    >>> isf(np.array([0.1, 0.025]), np.zeros(2), np.ones(1)).round(4)
    array([1.2239, 1.9715])
    """
    if len(outside) == 0:
        return np.zeros(0)
    tail = np.broadcast_to(tail, outside.shape)
    ratio = np.exp(log_ratio + 0.25 * tail)  # in units of the noise level
    std = np.hypot(ratio, np.exp(0.25 * tail))

    # z = sinh(x): linear in the middle, logarithmic in the heavy tail. The variance of z is 1,
    # so Chebyshev's inequality (p <= 1 / (2 z^2) by symmetry) bounds the root from above.
    def excess(
        x: FloatArray, log_p: FloatArray, std: FloatArray, ratio: FloatArray, tail: FloatArray
    ) -> FloatArray:
        return log_normal.log_sf(np.sinh(x) * std, ratio, tail) - log_p

    bracket = (np.full(outside.shape, -1.0), np.arcsinh(1.0 / np.sqrt(2.0 * outside)))
    # Near 1/2 the root is 0, and a tolerance that is only relative is never met.
    root = elementwise.find_root(
        excess, bracket, args=(np.log(outside), std, ratio, tail), tolerances={"xatol": 1e-14}
    )
    z: FloatArray = np.sinh(root.x)
    return z


@dataclass(frozen=True, eq=False, repr=False)
class HeavyMixture(TargetDistribution):
    """An equal mixture of several predictive distributions with heavy tails: an ensemble's.

    Parameters
    ----------
    members : tuple of HeavyPredictive
        One or more, for the same rows and targets.

    Examples
    --------
    >>> from probprop import HeavyMixture, HeavyPredictive
    >>> members = [HeavyPredictive([mean], [0.0], 4.0, 2.0) for mean in (-3.0, 3.0)]
    >>> p = HeavyMixture(tuple(members))
    >>> p
    HeavyMixture(n=1, mean from 0 to 0, std from 5 to 5, n_components=2)
    >>> p.interval(0.9)[1].round(2)
    array([7.17])
    """

    members: tuple[HeavyPredictive, ...]

    def __post_init__(self) -> None:
        if not self.members or len({member.mean.shape for member in self.members}) > 1:
            raise ValueError(
                "'members' must be one or more distributions of the same rows. "
                f"Got shapes {[member.mean.shape for member in self.members]} instead."
            )

    @property
    def mean(self) -> FloatArray:
        """Mean of the target, in target units; (n,) or (n, K)."""
        mean: FloatArray = self._stacked("mean").mean(axis=0)
        return mean

    @property
    def std_model(self) -> FloatArray:
        """Standard deviation of the network output, by the law of total variance."""
        # hypot, because squares of targets near 1e-200 or 1e200 are outside the range of floats.
        within = np.hypot.reduce(self._stacked("std_model"), axis=0)
        between = np.hypot.reduce(self._stacked("mean") - self.mean, axis=0)
        std: FloatArray = np.hypot(within, between) / np.sqrt(len(self.members))
        return std

    @property
    def std_noise(self) -> FloatArray:
        """Root of the mean variance of the noise, in target units; (n,) or (n, K)."""
        total = np.hypot.reduce(self._stacked("std_noise"), axis=0)
        std: FloatArray = total / np.sqrt(len(self.members))
        return std

    def components(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self._stacked("mean"), self._stacked("std_model"), self._stacked("std_noise")

    def __repr__(self) -> str:
        words = moments_in_words(self.mean, self.std)
        return short_repr(self, *words, f"n_components={len(self.members)}")

    def __getitem__(self, rows: Rows) -> Self:
        return type(self)(tuple(member[rows] for member in self.members))

    def targets(self) -> list[Self]:
        each = zip(*(member.targets() for member in self.members), strict=True)
        return [type(self)(members) for members in each]

    def logpdf(self, y: ArrayLike) -> FloatArray:
        log_sum: FloatArray = logsumexp([member.logpdf(y) for member in self.members], axis=0)
        log_sum -= np.log(len(self.members))
        return log_sum

    def cdf(self, y: ArrayLike) -> FloatArray:
        cdf: FloatArray = np.mean([member.cdf(y) for member in self.members], axis=0)
        return cdf

    def quantile(self, q: ArrayLike) -> FloatArray:
        q = np.asarray(q, dtype=np.float64)
        check_open_range("q", "HeavyMixture.quantile", q, 0.0, 1.0)
        outside, sign = np.minimum(q, 1.0 - q), np.where(q < 0.5, 1.0, -1.0)
        found = [
            self._quantile(float(p), float(s)) for p, s in zip(outside.flat, sign.flat, strict=True)
        ]
        return np.reshape(found, (*q.shape, *self.mean.shape))

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        check_open_range("level", "HeavyMixture.interval", level, 0.0, 1.0)
        outside = 0.5 * (1.0 - level)
        return self._quantile(outside, 1.0), self._quantile(outside, -1.0)

    def sample(self, n_samples: int, random_state: int | RandomState | None = None) -> FloatArray:
        rng = check_random_state(random_state)
        n = len(self)
        at = rng.randint(len(self.members), size=(n_samples, n)), np.arange(n)
        names = ("mean", "std_model", "std_noise_median", "tail")
        mean, std_model, level, tail = (self._stacked(name)[at] for name in names)
        draws: FloatArray = mean + _errors(std_model, level, tail, mean.shape, rng)
        return draws

    def _stacked(self, name: str) -> FloatArray:
        """An attribute of every member, (S, n) or (S, n, K)."""
        return np.stack([getattr(member, name) for member in self.members])

    def _quantile(self, outside: float, sign: float) -> FloatArray:
        """The targets with probability `outside` below (sign 1) or above (sign -1) them."""
        centre, unit = self.mean.ravel(), self.std.ravel()
        rows = np.arange(centre.size)
        members = [member.flattened() for member in self.members]

        # The search is in u = (y - centre) / unit, and no y is formed before its end: far from 0
        # a float of y has fewer digits than u. The distributions are symmetric.
        def log_excess(u: FloatArray, rows: Any) -> FloatArray:
            distance = unit[rows] * u
            below = [
                m[rows].cdf_of_residual(sign * (distance - (m.mean[rows] - centre[rows])))
                for m in members
            ]
            log_ratio: FloatArray = np.log(np.mean(below, axis=0)) - np.log(outside)
            return log_ratio

        # The quantile lies between the smallest and the largest of the components' own.
        half_widths = [m.half_width(np.asarray(outside)) for m in members]
        own = [
            (m.mean - centre - sign * w) / unit for m, w in zip(members, half_widths, strict=True)
        ]
        low, high = np.min(own, axis=0), np.max(own, axis=0)
        margin = 1e-9 * (1.0 + np.maximum(np.abs(low), np.abs(high)))  # for the rounding
        root = elementwise.find_root(
            log_excess,
            (low - margin, high + margin),
            args=(rows,),
            tolerances={"xatol": _QUANTILE_ERROR},
        )
        quantile: FloatArray = (centre + unit * root.x).reshape(self.mean.shape)
        return quantile


def _errors(
    std_model: FloatArray,
    level: FloatArray,
    tail: FloatArray,
    shape: Sequence[int],
    rng: RandomState,
) -> FloatArray:
    """Draw the error of the model plus the noise."""
    model, noise, g = (rng.standard_normal(tuple(shape)) for _ in range(3))
    return std_model * model + level * np.exp(0.5 * np.sqrt(tail) * g) * noise
