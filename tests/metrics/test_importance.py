"""Shuffled columns: the ranking, its spread, and the predictions along a column."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.inspection import permutation_importance as of_sklearn

from probprop import PBPClassifier, PBPRegressor
from probprop.metrics import permutation_importance

RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((600, 4))
KIND = RANDOM.randint(0, 3, 600)
HOT = np.eye(3)[KIND]


@cache
def fitted() -> tuple[PBPRegressor, Any, Any]:
    rows = np.hstack([X, HOT])
    y = (
        3.0 * X[:, 0]
        - X[:, 1]
        + np.array([0.0, 2.0, 4.0])[KIND]
        + 0.5 * RANDOM.standard_normal(600)
    )
    return (
        PBPRegressor(20, n_epochs=10, random_state=0).fit(rows[:300], y[:300]),
        rows[300:],
        y[300:],
    )


def test_columns_are_ranked_and_categories_move_as_one() -> None:
    model, rows, y = fitted()
    columns = {"a": [0], "b": [1], "c": [2], "d": [3], "kind": [4, 5, 6]}
    [found] = permutation_importance(model, rows, y, columns)
    assert found.names[:3] == ("a", "kind", "b")
    assert found.loss.shape == found.error.shape == (5, 5)
    assert (found.loss[:3] > 0.0).all()
    assert np.abs(found.loss[3:]).max() < 0.1 * found.loss[2].mean()
    assert found.n_rows == 300
    assert found.n_columns == 5


def test_what_happens_to_the_rmse_is_what_scikit_learn_finds() -> None:
    model, rows, y = fitted()
    [found] = permutation_importance(model, rows, y, n_repeats=30)
    theirs = of_sklearn(
        model, rows, y, scoring="neg_root_mean_squared_error", n_repeats=30, random_state=1
    )
    ours = dict(zip(found.names, found.error.mean(axis=1), strict=True))
    for i, (mean, std) in enumerate(
        zip(theirs.importances_mean, theirs.importances_std, strict=True)
    ):
        assert ours[str(i)] == pytest.approx(mean, abs=5.0 * std / np.sqrt(30) + 1e-3)


def test_several_targets_have_a_ranking_each() -> None:
    y = np.column_stack([X[:, 0], 2.0 * X[:, 1]])
    model = PBPRegressor(10, n_epochs=5, random_state=0).fit(X, y)
    first, second = permutation_importance(model, X, y)
    assert (first.names[0], second.names[0]) == ("0", "1")


def test_of_classes_the_log_loss_rises_and_the_accuracy_falls() -> None:
    y = np.where(X[:, 2] > 0.3, "yes", "no")
    model = PBPClassifier(10, n_epochs=10, random_state=0).fit(X[:300], y[:300])
    [found] = permutation_importance(model, X[300:], y[300:])
    assert found.names[0] == "2"
    assert found.loss[0].min() > 0.5
    assert 0.2 < found.error[0].mean() < 0.8


def test_of_a_wide_table_the_columns_that_matter_are_found() -> None:
    wide = RANDOM.standard_normal((150, 300))
    y = 5.0 * wide[:, 211] - 4.0 * wide[:, 17]
    model = PBPRegressor((), n_epochs=20, random_state=0).fit(wide, y)
    [found] = permutation_importance(model, wide, y)
    assert found.names[:2] == ("211", "17")
    assert found.n_columns == 300
    assert len(found.names) == 16


def test_many_rows_are_sampled_and_the_same_every_time() -> None:
    model, rows, y = fitted()
    many, observed = np.tile(rows, (20, 1)), np.tile(y, 20)
    [once], [again] = (permutation_importance(model, many, observed) for _ in range(2))
    assert once.n_rows == 2_000
    np.testing.assert_array_equal(once.loss, again.loss)


def test_what_is_refused() -> None:
    model, rows, y = fitted()
    with pytest.raises(ValueError, match="n_repeats == 0"):
        permutation_importance(model, rows, y, n_repeats=0)
    with pytest.raises(ValueError, match="must have a row and a column"):
        permutation_importance(model, rows[:0], y[:0])
