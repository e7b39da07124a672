"""Numbers at the ends of their range, everywhere in a file: refused, or the model predicts.

Every number of the header, and one of every array, is replaced in turn. What loads must be finite
at the mean of the features, and quantiles anywhere must be found without an endless search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cv_models
from json_values import places_in
from model_files import X, Y, read_model, write_model
from probprop import ModelFileError, PBPClassifier, PBPRegressor, load
from probprop.estimators.kind import column_moments

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:numpy|scipy|probprop"),
]

LARGEST = float(np.finfo(np.float64).max)
FLOATS = [5e-324, 1e30, 1e160, LARGEST, -LARGEST]
INTS = [-1, 2**62, 10**400]
UNKNOWN = [5e-324, LARGEST, 10**400]  # instead of null

CLASSES = np.digitize(Y, [-1.0, 1.0])
USUAL: dict[str, Any] = {"n_epochs": 2, "random_state": 0}

CASES: dict[str, tuple[Any, Any, Any]] = {
    "noise": (PBPRegressor((4,), noise="input", noise_tail="heavy", **USUAL), X, Y),
    "classes": (PBPClassifier((4,), dtype="float32", **USUAL), X, CLASSES),
    "cv values": (cv_models.small(), cv_models.X, cv_models.Y),
    "cv prices": (
        cv_models.small(candidates=[cv_models.SQUARE_ROOT]),
        cv_models.X,
        cv_models.PRICES,
    ),
}


def headers(header: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the header with every number, one after the other, at the ends of its range."""
    text = json.dumps(header)
    for place in places_in(header):
        if not place or place[0] == "estimators_" or "classes" in place or "curves" in place:
            continue  # a member is like a single network; classes and curves may be any numbers
        *path, last = place
        target: Any = header
        for key in path:
            target = target[key]
        values = {float: FLOATS, int: INTS, type(None): UNKNOWN}.get(type(target[last]), [])
        for value in values:
            changed = json.loads(text)
            target = changed
            for key in path:
                target = target[key]
            target[last] = value
            yield f"{'.'.join(map(str, place))} = {str(value)[:20]}", changed


def all_arrays(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield the arrays with one number in each, one after the other, at the ends of its range."""
    for name, array in arrays.items():
        if name.startswith("estimators_/") or array.dtype.kind == "b" or not array.size:
            continue  # a member is like a single network; a truth value, or none, has no range
        values = FLOATS if array.dtype.kind == "f" else [v for v in INTS if abs(v) < 2**63]
        for value in values:
            changed = array.copy()
            with np.errstate(over="ignore"):
                changed.flat[-1] = value
            yield f"{name} = {str(value)[:20]}", arrays | {name: changed}


def predicts(model: Any, X: np.ndarray) -> None:
    at_mean = model.predict_distribution(column_moments(model)[0][np.newaxis])
    of_classes = hasattr(at_mean, "proba")
    for answer in [at_mean.proba] if of_classes else [at_mean.mean, 1.0 / at_mean.std]:
        assert np.isfinite(answer).all()
    with np.errstate(all="ignore"), suppress(ArithmeticError, ValueError):  # not in silence
        elsewhere = model.predict_distribution(X[:5])
        if not of_classes:
            elsewhere.interval(0.9999)


@pytest.mark.parametrize("kind", CASES)
def test_numbers_at_the_ends_of_their_range(kind: str, tmp_path: Path) -> None:
    estimator, X, y = CASES[kind]
    path = tmp_path / "m.pbp"
    estimator.fit(X, y).save(path)
    header, arrays = read_model(path)
    trials = [(label, changed, arrays) for label, changed in headers(header)]
    trials += [(label, header, changed) for label, changed in all_arrays(arrays)]
    refused, failed = 0, {}
    for label, of_header, of_arrays in trials:
        write_model(path, of_header, of_arrays)
        try:
            model = load(path)
        except ModelFileError:
            refused += 1
            continue
        try:
            predicts(model, X)
        except Exception as error:
            failed[label] = repr(error)[:200]
    assert failed == {}
    assert 0 < refused < len(trials)
