"""tuned: the search finds a known minimum, by the protocol, whatever the configurations do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.estimator_checks import check_estimator

pytest.importorskip("jax", reason="needs the extra 'baselines'")
pytest.importorskip("bayes_opt", reason="needs the extra 'baselines'")

from probprop.distributions.mixture import Mixture
from probprop_lab.baselines import BackpropRegressor, TunedRegressor, tuned
from probprop_lab.baselines.tuning import BACKPROP_SPACE, maximize

BEST = {"a": 0.3, "b": 1e-3}
SPACE = {"a": (-1.0, 1.0), "b": (1e-6, 1.0, "log")}


class Surface(RegressorMixin, BaseEstimator):
    """A regressor of y = X[:, 0] whose root mean squared error is a known function."""

    fits: list[tuple[int, int | None]] = []  # rows and seed of every fit  # noqa: RUF012

    def __init__(self, a=0.0, b=1.0, fails="never", random_state=None):
        self.a = a
        self.b = b
        self.fails = fails
        self.random_state = random_state

    def error(self):
        return 0.01 + (self.a - BEST["a"]) ** 2 + 0.05 * math.log10(self.b / BEST["b"]) ** 2

    def fit(self, X, y):
        self.fits.append((len(y), self.random_state))
        near = abs(self.a - BEST["a"]) < 0.1
        failing = {
            "never": False,
            "always": True,
            "half": self.a > 0.6,
            "all rows, near": len(y) == 100 and near,
        }
        if self.fails == "wrongly":
            raise ValueError("a mistake of the programmer")
        if failing[self.fails]:
            raise FloatingPointError("diverged")
        self.n_rows_ = len(y)
        return self

    def predict(self, X):
        return X[:, 0] + self.error()

    def predict_distribution(self, X):
        return Mixture.of_one(self.predict(X), np.zeros(len(X)), 1.0)


class Wide(Surface):
    """The same error of 0.5 everywhere; b is the standard deviation it claims."""

    def predict(self, X):
        return X[:, 0] + 0.5

    def predict_distribution(self, X):
        return Mixture.of_one(self.predict(X), np.zeros(len(X)), self.b)


@pytest.fixture
def data():
    Surface.fits.clear()
    X = np.random.RandomState(0).standard_normal((100, 2))
    return X, X[:, 0].copy()


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_search_finds_the_known_minimum(data, seed, capsys):
    model = tuned(Surface(), SPACE, random_state=seed).fit(*data)
    assert model.best_params_["a"] == pytest.approx(BEST["a"], abs=0.05)
    assert math.log10(model.best_params_["b"]) == pytest.approx(-3.0, abs=0.25)
    assert len(model.search_results_) == 30
    for params, error, *_ in model.search_results_:
        assert -1.0 <= params["a"] <= 1.0
        assert 1e-6 <= params["b"] <= 1.0
        assert error == pytest.approx(Surface(**params).error())
    assert capsys.readouterr() == ("", "")  # the package talks of duplicates


def test_the_log_likelihood_distinguishes_what_the_error_cannot(data):
    space = {"b": (1e-3, 10.0, "log")}
    model = tuned(Wide(), space, scoring="log_likelihood", random_state=0).fit(*data)
    assert model.best_params_["b"] == pytest.approx(0.5, rel=0.15)
    for params, error, log_likelihood, _ in model.search_results_:
        assert error == pytest.approx(0.5)
        assert log_likelihood == pytest.approx(stats.norm.logpdf(0.5, 0.0, params["b"]), rel=1e-6)
    diverged = tuned(Surface(fails="half"), SPACE, scoring="log_likelihood", random_state=0)
    found = diverged.fit(*data).search_results_
    assert min(e.log_likelihood for e in found) == -math.inf
    assert diverged.best_params_["a"] == pytest.approx(BEST["a"], abs=0.15)
    with pytest.raises(ValueError, match=r"scoring must be 'rmse' or 'log_likelihood'\. Got 'r2'"):
        tuned(Surface(), SPACE, scoring="r2").fit(*data)


@pytest.mark.slow
def test_search_is_better_than_chance():
    """Its regret in three dimensions is far below the regret of random search."""

    def best_of(n_iter, seed, at_random):
        random_state, found = np.random.RandomState(seed), []

        def score(params):
            found.append(-sum((params[name] - 0.7) ** 2 for name in "xyz"))
            return found[-1]

        if at_random:
            for u in random_state.uniform(size=(n_iter, 3)):
                score(dict(zip("xyz", u, strict=True)))
        else:
            maximize(score, dict.fromkeys("xyz", (0.0, 1.0)), n_iter, random_state)
        assert len(found) == n_iter
        return -max(found)

    searched = [best_of(25, seed, False) for seed in range(3)]
    by_chance = [best_of(25, seed, True) for seed in range(3)]
    assert np.mean(searched) < 0.1 * np.mean(by_chance)


def test_log_ranges_are_searched_in_the_logarithm():
    found = []
    space = {"p": (1e-4, 1e2, "log"), "q": (0.0, 100.0)}
    for seed in range(100):  # five evaluations each, all at random
        maximize(lambda p: found.append(p) or 0.0, space, 5, np.random.RandomState(seed))
    p, q = np.array([(f["p"], f["q"]) for f in found]).T
    assert np.mean(p < 1e-1) == pytest.approx(0.5, abs=0.1)
    assert np.mean(q < 50.0) == pytest.approx(0.5, abs=0.1)


def test_a_fifth_validates_and_all_rows_are_fitted_in_the_end(data):
    model = tuned(Surface(), SPACE, n_iter=7, random_state=0).fit(*data)
    assert [rows for rows, _ in Surface.fits] == [80] * 7 + [100]
    assert model.best_estimator_.n_rows_ == 100
    np.testing.assert_array_equal(
        model.predict(data[0]), Surface(**model.best_params_).predict(data[0])
    )
    assert model.fit_seconds_ >= sum(e.seconds for e in model.search_results_)


def test_all_fits_have_one_seed(data):
    tuned(Surface(), SPACE, n_iter=6, random_state=0).fit(*data)
    (seed,) = {seed for _, seed in Surface.fits}
    assert isinstance(seed, int)
    Surface.fits.clear()
    tuned(Surface(random_state=123), SPACE, n_iter=6, random_state=0).fit(*data)
    assert {seed for _, seed in Surface.fits} == {123}


def test_diverging_configurations_are_the_worst(data):
    model = tuned(Surface(fails="half"), SPACE, random_state=0).fit(*data)
    for params, error, *_ in model.search_results_:
        assert math.isinf(error) == (params["a"] > 0.6)
    assert any(math.isinf(error) for _, error, *_ in model.search_results_)
    assert model.best_params_["a"] == pytest.approx(BEST["a"], abs=0.1)


def test_where_the_best_diverges_on_all_rows_the_next_best_is_taken(data):
    model = tuned(Surface(fails="all rows, near"), SPACE, random_state=0).fit(*data)
    errors = sorted(e.rmse for e in model.search_results_ if abs(e.params["a"] - BEST["a"]) >= 0.1)
    assert model.best_estimator_.error() == pytest.approx(errors[0], rel=1e-9)
    assert min(e.rmse for e in model.search_results_) < errors[0]


def test_nothing_but_divergence_is_an_error(data):
    with pytest.raises(FloatingPointError, match="diverged with each of the 6 configurations"):
        tuned(Surface(fails="always"), SPACE, n_iter=6, random_state=0).fit(*data)


def test_other_errors_are_not_swallowed(data):
    with pytest.raises(ValueError, match="a mistake of the programmer"):
        tuned(Surface(fails="wrongly"), SPACE).fit(*data)
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        tuned(Surface(), {"c": (0.0, 1.0)}).fit(*data)


@pytest.mark.parametrize(
    "bounds",
    [(1.0, 0.0), (0.0, 1.0, "log"), (0.1, 1.0, "cubic"), (0.0,), (0.0, np.inf), ("a", "b")],
)
def test_bad_ranges_are_named(data, bounds):
    with pytest.raises(ValueError, match=r"space\['a'\] must be \(low, high\)"):
        tuned(Surface(), {"a": bounds}).fit(*data)


def test_bad_parameters_are_named(data):
    with pytest.raises(ValueError, match="at least one hyperparameter"):
        tuned(Surface(), {}).fit(*data)
    with pytest.raises(ValueError, match="n_iter == 0"):
        tuned(Surface(), SPACE, n_iter=0).fit(*data)


def test_it_is_cloned_with_its_estimator(data):
    model = tuned(Surface(fails="half"), SPACE, n_iter=4, random_state=5)
    copy = clone(model)
    assert isinstance(copy, TunedRegressor)
    assert copy.get_params()["estimator__fails"] == "half"
    assert copy.space == SPACE
    copy.fit(*data)
    assert copy.estimator.a == 0.0  # not changed by the search


@pytest.mark.slow
def test_scikit_learn_checks():
    # Without a hidden layer, so that its many shapes compile quickly.
    linear = BackpropRegressor((), n_epochs=10)
    space = {"learning_rate": (0.03, 0.3, "log")}
    check_estimator(tuned(linear, space, n_iter=2, random_state=0), on_skip=None)


def test_tuned_backpropagation_is_reproducible_and_beats_a_bad_guess():
    r = np.random.RandomState(0)
    X = r.standard_normal((80, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * r.standard_normal(80)
    guess = BackpropRegressor(10, learning_rate=1e-4, n_epochs=20)
    first = tuned(guess, BACKPROP_SPACE, n_iter=12, random_state=1).fit(X[:60], y[:60])
    again = tuned(guess, BACKPROP_SPACE, n_iter=12, random_state=1).fit(X[:60], y[:60])
    assert first.best_params_ == again.best_params_
    np.testing.assert_array_equal(first.predict(X), again.predict(X))
    plain = clone(guess).set_params(random_state=0).fit(X[:60], y[:60])
    assert first.score(X[60:], y[60:]) > plain.score(X[60:], y[60:]) + 0.2
