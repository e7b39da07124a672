"""The combination of shards against a version that loops over numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probprop.inference.posterior import Posterior, cut, flat, initial_posterior
from probprop.inference.training import PartUpdate, Velocity, at_rest, combine


def network(rng: np.random.RandomState, sizes: list[int], dtype: str = "float64") -> Posterior:
    q = initial_posterior(
        sizes,
        noise_shape=np.full(sizes[-1], 6.0),
        noise_rate=np.full(sizes[-1], 6.0),
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=rng,
        dtype=np.dtype(dtype),
    )
    v_w = tuple(rng.uniform(0.1, 1.0, v.shape).astype(dtype) for v in q.v_w)
    return replace(q, v_w=v_w)


def weights_near(q: Posterior, rng: np.random.RandomState, spread: float) -> Posterior:
    m, v = flat(q.m_w), flat(q.v_w)
    moved = m + spread * rng.standard_normal(m.size) * np.sqrt(v)
    scaled = v * np.exp(spread * rng.standard_normal(m.size))
    tail = q.tail + spread * rng.uniform(size=q.tail.size)
    m_w, v_w = cut([moved.astype(m.dtype), scaled.astype(m.dtype)], q.m_w)
    return replace(q, m_w=m_w, v_w=v_w, tail=tail)


def update_near(q: Posterior, rng: np.random.RandomState, spread: float) -> PartUpdate:
    noise = None if q.noise_network is None else weights_near(q.noise_network, rng, spread)
    made = replace(
        weights_near(q, rng, spread),
        alpha_noise=q.alpha_noise + 4.0 * spread * rng.standard_normal(len(q.alpha_noise)),
        beta_noise=q.beta_noise + 4.0 * spread * rng.standard_normal(len(q.alpha_noise)),
        noise_network=noise,
    )
    return PartUpdate(made, int(rng.randint(1, 100)), -1.0, np.zeros(4, np.int64))


def naive(
    q: Posterior, made: list[Posterior], u: np.ndarray, b: float
) -> tuple[list[float], list[float], list[float], int]:
    """Return means, variances and velocities weight by weight, and how many were held up."""
    means, variances, velocities, n_held = [], [], [], 0
    for i in range(u.size):
        m, tau = float(flat(q.m_w)[i]), 1.0 / float(flat(q.v_w)[i])
        m_k = [float(flat(w.m_w)[i]) for w in made]
        tau_k = [1.0 / float(flat(w.v_w)[i]) for w in made]
        tau_new = tau + math.fsum(t - tau for t in tau_k)
        floor = min(tau, float(flat(q.v_hat_nat)[i]), *tau_k)
        if tau_new < floor:
            tau_new, n_held = floor, n_held + 1
        delta = math.fsum(t * (x - m) for t, x in zip(tau_k, m_k, strict=True)) / math.fsum(tau_k)
        one_std = 1.0 / math.sqrt(tau_new)
        u_new = max(-one_std, min(one_std, b * u[i] + delta))
        means.append(m + delta + b * u_new)
        variances.append(1.0 / tau_new)
        velocities.append(u_new)
    return means, variances, velocities, n_held


def random_velocity(q: Posterior, rng: np.random.RandomState) -> Velocity:
    return tuple(0.3 * rng.standard_normal(u.size) for u in at_rest(q))


@given(
    seed=st.integers(0, 2**31 - 1),
    n_shards=st.integers(2, 9),
    spread=st.sampled_from([0.01, 0.3, 1.5]),
    dtype=st.sampled_from(["float64", "float32"]),
    has_noise_network=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_combination_matches_the_equations(
    seed: int, n_shards: int, spread: float, dtype: str, has_noise_network: bool
) -> None:
    rng = np.random.RandomState(seed)
    q = network(rng, [3, 4, 2], dtype)
    if has_noise_network:
        q = replace(q, noise_network=network(rng, [3, 2, 2], dtype))
    made = [update_near(q, rng, spread) for _ in range(n_shards)]
    velocity = random_velocity(q, rng)
    combined, moved, n_all_held = combine(q, made, velocity)
    b, rtol = (n_shards - 1) / (n_shards - 1 / 3), 1e-9 if dtype == "float64" else 1e-4
    n_all = 0
    networks = [(q, combined, [a.posterior for a in made])]
    if has_noise_network:
        noise = [a.posterior.noise_network for a in made]
        networks.append((q.noise_network, combined.noise_network, noise))
    for i, (before, after, weights) in enumerate(networks):
        means, variances, velocities, n_held = naive(before, weights, velocity[i], b)
        assert flat(after.m_w).dtype == dtype
        np.testing.assert_allclose(flat(after.m_w), means, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(flat(after.v_w), variances, rtol=rtol)
        np.testing.assert_allclose(moved[i], velocities, rtol=rtol, atol=1e-9)
        total = sum(a.n_points for a in made)
        tail = sum(a.n_points / total * w.tail for a, w in zip(made, weights, strict=True))
        np.testing.assert_allclose(after.tail, tail)
        n_all += n_held
    for k in range(2):
        alpha = 6.0 + math.fsum(a.posterior.alpha_noise[k] - 6.0 for a in made)
        beta = 6.0 + math.fsum(a.posterior.beta_noise[k] - 6.0 for a in made)
        valid = alpha > 1.0 and beta > 0.0
        n_all += not valid
        found = combined.alpha_noise[k], combined.beta_noise[k]
        assert found == pytest.approx((alpha, beta) if valid else (6.0, 6.0))
    assert n_all_held == n_all


def test_one_shard_is_the_q_of_that_shard_whatever_the_velocity() -> None:
    rng = np.random.RandomState(0)
    q = network(rng, [3, 4, 1])
    (made,) = [update_near(q, rng, 0.1)]
    combined, _, n_held = combine(q, [made], random_velocity(q, rng))
    assert combined is made.posterior
    assert n_held == 0
    bare = replace(made.posterior, v_hat_nat=(), a_hat_nat=(), b_hat_nat=())
    whole = combine(q, [made._replace(posterior=bare)], ())[0]
    assert whole.m_w is made.posterior.m_w
    assert whole.v_hat_nat is q.v_hat_nat


def test_shards_that_agree_are_faster_than_their_average() -> None:
    """The same correction round after round: the momentum takes it further in the end."""
    rng = np.random.RandomState(0)
    q = network(rng, [1, 1])
    u = at_rest(q)
    step, n_shards = 1e-4, 8
    for _ in range(100):
        m = flat(q.m_w)
        same = replace(q, m_w=tuple(layer + step for layer in q.m_w))
        made = [PartUpdate(same, 1, 0.0, np.zeros(4))] * n_shards
        q, u, _ = combine(q, made, u)
    moved = flat(q.m_w) - m
    np.testing.assert_allclose(moved, (3 * n_shards - 1) / 2 * step, rtol=1e-3)
