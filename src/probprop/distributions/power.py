"""Positive targets behind a Box-Cox transformation: the transformation, distribution, moments.

    z = g(y) = ((y/unit)^power - 1) / power,    log(y/unit) for power 0.

Powers lie between 0, the logarithm, and 1, which is a shift and a unit. Powers below 0 are left
out: they map all targets below a finite z, and a Gaussian above it would be a target at infinity.

Density, probabilities, quantiles and draws follow from the distribution of z exactly. Moments are
integrals over z; cpp/power.hpp has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.special import boxcox, inv_boxcox, ndtri

from probprop import _kernel
from probprop._types import Array, FloatArray
from probprop.distributions import base
from probprop.distributions.base import Moments, Rows, TargetDistribution
from probprop.distributions.mixture import Mixture

_NO_POWER = 1e-18  # products with smaller powers may lose digits, and it is the logarithm anyway
_OUTSIDE, _LEAST_WEIGHT = 5e-5, 0.01  # of the ends that cap moments; see `ends_of`
_LARGEST = 0.5 * float(np.finfo(np.float64).max)  # half: the hypot of two parts must not overflow


@dataclass(frozen=True)
class BoxCox:
    """A transformation of positive targets.

    Parameters
    ----------
    power : float
        Between 0, the logarithm, and 1.
    unit : float, default=1.0
        The target that becomes 0, in target units; above 0.

    Examples
    --------
    >>> g = BoxCox(power=0.5, unit=100.0)
    >>> g.forward([100.0, 400.0]), g.inverse([0.0, 2.0]), g.inverse(-3.0)
    (array([0., 2.]), array([100., 400.]), np.float64(0.0))
    """

    power: float
    unit: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.power <= 1.0:
            raise ValueError(
                "The 'power' parameter of BoxCox must be a float in the range [0.0, 1.0]. "
                f"Got {self.power} instead."
            )
        base.check_range("unit", "BoxCox", self.unit, 0.0, np.inf)

    @property
    def lowest(self) -> float:
        """The z of a target of 0: -1/power, or minus infinity."""
        return -1.0 / self.power if self.power else -np.inf

    def forward(self, y: ArrayLike) -> FloatArray:
        """Return z = g(y) of targets, 0 or more, in target units."""
        z: FloatArray = boxcox(np.asarray(y, np.float64) / self.unit, self.power)
        return z

    def inverse(self, z: ArrayLike) -> FloatArray:
        """Return targets, in target units. What lies below `lowest` is a target of 0.

        Targets beyond the largest float are infinite.
        """
        z = np.maximum(np.asarray(z, np.float64), self.lowest)
        with np.errstate(over="ignore"):
            y: FloatArray = inv_boxcox(z, self.power if self.power > _NO_POWER else 0.0)
            return self.unit * y

    def slope(self, z: ArrayLike) -> FloatArray:
        """Return dy/dz, in target units; 0 below `lowest`, where the target stays 0."""
        y = self.inverse(z)
        with np.errstate(over="ignore"):
            slope: FloatArray = self.unit * (y / self.unit) ** (1.0 - self.power)
        return np.where(y > 0.0, slope, 0.0)

    def log_jacobian(self, y: ArrayLike) -> FloatArray:
        """Return log(dz/dy) of targets above 0, per target unit."""
        log_y: FloatArray = np.log(np.asarray(y, np.float64) / self.unit)
        log_slope: FloatArray = (self.power - 1.0) * log_y - np.log(self.unit)
        return log_slope


def box_cox_of(y: Array, power: float) -> BoxCox:
    """Return the transformation with that power whose unit is the geometric mean of targets."""
    bad = y[~(y > 0.0)]
    if bad.size:
        raise ValueError(
            "A Box-Cox transformation takes targets above 0. "
            f"Got {float(bad[0])}, and {bad.size} of {y.size} such targets. Leave the targets as "
            "they are, or shift them."
        )
    return BoxCox(float(power), float(np.exp(np.log(y).mean())))


@dataclass(frozen=True, eq=False, repr=False)
class TransformedMixture(TargetDistribution):
    """The predictive distribution of positive targets whose Box-Cox transforms were predicted.

    Above 0 there is a density; the probability that z lies below all transformed targets is the
    probability of a target of exactly 0. Lower ends of intervals are never below 0.

    `mean` and the standard deviations are moments with Gaussian noise of the same variance of z:
    with heavy tails the logarithm of a target has noise under which the target has no finite mean.
    Under a logarithm they grow faster than any quantile, so they are capped by two points inside
    the 99.99 % interval, see `ends_of`: the mean by the upper one, `std` by their distance. They
    are always finite. `median` and all quantiles are exact. In the CRPS, with heavy tails, targets
    above the quantile 0.99995 count as that quantile; without heavy tails it is exact.

    Parameters
    ----------
    transformed : Mixture
        Distribution of z = g(y).
    transformation : BoxCox
        The g of all targets.

    Examples
    --------
    >>> log_y = Mixture.of_one([0.0, 2.0], [0.3, 0.3], 0.4)
    >>> p = TransformedMixture(log_y, BoxCox(power=0.0, unit=100.0))
    >>> p
    TransformedMixture(n=2, mean from 113 to 837, std from 60.4 to 446, power=0)
    >>> lower, upper = p.interval(0.95)
    >>> lower.round(1), upper.round(1)
    (array([ 37.5, 277.3]), array([ 266.4, 1968.7]))
    >>> p.logpdf([100.0, -1.0]).round(3), p.crps([100.0, 1000.0]).round(2)
    (array([-4.831,   -inf]), array([ 12.08, 153.44]))
    """

    transformed: Mixture
    transformation: BoxCox

    @cached_property
    def _moments(self) -> Moments:
        z = self.transformed
        each = Moments(z.means, z.epistemic_stds, z.aleatoric_stds)
        exact = mixed(moments(each, self.transformation), z.weights)
        return capped(exact, mixed(each, z.weights), *ends_of(each, z.weights, self.transformation))

    def __repr__(self) -> str:
        words = base.moments_in_words(self.mean, self.std)
        return base.short_repr(self, *words, f"power={self.transformation.power:.3g}")

    def __len__(self) -> int:
        return len(self.transformed)

    def __getitem__(self, rows: Rows) -> Self:
        return type(self)(self.transformed[rows], self.transformation)

    def targets(self) -> list[Self]:
        if self.transformed.means.ndim == 2:
            return [self]
        return [type(self)(one, self.transformation) for one in self.transformed.targets()]

    def logpdf(self, y: ArrayLike) -> FloatArray:
        g, y = self.transformation, np.asarray(y, np.float64)
        outside = y <= 0.0
        inside = np.where(outside, g.unit, y)
        log_p = self.transformed.logpdf(g.forward(inside)) + g.log_jacobian(inside)
        return np.where(outside, -np.inf, log_p)

    def cdf(self, y: ArrayLike) -> FloatArray:
        y = np.asarray(y, np.float64)
        z = self.transformation.forward(np.maximum(y, 0.0))
        return np.where(y < 0.0, 0.0, self.transformed.cdf(z))

    def ppf(self, q: ArrayLike) -> FloatArray:
        return self.transformation.inverse(self.transformed.ppf(q))

    def interval(self, coverage: ArrayLike = 0.95) -> tuple[FloatArray, FloatArray]:
        lower, upper = map(self.transformation.inverse, self.transformed.interval(coverage))
        return lower, upper

    def rvs(self, size: int, random_state: int | RandomState | None = None) -> FloatArray:
        return self.transformation.inverse(self.transformed.rvs(size, random_state))

    def crps(self, y: ArrayLike) -> FloatArray:
        g, y = self.transformation, np.asarray(y, np.float64)
        z = g.forward(np.maximum(y, 0.0))
        return np.asarray(g.unit * self.transformed.crps_behind(z, g.power) + np.maximum(-y, 0.0))


# ---- Moments


def mixed(each: Moments, weights: FloatArray) -> Moments:
    """Return the moments of a mixture of the components along the first axis."""
    if not weights.all():  # components of weight 0 may have infinite moments
        each, weights = Moments(*(part[weights > 0.0] for part in each)), weights[weights > 0.0]
    mean = base.average(each.mean, weights)
    # An infinite mean has no deviations from it.
    deviations = np.where(np.isfinite(mean), each.mean - np.where(np.isfinite(mean), mean, 0), 0.0)
    parts = (each.epistemic_std, deviations), (each.aleatoric_std,)
    return Moments(mean, *(base.root_mean_square(part, weights) for part in parts))


def ends_of(z: Moments, weights: FloatArray, g: BoxCox) -> tuple[FloatArray, FloatArray]:
    """Return two points inside the 99.99 % interval of a mixture of components z, in target units.

    A component of weight w ends where it has probability 5e-5/max(w, 0.01) beyond. The upper point
    is the highest end that components of weight 0.01 or more together reach, so that the mixture
    has probability 5e-5 or more above it; the lower one is the mirror image. Neither exceeds half
    of the largest float.
    """
    c: FloatArray = -ndtri(_OUTSIDE / np.maximum(weights, _LEAST_WEIGHT))
    reach = c.reshape(-1, *(1,) * (z.mean.ndim - 1)) * np.hypot(*z[1:])

    def end(sign: float) -> FloatArray:
        at_z = z.mean + sign * reach
        order = np.argsort(-sign * at_z, axis=0)
        enough = np.cumsum(weights[order], axis=0) >= (1.0 - 1e-9) * _LEAST_WEIGHT
        at = np.take_along_axis(order, enough.argmax(axis=0)[np.newaxis], axis=0)
        return np.minimum(g.inverse(np.take_along_axis(at_z, at, axis=0)[0]), _LARGEST)

    return end(-1.0), end(1.0)


def capped(exact: Moments, z: Moments, low: FloatArray, high: FloatArray) -> Moments:
    """Return moments of a mixture with the mean at most `high` and the std `high` - `low`.

    A standard deviation that is capped keeps the ratio of its two parts; if they are infinite, they
    have the ratio of the parts of z, the moments of the mixture of transformed targets.
    """
    std, most = np.hypot(*exact[1:]), high - low
    finite = np.isfinite(std)
    parts = [np.where(finite, of_y, of_z) for of_y, of_z in zip(exact[1:], z[1:], strict=True)]
    factor = np.divide(most, np.hypot(*parts), out=np.ones_like(most), where=std > most)
    return Moments(np.minimum(exact.mean, high), *(factor * part for part in parts))


def moments(z: Moments, g: BoxCox) -> Moments:
    """Return the moments of targets whose z has a Gaussian model error and Gaussian noise.

    They have the shape of the moments of z and are in target units; those that exceed the range of
    floats are infinite.

    >>> s = np.full(1, 0.5)
    >>> moments(Moments(np.zeros(1), s, s), BoxCox(power=0.0)).mean, np.exp([0.25])
    (array([1.28402542]), array([1.28402542]))
    """
    m, a, b = (np.ascontiguousarray(part, np.float64).ravel() for part in z)
    found = g.unit * _kernel.power_moments(m, a, b, g.power)
    return Moments(*found.reshape(len(found), *z.mean.shape))
