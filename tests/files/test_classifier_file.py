"""Files of classifiers: round trips of every kind of class, and what is damaged or hostile."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from json_values import JSON, places_in
from model_files import (
    X,
    assert_same,
    files_in,
    header_of,
    read_model,
    refused,
    rezip,
    unzip,
    write_model,
)
from probprop import ModelFileError, PBPClassifier, PBPRegressor, load
from probprop.inference.likelihoods import of_classes

INDEX = np.arange(60) % 3
NAMES: dict[str, np.ndarray] = {
    "bool": np.array([False, True, True]),
    "int64": np.array([-5, 0, 2**62]),
    "uint8": np.array([0, 7, 255], np.uint8),
    "float32": np.array([-1.0, 0.0, 3.0], np.float32),
    "str": np.array(["größe", "数", '"\\\n\ud800']),
    "object": np.array(["a", "b", "c" * 300], object),
}
LABELS = np.array([[0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 1, 0]])


def fitted(y: np.ndarray, hidden: tuple[int, ...] = (4,), **parameters: Any) -> PBPClassifier:
    parameters = {"n_epochs": 2, "random_state": 0} | parameters
    return PBPClassifier(hidden, **parameters).fit(X, y)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a classifier of three strings; `path` is a copy of it."""
    path = tmp_path_factory.mktemp("classifier") / "good"
    fitted(np.array(["a", "b", "c"])[INDEX]).save(path)
    return path


def assert_goes_on(model: PBPClassifier, loaded: PBPClassifier, y: np.ndarray) -> None:
    assert_same(model, loaded)
    assert loaded.get_params() == model.get_params()
    assert_array_equal(loaded.predict(X), model.predict(X), strict=True)
    assert_array_equal(loaded.predict_log_proba(X), model.predict_log_proba(X))
    assert_same(model.partial_fit(X[:20], y[:20]), loaded.partial_fit(X[:20], y[:20]))


@pytest.mark.parametrize("dtype", NAMES)
def test_classes_come_back_as_they_were(tmp_path: Path, dtype: str) -> None:
    y = NAMES[dtype][INDEX]
    model = fitted(y)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.classes_.dtype == model.classes_.dtype
    assert_goes_on(model, loaded, y)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("y", [INDEX, INDEX > 0, LABELS[INDEX]], ids=["three", "two", "labels"])
def test_loaded_model_predicts_and_continues_identically(
    tmp_path: Path, engine: str, dtype: str, y: np.ndarray
) -> None:
    model = fitted(y, (4, 3), engine=engine, dtype=dtype)
    model.save(tmp_path / "m")
    assert_goes_on(model, load(tmp_path / "m"), y)


def test_an_evidence_cap_a_stream_and_joblib(tmp_path: Path) -> None:
    model = fitted(INDEX, evidence_cap=3.0)
    stream = PBPClassifier((), random_state=0).partial_fit(X, INDEX, classes=range(5))
    for one in (model, stream):
        one.save(tmp_path / "m")
        assert_same(one, load(tmp_path / "m"))
        joblib.dump(one, tmp_path / "j")
        assert_same(one, joblib.load(tmp_path / "j"))


def test_the_same_model_gives_the_same_bytes(path: Path) -> None:
    load(path).save(path.parent / "again")
    assert (path.parent / "again").read_bytes() == path.read_bytes()


# ---- What is not saved


def test_a_classifier_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    model = fitted(INDEX)
    model.likelihood_ = of_classes(model.classes_[::-1], multilabel=False)
    with pytest.raises(ValueError, match="cannot be saved: classes are not two or more, sorted"):
        model.save(tmp_path / "m")

    class Special(PBPClassifier):
        pass

    with pytest.raises(ValueError, match="cannot be saved: Special is another class"):
        Special((4,), n_epochs=2, random_state=0).fit(X, INDEX).save(tmp_path / "m")
    assert files_in(tmp_path) == []


# ---- What is damaged


