"""A predictive distribution that is a mixture: the average over sampled networks.

Monte Carlo over the posterior, and ensembles, predict with the mean of S distributions,

    p(y) = 1/S sum_s N(y | means[s], stds_model[s]^2 + stds_noise[s]^2),

which need not be Gaussian or have one mode. The names are those of `Predictive`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import elementwise
from scipy.special import logsumexp, ndtr, ndtri
from sklearn.utils import check_random_state

from probprop._types import FloatArray
from probprop.predictive.checks import Rows, as_rows, check_moments, check_open_range
from probprop.predictive.gaussian import Predictive
from probprop.predictive.protocol import TargetDistribution
from probprop.predictive.words import moments_in_words, short_repr

IntArray = NDArray[np.intp]

_BLOCK_ENTRIES = 1 << 18  # terms held at a time: 2 MB per temporary array
_QUANTILE_ERROR = 1e-13  # in standard deviations of the mixture


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Mixture(TargetDistribution):
    """An equal mixture of S predictive distributions of the targets of n rows, each on its own.

    ``p[10:20]`` is the distribution of some rows, chosen by a slice, a mask or integers.

    Parameters
    ----------
    means : array-like of shape (S, n) or (S, n, K)
        Mean of the target in each component, in target units. Where there are K targets, each
        has a mixture of its own.
    stds_model : array-like of shape (S, n) or (S, n, K)
        Standard deviation of the network output inside each component, in target units;
        0 where a component is one network.
    stds_noise : float, or array-like with as many axes as means
        Standard deviation of the noise in each component, in target units; above 0. An array
        has the shape of means, or 1 in place of any of its axes: (S, 1) or (S, 1, K) is noise
        that does not depend on the row. Arrays of fewer axes raise an error, because their
        meaning would depend on whether S, n and K are equal. The attribute has the shape of means.

    Examples
    --------
    >>> from probprop import Mixture
    >>> p = Mixture([[-3.0, 10.0], [3.0, 10.0]], [[0.0, 0.0], [0.0, 0.0]], [[4.0], [4.0]])
    >>> p
    Mixture(n=2, mean from 0 to 10, std from 4 to 5, n_components=2)
    >>> p.mean, p.std_model, p.std
    (array([ 0., 10.]), array([3., 0.]), array([5., 4.]))
    >>> p.logpdf([0.0, 100.0]).round(2)
    array([  -2.59, -255.43])
    >>> lower, upper = p.interval(0.9)
    >>> upper.round(2)
    array([ 8.19, 16.58])
    """

    means: FloatArray
    stds_model: FloatArray
    stds_noise: FloatArray

    def __init__(self, means: ArrayLike, stds_model: ArrayLike, stds_noise: ArrayLike) -> None:
        means, stds_model = check_moments(("means", "stds_model"), means, stds_model, n_axes=2)
        noise = np.asarray(stds_noise, np.float64)
        same = all(a in (1, b) for a, b in zip(noise.shape, means.shape, strict=False))
        if len(means) == 0 or noise.ndim not in (0, means.ndim) or not same:
            raise ValueError(
                "'stds_noise' must have one value or more: a float, or an array with the axes of "
                "'means', of which any may be 1, so that there is one per component and target of "
                f"'means'. Got shapes {noise.shape} and {means.shape} instead."
            )
        check_open_range("stds_noise", "Mixture", noise, 0.0, np.inf)
        stds_noise = np.broadcast_to(noise, means.shape)
        vars(self).update(means=means, stds_model=stds_model, stds_noise=stds_noise)

    @classmethod
    def of(cls, members: Sequence[Predictive]) -> Self:
        """Return the equal mixture of Gaussians, the members of an ensemble.

        Parameters
        ----------
        members : sequence of Predictive
            One or more, for the same rows.

        Examples
        --------
        >>> from probprop import Mixture, Predictive
        >>> members = [Predictive([0.0, 1.0], [0.5, 0.5], noise, 6.0) for noise in (1.0, 2.0)]
        >>> Mixture.of(members).std_noise.round(4)
        array([1.5811, 1.5811])
        """
        noise = [p.std_noise for p in members]
        if all(a.strides[0] == 0 for a in noise):  # views of one value for all rows: no copies
            noise = [a[:1] for a in noise]
        means, stds_model = ([p.mean for p in members], [p.std_model for p in members])
        return cls(np.array(means), np.array(stds_model), np.array(noise))

    @property
    def mean(self) -> FloatArray:
        """Mean of the target, in target units; (n,) or (n, K)."""
        mean: FloatArray = self.means.mean(axis=0)
        return mean

    @property
    def std_model(self) -> FloatArray:
        """Standard deviation of the network output, in target units; (n,) or (n, K).

        The law of total variance: the mean of the components' variances plus the variance of
        their means.
        """
        # hypot, because squares of targets near 1e-200 or 1e200 are outside the range of floats.
        within = np.hypot.reduce(self.stds_model, axis=0)
        between = np.hypot.reduce(self.means - self.mean, axis=0)
        std: FloatArray = np.hypot(within, between) / np.sqrt(len(self.means))
        return std

    @property
    def std_noise(self) -> FloatArray:
        """Root of the mean variance of the noise, in target units; (n,) or (n, K)."""
        std: FloatArray = np.hypot.reduce(self.stds_noise, axis=0) / np.sqrt(len(self.stds_noise))
        return std

    def components(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.means, self.stds_model, self.stds_noise

    def __repr__(self) -> str:
        words = moments_in_words(self.mean, self.std)
        return short_repr(self, *words, f"n_components={len(self.means)}")

    def __getitem__(self, rows: Rows) -> Self:
        return self._at(as_rows(rows))

    def targets(self) -> list[Self]:
        if self.means.ndim == 2:
            return [self]
        return [self._at(slice(None), k) for k in range(self.means.shape[2])]

    def logpdf(self, y: ArrayLike) -> FloatArray:
        y, columns = self._broadcast(y)
        log_sum: FloatArray = np.full(columns.shape, -np.inf)
        # -inf is right beyond 1e154 standard deviations, and NaN for a missing target.
        with np.errstate(over="ignore", invalid="ignore"):
            for mean, std in self._blocks(columns):
                log_p = -0.5 * ((y.ravel() - mean) / std) ** 2 - np.log(std)
                log_sum = np.logaddexp(log_sum, logsumexp(log_p, axis=0))
        log_sum -= np.log(len(self.means)) + 0.5 * np.log(2.0 * np.pi)
        return log_sum.reshape(y.shape)

    def cdf(self, y: ArrayLike) -> FloatArray:
        y, columns = self._broadcast(y)
        total = np.zeros(columns.shape)
        with np.errstate(over="ignore"):
            for mean, std in self._blocks(columns):
                total += ndtr((y.ravel() - mean) / std).sum(axis=0)
        return total.reshape(y.shape) / len(self.means)

    def quantile(self, q: ArrayLike) -> FloatArray:
        q = np.asarray(q, dtype=np.float64)
        check_open_range("q", "Mixture.quantile", q, 0.0, 1.0)
        return self._quantile(np.minimum(q, 1.0 - q), np.where(q < 0.5, 1.0, -1.0))

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        check_open_range("level", "Mixture.interval", level, 0.0, 1.0)
        tail = np.full(2, 0.5 * (1.0 - level))
        lower, upper = self._quantile(tail, np.array([1.0, -1.0]))
        return lower, upper

    def sample(self, n_samples: int, random_state: int | RandomState | None = None) -> FloatArray:
        rng = check_random_state(random_state)
        n_components, n = self.means.shape[:2]
        component, row = rng.randint(n_components, size=(n_samples, n)), np.arange(n)
        std = np.hypot(self.stds_model[component, row], self.stds_noise[component, row])
        draws: FloatArray = self.means[component, row] + std * rng.standard_normal(std.shape)
        return draws

    def _at(self, *index: Any) -> Self:
        """The mixture of some of the entries of (n,) or (n, K), with all components."""
        at = slice(None), *index
        return type(self)(self.means[at], self.stds_model[at], self.stds_noise[at])

    def _broadcast(self, y: ArrayLike) -> tuple[FloatArray, IntArray]:
        """Return y broadcast against (n,), and the row of each of its flat entries.

        With K targets, n K rows: every target of every row.
        """
        rows = np.arange(self.means[0].size).reshape(self.means.shape[1:])
        y, columns = np.broadcast_arrays(np.asarray(y, dtype=np.float64), rows)
        return y, columns.ravel()

    def _blocks(self, columns: IntArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield means and standard deviations of block after block of components.

        Each has shape (block, len(columns)).
        """
        step = max(1, _BLOCK_ENTRIES // max(1, len(columns)))
        entries: tuple[Any, ...] = np.unravel_index(columns, self.means.shape[1:])
        for start in range(0, len(self.means), step):
            block = slice(start, start + step)
            mean, std_model = (
                a.reshape(len(a), self.means[0].size).take(columns, axis=1)
                for a in (self.means[block], self.stds_model[block])
            )
            std_noise = self.stds_noise[(block, *entries)]  # of a view, which reshape would copy
            std: FloatArray = np.hypot(std_model, std_noise, order="C")
            yield mean, std

    def _quantile(self, tail: FloatArray, sign: FloatArray) -> FloatArray:
        """The targets with probability `tail` below (sign 1) or above (sign -1) them.

        `tail` is at most 1/2; the shape of both, then (n,), is that of the result.
        """
        shape, n = (*tail.shape, *self.means.shape[1:]), self.means[0].size
        columns = np.tile(np.arange(n), tail.size)
        tail, sign = np.repeat(tail, n), np.repeat(sign, n)
        # The search is in u = (y - centre) / unit.
        centre, unit = self.mean.ravel(), self.std.ravel()

        def log_excess(
            u: FloatArray, tail: FloatArray, sign: FloatArray, columns: IntArray
        ) -> FloatArray:
            total = np.zeros(u.shape)
            for mean, std in self._blocks(columns):
                mean, std = (mean - centre[columns]) / unit[columns], std / unit[columns]
                total += ndtr(sign * (u - mean) / std).sum(axis=0)
            log_ratio: FloatArray = np.log(total / len(self.means)) - np.log(tail)
            return log_ratio

        # The quantile lies between the smallest and the largest of the components' own.
        low, high = np.full(columns.shape, np.inf), np.full(columns.shape, -np.inf)
        for mean, std in self._blocks(columns):
            own = (mean - centre[columns] + sign * ndtri(tail) * std) / unit[columns]
            low, high = np.minimum(low, own.min(axis=0)), np.maximum(high, own.max(axis=0))
        margin = 1e-9 * (1.0 + np.maximum(np.abs(low), np.abs(high)))  # for the rounding
        root = elementwise.find_root(
            log_excess,
            (low - margin, high + margin),
            args=(tail, sign, columns),
            tolerances={"xatol": _QUANTILE_ERROR},
        )
        quantiles: FloatArray = self.mean + self.std * root.x.reshape(shape)
        return quantiles
