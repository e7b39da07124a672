"""ActiveLearner: which samples it queries, which it never does, and its errors."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from numpy.random import RandomState
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probprop import PBPClassifier, PBPRegressor
from probprop._types import FloatArray
from probprop.active import ActiveLearner
from probprop.active.strategies import STRATEGIES, greedy_batch

Name = Literal["variance_reduction", "variance", "thompson", "random"]
NAMES: list[Name] = ["variance_reduction", "variance", "thompson", "random"]
PBP = PBPRegressor(10, n_epochs=10, random_state=0)


def rows(n: int, n_features: int = 2, seed: int = 0) -> FloatArray:
    return RandomState(seed).standard_normal((n, n_features))


def value(X: FloatArray) -> FloatArray:
    return np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2


def learner(strategy: Name = "variance", seed: int = 0, **parameters: Any) -> ActiveLearner:
    X = rows(20, seed=1)
    return ActiveLearner(PBP, strategy, random_state=seed, **parameters).tell(X, value(X))


class Certain(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts with the standard deviations it is given; None: the same for every row."""

    def __init__(self, std: FloatArray | None = None) -> None:
        self.std = std

    def fit(self, X: FloatArray, y: FloatArray) -> Certain:
        return self

    def predict(self, X: FloatArray, return_std: bool = False) -> Any:
        std = np.ones(len(X)) if self.std is None else self.std
        return (np.zeros(len(X)), std) if return_std else np.zeros(len(X))


@dataclass
class Spread:
    epistemic_std: FloatArray
    aleatoric_std: FloatArray


class Noisy(Certain):
    """Predicts heteroscedastic noise."""

    def __init__(self, std: FloatArray, aleatoric_std: FloatArray) -> None:
        super().__init__(std)
        self.aleatoric_std = aleatoric_std

    def predict_distribution(self, X: FloatArray) -> Spread:
        assert self.std is not None
        return Spread(self.std, self.aleatoric_std)


def ask(estimator: Any, X: FloatArray, n: int, strategy: Name = "variance", seed: int = 0) -> Any:
    told = np.full((1, X.shape[1]), 1e3)
    return ActiveLearner(estimator, strategy, random_state=seed).tell(told, [0.0]).ask(X, n)


# ---- What is chosen


def naive_batch(var_model: FloatArray, var_noise: float, X: FloatArray, n: int) -> list[int]:
    """The formula as it is written, with the inverse, for rows whose columns all vary."""
    Xs = X / X.std(axis=0) / np.sqrt(X.shape[1] / 2.0)
    k = np.exp(-np.sqrt(((Xs[:, None] - Xs[None]) ** 2).sum(axis=2)))
    chosen: list[int] = []
    for _ in range(n):
        inverse = np.linalg.inv(k[np.ix_(chosen, chosen)])
        left = 1.0 - np.einsum("ib,bc,ic->i", k[:, chosen], inverse, k[:, chosen])
        score = var_noise + left * var_model
        score[chosen] = -np.inf
        chosen.append(int(np.argmax(score)))
    return chosen


@pytest.mark.parametrize("n_features", [1, 3, 12])
def test_a_batch_matches_the_formula(n_features: int) -> None:
    X = rows(80, n_features) * RandomState(2).uniform(0.1, 9.0, n_features)
    std = RandomState(3).uniform(0.5, 1.5, 80)
    assert ask(Certain(std), X, 12).tolist() == naive_batch(std**2, 0.0, X, 12)
    noisy = Noisy(std, np.full(80, 2.0))
    expected = naive_batch(std**2, 4.0, X, 12)
    assert ask(noisy, X, 12).tolist() == expected


def test_a_copy_of_a_chosen_row_is_the_last() -> None:
    X, score = np.array([[0.0], [1e-6], [1.0]]), np.array([1.0, 0.99, 0.5])
    assert greedy_batch(score, X, 3, RandomState(0)).tolist() == [0, 2, 1]


def test_one_row_is_the_one_of_the_highest_variance() -> None:
    X = rows(200)
    active = learner()
    _, std = active.estimator_.predict(X, return_std=True)
    assert active.ask(X).tolist() == [np.argmax(std)]


def test_a_batch_of_ten_is_diverse() -> None:
    X = rows(1000, seed=5)
    active = learner()
    _, std = active.estimator_.predict(X, return_std=True)

    def nearest(batch: Any) -> float:
        apart = np.linalg.norm(X[batch][:, None] - X[batch][None], axis=2)
        return float(np.sort(apart, axis=1)[:, 1].mean())

    batch = active.ask(X, 10)
    assert nearest(batch) > 1.5 * nearest(np.argsort(-std)[:10])
    assert std[batch].mean() > np.quantile(std, 0.9)  # and still of the uncertain ones


