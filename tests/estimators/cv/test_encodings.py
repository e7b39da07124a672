"""Wide tables get fewer ramps per column, and very wide ones none."""

from __future__ import annotations

import numpy as np
import pytest

from probprop import Candidate, PBPRegressorCV
from probprop.encoding.missing import masked
from probprop.estimators.cv.folds import MOST_RAMPS, Encodings, Fold, HeldOut, side_by_side
from probprop.estimators.cv.policy import default_candidates, policy_of


def encodings(n_columns: int) -> Encodings:
    X = np.random.RandomState(0).standard_normal((100, n_columns))
    return Encodings(X, np.dtype("float32"))


@pytest.mark.parametrize(("n_columns", "bins"), [(32, 32), (33, 16), (64, 16), (256, 4), (257, 1)])
def test_bins_that_fit(n_columns: int, bins: int) -> None:
    found = encodings(n_columns)
    assert found.bins_that_fit(32) == bins
    assert found.fits((bins, False))
    assert len(found.of((bins, False)).column) <= MOST_RAMPS


def test_columns_of_two_values_have_no_ramps_that_count() -> None:
    X = np.random.RandomState(0).randint(2, size=(100, 2_000)).astype(float)
    assert Encodings(X, np.dtype("float32")).bins_that_fit(32) == 32


@pytest.mark.parametrize(("n_columns", "bins"), [(10, [16]), (100, [8]), (300, [])])
def test_candidates_of_wide_tables(n_columns: int, bins: list[int]) -> None:
    found = default_candidates(
        "good", policy_of(100, classification=False), encodings(n_columns).bins_that_fit
    )
    assert list(dict.fromkeys(c.n_bins for c in found)) == [None, *bins]


def test_codes_are_found_by_the_search() -> None:
    random = np.random.RandomState(0)
    effects, n = random.standard_normal(40), 500
    code = random.randint(40, size=2 * n)
    X = np.column_stack([code, random.standard_normal((2 * n, 2))])
    y = effects[code] + X[:, 1] + 0.1 * random.standard_normal(2 * n)
    model = PBPRegressorCV(random_state=0).fit(X[:n], y[:n])
    assert model.groups_[0].candidate.codes
    assert sum(trial.candidate.codes for trial in model.trials_ if not trial.weight) <= 2
    error = model.predict(X[n:]) - y[n:]
    assert np.std(error) < 0.2  # ramps between every second level leave 0.5
    fast = PBPRegressorCV(budget="fast", random_state=0).fit(X[:100], y[:100])
    assert not any(trial.candidate.codes for trial in fast.trials_)


def test_codes_need_bins_and_few_levels() -> None:
    with pytest.raises(ValueError, match="codes of a candidate need n_bins"):
        Candidate(codes=True)
    X = np.random.RandomState(0).randint(60, size=(400, 20)).astype(float)
    found = Encodings(X, np.dtype("float32"))
    assert not found.fits((16, True))  # 1,200 levels
    assert Encodings(X[:, :17], np.dtype("float32")).fits((16, True))
    assert found.fits((16, False))
    assert not Encodings(X + 0.5, np.dtype("float32")).fits((16, True))  # no codes


def test_a_very_wide_table_is_fitted() -> None:
    random = np.random.RandomState(0)
    X = random.standard_normal((40, 300))
    model = PBPRegressorCV(budget="fast", random_state=0).fit(X, X[:, 0])
    assert {group.encoding for group in model.groups_} == {None}
    assert np.isfinite(model.predict(X, return_std=True)).all()


def test_values_of_folds_in_the_order_of_the_rows() -> None:
    folds = [Fold(np.array([0, 1]), np.array([2]), 0), Fold(np.array([2]), np.array([0, 1]), 0)]
    held_out = HeldOut(folds)
    assert held_out.rows.tolist() == [0, 1, 2]
    assert held_out.fold.tolist() == [1, 1, 0]
    assert held_out.in_order([np.array([30]), np.array([10, 20])]).tolist() == [10, 20, 30]


def test_rows_side_by_side_are_a_slice() -> None:
    assert side_by_side(np.array([3, 4, 5])) == slice(3, 6)
    assert np.array_equal(side_by_side(np.array([3, 5])), [3, 5])


def test_one_feature_is_masked_or_a_quarter() -> None:
    X, which = masked(np.zeros((5, 8)))
    assert np.isnan(X).sum(axis=1).tolist() == [1, 1, 1, 2, 1]
    assert which.tolist() == [0, 1, 2, 8, 3]
