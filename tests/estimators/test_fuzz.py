"""500 small fits, every option with every kind of data: a clear refusal, or a model that works.

What is drawn follows from the number of the fit alone. To see one of them again: ``draw(17)``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier

from probprop import PBPClassifier, PBPRegressor, load

pytestmark = pytest.mark.slow

N_FITS, N_PARTS = 500, 10
REFUSALS = (
    "contains a value too large for dtype",
    "X has no value at all in the column(s)",
    "Sample weights must contain at least one non-zero number",
    "y must have samples of at least 2 classes",
    "Nothing was learned",
    "in y do not exist in the initial classes",
)


def odd_columns(rng: RandomState, n: int, d: int) -> tuple[np.ndarray, list[str]]:
    """Return features, some of them odd, and what is odd about each."""
    X, what = rng.standard_normal((n, d)), []
    for j in range(d):
        kind = rng.choice(
            ["plain", "constant", "zero", "offset", "outlier", "tiny", "huge", "same", "binary"]
        )
        column = {
            "constant": np.full(n, 7.5),
            "zero": np.zeros(n),
            "offset": X[:, j] + 1e9,
            "outlier": np.where(np.arange(n) == n // 2, 1000.0, X[:, j]),
            "tiny": 1e-120 * X[:, j],
            "huge": 1e120 * X[:, j],
            "same": X[:, 0].copy(),
            "binary": (X[:, j] > 0.0).astype(float),
        }
        X[:, j] = column.get(kind, X[:, j])
        what.append(str(kind))
    return X, what


def odd_targets(rng: RandomState, f: np.ndarray) -> tuple[np.ndarray, str]:
    """Return a target that follows f, (n,), and what is odd about it."""
    n, kind = len(f), rng.choice(["plain", "offset", "outlier", "tiny", "huge", "constant", "skew"])
    y = f + 0.3 * rng.standard_normal(n)
    target = {
        "offset": y + 1e8,
        "outlier": np.where(np.arange(n) == 0, 1000.0, y),
        "tiny": 1e-100 * y,
        "huge": 1e100 * y,
        "constant": np.full(n, -2.5),
        "skew": np.exp(3.0 * y),
    }
    return target.get(kind, y), str(kind)


def labels_of(rng: RandomState, f: np.ndarray) -> tuple[np.ndarray, str]:
    kind = str(rng.choice(["two", "text", "many", "labels"]))
    if kind == "labels":
        return (f[:, np.newaxis] > rng.standard_normal(3)).astype(int), kind
    n_classes = 6 if kind == "many" else 2
    codes = np.searchsorted(np.sort(rng.standard_normal(n_classes - 1)), f)
    codes[: min(2, len(codes))] = [0, 1][: len(codes)]  # two classes at least
    return (np.array(["b", "a"])[codes] if kind == "text" else codes), kind


def draw(number: int) -> tuple[Any, dict[str, Any], str]:
    """Return an estimator, what to fit it to, and the words for both."""
    rng = RandomState(number)
    n, d = int(rng.choice([1, 2, 3, 8, 30, 60])), int(rng.choice([1, 2, 4]))
    X, of_X = odd_columns(rng, n, d)
    f = np.sin(2.0 * rng.standard_normal((n, 1)) + rng.standard_normal(n)[:, np.newaxis])[:, 0]
    options: dict[str, Any] = {
        "hidden_layer_sizes": [(4,), (), (3, 2), 5][rng.choice(4, p=[0.6, 0.1, 0.2, 0.1])],
        "n_epochs": int(rng.choice([1, 2, 5])),
        "evidence_cap": rng.choice([None, 1.0, 10.0, 1e307]),
        "standardize": bool(rng.uniform() < 0.7),
        "missing": str(rng.choice(["error", "marginalize"])),
        "dtype": str(rng.choice(["float64", "float32"])),
        "engine": str(rng.choice(["native", "reference"], p=[0.75, 0.25])),
        "random_state": int(number),
    }
    data: dict[str, Any] = {"X": X}
    if rng.uniform() < 0.35:
        data["y"], of_y = labels_of(rng, f)
        model: Any = PBPClassifier(**options)
    else:
        k = int(rng.choice([1, 1, 3]))
        targets, kinds = zip(*[odd_targets(rng, f) for _ in range(k)], strict=True)
        data["y"], of_y = targets[0] if k == 1 else np.column_stack(targets), ",".join(kinds)
        options["noise"] = str(rng.choice(["constant", "input"], p=[0.7, 0.3]))
        options["noise_tail"] = str(rng.choice(["gaussian", "heavy"], p=[0.7, 0.3]))
        model = PBPRegressor(**options)
        if rng.uniform() < 0.15:
            data["y_std"] = 0.1 * np.abs(np.std(data["y"], axis=0)) + np.zeros(data["y"].shape)
    if options["missing"] == "marginalize":
        X[rng.uniform(size=X.shape) < 0.2] = np.nan
    if rng.uniform() < 0.2:
        data["sample_weight"] = rng.choice([0.0, 0.5, 1.0, 4.0], n)
    if rng.uniform() < 0.15:
        data["X_std"] = np.abs(rng.standard_normal(d)) * 0.1
    if rng.uniform() < 0.2:
        with np.errstate(over="ignore", under="ignore"):
            single = X.astype(np.float32)
        if (np.isfinite(single) == np.isfinite(X)).all():  # else it is refused, as it should be
            data["X"] = single
    return model, data, f"{number}: {model}, n={n}, X {of_X}, y {of_y}, {sorted(data)}"


def answers(model: Any, X: np.ndarray) -> np.ndarray:
    """Return all that a model predicts, and check that it is a prediction."""
    predicted = model.predict_distribution(X)
    if is_classifier(model):
        proba = predicted.proba
        assert ((proba >= 0.0) & (proba <= 1.0)).all()
        if not model.multilabel_:
            np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
        return np.asarray(predicted.log_proba)
    assert np.isfinite(predicted.mean).all()
    assert (np.isfinite(predicted.std) & (predicted.std > 0.0)).all()
    assert (predicted.epistemic_std >= 0.0).all()
    lower, upper = predicted.interval(0.9)
    assert ((lower < upper) | (predicted.std < 1e-12 * np.abs(predicted.mean))).all()
    return np.array([predicted.mean, predicted.std])


def outcome(number: int, path: Path) -> str:
    """Fit one of them; return how that ended, and raise where it should not have ended so."""
    model, data, words = draw(number)
    try:
        model.fit(**data)
    except ValueError as error:
        return f"refused: {error}"
    # A sample of weight 0 may be too far from those that were learned.
    counts = np.flatnonzero(data.get("sample_weight", np.ones(len(data["y"]))))
    X, y = data["X"][counts], data["y"][counts]
    first = answers(model, X)
    model.save(path)
    assert_array_equal(answers(load(path), X), first, words)
    try:
        again = load(path).partial_fit(X[:7], y[:7])
        model.partial_fit(X[:7], y[:7])
    except ValueError as error:
        return f"refused: {error}"
    assert_array_equal(answers(again, X), answers(model, X), words)
    return "worked"


@pytest.mark.parametrize("part", range(N_PARTS))
def test_every_fit_works_or_is_refused(part: int, tmp_path: Path) -> None:
    ended: Counter[str] = Counter()
    failed = {}
    for number in range(part, N_FITS, N_PARTS):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "In .* updates", RuntimeWarning)
            try:
                ended[outcome(number, tmp_path / "m.pbp")] += 1
            except Exception as error:
                failed[draw(number)[2]] = repr(error)[:300]
    assert failed == {}
    assert ended["worked"] > 0.5 * ended.total()
    for reason in (how for how in ended if how.startswith("refused: ")):
        assert any(words in reason for words in REFUSALS), reason


def test_predictions_are_in_double_precision() -> None:
    rng = RandomState(0)
    X = rng.standard_normal((40, 2))
    y = 1e8 + X[:, 0]
    for engine in ("native", "reference"):
        for dtype in ("float64", "float32"):
            model = PBPRegressor((4,), n_epochs=5, random_state=0, engine=engine, dtype=dtype)
            mean, std = model.fit(X, y).predict(X, return_std=True)
            assert np.abs(mean - y).max() < 8.0 * std.max(), (engine, dtype)
            assert (mean != mean.astype(np.float32)).mean() > 0.9  # steps of 8
