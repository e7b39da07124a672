"""Files of models on tables: the same model comes back, and nothing in a file is trusted."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import RandomState
from numpy.testing import assert_array_equal

import probprop
from probprop import ModelFileError, PBPRegressor
from probprop.table import TableModel, UnknownCategoryWarning, fit_table_model
from probprop.table.encoding import ColumnEncoder, table_encoder

FRAME = pd.DataFrame(
    {
        "size": np.resize(["S", "M", "L", 'x \u00fc\n\0"', ""], 40),
        "x": RandomState(0).standard_normal(40),
        "new": np.resize([True, False], 40),
        "year": np.resize([1990, 2020, 2005], 40),
        "only": "same",
    }
)
FRAME["y"] = FRAME["x"] + FRAME["new"]


@pytest.fixture(scope="module")
def model() -> TableModel:
    return fit_table_model(FRAME, "y", estimator=PBPRegressor((3,), n_epochs=2, random_state=0))


@pytest.fixture
def path(tmp_path: Path, model: TableModel) -> Path:
    model.save(tmp_path / "model.pbp")
    return tmp_path / "model.pbp"


@contextmanager
def header_of(path: Path, to: Path | None = None) -> Iterator[dict[str, Any]]:
    """Edit the header of a file; the checksums will be right."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    yield header
    with zipfile.ZipFile(to or path, "w") as archive:
        for name, content in (members | {"header.json": json.dumps(header).encode()}).items():
            archive.writestr(zipfile.ZipInfo(name), content)


def test_a_loaded_model_is_the_same(path: Path, model: TableModel) -> None:
    loaded = probprop.load(path)
    assert type(loaded) is TableModel
    assert (loaded.features, loaded.target) == (model.features, model.target)
    assert loaded.encoder.encoders_ == model.encoder.encoders_
    assert loaded.encoded_names == model.encoded_names
    assert_array_equal(loaded.encode(FRAME), model.encode(FRAME), strict=True)
    a, b = loaded.predict_distribution(FRAME), model.predict_distribution(FRAME)
    assert_array_equal(a.mean, b.mean)
    assert_array_equal(a.std, b.std)
    with pytest.warns(UnknownCategoryWarning):
        X = loaded.encode(FRAME.assign(size="XL"))
    assert not X[:, :3].any()
    a, b = (
        loaded.update(FRAME).predict_distribution(FRAME),
        model.update(FRAME).predict_distribution(FRAME),
    )
    assert_array_equal(a.mean, b.mean)
    content = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "names", [["x"], ["size"], ["new"], ["new", "only"], ["year", "size", "x"]]
)
def test_any_mixture_of_kinds(tmp_path: Path, names: list[str]) -> None:
    regressor = PBPRegressor((2,), n_epochs=1, random_state=0)
    model = fit_table_model(FRAME, "y", features=names, estimator=regressor)
    model.save(tmp_path / "m")
    loaded = probprop.load(tmp_path / "m")
    assert loaded.features == model.features
    assert_array_equal(loaded.encode(FRAME), model.encode(FRAME), strict=True)


def test_a_file_of_a_regressor_is_still_one(tmp_path: Path, model: TableModel) -> None:
    model.estimator.save(tmp_path / "m")
    loaded = probprop.load(tmp_path / "m")
    assert type(loaded) is PBPRegressor
    assert_array_equal(
        loaded.predict(model.encode(FRAME)), model.estimator.predict(model.encode(FRAME))
    )


def test_what_could_not_be_loaded_is_not_saved(path: Path, model: TableModel) -> None:
    content = path.read_bytes()
    narrower = table_encoder([ColumnEncoder("x", "number")])
    for bad in (
        TableModel(model.estimator, narrower, "y"),
        TableModel(model.estimator, model.encoder, "x"),
        TableModel(model.estimator, model.encoder, 3),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match="The model cannot be saved: "):
            bad.save(path)
    assert path.read_bytes() == content


