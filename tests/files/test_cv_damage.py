"""Files of cross-validated estimators that are damaged or hostile: one clear error each."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cv_models import ENCODED, X, answers, fit_small
from model_files import header_of, read_model, refused, survives, with_any_json, write_model
from probprop import load

pytestmark = [
    pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]

KINDS = ("values", "prices", "labels")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file of each kind; the regressor's has an encoding and a noise network."""
    folder = tmp_path_factory.mktemp("cv")
    for kind in KINDS:
        candidates = {"values": {"candidates": [ENCODED]}}.get(kind, {})
        fit_small(kind, **candidates).save(folder / kind)
    return {kind: folder / kind for kind in KINDS}


@pytest.fixture
def path(tmp_path: Path, saved: dict[str, Path]) -> Path:
    return Path(shutil.copy(saved["values"], tmp_path / "model.pbp"))


@pytest.fixture
def labels(tmp_path: Path, saved: dict[str, Path]) -> Path:
    return Path(shutil.copy(saved["labels"], tmp_path / "labels.pbp"))


@pytest.fixture
def prices(tmp_path: Path, saved: dict[str, Path]) -> Path:
    return Path(shutil.copy(saved["prices"], tmp_path / "prices.pbp"))


REMOVE = object()
NAN, INF = float("nan"), float("inf")
IMPOSSIBLE: dict[tuple[str, ...], list[Any]] = {
    ("class",): [REMOVE, None, 1, "PBPRegressor", "TableModel"],
    ("parameters",): [REMOVE, None, []],
    ("estimators_",): [REMOVE, None, {}, [], [1], [{}, {}]],
    ("feature_names_in_",): [REMOVE, ["a"], "abc", ["a", "b", 3]],
    ("n_samples_seen_",): [REMOVE, 0, 1.0, True],
    ("groups_",): [REMOVE, None, [], {}, [1], [None]],
    ("trials_",): [REMOVE, None, {}, [1], [None]],
    ("calibration_",): [REMOVE, None, []],
    ("groups_", "0", "n_epochs"): [REMOVE, 0, "20"],
    ("groups_", "0", "weight"): [REMOVE, 0.0, -0.1, 0.5, 1.1, NAN, "1", None],
    ("groups_", "0", "candidate"): [REMOVE, None, {"n_bins": 4, "width": [4]}],
    ("groups_", "0", "candidate", "power"): [0, True, "0", [], NAN, 10**400],
    ("groups_", "0", "candidate", "n_bins"): [1, 2.5, "4"],
    ("groups_", "0", "candidate", "hidden_layer_sizes"): [4, [0], [[4]], "4"],
    ("groups_", "0", "candidate", "evidence_cap"): [0.5, "auto", [], NAN],
    ("groups_", "0", "candidate", "noise"): [None, "none", 1, []],
    ("trials_", "0", "scores"): [[NAN] * 3, [1, 2, 3], "abc"],
    ("trials_", "0", "n_epochs"): [[0, 20, 40], [20, 40, 10**400]],
    ("trials_", "0", "outcome"): [None, 1],
    ("trials_", "0", "weight"): [-0.5, 2.0, NAN],
    ("calibration_", "squares"): [REMOVE, None, [], {}, 1.0],
    ("calibration_", "squares", "error"): [REMOVE, -1.0, NAN, INF, 1, None],
    ("calibration_", "squares", "between"): [REMOVE, -1.0, NAN, INF, 0, None],
    ("calibration_", "squares", "n_rows"): [REMOVE, 0.0, -1.0, INF, 150],
    ("calibration_", "squares", "n_pooled"): [0.0, -1.0, NAN, 1, "1"],
    ("calibration_", "squares", "n_members"): [0.0, -1.0, INF, 2, "2"],
    ("calibration_", "range", "slope"): [REMOVE, -1.0, NAN, INF, 1],
    ("calibration_", "range", "low"): [REMOVE, None, 1.0, "low", "calibration_/range/high"],
    ("calibration_", "gain"): [INF, "0", "inf", None, []],
    ("calibration_", "gain_error"): [1, "-inf"],
    ("calibration_", "transformation"): [0.5, [], {}],
    ("calibration_", "noise"): [REMOVE, None, [], {}, 1],
    ("calibration_", "noise", "posterior"): [REMOVE, None, [], {}, {"m_w": [], "v_w": []}],
    ("calibration_", "noise", "standardizer"): [REMOVE, None, [], {}],
    ("calibration_", "noise", "levels"): [REMOVE, {}, [0.0, 1.0, 1.0], "ab"],
    ("calibration_", "noise", "levels", "low"): [REMOVE, 3, "a", -1e9, NAN],
    ("calibration_", "noise", "levels", "high"): [REMOVE, 3, "a", 1e9, INF],
    ("calibration_", "noise", "levels", "variance"): [REMOVE, 3, "a", -1.0, 5.0, NAN],
    ("parameters", "cv"): [None, 0, 1, 2.0, "2", True, [], {}, {"splitter": "KFold"}],
    ("parameters", "candidates"): [
        "none",
        None,
        [],
        [1],
        {},
        [{"hidden_layer_sizes": [4]}],
        [{"candidate": {"hidden_layer_sizes": 4}}],
    ],
    ("parameters", "budget"): ["none", None, 0, 1.0, NAN, True, []],
    ("parameters", "dtype"): ["float16", None],
    ("parameters", "random_state"): [-1, 2**32, 1.5, "a", [1], {}],
    ("parameters", "n_jobs"): [0, 1.5, "1"],
    ("parameters", "another"): [1],
    ("parameters", "self"): [1],
    ("estimators_", "1", "class"): ["PBPClassifier", "PBPRegressorCV", None],
    ("estimators_", "1", "feature_names_in_"): [["a"]],
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


OF_PRICES: dict[tuple[str, ...], list[Any]] = {
    ("groups_", "0", "candidate", "power"): [1.5, -0.5, NAN, 1],
    ("calibration_", "transformation"): [{"unit": 0.5}],
    ("calibration_", "transformation", "power"): [REMOVE, None, 1.5, -0.5, NAN, 1, "0.5"],
    ("calibration_", "transformation", "unit"): [None, 0.0, -1.0, NAN, INF, 1, "1", [1.0]],
    ("calibration_", "transformation", "another"): [1.0],
}
OF_LABELS: dict[tuple[str, ...], list[Any]] = {
    ("class",): ["PBPRegressorCV"],
    ("n_samples_seen_",): [REMOVE, 0, -1, 1.0],
    ("groups_", "0", "candidate", "noise"): ["none", 1],
    ("calibration_", "temperature"): [REMOVE, 0.0, -1.0, NAN, INF, 1, None],
    ("calibration_", "precision"): [REMOVE, 0.0, INF],
    ("calibration_", "log_loss"): [REMOVE, NAN, "0"],
    ("calibration_", "n_rows"): [0.0, 60],
    ("estimators_", "0", "class"): ["PBPRegressor"],
    ("estimators_", "1", "likelihood_", "multilabel"): [1, True],
    ("estimators_", "1", "likelihood_", "classes", "values"): [["a", "b"]],
}


def refuses_each(path: Path, keys: tuple[str, ...], values: list[Any]) -> None:
    content = path.read_bytes()
    for value in values:
        path.write_bytes(content)
        with header_of(path) as header:
            place = at(header, keys[:-1])
            place[keys[-1]] = value
            if value is REMOVE:
                del place[keys[-1]]
        refused(path, "")


@pytest.mark.parametrize("keys", IMPOSSIBLE, ids=".".join)
def test_impossible_fields(path: Path, keys: tuple[str, ...]) -> None:
    refuses_each(path, keys, IMPOSSIBLE[keys])


@pytest.mark.parametrize("keys", OF_PRICES, ids=".".join)
def test_impossible_fields_of_a_power(prices: Path, keys: tuple[str, ...]) -> None:
    refuses_each(prices, keys, OF_PRICES[keys])


@pytest.mark.parametrize("keys", OF_LABELS, ids=".".join)
def test_impossible_fields_of_a_classifier(labels: Path, keys: tuple[str, ...]) -> None:
    refuses_each(labels, keys, OF_LABELS[keys])


def test_a_calibration_of_labels_with_arrays(labels: Path) -> None:
    header, arrays = read_model(labels)
    write_model(labels, header, arrays | {"calibration_/x": np.ones(3)})
    refused(labels, "calibration_/x belongs to no part")


def changed(array: Any, value: float) -> Any:
    array = array.copy()
    array.flat[-1] = value
    return array


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("calibration_/range/low", lambda a: a[:2]),
        ("calibration_/range/high", lambda a: changed(a, NAN)),
        ("calibration_/range/scale", lambda a: changed(a, 0.0)),
        ("calibration_/range/scale", None),
        ("calibration_/noise/posterior/v_w/0", lambda a: changed(a, 0.0)),
        ("calibration_/noise/posterior/m_w/1", lambda a: changed(a, INF)),
        ("calibration_/noise/posterior/m_w/1", lambda a: a.astype(np.float64)),
        ("calibration_/noise/posterior/m_w/1", lambda a: a[:, :-1]),
        ("calibration_/noise/standardizer/x_scale", lambda a: changed(a, -1.0)),
        ("calibration_/noise/encoding/mean", None),
        ("calibration_/noise/encoding/end", lambda a: a - 1e9),
        ("bounds_/high", lambda a: a.astype(np.float32)),
        ("bounds_/growth", lambda a: changed(a, -1.0)),
        ("bounds_/growth", lambda a: changed(a, NAN)),
        ("bounds_/growth", lambda a: a[:-1]),
        ("bounds_/growth", None),
        ("groups_/0/encoding/start", None),
        ("groups_/0/encoding/start", lambda a: a[1:]),
        ("groups_/0/encoding/start", lambda a: changed(a, NAN)),
        ("groups_/0/encoding/mean", lambda a: a[:, np.newaxis]),
        ("groups_/0/encoding/mean", lambda a: changed(a, INF)),
        ("groups_/0/encoding/scale", lambda a: changed(a, NAN)),
        ("groups_/0/encoding/column", lambda a: a[::-1]),
        ("groups_/0/encoding/column", lambda a: a + 5),
        ("groups_/0/encoding/column", lambda a: a - 1),
        ("groups_/0/encoding/end", lambda a: changed(a, NAN)),
        ("groups_/0/encoding/end", lambda a: changed(a, -1e9)),
        ("groups_/0/encoding/ramp_scale", None),
        ("groups_/0/encoding/ramp_scale", lambda a: changed(a, INF)),
        ("groups_/0/encoding/ramp_scale", lambda a: changed(a, 0.0)),
        ("estimators_/0/posterior_/m_w/0", lambda a: a[:-1]),
        ("estimators_/1/posterior_/v_w/0", lambda a: changed(a, -1.0)),
        ("estimators_/1/standardizer_/x_mean", None),
    ],
)
def test_arrays_that_no_model_has(path: Path, name: str, change: Any) -> None:
    header, arrays = read_model(path)
    array = arrays.pop(name)
    write_model(path, header, arrays if change is None else arrays | {name: change(array)})
    refused(path, "")