@pytest.mark.parametrize(
    ("dtype", "values", "reason"),
    [
        ("str", ["a", "b"], "its parts do not form one classification network"),
        ("str", ["a", "b", "c", "d"], "its parts do not form one classification network"),
        ("str", ["a"], "not two or more, sorted"),
        ("str", [], "not two or more, sorted"),
        ("str", ["a", "b", 3], "not supported"),
        ("str", ["a", "c", "b"], "not two or more, sorted"),
        ("str", ["a", "b", "b"], "not two or more, sorted"),
        ("str", ["a", "b", "c\0"], "not all of the dtype str"),
        ("object", [[], [1], [2]], "not supported"),
        ("int8", [1, 2, 300], "out of bounds for int8"),
        ("int64", [1, 2, 10**400], "too large"),
        ("float64", [0.0, 1.0, float("nan")], "not two or more, sorted"),
        ("float32", [0.0, 1.0, 1e300], "not all of the dtype float32"),
        ("bool", [False, True, True], "not two or more, sorted"),
        ("datetime64[s]", [1, 2, 3], "not supported"),
        ("<U1000000000", ["a", "b", "c"], "not supported"),
        (3, ["a", "b", "c"], "dtype is missing or not of type str"),
        ("str", "abc", "values is missing or not of type list"),
    ],
)
def test_classes_that_no_classifier_has(path: Path, dtype: Any, values: Any, reason: str) -> None:
    with header_of(path) as header:
        header["likelihood_"]["classes"] = {"dtype": dtype, "values": values}
    refused(path, reason)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("classes", ["a", "b", "c"], "classes is missing or not of type dict"),
        ("multilabel", 1, "multilabel is unexpected"),
        ("class", "Probit", "its parts do not form one classification network"),
        ("class", "Gaussian", "likelihood_ is missing or not of a type that it can have"),
        ("class", "Poisson", "this one has no Poisson"),
        ("class", None, "class is missing or not of type str"),
    ],
)
def test_a_likelihood_that_does_not_fit(path: Path, key: str, value: Any, reason: str) -> None:
    with header_of(path) as header:
        header["likelihood_"][key] = value
    newer = reason.startswith("this one")
    refused(path, reason, "was written by a newer probprop" if newer else "is truncated or damaged")


@pytest.mark.parametrize("multilabel", [1, None])
def test_labels_that_do_not_fit(tmp_path: Path, multilabel: Any) -> None:
    fitted(np.array(["a", "b"])[INDEX % 2]).save(tmp_path / "m")
    with header_of(tmp_path / "m") as header:
        header["likelihood_"]["multilabel"] = multilabel
    refused(tmp_path / "m", "multilabel is missing or not")


def test_layers_of_another_number_of_classes(path: Path) -> None:
    tree, arrays = read_model(path)
    one = {k: a[:1] for k, a in arrays.items() if k.endswith("/1") or k.endswith("tail")}
    write_model(path, tree, arrays | one)
    refused(path, "its parts do not form one classification network")


def test_a_regressor_is_no_classifier(tmp_path: Path) -> None:
    PBPRegressor((4,), n_epochs=2, random_state=0).fit(X, X[:, 0]).save(tmp_path / "m")
    with header_of(tmp_path / "m") as header:
        header["class"] = "PBPClassifier"
    refused(tmp_path / "m", "likelihood_ is missing or not of a type that it can have")


def test_truncated_and_flipped_files(path: Path) -> None:
    content, rng = path.read_bytes(), random.Random(0)
    expected = load(path).predict_proba(X)
    mutated = [content[:length] for length in range(0, len(content), 41)]
    for _ in range(300):
        flipped = bytearray(content)
        flipped[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        mutated.append(bytes(flipped))
    for each in mutated:
        path.write_bytes(each)
        try:
            loaded = load(path)
        except ModelFileError:
            continue
        assert_array_equal(loaded.predict_proba(X), expected)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), value=JSON)
def test_any_json_in_the_header(good: Path, data: Any, value: Any) -> None:
    members = unzip(good)
    header = json.loads(members["header.json"])
    place = data.draw(st.sampled_from([p for p in places_in(header) if p]))
    target = header
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    mutated = good.parent / "header"
    rezip(mutated, members | {"header.json": json.dumps(header).encode()})
    try:
        loaded = load(mutated)
    except ModelFileError:
        return
    assert type(loaded) is PBPClassifier
    assert loaded.predict(X[:1]).shape == (1,)
