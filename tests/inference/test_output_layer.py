"""The output layer with a full covariance, against dense normal equations and scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import BayesianRidge

import probprop
from probprop import PBPRegressor
from probprop._types import Array, FloatArray
from probprop.estimators.base import plan_of
from probprop.inference.inputs import Inputs
from probprop.inference.output_layer import Block, fit_output_layer
from probprop.inference.prediction import output_features
from probprop.reference.adf import forward


def samples(n: int = 200, n_features: int = 7, K: int = 2) -> tuple[FloatArray, FloatArray]:
    random = np.random.RandomState(0)
    features = random.standard_normal((n, n_features)) * np.logspace(-2, 1, n_features) + 3.0
    y = features[:, :K] * 5.0 + features[:, -K:] + random.standard_normal((n, K))
    return features, y


# ---- The regression


def test_it_is_bayesian_ridge() -> None:
    features, y = samples(K=1)
    layer = fit_output_layer([Block(features, y)])
    ridge = BayesianRidge(max_iter=5000, tol=1e-12).fit(features, y[:, 0])
    assert_allclose(layer.noise_variance, 1.0 / ridge.alpha_, rtol=1e-6)
    assert_allclose(layer.axes @ layer.coef[:, 0], ridge.coef_, rtol=1e-6)
    assert_allclose((layer.axes * layer.variance[:, 0]) @ layer.axes.T, ridge.sigma_, rtol=1e-5)
    new = features[:20] * 1.5
    mean, variance = layer.moments(new)
    expected_mean, std = ridge.predict(new, return_std=True)
    assert_allclose(mean[:, 0], expected_mean, rtol=1e-8)
    # scikit-learn takes the intercept for known.
    of_intercept = layer.noise_variance / len(y)
    assert_allclose(variance[:, 0] - of_intercept + layer.noise_variance, std**2, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_solves_the_normal_equations(weighted: bool) -> None:
    features, y = samples()
    weights = np.random.RandomState(1).chisquare(3, len(y)) if weighted else None
    layer = fit_output_layer([Block(features, y, weights)])
    w = np.ones(len(y)) if weights is None else weights
    design = np.column_stack([features, np.ones(len(y))])
    for k in range(y.shape[1]):
        alpha = 1.0 / layer.noise_variance[k]
        # The prior precision follows from a variance and the eigenvalue of its axis.
        center = (w @ features) / w.sum()
        S = (features - center).T * w @ (features - center)
        lam = (1.0 / layer.variance[:, k] - alpha * np.diag(layer.axes.T @ S @ layer.axes)).mean()
        precision = np.diag([lam] * features.shape[1] + [0.0]) + alpha * (design.T * w) @ design
        coef = alpha * np.linalg.solve(precision, design.T @ (w * y[:, k]))
        covariance = np.linalg.inv(precision)
        mean, variance = layer.moments(features[:9] + 1.0)
        at = np.column_stack([features[:9] + 1.0, np.ones(9)])
        assert_allclose(mean[:, k], at @ coef, rtol=1e-8)
        assert_allclose(variance[:, k], ((at @ covariance) * at).sum(axis=1), rtol=1e-6)


def test_blocks_are_added_up_and_useless_features_do_no_harm() -> None:
    features, y = samples()
    features = np.column_stack([features, features[:, 0], np.ones(len(y))])
    whole = fit_output_layer([Block(features, y)])
    parts = fit_output_layer([Block(features[:50], y[:50]), Block(features[50:], y[50:])])
    for a, b in zip(whole.moments(features), parts.moments(features), strict=True):
        assert_allclose(a, b, rtol=1e-8)
    nothing = fit_output_layer([Block(features, np.random.RandomState(2).randn(len(y), 1))])
    assert nothing.noise_variance[0] == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("weighted", [False, True])
def test_more_samples_are_added_to_the_normal_equations(weighted: bool) -> None:
    features, y = samples()
    weights = np.random.RandomState(1).chisquare(3, len(y)) if weighted else np.ones(len(y))
    before = fit_output_layer([Block(features[:120], y[:120], weights[:120])])
    after = before.after(Block(features[120:], y[120:], weights[120:]))
    design = np.column_stack([features, np.ones(len(y))])
    for k in range(y.shape[1]):
        alpha = 1.0 / before.noise_variance[k]
        inner = (before.axes / before.variance[:, k]) @ before.axes.T  # of the weights, before
        shift = np.eye(len(inner) + 1)
        shift[-1, :-1] = before.center  # to the intercept at the mean
        precision = np.zeros_like(shift)
        precision[:-1, :-1], precision[-1, -1] = inner, 1.0 / before.intercept_variance[k]
        precision = shift.T @ precision @ shift
        known = precision @ np.append(
            before.axes @ before.coef[:, k],
            before.intercept[k] - before.center @ before.axes @ before.coef[:, k],
        )
        new, w = design[120:], weights[120:]
        precision += alpha * (new.T * w) @ new
        coef = np.linalg.solve(precision, known + alpha * new.T @ (w * y[120:, k]))
        mean, variance = after.moments(features[:9] + 1.0)
        at = np.column_stack([features[:9] + 1.0, np.ones(9)])
        assert_allclose(mean[:, k], at @ coef, rtol=1e-7)
        expected = ((at @ np.linalg.inv(precision)) * at).sum(axis=1)
        assert_allclose(variance[:, k], expected, rtol=1e-6)


# ---- The estimator


def smooth(n: int = 600) -> tuple[FloatArray, FloatArray]:
    X = np.random.RandomState(0).uniform(size=(n, 4))
    return X, np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 40.0


@pytest.mark.parametrize("hidden", [(), (12,), (9, 8)])
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_features_are_the_mean_outputs_of_the_last_hidden_layer(
    hidden: tuple[int, ...], engine: Any
) -> None:
    X, y = smooth(60)
    model = PBPRegressor(hidden, n_epochs=2, engine=engine, random_state=0).fit(X, y)
    q, s = model.posterior_, model.standardizer_
    got = output_features(plan_of(model, model.likelihood_), q, s, Inputs(X))
    Xs = (X - s.x_mean) / s.x_scale
    expected = Xs
    if hidden:
        m_z = forward(q.m_w, q.v_w, Xs).m_z[-1][:, : hidden[-1]]
        expected = np.column_stack([m_z, Xs])
    assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_targets_without_noise_gain(dtype: Any) -> None:
    X, y = smooth()
    scores = []
    for output_layer in ("mean_field", "full"):
        model = PBPRegressor((30,), output_layer=output_layer, dtype=dtype, random_state=0)
        predicted = model.fit(X[:300], y[:300]).predict_distribution(X[300:])
        scores.append(predicted.logpdf(y[300:]).mean())
        noise = model.noise_variance_
        assert_allclose(predicted.aleatoric_std**2, noise, rtol=1e-6)
    assert scores[1] > scores[0] + 0.3


def test_a_linear_model_is_the_regression_on_the_features() -> None:
    X, y = smooth()
    model = PBPRegressor((), output_layer="full", random_state=0).fit(X, y)
    ridge = BayesianRidge(max_iter=5000, tol=1e-12).fit((X - X.mean(0)) / X.std(0), y / y.std())
    expected = ridge.predict((X - X.mean(0)) / X.std(0)) * y.std()
    assert_allclose(model.predict(X), expected, rtol=1e-6)


def test_files_and_several_targets(tmp_path: Path) -> None:
    X, y = smooth(150)
    Y = np.column_stack([y, y**2])
    given: Any = {"output_layer": "full", "n_epochs": 3, "random_state": 0}
    for target in (y, Y):
        model = PBPRegressor((8,), **given).fit(X, target)
        model.save(tmp_path / "model")
        loaded = probprop.load(tmp_path / "model")
        for a, b in zip(model.predict(X, True), loaded.predict(X, True), strict=True):
            np.testing.assert_array_equal(a, b)


def test_sparse_weighted_and_missing_samples() -> None:
    X, y = smooth(200)
    X = X * (X > 0.4)
    given: Any = {"output_layer": "full", "n_epochs": 3, "random_state": 0}
    sparsely = PBPRegressor((8,), **given).fit(sparse.csr_array(X), y)
    assert_allclose(sparsely.predict(X), sparsely.predict(sparse.csr_array(X)), rtol=1e-9)
    weights = np.random.RandomState(0).chisquare(3, len(y))
    weighted = PBPRegressor((8,), **given).fit(X, y, weights)
    assert not np.allclose(weighted.predict(X), PBPRegressor((8,), **given).fit(X, y).predict(X))
    gaps: Array = np.where(X == 0.0, np.nan, X)
    model = PBPRegressor((8,), missing="marginalize", **given).fit(gaps, y)
    assert np.isfinite(model.predict(gaps)).all()


@pytest.mark.parametrize("hidden", [(), (6,), (7, 5)])
def test_gradients_match_differences(hidden: tuple[int, ...]) -> None:
    X, y = smooth(80)
    model = PBPRegressor(hidden, output_layer="full", n_epochs=3, random_state=0).fit(X, y)
    found, h = model.predict_gradient(X), 1e-5
    mean, std = model.predict(X, return_std=True)
    assert_allclose(found.mean, mean, rtol=1e-12)
    assert_allclose(found.std, std, rtol=1e-12)
    for j in range(X.shape[1]):
        step = h * np.eye(X.shape[1])[j]
        pairs = [model.predict(X + s * step, return_std=True) for s in (1, -1)]
        dmean, dstd = ((a - b) / (2.0 * h) for a, b in zip(*pairs, strict=True))
        assert_allclose(found.dmean_dX[:, j], dmean, rtol=1e-4, atol=1e-6)
        assert_allclose(found.dstd_dX[:, j], dstd, rtol=1e-3, atol=1e-6)


def test_sampled_functions_have_the_moments_of_the_posterior() -> None:
    X, y = smooth(80)
    model = PBPRegressor((6,), output_layer="full", n_epochs=3, random_state=0).fit(X, y)
    drawn = model.sample_functions(3_000, random_state=0)
    values = np.stack([f(X[:5]) for f in drawn])
    expected = model.predict_distribution(X[:5])
    assert_allclose(
        values.mean(axis=0), expected.mean, atol=5.0 * expected.epistemic_std.max() / 54
    )
    assert_allclose(values.std(axis=0), expected.epistemic_std, rtol=0.08)
    value, gradient = drawn[0].gradient(X[:5])
    assert_allclose(value, values[0])
    above, below = (drawn[0](X[:5] + s * 1e-5 * np.eye(4)[1]) for s in (1, -1))
    assert_allclose(gradient[:, 1], (above - below) / 2e-5, rtol=1e-4, atol=1e-6)


def test_a_fitted_model_continues_with_its_features() -> None:
    X, y = smooth(200)
    model = PBPRegressor((6,), output_layer="full", n_epochs=3, random_state=0).fit(X[:80], y[:80])
    _, before = model.predict(X, return_std=True)
    first = model.posterior_.m_w[0].copy()
    model.partial_fit(X[80:], y[80:])
    _, after = model.predict(X, return_std=True)
    np.testing.assert_array_equal(model.posterior_.m_w[0], first)
    assert (after <= before * (1.0 + 1e-9)).all()
    assert model.n_samples_seen_ == 200
    assert model.history_[-1].n_points == 120


def test_what_is_not_available_is_said() -> None:
    X, y = smooth(50)
    model = PBPRegressor((4,), output_layer="full", n_epochs=2, random_state=0).fit(X, y)
    for call in (
        lambda: model.predict_distribution(X, student_t=True),
        lambda: model.fit(X, y, y_std=np.ones(50)),
    ):
        with pytest.raises(ValueError, match="is not available for output_layer="):
            call()
    with pytest.raises(ValueError, match="needs a model that was fitted"):
        PBPRegressor(output_layer="full").partial_fit(X, y)
    for options in ({"noise": "input"}, {"noise_tail": "heavy"}):
        with pytest.raises(ValueError, match="has constant, Gaussian noise"):
            PBPRegressor(output_layer="full", **options).fit(X, y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="output_layer must be"):
        PBPRegressor(output_layer="exact").fit(X, y)  # type: ignore[arg-type]
