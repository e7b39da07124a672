"""LaplaceRegressor against finite differences, jax, and exact Bayesian linear regression."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.random import RandomState
from scipy.optimize import approx_fprime, minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from probprop_lab.baselines.laplace import (
    LaplaceRegressor,
    Precisions,
    energy_and_gradient,
    evidence_update,
    forward,
    gauss_newton_spectrum,
    initial_weights,
    most_probable_weights,
    output_variance,
    outputs_and_jacobian,
    posterior_factor,
    unflatten,
)
from probprop_lab.datasets import toy_cubic

PRECISIONS = Precisions(0.3, 7.0)


def network(sizes: list[int]) -> tuple[list[tuple[int, int]], np.ndarray, np.ndarray, np.ndarray]:
    """Layers, weights, inputs and targets."""
    random_state = RandomState(3)
    layers = [(n_out, n_in + 1) for n_in, n_out in pairwise(sizes)]
    w = initial_weights(layers, random_state)
    X = random_state.standard_normal((6, sizes[0]))
    return layers, w, X, random_state.standard_normal(6)


def linear_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Data, and what a linear model sees of them: scaled inputs with bias, standardized y."""
    random_state = RandomState(0)
    X = random_state.standard_normal((30, 4))
    y = X @ [1.0, -0.5, 0.2, 0.0] + 0.4 * random_state.standard_normal(30)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    design = np.hstack([z, np.ones((30, 1))]) / np.sqrt(5.0)
    return X, y, design, (y - y.mean()) / y.std()


@pytest.mark.parametrize("sizes", [[3, 1], [3, 4, 1], [2, 4, 3, 1]])
def test_gradient_against_finite_differences(sizes: list[int]) -> None:
    layers, w, X, y = network(sizes)
    _, gradient = energy_and_gradient(w, layers, X, y, PRECISIONS)
    numeric = approx_fprime(w, lambda w: energy_and_gradient(w, layers, X, y, PRECISIONS)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [[3, 1], [3, 4, 1], [2, 4, 3, 1]])
def test_derivatives_against_jax(sizes: list[int]) -> None:
    jax = pytest.importorskip("jax", reason="needs the extra 'baselines'")
    from probprop_lab.baselines.jax_setup import double_precision

    jnp = jax.numpy
    layers, w, X, _ = network(sizes)

    @jax.jit
    def outputs(w):
        z, start = jnp.asarray(X), 0
        for n_out, n_in in layers:
            weights = w[start : start + n_out * n_in].reshape(n_out, n_in)
            start += n_out * n_in
            a = (z @ weights[:, :-1].T + weights[:, -1]) / jnp.sqrt(n_in)
            z = jnp.tanh(a)
        return a[:, 0]

    f, J = outputs_and_jacobian(w, layers, X)
    alpha, beta = PRECISIONS

    def energy(w):
        return 0.5 * beta * jnp.sum((f - outputs(w)) ** 2) + 0.5 * alpha * w @ w

    with double_precision():
        np.testing.assert_allclose(f, outputs(jnp.asarray(w)), rtol=1e-13)
        jacobian = jax.jit(jax.jacobian(outputs))(jnp.asarray(w))
        np.testing.assert_allclose(J, jacobian, atol=1e-14)
        # Where the residuals are 0, the Gauss-Newton matrix is the Hessian of M.
        hessian = jax.jit(jax.hessian(energy))(jnp.asarray(w))
    factor = posterior_factor(J, PRECISIONS, "full")
    np.testing.assert_allclose(factor @ factor.T, hessian, atol=1e-13)
    np.testing.assert_allclose(
        posterior_factor(J, PRECISIONS, "diagonal") ** 2, np.diag(hessian), rtol=1e-13
    )


@pytest.mark.parametrize("sizes", [[3, 1], [2, 4, 3, 1]])
def test_spectrum_and_variance_against_the_dense_matrix(sizes: list[int]) -> None:
    layers, w, X, _ = network(sizes)  # 6 points; 4 weights in the first, 31 in the second
    _, J = outputs_and_jacobian(w, layers, X)
    alpha, beta = PRECISIONS
    A = alpha * np.eye(len(w)) + beta * J.T @ J
    gamma = len(w) - alpha * np.trace(np.linalg.inv(A))
    spectrum = gauss_newton_spectrum(J, "full")
    _, n_effective = evidence_update(spectrum, w, np.ones(6), PRECISIONS)
    np.testing.assert_allclose(n_effective, gamma, rtol=1e-10)
    for hessian, matrix in (("full", A), ("diagonal", np.diag(np.diag(A)))):
        variance = output_variance(J, posterior_factor(J, PRECISIONS, hessian))
        np.testing.assert_allclose(variance, np.diag(J @ np.linalg.inv(matrix) @ J.T), rtol=1e-10)


def test_weights_are_at_a_minimum() -> None:
    layers, w, X, y = network([3, 4, 1])
    start, _ = energy_and_gradient(w, layers, X, y, PRECISIONS)
    found = most_probable_weights(w, layers, X, y, PRECISIONS)
    energy, gradient = energy_and_gradient(found, layers, X, y, PRECISIONS)
    assert energy < start
    np.testing.assert_allclose(gradient, 0.0, atol=1e-4)


