"""Saving and loading: round trips, and what is not saved."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from model_files import (
    X,
    Y,
    assert_same,
    files_in,
    fitted,
    read_model,
    refused,
    write_model,
)
from probprop.estimators.regressor import PBPRegressor
from probprop.files import load
from probprop.inference.posterior import Epoch
from probprop.io import FORMAT_VERSION


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
def test_loaded_model_predicts_and_continues_identically(
    tmp_path: Path, engine: str, dtype: str, hidden: tuple[int, ...]
) -> None:
    model = fitted(hidden, engine=engine, dtype=dtype)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same(model, loaded)
    assert loaded.get_params() == model.get_params()
    for one, other in zip(
        model.predict(X, return_std=True), loaded.predict(X, return_std=True), strict=True
    ):
        assert_array_equal(one, other)
    f, g = (m.sample_functions(random_state=0)[0] for m in (model, loaded))
    assert_array_equal(f(X), g(X))

    assert_same(clone(model).fit(X, Y), clone(loaded).fit(X, Y))
    assert_same(model.partial_fit(X[:20], Y[:20]), loaded.partial_fit(X[:20], Y[:20]))
    assert_same(model.partial_fit(X[20:], Y[20:]), loaded.partial_fit(X[20:], Y[20:]))


def test_without_standardization_and_in_a_stream(tmp_path: Path) -> None:
    model = PBPRegressor((4,), standardize=False, random_state=0)
    for rows in np.array_split(np.arange(60), 3):
        model.partial_fit(X[rows] / [1.0, 20.0, 0.1], Y[rows] / 3.0)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same(model, loaded)
    assert (loaded.n_iter_, loaded.n_samples_seen_) == (3, 60)


def test_history_is_of_epochs_with_whole_counts(path: Path) -> None:
    for epoch in load(path).history_:
        assert type(epoch) is Epoch
        expected = get_type_hints(Epoch) | {"noise_variance": float}  # of one target
        assert {k: type(v) for k, v in epoch._asdict().items()} == expected


def test_loaded_arrays_are_ordinary(path: Path) -> None:
    loaded = load(path)
    for array in (*loaded.posterior_.m_w, loaded.standardizer_.x_mean):
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert array.dtype.isnative


def test_feature_names(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=pd.Index(["größe", "数", '"\\\n\0\ud800'], dtype=object))
    model = PBPRegressor((4,), n_epochs=2, random_state=0).fit(frame, Y)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same(model, loaded)
    assert loaded.feature_names_in_.dtype == object
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[frame.columns[::-1]])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("hidden_layer_sizes", 5, 5),
        ("hidden_layer_sizes", np.int64(5), 5),
        ("hidden_layer_sizes", (), ()),
        ("hidden_layer_sizes", (3, np.int32(2)), (3, 2)),
        ("hidden_layer_sizes", [3, np.uint8(2)], [3, 2]),
        ("hidden_layer_sizes", np.array([3, 2]), [3, 2]),
        ("hidden_layer_sizes", range(2, 4), [2, 3]),
        ("n_epochs", np.int64(2), 2),
        ("verbose", np.int8(0), 0),
        ("prior_shape", 3, 3),
        ("prior_shape", np.float32(6.1), float(np.float32(6.1))),
        ("noise_rate", 0.1 + 0.2, 0.1 + 0.2),
        ("n_shards", np.int64(2), 2),
        ("standardize", np.True_, True),
        ("standardize", False, False),
        ("dtype", np.str_("float32"), "float32"),
        ("random_state", None, None),
        ("random_state", np.uint32(7), 7),
        ("random_state", 2**32 - 1, 2**32 - 1),
        ("random_state", RandomState(3), None),
    ],
)
def test_parameters_come_back_plain(tmp_path: Path, name: str, value: Any, expected: Any) -> None:
    data = (X / [1.0, 20.0, 0.1], Y / 3.0)
    model = PBPRegressor(**({"n_epochs": 1, "random_state": 0} | {name: value})).fit(*data)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    got = loaded.get_params()[name]
    assert got == expected
    assert type(got) is type(expected)
    if isinstance(got, list | tuple):
        assert all(type(item) is int for item in got)
    assert_same(model.partial_fit(*data), loaded.partial_fit(*data))


def test_a_parameter_changed_after_fit_is_saved_as_it_is(tmp_path: Path) -> None:
    model = fitted().set_params(hidden_layer_sizes=(9, 9), dtype="float32")
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").hidden_layer_sizes == (9, 9)
    assert_same(model, load(tmp_path / "m"))


def test_pickle_and_joblib(tmp_path: Path, model: PBPRegressor) -> None:
    joblib.dump(model, tmp_path / "m.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "m.joblib")):
        assert_same(model, copy)
        assert_array_equal(copy.predict(X), model.predict(X))
        assert_same(copy.partial_fit(X, Y), pickle.loads(pickle.dumps(model)).partial_fit(X, Y))


def test_numpy_reads_the_file(path: Path, model: PBPRegressor) -> None:
    with np.load(path, allow_pickle=False) as file:
        header = json.loads(file["header.json"])
        for name, described in header["arrays"].items():
            assert file[name].dtype == described["dtype"]
            assert list(file[name].shape) == described["shape"]
        assert set(file.files) == {"header.json", *header["arrays"]}
        assert_array_equal(file["posterior_/m_w/0"], model.posterior_.m_w[0])
    assert (header["format"], header["format_version"]) == ("probprop", FORMAT_VERSION)
    assert header["probprop_version"]


def test_the_same_model_gives_the_same_bytes(path: Path) -> None:
    load(path).save(path.parent / "again")
    assert (path.parent / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("zip64_limit", [zipfile.ZIP64_LIMIT, 100])
def test_the_container_does_not_depend_on_estimators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zip64_limit: int
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", zip64_limit)  # as with arrays of many GB
    arrays = {
        "f4": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "strided": np.arange(60.0)[::3],
        "big_endian": np.arange(3, dtype=">i8"),
        "empty": np.zeros((0, 3)),
    }
    write_model(str(tmp_path / "m"), {"class": "Another", "extra": [1, {"a": None}]}, arrays)
    header, read = read_model(str(tmp_path / "m"))
    assert header["extra"] == [1, {"a": None}]
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype.newbyteorder("=")
    refused(tmp_path / "m", "this one has no Another", "was written by a newer probprop")


# ---- What is not saved


def test_an_unfitted_model_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        PBPRegressor().save(tmp_path / "m")
    assert files_in(tmp_path) == []


def spoil(model: PBPRegressor) -> None:
    model.posterior_.m_w[0][0, 0] = np.nan


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (spoil, "m_w/0 has values"),
        (lambda m: m.set_params(n_epochs="many"), "n_epochs must be an instance of int"),
        (lambda m: m.set_params(verbose=object()), "verbose must be an instance of"),
        (lambda m: setattr(m, "log_evidence_", np.inf), "log_evidence_ is inf"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(
    path: Path, change: Callable[[PBPRegressor], Any], reason: str
) -> None:
    before = path.read_bytes()
    model = fitted()
    change(model)
    with pytest.raises(ValueError, match=f"The model cannot be saved: .*{reason}"):
        model.save(path)
    assert path.read_bytes() == before
    assert files_in(path.parent) == [path.name]


def test_a_subclass_is_not_saved(tmp_path: Path) -> None:
    class Special(PBPRegressor):
        pass

    with pytest.raises(ValueError, match=r"cannot be saved: Special is another class; use pickle"):
        Special((4,), n_epochs=2, random_state=0).fit(X, Y).save(tmp_path / "m")


def test_names_that_are_too_long(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c" * (9 << 20)])
    model = PBPRegressor((4,), n_epochs=2, random_state=0).fit(frame, Y)
    with pytest.raises(ValueError, match="feature names are too long"):
        model.save(tmp_path / "m")
    assert files_in(tmp_path) == []
