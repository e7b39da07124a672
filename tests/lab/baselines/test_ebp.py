"""Expectation backpropagation: Eq. (6) and nothing else."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.utils.estimator_checks import parametrize_with_checks

import posteriors
from probprop import PBPRegressor
from probprop.inference.engine import ENGINES, Engine
from probprop.inference.posterior import Posterior, initial_posterior
from probprop.reference.adf import gradients
from probprop.reference.gamma import gamma_update
from probprop_lab.baselines import EBPRegressor
from probprop_lab.baselines.ebp import mean_pass

HIDDEN = [[], [6], [6, 5], [20, 17, 9]]


start = partial(posteriors.start, prior_shape=2.0, prior_rate=0.7)
data = partial(posteriors.sine, seed=1)


def log_density(engine: Engine, posterior: Posterior, X: np.ndarray, y: float) -> float:
    """Return log N(y | m_out, v_out + noise) from the forward pass alone."""
    mean, variance = (a[0] for a in engine.predict_moments(posterior, X))
    total = variance + posterior.noise_variance[0]
    return float(-0.5 * (np.log(2.0 * np.pi * total) + (y - mean) ** 2 / total))


# ---- The pass


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_variances_stay_bit_for_bit(dtype: str, hidden: list[int]) -> None:
    X, y = data(40, 3)
    y[7] = 1e3  # an outlier, which Eq. (7) would have to undo
    before = start([3, *hidden, 1], dtype=dtype)
    after, info = mean_pass(before, X.astype(dtype), y, np.arange(40))
    for old, new in zip(before.v_w, after.v_w, strict=True):
        assert new.dtype == old.dtype
        np.testing.assert_array_equal(new, old)
    for old, new in zip(before.m_w, after.m_w, strict=True):
        assert (new != old).any()
    assert (info.n_undone, info.n_skipped) == (0, 0)
    assert after.alpha_noise != before.alpha_noise  # the noise is learned


@pytest.mark.parametrize("hidden", HIDDEN)
def test_means_follow_eq_6(hidden: list[int]) -> None:
    X, y = data(1, 3)
    before = start([3, *hidden, 1])
    after, _ = mean_pass(before, X, y, np.array([0]))
    _, dlogZ_dm_w, _ = gradients(before, X[0], y[0])
    for m, v, d, m_new in zip(before.m_w, before.v_w, dlogZ_dm_w, after.m_w, strict=True):
        np.testing.assert_array_equal(m_new, m + v * d)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_step_is_the_slope_of_the_evidence(engine: str) -> None:
    X, y = data(1, 2)
    before = start([2, 4, 3, 1])
    after, _ = mean_pass(before, X, y, np.array([0]))
    for layer, (m, v) in enumerate(zip(before.m_w, before.v_w, strict=True)):
        for index in np.ndindex(m.shape):
            kept, values = m[index], []
            for step in (1e-5, -1e-5):
                m[index] = kept + step
                values.append(log_density(ENGINES[engine], before, X, y[0]))
            m[index] = kept
            slope = (values[0] - values[1]) / 2e-5
            moved = after.m_w[layer][index] - kept
            assert moved == pytest.approx(v[index] * slope, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_mean_update_matches_pbp(engine: str) -> None:
    X, y = data(1, 3)
    before = start([3, 8, 5, 1])
    with_it, info = ENGINES[engine].adf_pass(before, X, y, np.array([0]))
    without, _ = mean_pass(before, X, y, np.array([0]))
    assert info.n_undone == 0
    for a, b in zip(with_it.m_w, without.m_w, strict=True):
        if engine == "reference":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert with_it.alpha_noise == pytest.approx(without.alpha_noise, rel=1e-13)
    assert any((v != w).any() for v, w in zip(with_it.v_w, without.v_w, strict=True))


# ---- The estimator


def test_a_linear_model_is_the_normalized_lms_filter() -> None:
    X, y = data(30, 3)
    model = EBPRegressor((), n_epochs=3, prior_variance=0.4, random_state=5).fit(X, y)

    Xs, ys = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    random = np.random.RandomState(5)
    weights = random.standard_normal((1, 4))[0] / 2.0
    alpha = beta = 6.0
    for _ in range(3):
        for i in random.permutation(30):
            z = np.append(Xs[i], 1.0) / 2.0
            residual, v_out = ys[i] - weights @ z, 0.4 * (z @ z)
            weights = weights + 0.4 * z * residual / (v_out + beta / (alpha - 1.0))
            alpha, beta, _ = gamma_update(alpha, beta, residual**2, v_out)
    np.testing.assert_allclose(model.posterior_.m_w[0][0], weights, rtol=1e-10)
    assert model.noise_variance_ == pytest.approx(beta / (alpha - 1.0) * y.var(), rel=1e-10)


def test_a_fit_is_epochs_without_variances() -> None:
    X, y = data(25, 2)
    model = EBPRegressor([7, 4], n_epochs=4, prior_variance=0.7, random_state=2).fit(X, y)
    random = np.random.RandomState(2)
    posterior = initial_posterior(
        [2, 7, 4, 1],
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=2.0,
        prior_rate=0.7,
        random_state=random,
        dtype=np.dtype(float),
    )
    Xs, ys = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    for _ in range(4):
        posterior, _ = mean_pass(posterior, Xs, ys, random.permutation(25))
    for ours, expected in zip(model.posterior_.m_w, posterior.m_w, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-11)
    for v in model.posterior_.v_w:
        assert set(v.ravel().tolist()) == {0.7}
    assert model.posterior_.prior_variance == 0.7
    mean, variance = ENGINES["reference"].predict_moments(posterior, Xs)
    predictive = model.predict_distribution(X)
    np.testing.assert_allclose(predictive.mean, y.mean() + y.std() * mean, rtol=1e-7)
    np.testing.assert_allclose(predictive.epistemic_std**2, y.var() * variance, rtol=1e-7)


def test_more_data_do_not_reduce_the_std() -> None:
    X, y = load_diabetes(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (y - y.mean()) / y.std()
    new = X[:50]
    few, many = (
        EBPRegressor((), n_epochs=20, random_state=0).fit(X[-n:], y[-n:]) for n in (40, 400)
    )
    for model in (few, many):
        scale = model.standardizer_
        z = np.column_stack([(new - scale.x_mean) / scale.x_scale, np.ones(50)])
        expected = math.sqrt(1.2 / 11.0) * np.linalg.norm(z, axis=1) * scale.y_scale
        np.testing.assert_allclose(
            model.predict_distribution(new).epistemic_std, expected, rtol=1e-12
        )


def test_the_default_is_where_pbp_starts() -> None:
    gamma = PBPRegressor()
    assert EBPRegressor().prior_variance == gamma.prior_rate / (gamma.prior_shape - 1.0)


def test_fit_starts_afresh() -> None:
    X, y = data(30, 2)
    model = EBPRegressor(5, n_epochs=2, random_state=0).fit(X, y)
    first = model.predict(X)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), first)
    assert len(model.history_) == 2


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_prior_variance_must_be_positive(value: float) -> None:
    X, y = data(10, 2)
    with pytest.raises(ValueError, match="prior_variance == "):
        EBPRegressor(prior_variance=value).fit(X, y)


@parametrize_with_checks([EBPRegressor()])
def test_scikit_learn_checks(estimator: EBPRegressor, check: object) -> None:
    assert callable(check)
    check(estimator)


def test_layers_have_the_requested_sizes() -> None:
    X, y = data(10, 2)
    model = EBPRegressor([4, 3], n_epochs=1, random_state=0).fit(X, y)
    shapes = [(n_out, n_in + 1) for n_in, n_out in pairwise([2, 4, 3, 1])]
    assert [m.shape for m in model.posterior_.m_w] == shapes
