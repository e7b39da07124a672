"""Cross-validated estimators in one file: the same ones come back, and no file is trusted."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass
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
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, LeavePOut, RepeatedKFold, TimeSeriesSplit

from model_files import files_in, fitted, header_of, refused, rezip, unzip
from probprop import Candidate, ModelFileError, PBPRegressor, PBPRegressorCV, load
from probprop.files.format import read_model, write_model

pytestmark = [
    pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]

X = RandomState(0).standard_normal((150, 3)) * [1.0, 20.0, 0.1] + [0.0, 5.0, -3.0]
Y = 3.0 * X[:, 0] + np.exp(X[:, 0]) * RandomState(1).standard_normal(150)
ENCODED, RAW = Candidate(4, (4,)), Candidate(None, (3, 2), 10.0)
NOT_STORED = {"oof_predictive_", "oof_rows_"}


def small(**parameters: Any) -> PBPRegressorCV:
    usual = {"cv": 2, "candidates": [ENCODED, RAW], "budget": "fast", "random_state": 0}
    return PBPRegressorCV(**{**usual, **parameters})


def assert_equal(a: Any, b: Any, name: str = "") -> None:
    """Two trees of dataclasses, estimators, sequences and arrays are the same to the last bit."""
    assert type(a) is type(b), name
    if isinstance(a, PBPRegressor | PBPRegressorCV):
        assert vars(a).keys() - NOT_STORED == vars(b).keys() - NOT_STORED
        for key in vars(b).keys() - NOT_STORED:
            assert_equal(vars(a)[key], vars(b)[key], key)
    elif is_dataclass(a):
        for each in fields(a):
            assert_equal(getattr(a, each.name), getattr(b, each.name), each.name)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), name
        for one, other in zip(a, b, strict=True):
            assert_equal(one, other, name)
    elif isinstance(a, np.ndarray):
        assert_array_equal(a, b, name, strict=True)
    else:
        assert a == b or (a != a and b != b), name


@pytest.fixture(scope="module")
def model() -> PBPRegressorCV:
    found = small().fit(X, Y)
    assert found.calibration_.noise is not None
    assert found.encoding_ is not None
    return found


@pytest.fixture(scope="module")
def good(model: PBPRegressorCV, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cv") / "good"
    model.save(path)
    return path


@pytest.fixture
def path(tmp_path: Path, good: Path) -> Path:
    return Path(shutil.copy(good, tmp_path / "model.pbp"))


# ---- Round trips


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("candidate", [ENCODED, RAW])
@pytest.mark.parametrize("n", [15, 150])  # too few for a noise network, and enough
def test_a_loaded_model_is_the_same(
    tmp_path: Path, dtype: str, candidate: Candidate, n: int
) -> None:
    model = small(candidates=[candidate], dtype=dtype).fit(X[:n], Y[:n])
    assert (model.calibration_.noise is None) == (n == 15)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert type(loaded) is PBPRegressorCV
    assert files_in(tmp_path) == ["m"]
    assert_equal(model, loaded)
    assert not vars(loaded).keys() & NOT_STORED
    beyond = np.concatenate([X, 9.0 * X])
    for one, other in zip(
        model.predict(beyond, return_std=True), loaded.predict(beyond, return_std=True), strict=True
    ):
        assert_array_equal(one, other)
    assert_array_equal(*(m.predict_distribution(X).logpdf(Y) for m in (model, loaded)))
    assert_equal(clone(model).fit(X, Y), clone(loaded).fit(X, Y))


def test_the_same_model_gives_the_same_bytes(path: Path) -> None:
    load(path).save(path.parent / "again")
    assert (path.parent / "again").read_bytes() == path.read_bytes()


def test_a_race_of_which_some_were_left_out(tmp_path: Path) -> None:
    model = small(budget=1e-6).fit(X, Y)
    assert [len(curve.n_epochs) for curve in model.choice_.curves].count(0) == 1
    model.save(tmp_path / "m")
    assert_equal(model, load(tmp_path / "m"))


def test_feature_names(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["größe", "数", "c"])
    model = small().fit(frame, Y)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_equal(model, loaded)
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[frame.columns[::-1]])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("cv", np.int64(4), 4),
        ("candidates", "auto", "auto"),
        ("candidates", ({"n_bins": np.int64(7), "hidden": 3},), [Candidate(7, (3,))]),
        ("budget", np.float64(2.5), 2.5),
        ("n_jobs", -1, -1),
        ("random_state", np.uint32(7), 7),
        ("random_state", RandomState(3), None),
    ],
)
def test_parameters_come_back_plain(
    tmp_path: Path, model: PBPRegressorCV, name: str, value: Any, expected: Any
) -> None:
    changed = load_copy(model, tmp_path).set_params(**{name: value})
    changed.save(tmp_path / "m")
    found = getattr(load(tmp_path / "m"), name)
    assert found == expected
    assert type(found) is type(expected)


def load_copy(model: PBPRegressorCV, folder: Path) -> PBPRegressorCV:
    """Return a copy that a test may change."""
    model.save(folder / "copy")
    loaded: PBPRegressorCV = load(folder / "copy")
    return loaded


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
@pytest.mark.parametrize(
    "cv",
    [
        KFold(3, shuffle=True, random_state=4),
        TimeSeriesSplit(3, gap=np.int64(2)),
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=1),
        GroupKFold(4),
    ],
)
def test_splitters_of_scikit_learn_come_back(tmp_path: Path, model: Any, cv: Any) -> None:
    load_copy(model, tmp_path).set_params(cv=cv).save(tmp_path / "m")
    found, groups = load(tmp_path / "m").cv, np.arange(len(Y)) // 9
    assert type(found) is type(cv)
    assert_equal(list(found.split(X, Y, groups)), list(cv.split(X, Y, groups)))


# ---- What is not saved


class Folds(KFold):
    """Another class."""


def spoil(model: PBPRegressorCV) -> None:
    model.calibration_.noise.posterior.m_w[0][0, 0] = np.nan  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (spoil, "m_w_0 has values"),
        (lambda m: m.set_params(cv=None), "cv is None, which a file cannot hold"),
        (lambda m: m.set_params(cv=[([0], [1])]), r"cv is a list.* set_params\(cv=5\)"),
        (lambda m: m.set_params(cv=LeavePOut(2)), "cv is a LeavePOut"),
        (lambda m: m.set_params(cv=Folds(2)), "cv is a Folds"),
        (lambda m: m.set_params(cv=1), "cv"),
        (lambda m: m.set_params(budget="none"), "budget"),
        (lambda m: m.set_params(candidates=[]), "candidates must have at least one"),
        (lambda m: m.estimators_.append(fitted().fit(X, Y)), "networks of the candidate"),
        (lambda m: m.estimators_.clear(), "members in the header are missing"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(
    path: Path, change: Callable[[PBPRegressorCV], Any], reason: str
) -> None:
    before, model = path.read_bytes(), load(path)
    change(model)
    with pytest.raises(ValueError, match=f"The model cannot be saved: .*{reason}"):
        model.save(path)
    assert path.read_bytes() == before
    assert files_in(path.parent) == [path.name]


def test_an_unfitted_model_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        small().save(tmp_path / "m")
    assert files_in(tmp_path) == []


# ---- What is damaged or hostile

REMOVE = object()
NAN, INF = float("nan"), float("inf")
IMPOSSIBLE: dict[tuple[str, ...], list[Any]] = {
    ("class",): [REMOVE, None, 1, "PBPRegressor", "PBPEnsemble", "TableModel"],
    ("parameters",): [REMOVE, None, []],
    ("members",): [REMOVE, None, {}, [], [1], [{}, {}]],
    ("feature_names_in_",): [REMOVE, ["a"], "abc", ["a", "b", 3]],
    ("choice_",): [REMOVE, None, []],
    ("calibration_",): [REMOVE, None, []],
    ("choice_", "best"): [REMOVE, -1, 2, 1, 1.0, True],  # the second has another form
    ("choice_", "n_epochs"): [REMOVE, 0, 30, "20"],
    ("choice_", "curves"): [REMOVE, [], {}, [1], [None]],
    ("choice_", "curves", "0", "candidate"): [REMOVE, None, {}, {"n_bins": 4, "hidden": [4]}],
    ("choice_", "curves", "0", "candidate", "n_bins"): [REMOVE, 1, 2.5, "4", None],
    ("choice_", "curves", "0", "candidate", "hidden"): [REMOVE, 4, [0], [5], [4, 4], [[4]], "4"],
    ("choice_", "curves", "0", "candidate", "memory"): [REMOVE, 0.5, "auto", [], NAN],
    ("choice_", "curves", "0", "calibrated"): [REMOVE, [], [NAN] * 3, [1, 2, 3], "abc"],
    ("choice_", "curves", "0", "n_epochs"): [[20, 20, 20], [0, 20, 40], [20, 40, 10**400]],
    ("choice_", "curves", "0", "factor"): [[0.0, 1.0, 1.0], [-1.0, 1.0, 1.0]],
    ("choice_", "curves", "0", "outcome"): [REMOVE, None, 1],
    ("calibration_", "factor"): [REMOVE, 0.0, -1.0, NAN, INF, 1, None],
    ("calibration_", "slope"): [REMOVE, -1.0, NAN, INF, 1],
    ("calibration_", "gain"): [REMOVE, NAN, INF, "0"],
    ("calibration_", "gain_error"): [REMOVE, NAN, 1],
    ("calibration_", "noise_layer_sizes"): [REMOVE, [], [1], [2] * 3, [1.0, 1], "ab", [1] * 9**5],
    ("calibration_", "noise_dtype"): [REMOVE, "float64", "int64", 4],
    ("parameters", "cv"): [None, 0, 1, 2.0, "2", True, [], {}, {"splitter": "KFold"}],
    ("parameters", "candidates"): ["none", None, [], [1], {}, [{"hidden": [4]}]],
    ("parameters", "budget"): ["none", None, 0, -1.0, NAN, True, []],
    ("parameters", "dtype"): ["float16", None],
    ("parameters", "random_state"): [-1, 2**32, 1.5, "a", [1], {}],
    ("parameters", "n_jobs"): [0, 1.5, "1"],
    ("parameters", "another"): [1],
    ("parameters", "self"): [1],
    ("members", "1", "class"): ["PBPClassifier", "PBPRegressorCV", None],
    ("members", "1", "feature_names_in_"): [["a"] * 15, ["a"]],
    ("members", "1", "parameters", "dtype"): ["float64"],
    ("members", "0", "parameters", "noise"): ["input"],
    ("members", "0", "parameters", "noise_tail"): ["heavy"],
}
SPLITTER = {"splitter": "KFold", "parameters": {"n_splits": 3}}
IMPOSSIBLE["parameters", "cv"] += [
    SPLITTER | {"splitter": name} for name in ("check_cv", "GridSearchCV", "__builtins__", "", 1)
]
IMPOSSIBLE["parameters", "cv"] += [
    SPLITTER | {"parameters": parameters}
    for parameters in ({"n_splits": 1}, {"n_splits": [3]}, {"a": 1}, {"self": 1}, [], None)
]


def at(tree: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        tree = tree[int(key) if isinstance(tree, list) else key]
    return tree


@pytest.mark.parametrize("keys", IMPOSSIBLE, ids=".".join)
def test_impossible_fields(path: Path, keys: tuple[str, ...]) -> None:
    content = path.read_bytes()
    for value in IMPOSSIBLE[keys]:
        path.write_bytes(content)
        with header_of(path) as header:
            place = at(header, keys[:-1])
            place[keys[-1]] = value
            if value is REMOVE:
                del place[keys[-1]]
        refused(path, "")


def changed(array: Any, value: float) -> Any:
    array = array.copy()
    array.flat[-1] = value
    return array


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("calibration/range/low", lambda a: a + 1e9),
        ("calibration/range/low", lambda a: a[:2]),
        ("calibration/range/high", lambda a: changed(a, NAN)),
        ("calibration/range/scale", lambda a: changed(a, 0.0)),
        ("calibration/range/scale", None),
        ("calibration/noise/v_w_0", lambda a: changed(a, 0.0)),
        ("calibration/noise/m_w_1", lambda a: changed(a, INF)),
        ("calibration/noise/m_w_1", lambda a: a.astype(np.float64)),
        ("calibration/noise/m_w_1", lambda a: a[:, :-1]),
        ("calibration/noise/x_scale", lambda a: changed(a, -1.0)),
        ("calibration/noise/missing_variance", lambda a: changed(a, 0.5)),
        ("calibration/noise/missing_variance", None),
        ("calibration/noise_encoding/mean", None),
        ("calibration/noise_encoding/end", lambda a: a - 1e9),
        ("encoding/start", lambda a: changed(a, NAN)),
        ("encoding/column", lambda a: a[::-1]),
        ("encoding/ramp_scale", None),
        ("0/m_w_0", lambda a: a[:-1]),
        ("1/v_w_0", lambda a: changed(a, -1.0)),
        ("1/x_mean", None),
    ],
)
def test_arrays_that_no_model_has(path: Path, name: str, change: Any) -> None:
    header, arrays = read_model(path)
    array = arrays.pop(name)
    write_model(path, header, arrays if change is None else arrays | {name: change(array)})
    refused(path, "")


@pytest.mark.parametrize(
    "name", ["2/m_w_0", "m_w_0", "calibration/x", "calibration/noise/m_w_2", "/", "calibration"]
)
def test_arrays_of_no_part(path: Path, name: str) -> None:
    header, arrays = read_model(path)
    write_model(path, header, arrays | {name: arrays["0/m_w_0"]})
    refused(path, "")


def test_an_encoding_of_a_model_that_has_none(path: Path) -> None:
    header, arrays = read_model(path)
    write_model(path, header, {k: a for k, a in arrays.items() if not k.startswith("encoding/")})
    refused(path, "the encoding is not that of the candidate that was chosen")


def test_a_noise_network_that_is_not_described(path: Path) -> None:
    with header_of(path) as header:
        del header["calibration_"]["noise_layer_sizes"]
    refused(path, "the noise network of calibration_ is not described")


def survives(path: Path, content: bytes, expected: np.ndarray) -> bool:
    """Load a mutated file: refused, or the same model all the same."""
    path.write_bytes(content)
    try:
        loaded = load(path)
    except ModelFileError:
        return False
    assert_array_equal(loaded.predict(X), expected)
    return True


def test_truncations_are_noticed(path: Path, model: PBPRegressorCV) -> None:
    content, expected = path.read_bytes(), model.predict(X)
    lengths = {*range(0, len(content), 997), *range(len(content) - 50, len(content))}
    for length in sorted(lengths):
        assert not survives(path, content[:length], expected), length
    assert survives(path, content, expected)


def test_flipped_bytes_are_noticed_or_do_not_matter(path: Path, model: PBPRegressorCV) -> None:
    content, expected, rng = path.read_bytes(), model.predict(X), random.Random(0)
    for _ in range(200):
        mutated = bytearray(content)
        mutated[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        survives(path, bytes(mutated), expected)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), value=JSON)
def test_any_json_in_the_header(good: Path, data: Any, value: Any) -> None:
    members = unzip(good)
    header = json.loads(members["header.json"])
    target: Any = header
    while True:  # to a place at random, but not among the descriptions of the arrays
        keys = (
            range(len(target)) if isinstance(target, list) else sorted(target.keys() - {"arrays"})
        )
        key = data.draw(st.sampled_from(list(keys)))
        if not (isinstance(target[key], dict | list) and target[key] and data.draw(st.booleans())):
            break
        target = target[key]
    target[key] = value
    mutated = good.parent / "header"
    rezip(mutated, members | {"header.json": json.dumps(header).encode()})
    try:
        loaded = load(mutated)
    except ModelFileError:
        return
    assert type(loaded) is PBPRegressorCV
    assert loaded.predict(X).shape == Y.shape