def test_importing_and_loading_a_regressor_needs_no_pandas(
    tmp_path: Path, path: Path, model: TableModel
) -> None:
    model.estimator.save(tmp_path / "plain")
    code = f"""
import sys
sys.modules["pandas"] = None  # importing it fails as if it were not installed
import probprop
probprop.load({str(tmp_path / "plain")!r})
try:
    probprop.load({str(path)!r})
except ImportError as error:
    assert "pip install 'probprop[cli]'" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- Damage


def edit(*place: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        for key in place[:-1]:
            header = header[key]
        if to is None:
            del header[place[-1]]
        else:
            header[place[-1]] = to

    return change


@pytest.mark.parametrize(
    "change",
    [
        edit("target", to=None),
        edit("target", to=3),
        edit("target", to="x"),
        edit("target", to=["y"]),
        edit("target", to=["y", "z"]),
        edit("encoder", to=None),
        edit("encoder", to=[]),
        edit("encoder", "encoders", to=None),
        edit("encoder", "encoders", to=[]),
        edit("encoder", "encoders", 1, to=None),
        edit("encoder", "encoders", 1, "name", to="y"),
        edit("encoder", "encoders", 1, "kind", to=None),
        edit("encoder", "encoders", 1, "kind", to="numbers"),
        edit("encoder", "encoders", 1, "kind", to=["number"]),
        edit("encoder", "encoders", 1, "kind", to="text"),
        edit("encoder", "encoders", 1, "order", to="year"),
        edit("encoder", "encoders", 1, "dropped", to="no value"),
        edit("encoder", "encoders", 0, "kind", to="number"),
        edit("encoder", "encoders", 0, "levels", to=None),
        edit("encoder", "encoders", 0, "levels", to=[]),
        edit("encoder", "encoders", 0, "levels", to="SML"),
        edit("encoder", "encoders", 0, "levels", to=["S", "M", 5]),
        edit("encoder", "encoders", 0, "levels", to=["S", "M", "S"]),
        edit("encoder", "encoders", 0, "levels", to=["S", "M", ["b"]]),
        edit("encoder", "encoders", 0, "levels", to=["S", "M"]),
        edit("counting", to=[]),
        edit("counting", "weight", to="x"),
        edit("counting", "error", to=["y"]),
        edit("na", to="NA"),
        edit("na", to=[1]),
        edit("estimator", to=None),
        edit("estimator", to=[]),
        edit("estimator", "class", to=None),
        edit("estimator", "class", to=["PBPRegressor"]),
        edit("estimator", "class", to="TableModel"),
        edit("estimator", "posterior_", "m_w", to=["estimator/posterior_/m_w/0"]),
        edit("estimator", "parameters", "n_epochs", to=0),
        edit("estimator", "parameters", "surprise", to=0),
        edit("estimator", "posterior_", "alpha_prior", to="6"),
    ],
)
def test_headers_that_no_model_has(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    with header_of(path) as header:
        change(header)
    with pytest.raises(ModelFileError, match="is truncated or damaged"):
        probprop.load(path)


@pytest.mark.parametrize("name", ["PBPRanker", "__import__"])
def test_a_regressor_of_an_unknown_class_is_of_a_newer_version(path: Path, name: str) -> None:
    with header_of(path) as header:
        header["estimator"]["class"] = name
    with pytest.raises(ModelFileError, match=rf"by a newer probprop \(this one has no {name}\)"):
        probprop.load(path)


def test_truncations_and_flips_are_noticed(path: Path, model: TableModel) -> None:
    content, expected = path.read_bytes(), model.predict_distribution(FRAME).mean
    for n in range(0, len(content), 97):
        path.write_bytes(content[:n])
        with pytest.raises(ModelFileError):
            probprop.load(path)
    for n in range(0, len(content), 61):
        path.write_bytes(content[:n] + bytes([content[n] ^ 1]) + content[n + 1 :])
        try:
            loaded = probprop.load(path)
        except ModelFileError:
            continue
        assert_array_equal(loaded.predict_distribution(FRAME).mean, expected)  # it did not matter


PLAIN = st.none() | st.booleans() | st.integers(-3, 3) | st.floats()
JSON = st.recursive(
    PLAIN | st.sampled_from(["x", "text", "", "\ud800"]),
    lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text(max_size=4), of, max_size=2),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def good(model: TableModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "model.pbp"
    model.save(path)
    return path


@pytest.mark.filterwarnings("ignore::probprop.table.UnknownCategoryWarning")
@settings(max_examples=150, deadline=None)
@given(data=st.data(), value=JSON)
def test_any_json_in_the_header(good: Path, data: Any, value: Any) -> None:
    """Any value in any place: the file loads as a model that encodes, or is refused."""
    changed = good.with_name("changed")
    with header_of(good, changed) as header:
        place: Any = header
        key: Any = data.draw(st.sampled_from(["target", "encoder", "counting", "estimator"]))
        while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
            keys = sorted(place) if isinstance(place, dict) else range(len(place))
            key = data.draw(st.sampled_from(keys))
        place[key] = value
    try:
        loaded = probprop.load(changed)
    except ModelFileError:
        return
    assert isinstance(loaded, TableModel)
    assert loaded.encoder.encode(_row(loaded)).shape == (1, loaded.estimator.n_features_in_)


def _row(model: TableModel) -> pd.DataFrame:
    return pd.DataFrame(
        {k: [{"text": "", "date": "2024-05-31"}.get(v, 0.0)] for k, v in model.kinds.items()}
    )


def test_the_baseline_comes_back(path: Path) -> None:
    [(mean, std)] = probprop.load(path).baseline
    assert (mean, std) == pytest.approx((FRAME["y"].mean(), FRAME["y"].std(ddof=0)))


@pytest.mark.parametrize(
    ("baseline", "reason"),
    [
        (1.0, "not of type list"),
        ([[0.0, 1.0], [0.0, 1.0]], "for each target"),
        ([[0.0]], "expected 2 items"),
        ([None], "baseline/0 is missing or not of type list"),
        ([["0", 1.0]], "baseline/0/0 is missing or not of type float"),
        ([[float("nan"), 1.0]], "out of range"),
    ],
)
def test_a_baseline_that_is_none_is_refused(path: Path, baseline: Any, reason: str) -> None:
    with header_of(path) as header:
        header["baseline"] = baseline
    with pytest.raises(ModelFileError, match=reason):
        probprop.load(path)


SCORES = {"measured_on": "out-of-fold", "n_samples": 6, "targets": {"y": {"rmse": 0.5, "r2": None}}}


def test_scores_come_back(tmp_path: Path) -> None:
    model = replace(fit_table_model(FRAME, "y", estimator=PBPRegressor(5)), scores=SCORES)
    model.save(tmp_path / "m.pbp")
    assert probprop.load(tmp_path / "m.pbp").scores == SCORES
    with header_of(tmp_path / "m.pbp") as header:
        del header["scores"]  # as in files of before
    assert probprop.load(tmp_path / "m.pbp").scores is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n_rows": 1}, "n_rows is unexpected"),
        ({"measured_on": "training"}, "not one of 'out-of-fold', 'held-out'"),
        ({"n_samples": -1}, "n_samples is -1, which is out of range"),
        ({"n_samples": 6.0}, "not of type int"),
        ({"targets": {"z": {}}}, "does not have the scores of each target"),
        ({"targets": {"y": [0.5]}}, "not of type dict"),
        ({"targets": {"y": {"rmse": "0.5"}}}, "not of type float"),
        ({"targets": {"y": {"rmse": float("nan")}}}, "out of range"),
    ],
)
def test_scores_that_are_none_are_refused(path: Path, change: Any, reason: str) -> None:
    with header_of(path) as header:
        header["scores"] = SCORES | change
    with pytest.raises(ModelFileError, match=reason):
        probprop.load(path)
