"""Scorers: exact for what is predicted, through scikit-learn's wrappers, with weights."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    PolynomialFeatures,
    StandardScaler,
)

from probprop import (
    Candidate,
    Mixture,
    PBPClassifier,
    PBPRegressor,
    PBPRegressorCV,
    TransformedMixture,
    metrics,
)
from probprop._types import FloatArray

REGRESSION = [metrics.log_likelihood_scorer, metrics.crps_scorer]
Scorer = Callable[..., float]

RNG = np.random.RandomState(0)
X = RNG.uniform(-2.0, 2.0, (120, 2))
Y = np.exp(1.0 + X[:, 0] + 0.6 * RNG.standard_normal(120))
WEIGHTS = RNG.randint(0, 3, 120).astype(float)


class Told(RegressorMixin, BaseEstimator):
    """A regressor whose predictive distribution is what the features say: mean, std."""

    def __init__(self, n_targets: int = 1) -> None:
        self.n_targets = n_targets

    def fit(self, X: Any, y: Any) -> Told:
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: Any) -> FloatArray:
        return self.predict_distribution(X).mean

    def predict_distribution(self, X: FloatArray) -> Mixture:
        mean, std = X[:, : self.n_targets], np.exp(X[:, ::-1][:, : self.n_targets])
        if self.n_targets == 1:
            mean, std = mean[:, 0], std[:, 0]
        return Mixture(
            np.stack([mean, mean + 1.0]), np.zeros((2, *mean.shape)), np.stack([std] * 2)
        )


def plain() -> PBPRegressor:
    return PBPRegressor((), n_epochs=5, random_state=0)


@pytest.fixture(scope="module")
def of_a_power() -> PBPRegressorCV:
    candidate = Candidate(n_bins=None, hidden_layer_sizes=(5,), power=0.0)
    model = PBPRegressorCV(candidates=[candidate], budget="fast", cv=2, random_state=0)
    return model.fit(X, Y)


def crps_of_gaussians(y: FloatArray, mean: FloatArray, std: FloatArray) -> float:
    """The closed form of Gneiting and Raftery (2007), mean over the samples."""
    z = (y - mean) / std
    each = std * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    return float(each.mean())


class TestRegression:
    def test_log_normal_targets_are_scored_by_the_density_that_is_predicted(
        self, of_a_power: PBPRegressorCV
    ) -> None:
        p = of_a_power.predict_distribution(X)
        assert isinstance(p, TransformedMixture)
        found = metrics.log_likelihood_scorer(of_a_power, X, Y)
        assert found == pytest.approx(p.logpdf(Y).mean(), rel=1e-13)
        assert found > norm.logpdf(Y, p.mean, p.std).mean() + 0.05  # not of a Gaussian
        assert metrics.crps_scorer(of_a_power, X, Y) == pytest.approx(-p.crps(Y).mean(), rel=1e-13)

    def test_a_target_of_density_zero_makes_the_log_likelihood_minus_infinity(
        self, of_a_power: PBPRegressorCV
    ) -> None:
        y = np.where(np.arange(120) == 3, -1.0, Y)
        assert metrics.log_likelihood_scorer(of_a_power, X, y) == -np.inf
        assert np.isfinite(metrics.crps_scorer(of_a_power, X, y))
        others = (np.arange(120) != 3).astype(float)
        expected = of_a_power.predict_distribution(X).logpdf(Y)[others > 0].mean()
        found = metrics.log_likelihood_scorer(of_a_power, X, y, sample_weight=others)
        assert found == pytest.approx(expected, rel=1e-13)

    @pytest.mark.parametrize("scorer", REGRESSION)
    def test_through_pipelines_and_searches(self, scorer: Scorer) -> None:
        scaler = StandardScaler().fit(X)
        alone = plain().fit(scaler.transform(X), Y)
        expected = scorer(alone, scaler.transform(X), Y)
        pipeline = make_pipeline(StandardScaler(), "passthrough", plain())
        grid = {"pbpregressor__n_epochs": [5]}
        for model in (
            pipeline,
            make_pipeline(StandardScaler(), make_pipeline(plain())),
            GridSearchCV(pipeline, grid, cv=2),
            RandomizedSearchCV(pipeline, grid, n_iter=1, cv=2),
            make_pipeline(StandardScaler(), GridSearchCV(plain(), {"n_epochs": [5]}, cv=2)),
        ):
            assert scorer(model.fit(X, Y), X, Y) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("scorer", REGRESSION)
    def test_choose_the_better_model_in_a_grid_search_over_a_pipeline(self, scorer: Scorer) -> None:
        rng = np.random.RandomState(0)
        X = rng.uniform(-3, 3, (120, 1))
        y = X[:, 0] ** 2 + 0.1 * rng.standard_normal(120)
        pipeline = make_pipeline(
            PolynomialFeatures(include_bias=False), PBPRegressor((), n_epochs=5, random_state=0)
        )
        grid = {"polynomialfeatures__degree": [1, 2]}
        search = GridSearchCV(pipeline, grid, scoring=scorer, cv=3, error_score="raise").fit(X, y)
        assert search.best_params_ == {"polynomialfeatures__degree": 2}
        assert search.score(X, y) == scorer(search, X, y)

    @pytest.mark.parametrize("scorer", REGRESSION)
    def test_weights_are_repetitions(self, scorer: Scorer) -> None:
        model = plain().fit(X, Y)
        again = np.repeat(np.arange(120), WEIGHTS.astype(int))
        expected = scorer(model, X[again], Y[again])
        assert scorer(model, X, Y, sample_weight=WEIGHTS) == pytest.approx(expected, rel=1e-12)
        with pytest.raises(ValueError, match=r"the shape \(120,\)"):
            scorer(model, X, Y, sample_weight=[1.0])

    def test_several_targets(self) -> None:
        y = np.column_stack([Y, X[:, 1]])
        model = plain().fit(X, y)
        p = model.predict_distribution(X)
        log_p, crps = p.logpdf(y), p.crps(y)
        found = metrics.log_likelihood_scorer(model, X, y, WEIGHTS)
        assert found == pytest.approx(np.average(log_p.sum(axis=1), weights=WEIGHTS), rel=1e-12)
        assert metrics.crps_scorer(model, X, y) == pytest.approx(-crps.mean(), rel=1e-12)

    def test_targets_of_another_shape_are_refused(self) -> None:
        model = plain().fit(X, Y)
        as_column = metrics.crps_scorer(model, X, Y[:, np.newaxis])
        assert as_column == metrics.crps_scorer(model, X, Y)
        with pytest.raises(ValueError, match=r"predictions, \(120,\). Got the shape \(120, 2\)"):
            metrics.crps_scorer(model, X, np.column_stack([Y, Y]))
        with pytest.raises(ValueError, match="NaN"):
            metrics.crps_scorer(model, X, np.full(120, np.nan))

    def test_work_together_and_in_processes(self) -> None:
        scoring = {"ll": metrics.log_likelihood_scorer, "crps": metrics.crps_scorer}
        scores = cross_validate(plain(), X, Y, scoring=scoring, cv=2, error_score="raise")
        assert (scores["test_crps"] < 0).all()
        assert np.isfinite(scores["test_ll"]).all()
        for scorer in scoring.values():
            assert pickle.loads(pickle.dumps(scorer)) is scorer


class TestOtherRegressors:
    @pytest.mark.parametrize("wrapped", [False, True])
    def test_mean_and_std_are_a_gaussian(self, wrapped: bool) -> None:
        D, y = load_diabetes(return_X_y=True)
        model = BayesianRidge().fit(D[:300], y[:300])
        mean, std = model.predict(D[300:], return_std=True)
        expected = [norm.logpdf(y[300:], mean, std).mean()]
        expected += [-crps_of_gaussians(y[300:], mean, std)]
        if wrapped:
            model = Pipeline([("model", GridSearchCV(BayesianRidge(), {"tol": [1e-3]}, cv=2))])
            model.fit(D[:300], y[:300])
        for scorer, value in zip(REGRESSION, expected, strict=True):
            assert scorer(model, D[300:], y[300:]) == pytest.approx(value, rel=1e-9)

    def test_in_cross_validation(self) -> None:
        D, y = load_diabetes(return_X_y=True)
        scores = cross_val_score(
            BayesianRidge(), D, y, scoring=metrics.log_likelihood_scorer, error_score="raise"
        )
        assert ((scores < -5) & (scores > -6)).all()

    @pytest.mark.parametrize("scorer", REGRESSION)
    def test_no_distribution_and_no_std_is_an_error(self, scorer: Scorer) -> None:
        model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
        with pytest.raises(TypeError, match=r"LinearRegression predicts neither .*return_std=True"):
            scorer(model, [[0.0]], [0.0])

    @pytest.mark.parametrize("scorer", REGRESSION)
    def test_classifiers_are_refused(self, scorer: Scorer) -> None:
        labels = X[:, 0] > 0.0
        model = PBPClassifier((), n_epochs=2, random_state=0).fit(X, labels)
        with pytest.raises(TypeError, match=r"PBPClassifier returned a ClassMixture.*neg_log_loss"):
            scorer(model, X, labels)

    @pytest.mark.parametrize(
        "model",
        [
            PBPRegressor(),
            make_pipeline(StandardScaler(), PBPRegressor()),
            GridSearchCV(PBPRegressor(), {}),
            BayesianRidge(),
        ],
    )
    def test_what_is_not_fitted_is_refused(self, model: Any) -> None:
        with pytest.raises(NotFittedError):
            metrics.crps_scorer(model, X, Y)
