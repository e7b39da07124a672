"""A value per output, with noise whose tails are heavy: a mixture of Gaussians of all scales.

The logarithm g of the noise variance of a point is N(log level, tail), where the level is
beta/(alpha - 1) of the noise precision's Gamma, and

    Z = integral of N(y | m, v + e^g) N(g | log level, tail) dg.

An outlier is a point with a large g: it moves neither the weights nor the level by much. With
tail 0 the noise is Gaussian. The tail is learned once per epoch, by `learned_tail`.
"""

from __future__ import annotations

import math

import numpy as np

from probprop._types import FloatArray
from probprop.reference.gamma import (
    gamma_moments_by_quadrature,
    increments_of,
    is_sound_update,
)
from probprop.reference.likelihoods.evidence import Evidence, Policy
from probprop.reference.scale_mixture import scale_mixture

LARGEST_TAIL = 4.0
"""No tail grows beyond this: the noise variance then has a mean e^2 times its level."""

EXPAND_ABOVE = 40.0
"""Up to this alpha log Z is integrated at the levels of Z1 and Z2 too; above, expanded."""


def log_Z_heavy(
    m: FloatArray, v: FloatArray, y: FloatArray, level: FloatArray, tail: FloatArray
) -> Evidence:
    """Evaluate the sum of log Z over the outputs, see the module's docstring.

    >>> outlier = [np.zeros(1), np.array([0.75]), np.array([10.0]), np.array([0.25])]
    >>> [round(log_Z_heavy(*outlier, np.array([tail])).log_Z, 2) for tail in (0.0, 2.0)]
    [-50.92, -10.49]
    """
    points = [
        scale_mixture(float(d), float(v_k), math.log(level_k), float(tail_k))
        for d, v_k, level_k, tail_k in zip(y - m, v, level, tail, strict=True)
    ]
    log_Z, d_level, d_tail, d_m, d_v = (np.array(column) for column in zip(*points, strict=True))
    finite = bool(np.isfinite([d_v, d_tail]).all())
    return Evidence(float(log_Z.sum()) if finite else math.nan, d_m, d_v, d_level, d_tail)


def heavy_gamma_update(
    alpha: float,
    beta: float,
    d: float,
    v: float,
    tail: float,
    d_level: float,
    d_tail: float,
) -> tuple[float, float, bool]:
    """Update the Gamma of the noise precision, [PBP15] Eqs. (9) and (10), where tail > 0.

    Z, Z1 and Z2 differ in the level only: beta/(alpha - 1), beta/alpha, beta/(alpha + 1). The
    residual is d, and v the variance beside the noise. `d_level` and `d_tail` are derivatives of
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


def _log_Z(
    m: FloatArray,
    v: FloatArray,
    y: FloatArray,
    level: FloatArray,
    tail: FloatArray | None = None,
) -> Evidence:
    return log_Z_heavy(m, v, y, level, np.zeros(len(m)) if tail is None else tail)


HEAVY = Policy("heavy", True, True, _log_Z)
"""Noise with heavy tails as a `PointLikelihood`."""
