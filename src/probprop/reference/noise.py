"""What an absorbed point does to the Gammas of the noise precisions, one per target."""

from __future__ import annotations

import numpy as np

from probprop._types import Array, FloatArray
from probprop.reference.gamma import gamma_update
from probprop.reference.likelihoods import Evidence, heavy_gamma_update


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
