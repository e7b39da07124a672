"""The likelihoods against Monte Carlo: the reference, which the kernel equals to 1e-10."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

from probprop._types import FloatArray
from probprop.reference.likelihoods import GAUSSIAN, MULTINOMIAL, PROBIT, Evidence


def assert_monte_carlo(
    evidence: Evidence,
    m: FloatArray,
    variance: FloatArray,
    likelihood: Callable[[FloatArray], FloatArray],
    n_draws: int = 10_000_000,
) -> None:
    """Compare with the mean of `likelihood` over draws from N(m, variance).

    E[likelihood (score - dlogZ)] is zero, where the scores are the derivatives of the log
    density of a draw by its mean and its variance.
    """
    rng, s = np.random.default_rng(0), np.sqrt(variance)
    expected = np.concatenate([[math.exp(evidence.log_Z)], np.zeros(2 * len(m))])
    total, squares, chunk = 0.0, 0.0, 250_000
    for _ in range(n_draws // chunk):
        noise = rng.standard_normal((chunk, len(m)))
        value = likelihood(m + s * noise)
        happened = value > 0.0
        noise, value = noise[happened], value[happened, np.newaxis]
        by_m = value * (noise / s - evidence.dlogZ_dm)
        by_v = value * (0.5 * (noise**2 - 1.0) / variance - evidence.dlogZ_dv)
        terms = np.concatenate([value, by_m, by_v], axis=1)
        total, squares = total + terms.sum(axis=0), squares + (terms**2).sum(axis=0)
    mean = total / n_draws
    error = np.sqrt((squares / n_draws - mean**2) / n_draws)
    assert (np.abs(mean - expected) < 5.0 * error).all(), (mean - expected) / error
    assert error[0] < 0.01 * expected[0]


@pytest.mark.parametrize(("K", "c"), [(2, 0), (5, 3), (20, 11)])
def test_multinomial(K: int, c: int) -> None:
    rng = np.random.RandomState(K)
    m, v = rng.standard_normal(K), 10.0 ** rng.uniform(-8.0, 1.0, K)
    m[c] += 1.0
    assert_monte_carlo(
        MULTINOMIAL.log_Z(m, v, np.array([c]), np.ones(1)),
        m,
        1.0 + v,
        lambda draws: (draws.argmax(axis=1) == c).astype(np.float64),
    )


def test_probit() -> None:
    m, v, y = np.array([0.5, -1.0, 3.0]), np.array([1e-8, 2.0, 30.0]), np.array([1.0, 1.0, -1.0])
    assert_monte_carlo(
        PROBIT.log_Z(m, v, y, np.ones(1)),
        m,
        1.0 + v,
        lambda draws: (y * draws > 0.0).all(axis=1).astype(np.float64),
    )


def test_gaussian() -> None:
    m, v, y = np.array([0.5, -1.0]), np.array([0.3, 2.0]), np.array([1.0, 1.0])
    noise = np.array([0.7, 0.2])
    assert_monte_carlo(
        GAUSSIAN.log_Z(m, v, y, noise),
        m,
        v,
        lambda draws: norm.pdf(y, draws, np.sqrt(noise)).prod(axis=1),
    )
