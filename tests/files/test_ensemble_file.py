"""Ensembles in one file: the same one comes back, and nothing in a file is trusted."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import RandomState
from numpy.testing import assert_array_equal
from sklearn.base import clone

from model_files import (
    X,
    Y,
    assert_same,
    files_in,
    fitted,
    header_of,
    read_model,
    refused,
    survives,
    with_any_json,
    write_model,
)
from probprop import PBPEnsemble, PBPRegressor, load

SMALL = PBPRegressor((4,), n_epochs=2)


def fitted_ensemble(estimator: PBPRegressor | None = SMALL, **parameters: Any) -> PBPEnsemble:
    return PBPEnsemble(estimator, **{"n_members": 2, "random_state": 0} | parameters).fit(X, Y)


def assert_same_ensemble(a: PBPEnsemble, b: PBPEnsemble) -> None:
    assert vars(a).keys() == vars(b).keys()
    assert a.n_features_in_ == b.n_features_in_
    assert_array_equal(getattr(a, "feature_names_in_", ()), getattr(b, "feature_names_in_", ()))
    for one, other in zip(a.estimators_, b.estimators_, strict=True):
        assert_same(one, other)
        assert one.get_params() == other.get_params()


@pytest.fixture(scope="module")
def model() -> PBPEnsemble:
    return fitted_ensemble()


@pytest.fixture(scope="module")
def good(model: PBPEnsemble, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ensemble") / "good"
    model.save(path)
    return path


@pytest.fixture
def path(tmp_path: Path, good: Path) -> Path:
    return Path(shutil.copy(good, tmp_path / "model.pbp"))


# ---- Round trips


@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("hidden", [(4,), (4, 3)])
def test_loaded_ensemble_predicts_and_continues_identically(
    tmp_path: Path, n_members: int, dtype: str, hidden: tuple[int, ...]
) -> None:
    estimator = PBPRegressor(hidden, n_epochs=2, dtype=dtype)
    model = fitted_ensemble(estimator, n_members=n_members, n_jobs=2)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert type(loaded) is PBPEnsemble
    assert files_in(tmp_path) == ["m"]
    assert_same_ensemble(model, loaded)
    nested, again = (m.get_params() for m in (model, loaded))
    assert type(nested.pop("estimator")) is type(again.pop("estimator")) is PBPRegressor
    assert nested == again
    assert_array_equal(loaded.predict(X, return_std=True), model.predict(X, return_std=True))
    f, g = (m.sample_functions(3, random_state=0)[2] for m in (model, loaded))
    assert_array_equal(f(X), g(X))
    assert_same_ensemble(model.partial_fit(X[:20], Y[:20]), loaded.partial_fit(X[:20], Y[:20]))
    assert_same_ensemble(clone(model).fit(X, Y), clone(loaded).fit(X, Y))


def test_the_same_ensemble_gives_the_same_bytes(path: Path) -> None:
    load(path).save(path.parent / "again")
    assert (path.parent / "again").read_bytes() == path.read_bytes()


def test_feature_names(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["größe", "数", "c"])
    model = PBPEnsemble(SMALL, n_members=2, random_state=0).fit(frame, Y)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same_ensemble(model, loaded)
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[frame.columns[::-1]])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("estimator", None, None),
        ("n_members", np.int64(1), 1),
        ("n_members", 9, 9),  # changed after the fit
        ("n_jobs", -1, -1),
        ("random_state", np.uint32(7), 7),
        ("random_state", RandomState(3), None),
        ("random_state", None, None),
    ],
)
def test_parameters_come_back_plain(tmp_path: Path, name: str, value: Any, expected: Any) -> None:
    model = fitted_ensemble().set_params(**{name: value})
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert getattr(loaded, name) == expected
    assert type(getattr(loaded, name)) is type(expected)
    assert_same_ensemble(model, loaded)


def test_pickle(model: PBPEnsemble) -> None:
    assert_same_ensemble(model, pickle.loads(pickle.dumps(model)))


def test_numpy_reads_the_file(path: Path, model: PBPEnsemble) -> None:
    with np.load(path, allow_pickle=False) as file:
        header = json.loads(file["header.json"])
        assert set(file.files) == {"header.json", *header["arrays"]}
        for i, member in enumerate(model.estimators_):
            assert_array_equal(file[f"estimators_/{i}/posterior_/m_w/0"], member.posterior_.m_w[0])


# ---- What is not saved


class Special(PBPRegressor):
    """Another class."""


def spoil(model: PBPEnsemble) -> None:
    model.estimators_[1].posterior_.m_w[0][0, 0] = np.nan


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (spoil, "m_w/0 has values"),
        (lambda m: m.set_params(n_members="many"), "n_members must be an instance of"),
        (lambda m: m.set_params(estimator=Special()), "Special is another class; use pickle"),
        (lambda m: m.estimators_.append(Special((4,)).fit(X, Y)), "Special is another class"),
        (lambda m: m.estimators_.append(fitted().fit(X[:, :2], Y)), "no prediction follows"),
        (lambda m: m.estimators_.clear(), "estimators_ is empty"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(
    path: Path, change: Callable[[PBPEnsemble], Any], reason: str
) -> None:
    before, model = path.read_bytes(), fitted_ensemble()
    change(model)
    with pytest.raises(ValueError, match=f"The model cannot be saved: .*{reason}"):
        model.save(path)
    assert path.read_bytes() == before
    assert files_in(path.parent) == [path.name]


def test_a_subclass_is_not_saved(tmp_path: Path) -> None:
    class SpecialEnsemble(PBPEnsemble):
        pass

    model = SpecialEnsemble(SMALL, n_members=1).fit(X, Y)
    with pytest.raises(ValueError, match="SpecialEnsemble is another class; use pickle"):
        model.save(tmp_path / "m")


# ---- What is damaged or hostile


def test_a_newer_version(path: Path) -> None:
    with header_of(path) as header:
        for member in header["estimators_"]:
            member["class"] = "PBPOracle"
    refused(path, "this one has no PBPOracle", "was written by a newer probprop")


REMOVE = object()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parameters", [REMOVE, None, []]),
        ("estimators_", [REMOVE, None, {}, [], [1], [None, None], [[], []]]),
        ("feature_names_in_", [REMOVE, ["a"], "abc", ["a", "b", 3], {}]),
        ("class", [REMOVE, None, 1, "PBPRegressor", "TableModel"]),
    ],
)
def test_impossible_fields(path: Path, name: str, value: list[Any]) -> None:
    content = path.read_bytes()
    for entry in value:
        path.write_bytes(content)
        with header_of(path) as header:
            header[name] = entry
            if entry is REMOVE:
                del header[name]
        refused(path, "")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("estimator", [1, "os.system", [], {}, {"estimator": "PBPRegressor"}, {"parameters": {}}]),
        ("estimator", [{"estimator": "PBPEnsemble", "parameters": {}}]),
        ("estimator", [{"estimator": "PBPRegressor", "parameters": {"n_epochs": 0}}]),
        ("n_members", [0, -1, 1.5, "2", None, True, []]),
        ("n_jobs", [0, 1.5, "1", []]),
        ("random_state", [-1, 2**32, 10**400, 1.5, "a", [1], {}]),
        ("another", [1]),
        ("self", [1]),
    ],
)
def test_impossible_parameters(path: Path, name: str, values: list[Any]) -> None:
    content = path.read_bytes()
    for value in values:
        path.write_bytes(content)
        with header_of(path) as header:
            header["parameters"][name] = value
        refused(path, "")


def test_members_with_different_numbers_of_features(path: Path) -> None:
    narrow = fitted_ensemble().fit(X[:, :2], Y)
    narrow.save(path.parent / "narrow")
    header, arrays = read_model(path)
    other, others = read_model(path.parent / "narrow")
    header["estimators_"][1] = other["estimators_"][1]
    arrays = {k: others[k] if k.startswith("estimators_/1/") else a for k, a in arrays.items()}
    write_model(path, header, arrays)
    refused(path, "no prediction follows from its parts")


@pytest.mark.parametrize("name", ["2/m", "m", "x/m", "-1/m", "01/m", "/", "1"])
def test_arrays_of_no_member(path: Path, name: str) -> None:
    header, arrays = read_model(path)
    first = "estimators_/0/posterior_/m_w/0"
    name = f"estimators_/{name.replace('m', 'posterior_/m_w/0')}"
    write_model(path, header, arrays | {name: arrays[first]})
    refused(path, "belongs to no part")
    del arrays[first]
    write_model(path, header, arrays)
    refused(path, f"the array {first} is missing")


def test_more_or_fewer_members_than_arrays(path: Path) -> None:
    content = path.read_bytes()
    with header_of(path) as header:
        header["estimators_"].append(header["estimators_"][0])
    refused(path, "")
    path.write_bytes(content)
    with header_of(path) as header:
        header["estimators_"].pop()
    refused(path, "belongs to no part")


def test_values_that_no_member_has(path: Path) -> None:
    header, arrays = read_model(path)
    arrays["estimators_/1/posterior_/v_w/1"][0, 0] = 0.0
    write_model(path, header, arrays)
    refused(path, "v_w has values that are out of range")


def test_hundreds_of_thousands_of_members_without_arrays(path: Path) -> None:
    with header_of(path) as header:
        header["estimators_"] += [{}] * 200_000
    refused(path, "")


def test_truncations_are_noticed(path: Path, model: PBPEnsemble) -> None:
    content, expected = path.read_bytes(), model.predict(X)
    lengths = {*range(0, len(content), 97), *range(len(content) - 100, len(content))}
    for length in sorted(lengths):
        assert not survives(path, content[:length], expected), length
    assert survives(path, content, expected)


def test_flipped_bytes_are_noticed_or_do_not_matter(path: Path, model: PBPEnsemble) -> None:
    content, expected, rng = path.read_bytes(), model.predict(X), random.Random(0)
    for _ in range(400):
        mutated = bytearray(content)
        mutated[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        survives(path, bytes(mutated), expected)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@settings(max_examples=200, deadline=None)
@given(data=st.data(), value=JSON)
def test_any_json_in_the_header(good: Path, data: Any, value: Any) -> None:
    loaded = with_any_json(good, data, value)
    if loaded is not None:
        assert type(loaded) is PBPEnsemble
        assert loaded.predict(X).shape == Y.shape
