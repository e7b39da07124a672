"""The likelihoods: log Z of one point, and its derivatives by the moments of the outputs.

The K outputs are independent Gaussians with means m and variances v, (K,) each. A target is a
value per output (`GAUSSIAN`, `HEAVY`), +1 or -1 per output (`PROBIT`), the index of the output
that is the largest once each has unit noise (`MULTINOMIAL`), or a residual per output, whose noise
has the output as the logarithm of its variance (`SCALE`). The kernel has them in
``cpp/likelihoods``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import erfcx, log_ndtr, logsumexp

from probprop._types import Array, FloatArray
from probprop.reference.gamma import (
    gamma_moments_by_quadrature,
    gamma_update,
    increments_of,
    is_sound_update,
)
from probprop.reference.scale_mixture import scale_mixture


class Evidence(NamedTuple):
    """log Z of one point, with its derivatives by the moments of the outputs.

    Where the noise has a tail, also those by the logarithm of its level and by the tail.
    """

    log_Z: float
    dlogZ_dm: FloatArray  # (K,)
    dlogZ_dv: FloatArray  # (K,)
    dlogZ_dlevel: FloatArray | None = None  # (K,)
    dlogZ_dtail: FloatArray | None = None  # (K,)


LogZ = Callable[..., Evidence]


class PointLikelihood(Protocol):
    """What an ADF pass needs from a likelihood."""

    @property
    def name(self) -> str:
        """Its name in the kernel."""

    @property
    def learns_noise(self) -> bool:
        """Whether points update the Gammas of the noise precisions."""

    @property
    def weights_divide_noise(self) -> bool:
        """Whether a point of weight w has the noise variance over w; else w is its power."""

    @property
    def log_Z(self) -> LogZ:
        """Evaluate log Z of one point with its derivatives, of m, v, y, noise_variance and tail.

        m and v, (K,), are the moments of the outputs; y is (K,), or (1,) for the index of a class,
        or (3 K,) for residuals; `noise_variance` is (K,), or (1,) where the noise is fixed; `tail`,
        (K,), are variances of the logarithm of the noise variance, None is 0.
        """


class Policy(NamedTuple):
    """A likelihood as a `PointLikelihood`."""

    name: str
    learns_noise: bool
    weights_divide_noise: bool
    log_Z: LogZ


# ---- Gaussian: a value per output, with noise whose precision is learned: [PBP15] Eq. (1)


def log_Z_gaussian(
    m: FloatArray, v: FloatArray, y: FloatArray, noise_variance: FloatArray
) -> Evidence:
    """Evaluate the sum of log N(y_k | m_k, v_k + noise_variance_k), [PBP15] Eq. (12).

    >>> evidence = log_Z_gaussian(np.zeros(1), np.array([0.75]), np.ones(1), np.array([0.25]))
    >>> round(evidence.log_Z, 6), evidence.dlogZ_dm, evidence.dlogZ_dv
    (-1.418939, array([1.]), array([0.]))
    """
    residual = y - m
    v_total = v + noise_variance
    dlogZ_dm = residual / v_total
    return Evidence(
        log_Z=float(-0.5 * (np.log(2.0 * math.pi * v_total) + residual * dlogZ_dm).sum()),
        dlogZ_dm=dlogZ_dm,
        dlogZ_dv=0.5 * (dlogZ_dm * dlogZ_dm - 1.0 / v_total),
    )


GAUSSIAN = Policy(
    "gaussian", True, True, lambda m, v, y, noise, tail=None: log_Z_gaussian(m, v, y, noise)
)
"""The Gaussian as a `PointLikelihood`."""


# ---- Heavy: a value per output, with noise that is a mixture of Gaussians of all scales
#
# The logarithm g of the noise variance of a point is N(log level, tail), where the level is
# beta/(alpha - 1) of the noise precision's Gamma, and
#
#     Z = integral of N(y | m, v + e^g) N(g | log level, tail) dg.
#
# An outlier is a point with a large g: it moves neither the weights nor the level by much. With
# tail 0 the noise is Gaussian. The tail is learned once per epoch, by `learned_tail`.


LARGEST_TAIL = 4.0
"""No tail grows beyond this: the noise variance then has a mean e^2 times its level."""

EXPAND_ABOVE = 40.0
"""Up to this alpha log Z is integrated at the levels of Z1 and Z2 too; above, expanded."""


def log_Z_heavy(
    m: FloatArray, v: FloatArray, y: FloatArray, level: FloatArray, tail: FloatArray | None = None
) -> Evidence:
    """Evaluate the sum of log Z over the outputs, by the integral above; None as tail is 0.

    >>> outlier = [np.zeros(1), np.array([0.75]), np.array([10.0]), np.array([0.25])]
    >>> [round(log_Z_heavy(*outlier, np.array([tail])).log_Z, 2) for tail in (0.0, 2.0)]
    [-50.92, -10.49]
    """
    tail = np.zeros(len(m)) if tail is None else tail
    points = [
        scale_mixture(float(d), float(v_k), math.log(level_k), float(tail_k))
        for d, v_k, level_k, tail_k in zip(y - m, v, level, tail, strict=True)
    ]
    log_Z, d_level, d_tail, d_m, d_v = (np.array(column) for column in zip(*points, strict=True))
    finite = bool(np.isfinite([d_v, d_tail]).all())
    return Evidence(float(log_Z.sum()) if finite else math.nan, d_m, d_v, d_level, d_tail)


def heavy_gamma_update(
    alpha: float, beta: float, d: float, v: float, tail: float, d_level: float, d_tail: float
) -> tuple[float, float, bool]:
    """Update the Gamma of the noise precision, [PBP15] Eqs. (9) and (10), where tail > 0.

    Z, Z1 and Z2 differ in the level only: beta/(alpha - 1), beta/alpha, beta/(alpha + 1). The
    residual is d, and v the variance without the noise. `d_level` and `d_tail` are derivatives of
    log Z by log(level) and by the tail; the second one by log(level) is 2 d_tail - d_level^2.
    Returns alpha_new, beta_new, and whether they come from a quadrature over the precision.
    """
    if alpha <= EXPAND_ABOVE:
        log_Z = [
            scale_mixture(d, v, math.log(beta / (alpha - 1.0 + j)), tail).log_Z for j in range(3)
        ]
        first = log_Z[1] - log_Z[0]
        second = (log_Z[2] - log_Z[1]) - first
    else:
        t1, t2 = -math.log1p(1.0 / (alpha - 1.0)), -math.log1p(2.0 / (alpha - 1.0))
        half_curvature = d_tail - 0.5 * d_level * d_level
        first = d_level * t1 + half_curvature * t1 * t1
        second = d_level * math.log1p(1.0 / ((alpha - 1.0) * (alpha + 1.0)))
        second += half_curvature * (t2 * t2 - 2.0 * t1 * t1)
    delta_alpha, delta_beta = increments_of(alpha, beta, first, second)
    # tail d_level is how far the point moves the mean of its log noise variance: in units of
    # that noise it is a point with Gaussian noise.
    unit = math.exp(-tail * d_level)
    d2 = d * d * unit
    if is_sound_update(alpha, beta, d2, alpha + delta_alpha, beta + delta_beta):
        return alpha + delta_alpha, beta + delta_beta, False
    return *gamma_moments_by_quadrature(alpha, beta, d2, v * unit), True


def learned_tail(tail: FloatArray, d_tail: FloatArray, rate: float) -> FloatArray:
    """Return the tails, (K,), after a step on the mean of log Z; from 0 to `LARGEST_TAIL`.

    `d_tail`, (K,), is the mean over the points of the derivatives of log Z by the tails. A rate of
    1 is a whole step: the slope times 2 (1 + tail)^2, the inverse of the Fisher information of the
    variance of a Gaussian that is 1 + tail.
    """
    moved = tail + rate * (2.0 * (1.0 + tail) * (1.0 + tail) * d_tail)
    return np.clip(moved, 0.0, LARGEST_TAIL)


HEAVY = Policy("heavy", True, True, log_Z_heavy)
"""Noise with heavy tails as a `PointLikelihood`."""


# ---- Probit: a label of +1 or -1 per output, its sign once it has unit noise


def hazard(z: FloatArray) -> FloatArray:
    """phi(z)/Phi(z), by the Mills ratio: no digits are lost in either tail.

    >>> hazard(np.array([-40.0, 0.0])).round(6)
    array([40.024969,  0.797885])
    """
    ratio: FloatArray = math.sqrt(2.0 / math.pi) / erfcx(-z / math.sqrt(2.0))
    return ratio


def log_Z_probit(m: FloatArray, v: FloatArray, y: FloatArray) -> Evidence:
    """Evaluate the sum of log Phi(y_k m_k/sqrt(1 + v_k)), with y_k +1 or -1.

    >>> evidence = log_Z_probit(np.zeros(1), np.ones(1), np.ones(1))
    >>> round(float(np.exp(evidence.log_Z)), 12)
    0.5
    """
    s = np.sqrt(1.0 + v)
    z = y * m / s
    rate = hazard(z) / s
    return Evidence(log_Z=float(log_ndtr(z).sum()), dlogZ_dm=y * rate, dlogZ_dv=-0.5 * z * rate / s)


PROBIT = Policy(
    "probit", False, False, lambda m, v, y, noise, tail=None: log_Z_probit(m, v, y)
)  # its noise is 1
"""Probits as a `PointLikelihood`."""


# ---- Multinomial: the index of a class, of the largest output once each has unit noise
#
# This is the multinomial probit. The outputs are independent Gaussians, so
#
#     Z_c = integral of N(t | m_c, s_c^2) prod_{k != c} Phi((t - m_k)/s_k) dt,   s_k^2 = 1 + v_k.
#
# Its integrand f is log-concave, but need not look like a Gaussian: a narrow Phi is a step in a
# wide density. Yet (log f)'' increases with t: a step cuts off what is left of it and is 1 to the
# right, so the scale on which f varies grows from left to right. Where f begins, at t = L, let
# it be a. Then t = L + 8 a (exp(x) - 1) has steps of that scale everywhere, and the trapezoidal
# rule in x converges geometrically.


_DROP = 40.0  # at either end f is down by exp(-40) or more
_WIDEN = 8.0  # steps in t grow like a + (t - L)/8
_N_NODES = 192  # with s_k from 1 to 100 and 20 classes, x needs steps of 0.036 or less
_MAX_STEPS = 100  # of a search; ten are many


def log_Z_multinomial(m: FloatArray, v: FloatArray, c: int) -> Evidence:
    """Evaluate log Z_c, the integral above; c is the index of the class.

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


