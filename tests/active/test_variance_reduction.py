"""The default strategy: against the formula with inverses, and a linear model known exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import RandomState
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression

from cv_models import X as X_CV
from cv_models import Y as Y_CV
from cv_models import small
from probprop import PBPRegressor
from probprop._types import FloatArray
from probprop.active import ActiveLearner
from probprop.active.strategies import (
    MOST_ROWS,
    NOISE,
    by_variance_reduction,
    given_first,
    greedy_reduction,
    likeness,
    unit_variance,
)


class Says(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts a + b sin(3 x_0), or what else it is given."""

    def __init__(self, a: float = 0.0, b: float = 1.0, bad: float = 0.0) -> None:
        self.a, self.b, self.bad = a, b, bad

    def fit(self, X: FloatArray, y: FloatArray) -> Says:
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        f: FloatArray = self.a + self.b * np.sin(3.0 * X[:, 0])
        f[-1] += self.bad
        return f


def rows(n: int, n_features: int = 3, seed: int = 0) -> FloatArray:
    return RandomState(seed).standard_normal((n, n_features))


def ask(estimator: Any, told: FloatArray, pool: FloatArray, n: int, seed: int = 0) -> list[int]:
    return by_variance_reduction(estimator, told, pool, n, RandomState(seed)).tolist()


# ---- The formula


def naive(estimator: Any, told: FloatArray, pool: FloatArray, n: int) -> list[int]:
    """The sums of variances as they are written, with a loop over rows and inverses."""
    X = np.vstack([told, pool])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    f = estimator.predict(X)

    def k(i: int, j: int) -> float:
        of_x = np.sum((Z[i] - Z[j]) ** 2) / (2 * X.shape[1])
        return float(np.exp(-0.5 * (of_x + (f[i] - f[j]) ** 2 / (2 * f.var()))))

    K = np.array([[k(i, j) for j in range(len(X))] for i in range(len(X))])
    candidates = np.arange(len(told), len(X))

    def total(known: list[int]) -> float:
        inverse = np.linalg.inv(K[np.ix_(known, known)] + NOISE * np.eye(len(known)))
        return float(sum(1.0 - K[r, known] @ inverse @ K[known, r] for r in candidates))

    known = list(range(len(told)))
    chosen: list[int] = []
    for _ in range(n):
        left = {int(c): total([*known, c]) for c in candidates if c not in known}
        pick = min(left, key=lambda c: left[c])
        known.append(pick)
        chosen.append(pick - len(told))
    return chosen


@pytest.mark.parametrize("n_features", [1, 4])
def test_a_batch_matches_the_formula(n_features: int) -> None:
    told, pool = rows(6, n_features, seed=1), rows(30, n_features) * np.arange(1, n_features + 1)
    assert ask(Says(), told, pool, 5) == naive(Says(), told, pool, 5)


def test_a_linear_model_is_known_exactly() -> None:
    """For weights w ~ N(0, S), one pick: the trace of X_pool (posterior covariance) X_pool^T."""
    X, noise = rows(25, 2), 0.3
    S = np.array([[2.0, 0.5], [0.5, 1.0]])
    picks = greedy_reduction(X @ S @ X.T, 3, noise, RandomState(0)).tolist()
    precision = np.linalg.inv(S)
    expected: list[int] = []
    for _ in range(3):
        left = [
            np.trace(X @ np.linalg.inv(precision + np.outer(x, x) / noise) @ X.T)
            if i not in expected
            else np.inf
            for i, x in enumerate(X)
        ]
        expected.append(int(np.argmin(left)))
        precision = precision + np.outer(X[expected[-1]], X[expected[-1]]) / noise
    assert picks == expected


def test_one_weight_by_hand() -> None:
    """y = w x, w ~ N(0, 1), x = 1, 2, -3: var(w) after x is s / (s + x^2), least for -3."""
    x, noise = np.array([1.0, 2.0, -3.0]), 0.5
    c = np.outer(x, x)
    assert greedy_reduction(c, 1, noise, RandomState(0)).tolist() == [2]
    # 14 = 1 + 4 + 9 is the sum of variances before.
    left = given_first(np.outer([-3.0, *x], [-3.0, *x]), 1, noise)
    assert np.trace(left) == pytest.approx(14.0 * noise / (noise + 9.0))


def test_what_is_known_first_or_chosen_leaves_the_same_covariances() -> None:
    k = likeness(rows(20), rows(20, 1, seed=2)[:, 0])
    both = given_first(k, 5, 0.1)
    one_by_one = k
    for _ in range(5):
        one_by_one = given_first(one_by_one, 1, 0.1)
    assert_allclose(both, one_by_one, atol=1e-12)
    assert np.linalg.eigvalsh(both).min() > -1e-12


def test_likeness_of_rows_at_the_average_distance() -> None:
    X, f = rows(400, 5), rows(400, 1, seed=3)[:, 0]
    distance = -2.0 * np.log(likeness(X, f))
    assert distance.mean() == pytest.approx(2.0)  # 1 of the features, and 1 of the predictions
    only = -2.0 * np.log(likeness(X, np.full(400, 7.0)))
    assert only.mean() == pytest.approx(1.0)
    assert (likeness(np.ones((3, 2)), np.zeros(3)) == 1.0).all()


# ---- What does not matter


