"""`reproduce epochs`: training runs scored along the way, their tables and pictures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from probprop import PBPRegressor, metrics
from probprop_lab.experiments import EXPERIMENTS, Job, Selection, run_job
from probprop_lab.experiments.harness import report
from probprop_lab.experiments.paper import epochs

EPOCHS = EXPERIMENTS["epochs"]
Row = dict[str, Any]


def small_parts() -> tuple[np.ndarray, ...]:
    X, y = load_diabetes(return_X_y=True)
    return X[:60], y[:60], X[60:90], y[60:90]


def made_rows(datasets: list[str], n_splits: int = 2) -> list[Row]:
    """Rows whose log-likelihood is -1/epochs minus the evidence cap and a tenth of the split."""
    rows = []
    for job in EPOCHS.jobs(Selection(datasets, n_splits)):
        curve = [
            {
                **dict.fromkeys(("rmse", "crps", "coverage_95"), 0.5),
                **dict.fromkeys(("epistemic_std", "aleatoric_std", "seconds"), 0.5),
                "n_epochs": n,
                "log_likelihood": -1.0 / n - (job.evidence_cap or 50.0) - 0.1 * job.split,
            }
            for n in epochs.N_EPOCHS
        ]
        rows.append({**job.fields, "curve": curve})
    return rows


def test_there_is_one_run_per_set_evidence_cap_and_split() -> None:
    jobs = EPOCHS.jobs(Selection(["yacht"], 2))
    assert len(jobs) == 2 * len(epochs.EVIDENCE_CAPS)
    for split in (0, 1):
        own = [job for job in jobs if job.split == split]
        assert [job.evidence_cap for job in own] == [None, 3.0, 10.0, 30.0, 100.0]
        assert len({job.seed for job in own}) == 1
    assert {job.n_epochs for job in jobs} == {1000}
    assert len({job.dataset for job in EPOCHS.jobs(Selection())}) == 5


@pytest.mark.parametrize("evidence_cap", [None, 3.0])
def test_a_point_of_a_run_is_a_fit_of_n_epochs(evidence_cap: float | None) -> None:
    X, y, X_test, y_test = small_parts()
    job = Job("epochs", "diabetes", 0, seed=5, hidden=(4,), evidence_cap=evidence_cap)
    points = epochs.watch(job, X, y, X_test, y_test, n_epochs=(1, 2, 7))
    assert [point["n_epochs"] for point in points] == [1, 2, 7]
    for point in points:
        model = PBPRegressor(4, n_epochs=7, evidence_cap=evidence_cap, random_state=5)
        model.fit(X, y, callback=lambda epoch, last=point["n_epochs"]: epoch.n_iter == last)
        predictive = model.predict_distribution(X_test)
        scores = metrics.summary(y_test, predictive)
        kept = ("rmse", "log_likelihood", "crps", "coverage_95")
        assert [point[name] for name in kept] == [scores[name] for name in kept]
        assert (point["aleatoric_std"] == predictive.aleatoric_std).all()
    assert np.all(np.diff([point["seconds"] for point in points]) > 0.0)


def test_the_runner_keeps_the_curve(every_split_is: Callable[..., None]) -> None:
    every_split_is(small_parts())
    row = run_job(Job("epochs", "diabetes", 0, hidden=(2,), n_epochs=1000, evidence_cap=10.0))
    assert row["evidence_cap"] == 10.0
    assert [point["n_epochs"] for point in row["curve"]] == list(epochs.N_EPOCHS)
    assert json.loads(json.dumps(row)) == row


def test_records_hold_the_means_of_every_evidence_cap() -> None:
    records = EPOCHS.records(made_rows(["yacht", "energy"]))
    assert len(records) == 2 * len(epochs.N_EPOCHS)
    found = next(r for r in records if r["dataset"] == "yacht" and r["n_epochs"] == 40)
    assert found["n_splits"] == 2
    assert found["log_likelihood_3"] == pytest.approx(-1.0 / 40 - 3.0 - 0.05)
    assert found["log_likelihood_3_se"] == pytest.approx(0.05)
    assert found["log_likelihood_none"] == pytest.approx(-1.0 / 40 - 50.0 - 0.05)


def test_an_evidence_cap_that_was_not_run_is_left_out() -> None:
    rows = [row for row in made_rows(["yacht"]) if row["evidence_cap"] in (None, 10.0)]
    assert report.table(EPOCHS, rows)[0] == [
        "data set",
        "epochs",
        "splits",
        "no cap",
        "evidence cap 10",
    ]
    [(_, (header, cells))] = report.summaries(EPOCHS, rows)
    assert header == ["data set", "epochs", "no cap", "evidence cap 10"]
    assert cells[0] == ["yacht", "1", "0.5", "0.5"]
    assert EPOCHS.notes(EPOCHS.records(rows))[-1].endswith("evidence cap 10 after 1000 epochs")
    assert len(EPOCHS.figures(rows)) == 3


def test_the_notes_name_the_best_cell() -> None:
    rows = made_rows(["yacht"], 1)
    rows[2]["curve"][4]["log_likelihood"] = 1.25  # evidence cap 10 after 20 epochs
    line = EPOCHS.notes(EPOCHS.records(rows))[-1]
    assert line == (
        "yacht: the highest log-likelihood, 1.250, is reached with evidence cap 10 after 20 epochs"
    )


def test_a_figure_per_measure_has_a_panel_per_set_and_a_line_per_evidence_cap() -> None:
    rows = made_rows(["concrete", "energy", "wine_red", "yacht"])
    drawn = EPOCHS.figures(rows)
    assert [words.split(" against")[0] for _, words in drawn] == [
        "log-likelihood",
        "RMSE",
        "inside the 95 % interval",
    ]
    panels = [ax for ax in drawn[0][0].axes if ax.get_visible()]
    assert [ax.get_title() for ax in panels] == ["concrete", "energy", "wine_red", "yacht"]
    lines = {c.get_label(): c.lines[0].get_xydata() for c in panels[3].containers}
    assert list(lines) == [
        "no cap",
        "evidence cap 3",
        "evidence cap 10",
        "evidence cap 30",
        "evidence cap 100",
    ]
    n = np.array([10, 20, 40, 80, 160, 400, 1000])
    np.testing.assert_allclose(lines["evidence cap 30"], np.column_stack([n, -1.0 / n - 30.05]))


def test_the_reports_hold_the_same_table(tmp_path: Path) -> None:
    rows = made_rows(["yacht", "energy"])
    header, cells = report.table(EPOCHS, rows)
    assert header[3:] == [
        "no cap",
        "evidence cap 3",
        "evidence cap 10",
        "evidence cap 30",
        "evidence cap 100",
    ]
    assert [line[:2] for line in (cells[0], cells[-1])] == [["energy", "1"], ["yacht", "1000"]]
    assert cells[0][2:4] == ["2", "-51.05 (50 %)"]
    assert report.table(EPOCHS, rows[::-1]) == (header, cells)  # in whichever order they came
    text = report.markdown(EPOCHS, rows)
    assert text.count("\n|") == 2 * (len(cells) + 2)
    records = list(csv.DictReader(io.StringIO(report.csv_text(EPOCHS, rows))))
    assert float(records[0]["log_likelihood_100"]) == EPOCHS.records(rows)[0]["log_likelihood_100"]
    report.write_html(tmp_path / "r.html", EPOCHS, rows)
    assert (tmp_path / "r.html").read_text().count("data:image/svg+xml;base64,") == 3
