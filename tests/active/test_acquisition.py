"""Acquisition functions: quadrature, the best of a pool, and Branin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm, wilcoxon

from probprop import PBPRegressor
from probprop._types import FloatArray
from probprop.active.acquisition import (
    Goal,
    best_in_pool,
    expected_improvement,
    thompson,
    upper_confidence_bound,
)

GOALS: list[Goal] = ["maximize", "minimize"]
BRANIN_BOX = np.array([[-5.0, 10.0], [0.0, 15.0]])


def branin(X: FloatArray) -> FloatArray:
    """Three global minima, of 0.397887, in [-5, 10] x [0, 15]."""
    x, z = X.T
    valley = z - 5.1 / (4.0 * np.pi**2) * x**2 + 5.0 / np.pi * x - 6.0
    return valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x) + 10.0


def points(n: int, seed: int) -> FloatArray:
    lower, upper = BRANIN_BOX.T
    return np.random.RandomState(seed).uniform(lower, upper, (n, 2))


@pytest.fixture(scope="module")
def model() -> PBPRegressor:
    X = points(30, 0)
    return PBPRegressor((20,), random_state=0).fit(X, branin(X))


@pytest.mark.parametrize("goal", GOALS)
def test_expected_improvement_by_quadrature(model: PBPRegressor, goal: Goal) -> None:
    # E[max(g, 0)] is the integral of P(g > t) over t > 0, where g is the gain over `best`.
    X, best = points(20, 1), 60.0
    at = model.predict_distribution(X)
    gain = at.mean - best if goal == "maximize" else best - at.mean
    expected = [
        quad(lambda t, g=g, s=s: norm.sf(t, g, s), 0.0, max(g, 0.0) + 12.0 * s, epsrel=1e-11)[0]
        for g, s in zip(gain, at.epistemic_std, strict=True)
    ]
    scores = expected_improvement(model, best=best, goal=goal)(X)
    assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)


def test_the_noise_is_no_improvement() -> None:
    # Pure noise: the function is known to be near 0, its measurements scatter to 1.
    X = np.linspace(-1.0, 1.0, 400).reshape(-1, 1)
    y = np.random.RandomState(0).standard_normal(400)
    model = PBPRegressor((5,), random_state=0).fit(X, y)
    at = model.predict_distribution(X)
    assert at.aleatoric_std.min() > 3.0 * at.epistemic_std.max()
    scores = expected_improvement(model, best=1.0, goal="maximize")(X)
    # The score if it used the standard deviation of a measurement.
    t = (at.mean - 1.0) / at.std
    with_noise = at.std * (t * norm.cdf(t) + norm.pdf(t))
    assert scores.max() < 0.01 * with_noise.max()


@pytest.mark.parametrize("goal", GOALS)
def test_the_confidence_bound(model: PBPRegressor, goal: Goal) -> None:
    X = points(20, 1)
    at = model.predict_distribution(X)
    scores = upper_confidence_bound(model, kappa=1.5, goal=goal)(X)
    low, high = at.mean - 1.5 * at.epistemic_std, at.mean + 1.5 * at.epistemic_std
    assert_allclose(scores, high if goal == "maximize" else -low, rtol=1e-12)


@pytest.mark.parametrize("goal", GOALS)
def test_thompson_is_one_function(model: PBPRegressor, goal: Goal) -> None:
    X = points(20, 1)
    f = model.sample_functions(1, random_state=3)[0]
    score = thompson(model, goal=goal, random_state=3)
    assert_array_equal(score(X), f(X) if goal == "maximize" else -f(X))
    assert_array_equal(score(X), score(X))


@pytest.mark.parametrize("goal", GOALS)
def test_without_uncertainty_the_improvement_is_the_gain(model: PBPRegressor, goal: Goal) -> None:
    # v_w at their floor: epistemic_std is negligible.
    sure = PBPRegressor((20,))
    sure.__dict__.update(model.__dict__)
    sure.posterior_ = replace(
        model.posterior_, v_w=tuple(np.full_like(v, 1e-99) for v in model.posterior_.v_w)
    )
    X = points(20, 1)
    mean = sure.predict(X)
    best = float(mean[0])
    gain = mean - best if goal == "maximize" else best - mean
    scores = expected_improvement(sure, best=best, goal=goal)(X)
    assert_allclose(scores, np.maximum(gain, 0.0), rtol=1e-12, atol=1e-30)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda m: expected_improvement(m, best=1.0, goal="down"), ValueError, "goal must be one"),
        (
            lambda m: expected_improvement(m, best=np.nan, goal="minimize"),
            ValueError,
            "best == nan",
        ),
        (lambda m: expected_improvement(m, best=1.0), TypeError, "goal"),
        (lambda m: upper_confidence_bound(m, kappa=-1.0, goal="minimize"), ValueError, "kappa"),
        (lambda m: upper_confidence_bound(m), TypeError, "goal"),
        (lambda m: thompson(m, goal=None), ValueError, "goal must be one"),
    ],
)
def test_what_is_not_explicit_is_refused(model, make, error, message) -> None:
    with pytest.raises(error, match=message):
        make(model)


# ---- A pool.


def test_the_best_of_a_pool(model: PBPRegressor) -> None:
    X = points(50, 4)
    low = upper_confidence_bound(model, kappa=0.0, goal="minimize")
    high = upper_confidence_bound(model, kappa=0.0, goal="maximize")
    assert best_in_pool(low, X) == model.predict(X).argmin()
    assert best_in_pool(high, X) == model.predict(X).argmax()
    assert best_in_pool(low, X[:1]) == 0


def test_ties_are_broken_by_the_seed(model: PBPRegressor) -> None:
    X = np.repeat(points(1, 0), 6, axis=0)
    acquisition = expected_improvement(model, best=20.0, goal="minimize")
    chosen = [best_in_pool(acquisition, X, random_state=seed) for seed in range(60)]
    assert set(chosen) == set(range(6))
    assert chosen == [best_in_pool(acquisition, X, random_state=seed) for seed in range(60)]


# ---- What it is for.


def evaluations(seed: int, pool: FloatArray, f: FloatArray, *, at_random: bool) -> int:
    """Measurements until one of the five best of the pool is found, ten random ones included."""
    random = np.random.RandomState(seed)
    order, wanted = random.permutation(len(f)), np.sort(f)[4]
    measured = list(order if at_random else order[:10])
    while f[measured].min() > wanted:
        X, y = pool[measured], f[measured]
        model = PBPRegressor((20,), random_state=seed).fit(X, y)
        acquisition = expected_improvement(model, best=y.min(), goal="minimize")
        left = np.setdiff1d(order, measured)
        measured.append(left[best_in_pool(acquisition, pool[left], random_state=seed)])
    return int(np.argmax(f[measured] <= wanted)) + 1


@pytest.mark.filterwarnings("ignore:In .* updates")  # a few undone, in some of 600 fits
def test_expected_improvement_beats_random_search_on_branin() -> None:
    needed = []
    for seed in range(20):
        pool = points(500, seed)
        f = branin(pool)
        needed.append([evaluations(seed, pool, f, at_random=r) for r in (False, True)])
    by_improvement, at_random = np.transpose(needed)
    assert np.median(by_improvement) < 0.5 * np.median(at_random)
    assert wilcoxon(by_improvement, at_random, alternative="less").pvalue < 0.01
