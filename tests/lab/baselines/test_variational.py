"""VariationalRegressor: its bound, the gradient in expectation, the steps, the predictions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, stats

jax = pytest.importorskip("jax", reason="needs the extra 'baselines'")

from jax.flatten_util import ravel_pytree  # noqa: E402

from probprop_lab.baselines import VariationalRegressor  # noqa: E402
from probprop_lab.baselines.jax_setup import double_precision  # noqa: E402
from probprop_lab.baselines.network import initial_weights  # noqa: E402
from probprop_lab.baselines.variational import (  # noqa: E402
    Q,
    Variances,
    ascend,
    best_prior_variance,
    draw_samples,
    kl_divergence,
    sampled_bound,
)

V_NOISE, V_PRIOR, N = 0.3, 0.7, 5
X_POINT, Y_POINT = 0.8, 0.6


def small_data(n: int = 40):
    r = np.random.RandomState(0)
    X = r.standard_normal((n, 2))
    return X, 2.0 * X[:, 0] - X[:, 1] + 0.5 * r.standard_normal(n)


def some_q(sizes, seed=0) -> Q:
    r = np.random.RandomState(seed)
    n = sum(b * (a + 1) for a, b in pairwise(sizes))
    return Q(r.standard_normal(n), np.log(0.4) + 0.3 * r.standard_normal(n))


def layers_of(sizes):
    """Return the function that splits all weights by layer."""
    return ravel_pytree(tuple(np.zeros((b, a + 1)) for a, b in pairwise(sizes)))[1]


def flatten(q: Q):
    return np.concatenate(q)


def normal_kl(m, std, v_prior):
    """KL(N(m, std^2) || N(0, v_prior)) by quadrature."""

    def integrand(w):
        log_ratio = stats.norm.logpdf(w, m, std) - stats.norm.logpdf(w, 0.0, np.sqrt(v_prior))
        return stats.norm.pdf(w, m, std) * log_ratio

    return integrate.quad(integrand, m - 10 * std, m + 10 * std, points=[m])[0]


def test_kl_divergence_is_the_integral():
    q = some_q([2, 2, 1])
    with double_precision():
        found = float(kl_divergence(q, V_PRIOR))
    half = len(flatten(q)) // 2
    pairs = zip(flatten(q)[:half], np.exp(flatten(q)[half:]), strict=True)
    assert found == pytest.approx(sum(normal_kl(m, s, V_PRIOR) for m, s in pairs), rel=1e-8)


def expected_square_linear(flat):
    """E_q[(y - f)^2] of a linear network with one input."""
    m, std = flat[:2], np.exp(flat[2:])
    u = np.array([X_POINT, 1.0]) / np.sqrt(2.0)
    return (Y_POINT - m @ u) ** 2 + std**2 @ u**2


def expected_square_relu(flat):
    """E_q[(y - f)^2] of a network with one ReLU: the integral over its activation."""
    m, v = flat[:4], np.exp(2.0 * flat[4:])
    u = np.array([X_POINT, 1.0]) / np.sqrt(2.0)
    m_a, std_a = m[:2] @ u, np.sqrt(v[:2] @ u**2)

    def integrand(a):
        z = np.array([max(a, 0.0), 1.0]) / np.sqrt(2.0)
        return stats.norm.pdf(a, m_a, std_a) * ((Y_POINT - m[2:] @ z) ** 2 + v[2:] @ z**2)

    ends = m_a - 9.0 * std_a, 0.0, m_a + 9.0 * std_a
    return sum(
        integrate.quad(integrand, *part, epsabs=1e-13, epsrel=1e-12)[0] for part in pairwise(ends)
    )


@pytest.mark.parametrize(
    ("sizes", "expected_square"),
    [([1, 1], expected_square_linear), ([1, 1, 1], expected_square_relu)],
)
def test_gradient_in_expectation_matches_the_exact_bound(sizes, expected_square):
    q = some_q(sizes, seed=3)
    half = len(flatten(q)) // 2

    def exact_bound(flat):
        m, std = flat[:half], np.exp(flat[half:])
        kl = np.sum((std**2 + m**2) / V_PRIOR - 1.0 + np.log(V_PRIOR / std**2)) / 2.0
        log_likelihood = expected_square(flat) / V_NOISE + np.log(2.0 * np.pi * V_NOISE)
        return -0.5 * log_likelihood - kl / N

    slopes = optimize.approx_fprime(flatten(q), exact_bound, 1e-6)

    n_samples = 40_000
    with double_precision():
        keys = jax.random.split(jax.random.key(0), n_samples)
        eps = draw_samples(keys, q.m_w)
        gradient = jax.value_and_grad(sampled_bound, has_aux=True)
        variances = Variances(V_NOISE, V_PRIOR)
        x, layers = np.array([X_POINT]), layers_of(sizes)
        start = jax.tree.map(jax.numpy.asarray, q)
        (bounds, _), gradients = jax.vmap(
            lambda e: gradient(start, e, x, Y_POINT, variances, N, layers)
        )(eps)
        bounds, draws = np.asarray(bounds), np.concatenate(gradients, axis=1)
    errors = draws.std(axis=0) / np.sqrt(n_samples)
    assert (errors < 0.1 * np.abs(slopes).max()).all()  # the comparison means something
    assert (np.abs(draws.mean(axis=0) - slopes) < 4.5 * errors + 1e-5).all()
    bound_error = bounds.std() / np.sqrt(n_samples)
    assert abs(bounds.mean() - exact_bound(flatten(q))) < 4.5 * bound_error


def test_prior_variance_maximizes_the_bound():
    q = some_q([3, 4, 1])
    with double_precision():
        found = float(best_prior_variance(q))
        best = optimize.minimize_scalar(
            lambda v: float(kl_divergence(q, v)), bounds=(1e-3, 10.0), options={"xatol": 1e-9}
        )
    assert found == pytest.approx(best.x, rel=1e-5)


@pytest.mark.parametrize("n", [3, 200, 405])  # one block, a whole one, two and a part
def test_steps_variances_and_bound_by_hand(n):
    """Two epochs of a linear network in NumPy, with the same draws."""
    r = np.random.RandomState(1)
    X = r.standard_normal((n, 1))
    y = 0.5 * X[:, 0] + 0.2 * r.standard_normal(n)
    orders = np.stack([r.permutation(n) for _ in range(2)])
    learning_rate, momentum, initial_std = 0.05, 0.7, 0.3
    start = initial_weights([1, 1], np.random.RandomState(0))
    key = jax.random.key(7)
    with double_precision():
        (m_w,), (std_w,), variances, bounds = jax.tree.map(
            np.asarray, ascend(start, X, y, orders, key, learning_rate, momentum, initial_std)
        )
        eps = [
            np.asarray(draw_samples(jax.random.split(epoch_key, n), start[0][0]))
            for epoch_key in jax.random.split(key, 2)
        ]

    m, r = start[0][0].copy(), np.full(2, np.log(initial_std))
    step_m, step_r = np.zeros(2), np.zeros(2)
    v_noise = v_prior = 1.0
    expected = []
    for order, epoch_eps in zip(orders, eps, strict=True):
        squares = []
        for i, e in zip(order, epoch_eps, strict=True):
            u, std = np.append(X[i], 1.0) / np.sqrt(2.0), np.exp(r)
            residual = y[i] - (m + std * e) @ u
            squares.append(residual**2)
            g = residual * u / v_noise  # of the log-likelihood, in the sampled weights
            step_m = momentum * step_m + learning_rate * (g - m / v_prior / n)
            step_r = momentum * step_r + learning_rate * (
                g * std * e - (std**2 / v_prior - 1.0) / n
            )
            m, r = m + step_m, r + step_r
        kl = np.sum((np.exp(2 * r) + m**2) / v_prior - 1.0 + np.log(v_prior) - 2 * r) / 2
        fit = np.sum(stats.norm.logpdf(np.sqrt(squares), 0.0, np.sqrt(v_noise)))
        expected.append(fit - kl)
        v_noise, v_prior = np.mean(squares), np.mean(np.exp(2 * r) + m**2)
    np.testing.assert_allclose(m_w[0], m, rtol=1e-9)
    np.testing.assert_allclose(std_w[0], np.exp(r), rtol=1e-9)
    np.testing.assert_allclose(variances, (v_noise, v_prior), rtol=1e-9)
    np.testing.assert_allclose(bounds, expected, rtol=1e-9)


def test_linear_model_reaches_the_best_factorized_posterior():
    X, y = small_data(60)
    model = VariationalRegressor((), learning_rate=3e-4, n_epochs=5000, random_state=0).fit(X, y)
    s = model.standardizer_
    U = np.column_stack([s.checked_X(X, np.dtype(float)), np.ones(60)]) / np.sqrt(3.0)
    v_noise = model.noise_variance_ / s.y_scale**2
    precision = U.T @ U / v_noise + np.eye(3) / model.prior_variance_
    mean = np.linalg.solve(precision, U.T @ s.transform_y(y) / v_noise)
    std = 1.0 / np.sqrt(np.diag(precision))  # of the factors: the posterior given the others
    np.testing.assert_allclose(model.std_w_[0][0], std, rtol=0.15)
    assert (np.abs(model.m_w_[0][0] - mean) < std).all()


def test_bound_rises():
    X, y = small_data()
    model = VariationalRegressor(8, random_state=0).fit(X, y)
    fifths = model.bound_.reshape(5, 8).mean(axis=1)
    assert (np.diff(fifths) > 0.0).all()


def test_bound_and_noise_are_in_target_units():
    X, y = small_data()
    one = VariationalRegressor(3, n_epochs=5, random_state=0).fit(X, y)
    ten = VariationalRegressor(3, n_epochs=5, random_state=0).fit(X, 10.0 * y)
    np.testing.assert_allclose(ten.bound_, one.bound_ - len(y) * np.log(10.0), rtol=1e-9)
    assert ten.noise_variance_ == pytest.approx(100.0 * one.noise_variance_, rel=1e-9)
    assert ten.prior_variance_ == pytest.approx(one.prior_variance_, rel=1e-9)


def test_predictive_is_the_mixture_over_networks_drawn_from_q():
    X, y = small_data()
    model = VariationalRegressor(8, n_epochs=10, random_state=0).fit(X, y)
    predictive = model.predict_distribution(X)
    outputs = np.stack([network(X) for network in model.networks_])
    np.testing.assert_array_equal(predictive.means, outputs)
    np.testing.assert_allclose(predictive.aleatoric_stds**2, model.noise_variance_)
    expected = np.log(stats.norm.pdf(y, outputs, np.sqrt(model.noise_variance_)).mean(axis=0))
    np.testing.assert_allclose(predictive.logpdf(y), expected, rtol=1e-9)
    for layer, (m, std) in enumerate(zip(model.m_w_, model.std_w_, strict=True)):
        z = (np.stack([n.weights[layer] for n in model.networks_]) - m) / std
        assert abs(z.mean()) < 5.0 / np.sqrt(z.size)
        assert abs(z.std() - 1.0) < 5.0 / np.sqrt(2.0 * z.size)


def test_same_seed_same_model():
    X, y = small_data()
    first = VariationalRegressor(3, n_epochs=5, random_state=3).fit(X, y)
    again = VariationalRegressor(3, n_epochs=5, random_state=3).fit(X, -y).fit(X, y)
    other = VariationalRegressor(3, n_epochs=5, random_state=4).fit(X, y)
    np.testing.assert_array_equal(first.predict(X), again.predict(X))
    assert np.abs(first.predict(X) - other.predict(X)).max() > 1e-6


def test_a_second_fit_of_the_same_shape_is_not_compiled_again():
    X, y = small_data()
    VariationalRegressor(3, n_epochs=5, random_state=0).fit(X, y)
    compiled = ascend._cache_size()
    other = VariationalRegressor(3, n_epochs=5, learning_rate=0.02, momentum=0.1, initial_std=0.2)
    other.fit(2.0 * X, -y)
    assert ascend._cache_size() == compiled


def test_the_first_standard_deviation_is_the_one_given():
    X, y = small_data()
    model = VariationalRegressor(3, n_epochs=1, learning_rate=1e-9, initial_std=0.07)
    np.testing.assert_allclose(np.concatenate([s.ravel() for s in model.fit(X, y).std_w_]), 0.07)
    with pytest.raises(ValueError, match="initial_std == 0"):
        VariationalRegressor(initial_std=0.0).fit(X, y)


def test_divergence_is_an_error():
    X, y = small_data()
    model = VariationalRegressor(3, n_epochs=5, learning_rate=1e4, random_state=0)
    with pytest.raises(FloatingPointError, match="Training diverged with learning_rate=1e"):
        model.fit(X, y)


def test_a_constant_target_is_no_trouble():
    X, _ = small_data()
    model = VariationalRegressor(3, n_epochs=5, random_state=0).fit(X, np.full(len(X), 7.0))
    mean, std = model.predict(X, return_std=True)
    assert (np.abs(mean - 7.0) < 3.0 * std).all()
