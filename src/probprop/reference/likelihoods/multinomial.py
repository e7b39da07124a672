"""The index of a class: that of the largest output once each has unit noise.

This is the multinomial probit. The outputs are independent Gaussians, so

    Z_c = integral of N(t | m_c, s_c^2) prod_{k != c} Phi((t - m_k)/s_k) dt,   s_k^2 = 1 + v_k.

Its integrand f is log-concave, but need not look like a Gaussian: a narrow Phi is a step in a
wide density. Yet (log f)'' increases with t: a step cuts off what is left of it and is 1 to the
right, so the scale on which f varies grows from left to right. Where f begins, at t = L, let
it be a. Then t = L + 8 a (exp(x) - 1) has steps of that scale everywhere, and the trapezoidal
rule in x converges geometrically.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, logsumexp

from probprop._types import Array, FloatArray
from probprop.reference.likelihoods.evidence import Evidence, Policy
from probprop.reference.normal import hazard

_DROP = 40.0  # at either end f is down by exp(-40) or more
_WIDEN = 8.0  # steps in t grow like a + (t - L)/8
_N_NODES = 192  # with s_k from 1 to 100 and 20 classes, x needs steps of 0.036 or less
_MAX_STEPS = 100  # of a search; ten are many


def log_Z_multinomial(m: FloatArray, v: FloatArray, c: int) -> Evidence:
    """Evaluate log Z_c of the module's docstring; c is the index of the class.

    >>> evidence = log_Z_multinomial(np.zeros(4), np.ones(4), c=2)
    >>> round(float(np.exp(evidence.log_Z)), 12)
    0.25
    """
    s = np.sqrt(1.0 + v)
    t, log_weight = _nodes(m, s, c)
    z = (t[:, np.newaxis] - m) / s  # (_N_NODES, K)
    log_terms = log_weight + _log_integrand(z, s, c)
    log_Z = logsumexp(log_terms)
    p = np.exp(log_terms - log_Z)  # sums to 1 over the nodes

    rate = _others(hazard(z), c) / s  # d log Phi(z_k)/dt
    dlogZ_dm = -(p @ rate)
    dlogZ_dv = -0.5 * (p @ (z * rate)) / s  # half the second derivative by m_k, over Z
    # The same for class c, integrated by parts: no cancellation where Z_c is near 1.
    total = rate.sum(axis=1)
    dlogZ_dm[c] = p @ total
    dlogZ_dv[c] = 0.5 * (p @ (z[:, c] * total)) / s[c]
    return Evidence(float(np.minimum(log_Z, 0.0)), dlogZ_dm, dlogZ_dv)


def class_log_probabilities(m: FloatArray, v: FloatArray) -> FloatArray:
    """Evaluate log Z_c for every row and class; all (n, K)."""
    s = np.sqrt(1.0 + v)
    log_p = np.empty_like(s)
    for c in range(m.shape[1]):
        t, log_weight = _nodes(m, s, c)  # (n, _N_NODES)
        z = (t[..., np.newaxis] - m[:, np.newaxis]) / s[:, np.newaxis]
        log_p[:, c] = logsumexp(log_weight + _log_integrand(z, s[:, np.newaxis], c), axis=-1)
    return np.minimum(log_p, 0.0)  # the rule's error must not lift p above 1


def class_log_probability(m: FloatArray, v: FloatArray, c: Array) -> FloatArray:
    """Evaluate log Z_c for every row and one class per row, c, (n,).

    >>> m = np.array([[0.0, 1.0, 3.0], [0.0, 0.0, 0.0]])
    >>> np.exp(class_log_probability(m, np.ones((2, 3)), np.array([2, 0]))).round(4)
    array([0.807 , 0.3333])
    """
    log_p: FloatArray = class_log_probabilities(m, v)[np.arange(len(c)), c]
    return log_p


def class_probabilities(m: FloatArray, v: FloatArray) -> FloatArray:
    """Evaluate Z_c, (n, K). Rows sum to 1 but for the error of the quadrature, below 1e-11.

    >>> class_probabilities(np.array([[0.0, 1.0, 3.0]]), np.ones((1, 3))).round(4)
    array([[0.0468, 0.1462, 0.807 ]])
    """
    return np.exp(class_log_probabilities(m, v))


def _others(x: FloatArray, c: int) -> FloatArray:
    """Zero the entries of class c, which is no factor of the product; x is (..., K)."""
    return np.where(np.arange(x.shape[-1]) == c, 0.0, x)


def _log_integrand(z: FloatArray, s: FloatArray, c: int) -> FloatArray:
    """Evaluate log f where (t - m)/s is z, (..., K), over the last axis."""
    log_f: FloatArray = _others(log_ndtr(z), c).sum(axis=-1)
    return log_f - 0.5 * z[..., c] ** 2 - np.log(math.sqrt(2.0 * math.pi) * s[..., c])


def _evaluate(
    t: FloatArray, m: FloatArray, s: FloatArray, c: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Evaluate log f, (log f)' and the scale 1/sqrt(-(log f)'') at t, (...,); m, s are (..., K)."""
    z = (t[..., np.newaxis] - m) / s
    ratio = _others(hazard(z), c)
    slope = (ratio / s).sum(axis=-1) - z[..., c] / s[..., c]
    curvature = (ratio * (ratio + z) / s**2).sum(axis=-1) + 1.0 / s[..., c] ** 2
    return _log_integrand(z, s, c), slope, 1.0 / np.sqrt(curvature)


def _nodes(m: FloatArray, s: FloatArray, c: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and log weights of the rule, (..., _N_NODES); m and s are (..., K)."""
    # f rises at m_c, and (log f)' is convex: Newton's iteration climbs and never passes the top.
    top = m[..., c]
    for _ in range(_MAX_STEPS):
        log_f_top, slope, scale = _evaluate(top, m, s, c)
        if np.all(slope * scale < 0.3):
            break
        top = top + slope * scale**2
    # q, with f/f(top) = exp(-q^2/2), is convex: Newton's iteration from far left stays left.
    far = math.sqrt(2.0 * _DROP)
    left = top - far * scale  # q is at least that of the Gaussian with this scale
    for _ in range(_MAX_STEPS):
        log_f, slope, scale = _evaluate(left, m, s, c)
        q = np.sqrt(2.0 * (log_f_top - log_f))
        if np.all(q < far + 1.0):
            break
        left = left + (q - far) * q / slope
    right = top + far * s[..., c]  # for (log f)'' < -1/s_c^2

    b = _WIDEN * scale[..., np.newaxis]
    x_right = np.log1p((right - left)[..., np.newaxis] / b)
    x = x_right * np.linspace(0.0, 1.0, _N_NODES)
    log_weight = np.log(b * x_right / (_N_NODES - 1)) + x
    return left[..., np.newaxis] + b * np.expm1(x), log_weight


MULTINOMIAL = Policy(
    "multinomial",
    False,
    False,
    lambda m, v, y, noise, tail=None: log_Z_multinomial(m, v, int(y[0])),
)  # its noise is 1
"""The multinomial probit as a `PointLikelihood`."""
