"""Weights, known errors and powers of one point: against quadrature, differences, and scaling."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr

from posteriors import trained
from probprop._types import Array
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Posterior
from probprop.reference.adf import adf_step, gradients, predict_moments
from probprop.reference.likelihoods import GAUSSIAN, MULTINOMIAL, PROBIT, PointLikelihood

X = np.array([[0.7, -1.1, 0.4]])


def made(n_outputs: int = 1, hidden: tuple[int, ...] = (4, 3)) -> Posterior:
    """A posterior as after some training."""
    shape, rate = np.full(n_outputs, 9.0), np.full(n_outputs, 5.0)
    sizes = [3, *hidden, n_outputs]
    return trained(sizes, n_outputs, noise_shape=shape, noise_rate=rate)


def moved(posterior: Posterior, name: str, layer: int, index: tuple[int, ...], h: float) -> Array:
    values = [a.copy() for a in getattr(posterior, name)]
    values[layer][index] += h
    return replace(posterior, **{name: tuple(values)})


def step_with(engine: str, posterior: Posterior, y: Array, **options: object) -> Posterior:
    return ENGINES[engine].adf_pass(posterior, X, y, np.arange(1), **options)[0]


# ---- Weights that divide the noise


@pytest.mark.parametrize(("weight", "error"), [(0.2, 0.0), (3.0, 0.0), (1.0, 0.6), (5.0, 0.6)])
def test_log_Z_is_the_density_with_that_noise(weight: float, error: float) -> None:
    posterior, y = made(2), np.array([1.3, -0.2])
    mean, variance = (a[0] for a in predict_moments(posterior, X))
    total = variance + posterior.noise_variance / weight + error**2
    expected = -0.5 * (np.log(2.0 * math.pi * total) + (y - mean) ** 2 / total).sum()
    y_var = np.full(2, error**2)
    log_Z, _, _ = gradients(posterior, X[0], y, weight=weight, y_var=y_var)
    assert log_Z == pytest.approx(expected, rel=1e-13)


def test_gradients_match_log_Z() -> None:
    posterior, options = made(), {"weight": 2.5, "y_var": np.array([0.3])}
    _, *found = gradients(posterior, X[0], 1.3, **options)
    for name, gradient in zip(("m_w", "v_w"), found, strict=True):
        for layer, exact in enumerate(gradient):
            for index in np.ndindex(exact.shape):
                high, low = (
                    gradients(moved(posterior, name, layer, index, h), X[0], 1.3, **options)[0]
                    for h in (1e-4, -1e-4)
                )
                assert exact[index] == pytest.approx((high - low) / 2e-4, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight", [0.3, 4.0])
def test_the_noise_learns_by_the_equations_with_that_noise(engine: str, weight: float) -> None:
    # [PBP15] Eqs. (9) and (10) as they are written, where nothing is scaled.
    posterior, y, error = made(), 1.7, 0.5
    mean, variance = (float(a[0]) for a in predict_moments(posterior, X))
    options = {"weights": np.array([weight]), "y_var": np.array([[error**2]])}
    after = step_with(engine, posterior, np.array([y]), **options)
    with mpmath.workdps(40):
        a, b = mpmath.mpf(9), mpmath.mpf(5)

        def Z(shape: mpmath.mpf) -> mpmath.mpf:
            total = variance + error**2 + b / (shape - 1) / weight
            return mpmath.npdf(y, mean, mpmath.sqrt(total))

        Z0, Z1, Z2 = Z(a), Z(a + 1), Z(a + 2)
        alpha = 1 / (Z0 * Z2 / Z1**2 * (a + 1) / a - 1)
        beta = 1 / (Z2 / Z1 * (a + 1) / b - Z1 / Z0 * a / b)
    assert after.alpha_noise[0] == pytest.approx(float(alpha), rel=1e-10)
    assert after.beta_noise[0] == pytest.approx(float(beta), rel=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight", [0.3, 4.0])
def test_an_outlier_updates_the_noise_as_quadrature_does(engine: str, weight: float) -> None:
    posterior, y = made(hidden=()), 60.0
    posterior = replace(posterior, v_w=tuple(1e-3 * v for v in posterior.v_w))
    mean, variance = (float(a[0]) for a in predict_moments(posterior, X))
    after, info = ENGINES[engine].adf_pass(
        posterior, X, np.array([y]), np.arange(1), weights=np.array([weight])
    )
    assert info.n_guarded == 1

    def tilted(log_gamma: mpmath.mpf) -> mpmath.mpf:
        gamma = mpmath.exp(log_gamma)
        density = mpmath.npdf(y, mean, mpmath.sqrt(variance + 1 / (weight * gamma)))
        return density * gamma**9 * mpmath.exp(-5 * gamma)

    with mpmath.workdps(30):
        steps = mpmath.linspace(-20, 5, 51)
        Z, moment = (
            mpmath.quad(lambda u, k=k: mpmath.exp(k * u) * tilted(u), steps) for k in (0, 1)
        )
    assert after.alpha_noise[0] / after.beta_noise[0] == pytest.approx(float(moment / Z), rel=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_weight_is_a_point_in_other_units(engine: str) -> None:
    # Without hidden layers the outputs scale with the weights of the network.
    posterior, y, weight = made(2, hidden=()), np.array([[1.3, -0.7]]), 3.7
    root = math.sqrt(weight)
    larger = replace(
        posterior,
        m_w=tuple(root * m for m in posterior.m_w),
        v_w=tuple(weight * v for v in posterior.v_w),
    )
    found = step_with(engine, posterior, y, weights=np.array([weight]))
    expected = step_with(engine, larger, root * y)
    assert_allclose(root * found.m_w[0], expected.m_w[0], rtol=1e-12)
    assert_allclose(weight * found.v_w[0], expected.v_w[0], rtol=1e-12)
    assert_allclose(found.alpha_noise, expected.alpha_noise, rtol=1e-11)
    assert_allclose(found.beta_noise, expected.beta_noise, rtol=1e-11)


# ---- Weights that are powers


@pytest.mark.parametrize(
    ("likelihood", "y"), [(PROBIT, np.array([1.0, -1.0])), (MULTINOMIAL, np.array([1.0]))]
)
def test_a_power_multiplies_slope_and_curvature(likelihood: PointLikelihood, y: Array) -> None:
    posterior = made(2, hidden=())
    for name in ("alpha_noise", "beta_noise"):
        posterior = replace(posterior, **{name: np.array([2.0 if name[0] == "a" else 1.0])})
    log_Z, d_m, d_v = gradients(posterior, X[0], y, likelihood)
    found = gradients(posterior, X[0], y, likelihood, weight=0.25, power=3.0)
    assert found[0] == pytest.approx(0.75 * log_Z, rel=1e-14)
    assert_allclose(found[1][0], 0.75 * d_m[0], rtol=1e-13)
    # In a linear network 2 d_v - d_m^2 is the second derivative of log Z by a weight.
    curvature = 2.0 * d_v[0] - d_m[0] ** 2
    assert_allclose(2.0 * found[2][0] - found[1][0] ** 2, 0.75 * curvature, rtol=1e-11)
    # The second derivative itself, of one weight.
    values = [
        gradients(moved(posterior, "m_w", 0, (0, 1), h), X[0], y, likelihood)[0]
        for h in (-1e-3, 0.0, 1e-3)
    ]
    numeric = (values[0] - 2.0 * values[1] + values[2]) / 1e-6
    assert curvature[0, 1] == pytest.approx(numeric, rel=1e-4)


def one_weight(variance: float) -> Posterior:
    """A network whose output is its bias, of this variance."""
    posterior = replace(made(1, hidden=()), alpha_noise=np.array([2.0]), beta_noise=np.array([1.0]))
    m_w, v_w = np.array([[0.0, 0.0, 0.0, 0.4]]), np.full((1, 4), 4.0 * variance)
    return replace(posterior, m_w=(m_w,), v_w=(v_w,))


def step_on_label(engine: str, posterior: Posterior, **options: object) -> Posterior:
    x, y = np.zeros((1, 3)), np.array([1.0])
    return ENGINES[engine].adf_pass(posterior, x, y, np.arange(1), likelihood=PROBIT, **options)[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_weight_of_two_is_the_label_twice_if_the_output_is_one_weight(engine: str) -> None:
    before = one_weight(20.0)
    twice = step_on_label(engine, step_on_label(engine, before))
    found = step_on_label(engine, before, weights=np.array([2.0]))
    assert_allclose(found.m_w[0], twice.m_w[0], rtol=1e-13)
    assert_allclose(found.v_w[0], twice.v_w[0], rtol=1e-13)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight", [3.0, 30.0, 1e3, 1e12])
def test_a_large_power_is_near_the_true_mean(engine: str, weight: float) -> None:
    # Phi(f)^p N(f | 0.2, 2), whatever p: the parabola alone would be at 0.2 + 0.8 p.
    after = step_on_label(engine, one_weight(2.0), weights=np.array([weight]))
    mean, variance = after.m_w[0][0, 3] / 2.0, after.v_w[0][0, 3] / 4.0
    f = np.linspace(-8.0, 30.0, 20001)
    log_p = weight * log_ndtr(f) - (f - 0.2) ** 2 / 4.0
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    exact = p @ f
    assert mean == pytest.approx(exact, rel=0.35)
    # Shares of one likelihood narrow q more than they should, as repeated epochs do.
    assert 0.0 < variance < p @ (f - exact) ** 2


def test_a_weight_of_one_and_an_error_of_zero_change_no_bit() -> None:
    for likelihood, y in ((GAUSSIAN, 1.3), (PROBIT, -1.0)):
        plain, info = adf_step(made(), X[0], y, likelihood=likelihood)
        same, info_same = adf_step(
            made(), X[0], y, likelihood=likelihood, weight=1.0, y_var=np.zeros(1), power=1.0
        )
        assert info == info_same
        for name in ("m_w", "v_w", "alpha_noise", "beta_noise"):
            for a, b in zip(getattr(plain, name), getattr(same, name), strict=True):
                assert np.array_equal(a, b), name
