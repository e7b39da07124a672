"""The figures of large tables, on few rows: what is measured, under which rule, and their page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.guide import large_fit, large_tables

from limits import Limits
from probprop import PBPRegressorCV, load, metrics

TABLE = "Friedman, 1,000 × 5"


@pytest.fixture(autouse=True)
def _a_thousand_rows_are_large(limits: Limits) -> None:
    limits.large_from(1_000, held_out=100, as_if=500)


@pytest.mark.parametrize(("rule", "n_networks"), [("large", 4), ("before", 10)])
def test_the_rule_matches_the_case(rule: str, n_networks: int) -> None:
    found = large_fit.figures(TABLE, rule, "fast", 500)
    assert found["networks"] == n_networks
    assert (found["n_rows"], found["n_features"]) == (1_000, 5)
    assert found["peak_bytes"] > 1e7
    json.dumps(found)


def test_figures_are_measured_on_the_test_rows() -> None:
    found = large_fit.figures(TABLE, "large", "fast", 500)
    X, y, X_test, y_test = large_fit.TABLES[TABLE](500)
    assert (len(y), len(y_test)) == (1_000, 500)
    model = PBPRegressorCV(budget="fast", random_state=0).fit(X, y)
    predicted = model.predict_distribution(X_test)
    assert found["rmse"] == metrics.rmse(y_test, predicted.mean)
    assert found["log_likelihood"] == np.mean(predicted.logpdf(y_test))


def test_the_command_is_measured(tmp_path: Path) -> None:
    found = large_fit.of_command(60, 5, tmp_path, 500)
    assert found["n_rows"] == 60
    assert found["networks"] == 10
    assert found["peak_bytes"] > 1e7
    assert found["seconds"] > 0.0
    model = load(tmp_path / "friedman.pbp")
    X_test, y_test = large_fit.make_friedman1(500, 5, noise=1.0, random_state=1)
    assert found["rmse"] == metrics.rmse(y_test, model.estimator.predict(X_test))


def test_the_page_has_a_line_per_case() -> None:
    measured: dict[str, Any] = {
        "n_rows": 100_000,
        "n_features": 10,
        "seconds": 61.2,
        "peak_bytes": 7.8e8,
        "log_likelihood": -1.43,
        "rmse": 1.01,
        "coverage": 0.951,
        "networks": 4,
        "n_epochs": 100,
    }
    rows = [large_tables.of_the_field(), *({**c, **measured} for c in large_tables.CASES)]
    lines = large_tables.page(rows).splitlines()
    assert len(lines) == 2 + len(rows)
    assert "| protein, 41,157 × 9 | as fewer rows | −2.206 | 3.611 | 97.0 % |" in lines[2]
    assert "| as a large table | −1.430 | 1.010 | 95.1 % | 61 | 0.8 | 4 × 100 |" in lines[3]


def test_cases_are_tables_that_there_are() -> None:
    of_estimators = [case for case in large_tables.CASES if case["rule"] != "command"]
    assert {case["table"] for case in of_estimators} < large_fit.TABLES.keys()
    assert Path(large_tables.FOLDER / "field.jsonl").exists()
