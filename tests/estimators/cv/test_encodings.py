"""Wide tables get fewer ramps per column, and very wide ones none."""

from __future__ import annotations

import numpy as np
import pytest

from probprop import PBPRegressorCV
from probprop.estimators.cv.folds import MOST_RAMPS, Encodings
from probprop.estimators.cv.policy import usual_candidates


def encodings(n_columns: int) -> Encodings:
    X = np.random.RandomState(0).standard_normal((100, n_columns))
    return Encodings(X, np.dtype("float32"))


@pytest.mark.parametrize(("n_columns", "bins"), [(32, 32), (33, 16), (64, 16), (256, 4), (257, 1)])
def test_bins_that_fit(n_columns: int, bins: int) -> None:
    found = encodings(n_columns)
    assert found.bins_that_fit(32) == bins
    assert len(found.state(bins).column) <= MOST_RAMPS


def test_columns_of_two_values_have_no_ramps_that_count() -> None:
    X = np.random.RandomState(0).randint(2, size=(100, 2_000)).astype(float)
    assert Encodings(X, np.dtype("float32")).bins_that_fit(32) == 32


@pytest.mark.parametrize(("n_columns", "bins"), [(10, [32]), (100, [8]), (300, [])])
def test_candidates_of_wide_tables(n_columns: int, bins: list[int]) -> None:
    found = usual_candidates("good", 100, bins_that_fit=encodings(n_columns).bins_that_fit)
    assert list(dict.fromkeys(c.n_bins for c in found)) == [None, *bins]


def test_a_very_wide_table_is_fitted() -> None:
    random = np.random.RandomState(0)
    X = random.standard_normal((40, 300))
    model = PBPRegressorCV(budget="fast", random_state=0).fit(X, X[:, 0])
    assert model.encoding_ is None
    assert np.isfinite(model.predict(X, return_std=True)).all()