@pytest.fixture(scope="module")
def completing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a model that completes missing values."""
    path = tmp_path_factory.mktemp("completing") / "model.pbp"
    fit_small("values", missing="marginalize").save(path)
    return path


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("joint_/covariance", lambda a: a[:-1, :-1]),
        ("joint_/column", lambda a: a[::-1]),
        ("joint_/column", lambda a: np.minimum(a, 1)),
        ("joint_/value", lambda a: changed(a, INF)),
        ("joint_/discrete", lambda a: a[:-1]),
        ("joint_/factor", lambda a: changed(a, 0.0)),
        ("joint_/factor", lambda a: a[:-1]),
        ("joint_/column", None),
        ("joint_/encoding/mean", None),
    ],
)
def test_a_joint_distribution_that_no_model_has(
    tmp_path: Path, completing: Path, name: str, change: Any
) -> None:
    path = Path(shutil.copy(completing, tmp_path / "model.pbp"))
    header, arrays = read_model(path)
    array = arrays.pop(name)
    write_model(path, header, arrays if change is None else arrays | {name: change(array)})
    refused(path, "")


@pytest.mark.parametrize("spread", [None, 0.0, NAN, "1", 1, [1.0]])
def test_a_spread_that_no_model_has(tmp_path: Path, completing: Path, spread: Any) -> None:
    path = Path(shutil.copy(completing, tmp_path / "model.pbp"))
    with header_of(path) as header:
        header["joint_"]["spread"] = spread
    refused(path, "joint_/spread")


def test_a_model_that_completes_nothing(tmp_path: Path, completing: Path) -> None:
    header, arrays = read_model(completing)
    parts = {k: a for k, a in arrays.items() if k.startswith("joint_/")}
    less = {k: a for k, a in arrays.items() if k not in parts}
    write_model(tmp_path / "less", header | {"joint_": None}, less)
    refused(tmp_path / "less", "joint distribution")
    joint, path = header["joint_"], tmp_path / "more"
    fit_small("values", missing="error").save(path)
    header, arrays = read_model(path)
    write_model(path, header | {"joint_": joint}, arrays | parts)
    refused(path, "joint distribution")


@pytest.mark.parametrize(
    "name", ["estimators_/9/posterior_/m_w/0", "m_w/0", "calibration_/x", "/", "calibration_"]
)
def test_arrays_of_no_part(path: Path, name: str) -> None:
    header, arrays = read_model(path)
    write_model(path, header, arrays | {name: arrays["estimators_/0/posterior_/m_w/0"]})
    refused(path, "")


def test_truncations_are_noticed(path: Path) -> None:
    content, expected = path.read_bytes(), answers(load(path))
    lengths = {*range(0, len(content), 997), *range(len(content) - 50, len(content))}
    for length in sorted(lengths):
        assert not survives(path, content[:length], expected, answers), length
    assert survives(path, content, expected, answers)


def test_flipped_bytes_are_noticed_or_do_not_matter(path: Path) -> None:
    content, expected, rng = path.read_bytes(), answers(load(path)), random.Random(0)
    for _ in range(200):
        mutated = bytearray(content)
        mutated[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        survives(path, bytes(mutated), expected, answers)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), value=JSON)
def test_any_json_in_the_header(saved: dict[str, Path], kind: str, data: Any, value: Any) -> None:
    loaded = with_any_json(saved[kind], data, value)
    if loaded is not None:
        assert loaded.predict(X).shape == (len(X),)
