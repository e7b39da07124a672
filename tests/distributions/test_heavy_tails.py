"""Predictive distributions with heavy tails: mpmath, Monte Carlo, and what must hold."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from probprop.distributions.mixture import Mixture


def exact(z: float, ratio: float, tail: float, *, density: bool) -> mpmath.mpf:
    """The density at z, or the probability below it, in units of the noise level: a fine sum."""
    step, sigma = mpmath.mpf(1) / 16, mpmath.sqrt(mpmath.mpf(tail))
    total = mpmath.mpf(0)
    for i in range(-16 * 16, 16 * 24):
        u = step * i
        std = mpmath.sqrt(mpmath.mpf(ratio) ** 2 + mpmath.exp(sigma * u))
        term = mpmath.npdf(z, 0, std) if density else mpmath.ncdf(z / std)
        total += term * mpmath.npdf(u)
    return step * total


@pytest.mark.parametrize("tail", [0.04, 1.0, 10.0])
@pytest.mark.parametrize("ratio", [0.0, 5.0, 1e6])
def test_density_and_probability_against_mpmath(tail: float, ratio: float) -> None:
    level, mean = 0.5, 3.0
    p = Mixture.of_one([mean], [ratio * level], level * np.exp(0.25 * tail), tail=tail)
    z = -p.std / level * np.array([0.0, 0.7, 4.0, 30.0])  # out to 30 standard deviations
    with mpmath.workdps(25):
        log_p = [float(mpmath.log(exact(float(a), ratio, tail, density=True))) for a in z]
        below = [exact(float(a), ratio, tail, density=False) for a in z]
        assert_allclose(p.logpdf(mean + level * z), np.array(log_p) - np.log(level), rtol=1e-8)
        assert_allclose(p.cdf(mean + level * z), np.array(below, float), rtol=1e-8, atol=1e-300)
        assert_allclose(p.cdf(mean - level * z), 1.0 - np.array(below, float), rtol=1e-10)


def test_without_a_tail_it_is_the_gaussian() -> None:
    heavy = Mixture.of_one([0.0, 1.0], [3.0, 0.0], 4.0, tail=0.0)
    gaussian = Mixture.of_one([0.0, 1.0], [3.0, 0.0], 4.0)
    y = np.array([[-9.0, 200.0], [0.5, 1.0]])
    assert_allclose(heavy.logpdf(y), gaussian.logpdf(y), rtol=1e-12)
    assert_allclose(heavy.cdf(y), gaussian.cdf(y), rtol=1e-12)
    assert_allclose(heavy.interval(0.9), gaussian.interval(0.9), rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    q=st.floats(1e-12, 1.0 - 1e-12),
    log_ratio=st.floats(-8.0, 8.0),
    tail=st.floats(0.0, 10.0),
    scale=st.floats(1e-100, 1e100),
)
def test_quantiles_invert_the_distribution(
    q: float, log_ratio: float, tail: float, scale: float
) -> None:
    p = Mixture.of_one([0.0], [scale * np.exp(log_ratio)], scale, tail=tail)
    beyond = p.cdf(-np.abs(p.ppf(q)))
    assert_allclose(beyond, min(q, 1.0 - q), rtol=1e-8)


def test_rows_with_different_tails_have_the_quantiles_of_rows_alone() -> None:
    log_ratio = np.random.RandomState(0).uniform(-5.0, 3.0, 50)
    tail = np.where(log_ratio > 0, 2.5, 1.0)
    p = Mixture.of_one(np.zeros(50), np.exp(log_ratio), 1.0, tail=tail)
    _, upper = p.interval(0.95)
    for i in range(50):
        alone = Mixture.of_one([0.0], np.exp(log_ratio[i : i + 1]), 1.0, tail=tail[i])
        assert_allclose(alone.interval(0.95)[1], upper[i : i + 1], rtol=1e-10)
        assert_allclose(1.0 - alone.cdf(upper[i]), 0.025, rtol=1e-10)


def test_moments_and_intervals_match_draws() -> None:
    p = Mixture.of_one([[1.0, -2.0]], [[2.0, 0.1]], [1.0, 3.0], tail=[0.5, 1.5])
    draws = p.rvs(200_000, random_state=0)
    assert draws.shape == (200_000, 1, 2)
    assert_allclose(draws.mean(axis=0), p.mean, atol=0.03)
    assert_allclose(draws.std(axis=0), p.std, rtol=0.03)
    lower, upper = p.interval(0.8)
    assert_allclose(((draws > lower) & (draws < upper)).mean(axis=0), 0.8, atol=0.004)


def test_rows_targets_and_words() -> None:
    p = Mixture.of_one(np.zeros((3, 2)), np.ones((3, 2)), [[1.0, 2.0]], tail=[0.5, 1.5])
    first, second = p.targets()
    assert_allclose(second.aleatoric_std, [2.0, 2.0, 2.0])
    assert_allclose(second.tail, 1.5)
    assert_allclose(p[1:].logpdf(np.ones((2, 2)))[:, 0], first[1:].logpdf([1.0, 1.0]))
    words = "Mixture(n=1, mean from 0 to 0, std from 1.41 to 1.41, n_components=1, "
    assert repr(first[:1]) == words + "tail from 0.5 to 0.5)"
    assert repr(first[:0]) == "Mixture(n=0, n_components=1)"
    assert list(first.to_frame().columns)[:2] == ["mean", "std"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tail": -0.1}, r"'tail' parameter .* \[0.0, 1000.0\). Got .*-0.1"),
        ({"tail": 1000.0}, r"'tail' parameter .* \[0.0, 1000.0\)"),
        ({"tail": np.nan}, "Got .*nan"),
        ({"aleatoric_std": 0.0}, "'aleatoric_stds' parameter .* Got 0.0"),
        ({"tail": [1.0, 2.0, 3.0]}, r"'tail' must be .* broadcasts .* Got the shape \(1, 3\)"),
        ({"epistemic_std": [-1.0, 1.0]}, "'epistemic_stds' parameter"),
        ({"dof": 6.0}, "Give 'tail' or 'dof', not both"),
    ],
)
def test_what_it_refuses(changed: dict[str, Any], message: str) -> None:
    good = {"mean": [0.0, 1.0], "epistemic_std": [1.0, 1.0], "aleatoric_std": 1.0, "tail": 1.0}
    with pytest.raises(ValueError, match=message):
        Mixture.of_one(**{**good, **changed})  # type: ignore[arg-type]


MIXTURE = Mixture(
    [[-1.0, 5.0], [2.0, 5.0], [0.0, 4.0]],
    [[0.5, 0.5], [0.1, 1.0], [0.0, 1.0]],
    [[1.0], [0.5], [2.0]],
    tail=[[2.0], [0.0], [1.0]],
)
MEMBERS = [
    Mixture.of_one([-1.0, 5.0], [0.5, 0.5], 1.0, tail=2.0),
    Mixture.of_one([2.0, 5.0], [0.1, 1.0], 0.5),
    Mixture.of_one([0.0, 4.0], [0.0, 1.0], 2.0, tail=1.0),
]


def test_a_mixture_is_the_mean_of_its_members() -> None:
    p = MIXTURE
    y = np.array([[0.3, 9.0], [-30.0, 5.0]])
    assert_allclose(p.pdf(y), np.mean([m.pdf(y) for m in MEMBERS], axis=0))
    q = p.ppf([0.01, 0.5, 0.999])
    assert_allclose(p.cdf(q), [[0.01] * 2, [0.5] * 2, [0.999] * 2], rtol=1e-9)
    assert_allclose(p.interval(0.98)[0], q[0], rtol=1e-9)
    draws = p.rvs(200_000, random_state=0)
    assert_allclose(draws.mean(axis=0), p.mean, atol=0.03)
    assert_allclose(draws.std(axis=0), p.std, rtol=0.03)
    assert len(p[:1]) == 1
    assert len(p.targets()) == 1


def test_a_mixture_of_gaussians_is_the_other_mixture() -> None:
    p = MIXTURE
    heavy = Mixture(p.means, p.epistemic_stds, p.aleatoric_stds, tail=0.0)
    same = Mixture(p.means, p.epistemic_stds, p.aleatoric_stds)
    y = p.mean + 3.0 * p.std
    assert_allclose(heavy.logpdf(y), same.logpdf(y), rtol=1e-12)
    assert_allclose(heavy.interval(0.9), same.interval(0.9), rtol=1e-9)
    assert_allclose(heavy.crps(y), same.crps(y), rtol=1e-9)


@pytest.mark.parametrize("offset", [1e7, 1e9, 1e12])
def test_targets_far_from_zero_lose_no_digits(offset: float) -> None:
    near = MIXTURE
    far = Mixture(offset + near.means, near.epistemic_stds, near.aleatoric_stds, None, near.tail)
    q = np.array([0.025, 0.5, 0.9])
    found = far.ppf(q) - offset
    assert_allclose(found, near.ppf(q), rtol=1e-9, atol=2.0 * np.spacing(offset))
    y = offset + np.array([0.25, 5.5])  # exact
    assert_allclose(far.cdf(y), near.cdf(y - offset), rtol=1e-12)
    assert_allclose(far.logpdf(y), near.logpdf(y - offset), rtol=1e-12)
    assert_allclose(far.crps(y), near.crps(y - offset), rtol=1e-9)
    assert_allclose(far.cdf(far.ppf(q)), np.stack([q] * 2, axis=1), atol=np.spacing(offset))
