"""Shapley values: a brute-force oracle, and the sum, for arrays, frames, pipelines and classes."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from probprop import PBPClassifierCV, PBPRegressor, PBPRegressorCV, load, metrics
from probprop.estimators import shapley
from probprop.table import fit_table_model

RANDOM = np.random.RandomState(0)
FRAME = pd.DataFrame(
    {
        "area": RANDOM.gamma(4.0, 20.0, 200),
        "city": RANDOM.choice(["Ulm", "Bonn", "Bern"], 200),
        "garden": RANDOM.rand(200) < 0.3,
        "rooms": RANDOM.randint(1, 6, 200).astype(float),
    }
).mask(RANDOM.rand(200, 4) < 0.05)
WORTH = 2.0 * FRAME["area"].fillna(80.0) + 50.0 * (FRAME["city"] == "Bern")
PRICE = WORTH.to_numpy() + RANDOM.standard_normal(200) * 10.0


@cache
def fitted() -> PBPRegressorCV:
    return PBPRegressorCV(budget="fast", random_state=0, dtype="float64").fit(FRAME, PRICE)


def oracle(predict: Any, x: Any, background: Any) -> np.ndarray[Any, Any]:
    """The definition, with one coalition and one background sample at a time."""
    d = len(x)

    def value(known: tuple[int, ...]) -> float:
        rows = [[x[j] if j in known else b[j] for j in range(d)] for b in background]
        return float(np.mean([predict(row) for row in rows]))

    values = np.zeros(d)
    for j in range(d):
        others = [k for k in range(d) if k != j]
        for s in range(d):
            weight = math.factorial(s) * math.factorial(d - s - 1) / math.factorial(d)
            for known in combinations(others, s):
                values[j] += weight * (value((*known, j)) - value(known))
    return values


def test_frames_with_text_and_missing_values_agree_with_the_definition() -> None:
    model, background = fitted(), FRAME.iloc[:3]
    found = model.explain(FRAME.iloc[[7]], background)

    def std(cells: list[Any]) -> float:
        row = pd.DataFrame([cells], columns=FRAME.columns).astype(FRAME.dtypes)
        return float(model.predict(row, return_std=True)[1][0])

    want = oracle(std, FRAME.iloc[7].tolist(), background.to_numpy(object))
    np.testing.assert_allclose(found["std"].to_numpy()[1:], want, rtol=1e-6, atol=1e-9)
    assert found.index.get_level_values(1).tolist() == ["(baseline)", *FRAME]
    assert found["value"].iloc[2] == FRAME["city"].iloc[7]


def assert_sums(found: pd.DataFrame, want: Any) -> None:
    """Values of each sample add up to its predictions, (n, n_outputs)."""
    sums = found.drop(columns="value").groupby(level=0, sort=False).sum()
    np.testing.assert_allclose(sums, want, rtol=1e-9, atol=1e-6)


def test_values_and_baseline_add_up_to_the_prediction() -> None:
    model, rows = fitted(), FRAME.iloc[[3, 1, 4]]
    found = model.explain(rows)
    assert_sums(found, np.column_stack(model.predict(rows, return_std=True)))
    assert found.index.get_level_values(0).unique().tolist() == [3, 1, 4]
    baseline = found.xs("(baseline)", level=1)["mean"]
    training = FRAME.iloc[shapley.evenly(200, 100)]
    np.testing.assert_allclose(baseline, model.predict(training).mean(), rtol=1e-9)
    single = PBPRegressorCV(budget="fast", random_state=0).fit(FRAME, PRICE)
    pair = np.column_stack(single.predict(rows, return_std=True))
    assert_sums(single.explain(rows), pair)  # in single precision too


def test_many_columns_are_sampled_and_still_add_up() -> None:
    X = RANDOM.standard_normal((150, 14))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    model = PBPRegressor(10, n_epochs=10, random_state=0).fit(X, y)
    found = metrics.explain(model, X[:2], X)
    assert_sums(found, np.column_stack(model.predict(X[:2], return_std=True)))

    def value(known: Any, other: Any) -> Any:
        """Predict background samples with the known columns of the first sample."""
        return model.predict(np.where(known, X[0], X[other]))[:, np.newaxis]

    now, before = model.predict(X[:1]), model.predict(X[:6])[:, np.newaxis]
    exact = shapley._over_coalitions(value, now, before, 14)
    random = np.random.RandomState(0)
    sampled = shapley._over_orders(value, now, before, 14, random, n_pairs=300)
    np.testing.assert_allclose(sampled, exact, atol=0.02)
    assert np.abs(exact).max() > 0.2


def test_classes_pipelines_and_table_models() -> None:
    label = np.where(PRICE > 150.0, "dear", "cheap")
    classifier = PBPClassifierCV(budget="fast", random_state=0).fit(FRAME, label)
    found = classifier.explain(FRAME.iloc[[0]])
    assert list(found) == ["value", "cheap", "dear"]
    assert_sums(found, classifier.predict_proba(FRAME.iloc[[0]]))

    known = FRAME.dropna()
    rows, y = known.astype({"garden": bool}), PRICE[known.index]
    encode = make_column_transformer(
        (OneHotEncoder(), ["city"]), (StandardScaler(), ["area", "rooms"])
    )
    pipeline = make_pipeline(encode, PBPRegressor(10, n_epochs=10, random_state=0)).fit(rows, y)
    of_pipeline = metrics.explain(pipeline, rows.iloc[:2], rows)
    assert_sums(of_pipeline, np.column_stack(pipeline.predict(rows.iloc[:2], return_std=True)))
    assert of_pipeline.xs("garden", level=1)["mean"].abs().max() < 1e-10  # it is not used
    [ranked] = metrics.permutation_importance(pipeline, rows, y)
    assert ranked.names[0] == "area"
    assert ranked.loss[list(ranked.names).index("garden")].tolist() == [0.0] * 5

    table = fit_table_model(rows.assign(price=y), "price")
    of_table = metrics.explain(table, rows.iloc[:2], rows)
    assert_sums(of_table, np.column_stack(table.predict(rows.iloc[:2], return_std=True)))
    assert metrics.permutation_importance(table, rows, y)[0].names[0] == "area"


def test_models_from_files_ask_for_a_background(tmp_path: Any) -> None:
    fitted().save(tmp_path / "m.pbp")
    model: Any = load(tmp_path / "m.pbp")
    with pytest.raises(ValueError, match="background=None needs"):
        model.explain(FRAME.iloc[[0]])
    again = model.explain(FRAME.iloc[[0]], FRAME.iloc[:30])
    pd.testing.assert_frame_equal(again, fitted().explain(FRAME.iloc[[0]], FRAME.iloc[:30]))
