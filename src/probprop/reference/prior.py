"""Expectation propagation on the prior factors N(w | 0, 1/lambda), supplement section 6."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from probprop._types import Array
from probprop.inference.posterior import Posterior, SweepInfo
from probprop.reference.gamma import gamma_increments, is_sound_update

_V_CAV_MAX = 1e6


class Outcome(Enum):
    """What refining one factor did."""

    REFINED = "weight and lambda updated"
    UNINFORMATIVE = "left as it was: it has nothing sound to say about lambda"
    SKIPPED = "left as it was: without its factor there is no distribution"


class Factor(NamedTuple):
    """One weight's posterior and its approximate prior factor S(32)."""

    m: float
    v: float
    v_hat_nat: float
    a_hat_nat: float
    b_hat_nat: float


def refine_factor(
    factor: Factor, alpha_prior: float, beta_prior: float, informative_ratio: float
) -> tuple[Factor, float, float, Outcome]:
    """Remove one approximate factor, match moments with the exact one, put it back.

    alpha_prior and beta_prior, the Gamma of lambda, include this factor.
    """
    # The cavity, S(36) and S(37); the factor's mean is zero.
    skipped = factor, alpha_prior, beta_prior, Outcome.SKIPPED
    precision_cav = 1.0 / factor.v - factor.v_hat_nat
    if not precision_cav > 0.0:
        return skipped
    v_cav = 1.0 / precision_cav
    m_cav = v_cav * factor.m / factor.v
    alpha_cav = alpha_prior - factor.a_hat_nat
    beta_cav = beta_prior + factor.b_hat_nat
    if not (v_cav < _V_CAV_MAX and alpha_cav > 1.0 and beta_cav > 0.0):
        return skipped

    # Differs from supplement section 6: a weight the data say little about is left alone. It
    # has nothing to say about lambda, whose estimate would run away in deep networks; and
    # every change of lambda would move its mean, which is still the random one it began
    # with, in proportion: once 1/lambda falls, the signal dies layer by layer.
    uninformative = factor, alpha_prior, beta_prior, Outcome.UNINFORMATIVE
    v_prior = beta_cav / (alpha_cav - 1.0)
    if v_cav >= informative_ratio * v_prior:
        return uninformative

    delta_alpha, delta_beta = gamma_increments(alpha_cav, beta_cav, m_cav * m_cav, v_cav)
    alpha_new, beta_new = alpha_cav + delta_alpha, beta_cav + delta_beta
    if not is_sound_update(alpha_cav, beta_cav, m_cav * m_cav, alpha_new, beta_new):
        # Differs from [PBP15] Eqs. (9), (10): where they give no sound Gamma.
        return uninformative

    # [PBP15] Eqs. (6) and (7) with log Z of Eq. (11), N(m_cav | 0, v_prior + v_cav), are
    # the product of two Gaussians, and S(38) returns the second of them. S(39) has
    # alpha_new - alpha_cav and beta_cav - beta_new, here without the cancellation.
    shrinkage = v_prior / (v_prior + v_cav)
    refined = Factor(
        m=m_cav * shrinkage,
        v=v_cav * shrinkage,
        v_hat_nat=1.0 / v_prior,
        a_hat_nat=delta_alpha,
        b_hat_nat=-delta_beta,
    )
    return refined, alpha_new, beta_new, Outcome.REFINED


def refine_prior(
    posterior: Posterior, informative_ratio: float = 8.0
) -> tuple[Posterior, SweepInfo]:
    """Refine every approximate prior factor once.

    The sweep is sequential, layer by layer and row by row: alpha_prior and beta_prior
    change after every weight, so the order matters. A factor is refined only if the variance
    of its cavity is below `informative_ratio` times beta_cav/(alpha_cav - 1); infinity is the
    algorithm of [PBP15].
    """
    alpha, beta = posterior.alpha_prior, posterior.beta_prior
    m_w, v_w = _copies(posterior.m_w), _copies(posterior.v_w)
    v_hat_nat = _copies(posterior.v_hat_nat)
    a_hat_nat, b_hat_nat = _copies(posterior.a_hat_nat), _copies(posterior.b_hat_nat)
    counts = dict.fromkeys(Outcome, 0)
    for layer in zip(m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, strict=True):
        for index in range(layer[0].size):
            factor = Factor(*(float(array.flat[index]) for array in layer))
            factor, alpha, beta, outcome = refine_factor(factor, alpha, beta, informative_ratio)
            counts[outcome] += 1
            for array, value in zip(layer, factor, strict=True):
                array.flat[index] = value
    return (
        replace(
            posterior,
            m_w=m_w,
            v_w=v_w,
            alpha_prior=alpha,
            beta_prior=beta,
            v_hat_nat=v_hat_nat,
            a_hat_nat=a_hat_nat,
            b_hat_nat=b_hat_nat,
            tail=posterior.tail,
        ),
        SweepInfo(n_skipped=counts[Outcome.SKIPPED], n_uninformative=counts[Outcome.UNINFORMATIVE]),
    )


def _copies(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(array.copy() for array in arrays)
