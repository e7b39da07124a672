"""Moments of targets of which a transformation was predicted, and how they change with those of it.

A component is z = m + s u, u ~ N(0, 1), of whose variance the share rho is the model's. With the
normalised Hermite polynomials H_k and c_k = E[y H_k(u)] two targets that share the network output
but not the noise have the covariance (Mehler's formula)

    sum over k >= 1 of rho^k c_k^2,

the variance of E[y | network output]: the part of the model. All c_k come from one sum over u.
Derivatives are those of that sum: dy = y'(z) (dm + u ds).

The exact moments of a log-normal grow with exp(s^2), faster than any quantile, so one component of
a large s has moments that no target is near to. The moments of a mixture are therefore capped by
two points inside its own 99.99 % interval; see `Ends`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from probprop._types import Array, FloatArray
from probprop.predictive.box_cox import NO_POWER, BoxCox

_OUTSIDE = 5e-5  # probability beyond each end of the 99.99 % interval
_LARGEST = 0.5 * float(np.finfo(np.float64).max)  # half: the hypot of two parts must not overflow
_LARGEST_LOG = 340.0  # of y in units: with its square, the sums of derivatives are floats
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


class Ends(NamedTuple):
    """Two points inside the 99.99 % interval of a mixture of S transformed Gaussians.

    With j the least integer of at least S/100, and c the standard normal quantile with probability
    5e-5 S/j above it, `high` is the jth largest of g^-1(m + c s) over the components: j components
    have that probability above it each, so the mixture has 5e-5 or more. For up to 100 components,
    j is 1 and `high` is the maximum. `low` is its mirror image.

    Parameters
    ----------
    low, high : ndarray of shape (n,) or (n, K)
        In target units; at most half of the largest float.
    low_at, high_at : ndarray of int, shape (1, n) or (1, n, K)
        The components that attain them, as `numpy.take_along_axis` takes them.
    c : float
        In standard deviations of the components.
    """

    low: FloatArray
    high: FloatArray
    low_at: Array
    high_at: Array
    c: float


def ends_of(each: Moments, g: BoxCox) -> Ends:
    """Return the ends of the mixture of components of z, each of shape (S, n) or (S, n, K).

    Examples
    --------
    >>> import numpy as np
    >>> s = np.array([[3.0], [0.1]])
    >>> found = ends_of(Moments(np.zeros((2, 1)), 0.0 * s, s), BoxCox(power=0.0))
    >>> found.high.round(), found.high_at
    (array([70056.]), array([[0]]))
    """
    n = len(each.mean)
    j = -(-n // 100)
    c = float(-ndtri(_OUTSIDE * n / j))
    s = c * np.hypot(each.std_model, each.std_noise)

    def end(z: FloatArray, rank: int) -> tuple[FloatArray, Array]:
        at = np.argpartition(z, rank, axis=0)[rank : rank + 1]
        y = g.inverse(np.take_along_axis(z, at, axis=0)[0])
        return np.minimum(y, _LARGEST), at

    low, low_at = end(each.mean - s, j - 1)
    high, high_at = end(each.mean + s, n - j)
    return Ends(low, high, low_at, high_at, c)


def capped(exact: Moments, each: Moments, ends: Ends) -> Moments:
    """Return the moments of a mixture with the mean at most `high` and the std `high - low`.

    Parameters
    ----------
    exact : Moments
        Moments of the mixture, in target units; may be infinite.
    each : Moments
        Components of z: (S, n) or (S, n, K).
    ends : Ends

    Returns
    -------
    Moments
        Finite. If the standard deviation is capped, its two parts keep their ratio; if they are
        infinite, they have the ratio of the parts of z.
    """
    std = np.hypot(exact.std_model, exact.std_noise)
    z, most, finite = mixed(each), ends.high - ends.low, np.isfinite(std)
    model, noise = (
        np.where(finite, getattr(exact, k), getattr(z, k)) for k in ("std_model", "std_noise")
    )
    over = std > most
    factor = np.divide(most, np.hypot(model, noise), out=np.ones_like(most), where=over)
    return Moments(np.minimum(exact.mean, ends.high), model * factor, noise * factor)


def mixture_moments(each: Moments, g: BoxCox) -> Moments:
    """Return the capped moments of targets, given the components of z: (S, n) or (S, n, K).

    Examples
    --------
    >>> import numpy as np
    >>> s = np.array([[0.5, 30.0]])
    >>> mixture_moments(Moments(0.0 * s, 0.0 * s, s), BoxCox(power=0.0)).mean
    array([1.13314845e+00, 4.89640833e+50])
    """
    return capped(mixed(moments(*each, g)), each, ends_of(each, g))


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
    z = _gaussians(m, std_model, std_noise)
    found = _by_chunks(_moments, z, g, (3,))
    return Moments(*(g.unit * part.reshape(np.shape(m)) for part in found))


def slopes(
    m: FloatArray, std_model: FloatArray, std_noise: FloatArray, g: BoxCox
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return how `moments` change with m, with std_model and with std_noise.

    Parameters
    ----------
    m, std_model, std_noise : ndarray of one shape
        Of z = g(y).
    g : BoxCox

    Returns
    -------
    by_m, by_std_model, by_std_noise : ndarray of shape (3, ...)
        Derivatives of mean, std_model and std_noise, in target units per unit of z. A standard
        deviation of 0 has slope 0, and infinite moments have none: NaN. The cap of a mixture is
        not applied here.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.full(1, 0.5)
    >>> by_m, _, _ = slopes(np.zeros(1), s, s, BoxCox(power=0.0))
    >>> by_m[0], np.exp([0.25])  # that of an exponential
    (array([1.28402542]), array([1.28402542]))
    """
    z = _gaussians(m, std_model, std_noise)
    found = _by_chunks(_slopes, z, g, (3, 3))
    found = g.unit * np.where(np.isfinite(found), found, np.nan)
    by_m, by_s, by_rho = found.reshape(3, 3, *np.shape(m))
    s = np.hypot(std_model, std_noise)
    # s^2 = std_model^2 + std_noise^2 and rho = (std_model/s)^2.
    a, b = std_model / s, std_noise / s
    by_model = a * by_s + 2.0 * a * b**2 / s * by_rho
    by_noise = b * by_s - 2.0 * a**2 * b / s * by_rho
    return by_m, by_model, by_noise


