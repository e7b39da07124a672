"""One q out of those that the shards made of it.

Every shard k begins with the same q and absorbs some rows; its weights then have the means m_k
and the precisions tau_k. Evidence adds up, so precisions and the Gamma of the noise do:

    tau'   = tau + sum_k (tau_k - tau)
    alpha' = alpha + sum_k (alpha_k - alpha),   beta' likewise.

Means do not: where weights are correlated, every shard corrects the same error, and K corrections
overshoot. Their average by precision is K times too slow where they do not agree by accident, so
it is carried on, with momentum b = (K - 1)/(K - 1/3) and clipped at one standard deviation:

    delta = sum_k tau_k (m_k - m) / sum_k tau_k
    u'    = clip(b u + delta, -1/sqrt(tau'), 1/sqrt(tau'))
    m'    = m + delta + b u'.

Precisions stay at or above the least of tau, all tau_k and that of the prior factor. With one
shard all of it is the q of the shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from probprop._types import FloatArray
from probprop.inference.posterior import Posterior, cut, flat
from probprop.inference.rounds.shards import Absorbed, Weights

Velocity = tuple[FloatArray, ...]
"""u of the weights, flat: of the network, then of that of the noise, if there is one."""


class Combined(NamedTuple):
    """The beginning of the next round.

    Parameters
    ----------
    posterior : Posterior
    velocity : Velocity
    n_held : int
        Precisions that had to be held up, and Gammas that were left as they were.
    """

    posterior: Posterior
    velocity: Velocity
    n_held: int


def momentum(n_shards: int) -> float:
    """Return b: what shards agree upon is carried on to 1/(1 - b) = (3 K - 1)/2 times as far.

    A little more than K. With b = 1 - 1/K few epochs over many rows were too slow, and with
    1 - 1/(2 K) one of four benchmark sets was worse than in one piece.

    >>> momentum(1), momentum(2)
    (0.0, 0.6)
    """
    return (n_shards - 1.0) / (n_shards - 1.0 / 3.0)


def at_rest(posterior: Posterior) -> Velocity:
    """Return u before the first round."""
    networks = [posterior, posterior.noise_network]
    return tuple(np.zeros(sum(m.size for m in q.m_w)) for q in networks if q is not None)


def combine(posterior: Posterior, absorbed: Sequence[Absorbed], velocity: Velocity) -> Combined:
    """Combine what the shards made of q, in their order.

    Parameters
    ----------
    posterior : Posterior
        What all of them began with.
    absorbed : sequence of Absorbed
        At least one.
    velocity : Velocity
    """
    b = momentum(len(absorbed))
    shares = np.array([each.n_points for each in absorbed], float)
    shares /= shares.sum()
    of_mean = [each.network for each in absorbed]
    combined, u, n_held = _combine_weights(posterior, of_mean, shares, velocity[0], b)
    moved = [u]
    if (network := posterior.noise_network) is not None:
        of_noise = [each.noise for each in absorbed if each.noise is not None]
        network, u, n = _combine_weights(network, of_noise, shares, velocity[1], b)
        n_held += n
        moved.append(u)
    alpha, beta, n = _combine_gammas(posterior, absorbed)
    combined = replace(combined, alpha_noise=alpha, beta_noise=beta, noise_network=network)
    return Combined(combined, tuple(moved), n_held + n)


def _combine_weights(
    q: Posterior, made: Sequence[Weights], shares: FloatArray, u: FloatArray, b: float
) -> tuple[Posterior, FloatArray, int]:
    """Return q with new weights and tails, the new velocity, and how many precisions were held."""
    m = flat(q.m_w).astype(np.float64)
    tau = 1.0 / flat(q.v_w).astype(np.float64)
    tau_new, weighted, total = tau.copy(), np.zeros_like(m), np.zeros_like(m)
    floor = np.minimum(tau, flat(q.v_hat_nat))
    for each in made:
        tau_k = 1.0 / each.v_w.astype(np.float64)
        tau_new += tau_k - tau
        weighted += tau_k * (each.m_w - m)
        total += tau_k
        floor = np.minimum(floor, tau_k)
    # What several shards give back of their evidence may together be more than there was.
    held = ~(tau_new >= floor)
    tau_new[held] = floor[held]
    delta = weighted / total
    most = 1.0 / np.sqrt(tau_new)
    u_new = np.clip(b * u + delta, -most, most)
    m_new = m + delta + b * u_new
    (m_w,), (v_w,) = (cut([new.astype(q.dtype)], q.m_w) for new in (m_new, 1.0 / tau_new))
    tail = q.tail + sum(
        share * (each.tail - q.tail) for share, each in zip(shares, made, strict=True)
    )
    return replace(q, m_w=m_w, v_w=v_w, tail=tail), u_new, int(held.sum())


def _combine_gammas(
    posterior: Posterior, absorbed: Sequence[Absorbed]
) -> tuple[FloatArray, FloatArray, int]:
    """Return shape and rate of the noise of every target, and how many were left as they were."""
    alpha, beta = posterior.alpha_noise, posterior.beta_noise
    alpha_new, beta_new = alpha.copy(), beta.copy()
    for each in absorbed:
        alpha_new += each.alpha_noise - alpha
        beta_new += each.beta_noise - beta
    valid = (alpha_new > 1.0) & (beta_new > 0.0)
    n_left = int((~valid).sum())
    return np.where(valid, alpha_new, alpha), np.where(valid, beta_new, beta), n_left
