"""The figures of the pages on epochs and evidence cap, on few splits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.guide import evidence_caps

from made_splits import Parts, linear
from probprop import PBPRegressor, metrics

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def made_split(name: str, split: int) -> Parts:
    return linear(split, 100, 30, 3)


def test_a_run_has_the_scores_of_a_fit() -> None:
    curve = evidence_caps.measure("yacht", 3, 1.0, made_split)["curve"]
    (point,) = [point for point in curve if point["n_epochs"] == 40]
    X, y, X_test, y_test = made_split("", 3)
    predicted = (
        PBPRegressor(evidence_cap=1.0, random_state=3).fit(X, y).predict_distribution(X_test)
    )
    assert point["rmse"] == pytest.approx(metrics.rmse(y_test, predicted.mean), rel=1e-9)
    assert point["epistemic_std"] == pytest.approx(
        np.sqrt(np.mean(predicted.epistemic_std**2)), rel=1e-9
    )


def test_splits_of_diabetes_part_its_rows() -> None:
    X, y, X_test, y_test = evidence_caps.data_of("diabetes", 1)
    assert (len(X), len(y), len(X_test), len(y_test)) == (397, 397, 45, 45)
    rows = {tuple(row) for row in np.vstack([X, X_test])}
    assert rows == {tuple(row) for row in evidence_caps.data_of(evidence_caps._ALL_ROWS, 0)[0]}


def test_evidence_caps_write_their_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence_caps.main(["--splits", "2", "--results", str(tmp_path)], made_split)
    printed = capsys.readouterr().out
    names = ("diabetes", "boston", "yacht", "epochs", "std", "bounds")
    for name in names:
        assert (tmp_path / f"evidence_caps_{name}.md").read_text() in printed
    for name in ("boston", "yacht"):  # what needs no fit is as the pages have it
        page = (RESULTS / f"evidence_caps_{name}.md").read_text()
        assert (tmp_path / f"evidence_caps_{name}.md").read_text() == page
    rows = [
        json.loads(line) for line in (tmp_path / "evidence_caps.jsonl").read_text().splitlines()
    ]
    assert len(rows) == 3 + 2 * 3
    none, _, three = (
        [point["epistemic_std"] for point in row["curve"] if point["n_epochs"] in (40, 1000)]
        for row in rows[:3]
    )
    assert none[1] < 0.3 * none[0]
    assert three[1] == pytest.approx(three[0], rel=0.1)
    orders = [row["rank_correlation"] for row in rows if row["dataset"] == "diabetes"]
    assert f"after 400 epochs is {np.mean(orders):.2f}." in printed


def test_a_cell_is_a_mean_over_the_splits() -> None:
    runs = [json.loads(line) for line in (RESULTS / "epochs.jsonl").read_text().splitlines()]
    errors = [
        point["rmse"]
        for run in runs
        if run["dataset"] == "energy" and run["evidence_cap"] == 30.0
        for point in run["curve"]
        if point["n_epochs"] == 1000
    ]
    assert len(errors) == 20
    page = (RESULTS / "evidence_caps_bounds.md").read_text()
    assert f"to {np.mean(errors):.2f} with an evidence cap of 30 and 1000 epochs" in page
