"""A residual per output: the output is the logarithm of its noise variance, relative to a level."""

from __future__ import annotations

import math

import numpy as np

from probprop._types import FloatArray
from probprop.reference.likelihoods.evidence import Evidence, Policy
from probprop.reference.scale_mixture import scale_mixture


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
