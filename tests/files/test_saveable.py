"""Whatever `fit` accepts, `save` saves, and `load` predicts the same.

What is drawn follows from the number of the fit alone. To see one of them again: ``draw(17)``.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier
from sklearn.model_selection import ShuffleSplit, TimeSeriesSplit

from probprop import (
    Candidate,
    PBPClassifier,
    PBPClassifierCV,
    PBPRegressor,
    PBPRegressorCV,
    load,
)

SUM = 0.1 + 0.2  # one unit in the last place above 0.3


def columns(rng: RandomState, n: int) -> dict[str, np.ndarray]:
    """Return the features that are drawn from, each with something awkward about it."""
    x, empty, first = rng.standard_normal(n), np.full(n, np.nan), np.arange(n) < n // 2
    pair = empty.copy()
    pair[rng.choice(n, 2, replace=False)] = [2.0, 3.0]
    start, last = empty.copy(), empty.copy()
    start[:2], last[-1] = [1.0, 2.0], 5.0
    return {
        "plain": x,
        "rounding": np.where(rng.uniform(size=n) < 0.5, 0.3, SUM),
        "one rounding": np.where(np.arange(n) == n // 3, SUM, 0.3),
        "shares": rng.dirichlet([1.0, 2.0, 3.0], n).sum(axis=1),
        "constant": np.full(n, -7.5),
        "large constant": 1e14 + rng.randint(0, 50, n),
        "old sensor": np.where(first, x, np.nan),
        "new sensor": np.where(first, np.nan, x),
        "two values": pair,
        "first rows only": start,
        "last row only": last,
        "settles": np.where(first, x, 1.0 + 1e-9 * x),
        "one step": (np.arange(n) == n - 1).astype(float),
        "outlier": np.where(np.arange(n) == n // 2, 1e5, x),
        "denormal": 5e-324 * rng.randint(0, 9, n),
        "tiny": 1e-120 * x,
        "huge": 1e120 * x,
        "offset": 1e9 + x,
        "heavy": np.exp(4.0 * x),
    }


def targets(rng: RandomState, n: int) -> dict[str, np.ndarray]:
    y = np.sin(np.linspace(0.0, 9.0, n)) + 0.2 * rng.standard_normal(n)
    return {
        "plain": y,
        "positive": np.exp(2.0 * y),
        "offset": 1e6 + y,
        "constant": np.full(n, 3.0),
        "rare": np.where(np.arange(n) == n // 4, 5000.0, 0.0),
        "tiny": 1e-100 * y,
        "huge": 1e100 * y,
        "rounding": np.where(y > 0.0, 0.3, SUM),
        "counts": rng.poisson(2.0, n).astype(float),
    }


def draw(number: int) -> tuple[Any, dict[str, Any], str]:
    """Return an estimator, the data to fit it to, and the words for both."""
    rng = RandomState(number)
    n = int(rng.choice([4, 12, 40, 130]))
    features, values = columns(rng, n), targets(rng, n)
    names = [str(k) for k in rng.choice(list(features), 3, replace=False)]
    target = str(rng.choice(list(values)))
    X, y = np.column_stack([features[k] for k in names]), values[target]
    of_labels = rng.uniform() < 0.3
    if of_labels:
        y = np.array(["no", "yes", "maybe"])[np.arange(n) % (2 + number % 2)]
    data: dict[str, Any] = {"X": X, "y": y}
    if rng.uniform() < 0.2:
        data["sample_weight"] = rng.choice([0.5, 1.0, 4.0], n)
    options: dict[str, Any] = {"missing": "marginalize", "random_state": number}
    options["dtype"] = str(rng.choice(["float32", "float64"]))
    if rng.uniform() < 0.2:
        model: Any = (PBPClassifier if of_labels else PBPRegressor)(4, n_epochs=3, **options)
    else:
        noise = {} if of_labels else {"noise": str(rng.choice(["auto", "constant", "input"]))}
        power = 0.5 if target == "positive" and not of_labels and rng.uniform() < 0.5 else None
        candidate = Candidate((None, 6)[rng.randint(2)], (4,), None, power, **noise)
        cv = [2, 5, TimeSeriesSplit(3), ShuffleSplit(2, random_state=0)][rng.randint(4)]
        kind = PBPClassifierCV if of_labels else PBPRegressorCV
        model = kind(cv, candidates=[candidate], budget="fast", **options)
    return model, data, f"{number}: {model!r}, X {names}, y {target}, {n} rows"


def answers(model: Any, X: np.ndarray) -> list[np.ndarray]:
    if is_classifier(model):
        return [model.predict_proba(X)]
    p = model.predict_distribution(X)
    return [p.mean, p.std, *p.interval(0.95)]


def assert_saved(model: Any, X: np.ndarray, folder: Path, words: str = "") -> None:
    """Save, load, and compare the predictions of both to the bit."""
    try:
        model.save(folder / "m")
    except ValueError as error:
        raise AssertionError(f"{words}: {error}") from error
    loaded = load(folder / "m")
    for a, b in zip(answers(model, X), answers(loaded, X), strict=True):
        assert_array_equal(a, b, words)


def check(number: int, folder: Path) -> None:
    model, data, words = draw(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(**data)
        assert_saved(model, data["X"], folder, words)


def test_models_of_awkward_tables_are_saved(tmp_path: Path) -> None:
    for number in range(20):
        check(number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_models_of_many_awkward_tables_are_saved(part: int, tmp_path: Path) -> None:
    for number in range(20 + part, 220, 4):
        check(number, tmp_path)


# ---- Columns that are constant, or empty where it matters


def small(kind: type = PBPRegressorCV, n_bins: int | None = 6, cv: Any = 3, **options: Any) -> Any:
    noise = {"noise": options.pop("noise")} if "noise" in options else {}
    candidates = [Candidate(n_bins, (4,), None, **noise)]
    return kind(cv, candidates=candidates, budget="fast", random_state=0, **options)


@pytest.mark.parametrize("kind", [PBPRegressorCV, PBPClassifierCV])
@pytest.mark.parametrize("n_bins", [None, 6])
def test_a_constant_column_says_nothing(tmp_path: Path, kind: type, n_bins: int | None) -> None:
    """Rows with another value in it are predicted as if it were not there."""
    rng = RandomState(0)
    names = ["rounding", "one rounding", "shares", "constant", "large constant", "denormal"]
    X = np.column_stack([rng.standard_normal(60), *(columns(rng, 60)[k] for k in names)])
    y = X[:, 0] > 0.0 if kind is PBPClassifierCV else X[:, 0]
    model = small(kind, n_bins).fit(X, y)
    assert_saved(model, X, tmp_path)
    for value in (5.0, -1e9, 1e200):
        new = np.column_stack([X[:, 0], *np.full((len(names), 60), value)])
        for a, b in zip(answers(model, new), answers(model, X), strict=True):
            assert_allclose(a, b, rtol=1e-6)


def test_a_constant_column_stays_so_in_a_stream(tmp_path: Path) -> None:
    rng = RandomState(0)
    X = np.column_stack([rng.standard_normal(60), np.where(np.arange(60) % 2, 0.3, SUM)])
    model = small(noise="input").fit(X, X[:, 0])
    new = np.column_stack([X[:, 0], 1e12 * rng.standard_normal(60)])
    model.partial_fit(new, X[:, 0])
    assert_saved(model, new, tmp_path)
    assert np.abs(model.predict(new) - X[:, 0]).max() < 1.0


@pytest.mark.parametrize("n_bins", [None, 6])
def test_a_column_without_values_in_the_validation_set(tmp_path: Path, n_bins: int | None) -> None:
    """A replaced sensor: the noise network, say, is trained on rows that have no value of it."""
    rng = RandomState(0)
    x, names = rng.standard_normal(60), ["old sensor", "new sensor", "two values"]
    X = np.column_stack([x, *(columns(rng, 60)[k] for k in [*names, "first rows only"])])
    y = x * (1.0 + rng.standard_normal(60))
    for cv in (3, TimeSeriesSplit(3)):
        model = small(n_bins=n_bins, cv=cv, noise="input", missing="marginalize").fit(X, y)
        assert_saved(model, X, tmp_path, f"cv={cv}")


def test_a_column_that_is_nearly_constant_in_the_validation_set(tmp_path: Path) -> None:
    """In units of the out-of-fold rows, the first rows lie 1e9 standard deviations away."""
    rng = RandomState(0)
    X = np.column_stack([rng.standard_normal(200), columns(rng, 200)["settles"]])
    y = X[:, 0] * (1.0 + rng.standard_normal(200))
    model = small(cv=TimeSeriesSplit(2, test_size=45), noise="input").fit(X, y)
    assert_saved(model, X, tmp_path)
    std = model.predict_distribution(X).std
    assert std.max() < 10.0 * y.std()
