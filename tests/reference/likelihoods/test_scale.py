"""The likelihood of a scale: log Z of points, passes of both engines, and a network by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import posteriors
from probprop import _kernel
from probprop._types import FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Scale
from probprop.inference.noise import LogScale
from probprop.inference.plan import Plan
from probprop.inference.posterior import Memory
from probprop.inference.prediction import predictive
from probprop.inference.training import begin, start, train
from probprop.reference.likelihoods import SCALE, Evidence
from probprop.reference.scale_mixture import scale_mixture

ONE = np.ones(1)  # alpha and beta of a noise that is not learned: not read
RTOL = {"float64": 1e-10, "float32": 2e-3}


def native(m: FloatArray, v: FloatArray, y: FloatArray) -> Evidence:
    return Evidence(*_kernel.log_Z("scale", m, v, y, ONE, ONE))


def targets(n: int, K: int, seed: int) -> FloatArray:
    """Residuals, variances of their means and levels, (n, 3 K)."""
    random = np.random.RandomState(seed)
    variance, level = np.exp(random.normal(-1.0, 1.5, (2, n, K)))
    residual = np.sqrt(variance + level) * random.standard_t(3, (n, K))
    return np.concatenate([residual, variance, level], axis=1)


@pytest.mark.parametrize("K", [1, 2, 3, 9])
def test_outputs_are_independent(K: int) -> None:
    random = np.random.RandomState(K)
    m, v, (y,) = random.standard_normal(K), random.chisquare(1, K), targets(1, K, K)
    d, d_var, level = y.reshape(3, K)
    parts = [scale_mixture(d[k], d_var[k], math.log(level[k]) + m[k], v[k]) for k in range(K)]
    for got in (SCALE.log_Z(m, v, y, ONE), native(m, v, y)):
        assert got.log_Z == pytest.approx(sum(part.log_Z for part in parts), rel=1e-12)
        assert_allclose(got.dlogZ_dm, [part.dlogZ_dmu for part in parts], rtol=1e-10, atol=1e-13)
        assert_allclose(got.dlogZ_dv, [part.dlogZ_dvar for part in parts], rtol=1e-10, atol=1e-13)


def test_a_larger_residual_raises_the_noise() -> None:
    slopes = [native(np.zeros(1), ONE, np.array([d, 0.1, 1.0])).dlogZ_dm[0] for d in (0.1, 1, 9)]
    assert slopes[0] < 0.0 < slopes[2]
    assert slopes == sorted(slopes)


def test_what_is_not_finite_is_skipped_and_counted() -> None:
    X, y = np.zeros((3, 2)), targets(3, 1, 0)
    y[1, 0] = 1e160
    before = posteriors.start([2, 4, 1], noise_shape=2.0, noise_rate=1.0)
    for engine in ENGINES.values():
        after, info = engine.adf_pass(before, X, y, np.array([1]), likelihood=SCALE)
        assert (info.n_points, info.n_skipped) == (1, 1)
        for a, b in zip(after.m_w, before.m_w, strict=True):
            np.testing.assert_array_equal(a, b)
    # The square of the derivative overflows, log Z does not.
    for evidence in (native, lambda m, v, y: SCALE.log_Z(m, v, y, ONE)):
        assert math.isnan(evidence(np.zeros(1), np.zeros(1), np.array([1e100, 0.1, 1.0])).log_Z)


@settings(max_examples=30, deadline=None)
@given(
    K=st.integers(1, 4),
    hidden=st.lists(st.integers(1, 20), min_size=0, max_size=2),
    n=st.integers(1, 15),
    capacity=st.none() | st.floats(1.0, 100.0),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_epochs_agree(
    K: int, hidden: list[int], n: int, capacity: float | None, seed: int, dtype: str
) -> None:
    X = np.random.RandomState(seed).standard_normal((n, 3)).astype(dtype)
    before = posteriors.start([3, *hidden, K], seed, dtype, noise_shape=2.0, noise_rate=1.0)
    y = targets(n, K, seed)
    memory = None if capacity is None else Memory(capacity, 2.0, 1.0)
    (native, native_info), (reference, info) = (
        ENGINES[name].adf_pass(before, X, y, np.arange(n), likelihood=SCALE, memory=memory)
        for name in ("native", "reference")
    )
    assert native_info.log_Z_sum == pytest.approx(info.log_Z_sum, rel=RTOL[dtype])
    assert native_info.n_skipped == info.n_skipped == 0
    for name in ("m_w", "v_w"):
        for a, b in zip(getattr(native, name), getattr(reference, name), strict=True):
            scale = max(np.abs(b).max(), 1e-3)
            assert_allclose(a, b, rtol=0.0, atol=RTOL[dtype] * scale, err_msg=name)


def fitted(engine: str, n: int, n_epochs: int) -> tuple[FloatArray, FloatArray, LogScale, Scale]:
    """Residuals of noise variance 0.2 exp(h(x)) and of a mean known up to a variance of 0.05."""
    random = np.random.RandomState(0)
    x = random.uniform(-2.0, 2.0, n)
    h = 1.5 * x
    residual = np.sqrt(0.05 + 0.2 * np.exp(h)) * random.standard_normal(n)
    likelihood = Scale()
    y = likelihood.encode(np.stack([residual, np.full(n, 0.05), np.full(n, 0.2)], axis=1))
    plan, inputs = (
        Plan(likelihood, hidden=(10,), evidence_cap=4.0, engine=engine),
        Inputs(x[:, None]),
    )
    run = begin(plan, start(plan, inputs, y, random), inputs, y, random)
    *_, run = train(run, [1] * n_epochs)
    p = predictive(plan, run.fitted.posterior, run.fitted.standardizer, inputs)
    return h, y, p, likelihood


def test_a_network_finds_the_variance() -> None:
    h, y, p, likelihood = fitted("native", n=2000, n_epochs=20)
    middle = np.abs(h) < 2.5
    assert np.sqrt(np.mean((p.mean - h)[middle] ** 2)) < 0.3
    found, constant = likelihood.log_p(p, y), likelihood.log_p(LogScale(0.0 * h, 0.0 * h), y)
    truth = likelihood.log_p(LogScale(h, 0.0 * h), y)
    assert found.shape == (2000,)
    assert truth.mean() - found.mean() < 0.02
    assert found.mean() - constant.mean() > 0.2


def test_both_engines_train_it_alike() -> None:
    *_, native, _ = fitted("native", n=30, n_epochs=2)
    *_, reference, _ = fitted("reference", n=30, n_epochs=2)
    assert_allclose(native.mean, reference.mean, rtol=1e-8, atol=1e-10)
    assert_allclose(native.variance, reference.variance, rtol=1e-8)


def test_log_p_is_log_Z_of_each_row() -> None:
    random, likelihood, y = np.random.RandomState(1), Scale(n_outputs=2), targets(5, 2, 1)
    p = LogScale(random.standard_normal((5, 2)), random.chisquare(1, (5, 2)))
    expected = [
        likelihood.log_Z(m, v, row, ONE).log_Z
        for m, v, row in zip(p.mean, p.variance, y, strict=True)
    ]
    assert_allclose(likelihood.log_p(p, y), expected, rtol=1e-11)
    draws = p.mean + np.sqrt(p.variance) * random.standard_normal((200_000, 5, 2))
    assert_allclose(p.factor, np.exp(draws).mean(axis=0), rtol=0.2)


def test_the_kernel_refuses_targets_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="length"):
        native(ONE, ONE, np.ones(2))
    for row in ([1.0, -0.1, 1.0], [1.0, 0.1, 0.0], [1.0, np.nan, 1.0]):
        with pytest.raises(ValueError, match="variance of a residual"):
            native(ONE, ONE, np.array(row))