def test_one_row_is_the_first_of_a_batch() -> None:
    told, pool = rows(6, seed=1), rows(50)
    batch = ask(Says(), told, pool, 8)
    for n in range(1, 8):
        assert ask(Says(), told, pool, n) == batch[:n]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_the_rows_does_not_matter(seed: int) -> None:
    told, pool = rows(6, seed=1), rows(40)
    order = RandomState(seed).permutation(40)
    shuffled = ask(Says(), RandomState(seed).permutation(told), pool[order], 6)
    assert order[shuffled].tolist() == ask(Says(), told, pool, 6)


@settings(max_examples=20, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.booleans())
def test_the_units_of_the_target_do_not_matter(a: float, b: float, down: bool) -> None:
    told, pool = rows(6, seed=1), rows(40)
    scaled = Says(a * b, -b if down else b)
    assert ask(scaled, told, pool, 6) == ask(Says(), told, pool, 6)


@pytest.mark.parametrize("unit", [1e-250, 1e250])
def test_targets_whose_squares_are_no_floats(unit: float) -> None:
    told, pool = rows(6, seed=1), rows(40)
    assert ask(Says(b=unit), told, pool, 6) == ask(Says(), told, pool, 6)


def test_the_units_of_the_features_and_constant_ones_do_not_matter() -> None:
    told, pool = rows(6, seed=1), rows(40)

    def other(X: FloatArray) -> FloatArray:
        return np.column_stack(
            [X[:, 0], 1e6 * X[:, 1] + 5.0, -1e-6 * X[:, 2], np.full(len(X), 9.0)]
        )

    assert ask(Says(), other(told), other(pool), 6) == ask(Says(), told, pool, 6)


# ---- What is chosen


def test_a_crowd_comes_first_then_a_group_and_not_the_row_that_is_alone() -> None:
    at = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 9.0]], [60, 20, 1], axis=0)
    pool = at + 0.01 * rows(81, 2)
    first, second = ask(Says(b=0.0), np.array([[-5.0, 0.0]]), pool, 2)
    assert first < 60
    assert 60 <= second < 80


class Step(Says):
    """Predicts the same for all rows on one side of 0, and another value on the other."""

    def predict(self, X: FloatArray) -> FloatArray:
        f: FloatArray = np.where(self.b * X[:, 0] > 0.5, 3.0, 0.0)
        return f


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_of_groups_equally_far_away_the_one_that_the_model_distinguishes_is_queried(
    side: float,
) -> None:
    pool = np.repeat([[-1.0], [1.0]], 10, axis=0) + 0.01 * rows(20, 1)
    [first] = ask(Step(b=side), np.array([[0.0]]), pool, 1)
    assert np.sign(pool[first, 0]) == side


@pytest.mark.parametrize(
    "estimator",
    [LinearRegression(), BayesianRidge(), GaussianProcessRegressor(optimizer=None), Says()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_regressor_will_do(estimator: Any) -> None:
    X, pool = rows(20, seed=1), rows(60)
    learner = ActiveLearner(estimator, random_state=0).tell(X, X[:, 0])
    assert learner.strategy == "variance_reduction"
    assert learner.ask(pool, 4).tolist() == ask(learner.estimator_, X, pool, 4)


def test_pbp_regressor_cv() -> None:
    learner = ActiveLearner(small(), random_state=0).tell(X_CV[:60], Y_CV[:60])
    chosen = learner.ask(X_CV[60:], 4).tolist()
    assert chosen == ask(learner.estimator_, X_CV[:60], X_CV[60:], 4)


def test_missing_values_count_as_the_mean() -> None:
    X = rows(40)
    X[::5, 1] = np.nan
    filled = unit_variance(X)
    assert (filled[::5, 1] == 0.0).all()
    assert_allclose(np.nanstd(X[:, 0]) * filled[:, 0], X[:, 0] - X[:, 0].mean())
    model = PBPRegressor(5, n_epochs=3, missing="marginalize", random_state=0)
    learner = ActiveLearner(model, random_state=0).tell(X[:10], X[:10, 0])
    assert len({*learner.ask(X, 5).tolist()}) == 5


# ---- Large pools


def test_of_a_large_pool_some_rows_are_candidates() -> None:
    told, pool = rows(6, seed=1), rows(3 * MOST_ROWS)
    one, again, other = (ask(Says(), told, pool, 5, seed) for seed in (0, 0, 1))
    assert one == again != other
    assert max(one + other) > MOST_ROWS
    # Whatever is drawn, the variance left in the pool is about the same.
    rest = rows(300, seed=9)
    k = [likeness(X := np.vstack([told, pool[c], rest]), Says().predict(X)) for c in (one, other)]
    a, b = (np.trace(given_first(each, 11, NOISE)) for each in k)
    assert a == pytest.approx(b, rel=0.05)


def test_more_rows_than_one_draw_gives() -> None:
    told, pool = rows(2 * MOST_ROWS, 2, seed=1), rows(MOST_ROWS + 300, 2)
    assert len({*ask(Says(), told, pool, 250)}) == 250
    few = rows(130, 2)
    assert sorted(ask(Says(), told[:5], few, 130)) == list(range(130))


# ---- Messages


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_predictions_that_are_not_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="values that Says predicts for X_pool are not"):
        ask(Says(bad=bad), rows(6, seed=1), rows(9), 1)
