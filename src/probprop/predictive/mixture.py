"""A predictive distribution that is a mixture: the average over sampled networks.

Monte Carlo over the posterior, and ensembles, predict with the mean of S distributions,

    p(y) = 1/S sum_s N(y | means[s], stds_model[s]^2 + stds_noise[s]^2),

which need not be Gaussian or have one mode. The names are those of `Predictive`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import elementwise
from scipy.special import logsumexp, ndtr, ndtri
from sklearn.utils import check_random_state

from probprop._types import FloatArray
from probprop.inference.posterior import PerTarget
from probprop.predictive.gaussian import check_open_range

IntArray = NDArray[np.intp]

_BLOCK_ENTRIES = 1 << 18  # terms held at a time: 2 MB per temporary array
_QUANTILE_ERROR = 1e-13  # in standard deviations of the mixture


@dataclass(frozen=True, eq=False)
class Mixture:
    """An equal mixture of S predictive distributions of the targets of n rows, each on its own.

    Parameters
    ----------
    means : ndarray of shape (S, n) or (S, n, K)
        Mean of the target in each component, in target units. Where there are K targets, all
        shapes below end with K, and each target has a mixture of its own.
    stds_model : ndarray of shape (S, n) or (S, n, K)
        Standard deviation of the network output inside each component, in target units;
        0 where a component is one network.
    stds_noise : ndarray of shape (S,) or (S, K)
        Standard deviation of the noise in each component, in target units; above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop.predictive.mixture import Mixture
    >>> p = Mixture(np.array([[-3.0, 10.0], [3.0, 10.0]]), np.zeros((2, 2)), np.array([4.0, 4.0]))
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

    def __post_init__(self) -> None:
        if self.means.ndim not in (2, 3) or self.stds_model.shape != self.means.shape:
            raise ValueError(
                "'means' and 'stds_model' must be arrays of the same shape, (S, n) or (S, n, K). "
                f"Got shapes {self.means.shape} and {self.stds_model.shape} instead."
            )
        expected = self.means.shape[:1] + self.means.shape[2:]
        if self.stds_noise.shape != expected or self.stds_noise.size == 0:
            raise ValueError(
                "'stds_noise' must have one value or more, one per component and target of "
                f"'means'. Got shapes {self.stds_noise.shape} and {self.means.shape} instead."
            )
        bad = self.stds_model[~((self.stds_model >= 0.0) & (self.stds_model < np.inf))]
        if bad.size:
            raise ValueError(
                "'stds_model' must be an array with values in the range [0.0, inf). "
                f"Got {float(bad[0])} instead."
            )
        bad = self.stds_noise[~((self.stds_noise > 0.0) & (self.stds_noise < np.inf))]
        if bad.size:
            raise ValueError(
                "'stds_noise' must be an array with values in the range (0.0, inf). "
                f"Got {float(bad[0])} instead."
            )

    @property
    def mean(self) -> FloatArray:
        """Mean of the target, in target units; shape (n,)."""
        mean: FloatArray = self.means.mean(axis=0)
        return mean

    @property
    def std_model(self) -> FloatArray:
        """Standard deviation of the network output, in target units; shape (n,).

        The law of total variance: the mean of the components' variances plus the variance of
        their means.
        """
        # hypot, because squares of targets near 1e-200 or 1e200 are outside the range of floats.
        within = np.hypot.reduce(self.stds_model, axis=0)
        between = np.hypot.reduce(self.means - self.mean, axis=0)
        std: FloatArray = np.hypot(within, between) / np.sqrt(len(self.means))
        return std

    @property
    def std_noise(self) -> PerTarget:
        """Standard deviation of the noise, in target units: the root of its mean variance."""
        std: FloatArray = np.hypot.reduce(self.stds_noise, axis=0) / np.sqrt(len(self.stds_noise))
        return std if std.ndim else float(std)

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the target, noise included, in target units; shape (n,)."""
        std: FloatArray = np.hypot(self.std_model, self.std_noise)
        return std

    @property
    def var_model(self) -> FloatArray:
        """Variance of the network output, in target units squared; shape (n,)."""
        return self.std_model**2

    @property
    def var_noise(self) -> FloatArray:
        """Variance of the noise, in target units squared; shape (n,), the same in every row."""
        return np.full(self.means.shape[1:], np.square(self.std_noise))

    @property
    def var(self) -> FloatArray:
        """Variance of the target: var_model + var_noise; shape (n,)."""
        return self.var_model + self.var_noise

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Log density of targets, exact.

        Parameters
        ----------
        y : array_like, broadcasts against (n,)
            Targets, in target units.

        Returns
        -------
        ndarray
            Log density, per target unit, in the broadcast shape.

        Examples
        --------
        >>> import numpy as np
        >>> p = Mixture(np.array([[0.0], [4.0]]), np.zeros((2, 1)), np.array([2.0, 2.0]))
        >>> p.logpdf([[0.0], [2.0]]).round(4)
        array([[-2.1783],
               [-2.1121]])
        """
        y, columns = self._broadcast(y)
        log_sum: FloatArray = np.full(columns.shape, -np.inf)
        with np.errstate(over="ignore"):  # -inf is right beyond 1e154 standard deviations
            for mean, std in self._blocks(columns):
                log_p = -0.5 * ((y.ravel() - mean) / std) ** 2 - np.log(std)
                log_sum = np.logaddexp(log_sum, logsumexp(log_p, axis=0))
        log_sum -= np.log(len(self.means)) + 0.5 * np.log(2.0 * np.pi)
        return log_sum.reshape(y.shape)

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Probability of a target at or below y; accurate in the lower tail too.

        Parameters
        ----------
        y : array_like, broadcasts against (n,)
            Targets, in target units.

        Returns
        -------
        ndarray
            Probabilities, in the broadcast shape.

        Examples
        --------
        >>> import numpy as np
        >>> p = Mixture(np.array([[0.0], [4.0]]), np.zeros((2, 1)), np.array([2.0, 2.0]))
        >>> p.cdf([[2.0], [6.0]]).round(4)
        array([[0.5 ],
               [0.92]])
        """
        y, columns = self._broadcast(y)
        total = np.zeros(columns.shape)
        with np.errstate(over="ignore"):
            for mean, std in self._blocks(columns):
                total += ndtr((y.ravel() - mean) / std).sum(axis=0)
        return total.reshape(y.shape) / len(self.means)

    def quantile(self, q: ArrayLike) -> FloatArray:
        """The targets below which there is probability q.

        Parameters
        ----------
        q : float or array_like
            Probabilities, strictly between 0 and 1.

        Returns
        -------
        ndarray of shape q.shape + (n,)
            Quantiles, in target units.

        Examples
        --------
        >>> import numpy as np
        >>> p = Mixture(np.array([[0.0], [4.0]]), np.zeros((2, 1)), np.array([2.0, 2.0]))
        >>> p.quantile([0.1, 0.5]).round(2)
        array([[-1.7],
               [ 2. ]])
        """
        q = np.asarray(q, dtype=np.float64)
        check_open_range("q", " of Mixture.quantile", q, 0.0, 1.0)
        return self._quantile(np.minimum(q, 1.0 - q), np.where(q < 0.5, 1.0, -1.0))

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """The central interval that holds a target with probability `level`.

        Parameters
        ----------
        level : float, default=0.95
            Probability inside, strictly between 0 and 1; half of the rest is on each side.

        Returns
        -------
        lower, upper : ndarray of shape (n,)
            Ends of the interval, in target units.

        Examples
        --------
        >>> import numpy as np
        >>> p = Mixture(np.array([[0.0], [4.0]]), np.zeros((2, 1)), np.array([2.0, 2.0]))
        >>> lower, upper = p.interval(0.9)
        >>> lower.round(2), upper.round(2)
        (array([-2.57]), array([6.57]))
        """
        check_open_range("level", " of Mixture.interval", level, 0.0, 1.0)
        tail = np.full(2, 0.5 * (1.0 - level))
        lower, upper = self._quantile(tail, np.array([1.0, -1.0]))
        return lower, upper

    def sample(self, n_samples: int, random_state: int | RandomState | None = None) -> FloatArray:
        """Draw targets. Rows are drawn independently of each other.

        Parameters
        ----------
        n_samples : int
            Draws per row.
        random_state : int, RandomState instance or None, default=None
            Pass an int for the same draws in every call.

        Returns
        -------
        ndarray of shape (n_samples, n)
            Draws, in target units.

        Examples
        --------
        >>> import numpy as np
        >>> p = Mixture(np.array([[0.0], [4.0]]), np.zeros((2, 1)), np.array([2.0, 2.0]))
        >>> p.sample(3, random_state=0).shape
        (3, 1)
        """
        rng = check_random_state(random_state)
        n_components, n = self.means.shape[:2]
        component, row = rng.randint(n_components, size=(n_samples, n)), np.arange(n)
        std = np.hypot(self.stds_model[component, row], self.stds_noise[component])
        draws: FloatArray = self.means[component, row] + std * rng.standard_normal(std.shape)
        return draws

    def _broadcast(self, y: ArrayLike) -> tuple[FloatArray, IntArray]:
        """Return y in its shape against (n,), and which row each of its flat entries is of.

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
        for start in range(0, len(self.means), step):
            block = slice(start, start + step)
            mean, std_model = (
                a[block].reshape(-1, self.means[0].size).take(columns, axis=1)
                for a in (self.means, self.stds_model)
            )
            # Flat entries have their targets in turn.
            targets = self.stds_noise[block].reshape(len(mean), -1)
            std_noise = targets.take(columns % targets.shape[1], axis=1)
            std: FloatArray = np.hypot(std_model, std_noise)
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