def test_the_units_of_the_features_and_of_the_target_do_not_matter() -> None:
    X = rows(100)
    std = RandomState(3).uniform(0.5, 1.5, 100)
    batch = ask(Certain(std), X, 8).tolist()
    scaled = np.column_stack([1e6 * X[:, 0], 1e-6 * X[:, 1], np.full(100, 7.0)])
    assert ask(Certain(std), scaled, 8).tolist() == batch
    for unit in (1e-200, 1e200):
        assert ask(Certain(unit * std), X, 8).tolist() == batch


def test_noise_attracts_no_queries() -> None:
    X = rows(3)
    noisy = Noisy(np.array([1.0, 1.2, 1.0]), np.array([9.0, 1.0, 0.5]))
    assert ask(noisy, X, 1, "variance").tolist() == [1]


def test_thompson_takes_the_best_of_each_network_drawn() -> None:
    X = rows(300)
    active = learner("thompson", seed=4)
    expected: list[int] = []
    for f in active.estimator_.sample_functions(6, random_state=RandomState([4, 20])):
        order = np.argsort(-f(X))
        expected.append(int(next(i for i in order if i not in expected)))
    assert active.ask(X, 6).tolist() == expected


def test_random_takes_every_row_as_often() -> None:
    X = rows(5)
    counts = np.zeros(5)
    for seed in range(600):
        counts[ask(Certain(), X, 2, "random", seed)] += 1
    expected, deviation = 240.0, np.sqrt(600 * 0.4 * 0.6)
    assert np.abs(counts - expected).max() < 4.5 * deviation


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None),
        BayesianRidge(),
        make_pipeline(StandardScaler(), BayesianRidge()),
    ],
    ids=["Gaussian process", "BayesianRidge", "pipeline"],
)
def test_any_estimator_with_a_standard_deviation_will_do(estimator: Any) -> None:
    X, pool = rows(20, seed=1), rows(100)
    active = ActiveLearner(estimator, "variance", random_state=0).tell(X, value(X))
    _, std = active.estimator_.predict(pool, return_std=True)
    batch = active.ask(pool, 5)
    assert batch[0] == np.argmax(std)
    assert len(set(batch.tolist())) == 5


# ---- What is never chosen


@pytest.mark.parametrize("strategy", NAMES)
def test_no_training_row_and_no_row_twice(strategy: Name) -> None:
    """The whole table is the pool in every round, measured rows and copies included."""
    X = rows(40)
    X[10:15] = X[0]
    measured = list(range(4))
    active = ActiveLearner(PBP, strategy, random_state=0).tell(X[measured], value(X[measured]))
    while len(measured) < 35:
        n = min(3, 35 - len(measured))
        batch = active.ask(X, n).tolist()
        assert len(set(batch)) == n
        assert not {*batch} & {*measured}
        measured += batch
        active.tell(X[batch], value(X[batch]))
    assert not {*range(10, 15)} & {*measured}
    with pytest.raises(ValueError, match=r"has no rows to choose from \(the other 40 are labeled"):
        active.ask(X)


def test_of_equal_rows_one_is_chosen() -> None:
    X = rows(6)[[0, 1, 1, 2, 2, 2]]
    for seed in range(10):
        assert sorted(ask(Certain(), X, 3, seed=seed).tolist()) == [0, 1, 3]


# ---- Seeds


def test_ties_are_broken_by_the_seed() -> None:
    """All predictions are equal: the first of a batch is random, and each row is as likely."""
    X = np.array([[0.0], [1.0], [2.0]])
    first = np.array([ask(Certain(), X, 1, seed=seed)[0] for seed in range(600)])
    counts = np.bincount(first, minlength=3)
    assert np.abs(counts - 200).max() < 4.5 * np.sqrt(600 / 3 * 2 / 3)
    for seed in range(5):
        assert ask(Certain(), X, 3, seed=seed).tolist() == ask(Certain(), X, 3, seed=seed).tolist()


def test_rounding_is_no_preference() -> None:
    X = rows(4)
    std = np.array([1.0, 1.0 + 1e-15, 1.0 - 1e-15, 1.0])
    assert {int(ask(Certain(std), X, 1, seed=seed)[0]) for seed in range(60)} == {0, 1, 2, 3}