class _Gaussians(NamedTuple):
    """Components z = m + s u; of s^2 the share rho is the model's. Shapes (n,)."""

    m: FloatArray
    s: FloatArray
    rho: FloatArray


def _gaussians(m: FloatArray, std_model: FloatArray, std_noise: FloatArray) -> _Gaussians:
    m, a, b = (np.asarray(part, np.float64).ravel() for part in (m, std_model, std_noise))
    s = np.hypot(a, b)
    return _Gaussians(m, s, (a / s) ** 2)


def _by_chunks(
    f: Callable[[_Gaussians, FloatArray, BoxCox], FloatArray],
    z: _Gaussians,
    g: BoxCox,
    shape: tuple[int, ...],
) -> FloatArray:
    """Return f, of such a shape for each component, with as many nodes u as each needs."""
    pull, found = _pull(z.m, z.s, g.power), np.empty((*shape, len(z.m)))
    for chunk, far in _chunks(np.minimum(pull, _FARTHEST - _REACH) + _REACH):
        u = np.linspace(-_REACH, far, int(np.ceil((far + _REACH) / _STEP)) + 1)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinite
            found[..., chunk] = f(_Gaussians(*(part[chunk] for part in z)), u, g)
    # The sums do not reach so far, or they would overflow.
    too_far = (pull > _FARTHEST - _REACH) & (1.0 + g.power * z.m > 0.0)
    found[..., too_far | (_log_y(z.m + _FARTHEST * z.s, g.power) > _LARGEST_LOG)] = np.inf
    return found


def _log_y(z: FloatArray, power: float) -> FloatArray:
    """Log of y, in units of g; -inf below the support."""
    if power <= NO_POWER:
        return z
    with np.errstate(divide="ignore"):
        log_y: FloatArray = np.log1p(power * np.maximum(z, -1.0 / power)) / power
    return log_y


