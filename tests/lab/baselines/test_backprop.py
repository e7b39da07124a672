"""BackpropRegressor: its gradient, its steps and what it does when they are too long."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="needs the extra 'baselines'")

from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from probprop.distributions.functions import SampledNetwork  # noqa: E402
from probprop.inference.standardize import fit_standardizer, identity_standardizer  # noqa: E402
from probprop_lab.baselines import BackpropRegressor  # noqa: E402
from probprop_lab.baselines.backprop import descend, epoch_orders, squared_error  # noqa: E402
from probprop_lab.baselines.jax_setup import double_precision  # noqa: E402
from probprop_lab.baselines.network import initial_weights, output  # noqa: E402


def small_data(n: int = 30, d: int = 3, seed: int = 0):
    r = np.random.RandomState(seed)
    X = r.standard_normal((n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * r.standard_normal(n)


def numpy_gradient(weights, x, y):
    """Backpropagation by hand, for ReLU layers and a linear output."""
    zs, activations = [np.append(x, 1.0)], []
    for layer, w in enumerate(weights):
        activations.append(w @ zs[-1] / np.sqrt(w.shape[1]))
        if layer < len(weights) - 1:
            zs.append(np.append(np.maximum(activations[-1], 0.0), 1.0))
    delta, gradients = activations[-1] - y, []
    for layer in reversed(range(len(weights))):
        w = weights[layer]
        gradients.insert(0, np.outer(delta, zs[layer]) / np.sqrt(w.shape[1]))
        if layer:
            back = (w.T @ delta)[:-1] / np.sqrt(w.shape[1])
            delta = back * (activations[layer - 1] > 0.0)
    return gradients


@pytest.mark.parametrize("sizes", [[3, 1], [3, 4, 1], [3, 4, 5, 1]])
def test_output_matches_the_numpy_network(sizes):
    weights = initial_weights(sizes, np.random.RandomState(0))
    X, _ = small_data()
    with double_precision():
        found = np.asarray(jax.vmap(output, (None, 0))(weights, X))
    expected = SampledNetwork(weights, identity_standardizer(3))(X)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_initial_weights_pass_a_signal_through_many_layers():
    weights = initial_weights([20, *[100] * 8, 1], np.random.RandomState(0))
    assert [w.std() for w in weights] == pytest.approx(9 * [1.0], rel=0.15)
    X = np.random.RandomState(1).standard_normal((500, 20))
    assert SampledNetwork(weights, identity_standardizer(20))(X).std() > 0.01


def test_four_layers_learn_a_curve():
    x = np.linspace(-2.0, 2.0, 100)[:, None]
    y = np.sin(2.0 * x[:, 0])
    model = BackpropRegressor((50,) * 4, learning_rate=0.3, n_epochs=10, random_state=0)
    assert model.fit(x, y).score(x, y) > 0.9


@pytest.mark.parametrize("sizes", [[3, 1], [3, 4, 1], [3, 4, 5, 1]])
def test_gradient_matches_finite_differences_and_backpropagation_by_hand(sizes):
    weights = initial_weights(sizes, np.random.RandomState(1))
    x, y = np.array([0.3, -1.2, 0.8]), 0.7
    with double_precision():
        found = [np.asarray(g) for g in jax.grad(squared_error)(weights, x, y)]
        for g, by_hand in zip(found, numpy_gradient(weights, x, y), strict=True):
            np.testing.assert_allclose(g, by_hand, rtol=1e-12, atol=1e-15)
        for layer, w in enumerate(weights):
            for index in np.ndindex(w.shape):
                ends = []
                for h in (1e-6, -1e-6):
                    moved = [a.copy() for a in weights]
                    moved[layer][index] += h
                    ends.append(float(squared_error(tuple(moved), x, y)))
                slope = (ends[0] - ends[1]) / 2e-6
                assert found[layer][index] == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("n_steps", [1, 2, 7])
def test_steps_match_momentum_and_weight_decay_by_hand(n_steps):
    X, y = small_data(5)
    order = np.array([3, 0, 4, 1, 1, 2, 0])[:n_steps]
    learning_rate, momentum, weight_decay = 0.1, 0.6, 0.03
    start = initial_weights([3, 4, 1], np.random.RandomState(2))
    with double_precision():
        found = descend(start, X, y, order, learning_rate, momentum, weight_decay)
        found = [np.asarray(w) for w in found]

    weights = [w.copy() for w in start]
    steps = [np.zeros_like(w) for w in start]
    for n in order:
        gradients = numpy_gradient(weights, X[n], y[n])
        for layer, g in enumerate(gradients):
            decayed = g + weight_decay * weights[layer]
            steps[layer] = momentum * steps[layer] - learning_rate * decayed
        weights = [w + s for w, s in zip(weights, steps, strict=True)]
    for w, expected in zip(found, weights, strict=True):
        np.testing.assert_allclose(w, expected, rtol=1e-11)


def test_fit_makes_the_steps_it_says_in_standardized_units():
    X, y = small_data()
    X, y = 100.0 * X + 7.0, 1e4 * y - 3.0
    model = BackpropRegressor(4, learning_rate=0.05, momentum=0.3, n_epochs=3, random_state=5)
    model.fit(X, y)
    r = np.random.RandomState(5)
    standardizer = fit_standardizer(X, y)
    start = initial_weights([3, 4, 1], r)
    order = epoch_orders(len(y), 3, r)
    assert (np.sort(order, axis=1) == np.arange(len(y))).all()
    Xs, ys = standardizer.checked_X(X, np.dtype(float)), standardizer.transform_y(y)
    with double_precision():
        found = descend(start, Xs, ys, order.ravel(), 0.05, 0.3, 1e-5)
        expected = SampledNetwork(tuple(np.asarray(w) for w in found), standardizer)(X)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-10)


def test_linear_model_reaches_least_squares():
    r = np.random.RandomState(0)
    X = r.standard_normal((50, 2))
    y = 3.0 * X[:, 0] - X[:, 1] + 2.0
    model = BackpropRegressor((), learning_rate=0.3, weight_decay=0.0, n_epochs=200).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)
    assert np.isfinite(model.predict_distribution(X).logpdf(y)).all()  # no noise of 0


def test_weight_decay_shrinks_the_function():
    X, y = small_data()
    spreads = [
        BackpropRegressor(8, weight_decay=decay, random_state=0).fit(X, y).predict(X).std()
        for decay in (0.0, 0.01, 0.1)
    ]
    assert spreads[0] > spreads[1] > spreads[2]


def test_noise_variance_is_the_mean_squared_training_residual():
    X, y = small_data()
    model = BackpropRegressor(8, random_state=0).fit(X, 10.0 * y)
    residuals = 10.0 * y - model.predict(X)
    assert model.noise_variance_ == pytest.approx(np.mean(residuals**2), rel=1e-10)
    std = model.predict(X, return_std=True)[1]
    np.testing.assert_allclose(std, np.sqrt(model.noise_variance_))
    predictive = model.predict_distribution(X)
    assert (predictive.epistemic_std == 0.0).all()
    expected = -0.5 * (residuals**2 / std**2 + np.log(2.0 * np.pi * std**2))
    np.testing.assert_allclose(predictive.logpdf(10.0 * y), expected, rtol=1e-10)


@pytest.mark.parametrize("learning_rate", [8.0, 1e4])
def test_divergence_is_an_error(learning_rate):
    X, y = small_data()
    model = BackpropRegressor(8, learning_rate=learning_rate, momentum=0.9, random_state=0)
    with pytest.raises(FloatingPointError, match="Training diverged with learning_rate="):
        model.fit(X, y)
    assert not hasattr(model, "network_")


def test_same_seed_same_network_and_fit_starts_afresh():
    X, y = small_data()
    first = BackpropRegressor(5, random_state=3).fit(X, y)
    again = BackpropRegressor(5, random_state=3).fit(X, -y).fit(X, y)
    other = BackpropRegressor(5, random_state=4).fit(X, y)
    np.testing.assert_array_equal(first.predict(X), again.predict(X))
    assert np.abs(first.predict(X) - other.predict(X)).max() > 1e-6


def test_a_second_fit_of_the_same_shape_is_not_compiled_again():
    X, y = small_data(31)
    BackpropRegressor(5, random_state=0).fit(X, y)
    compiled = descend._cache_size()
    BackpropRegressor(5, learning_rate=0.02, momentum=0.1, weight_decay=0.0).fit(2.0 * X, -y)
    assert descend._cache_size() == compiled
    BackpropRegressor(6).fit(X, y)
    assert descend._cache_size() == compiled + 1


def test_the_precision_of_jax_is_left_alone():
    X, y = small_data()
    before = jax.numpy.ones(1).dtype
    BackpropRegressor(2, n_epochs=1).fit(X, y)
    assert jax.numpy.ones(1).dtype == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate == 0.0, must be > 0.0"),
        ({"learning_rate": np.inf}, "learning_rate == inf, must be finite"),
        ({"momentum": 1.0}, r"momentum == 1.0, must be in the range \[0.0, 1.0\)"),
        ({"momentum": np.nan}, "momentum == nan"),
        ({"weight_decay": -1.0}, "weight_decay == -1.0, must be in the range"),
        ({"n_epochs": 0}, "n_epochs == 0, must be >= 1"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        BackpropRegressor(**parameters).fit(*small_data())


@pytest.mark.slow
def test_scikit_learn_checks():
    # Without a hidden layer, so that its many shapes compile quickly.
    check_estimator(
        BackpropRegressor((), learning_rate=0.1, n_epochs=10, random_state=0), on_skip=None
    )
