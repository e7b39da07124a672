"""Estimators on `scipy.sparse` rows: scaled, not centered, and the same as on arrays like that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier

import probprop
from probprop import Candidate, PBPClassifier, PBPRegressor, PBPRegressorCV
from probprop._types import Array, FloatArray

N = 120
random = np.random.RandomState(0)
CODES = random.randint(30, size=N)
ROWS = sparse.csr_array(
    sparse.hstack(
        [
            sparse.csr_array((np.ones(N), (np.arange(N), CODES)), shape=(N, 30)),
            sparse.random_array((N, 4), density=0.5, rng=1) * 3.0,
        ]
    )
)
ARRAY: FloatArray = ROWS.toarray()
SCALE = np.where(ARRAY.std(axis=0) > 0.0, ARRAY.std(axis=0), 1.0)
Y: FloatArray = ARRAY[:, 30] - ARRAY[:, 32] + 0.2 * random.standard_normal(N) + 50.0
CLASSES: Array = np.array(["a", "b", "c"])[np.digitize(Y, [49.5, 50.5])]
SMALL: dict[str, Any] = {"hidden_layer_sizes": (12,), "n_epochs": 4, "random_state": 0}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"evidence_cap": 3.0},
        {"hidden_layer_sizes": ()},
        {"hidden_layer_sizes": (9, 7), "noise": "input"},
        {"noise_tail": "heavy"},
        {"engine": "reference", "n_epochs": 1},
        {"n_shards": 2, "n_epochs": 2},
    ],
)
def test_a_fit_matches_the_scaled_array(options: dict[str, Any]) -> None:
    sparsely = PBPRegressor(**(SMALL | options)).fit(ROWS, Y)
    mean, std = Y.mean(), Y.std()
    plainly = PBPRegressor(**(SMALL | options), standardize=False)
    plainly.fit(ARRAY / SCALE, (Y - mean) / std)
    assert_allclose(sparsely.standardizer_.x_scale, SCALE, rtol=1e-12)
    assert not sparsely.standardizer_.x_mean.any()
    for got, expected in zip(
        sparsely.predict(ROWS, return_std=True),
        plainly.predict(ARRAY / SCALE, return_std=True),
        strict=True,
    ):
        shift = mean if got.mean() > 10.0 else 0.0
        assert_allclose((got - shift) / std, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        PBPRegressor(**SMALL),
        PBPRegressor(**(SMALL | {"dtype": "float32"})),
        PBPClassifier(**SMALL),
    ],
)
def test_every_method_takes_sparse_rows_and_arrays_alike(model: Any, tmp_path: Path) -> None:
    y = CLASSES if is_classifier(model) else Y
    model.fit(ROWS[:80], y[:80], sample_weight=np.arange(80))
    model.partial_fit(ROWS[80:], y[80:])
    for name in ("predict", "predict_proba", "predict_log_proba", "predict_interval"):
        if hasattr(model, name):
            method = getattr(model, name)
            assert np.array_equal(method(ROWS), method(ARRAY)), name
    if hasattr(model, "predict_gradient"):
        sparsely, densely = model.predict_gradient(ROWS[:5]), model.predict_gradient(ARRAY[:5])
        assert_allclose(sparsely.dstd_dX, densely.dstd_dX, rtol=1e-5)
        assert sparsely.dmean_dX.shape == (5, 34)
    if hasattr(model, "sample_functions"):
        [f] = model.sample_functions(1, random_state=0)
        assert_allclose(f(ROWS), f(ARRAY), rtol=1e-12)
        assert_allclose(f.gradient(ROWS[:5])[1], f.gradient(ARRAY[:5])[1], rtol=1e-9, atol=1e-12)
    model.save(tmp_path / "model.pbp")
    assert np.array_equal(probprop.load(tmp_path / "model.pbp").predict(ROWS), model.predict(ROWS))
    assert model.score(ROWS, y) == model.score(ARRAY, y)


@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_array", "lil_array"])
def test_every_format_is_the_same(form: str) -> None:
    expected = PBPRegressor(**SMALL).fit(ROWS, Y).predict(ROWS)
    other = getattr(sparse, form)(ARRAY)
    assert np.array_equal(PBPRegressor(**SMALL).fit(other, Y).predict(other), expected)


def test_order_and_repetitions_of_entries_do_not_matter() -> None:
    expected = PBPRegressor(**SMALL).fit(ROWS, Y).predict(ROWS)
    parts = [np.repeat(a, 2) for a in (0.5 * ROWS.data, ROWS.indices)]
    shuffled = sparse.csr_array((*parts, 2 * ROWS.indptr), shape=ROWS.shape)
    for i in range(N):
        row = slice(shuffled.indptr[i], shuffled.indptr[i + 1])
        shuffled.data[row] = shuffled.data[row][::-1]
        shuffled.indices[row] = shuffled.indices[row][::-1]
    before = shuffled.copy()
    model = PBPRegressor(**SMALL).fit(shuffled, Y)
    assert_allclose(model.predict(shuffled), expected, rtol=1e-12)
    [f] = model.sample_functions(1, random_state=0)
    assert_allclose(f(shuffled), f(ROWS), rtol=1e-12)
    assert np.array_equal(shuffled.indices, before.indices)  # what was given is left alone


def test_wide_indices_are_the_same() -> None:
    wide = ROWS.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    expected = PBPRegressor(**SMALL).fit(ROWS, Y).predict(ROWS)
    assert np.array_equal(PBPRegressor(**SMALL).fit(wide, Y).predict(wide), expected)


def test_a_model_of_centered_features_takes_sparse_rows() -> None:
    model = PBPRegressor(**SMALL).fit(ARRAY, Y)
    assert model.standardizer_.x_mean.any()
    assert_allclose(model.predict(ROWS), model.predict(ARRAY), rtol=1e-12)
    [f] = model.sample_functions(1, random_state=0)
    assert_allclose(f(ROWS), f(ARRAY), rtol=1e-12)
    densely = PBPRegressor(**SMALL).fit(ARRAY, Y).partial_fit(ARRAY, Y)
    assert_allclose(model.partial_fit(ROWS, Y).predict(ARRAY), densely.predict(ARRAY), rtol=1e-12)


def test_rows_without_any_entry_and_columns_that_are_all_0() -> None:
    rows = sparse.csr_array((N, 5))
    model = PBPRegressor(**SMALL).fit(rows, Y)
    predicted = model.predict(sparse.csr_array((3, 5)))
    assert_allclose(predicted, predicted[0])
    assert np.isfinite(model.predict(np.eye(5))).all()


def test_a_checkpoint_identifies_its_sparse_rows(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    model = PBPRegressor(**SMALL)
    model.fit(ROWS, Y, callback=lambda epoch: epoch.n_iter == 2, checkpoint=path)
    assert model.n_iter_ == 2
    resumed = PBPRegressor(**SMALL).fit(ROWS, Y, checkpoint=path)
    whole = PBPRegressor(**SMALL).fit(ROWS, Y)
    assert np.array_equal(resumed.predict(ROWS), whole.predict(ROWS))
    with pytest.raises(ValueError, match="other data"):
        PBPRegressor(**SMALL).fit(2.0 * ROWS, Y, checkpoint=path)


def test_what_is_refused() -> None:
    model = PBPRegressor(**SMALL)
    with pytest.raises(ValueError, match="X_std needs a dense X, but X is sparse"):
        model.fit(ROWS, Y, X_std=np.ones(34))
    missing = ROWS.copy()
    missing.data[3] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        PBPRegressor(**SMALL).fit(missing, Y)
    model.fit(ROWS, Y)
    with pytest.raises(ValueError, match="X has 33 features"):
        model.predict(ROWS[:, :33])
    with pytest.raises(ValueError, match="X contains a value too large for dtype float64"):
        model.predict(1e40 * ROWS)


def test_rows_are_made_dense_where_values_are_missing_and_for_a_search() -> None:
    missing = ROWS.copy()
    missing.data[3] = np.nan
    search = PBPRegressorCV(2, candidates=[Candidate(4, 5)], random_state=0)
    weights = np.arange(N) % 3
    for model in (PBPRegressor(**SMALL, missing="marginalize"), search):
        sparsely, densely = (
            clone(model).fit(X, Y, sample_weight=weights) for X in (missing, missing.toarray())
        )
        assert_array_equal(sparsely.predict(missing), densely.predict(missing.toarray()))
        sparsely.partial_fit(missing[:9], Y[:9])


def test_tiny_numbers_of_single_precision_are_not_lost() -> None:
    tiny = (1e-40 * ROWS).astype(np.float32)
    unit = tiny.astype(np.float64) * 1e40
    got = PBPRegressor(**(SMALL | {"dtype": "float32"})).fit(tiny, Y).predict(tiny)
    expected = PBPRegressor(**(SMALL | {"dtype": "float32"})).fit(unit, Y).predict(unit)
    assert_allclose(got, expected, rtol=1e-4)
