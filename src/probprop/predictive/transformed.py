"""The predictive distribution of targets of which a transformation was predicted.

Density, probabilities, quantiles and draws follow from those of z = g(y) exactly. Moments are
integrals over z. With heavy tails most of them do not exist: if the variance of log y is itself
log-normal, or log y Student-t, then E[y] is infinite, however small the tail. Moments are
therefore those of the Gaussian components with the same mean and variance of z, which agree up
to the second order in the standard deviation of z, and which the squared error wants.

A component is z = m + s u, u ~ N(0, 1), of whose variance the share rho is the model's. With the
normalised Hermite polynomials H_k and c_k = E[y H_k(u)] two targets that share the network output
but not the noise have the covariance (Mehler's formula)

    sum over k >= 1 of rho^k c_k^2,

the variance of E[y | network output]: the part of the model. All c_k come from one sum over u.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

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
from probprop.predictive.words import moments_in_words, short_repr

Scaled = Predictive | HeavyPredictive | Mixture | HeavyMixture
"""A distribution of transformed targets."""

_REACH = 9.0  # standard deviations of u on either side of the mass
_FARTHEST = 38.0  # the density of u is 0 beyond
_STEP = 0.05  # of u; small for the sake of the kink at a target of 0
_N_COEFFICIENTS = 30
_CHUNK = 1 << 18  # nodes held at a time: 2 MB per temporary array


class Moments(NamedTuple):
    """Of targets, in target units."""

    mean: FloatArray
    std_model: FloatArray
    std_noise: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class TransformedPredictive(TargetDistribution):
    """The predictive distribution of positive targets whose Box-Cox transforms were predicted.

    Above 0 there is a density; the probability that z lies below all transformed targets, if
    there is any, is that of a target of exactly 0. Thus a `cdf` may be above 0 at 0, lower ends of
    intervals are never below 0, and nothing is lost. ``p[10:20]`` is the distribution of some rows.

    `mean` and `std` are those with Gaussian noise of the same variance of z: with heavy tails the
    logarithm of a target has noise under which the target has no finite mean. Without them they
    are exact. ``quantile(0.5)``, the median, is exact always. Where the model is so uncertain that
    a standard deviation has no meaning, some 15 standard deviations of the logarithm, it and the
    mean are infinite.

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
        return mixed(moments(*self.transformed.components(), self.transformation))

    def components(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Those of the transformed target, in target units."""
        return moments(*self.transformed.components(), self.transformation)

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


def mixed(each: Moments) -> Moments:
    """Return the moments of an equal mixture of the components along the first axis."""
    root_n = np.sqrt(len(each.mean))
    mean = each.mean.mean(axis=0)
    # An infinite mean has no deviations from it.
    deviations = np.where(np.isfinite(mean), each.mean - np.where(np.isfinite(mean), mean, 0), 0.0)
    within, noise = (np.hypot.reduce(std, axis=0) for std in (each.std_model, each.std_noise))
    std_model = np.hypot(within, np.hypot.reduce(deviations, axis=0)) / root_n
    return Moments(mean, std_model, noise / root_n)


def moments(m: FloatArray, std_model: FloatArray, std_noise: FloatArray, g: BoxCox) -> Moments:
    """Return the moments of targets whose z is m plus Gaussian model errors plus Gaussian noise.

    Parameters
    ----------
    m, std_model, std_noise : ndarray of one shape
        Of z = g(y).
    g : BoxCox

    Returns
    -------
    Moments
        In that shape.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.full(1, 0.5)
    >>> moments(np.zeros(1), s, s, BoxCox(power=0.0)).mean, np.exp([0.25])
    (array([1.28402542]), array([1.28402542]))
    """
    center, s = (np.asarray(a, np.float64).ravel() for a in (m, np.hypot(std_model, std_noise)))
    rho = (np.asarray(std_model, np.float64).ravel() / s) ** 2
    pull = _pull(center, s, g.power)
    found = np.empty((3, len(center)))
    for chunk, far in _chunks(np.minimum(pull, _FARTHEST - _REACH) + _REACH):
        u = np.linspace(-_REACH, far, int(np.ceil((far + _REACH) / _STEP)) + 1)
        found[:, chunk] = _sums(center[chunk], s[chunk], rho[chunk], u, g)
    # Squares of y would be above e^420 units there, and the sums do not reach so far.
    found[:, (pull > _FARTHEST - _REACH) & (1.0 + g.power * center > 0.0)] = np.inf
    return Moments(*(g.unit * part.reshape(np.shape(m)) for part in found))


def _sums(
    m: FloatArray, s: FloatArray, rho: FloatArray, u: FloatArray, g: BoxCox
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The moments, in units of g, by the trapezoidal rule in u; all shapes (n,)."""
    w = np.exp(-0.5 * u * u)
    w /= w.sum()
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinite
        y = g.inverse(m[:, np.newaxis] + s[:, np.newaxis] * u) / g.unit  # (n, nodes)
        mean = y @ w
        y -= mean[:, np.newaxis]
        variance = y**2 @ w
        squares = (y @ (w[:, np.newaxis] * _hermite(u))) ** 2  # (n, coefficients)
        k = np.arange(1, _N_COEFFICIENTS + 1)
        rest = np.maximum(0.0, variance - squares.sum(axis=1)) * rho ** (k[-1] + 1)
        of_model = np.minimum(variance, (squares * rho[:, np.newaxis] ** k).sum(axis=1) + rest)
        std_model, std_noise = np.sqrt(of_model), np.sqrt(variance - of_model)
    finite = np.isfinite(variance)
    return mean, np.where(finite, std_model, np.inf), np.where(finite, std_noise, np.inf)


def _hermite(u: FloatArray) -> FloatArray:
    """H_1 to H_30, normalised under N(0, 1), at u: (nodes, 30)."""
    polynomials = [np.ones_like(u), u]
    for k in range(1, _N_COEFFICIENTS):
        following = (u * polynomials[k] - np.sqrt(k) * polynomials[k - 1]) / np.sqrt(k + 1.0)
        polynomials.append(following)
    return np.stack(polynomials[1:], axis=1)


def _pull(m: FloatArray, s: FloatArray, power: float) -> FloatArray:
    """The u at which y^2 N(u | 0, 1) is largest.

    The root of 2 s = u (1 + power (m + s u)); without a power, of the log-normal, 2 s.
    """
    b = 1.0 + power * m
    with np.errstate(divide="ignore", over="ignore"):  # infinite far below the support
        pull: FloatArray = 4.0 * s / (b + np.sqrt(b * b + 8.0 * power * s * s))
    return pull


def _chunks(far: FloatArray) -> Iterator[tuple[Array, float]]:
    """Yield entries whose nodes end alike, as many as fit, and where the nodes end."""
    order: Array = np.argsort(far)
    while len(order):
        last = float(far[order[-1]])
        fit = max(1, int(_CHUNK * _STEP / (last + _REACH)))
        order, chunk = np.split(order, [max(0, len(order) - fit)])
        yield chunk, last
