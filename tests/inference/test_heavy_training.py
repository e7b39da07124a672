"""Heavy tails in both engines: passes and trainings, and what must not matter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import posteriors
from probprop.inference import training
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian, Heavy, Scale
from probprop.inference.plan import Plan
from probprop.inference.posterior import Posterior
from probprop.inference.training import Run
from probprop.reference.likelihoods import GAUSSIAN, HEAVY

NATIVE, REFERENCE = ENGINES["native"], ENGINES["reference"]
RTOL = {"float64": 1e-10, "float32": 2e-3}
# The kernel takes subnormal numbers for 0, where the noise is Gaussian; NumPy does not.
TAILS = st.floats(0.0, 6.0, allow_subnormal=False)


def start(
    sizes: list[int], seed: int, tail: np.ndarray, alpha: float, dtype: str = "float64"
) -> Posterior:
    noise = np.full(sizes[-1], alpha)
    q = posteriors.start(sizes, seed, dtype, noise_shape=noise, noise_rate=noise)
    return replace(q, tail=tail)


def assert_close(got: Posterior, expected: Posterior, rtol: float) -> None:
    for a, b in zip((*got.m_w, *got.v_w), (*expected.m_w, *expected.v_w), strict=True):
        assert_allclose(a, b, rtol=0, atol=rtol * max(np.abs(b).max(), 1e-3))
    assert_allclose(got.alpha_noise, expected.alpha_noise, rtol=rtol)
    assert_allclose(got.beta_noise, expected.beta_noise, rtol=rtol)
    assert_allclose(got.tail, expected.tail, rtol=0, atol=rtol)


@settings(max_examples=30, deadline=None)
@given(
    K=st.integers(1, 3),
    hidden=st.lists(st.integers(1, 20), min_size=0, max_size=2),
    alpha=st.sampled_from([6.0, 100.0]),
    tails=st.lists(TAILS, min_size=3, max_size=3),
    outlier=st.sampled_from([0.0, 1e2]),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["float64", "float32"]),
    weighted=st.booleans(),
)
def test_an_epoch_in_both_engines(
    K: int,
    hidden: list[int],
    alpha: float,
    tails: list[float],
    outlier: float,
    seed: int,
    dtype: str,
    weighted: bool,
) -> None:
    random = np.random.RandomState(seed)
    before = start([3, *hidden, K], seed, np.array(tails[:K]), alpha, dtype)
    X, y = random.standard_normal((8, 3)).astype(dtype), random.standard_normal((8, K))
    if min(tails[:K]) > 0.5:  # to Gaussian noise an outlier is a shock that magnifies rounding
        y[3] += outlier
    weights = random.uniform(0.5, 2.0, 8) if weighted else None
    (got, seen), (expected, expected_seen) = (
        engine.adf_pass(before, X, y, np.arange(8), likelihood=HEAVY, weights=weights)
        for engine in (NATIVE, REFERENCE)
    )
    assert_close(got, expected, RTOL[dtype])
    assert seen.log_Z_sum == pytest.approx(expected_seen.log_Z_sum, rel=RTOL[dtype])
    assert seen.d_tail_sum == pytest.approx(
        expected_seen.d_tail_sum, rel=RTOL[dtype], abs=RTOL[dtype]
    )
    assert seen.n_skipped == expected_seen.n_skipped == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_without_tails_an_epoch_matches_the_gaussian(engine: str) -> None:
    random = np.random.RandomState(0)
    X, y = random.standard_normal((20, 3)), random.standard_normal((20, 2))
    before, adf_pass = start([3, 5, 2], 0, np.zeros(2), 6.0), ENGINES[engine].adf_pass
    heavy, seen = adf_pass(before, X, y, np.arange(20), likelihood=HEAVY)
    gaussian, expected = adf_pass(before, X, y, np.arange(20), likelihood=GAUSSIAN)
    assert_close(heavy, gaussian, 1e-12)
    assert seen.log_Z_sum == pytest.approx(expected.log_Z_sum, rel=1e-12)
    assert len(seen.d_tail_sum) == 2
    assert expected.d_tail_sum == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_points_that_are_not_finite_are_skipped_and_counted(engine: str) -> None:
    random = np.random.RandomState(0)
    X, y = random.standard_normal((6, 3)), random.standard_normal((6, 1))
    before, adf_pass = start([3, 5, 1], 0, np.ones(1), 6.0), ENGINES[engine].adf_pass
    kept = np.array([0, 1, 3, 5])
    expected, of_kept = adf_pass(before, X, y, kept, likelihood=HEAVY)
    y[2], y[4] = np.nan, 1e300
    got, seen = adf_pass(before, X, y, np.arange(6), likelihood=HEAVY)
    assert seen.n_skipped == 2
    assert seen.d_tail_sum == pytest.approx(of_kept.d_tail_sum, rel=1e-12)
    assert_close(got, expected, 1e-12)


def run_of(engine: str, likelihood: Gaussian | Scale, y: np.ndarray, **plan: object) -> Run:
    made = Plan(likelihood, (5,), engine=engine, tail_burn_in=2, **plan)  # type: ignore[arg-type]
    X = Inputs(np.random.RandomState(1).standard_normal((len(y), 3)))
    random_state = np.random.RandomState(2)
    fitted = training.start(made, X, y, random_state)
    return training.begin(made, fitted, X, likelihood.encode(y), random_state)


def wild_targets(n: int, K: int) -> np.ndarray:
    random = np.random.RandomState(0)
    y = random.standard_t(2, (n, K)) + np.arange(n)[:, np.newaxis] / n
    y[::9] *= 30.0
    return y


@pytest.mark.parametrize("plan", [{}, {"evidence_cap": 2.0}])
def test_a_training_in_both_engines(plan: dict[str, float]) -> None:
    y = wild_targets(25, 2)
    (got,), (expected,) = (
        training.advance([run_of(engine, Heavy(2), y, **plan)], 7)[0] for engine in ENGINES
    )
    assert (got.fitted.posterior.tail > 0.0).any()
    assert_close(got.fitted.posterior, expected.fitted.posterior, 1e-10)
    for a, b in zip(got.made, expected.made, strict=True):
        assert a.noise_variance == pytest.approx(b.noise_variance, rel=1e-10)
        assert a.mean_log_Z == pytest.approx(b.mean_log_Z, rel=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_burn_in_leaves_the_noise_gaussian(engine: str) -> None:
    y = wild_targets(25, 1)
    (heavy,), _ = training.advance([run_of(engine, Heavy(), y)], 2)
    (gaussian,), _ = training.advance([run_of(engine, Gaussian(), y)], 2)
    assert not heavy.fitted.posterior.tail.any()
    assert_close(heavy.fitted.posterior, gaussian.fitted.posterior, 1e-11)
    (heavy,), _ = training.advance([heavy], 1)
    assert heavy.fitted.posterior.tail.all()


def test_steps_of_any_length_make_the_same_training() -> None:
    run = run_of("native", Heavy(), wild_targets(25, 1))
    (whole,), _ = training.advance([run], 6)
    run = run_of("native", Heavy(), wild_targets(25, 1))
    for n_epochs in (1, 2, 3):
        (run,), _ = training.advance([run], n_epochs)
    assert run.fitted.posterior.tail.tolist() == whole.fitted.posterior.tail.tolist()
    assert run.fitted.posterior.m_w[0].tolist() == whole.fitted.posterior.m_w[0].tolist()


class Impatient(Heavy):
    """Presses Ctrl-C in the first epoch with tails."""

    def log_Z(self, *point, tail=None):  # type: ignore[no-untyped-def,override]
        if point[-1] is not None and np.any(point[-1]):
            raise KeyboardInterrupt
        return super().log_Z(*point)


def test_an_interrupt_where_the_tails_begin_leaves_the_noise_as_it_was() -> None:
    y = wild_targets(25, 1)
    (got,), interrupt = training.advance([run_of("reference", Impatient(), y)], 6)
    (before,), _ = training.advance([run_of("reference", Heavy(), y)], 2)
    assert isinstance(interrupt, KeyboardInterrupt)
    assert [epoch.n_iter for epoch in got.made] == [1, 2]
    assert_close(got.fitted.posterior, before.fitted.posterior, 1e-14)


def test_a_scale_may_learn_a_tail_too() -> None:
    random = np.random.RandomState(0)
    residual = random.standard_normal((40, 1)) * np.exp(random.standard_normal((40, 1)))
    y = np.hstack([residual, np.full((40, 1), 0.01), np.ones((40, 1))])
    (got,), (expected,) = (
        training.advance([run_of(engine, Scale(learns_tail=True), y)], 5)[0] for engine in ENGINES
    )
    assert got.fitted.posterior.tail[0] > 0.0
    assert_close(got.fitted.posterior, expected.fitted.posterior, 1e-10)
    (fixed,), _ = training.advance([run_of("native", Scale(), y)], 5)
    assert not fixed.fitted.posterior.tail.any()


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_permuted_units_give_the_permuted_posterior(engine: str, seed: int) -> None:
    random = np.random.RandomState(seed)
    before = start([4, 9, 1], seed, np.ones(1), 60.0)
    X, y = random.standard_normal((15, 4)), 3.0 * random.standard_normal((15, 1))
    order = random.permutation(9)

    def permuted(q: Posterior) -> Posterior:
        columns = np.append(order, 9)  # the bias stays last
        m_w, v_w = ((w[0][order], w[1][:, columns]) for w in (q.m_w, q.v_w))
        return replace(q, m_w=m_w, v_w=v_w)

    adf_pass = ENGINES[engine].adf_pass
    expected, info = adf_pass(before, X, y, np.arange(15), likelihood=HEAVY)
    got, same = adf_pass(permuted(before), X, y, np.arange(15), likelihood=HEAVY)
    assert_close(got, permuted(expected), 1e-10)
    assert same.d_tail_sum == pytest.approx(info.d_tail_sum, rel=1e-10)
