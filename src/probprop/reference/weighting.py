"""Weighted points: weights, known errors of the targets, a power of Z.

Where weights divide the noise, the target of a point of weight w, known up to the variance e^2,
has the variance v + e^2 + noise/w. Times sqrt(w) that is a point of weight 1: with
m' = sqrt(w) m, v' = w (v + e^2) and y' = sqrt(w) y

    log Z = log Z' + K/2 log w,   dlogZ/dm = sqrt(w) dlogZ'/dm',   dlogZ/dv = w dlogZ'/dv',

and the noise learns from (y' - m')^2 and v'. All of it is exact.

Elsewhere the weight is a power p of the likelihood. Z is a Gaussian convolved with something, so
2 dlogZ/dv = h + (dlogZ/dm)^2, where h is the second derivative of log Z by m. The power
multiplies log Z, its slope and h:

    log Z -> p log Z,   d_m -> p d_m,   d_v -> p d_v + (p^2 - p)/2 d_m^2.

This approximates log Z by a parabola, which is too coarse for powers far above 1. They are applied
in shares: the outputs are moved by a share of 1 or more, then log Z is evaluated again there. The
network gets the combined step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from probprop._types import Array, FloatArray
from probprop.reference.likelihoods import Evidence, PointLikelihood

_FAR = 0.5  # the share of its variance that an output may lose, if the share of p is above 1
_MOST_SHARES = 1000  # ten are many


class OnePoint(NamedTuple):
    """A target and the moments of its outputs, in units in which its weight is 1."""

    m: FloatArray  # (K,)
    v: FloatArray  # (K,)
    y: FloatArray  # (K,), or (1,) for the index of a class


def rescaled(
    likelihood: PointLikelihood,
    m: Array,
    v: Array,
    y: float | Array,
    weight: float = 1.0,
    y_var: Array | None = None,
) -> OnePoint:
    """Add the known variance of the target; if the weight divides the noise, scale by it.

    m and v, (K,), are the moments of the outputs, y is the target as the likelihood takes it, and
    `y_var`, (K,), are its known variances.
    """
    m, v = np.asarray(m, np.float64), np.asarray(v, np.float64)
    target = np.atleast_1d(np.asarray(y, np.float64))
    if y_var is not None:
        v = v + y_var
    if not likelihood.weights_divide_noise:
        return OnePoint(m, v, target)
    root = math.sqrt(weight)
    return OnePoint(root * m, weight * v, root * target)


def weighted_evidence(
    likelihood: PointLikelihood,
    point: OnePoint,
    noise_variance: FloatArray,
    weight: float = 1.0,
    power: float = 1.0,
    tail: FloatArray | None = None,
) -> Evidence:
    """Evaluate log Z of a point and its derivatives by the moments of the outputs as they were.

    The point is as `rescaled` gives it with the same weight. `power` is for a likelihood whose
    weight does not divide the noise; it multiplies the weight. If the product is above 1, the
    derivatives are for the shares together. The derivatives by the tail, (K,), and by the
    level are for the point with weight 1.

    >>> from probprop.reference.likelihoods import GAUSSIAN
    >>> point = rescaled(GAUSSIAN, np.zeros(1), np.array([0.5]), 1.0, weight=4.0)
    >>> evidence = weighted_evidence(GAUSSIAN, point, np.array([2.0]), weight=4.0)
    >>> round(evidence.log_Z, 6), evidence.dlogZ_dm  # for a variance of 0.5 + 2/4
    (-1.418939, array([1.]))
    """
    evidence = likelihood.log_Z(*point, noise_variance, tail)
    if not likelihood.weights_divide_noise:
        return _to_the_power(likelihood, point, noise_variance, tail, power * weight, evidence)
    log_Z, d_m, d_v = evidence[:3]
    shift = 0.5 * len(d_m) * math.log(weight)
    return evidence._replace(
        log_Z=log_Z + shift, dlogZ_dm=math.sqrt(weight) * d_m, dlogZ_dv=weight * d_v
    )


def _to_the_power(
    likelihood: PointLikelihood,
    point: OnePoint,
    noise_variance: FloatArray,
    tail: FloatArray | None,
    p: float,
    first: Evidence,
) -> Evidence:
    """Take the evidence of a point to the power p; `first` has p = 1."""
    share = _share(first, point.v, p)
    log_Z, d_m, d_v = first[:3]
    if share == p or not math.isfinite(log_Z):
        d_v = p * d_v + 0.5 * (p * p - p) * (d_m * d_m)
        return first._replace(log_Z=p * log_Z, dlogZ_dm=p * d_m, dlogZ_dv=d_v)
    m, v, left = point.m, point.v, p - share
    for n_left in reversed(range(_MOST_SHARES)):
        m, v = m + v * (share * d_m), v + v * v * (share * _curvature(d_m, d_v))
        if left == 0.0:
            break
        evidence = likelihood.log_Z(m, v, point.y, noise_variance, tail)
        share = _share(evidence, v, left) if n_left > 1 else left
        left -= share
        _, d_m, d_v = evidence[:3]
    slope, curvature = (m - point.m) / point.v, (v - point.v) / (point.v * point.v)
    d_v = 0.5 * (curvature + slope * slope)
    return first._replace(log_Z=p * log_Z, dlogZ_dm=slope, dlogZ_dv=d_v)


def _curvature(d_m: FloatArray, d_v: FloatArray) -> FloatArray:
    """Return the second derivative of log Z by m, (K,)."""
    return 2.0 * d_v - d_m * d_m


def _share(evidence: Evidence, v: FloatArray, left: float) -> float:
    """Return how much of the power can be taken at once: 1, or more where log Z is flat."""
    bend = float(np.max(v * np.abs(_curvature(evidence.dlogZ_dm, evidence.dlogZ_dv))))
    return left if left <= 1.0 or bend * left <= _FAR else max(1.0, _FAR / bend)
