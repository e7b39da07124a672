"""The predictive distribution of targets of which a transformation was predicted.

Density, probabilities, quantiles and draws follow from those of z = g(y) exactly. Moments are
integrals over z. With heavy tails most of them do not exist: if the variance of log y is itself
log-normal, or log y Student-t, then E[y] is infinite, however small the tail. Moments are
therefore those of the Gaussian components with the same mean and variance of z, which agree up
to the second order in the standard deviation of z, and which the squared error wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.predictive.box_cox import BoxCox
from probprop.predictive.checks import Rows
from probprop.predictive.gaussian import Predictive
from probprop.predictive.heavy import HeavyMixture, HeavyPredictive
from probprop.predictive.mixture import Mixture
from probprop.predictive.protocol import TargetDistribution
from probprop.predictive.transformed_moments import Moments, mixture_moments
from probprop.predictive.words import moments_in_words, short_repr

Scaled = Predictive | HeavyPredictive | Mixture | HeavyMixture
"""A distribution of transformed targets."""


@dataclass(frozen=True, eq=False, repr=False)
class TransformedPredictive(TargetDistribution):
    """The predictive distribution of positive targets whose Box-Cox transforms were predicted.

    Above 0 there is a density; the probability that z lies below all transformed targets, if
    there is any, is that of a target of exactly 0. Thus a `cdf` may be above 0 at 0, lower ends of
    intervals are never below 0, and nothing is lost. ``p[10:20]`` is the distribution of some rows.

    `mean` and `std` are computed for Gaussian noise of the same variance of z: with heavy tails the
    logarithm of a target has noise under which the target has no finite mean. ``quantile(0.5)``,
    the median, is exact always. Under a logarithm, the moments of an uncertain prediction grow
    faster than any quantile: with a standard deviation of 10 of log(y), the mean is exp(50) times
    the median, and 99.99 % of the targets are below exp(39) times the median. The mean is therefore
    at most `high`, and the standard deviation at most `high` - `low`, where both ends lie inside
    the central 99.99 % interval. With S components (up to 100) that have means m and standard
    deviations s of z, and c the standard normal quantile with probability 5e-5 S above it, `high`
    is the largest g^-1(m + c s) and `low` the smallest g^-1(m - c s). `std_model` and `std_noise`
    are scaled down by the same factor. Means and standard deviations are always finite.

    Parameters
    ----------
    transformed : Predictive, HeavyPredictive, Mixture or HeavyMixture
        Of z = g(y).
    transformation : BoxCox
        The g of all targets.

    Examples
    --------
    >>> from probprop import BoxCox, Predictive, TransformedPredictive
    >>> log_y = Predictive([0.0, 2.0], [0.3, 0.3], 0.4, 6.0)
    >>> p = TransformedPredictive(log_y, BoxCox(power=0.0, unit=100.0))
    >>> p
    TransformedPredictive(n=2, mean from 113 to 837, std from 60.4 to 446, power=0)
    >>> lower, upper = p.interval(0.95)
    >>> lower.round(1), upper.round(1)
    (array([ 37.5, 277.3]), array([ 266.4, 1968.7]))
    >>> p.logpdf([100.0, -1.0]).round(3)
    array([-4.831,   -inf])
    """

    transformed: Scaled
    transformation: BoxCox

    @property
    def mean(self) -> FloatArray:
        """Mean of the target, in target units; (n,) or (n, K)."""
        return self._moments.mean

    @property
    def std_model(self) -> FloatArray:
        """Standard deviation of the mean of the target, given the network, in target units."""
        return self._moments.std_model

    @property
    def std_noise(self) -> FloatArray:
        """Root of the mean variance of the target, given the network, in target units."""
        return self._moments.std_noise

    @cached_property
    def _moments(self) -> Moments:
        return mixture_moments(Moments(*self.transformed.components()), self.transformation)

    def __repr__(self) -> str:
        words = moments_in_words(self.mean, self.std)
        return short_repr(self, *words, f"power={self.transformation.power:.3g}")

    def __len__(self) -> int:
        return len(self.transformed)

    def __getitem__(self, rows: Rows) -> Self:
        return type(self)(self.transformed[rows], self.transformation)

    def targets(self) -> list[Self]:
        each = self.transformed.targets()
        return [self] if each[0] is self.transformed else [self._of(one) for one in each]

    def _of(self, transformed: Scaled) -> Self:
        return type(self)(transformed, self.transformation)

    def logpdf(self, y: ArrayLike) -> FloatArray:
        y, outside = self._inside(np.asarray(y, np.float64))
        g = self.transformation
        log_p = self.transformed.logpdf(g.forward(y)) + g.log_jacobian(y)
        return np.where(outside, -np.inf, log_p)

    def cdf(self, y: ArrayLike) -> FloatArray:
        given = np.asarray(y, np.float64)
        y, outside = self._inside(given)
        at_zero: FloatArray | float = 0.0
        if self.transformation.power > 0.0 and outside.any():
            at_zero = self.transformed.cdf(np.full_like(given, self.transformation.lowest))
        below = np.where(given < 0.0, 0.0, at_zero)
        return np.where(outside, below, self.transformed.cdf(self.transformation.forward(y)))

    def quantile(self, q: ArrayLike) -> FloatArray:
        return self.transformation.inverse(self.transformed.quantile(q))

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        lower, upper = map(self.transformation.inverse, self.transformed.interval(level))
        return lower, upper

    def sample(self, n_samples: int, random_state: int | RandomState | None = None) -> FloatArray:
        return self.transformation.inverse(self.transformed.sample(n_samples, random_state))

    def _inside(self, y: FloatArray) -> tuple[FloatArray, Array]:
        """Return y with the unit in place of what is not above 0, and where that is."""
        outside = y <= 0.0
        return np.where(outside, self.transformation.unit, y), outside