def test_linear_precisions_maximize_the_evidence() -> None:
    # The oracle does not use the updates: y ~ N(0, 1/beta + design design^T/alpha).
    X, y, design, ys = linear_data()

    def minus_log_evidence(log_precisions: np.ndarray) -> float:
        alpha, beta = np.exp(log_precisions)
        cov = np.eye(30) / beta + design @ design.T / alpha
        return float(0.5 * np.linalg.slogdet(cov)[1] + 0.5 * ys @ np.linalg.solve(cov, ys))

    best = np.exp(minimize(minus_log_evidence, np.zeros(2), tol=1e-10).x)
    model = LaplaceRegressor((), hessian="full", tol=1e-7).fit(X, y)
    assert model.converged_
    np.testing.assert_allclose([model.alpha_, model.beta_], best, rtol=1e-3)


def test_linear_predictive_is_exact() -> None:
    X, y, design, ys = linear_data()
    model = LaplaceRegressor((), hessian="full").fit(X, y)
    A = model.alpha_ * np.eye(5) + model.beta_ * design.T @ design
    mean = design @ np.linalg.solve(A, model.beta_ * design.T @ ys)
    variance = np.diag(design @ np.linalg.solve(A, design.T))
    p = model.predict_distribution(X)
    # The mode is as accurate as the optimizer.
    np.testing.assert_allclose(p.mean, y.mean() + y.std() * mean, atol=1e-5)
    np.testing.assert_allclose(p.epistemic_std, y.std() * np.sqrt(variance), rtol=1e-3)
    np.testing.assert_allclose(p.aleatoric_std**2, y.var() / model.beta_, rtol=1e-12)


@pytest.mark.parametrize("hessian", ["diagonal", "full"])
def test_fixed_point_of_the_evidence_updates(hessian: str) -> None:
    X, y = toy_cubic(20, random_state=4)
    model = LaplaceRegressor(10, hessian=hessian, random_state=0).fit(X, y)
    assert model.converged_
    w = np.concatenate([part.ravel() for part in model.weights_])
    residuals = (y - model.predict(X)) / model.standardizer_.y_scale
    np.testing.assert_allclose(model.alpha_ * w @ w, model.n_effective_, rtol=2e-3)
    np.testing.assert_allclose(
        model.beta_ * residuals @ residuals, 20 - model.n_effective_, rtol=2e-3
    )


def test_the_full_hessian_finds_the_noise_and_the_diagonal_does_not() -> None:
    # The noise has standard deviation 3; the diagonal takes most of x^3 for noise.
    X, y = toy_cubic(20, random_state=4)
    full = LaplaceRegressor(10, hessian="full", random_state=0).fit(X, y)
    diagonal = LaplaceRegressor(10, random_state=0).fit(X, y)
    assert 1.5 < full.noise_variance_**0.5 < 4.5
    assert diagonal.noise_variance_**0.5 > 10.0


def test_uncertainty_grows_away_from_the_data() -> None:
    X, y = toy_cubic(20, random_state=4)
    model = LaplaceRegressor(10, hessian="full", random_state=0).fit(X, y)
    std = model.predict_distribution([[0.0], [6.0]]).epistemic_std
    assert std[1] > 3.0 * std[0]


def test_fit_starts_afresh_and_is_reproducible() -> None:
    X, y = toy_cubic(20, random_state=4)
    model = LaplaceRegressor(5, random_state=1).fit(X, y)
    first = model.predict(X, return_std=True)
    np.testing.assert_array_equal(first, model.fit(X, y).predict(X, return_std=True))
    other = LaplaceRegressor(5, random_state=2).fit(X, y)
    assert np.any(other.weights_[0] != model.weights_[0])


def test_predicts_with_the_network_it_found() -> None:
    X, y = toy_cubic(20, random_state=4)
    model = LaplaceRegressor((4, 3), random_state=1).fit(X, y)
    assert [w.shape for w in model.weights_] == [(4, 2), (3, 5), (1, 4)]
    layers = [w.shape for w in model.weights_]
    flat = np.concatenate([w.ravel() for w in model.weights_])
    assert all(
        np.array_equal(a, b) for a, b in zip(unflatten(flat, layers), model.weights_, strict=True)
    )
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    f = forward(flat, layers, z)[-1]
    np.testing.assert_allclose(model.predict(X), y.mean() + y.std() * f, rtol=1e-12)


def test_constant_target() -> None:
    X, _ = toy_cubic(20, random_state=4)
    model = LaplaceRegressor(5, random_state=0).fit(X, np.full(20, 7.0))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 7.0, atol=1e-2)
    assert np.all(np.isfinite(std))


def test_too_many_weights_for_the_full_hessian() -> None:
    X, y = toy_cubic(20, random_state=4)
    with pytest.raises(ValueError, match=r"at most 3000 weights; this network has 3001\."):
        LaplaceRegressor(1000, hessian="full").fit(X, y)


def test_unknown_hessian() -> None:
    X, y = toy_cubic(20, random_state=4)
    with pytest.raises(ValueError, match="hessian must be one of"):
        LaplaceRegressor(hessian="kfac").fit(X, y)


def test_warns_where_the_precisions_do_not_settle() -> None:
    X, y = toy_cubic(20, random_state=4)
    with pytest.warns(ConvergenceWarning, match="increase max_iter or tol"):
        model = LaplaceRegressor(5, max_iter=2, random_state=0).fit(X, y)
    assert (model.n_iter_, model.converged_) == (2, False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_scikit_learn_estimator_checks() -> None:
    check_estimator(LaplaceRegressor(2, tol=0.1, random_state=0))
