"""The deep ensemble: its gradient, its steps, and what it predicts where the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from scipy import stats

from finite_differences import assert_gradient, differences
from probprop_lab.baselines import deep_ensemble
from probprop_lab.baselines.deep_ensemble import DeepEnsemble

K, N, SIZES = 3, 7, (4, 6, 5, 2)


def drawn() -> tuple[deep_ensemble.Weights, np.ndarray, np.ndarray]:
    random = RandomState(0)
    weights = deep_ensemble.initial_weights(K, SIZES, random)
    return weights, random.normal(size=(K, N, SIZES[0])), random.normal(size=(K, N))


# ---- The networks


def test_the_loss_is_the_gaussian_log_likelihood_of_networks_one_by_one() -> None:
    weights, X, y = drawn()
    found = deep_ensemble.loss(weights, X, y)
    for k in range(K):
        log_p = []
        for x, target in zip(X[k], y[k], strict=True):
            z = x
            for layer, w in enumerate(weights):
                z = np.append(z, 1.0) @ w[k]
                z = np.where(z > 0.0, z, 0.0) if layer < len(weights) - 1 else z
            std = np.sqrt(np.log1p(np.exp(z[1])) + 1e-6)
            log_p.append(stats.norm(z[0], std).logpdf(target))
        assert found[k] + 0.5 * np.log(2.0 * np.pi) == pytest.approx(-np.mean(log_p))


def test_the_gradient_matches_finite_differences() -> None:
    weights, X, y = drawn()
    slopes = deep_ensemble.gradient(weights, X, y)
    for layer, (w, slope) in enumerate(zip(weights, slopes, strict=True)):
        assert slope.shape == w.shape

        def loss(flat: np.ndarray, layer: int = layer, shape: tuple[int, ...] = w.shape) -> Any:
            moved = [*weights[:layer], flat.reshape(shape), *weights[layer + 1 :]]
            return deep_ensemble.loss(tuple(moved), X, y)

        flat = w.reshape(K, -1)
        expected = differences(loss, flat, np.full(flat.shape[1], 1e-4))
        assert_gradient(slope.reshape(K, -1).T, expected.T, rtol=1e-6)


# ---- Adam


def test_adam_takes_the_steps_of_its_definition() -> None:
    """Two steps by hand: the first has the length of the learning rate, whatever the slope."""
    state = deep_ensemble.start((np.array([[[1.0]]]),))
    state = deep_ensemble.step(state, (np.array([[[4.0]]]),), 0.1)
    assert state.weights[0].item() == pytest.approx(0.9)
    state = deep_ensemble.step(state, (np.array([[[-2.0]]]),), 0.1)
    mean = (0.9 * 0.1 * 4.0 - 0.1 * 2.0) / (1.0 - 0.9**2)
    square = (0.999 * 0.001 * 16.0 + 0.001 * 4.0) / (1.0 - 0.999**2)
    assert state.weights[0].item() == pytest.approx(0.9 - 0.1 * mean / np.sqrt(square))
    assert state.n_steps == 2


# ---- What it predicts


def test_it_finds_a_line_and_where_its_noise_is() -> None:
    """Noise of 1 on the left and of 10 on the right, in large units."""
    random = RandomState(1)
    X = random.uniform(-1.0, 1.0, (2000, 1))
    noise = np.where(X[:, 0] < 0.0, 1.0, 10.0)
    y = 1000.0 + 30.0 * X[:, 0] + noise * random.normal(size=2000)
    model = DeepEnsemble(random_state=0).fit(X, y)
    found = model.predict_distribution(np.array([[-0.5], [0.5]]))
    np.testing.assert_allclose(found.mean, [985.0, 1015.0], atol=2.0)
    np.testing.assert_allclose(found.aleatoric_std, [1.0, 10.0], rtol=0.4)


def test_the_distribution_has_the_moments_of_the_mixture() -> None:
    random = RandomState(2)
    X, y = random.normal(size=(60, 2)), random.normal(5.0, 3.0, 60)
    model = DeepEnsemble((8,), n_members=4, n_epochs=3, batch_size=25, random_state=1).fit(X, y)
    Xs = (X - X.mean(axis=0)) / X.std(axis=0)
    means, variances = deep_ensemble.moments(deep_ensemble.layers(model.weights_, Xs)[-1])
    means, stds = y.mean() + y.std() * means, y.std() * np.sqrt(variances)
    assert means.shape == (4, 60)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, means.mean(axis=0))
    square = np.mean(stds**2 + means**2, axis=0)
    np.testing.assert_allclose(std, np.sqrt(square - mean**2))


def test_the_seed_settles_the_result_and_members_differ() -> None:
    random = RandomState(3)
    X, y = random.normal(size=(40, 2)), random.normal(size=40)
    a, b, c = (DeepEnsemble(n_epochs=2, random_state=s).fit(X, y).predict(X) for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert np.max(np.abs(a - c)) > 0.0
    assert np.all(
        DeepEnsemble(n_epochs=2, random_state=0).fit(X, y).predict_distribution(X).epistemic_std
        > 0.0
    )
