"""`reproduce missing`: the holes, the methods, the paired differences, the notes, the picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes

from probprop import PBPRegressor
from probprop.cli.application import run as run_command
from probprop.metrics import summary
from probprop_lab.experiments import EXPERIMENTS, Job, Selection, cost, run_job
from probprop_lab.experiments.beyond import missing

MISSING = EXPERIMENTS["missing"]
Row = dict[str, Any]


def row(dataset: str, method: str, split: int, value: float, *, rmse: float = 1.0) -> Row:
    """A row as the runner keeps it, with this log-likelihood."""
    job = Job("missing", dataset, split, method, seed=split)
    scores = {"log_likelihood": value, "rmse": rmse, "crps": 2.0 * rmse, "coverage_95": 0.95}
    return {**job.fields, **scores, "calibration_error": 0.1, "seconds": 1.0, "warnings": []}


def pair(dataset: str, gains: list[float], share: str = "10 %") -> list[Row]:
    """The mean in the place of what is missing, and marginalizing above it by these gains."""
    rows = [row(dataset, f"mean {share}", i, float(i), rmse=2.0) for i in range(len(gains))]
    return rows + [row(dataset, f"marginalize {share}", i, i + g) for i, g in enumerate(gains)]


ROWS = [
    row("yacht", "complete", 0, 9.0),
    *pair("yacht", [0.4, 0.6]),
    *pair("energy", [-0.1, -0.3]),
    *pair("yacht", [1.0, 1.0], "30 %"),
]


@pytest.fixture
def parts(every_split_is: Callable[..., None]) -> list[Any]:
    X, y = load_diabetes(return_X_y=True)
    found = [X[:150], y[:150], X[150:200], y[150:200]]
    every_split_is(found)
    return found


# ---- The jobs


def test_the_default_is_every_split_of_five_sets() -> None:
    jobs = MISSING.jobs(Selection())
    assert len(jobs) == 5 * 20 * 5
    assert {(job.hidden, job.n_epochs) for job in jobs} == {((50,), 40)}
    assert {job.method for job in jobs} == set(missing.METHODS)
    assert len({job.seed for job in jobs if job.dataset == "yacht"}) == 20
    marginal, filled = (
        cost(Job("missing", "yacht", 0, f"{m} 30 %")) for m in ("marginalize", "mean")
    )
    assert marginal > filled


def test_a_selection_is_obeyed() -> None:
    jobs = MISSING.jobs(Selection(["kin8nm"], 3, methods=["mean 10 %"]))
    assert [(job.dataset, job.method, job.split) for job in jobs] == [
        ("kin8nm", "mean 10 %", split) for split in range(3)
    ]
    with pytest.raises(ValueError, match=r"has the methods complete, .* only, not median"):
        MISSING.jobs(Selection(methods=["median"]))


# ---- One fit


def test_missing_entries_have_the_requested_share_and_are_nested() -> None:
    X = np.random.default_rng(0).standard_normal((2000, 5))
    few, many = (missing.with_holes(X, s, np.random.default_rng(3)) for s in missing.SHARES)
    for share, holed in zip(missing.SHARES, (few, many), strict=True):
        assert np.isnan(holed).mean() == pytest.approx(share, abs=4 * np.sqrt(share / X.size))
        assert_array_equal(holed[~np.isnan(holed)], X[~np.isnan(holed)])
    assert np.isnan(many[np.isnan(few)]).all()
    assert_array_equal(missing.with_holes(X, 0.0, np.random.default_rng(3)), X)


def test_rows_are_fits_with_the_same_missing_entries(parts: list[Any]) -> None:
    found = {
        name: run_job(Job("missing", "yacht", 0, name, seed=7, hidden=(4,), n_epochs=5))
        for name in ("complete", "marginalize 30 %", "mean 30 %")
    }
    assert json.loads(json.dumps(found)) == found
    X, y, X_test, y_test = parts
    model = PBPRegressor(4, n_epochs=5, random_state=7)
    rng = np.random.default_rng(7)
    holed, holed_test = (missing.with_holes(part, 0.3, rng) for part in (X, X_test))
    mean = np.nanmean(holed, axis=0)  # of the training rows, for the test rows too
    filled, filled_test = (np.where(np.isnan(p), mean, p) for p in (holed, holed_test))
    expected = {
        "complete": summary(y_test, model.fit(X, y).predict_distribution(X_test)),
        "mean 30 %": summary(y_test, model.fit(filled, y).predict_distribution(filled_test)),
    }
    model.set_params(missing="marginalize").fit(holed, y)
    expected["marginalize 30 %"] = summary(y_test, model.predict_distribution(holed_test))
    for name, scores in expected.items():
        for key in ("rmse", "log_likelihood", "crps"):
            assert_allclose(found[name][key], scores[key], rtol=1e-9)


# ---- The tables


def test_differences_are_taken_at_the_same_share() -> None:
    records = {(r["dataset"], r["method"]): r for r in MISSING.records(ROWS)}
    assert list(records)[:2] == [("energy", "marginalize 10 %"), ("energy", "mean 10 %")]
    assert list(records)[2] == ("yacht", "complete")
    yacht = records["yacht", "marginalize 10 %"]
    assert (yacht["base"], yacht["share"], yacht["treatment"]) == ("mean 10 %", 0.1, "marginalize")
    assert yacht["log_likelihood_gain"] == pytest.approx(0.5)
    assert yacht["log_likelihood_gain_se"] == pytest.approx(0.1)
    assert (yacht["rmse_gain"], yacht["crps_gain"]) == (-1.0, -2.0)
    assert records["yacht", "marginalize 30 %"]["log_likelihood_gain"] == pytest.approx(1.0)
    assert records["yacht", "mean 10 %"]["log_likelihood_gain"] is None


def test_the_notes_name_the_sets_it_does_not_help() -> None:
    notes = MISSING.notes(MISSING.records(ROWS))
    assert (
        "10 % missing: marginalizing has the better log-likelihood on 1 of 2 sets, by more than "
        "two standard errors on 1; not on energy (-0.20 ± 0.10)" in notes
    )
    assert (
        "10 % missing: marginalizing has the better RMSE on 2 of 2 sets, by more than two "
        "standard errors on 2" in notes
    )


def test_the_picture_has_a_mark_per_set_and_share() -> None:
    [(figure, words)] = MISSING.figures(ROWS)
    gains, coverages = figure.axes
    assert [label.get_text() for label in gains.get_yticklabels()] == ["energy", "yacht"]
    marks = [container.lines[0].get_xdata(orig=False) for container in gains.containers]
    assert_allclose(marks[0], [-0.2, 0.5])
    assert_allclose(marks[1], [1.0])
    assert len(coverages.lines) == 5  # two shares, each with what it is compared with; 95 %
    assert words.endswith("energy, yacht")
    assert MISSING.figures(ROWS[:1]) == []


def test_the_command_shows_a_file_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    arguments = ["reproduce", "missing", "--show", "--results", str(path)]
    assert run_command([*arguments, "--markdown", str(tmp_path / "table.md")]) == 0
    assert "marginalize" in capsys.readouterr().out
    text = (tmp_path / "table.md").read_text()
    assert "| yacht | none | complete | 1 | 1 | 9 |" in text
    assert "| yacht | 10 % | 2 | 0.50 ± 0.10 | -1 | -2 |" in text
