"""Bounded evidence: q gives back a share of what it absorbed, and forgets bad early passes.

[PBP15] absorbs the likelihood of every point again in every pass, so q becomes too narrow, and
the residuals of the first passes stay in the noise for ever. With a `Memory` q is tempered
before the points are absorbed, q <- q^(1 - share) prior^share, and never holds more evidence
than that of `capacity` points: a form of stochastic expectation propagation.
"""

from __future__ import annotations

from dataclasses import replace

from probprop._types import Array
from probprop.inference.posterior import Memory, Posterior


def temper(posterior: Posterior, memory: Memory, n_points: int) -> Posterior:
    """Return q with the evidence given back that `n_points` points will replace.

    The prior of a weight is its own approximate factor N(0, 1/v_hat_nat), so that a q without
    any evidence stays as it is; that of the noise is its Gamma. The Gamma of the prior
    precision holds no likelihood and stays.
    """
    share = memory.share(n_points)
    layers = zip(posterior.m_w, posterior.v_w, posterior.v_hat_nat, strict=True)
    tempered = [_tempered(m, v, v_hat_nat.astype(v.dtype), share) for m, v, v_hat_nat in layers]
    return replace(
        posterior,
        m_w=tuple(m for m, _ in tempered),
        v_w=tuple(v for _, v in tempered),
        alpha_noise=(1.0 - share) * posterior.alpha_noise + share * memory.noise_shape,
        beta_noise=(1.0 - share) * posterior.beta_noise + share * memory.noise_rate,
    )


def _tempered(m: Array, v: Array, v_hat_nat: Array, share: float) -> tuple[Array, Array]:
    """Average natural parameters: 1/v with v_hat_nat, m/v with 0."""
    ratio = 1.0 / ((1.0 - share) + share * v_hat_nat * v)  # v_new/v
    return m * ((1.0 - share) * ratio), v * ratio
