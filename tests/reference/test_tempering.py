"""Bounded evidence: the tempering of q, its fixed points, and the two engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from posteriors import sine, start
from probprop import PBPRegressor
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Memory, initial_posterior
from probprop.inference.task import ONCE_INFORMATIVE_RATIO
from probprop.reference.adf import temper

NATIVE, REFERENCE = ENGINES["native"], ENGINES["reference"]
RTOL = {"float64": 1e-10, "float32": 2e-3}


# ---- The share


@pytest.mark.parametrize("capacity", [1.0, 1.5, 20.0, 1365.0, 1e8])
@pytest.mark.parametrize("n_points", [1, 2, 64])
def test_the_share_matches_single_steps(capacity, n_points):
    kept = 1.0
    for _ in range(n_points):
        kept *= 1.0 - 1.0 / capacity
    found = Memory(capacity, 6.0, 6.0).share(n_points)
    assert found == pytest.approx(1.0 - kept, rel=1e-6, abs=1e-15)


def test_evidence_is_given_back_at_every_point_of_small_sets_and_rarely_in_large_ones():
    every = [Memory(float(c), 6.0, 6.0).every for c in (1, 20, 640, 4096, 10**7)]
    assert every == [1, 1, 10, 64, 64]


# ---- Giving back


@settings(max_examples=50, deadline=None)
@given(
    m=st.floats(-100.0, 100.0),
    v=st.floats(1e-8, 1e4),
    v_hat=st.floats(1e-4, 1e4),
    capacity=st.floats(1.0, 1e6),
    n_points=st.integers(1, 64),
)
def test_natural_parameters_are_averaged_with_the_priors(m, v, v_hat, capacity, n_points):
    memory = Memory(capacity, 2.5, 0.4)
    q = replace(
        start([1, 1]),
        m_w=(np.full((1, 2), m),),
        v_w=(np.full((1, 2), v),),
        v_hat_nat=(np.full((1, 2), v_hat),),
        alpha_noise=700.0,
        beta_noise=30.0,
    )
    after = temper(q, memory, n_points)
    share = memory.share(n_points)
    precision = (1.0 - share) / v + share * v_hat
    assert_allclose(after.v_w[0], 1.0 / precision, rtol=1e-12)
    assert_allclose(after.m_w[0], (1.0 - share) * m / v / precision, rtol=1e-9, atol=1e-12)
    # Gamma densities multiply by adding shapes (less one) and rates.
    assert after.alpha_noise - 1.0 == pytest.approx((1.0 - share) * 699.0 + share * 1.5)
    assert after.beta_noise == pytest.approx((1.0 - share) * 30.0 + share * 0.4)
    assert (after.alpha_prior, after.beta_prior) == (q.alpha_prior, q.beta_prior)


def test_the_formula_of_the_issue_is_the_same():
    m, v, v_hat, rho = 0.7, 0.3, 1.9, 1.0 / 50.0
    q = replace(
        start([1, 1]),
        m_w=(np.full((1, 2), m),),
        v_w=(np.full((1, 2), v),),
        v_hat_nat=(np.full((1, 2), v_hat),),
    )
    after = temper(q, Memory(50.0, 6.0, 6.0), 1)
    v_cav = v / (1.0 - rho * (1.0 - v_hat * v))
    assert_allclose(after.v_w[0], v_cav, rtol=1e-14)
    assert_allclose(after.m_w[0], m * (1.0 - rho) * v_cav / v, rtol=1e-14)


def test_a_q_without_evidence_stays():
    q = replace(start([3, 4, 1]), m_w=(np.zeros((4, 4)), np.zeros((1, 5))))
    after = temper(q, Memory(10.0, 6.0, 6.0), 3)
    for a, b in zip(after.m_w + after.v_w, q.m_w + q.v_w, strict=True):
        assert_allclose(a, b, rtol=1e-15)
    assert (after.alpha_noise, after.beta_noise) == pytest.approx((6.0, 6.0), rel=1e-15)


# ---- The engines


@settings(max_examples=40, deadline=None)
@given(
    n_features=st.integers(1, 20),
    hidden=st.lists(st.integers(1, 40), min_size=0, max_size=3),
    n=st.integers(1, 90),
    evidence_cap=st.floats(1.0, 40.0),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_native_is_the_reference(n_features, hidden, n, evidence_cap, seed, dtype):
    before = start([n_features, *hidden, 1], seed, dtype)
    X, y = sine(n, n_features, seed)
    bound = Memory(evidence_cap * n, 6.0, 6.0)
    (native, info), (reference, reference_info) = (
        engine.adf_pass(before, X.astype(dtype), y, np.arange(n), memory=bound)
        for engine in (NATIVE, REFERENCE)
    )
    for a, b in zip(native.m_w + native.v_w, reference.m_w + reference.v_w, strict=True):
        scale = max(np.abs(b).max(), 1e-3)
        assert_allclose(a, b, rtol=0, atol=RTOL[dtype] * scale)
    assert native.alpha_noise == pytest.approx(reference.alpha_noise, rel=RTOL[dtype])
    assert native.beta_noise == pytest.approx(reference.beta_noise, rel=RTOL[dtype])
    assert info.log_Z_sum == pytest.approx(reference_info.log_Z_sum, rel=RTOL[dtype], abs=1e-6)
    assert (info.n_points, info.n_skipped) == (n, reference_info.n_skipped)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130])
def test_every_width(width):
    before = start([3, width, width, 1], width)
    X, y = sine(8, 3, width)
    native, reference = (
        engine.adf_pass(before, X, y, np.arange(8), memory=Memory(24.0, 6.0, 6.0))[0]
        for engine in (NATIVE, REFERENCE)
    )
    for a, b in zip(native.m_w + native.v_w, reference.m_w + reference.v_w, strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_a_point_left_out_gives_back_all_the_same():
    before = start([1, 3, 1])
    X, y = np.array([[0.5], [1e200], [0.1]]), np.array([0.2, 0.1, -0.3])
    memory = Memory(10.0, 6.0, 6.0)
    native, info = NATIVE.adf_pass(before, X, y, np.arange(3), memory=memory)
    reference, expected = REFERENCE.adf_pass(before, X, y, np.arange(3), memory=memory)
    assert info.n_skipped == expected.n_skipped == 1
    for a, b in zip(native.m_w + native.v_w, reference.m_w + reference.v_w, strict=True):
        assert_allclose(a, b, rtol=1e-11)


def test_the_kernel_refuses_what_does_not_fit():
    before = start([2, 3, 1])
    X, y = sine(4, 2)
    short = replace(before, v_hat_nat=before.v_hat_nat[:1])
    with pytest.raises(ValueError, match="prior precisions do not fit"):
        NATIVE.adf_pass(short, X, y, np.arange(4), memory=Memory(4.0, 6.0, 6.0))
    with pytest.raises(ValueError, match="memory must hold a point"):
        NATIVE.adf_pass(before, X, y, np.arange(4), memory=Memory(0.5, 6.0, 6.0))


# ---- Fixed points


def linear_problem() -> tuple[np.ndarray, np.ndarray, float]:
    """Standardized rows u = [x, 1]/sqrt(2), targets, and a noise variance."""
    random = np.random.RandomState(3)
    x = random.standard_normal((12, 1))
    y = 0.8 * x[:, 0] - 0.5 + 0.3 * random.standard_normal(12)
    return x, y, 0.09


def mean_field_ep(u: np.ndarray, y: np.ndarray, noise: float, prior: float) -> tuple:
    """Stochastic EP with factorized Gaussians on linear regression, solved on its own.

    All N points share one average site: q is prior times site^N, a point's cavity is q without
    one site, and at the fixed point the mean over points of the natural parameters of the
    moment-matched tilted distributions, minus the cavity's, is the site.
    """
    n = len(y)
    site_precision, site_shift = np.full(2, 0.1), np.zeros(2)
    for _ in range(1500):  # 0.95^1500 is 4e-34
        cavity = prior + (n - 1) * site_precision
        v, m = 1.0 / cavity, (n - 1) * site_shift / cavity
        precisions, shifts = [], []
        for row, target in zip(u, y, strict=True):
            s = noise + row @ (v * row)
            m_new = m + v * row * (target - m @ row) / s
            v_new = v - v * v * row * row / s
            precisions.append(1.0 / v_new - cavity)
            shifts.append(m_new / v_new - m * cavity)
        site_precision += 0.05 * (np.mean(precisions, axis=0) - site_precision)
        site_shift += 0.05 * (np.mean(shifts, axis=0) - site_shift)
    precision = prior + n * site_precision
    return n * site_shift / precision, 1.0 / precision


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_tempering_1_goes_to_the_fixed_point_of_stochastic_ep(engine):
    x, y, noise = linear_problem()
    u = np.column_stack([x, np.ones(len(y))]) / np.sqrt(2.0)
    m_expected, v_expected = mean_field_ep(u, y, noise, prior=1.0 / 1.2)
    shape = 1e12  # a noise that is known
    q = replace(start([1, 1]), alpha_noise=shape, beta_noise=noise * shape)
    random = np.random.RandomState(0)
    memory = Memory(float(len(y)), shape, noise * shape)
    n_passes = 4000 if engine == "native" else 600
    moments = []
    for _ in range(n_passes):
        q, _ = ENGINES[engine].adf_pass(q, x, y, random.permutation(len(y)), memory=memory)
        moments.append((q.m_w[0][0], q.v_w[0][0]))
    # Single passes go up and down with the order of the points; their mean does not.
    m, v = np.mean(moments[100:], axis=0)
    assert_allclose(v, v_expected, rtol=0.02)
    assert_allclose(m, m_expected, atol=0.1 * np.sqrt(v_expected.max()))


def test_without_a_bound_the_posterior_shrinks_and_with_one_it_does_not():
    x, y, noise = linear_problem()
    q = replace(start([1, 1]), alpha_noise=1e12, beta_noise=noise * 1e12)
    memory = Memory(3.0 * len(y), 1e12, noise * 1e12)
    after = {}
    for bound in (None, memory):
        after[bound] = [q]
        for _ in range(200):
            after[bound].append(
                NATIVE.adf_pass(after[bound][-1], x, y, np.arange(12), memory=bound)[0]
            )
    free, bounded = ([p.v_w[0].max() for p in after[bound]] for bound in (None, memory))
    assert free[200] < 0.6 * free[100] < 0.4 * free[50]
    assert bounded[200] == pytest.approx(bounded[100], rel=1e-3)


def test_the_noise_forgets():
    """Early outliers leave the noise estimate after `evidence_cap` epochs."""
    x, y, _ = linear_problem()
    wild = y + 5.0 * np.random.RandomState(1).standard_normal(len(y))
    noise = {}
    for bound in (None, Memory(2.0 * len(y), 6.0, 6.0)):
        q = start([1, 1])
        for targets in [wild] * 5 + [y] * 10:
            q, _ = NATIVE.adf_pass(q, x, targets, np.arange(len(y)), memory=bound)
        noise[bound] = q.noise_variance
    free, bounded = noise.values()
    assert bounded < 0.25 * free


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", [NATIVE, REFERENCE], ids=["native", "reference"])
def test_a_share_that_rounds_to_nothing_is_no_memory(engine, dtype):
    X, y = sine(40, 3)
    q = start([3, 5, 1], 4, dtype)
    order = np.arange(40)
    unbounded, info = engine.adf_pass(q, X.astype(dtype), y, order)
    bounded, bounded_info = engine.adf_pass(
        q, X.astype(dtype), y, order, memory=Memory(1e300, 6.0, 6.0)
    )
    for a, b in zip(bounded.m_w + bounded.v_w, unbounded.m_w + unbounded.v_w, strict=True):
        assert_array_equal(a, b)
    assert (bounded.alpha_noise, bounded.beta_noise) == (
        unbounded.alpha_noise,
        unbounded.beta_noise,
    )
    assert bounded_info == info


# ---- The estimator


def test_fit_bounds_by_epochs_over_its_rows():
    X, y = sine(40, 3)
    model = PBPRegressor(5, n_epochs=2, evidence_cap=4.0, standardize=False, random_state=1).fit(
        X, y
    )
    random = np.random.RandomState(1)
    q = initial_posterior(
        [3, 5, 1],
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=random,
        dtype=np.dtype(float),
    )
    for _ in range(2):
        order = random.permutation(40)
        q, _ = NATIVE.adf_pass(q, X, y, order, memory=Memory(160.0, 6.0, 6.0))
        q, _ = NATIVE.refine_prior(q)
    for a, b in zip(model.posterior_.m_w, q.m_w, strict=True):
        assert_array_equal(a, b)


def test_partial_fit_bounds_by_the_rows_seen():
    X, y = sine(60, 3)
    model = PBPRegressor(5, evidence_cap=2.0, standardize=False, random_state=1)
    model.partial_fit(X[:20], y[:20])
    before = model.posterior_
    model.partial_fit(X[20:], y[20:])
    q, _ = NATIVE.adf_pass(before, X[20:], y[20:], np.arange(40), memory=Memory(120.0, 6.0, 6.0))
    q, _ = NATIVE.refine_prior(q, ONCE_INFORMATIVE_RATIO)
    for a, b in zip(model.posterior_.m_w, q.m_w, strict=True):
        assert_array_equal(a, b)


def test_one_row_and_evidence_cap_1_leaves_a_prediction():
    mean, std = (
        PBPRegressor(5, evidence_cap=1.0, random_state=0)
        .fit([[1.0]], [3.0])
        .predict([[1.0]], return_std=True)
    )
    assert np.isfinite(mean).all()
    assert (std > 0).all()


@pytest.mark.parametrize(
    ("evidence_cap", "message"),
    [
        (0.5, "evidence_cap == 0.5, must be >= 1"),
        (float("nan"), "evidence_cap == nan"),
        (float("inf"), "evidence_cap == inf, must be finite"),
        ("auto", "evidence_cap must be a number. Got 'auto' instead: use PBPRegressorCV or PBPCl"),
    ],
)
def test_an_evidence_cap_that_makes_no_sense_is_refused(evidence_cap, message):
    with pytest.raises(ValueError, match=message):
        PBPRegressor(evidence_cap=evidence_cap).fit([[0.0], [1.0]], [0.0, 1.0])
