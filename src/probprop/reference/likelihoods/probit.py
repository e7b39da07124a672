"""A label of +1 or -1 per output: the sign of the output once it has unit noise."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from probprop._types import FloatArray
from probprop.reference.likelihoods.evidence import Evidence, Policy
from probprop.reference.normal import hazard


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
