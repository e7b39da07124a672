"""A Gaussian whose noise has a log-normal variance: density and tail, of many entries at once.

In units of the noise level, with the model's variance v = ratio^2 and e^g the noise variance,

    p(z) = integral of N(z | 0, v + e^g) N(g | 0, tail) dg,

and with Phi(-z/sqrt(v + e^g)) in place of the density the probability beyond z. With
sigma = sqrt(tail) and g = sigma u the integrands are Gaussians in u times something smooth, which
a large z pulls to the right: by no more than the w/sigma with w e^w = tail z^2/2, where
log N(z | 0, e^g) - u^2/2 would be largest. The trapezoidal rule converges geometrically: the
steps follow the width of the integrand there, and the strip |Im g| < pi/2 in which it is tame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import lambertw, log_ndtr

from probprop._types import Array, FloatArray

_REACH = 9.0  # standard deviations of u on either side of the mass
_STEP = 0.5  # in widths of the integrand
_STEP_G = 0.35  # in g, for the strip
_LARGEST_Z = 1e150  # squares overflow beyond
_CHUNK = 1 << 18  # nodes held at a time: 2 MB per temporary array

_Term = Callable[[FloatArray, FloatArray], FloatArray]


def logpdf(z: FloatArray, ratio: FloatArray, tail: FloatArray) -> FloatArray:
    """Log density of z, in units of the noise level.

    Parameters
    ----------
    z : ndarray
        Residuals in units of the square root of the noise level.
    ratio : ndarray
        Standard deviation of the model in the same units.
    tail : ndarray
        Variance of the logarithm of the noise variance.

    Returns
    -------
    ndarray
        In the shape to which all three broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop.predictive.log_normal import logpdf
    >>> logpdf(np.array([0.0, 10.0]), np.zeros(1), np.array([[0.0], [2.0]])).round(4)
    array([[ -0.9189, -50.9189],
           [ -0.6689,  -7.9261]])
    """

    def log_density(z: FloatArray, std: FloatArray) -> FloatArray:
        log_p: FloatArray = -0.5 * (z / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
        return log_p

    return _log_integral(log_density, z, ratio, tail)


def log_sf(z: FloatArray, ratio: FloatArray, tail: FloatArray) -> FloatArray:
    """Log of the probability above z; the parameters are those of `logpdf`.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop.predictive.log_normal import log_sf
    >>> np.exp(log_sf(np.array([0.0, 2.0]), np.zeros(1), np.array([1.0]))).round(4)
    array([0.5   , 0.0504])
    """
    return _log_integral(lambda z, std: log_ndtr(-z / std), z, ratio, tail)


class _Entries(NamedTuple):
    """Entries as flat arrays, with the nodes of each: u from `left` in steps of `step`."""

    z: FloatArray
    v: FloatArray
    sigma: FloatArray
    left: FloatArray
    step: FloatArray
    n_nodes: Array


def _entries(z: FloatArray, ratio: FloatArray, tail: FloatArray) -> _Entries:
    sigma = np.sqrt(tail)
    far = np.minimum(np.abs(np.nan_to_num(z)), _LARGEST_Z)  # NaN is NaN in the sum
    w: FloatArray = lambertw(0.5 * (sigma * far) ** 2).real
    # tail z^2/2 = w e^w, so w/sigma is sigma z^2 e^-w/2, which is 0 for sigma = 0.
    pull = 0.5 * sigma * far * (far * np.exp(-w))
    # Nor does it exceed sigma times the steepest slope in g, (z^2/v + 1)/2: where the model's
    # variance is far above the noise's, that is much less.
    with np.errstate(divide="ignore", over="ignore"):
        steepest = 0.5 * ((np.maximum(far, 1.0) / ratio) ** 2 + 1.0)
    steepest = np.minimum(steepest, _LARGEST_Z)  # 0 for sigma = 0
    w, pull = np.minimum(w, tail * steepest), np.minimum(pull, sigma * steepest)
    # exp(-g/2), the density at 0, pulls to the left by sigma/2.
    left, right = -_REACH - 0.5 * sigma, _REACH + pull
    with np.errstate(divide="ignore"):
        step = np.minimum(_STEP / np.sqrt(1.0 + w), _STEP_G / sigma)
    n_nodes = np.ceil((right - left) / step).astype(np.intp) + 1
    return _Entries(z, ratio**2, sigma, left, (right - left) / (n_nodes - 1), n_nodes)


def _log_integral(term: _Term, z: FloatArray, ratio: FloatArray, tail: FloatArray) -> FloatArray:
    """Log of the integral of exp(term) N(g | 0, tail) over g; term takes z and a std."""
    arrays = np.broadcast_arrays(z, ratio, tail)
    entries = _entries(*(np.asarray(a, np.float64).ravel() for a in arrays))
    found = np.empty(entries.z.shape)
    with np.errstate(over="ignore"):  # -inf is right beyond 1e154 standard deviations
        for chunk in _chunks(entries.n_nodes):
            some = _Entries(*(a[chunk, np.newaxis] for a in entries))
            n = int(some.n_nodes.max())
            u = some.left + some.step * np.arange(n)
            log_f = term(some.z, np.sqrt(some.v + np.exp(some.sigma * u)))
            log_f += np.log(some.step) - 0.5 * (u * u + np.log(2.0 * np.pi))
            log_f[np.arange(n) >= some.n_nodes] = -np.inf
            found[chunk] = _logsumexp(log_f)
    return found.reshape(arrays[0].shape)


def _logsumexp(a: FloatArray) -> FloatArray:
    """Log of the sum of exp over the last axis; -inf if all are."""
    top = a.max(axis=-1)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        log_sum: FloatArray = shift + np.log(np.exp(a - shift[..., np.newaxis]).sum(axis=-1))
    return log_sum


def _chunks(n_nodes: Array) -> Iterator[Array]:
    """Yield entries with similar numbers of nodes, as many as fit."""
    order: Array = np.argsort(n_nodes)
    while len(order):
        fit = max(1, _CHUNK // int(n_nodes[order[-1]]))
        order, chunk = np.split(order, [max(0, len(order) - fit)])
        yield chunk
