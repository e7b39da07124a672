"""The Student-t replaced by a Gaussian: log Z, and the training that is observed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.datasets import load_diabetes

from probprop import PBPRegressor
from probprop.inference import engine
from probprop_lab.experiments.paper import t_approximation as t_approx


def training_data() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    return X[:230], y[:230]


@pytest.mark.parametrize("n_epochs", [1, 3])
def test_observed_training_matches_the_regressor(n_epochs: int) -> None:
    X, y = training_data()
    posterior, first, last = t_approx.observe(X, y, (6,), n_epochs, seed=2)
    model = PBPRegressor(6, random_state=2)
    model.fit(X, y, callback=lambda epoch: epoch.n_iter == n_epochs)
    for ours, theirs in zip(posterior.m_w, model.posterior_.m_w, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    assert posterior.alpha_noise == pytest.approx(model.posterior_.alpha_noise, rel=1e-9)
    assert len(first) == len(last) == 100


def test_log_z_is_the_integral() -> None:
    X, y = training_data()
    model = PBPRegressor(6, n_epochs=1, random_state=0).fit(X[:30], y[:30])
    posterior, x, target = model.posterior_, np.full(10, 0.3), 1.7
    found = t_approx.log_Z(posterior, x, target)
    mean, variance = (a[0] for a in engine.ENGINES["reference"].predict_moments(posterior, x[None]))
    alpha, beta = posterior.alpha_noise[0], posterior.beta_noise[0]
    gamma = stats.gamma(alpha, scale=1.0 / beta)

    def integrand(g: float) -> float:
        return float(stats.norm.pdf(target, mean, np.sqrt(variance + 1.0 / g)) * gamma.pdf(g))

    exact = integrate.quad(integrand, *gamma.ppf([1e-13, 1.0 - 1e-13]), epsabs=0.0, limit=200)[0]
    assert found.exact == pytest.approx(np.log(exact), rel=1e-8)
    total = np.sqrt(variance + posterior.noise_variance[0])
    assert found.gaussian == pytest.approx(stats.norm.logpdf(target, mean, total), rel=1e-12)


def test_the_errors_are_relative_to_the_exact_value() -> None:
    row = {"log_Z_exact_last": [-2.0, 0.5], "log_Z_gaussian_last": [-2.2, 0.6]}
    relative, absolute = t_approx.errors(row, "last")
    np.testing.assert_allclose(relative, [-0.1, 0.2])
    np.testing.assert_allclose(absolute, [-0.2, 0.1])