def test_no_uncertainty_at_all_still_gives_a_batch() -> None:
    assert sorted(ask(Certain(np.zeros(5)), rows(5), 5).tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("strategy", NAMES)
def test_two_runs_with_the_same_seed_are_identical(strategy: Name) -> None:
    def run(seed: int) -> list[list[int]]:
        X = rows(60)
        active = learner(strategy, seed)
        batches = []
        for _ in range(3):
            batches.append(active.ask(X, 4).tolist())
            active.tell(X[batches[-1]], value(X[batches[-1]]))
        return batches

    assert run(7) == run(7)
    if strategy in ("thompson", "random"):
        assert run(7) != run(8)


@pytest.mark.parametrize("strategy", NAMES)
def test_asking_changes_nothing(strategy: Name) -> None:
    X, active = rows(50), learner(strategy)
    before = copy.deepcopy(vars(active))
    first = active.ask(X, 5)
    np.testing.assert_array_equal(active.ask(X, 5), first)
    np.testing.assert_array_equal(active.X_, before["X_"])
    assert vars(active).keys() == before.keys()
    expected = before["estimator_"].predict(X)
    np.testing.assert_array_equal(active.estimator_.predict(X), expected)


# ---- What is learned


def test_tell_fits_afresh_on_all_rows() -> None:
    X, pool = rows(20, seed=1), rows(30)
    active = learner().tell(pool[:3], value(pool[:3]))
    together = np.concatenate([X, pool[:3]])
    fresh = PBPRegressor(10, n_epochs=10, random_state=0).fit(together, value(together))
    np.testing.assert_array_equal(active.estimator_.predict(pool), fresh.predict(pool))
    np.testing.assert_array_equal(active.X_, together)
    np.testing.assert_array_equal(active.y_, value(together))
    assert not hasattr(PBP, "posterior_")


@pytest.mark.filterwarnings("ignore:In 3 updates:RuntimeWarning")  # of rows far from the others
def test_warm_start_updates_with_the_new_samples() -> None:
    X, pool = rows(20, seed=1), rows(30)
    active = learner(warm_start=True).tell(pool[:3], value(pool[:3]))
    fresh = PBPRegressor(10, n_epochs=10, random_state=0).fit(X, value(X))
    fresh.partial_fit(pool[:3], value(pool[:3]))
    np.testing.assert_array_equal(active.estimator_.predict(pool), fresh.predict(pool))
    assert active.estimator_.n_iter_ == 11
    assert len(active.y_) == 23


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_tell_that_fails_leaves_the_learner_as_it_was(
    warm_start: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, active = rows(30), learner(warm_start=warm_start)
    before = active.estimator_.predict(pool)

    def interrupted(self: PBPRegressor, X: FloatArray, y: FloatArray) -> None:
        self.n_samples_seen_ = -1
        raise KeyboardInterrupt

    monkeypatch.setattr(PBPRegressor, "partial_fit" if warm_start else "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        active.tell(pool[:2], value(pool[:2]))
    assert len(active.y_) == len(active.X_) == 20
    assert active.estimator_.n_samples_seen_ > 0
    np.testing.assert_array_equal(active.estimator_.predict(pool), before)


# ---- Messages


def test_an_empty_pool_and_a_pool_of_one() -> None:
    active = learner()
    with pytest.raises(ValueError, match="n == 1 rows were asked for, but X_pool has no rows"):
        active.ask(np.empty((0, 2)))
    assert active.ask(rows(1)).tolist() == [0]
    with pytest.raises(ValueError, match="n == 5 rows were asked for, but X_pool has 1 row to"):
        active.ask(rows(1), 5)


@pytest.mark.parametrize("strategy", NAMES)
def test_nan_in_the_pool(strategy: Name) -> None:
    X = rows(5)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="Input X_pool contains NaN"):
        learner(strategy).ask(X)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_predictions_that_are_not_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="standard deviations that Certain predicts for X_pool"):
        ask(Certain(np.array([1.0, bad, 1.0])), rows(3), 1)


def test_other_bad_input() -> None:
    active = learner()
    with pytest.raises(ValueError, match=r"X_pool has 3 features, but the samples of .* have 2"):
        active.ask(rows(4, 3))
    with pytest.raises(ValueError, match=r"X has 3 features, but the samples of .* have 2"):
        active.tell(rows(4, 3), np.zeros(4))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        active.tell(rows(2), [1.0, np.nan])
    with pytest.raises(ValueError, match="n == 0, must be >= 1"):
        active.ask(rows(4), 0)


def test_bad_parameters() -> None:
    X = rows(5)
    y = value(X)
    assert list(STRATEGIES) == NAMES
    with pytest.raises(
        ValueError, match=r"strategy must be one of \['variance_reduction', .*'entropy'"
    ):
        ActiveLearner(PBP, "entropy").tell(X, y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch_size == 0"):
        ActiveLearner(PBP, batch_size=0).tell(X, y)
    with pytest.raises(TypeError, match="warm_start must be an instance of"):
        ActiveLearner(PBP, warm_start="yes").tell(X, y)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needs an estimator with 'partial_fit', which Bayes"):
        ActiveLearner(BayesianRidge(), warm_start=True).tell(X, y)
    with pytest.raises(TypeError, match="'thompson' needs an estimator with 'sample_functions'"):
        ActiveLearner(BayesianRidge(), "thompson").tell(X, y)
    with pytest.raises(TypeError, match="return_std"):
        ActiveLearner(LinearRegression(), "variance").tell(X, y).ask(X + 1.0)


def test_batch_size_is_what_ask_returns() -> None:
    assert len(learner(batch_size=4).ask(rows(9))) == 4


# ---- Before the first label, and classes


def test_the_first_rows_are_spread_by_the_features_alone() -> None:
    """By hand: the row that takes most from the sum of the variances, given those before it."""
    pool = rows(30)
    Z = (pool - pool.mean(axis=0)) / pool.std(axis=0)
    c = np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2) / (2.0 * pool.shape[1]))
    expected = []
    for _ in range(6):
        score = (c**2).sum(axis=0) / (c.diagonal() + 0.1)
        score[expected] = -np.inf
        i = int(np.argmax(score))
        expected.append(i)
        c = c - np.outer(c[:, i], c[i]) / (c[i, i] + 0.1)
    for name in NAMES[:-1]:
        assert ActiveLearner(PBP, name, random_state=3).ask(pool, 6).tolist() == expected
    twice = [ActiveLearner(PBP, "random", random_state=3).ask(pool, 6).tolist() for _ in range(2)]
    assert twice[0] == twice[1] != expected


