"""One-hot columns of many levels are one column of codes in the kernel: against the columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import probprop
from cv_models import ENCODED, RAW, small, small_classifier
from probprop import PBPRegressor
from probprop._types import FloatArray
from probprop.encoding import piecewise
from probprop.encoding.bounds import fit_bounds
from probprop.encoding.missing import learn_joint
from probprop.encoding.piecewise import (
    encode,
    encoded,
    feature_ends,
    fit_piecewise,
    one_hot_sets,
)
from probprop.inference import native
from probprop.inference.inputs import Coded, Encoded, columns_of, stacked
from probprop.inference.posterior import initial_posterior
from probprop.inference.standardize import leaving_features, measure
from probprop.inference.training import _due
from probprop.report.live import live_page
from probprop.table import TableEncoder, UnknownCategoryWarning, fit_table_model

N = 400


def one_hot(codes: Any, n_levels: int) -> FloatArray:
    return np.eye(n_levels)[codes]


def rows(n: int = N, n_levels: int = 40) -> FloatArray:
    random = RandomState(0)
    numbers = random.standard_normal((n, 2))
    return np.column_stack([numbers, one_hot(random.randint(n_levels, size=n), n_levels)])


def table(n_levels: int = 40, n: int = N) -> pd.DataFrame:
    random = RandomState(0)
    codes, x = np.arange(n) % n_levels, random.standard_normal(n)
    y = x + np.sin(codes) + 0.1 * random.standard_normal(n)
    frame = pd.DataFrame({"x": x, "place": [f"place {k:04d}" for k in codes], "y": y})
    return frame.assign(kind=np.where(np.sin(codes) > 0.0, "up", "down"))


def test_sets_are_found() -> None:
    random, codes = RandomState(0), np.arange(N) % 40
    numbers = random.standard_normal((N, 1))
    few, many = one_hot(codes % 20, 20), one_hot(codes, 40)
    other = one_hot(random.randint(50, size=N), 50)
    X = np.hstack([few, numbers, many, other, numbers])
    expected = np.repeat([-1, -1, 21, 61, -1], [20, 1, 40, 50, 1])
    assert_array_equal(one_hot_sets(X), expected)
    assert one_hot_sets(few) is None
    for value in (0.5, np.nan):
        X[0, 30] = value
        found = one_hot_sets(X)
        assert found is not None
        assert_array_equal(found[:61], -1)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("common", [False, True])
def test_codes_are_encoded_as_the_columns_are(common: bool, centered: bool) -> None:
    X = rows()
    if common:  # more than half of the rows, so that all others are not 0
        X[: N // 2 + 20, 2:] = one_hot(7, 40)
    X[5, 2:] = 0.0
    state = fit_piecewise(X, 8, centered=centered, one_hot=one_hot_sets(X))
    found, expected = encoded(X, state), encoded(X, state, by_columns=True)
    assert found.X.shape == (N, 3)
    assert expected.X.shape == (N, 42)
    assert_array_equal(found.toarray(), expected.toarray())
    assert_allclose(found.toarray(), encode(X, state), rtol=1e-14, atol=1e-14)
    listed = np.diff(found.tocsr().indptr)
    assert listed.max() <= 2 * 9 + 1 + common


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_network_predicts_the_same_of_codes(dtype: str) -> None:
    X = rows()
    state = fit_piecewise(X, 8, one_hot=one_hot_sets(X))
    q = initial_posterior(
        [state.n_outputs, 5, 1],
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=RandomState(0),
        dtype=np.dtype(dtype),
    )
    networks = [(q, leaving_features(state.n_outputs, None))]
    codes, columns = (
        np.stack(native.predict_members(networks, encoded(X, state, by_columns=each)))
        for each in (False, True)
    )
    rtol = 1e-12 if dtype == "float64" else 1e-5
    assert_allclose(codes, columns, rtol, rtol)


def test_rows_that_are_not_one_hot_are_taken_as_columns() -> None:
    X = rows()
    state = fit_piecewise(X, 8, one_hot=one_hot_sets(X))
    for value, at in ((1.0, [2, 3, 4]), (0.5, [9])):
        other = X[:3].copy()
        other[1, at] = value
        found = encoded(other, state)
        assert found.basis is state.basis
        assert_allclose(found.toarray(), encode(other, state), 1e-14, 1e-14)
        both = stacked([encoded(X, state), found])
        assert_allclose(both.toarray()[N:], encode(other, state), 1e-14, 1e-14)


def test_a_set_is_one_column_of_a_prior_and_rare_levels_are_refined_less_often() -> None:
    X = rows(n=4_000, n_levels=400)
    state = fit_piecewise(X, 8, one_hot=one_hot_sets(X))
    found = encoded(X, state)
    columns = columns_of(found)
    assert len(np.unique(columns[2:402])) == 1
    expected = np.append(np.full(2, 4_000), X[:, 2:].sum(axis=0))
    assert_array_equal(found.counts()[:402], expected)
    due = _due(found, range(1, 9))
    assert due is not None
    assert due[:, :2].all()
    assert due[:, 402:].all()
    often = due[:, 2:402].sum(axis=0)
    assert_array_equal(often[expected[2:] <= 16], 1)
    assert often.max() <= 2
    assert _due(encoded(X[:, :2], fit_piecewise(X[:, :2], 200)), range(1, 9)) is None


def test_a_fit_matches_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table()
    X, y = frame[["x", "place"]], frame["y"]
    options: dict[str, Any] = {"candidates": [ENCODED], "dtype": "float64"}
    model = small(**options).fit(X, y)
    assert model.groups_[0].encoding.one_hot is not None
    found, inputs = model.predict(X, return_std=True), model.encoder_.transform(X)
    by_array = small(**options).fit(inputs, y)
    assert_allclose(by_array.predict(inputs, return_std=True), found, 1e-10, 1e-12)
    monkeypatch.setattr(piecewise, "one_hot_sets", lambda X: None)
    expected = small(**options).fit(inputs, y)
    assert expected.groups_[0].encoding.one_hot is None
    # Sums are in another order, and an update passes its rounding on to all later ones.
    assert_allclose(found, expected.predict(inputs, return_std=True), 1e-8, 1e-8)


@pytest.mark.parametrize("n_numbers", [0, 3])
def test_many_levels_are_completed_as_their_columns_are(n_numbers: int) -> None:
    random, n, n_levels = np.random.RandomState(0), 900, 600
    code = np.append(np.arange(n_levels - 1), random.randint(n_levels - 1, size=n - n_levels + 1))
    codes = np.column_stack([random.standard_normal((n, n_numbers)), code])  # a level is not there
    codes[random.rand(*codes.shape) < 0.05] = np.nan
    X = Coded(codes, np.append(np.full(n_numbers, -1), np.full(n_levels, n_numbers)))
    found, expected = learn_joint(X), learn_joint(np.asarray(X))
    assert found.covariance is expected.covariance is None
    for name in ("column", "value", "score", "discrete", "factor"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("center", "scale"):
        mine, columns = getattr(found.encoding, name), getattr(expected.encoding, name)
        assert_allclose(mine, columns, 1e-12, 1e-12)
    rows = [joint.complete(X) for joint in (found, expected)]
    assert_allclose(rows[0].values, rows[1].values, 1e-10, 1e-10)
    assert_array_equal(rows[0].missing, rows[1].missing)


@pytest.mark.filterwarnings("ignore::probprop.table.UnknownCategoryWarning")
def test_samples_with_codes_are_the_array_of_their_columns() -> None:
    frame = table().assign(size=pd.Categorical(["s", "m", "l", "m"] * 100, [*"sml"], ordered=True))
    frame = frame[["x", "place", "size"]].mask(np.random.RandomState(0).rand(400, 3) < 0.02)
    encoder = TableEncoder().fit(frame)
    other = frame.assign(place=frame["place"].where(frame["place"].notna(), "never seen"))
    for rows in (frame, other):
        coded, X = encoder.coded(rows), encoder.encode(rows)
        assert isinstance(coded, Coded)
        assert coded.codes.shape == (400, 2 + len(encoder["size"].names))
        columns = [encoder[name].encode(rows[name]) for name in ("x", "place", "size")]
        assert_array_equal(X, np.column_stack(columns))
        assert_array_equal(coded[3:7], X[3:7])
        assert_array_equal(feature_ends(coded), feature_ends(X))
        for found, expected in ((fit_bounds(coded), fit_bounds(X)), (measure(coded), measure(X))):
            for name in expected.__dataclass_fields__:
                values = getattr(found, name), getattr(expected, name)
                assert_allclose(*values, 1e-12, 1e-12, err_msg=name)
        bounds = fit_bounds(X[:200])
        assert_array_equal(bounds.apply(coded), bounds.apply(X))
    coded, X = encoder.coded(frame), encoder.encode(frame)
    states = [fit_piecewise(A, 8, one_hot=coded.first) for A in (coded, X)]
    assert states[0].coded is states[1].coded is None
    for name in {*states[0].__dataclass_fields__} - {"coded"}:
        assert_allclose(*(getattr(state, name) for state in states), 1e-12, 1e-12, err_msg=name)
    assert encoded(coded, states[0]).X is coded.codes
    assert encoded(encoder.coded(other), states[0]).basis is states[0].basis  # some are missing


@pytest.mark.parametrize("candidate", [ENCODED, RAW])
@pytest.mark.parametrize(("target", "make"), [("y", small), ("kind", small_classifier)])
def test_a_table_with_many_levels(tmp_path: Path, target: str, make: Any, candidate: Any) -> None:
    frame = table()
    estimator = make(candidates=[candidate])
    model = fit_table_model(frame, target, features=["x", "place"], estimator=estimator)
    encoding = model.estimator.groups_[0].encoding
    assert_array_equal(encoding.one_hot, [-1, *np.full(40, 1)])
    if candidate is RAW:
        assert not len(encoding.column)
        X = model.encode(frame)
        assert isinstance(encoded(X, encoding), Encoded)
        assert_allclose(encode(X, encoding)[:, 0].mean(), 0.0, atol=1e-12)
        assert encode(X, encoding)[:, 1:].min() == 0.0
    model.save(tmp_path / "m")
    loaded = probprop.load(tmp_path / "m")
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    one, other = (m.update(frame[:20]) for m in (model, loaded))
    assert_array_equal(other.predict(frame), one.predict(frame))
    unknown = frame[:4].assign(place=["elsewhere", "place 0001", None, "place 0002"], x=np.nan)
    with pytest.warns(UnknownCategoryWarning):
        of_unknown = loaded.predict(unknown)
    with pytest.warns(UnknownCategoryWarning):
        assert_array_equal(model.predict(unknown), of_unknown)
    if target == "y":
        assert np.isfinite(np.asarray(of_unknown, float)).all()
    page = live_page(model, rows=frame, train=frame)
    assert page.data["what-if-model"]


def test_a_damaged_set_is_refused(tmp_path: Path) -> None:
    frame = table()
    model = small(candidates=[ENCODED]).fit(frame[["x", "place"]], frame["y"])
    encoding = model.groups_[0].encoding
    for at, value in ((1, 5), (20, -1), (0, 40)):
        first = encoding.one_hot.copy()
        first[at] = value
        model.groups_[0] = replace(model.groups_[0], encoding=replace(encoding, one_hot=first))
        with pytest.raises(ValueError, match="one-hot sets"):
            model.save(tmp_path / "m")


def test_the_gradient_is_by_the_columns() -> None:
    frame = table()
    model = small(candidates=[RAW], dtype="float64").fit(frame[["x", "place"]], frame["y"])
    X = model.encoder_.transform(frame[["x", "place"]]).toarray()[:20]
    inner, step = model.on_inputs(), 1e-5
    slope = inner.predict_gradient(X).dmean_dX[:, 0]
    moved = [inner.predict(X + np.eye(41)[0] * each) for each in (step, -step)]
    assert_allclose(slope, (moved[0] - moved[1]) / (2.0 * step), 1e-5, 1e-6)
    [f] = model.sample_functions(1, random_state=0)
    assert np.isfinite(f(frame[["x", "place"]])).all()


def test_labels_of_a_table_with_a_thousand_levels() -> None:
    frame = table(1_000, 6_000)
    model = small_classifier(candidates=[RAW]).fit(frame[["x", "place"]], frame["kind"])
    assert len(model.encoder_.names) == 1_001
    assert model.score(frame[["x", "place"]], frame["kind"]) > 0.9


@pytest.mark.parametrize("kind", [PBPRegressor, small])
def test_all_ways_to_fit_a_table_with_codes_are_alike(kind: Any) -> None:
    frame = table()[["x", "place", "y"]]
    model = kind(missing="marginalize", random_state=0, dtype="float64")
    if kind is small:
        model.set_params(candidates=[ENCODED])
    of_table = fit_table_model(frame, "y", estimator=model)
    in_memory = probprop.fit(model, frame, "y")
    expected = of_table.predict(frame, return_std=True)
    assert_array_equal(in_memory.predict(frame, return_std=True), expected)
    if kind is small:
        own = clone(model).fit(frame[["x", "place"]], frame["y"])
        assert_array_equal(own.predict(frame[["x", "place"]], return_std=True), expected)
    updated = of_table.update(frame).predict(frame)
    assert_array_equal(updated, in_memory.update(frame).predict(frame))
    by_blocks = probprop.fit(model, frame, "y", memory_limit="700MB")
    assert by_blocks.encoder.names == of_table.encoder.names