def _others(x: FloatArray, c: int) -> FloatArray:
    """Zero the entries of class c, which is not in the product; x is (..., K)."""
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
    left = top - far * scale  # q is at least the Gaussian's q with this scale
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


# ---- Scale: a residual per output, which is the logarithm of its noise variance over a level


def log_Z_scale(
    m: FloatArray, v: FloatArray, y: FloatArray, tail: FloatArray | None = None
) -> Evidence:
    """Evaluate the sum of log Z_k, with the noise variance level_k exp(h_k), h_k ~ N(m_k, v_k).

    y, (3 K,), has residuals, then variances of their means, then levels, (K,) each. A level is the
    noise variance where the output is 0. The tail adds to v: what no output explains. log Z is NaN
    where the integral or a derivative is not finite.

    >>> large = log_Z_scale(np.zeros(1), np.full(1, 0.5), np.array([3.0, 0.1, 1.0]))
    >>> small = log_Z_scale(np.zeros(1), np.full(1, 0.5), np.array([0.1, 0.1, 1.0]))
    >>> large.dlogZ_dm.round(3), small.dlogZ_dm.round(3)
    (array([1.577]), array([-0.431]))
    """
    total = v if tail is None else v + tail
    parts = [
        scale_mixture(float(d), float(d_var), math.log(level) + float(mean), float(var))
        for d, d_var, level, mean, var in zip(*y.reshape(3, -1), m, total, strict=True)
    ]
    dlogZ_dv = np.array([part.dlogZ_dvar for part in parts])
    return Evidence(
        log_Z=sum(part.log_Z for part in parts) if np.isfinite(dlogZ_dv).all() else math.nan,
        dlogZ_dm=np.array([part.dlogZ_dmu for part in parts]),
        dlogZ_dv=dlogZ_dv,
        dlogZ_dtail=dlogZ_dv,
    )