def test_the_first_rows_are_complete_if_there_are_enough() -> None:
    """A row without any value counts as the mean of the pool, which would be the first choice."""
    pool = rows(30)
    pool[[3, 7]] = np.nan
    marginalizing = PBPRegressor(missing="marginalize")
    chosen = ActiveLearner(marginalizing, random_state=0).ask(pool, 6)
    assert not {3, 7} & {*chosen}
    pool[:28] = np.nan
    pool[:28, 0] = np.arange(28)
    assert len(ActiveLearner(marginalizing, random_state=0).ask(pool, 6)) == 6


class Voter(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the probabilities it is given."""

    def __init__(self, proba: FloatArray) -> None:
        self.proba = proba

    def fit(self, X: FloatArray, y: Any) -> Voter:
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        return self.proba


def test_the_class_of_the_highest_entropy() -> None:
    proba = np.array([[0.98, 0.01, 0.01], [0.5, 0.5, 0.0], [0.4, 0.3, 0.3], [0.0, 1.0, 0.0]])
    active = ActiveLearner(Voter(proba), "variance").tell([[9.0, 9.0]], ["a"])
    assert active.ask(rows(4)).tolist() == [2]


@pytest.mark.parametrize("strategy", ["variance_reduction", "variance"])
def test_a_classifier_queries_near_the_boundary(strategy: Name) -> None:
    """Two classes, apart at x = 0, known far from it; the other column is 0 everywhere."""
    x = np.concatenate([np.linspace(-3.0, -2.0, 10), np.linspace(2.0, 3.0, 10)])
    X = np.column_stack([x, np.zeros(20)])
    model = PBPClassifier(10, n_epochs=20, random_state=0)
    active = ActiveLearner(model, strategy, random_state=0).tell(X, np.where(x > 0.0, "b", "a"))
    pool = np.column_stack([np.linspace(-3.05, 3.05, 62), np.zeros(62)])
    assert abs(pool[active.ask(pool)[0], 0]) < 1.0


def test_thompson_is_for_numbers() -> None:
    with pytest.raises(TypeError, match="needs numeric targets, but the targets are classes"):
        ActiveLearner(PBPClassifier(), "thompson").tell(rows(4), ["a", "b", "a", "b"])