class _Sums(NamedTuple):
    """Sums by the trapezoidal rule in u, in units of g."""

    y: FloatArray  # less its mean: (n, nodes)
    weights: FloatArray  # of 1 and of H_k: (nodes, 1 + coefficients)
    mean: FloatArray
    variance: FloatArray
    c: FloatArray  # (n, coefficients)
    rest: FloatArray  # of the variance, beyond the coefficients
    of_model: FloatArray  # of the variance


def _sums(z: _Gaussians, u: FloatArray, g: BoxCox) -> _Sums:
    w = np.exp(-0.5 * u * u)
    w /= w.sum()
    weights = w[:, np.newaxis] * _hermite(u)
    y = g.inverse(_nodes(z, u)) / g.unit
    mean = y @ w
    y -= mean[:, np.newaxis]
    variance, c = y**2 @ w, y @ weights[:, 1:]
    rest = np.maximum(0.0, variance - (c**2).sum(axis=1))
    of_model = (c**2 * _powers(z.rho)).sum(axis=1) + rest * z.rho ** (_N_COEFFICIENTS + 1)
    return _Sums(y, weights, mean, variance, c, rest, np.minimum(variance, of_model))


def _nodes(z: _Gaussians, u: FloatArray) -> FloatArray:
    """Return z at the nodes: (n, nodes)."""
    at: FloatArray = z.m[:, np.newaxis] + z.s[:, np.newaxis] * u
    return at


def _powers(rho: FloatArray) -> FloatArray:
    """rho^k of each coefficient: (n, coefficients)."""
    powers: FloatArray = rho[:, np.newaxis] ** np.arange(1, _N_COEFFICIENTS + 1)
    return powers


def _moments(z: _Gaussians, u: FloatArray, g: BoxCox) -> FloatArray:
    """Mean, std_model and std_noise, in units of g: (3, n)."""
    at = _sums(z, u, g)
    stds = np.sqrt([at.of_model, at.variance - at.of_model])
    return np.stack([at.mean, *np.where(np.isfinite(at.variance), stds, np.inf)])


def _slopes(z: _Gaussians, u: FloatArray, g: BoxCox) -> FloatArray:
    """Derivatives of these by m, s and rho: (3, 3, n)."""
    at, rho_k, rho_rest = _sums(z, u, g), _powers(z.rho), z.rho ** (_N_COEFFICIENTS + 1)
    found = []
    dy_dz = g.slope(_nodes(z, u)) / g.unit
    for dy in (dy_dz, dy_dz * u):
        # d(mean) falls out of d(variance), since y has the mean 0 here.
        dmean, *dc = (dy @ at.weights).T
        dvariance, dsquares = 2.0 * (at.y * dy) @ at.weights[:, 0], 2.0 * at.c * np.transpose(dc)
        drest = np.where(at.rest > 0.0, dvariance - dsquares.sum(axis=1), 0.0)
        found.append((dmean, dvariance, (dsquares * rho_k).sum(axis=1) + drest * rho_rest))
    k, zero = np.arange(1, _N_COEFFICIENTS + 1), np.zeros_like(z.rho)
    by_rho = (k * at.c**2 * z.rho[:, np.newaxis] ** (k - 1)).sum(axis=1)
    by_rho += (k[-1] + 1) * z.rho ** k[-1] * at.rest
    found.append((zero, zero, by_rho))
    std_model, std_noise = np.sqrt([at.of_model, at.variance - at.of_model])
    each = [
        (dmean, _half_over(dmodel, std_model), _half_over(dvariance - dmodel, std_noise))
        for dmean, dvariance, dmodel in found
    ]
    return np.array(each)


def _half_over(dvariance: FloatArray, std: FloatArray) -> FloatArray:
    """d(std) = d(std^2) / (2 std), and 0 where std is 0."""
    dstd: FloatArray = np.divide(0.5 * dvariance, std, out=np.zeros_like(std), where=std != 0.0)
    return dstd


def _hermite(u: FloatArray) -> FloatArray:
    """H_0 to H_30, normalised under N(0, 1), at u: (nodes, 31)."""
    polynomials = [np.ones_like(u), u]
    for k in range(1, _N_COEFFICIENTS):
        following = (u * polynomials[k] - np.sqrt(k) * polynomials[k - 1]) / np.sqrt(k + 1.0)
        polynomials.append(following)
    return np.stack(polynomials, axis=1)


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
