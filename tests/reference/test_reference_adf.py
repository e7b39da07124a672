"""The reference's ADF pass against finite differences, exact cases and its own rules."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import oracle
from posteriors import trained
from probprop._types import Array
from probprop.inference.posterior import PassInfo, Posterior
from probprop.reference.adf import adf_pass, adf_step, gaussian_update, gradients, predict_moments

HIDDEN = [(), (4,), (4, 3), (3, 4, 2)]


def random_posterior(layer_sizes: tuple[int, ...], dtype: type = np.float64) -> Posterior:
    """A posterior as after some training: unequal variances, noise of its own."""
    return trained(layer_sizes, sum(layer_sizes), dtype, noise_shape=9.0, noise_rate=5.0)


def random_data(n: int, n_features: int) -> tuple[Array, Array]:
    rng = np.random.RandomState(n)
    return rng.standard_normal((n, n_features)), rng.standard_normal(n)


def arrays(posterior: Posterior) -> list[Array]:
    p = posterior
    return [*p.m_w, *p.v_w, *p.v_hat_nat, *p.a_hat_nat, *p.b_hat_nat]


def assert_same(a: Posterior, b: Posterior) -> None:
    for left, right in zip(arrays(a), arrays(b), strict=True):
        assert_array_equal(left, right)
    for name in ("alpha_noise", "beta_noise", "alpha_prior", "beta_prior"):
        assert getattr(a, name) == getattr(b, name)


def difference_quotient(
    posterior: Posterior, name: str, layer: int, index: tuple[int, ...], x: Array, y: float
) -> float:
    """Central difference of log Z by one entry of m_w or v_w, extrapolated."""

    def log_Z(step: float) -> float:
        values = [a.copy() for a in getattr(posterior, name)]
        values[layer][index] += step
        moved = (
            replace(posterior, m_w=tuple(values))
            if name == "m_w"
            else replace(posterior, v_w=tuple(values))
        )
        return gradients(moved, x, y)[0]

    def central(h: float) -> float:
        return (log_Z(h) - log_Z(-h)) / (2.0 * h)

    return (4.0 * central(1e-3) - central(2e-3)) / 3.0


@pytest.mark.parametrize("hidden", HIDDEN)
def test_gradients_match_log_Z(hidden: tuple[int, ...]) -> None:
    posterior = random_posterior((3, *hidden, 1))
    x, y = np.array([0.7, -1.1, 0.4]), 1.3
    _, dlogZ_dm_w, dlogZ_dv_w = gradients(posterior, x, y)
    for name, gradient in (("m_w", dlogZ_dm_w), ("v_w", dlogZ_dv_w)):
        for layer, exact in enumerate(gradient):
            numeric = [
                difference_quotient(posterior, name, layer, index, x, y)
                for index in np.ndindex(exact.shape)
            ]
            assert_allclose(exact.ravel(), numeric, rtol=1e-7, atol=1e-11)


def test_log_Z_is_the_gaussian_density_of_the_target() -> None:
    posterior = random_posterior((3, 4, 1))
    X, y = random_data(1, 3)
    mean, variance = predict_moments(posterior, X)
    v_total = variance[0] + posterior.noise_variance[0]
    density = math.exp(-0.5 * (y[0] - mean[0]) ** 2 / v_total) / math.sqrt(2 * math.pi * v_total)
    assert gradients(posterior, X[0], y[0])[0] == pytest.approx(math.log(density), rel=1e-13)


def test_linear_network_with_known_noise_is_the_conjugate_update() -> None:
    noise_variance, alpha = 0.3, 1e13
    posterior = replace(
        random_posterior((5, 1)), alpha_noise=alpha, beta_noise=noise_variance * alpha
    )
    X, y = random_data(1, 5)
    got, _ = adf_step(posterior, X[0], y[0])

    # Bayesian linear regression on the full covariance, of which q keeps the diagonal.
    features = np.append(X[0], 1.0) / math.sqrt(6)
    precision = np.diag(1.0 / posterior.v_w[0][0]) + np.outer(features, features) / noise_variance
    covariance = np.linalg.inv(precision)
    mean = covariance @ (
        posterior.m_w[0][0] / posterior.v_w[0][0] + features * y[0] / noise_variance
    )
    assert_allclose(got.m_w[0][0], mean, rtol=1e-11)
    assert_allclose(got.v_w[0][0], np.diag(covariance), rtol=1e-11)


def test_one_hidden_layer_predicts_the_moments_of_sampled_networks() -> None:
    posterior = random_posterior((3, 4, 1))
    X, _ = random_data(2, 3)
    mean, variance = predict_moments(posterior, X)
    rng = np.random.RandomState(0)
    n = 200_000
    w_1, w_2 = (
        m + np.sqrt(v) * rng.standard_normal((n, *m.shape))
        for m, v in zip(posterior.m_w, posterior.v_w, strict=True)
    )
    with_bias = np.concatenate([X, np.ones((2, 1))], axis=1)
    z = np.maximum(np.einsum("nij,rj->nri", w_1, with_bias) / 2.0, 0.0)
    z = np.concatenate([z, np.ones((n, 2, 1))], axis=2)
    output = np.einsum("nj,nrj->nr", w_2[:, 0], z) / math.sqrt(5)
    # Five standard errors of the sample's mean and variance (kurtosis below 9).
    assert (np.abs(output.mean(0) - mean) < 5 * np.sqrt(variance / n)).all()
    assert (np.abs(output.var(0) / variance - 1.0) < 5 * math.sqrt(8 / n)).all()


def test_points_are_used_in_order() -> None:
    start = random_posterior((3, 4, 1))
    X, y = random_data(4, 3)
    one_by_one, log_Z_sum = start, 0.0
    for i in (2, 0, 2):
        log_Z_sum += gradients(one_by_one, X[i], y[i])[0]
        one_by_one, _ = adf_step(one_by_one, X[i], y[i])
    got, info = adf_pass(start, X, y, np.array([2, 0, 2]))
    assert_same(got, one_by_one)
    assert info.n_points == 3
    assert info.log_Z_sum == pytest.approx(log_Z_sum, rel=1e-14)


@pytest.mark.parametrize("order", [[], [0, 1, 2, 3]])
def test_inputs_are_not_modified(order: list[int]) -> None:
    start = random_posterior((3, 4, 1))
    X, y = random_data(4, 3)
    before = copy.deepcopy((start, X, y))
    for array in (*arrays(start), X, y):
        array.flags.writeable = False
    adf_pass(start, X, y, np.array(order, dtype=int))
    predict_moments(start, X)
    assert_same(start, before[0])
    assert_array_equal(X, before[1])
    assert_array_equal(y, before[2])


def test_single_precision_stays_single() -> None:
    X, y = random_data(30, 3)
    single, _ = adf_pass(random_posterior((3, 4, 3, 1), np.float32), X, y, range(30))
    double, _ = adf_pass(random_posterior((3, 4, 3, 1)), X, y, range(30))
    assert {a.dtype for a in (*single.m_w, *single.v_w)} == {np.dtype(np.float32)}
    assert single.alpha_noise.dtype == np.float64
    for left, right in zip(predict_moments(single, X), predict_moments(double, X), strict=True):
        assert left.dtype == np.float32
        assert_allclose(left, right, rtol=1e-4, atol=1e-5)


def test_gaussian_update_undoes_only_what_is_not_valid() -> None:
    m_w, v_w = np.full((1, 5), 2.0), np.ones((1, 5))
    dlogZ_dm_w = np.array([[0.5, 1.5, np.nan, 0.5, 1.0]])
    dlogZ_dv_w = np.array([[0.0, 0.0, 0.0, np.inf, 0.0]])
    m_w_new, v_w_new, n_undone = gaussian_update(m_w, v_w, dlogZ_dm_w, dlogZ_dv_w)
    # The others: negative, NaN, infinite, and exactly zero.
    assert_array_equal(m_w_new, [[2.5, 2.0, 2.0, 2.0, 2.0]])
    assert_array_equal(v_w_new, [[0.75, 1.0, 1.0, 1.0, 1.0]])
    assert n_undone == 4


def test_undone_updates_are_counted() -> None:
    authors = oracle.load("oracle_H43")
    start = authors.posterior(authors.initial)
    got, info = adf_step(start, authors.X_train[0], 1e3)
    kept = [
        (m_new == m) & (v_new == v)
        for m, v, m_new, v_new in zip(start.m_w, start.v_w, got.m_w, got.v_w, strict=True)
    ]
    assert 0 < info.n_undone < sum(k.size for k in kept)
    assert info.n_undone == sum(int(k.sum()) for k in kept)
    assert all((v > 0.0).all() and np.isfinite(v).all() for v in got.v_w)


@pytest.mark.parametrize(
    ("x_0", "target"),
    [
        (0.1, math.nan),
        (0.1, math.inf),
        (0.1, 1e200),
        (math.nan, 0.1),
        (math.inf, 0.1),
        (1e200, 0.1),
    ],
)
def test_a_point_that_is_not_finite_is_skipped_whole(x_0: float, target: float) -> None:
    start = random_posterior((3, 4, 1))
    X, y = random_data(3, 3)
    X[1, 0], y[1] = x_0, target
    got, info = adf_pass(start, X, y, [0, 1, 2])
    without, info_without = adf_pass(start, X, y, [0, 2])
    assert_same(got, without)
    assert info == PassInfo(
        info_without.log_Z_sum, n_points=3, n_undone=0, n_guarded=0, n_skipped=1
    )


@pytest.mark.parametrize("target", [12.0, 1e3, 1e6])
def test_an_outlier_is_guarded_and_training_continues(target: float) -> None:
    authors = oracle.load("oracle_H4")
    y = authors.y_train.copy()
    y[0] = target
    posterior, info = adf_pass(
        authors.posterior(authors.initial), authors.X_train, y, range(len(y))
    )
    assert info.n_guarded >= 1
    assert info.n_skipped == 0
    assert math.isfinite(info.log_Z_sum)
    assert posterior.alpha_noise > 1.0
    assert 0.0 < posterior.beta_noise < math.inf
    assert all(np.isfinite(m).all() for m in predict_moments(posterior, authors.X_test))
