"""Expectation propagation on the prior factors N(w | 0, 1/lambda), supplement section 6."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from probprop._types import Array, FloatArray
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
    factor: Factor,
    alpha_prior: float,
    beta_prior: float,
    informative_ratio: float,
    largest_variance: float = math.inf,
) -> tuple[Factor, float, float, Outcome]:
    """Remove one approximate factor, match moments with the exact one, put it back.

    alpha_prior and beta_prior, the Gamma of lambda, include this factor. Without it,
    beta/(alpha - 1) is taken as `largest_variance` where it is larger.
    """
    # The cavity, S(36) and S(37); the factor's mean is zero.
    skipped = factor, alpha_prior, beta_prior, Outcome.SKIPPED
    precision_cav = 1.0 / factor.v - factor.v_hat_nat
    if not precision_cav > 0.0:
        return skipped
    v_cav = 1.0 / precision_cav
    m_cav = v_cav * factor.m / factor.v
    alpha_cav = alpha_prior - factor.a_hat_nat
    beta_cav = min(beta_prior + factor.b_hat_nat, largest_variance * (alpha_cav - 1.0))
    if not (v_cav < _V_CAV_MAX and alpha_cav > 1.0 and beta_cav > 0.0):
        return skipped

    # Differs from supplement section 6: the factor of a weight about which the data are not
    # informative is unchanged. Otherwise the estimate of lambda would diverge in deep
    # networks, and every change of lambda would rescale the mean of the weight, which is
    # still its random initial value: once 1/lambda falls, the signal vanishes layer by layer.
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
    posterior: Posterior,
    informative_ratio: float = 8.0,
    groups: Array | None = None,
    due: Array | None = None,
) -> tuple[Posterior, SweepInfo]:
    """Refine every approximate prior factor once.

    The sweep is sequential, layer by layer and row by row: alpha_prior and beta_prior
    change after every weight, so the order matters. A factor is refined only if the variance
    of its cavity is below `informative_ratio` times beta_cav/(alpha_cav - 1); infinity is the
    algorithm of [PBP15].

    With `groups`, (n_features,), the weights of inputs of the same group share a precision; the
    bias of the first layer and every later layer have their own. alpha_prior and beta_prior are
    then the hyperprior of all, and stay; each group's Gamma is that times the Gamma parts of its
    factors. With `due`, (n_features,), of the first layer only the weights of these inputs and
    of the bias are refined.
    """
    m_w, v_w = _copies(posterior.m_w), _copies(posterior.v_w)
    v_hat_nat = _copies(posterior.v_hat_nat)
    a_hat_nat, b_hat_nat = _copies(posterior.a_hat_nat), _copies(posterior.b_hat_nat)
    n_in = posterior.layer_sizes[0]
    layer_groups = groups_of_layers(posterior, groups)
    if groups is None:
        alpha, beta = [posterior.alpha_prior], [posterior.beta_prior]
    else:
        alpha, beta = (list(each) for each in group_gammas(posterior, groups))
    is_due = np.append(np.ones(n_in, bool) if due is None else due, True)
    counts = dict.fromkeys(Outcome, 0)
    for n, layer in enumerate(zip(m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, strict=True)):
        width = layer[0].shape[1]
        for index in range(layer[0].size):
            if n == 0 and not is_due[index % width]:
                continue
            g = layer_groups[n][index % width]
            largest = math.inf
            if groups is not None and n == 0:
                # The group's share in the prior variance of a pre-activation is at most 1.
                largest = width / float(np.sum(layer_groups[0] == g))
            factor = Factor(*(float(array.flat[index]) for array in layer))
            factor, alpha[g], beta[g], outcome = refine_factor(
                factor, alpha[g], beta[g], informative_ratio, largest
            )
            counts[outcome] += 1
            for array, value in zip(layer, factor, strict=True):
                array.flat[index] = value
    return (
        replace(
            posterior,
            m_w=m_w,
            v_w=v_w,
            alpha_prior=alpha[0] if groups is None else posterior.alpha_prior,
            beta_prior=beta[0] if groups is None else posterior.beta_prior,
            v_hat_nat=v_hat_nat,
            a_hat_nat=a_hat_nat,
            b_hat_nat=b_hat_nat,
            tail=posterior.tail,
        ),
        SweepInfo(n_skipped=counts[Outcome.SKIPPED], n_uninformative=counts[Outcome.UNINFORMATIVE]),
    )


def groups_of_layers(posterior: Posterior, groups: Array | None) -> list[Array]:
    """Return the group of each input, the bias included, of each layer."""
    if groups is None:
        return [np.zeros(m.shape[1], int) for m in posterior.m_w]
    last = int(groups.max(initial=-1)) + 1
    later = [np.full(m.shape[1], last + n) for n, m in enumerate(posterior.m_w)]
    return [np.append(groups, last), *later[1:]]


def group_gammas(posterior: Posterior, groups: Array) -> tuple[FloatArray, FloatArray]:
    """Return shape and rate of the Gamma of the precision of each group."""
    layer_groups = groups_of_layers(posterior, groups)
    n_groups = int(layer_groups[-1].max()) + 1
    alpha, beta = np.zeros(n_groups), np.zeros(n_groups)
    for g, a_hat, b_hat in zip(layer_groups, posterior.a_hat_nat, posterior.b_hat_nat, strict=True):
        np.add.at(alpha, g, a_hat.sum(axis=0))
        np.subtract.at(beta, g, b_hat.sum(axis=0))
    return posterior.alpha_prior + alpha, posterior.beta_prior + beta


def relevance(posterior: Posterior, groups: Array) -> FloatArray:
    """Return the prior standard deviation of the weights of each group of inputs, (n_groups,).

    It is divided by the largest. The bias and the later layers are left out.
    """
    alpha, beta = group_gammas(posterior, groups)
    n_inputs = np.bincount(groups)
    largest = (len(groups) + 1) / np.maximum(n_inputs, 1)
    std = np.sqrt(np.minimum((beta / (alpha - 1.0))[: len(n_inputs)], largest))
    relative: FloatArray = std / std.max()
    return relative


def _copies(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(array.copy() for array in arrays)
