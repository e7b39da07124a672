"""Cross-validated estimators in one file: the same ones come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, LeavePOut, RepeatedKFold, TimeSeriesSplit

from cv_models import (
    ENCODED,
    LABELS,
    NOT_STORED,
    PRICES,
    RAW,
    X,
    Y,
    answers,
    assert_equal,
    fit_small,
    small,
    small_classifier,
)
from model_files import files_in, fitted
from probprop import Candidate, PBPClassifier, PBPRegressorCV, load

pytestmark = [
    pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]


@pytest.fixture(scope="module", params=["values", "labels"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def good(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cv") / "good"
    fit_small(kind).save(path)
    return path


# ---- Round trips


def assert_comes_back(model: Any, folder: Path) -> Any:
    model.save(folder / "m")
    loaded = load(folder / "m")
    assert files_in(folder) == ["m"]
    assert_equal(model, loaded)
    assert not vars(loaded).keys() & NOT_STORED
    return loaded


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("candidate", [ENCODED, RAW])
def test_a_loaded_model_is_the_same(
    tmp_path: Path, kind: str, dtype: str, candidate: Candidate
) -> None:
    model = fit_small(kind, candidates=[candidate], dtype=dtype)
    loaded = assert_comes_back(model, tmp_path)
    assert_array_equal(answers(model), answers(loaded))
    y = Y if kind == "values" else LABELS
    assert_equal(clone(model).fit(X, y), clone(loaded).fit(X, y))
    for rows in (np.s_[:7], np.s_[7:20]):  # it continues as if it had never been in a file
        assert_equal(model.partial_fit(X[rows], y[rows]), loaded.partial_fit(X[rows], y[rows]))
    assert_array_equal(answers(model), answers(loaded))
    assert_comes_back(model, tmp_path)


def test_a_model_without_a_noise_network(tmp_path: Path) -> None:
    model = small().fit(X[:15], Y[:15])
    assert model.calibration_.noise is None
    assert np.isnan(model.calibration_.gain)
    loaded = assert_comes_back(model, tmp_path)
    assert_array_equal(answers(model), answers(loaded))


@pytest.mark.parametrize("power", [0.0, 0.35, 1.0])
def test_a_power_of_the_targets(tmp_path: Path, power: float) -> None:
    model = fit_small("prices", candidates=[Candidate(None, (4,), power=power)])
    loaded = assert_comes_back(model, tmp_path)
    assert loaded.calibration_.transformation == model.calibration_.transformation
    assert loaded.calibration_.transformation.power == loaded.best_params_["power"] == power
    assert_array_equal(answers(model), answers(loaded))
    assert_equal(model.partial_fit(X[:9], PRICES[:9]), loaded.partial_fit(X[:9], PRICES[:9]))
    assert_array_equal(answers(model), answers(loaded))
    for each in (model, loaded):
        with pytest.raises(ValueError, match="must be strictly positive"):
            each.partial_fit(X[:1], [0.0])


@pytest.mark.parametrize("labels", [LABELS == "low", "matrix"])
def test_two_classes_and_a_matrix_of_labels(tmp_path: Path, labels: Any) -> None:
    rows = X
    if isinstance(labels, str):
        rows, labels = make_multilabel_classification(60, 3, n_classes=4, random_state=0)
    model = small_classifier().fit(rows, labels)
    loaded = assert_comes_back(model, tmp_path)
    assert loaded.multilabel_ == (labels.ndim == 2)
    assert_array_equal(answers(model), answers(loaded))
    assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_missing_entries(tmp_path: Path, kind: str) -> None:
    holes = np.where(RandomState(3).uniform(size=X.shape) < 0.1, np.nan, X)
    kinds = {"values": (small, Y), "labels": (small_classifier, LABELS)}
    make, y = kinds[kind]
    model = make(missing="marginalize").fit(holes, y)
    loaded = assert_comes_back(model, tmp_path)
    assert_array_equal(loaded.predict(holes), model.predict(holes))


def test_a_column_that_a_fold_has_no_value_of(tmp_path: Path) -> None:
    rare = X.copy()
    rare[:, 1] = np.where(np.arange(len(X)) == 5, 1.0, np.nan)
    model = small(candidates=[RAW], missing="marginalize").fit(rare, Y)
    scales = [member.standardizer_.x_scale[1] for member in model.estimators_]
    assert sorted(scales)[-1] == np.inf
    loaded = assert_comes_back(model, tmp_path)
    assert_array_equal(loaded.predict(X), model.predict(X))


def test_the_same_model_gives_the_same_bytes(path: Path) -> None:
    load(path).save(path.parent / "again")
    assert (path.parent / "again").read_bytes() == path.read_bytes()


def test_feature_names(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["größe", "数", "c"])
    loaded = assert_comes_back(small().fit(frame, Y), tmp_path)
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[frame.columns[::-1]])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("cv", np.int64(4), 4),
        ("candidates", "auto", "auto"),
        ("candidates", ({"n_bins": np.int64(7), "hidden_layer_sizes": 3},), [Candidate(7, (3,))]),
        ("candidates", [{"hidden_layer_sizes": 3, "power": 0}], [Candidate(None, (3,), power=0.0)]),
        ("budget", "best", "best"),
        ("cv", "auto", "auto"),
        ("n_jobs", -1, -1),
        ("random_state", np.uint32(7), 7),
        ("random_state", RandomState(3), None),
    ],
)
def test_parameters_come_back_plain(path: Path, name: str, value: Any, expected: Any) -> None:
    load(path).set_params(**{name: value}).save(path)
    found = getattr(load(path), name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
@pytest.mark.parametrize(
    "cv",
    [
        KFold(3, shuffle=True, random_state=4),
        TimeSeriesSplit(3, gap=np.int64(2)),
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=1),
        GroupKFold(4),
        LeavePOut(2),
    ],
)
def test_splitters_of_scikit_learn_come_back(path: Path, cv: Any) -> None:
    load(path).set_params(cv=cv).save(path)
    found, groups = load(path).cv, np.arange(len(Y)) // 9
    assert type(found) is type(cv)
    assert_equal(list(found.split(X, Y, groups)), list(cv.split(X, Y, groups)))


# ---- What is not saved


class Folds(KFold):
    """Another class."""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.set_params(cv=None), "cv must be .* Got NoneType instead"),
        (lambda m: m.set_params(cv=[([0], [1])]), r"cv must be .* Got list .* set_params\(cv=5\)"),
        (lambda m: m.set_params(cv=Folds(2)), "cv must be .* Got Folds"),
        (lambda m: m.set_params(cv=1), "cv"),
        (lambda m: m.set_params(budget="none"), "budget"),
        (lambda m: m.set_params(candidates=[]), "candidates must have at least one"),
        (lambda m: m.estimators_.clear(), "differ in their number of members"),
        (lambda m: m.estimators_[0].posterior_.m_w[0].fill(np.nan), "m_w/0 has values"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(
    path: Path, change: Callable[[Any], Any], reason: str
) -> None:
    before, model = path.read_bytes(), load(path)
    change(model)
    with pytest.raises(ValueError, match=f"The model cannot be saved: .*{reason}"):
        model.save(path)
    assert path.read_bytes() == before
    assert files_in(path.parent) == [path.name]


def test_members_of_other_models_are_not_saved(path: Path, kind: str) -> None:
    model = load(path)
    if kind == "values":
        model.estimators_.append(fitted().fit(X, Y))
    else:
        model.estimators_.append(PBPClassifier((4,), n_epochs=1).fit(X, LABELS))
    with pytest.raises(ValueError, match=r"number of members|do not match the selected candidate"):
        model.save(path)


def test_an_invalid_noise_network_is_not_saved(tmp_path: Path) -> None:
    model: PBPRegressorCV = fit_small("values")
    assert model.calibration_.noise is not None
    model.calibration_.noise.posterior.m_w[0][0, 0] = np.nan
    with pytest.raises(ValueError, match="m_w/0 has values"):
        model.save(tmp_path / "m")
    assert files_in(tmp_path) == []


def test_an_unfitted_model_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        small().save(tmp_path / "m")
    assert files_in(tmp_path) == []