SCALE = Policy("scale", False, False, lambda m, v, y, noise, tail=None: log_Z_scale(m, v, y, tail))
"""The likelihood of a scale as a `PointLikelihood`."""


# ---- Updates of the Gammas of the noise precisions, one per target


def noise_update(
    alpha: FloatArray, beta: FloatArray, d2: Array, v: Array
) -> tuple[tuple[FloatArray, FloatArray], int]:
    """Update the Gamma of every target's noise precision, [PBP15] Eqs. (9) and (10).

    The outputs are independent under q, so each target has its own Z. All are (K,); d2 are squared
    residuals, v the variances of the outputs. The number of updates by quadrature comes second.
    """
    targets = zip(alpha, beta, d2, v, strict=True)
    alphas, betas, guarded = zip(
        *(gamma_update(*map(float, target)) for target in targets), strict=True
    )
    return (np.array(alphas), np.array(betas)), sum(guarded)


def heavy_noise_update(
    alpha: FloatArray,
    beta: FloatArray,
    d: FloatArray,
    v: FloatArray,
    tail: FloatArray,
    evidence: Evidence,
) -> tuple[tuple[FloatArray, FloatArray], int]:
    """Update the Gamma of every target's noise precision; without a tail, as for Gaussians.

    All are (K,); d are residuals, and `evidence` is as `log_Z_heavy` gives it.
    """
    columns = alpha, beta, d, v, tail, evidence.dlogZ_dlevel, evidence.dlogZ_dtail
    updates = []
    for a, b, d_k, v_k, tail_k, d_level, d_tail in np.array(columns, np.float64).T.tolist():
        if tail_k > 0.0:
            updates.append(heavy_gamma_update(a, b, d_k, v_k, tail_k, d_level, d_tail))
        else:
            updates.append(gamma_update(a, b, d_k * d_k, v_k))
    alphas, betas, guarded = zip(*updates, strict=True)
    return (np.array(alphas), np.array(betas)), sum(guarded)
