"""Models of scikit-learn: what they predict, against closed forms and known noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge

from probprop import PBPRegressorCV
from probprop_lab.baselines.off_the_shelf import (
    GaussianProcessARD,
    MLPBootstrap,
    out_of_bag_noise,
)
from probprop_lab.experiments import Job
from probprop_lab.experiments.harness import methods, scoring

X, Y = load_diabetes(return_X_y=True)


def line(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A linear function of three features, in large units, with Gaussian noise."""
    random = np.random.RandomState(seed)
    inputs = random.normal(5.0, 2.0, (n, 3))
    return inputs, 1000.0 + inputs @ [10.0, -20.0, 5.0] + noise * random.normal(size=n)


def dense_process(model: Any, X_train: np.ndarray, y_train: np.ndarray, X_test: np.ndarray) -> Any:
    """The posterior of a Gaussian process, by the textbook's formula and plain solves."""
    kernel = model.model_[-1].kernel_
    amplitude = kernel.k1.k1.constant_value
    scale, noise = kernel.k1.k2.length_scale, kernel.k2.noise_level
    a, b = ((part - X_train.mean(axis=0)) / X_train.std(axis=0) for part in (X_train, X_test))

    def covariance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        difference = (left[:, np.newaxis] - right[np.newaxis]) / scale
        return amplitude * np.exp(-0.5 * np.sum(difference**2, axis=2))

    K = covariance(a, a) + noise * np.eye(len(a))
    k = covariance(b, a)
    mean = k @ np.linalg.solve(K, (y_train - y_train.mean()) / y_train.std())
    variance = amplitude + noise - np.sum(k * np.linalg.solve(K, k.T).T, axis=1)
    return y_train.mean() + y_train.std() * mean, y_train.std() * np.sqrt(variance)


def test_the_gaussian_process_is_the_textbooks_with_the_noise_in_it() -> None:
    inputs, targets = line(60, 3.0)
    model = GaussianProcessARD(random_state=0).fit(inputs[:40], targets[:40])
    mean, std = model.predict(inputs[40:], return_std=True)
    expected = dense_process(model, inputs[:40], targets[:40], inputs[40:])
    np.testing.assert_allclose(mean, expected[0], rtol=1e-6)
    np.testing.assert_allclose(std, expected[1], rtol=1e-4)
    assert np.size(model.model_[-1].kernel_.k1.k2.length_scale) == 3


def test_bayesian_ridge_standardizes_the_features() -> None:
    scaled = (X - X[:300].mean(axis=0)) / X[:300].std(axis=0)
    expected = BayesianRidge().fit(scaled[:300], Y[:300]).predict(scaled[300:], return_std=True)
    model = methods.KNOWN["BayesianRidge"].make(Job("field", "diabetes", 0))
    found = model.fit(X[:300], Y[:300]).predict(X[300:], return_std=True)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_the_bootstrap_ensemble_finds_noise_that_is_known() -> None:
    inputs, targets = line(500, 20.0)
    model = MLPBootstrap(5, random_state=0).fit(inputs[:400], targets[:400])
    mean, std = model.predict(inputs[400:], return_std=True)
    assert np.sqrt(model.noise_variance_) == pytest.approx(20.0, rel=0.1)
    assert np.all(std > np.sqrt(model.noise_variance_))
    members = [member.predict(inputs[400:]) for member in model.members_]
    np.testing.assert_allclose(mean, np.mean(members, axis=0))
    np.testing.assert_allclose(std**2 - model.noise_variance_, np.var(members, axis=0, ddof=1))
    again = MLPBootstrap(5, random_state=0).fit(inputs[:400], targets[:400])
    np.testing.assert_array_equal(again.predict(inputs[400:]), mean)


def test_out_of_bag_noise_and_spread_add_up_to_the_error() -> None:
    """Members err around the truth with a known spread: what is left of the error is noise."""
    random = np.random.RandomState(0)
    n, n_members = 20_000, 40
    truth = random.normal(size=n)
    targets = truth + 0.5 * random.normal(size=n)
    votes = truth + 0.1 * random.normal(size=(n_members, n))
    votes[random.uniform(size=votes.shape) < 0.632] = np.nan
    # The mean of about 15 members has a fifteenth of their variance, so 0.25 - 0.01 * 14/15.
    assert out_of_bag_noise(targets, votes) == pytest.approx(0.2407, rel=0.03)


def test_out_of_bag_noise_is_above_zero_where_the_spread_exceeds_the_error() -> None:
    votes = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert out_of_bag_noise(np.array([1.0, 3.0]), votes) == pytest.approx(0.01 * 0.5)
    with pytest.raises(ValueError, match="No row was left out by two of 2 members"):
        out_of_bag_noise(np.array([1.0]), np.array([[np.nan], [2.0]]))


@pytest.mark.parametrize("name", ["BayesianRidge", "GP", "HistGB", "deep ensemble"])
def test_all_are_measured_alike_and_the_seed_settles_the_result(name: str) -> None:
    job = Job("field", "diabetes", 0, name, seed=2)
    parts = X[:60], Y[:60], X[60:90], Y[60:90]
    estimator, row = scoring.fit_and_score(job, *parts)
    mean, std = estimator.predict(X[60:90], return_std=True)
    density = -0.5 * ((Y[60:90] - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
    assert row["log_likelihood"] == pytest.approx(float(np.mean(density)))
    again = scoring.fit_and_score(job, *parts)[1]
    assert again["log_likelihood"] == row["log_likelihood"]


def test_ours_are_made_from_the_job() -> None:
    job = Job("field", "yacht", 0, "PBP", seed=5, hidden=(7,))
    single = methods.find("PBP").make(job)
    assert (single.hidden_layer_sizes, single.n_epochs, single.random_state) == ((7,), 40, 5)
    for name, budget in (("PBPRegressorCV", "good"), ("PBPRegressorCV fast", "fast")):
        model = methods.find(name).make(job)
        assert isinstance(model, PBPRegressorCV)
        assert (model.budget, model.random_state, model.n_jobs) == (budget, 5, None)
    deep = methods.find("deep ensemble").make(job)
    assert (deep.hidden_layer_sizes, deep.n_epochs, deep.random_state) == ((7,), 40, 5)
