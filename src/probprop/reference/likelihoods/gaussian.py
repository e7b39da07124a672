"""A value per output, each with Gaussian noise whose precision is learned: [PBP15] Eq. (1)."""

from __future__ import annotations

import math

import numpy as np

from probprop._types import FloatArray
from probprop.reference.likelihoods.evidence import Evidence, Policy


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
