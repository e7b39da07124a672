"""The experiments: what they measure, and the tables next to the paper's numbers."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import probprop_lab.datasets
from probprop import PBPRegressor, metrics
from probprop.cli.application import run as run_command
from probprop_lab.datasets.registry import SOURCES
from probprop_lab.experiments import EXPERIMENTS, Job, Selection, cost, run_job
from probprop_lab.experiments.harness import methods, protocol, report, scoring
from probprop_lab.experiments.paper import authors_pbp, printed

NINE = [name for name in protocol.dataset_names() if name != "year_prediction_msd"]
needs_data = pytest.mark.skipif(
    not os.environ.get("PROBPROP_DATA"),
    reason="set PROBPROP_DATA to the folder of the raw benchmark files",
)


def made_row(job: Job, rmse: float, seconds: float = 0.5) -> dict[str, Any]:
    scores = {"rmse": rmse, "log_likelihood": -rmse, "crps": 0.1, "coverage_95": 0.9}
    more = {
        "calibration_error": 0.05,
        "epistemic_std": 0.3,
        "noise_variance": 4.0,
        "seconds": seconds,
    }
    return {**job.fields, **scores, **more}


def made_rows(what: str, selection: Selection, rmse: float = 1.0) -> list[dict[str, Any]]:
    jobs = EXPERIMENTS[what].jobs(selection)
    return [made_row(job, rmse + 0.1 * (job.split % 2)) for job in jobs]


# ---- The paper's numbers


def test_the_printed_numbers() -> None:
    assert len(protocol.dataset_names()) == 10
    assert str(printed.table1("boston_housing", "rmse")) == "3.014 ± 0.1800"
    assert str(printed.table1("kin8nm", "log_likelihood")) == "0.896 ± 0.006"
    assert printed.table1("year_prediction_msd", "rmse").se_text is None
    assert printed.table1("year_prediction_msd", "seconds").value == 6119
    assert [printed.deep("yacht", n).value for n in (1, 2, 3, 4)] == [1.015, 0.848, 0.893, 1.711]
    # Both tables print the same RMSE for one layer, but for protein and Year.
    same = [k for k in protocol.dataset_names() if printed.table1(k, "rmse") == printed.deep(k, 1)]
    assert set(protocol.dataset_names()) - set(same) == {"protein", "year_prediction_msd"}
    # The sum of the seconds of the nine sets, as the table has them.
    assert sum(printed.table1(k, "seconds").value for k in NINE) == 1157


def test_the_printed_numbers_of_the_other_methods() -> None:
    assert str(printed.table1("yacht", "rmse", "VI")) == "6.887 ± 0.6749"
    assert str(printed.table1("naval_propulsion", "log_likelihood", "VI")) == "3.734 ± 0.116"
    assert str(printed.table1("naval_propulsion", "rmse", "BP")) == "0.001 ± 0.0001"
    assert printed.table1("year_prediction_msd", "seconds", "VI").value == 142_077
    assert all(printed.table1(k, "log_likelihood", "BP") is None for k in protocol.dataset_names())
    assert [printed.deep("boston_housing", n, "BP").value for n in (1, 2, 3, 4)] == [
        3.228,
        3.185,
        3.019,
        2.874,
    ]
    # The two tables have one RMSE for BP with one layer, but for energy.
    other = [k for k in NINE if printed.table1(k, "rmse", "BP") != printed.deep(k, 1, "BP")]
    assert other == ["energy"]
    # As the paper counts: PBP has the lowest RMSE of the three on 6 of the 10 sets.
    means = [
        [printed.table1(k, "rmse", m).value for m in ("PBP", "VI", "BP")]
        for k in protocol.dataset_names()
    ]
    assert sum(pbp == min(pbp, vi, bp) for pbp, vi, bp in means) == 6
    assert sum(printed.table1(k, "seconds", "VI").value for k in NINE) == 30_903
    assert sum(printed.table1(k, "seconds", "BP").value for k in NINE) == 14_950
    assert printed.table1("yacht", "rmse", "HMC") is None
    assert printed.deep("yacht", 2, "VI") is None


def test_differences_are_in_combined_standard_errors() -> None:
    cell = printed.Printed("2.00", "0.03")
    assert cell.difference(2.105, 0.04) == pytest.approx(2.0)
    assert cell.difference(1.895, 0.04) == pytest.approx(-2.0)
    assert cell.difference(2.0049, 0.04) == 0.0  # would be printed as 2.00
    assert cell.difference(2.1, None) is None
    assert printed.Printed("2.00").difference(2.1, 0.04) is None


# ---- Jobs


def test_table1_has_the_jobs_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROBPROP_DATA", "PROBPROP_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    jobs = [job for job in EXPERIMENTS["table1"].jobs(Selection()) if job.method == "PBP"]
    assert len(jobs) == 8 * 20 + 5
    assert {job.dataset for job in jobs} == set(NINE)
    assert {job.dataset for job in jobs if job.hidden == (100,)} == {"protein"}
    assert {job.n_epochs for job in jobs} == {40}
    (tmp_path / SOURCES["year_prediction_msd"].file).touch()
    year = EXPERIMENTS["table1"].jobs(Selection())[-21:]
    assert [job.split for job in year if job.dataset == "year_prediction_msd"] == [0]


def test_deep_varies_the_layers() -> None:
    deep = EXPERIMENTS["deep"].jobs(Selection(["protein"], 1))
    assert [job.hidden for job in deep] == [(100,) * n for n in (1, 2, 3, 4)]
    for what in ("epochs", "t-approximation"):
        with pytest.raises(ValueError, match=f"{what} has the method PBP only"):
            EXPERIMENTS[what].jobs(Selection(["yacht"], methods=["PBP", "EBP"]))


def test_every_split_and_every_seed_has_its_own_weights() -> None:
    seeds = [
        job.seed for s in (0, 1) for job in EXPERIMENTS["deep"].jobs(Selection(["yacht"], None, s))
    ]
    assert len(set(seeds)) == 40


def test_an_unknown_set_is_named() -> None:
    with pytest.raises(ValueError, match="unknown data set mars: choose among boston_housing"):
        EXPERIMENTS["deep"].jobs(Selection(["mars"]))


def test_cost_grows_with_rows_weights_and_epochs() -> None:
    base = Job("epochs", "yacht", 0)
    assert cost(Job("epochs", "yacht", 0, n_epochs=80)) == 2 * cost(base)
    assert cost(Job("epochs", "protein", 0)) > 100 * cost(base)
    assert cost(Job("deep", "yacht", 0, hidden=(50, 50))) > 5 * cost(base)
    assert cost(Job("table1", "yacht", 0, "VI")) > 30 * cost(base)  # 30 fits to find its steps
    assert cost(Job("table1", "yacht", 0, "mine:factory")) > cost(base)


# ---- Fits


def test_a_fit_matches_the_public_regressor() -> None:
    X, y = load_diabetes(return_X_y=True)
    job = Job("table1", "diabetes", 0, seed=3, hidden=(7,), n_epochs=4)
    fitted, row = scoring.fit_and_score(job, X[:400], y[:400], X[400:], y[400:])
    assert fitted.random_state == 3
    model = PBPRegressor(7, n_epochs=4, random_state=3).fit(X[:400], y[:400])
    expected = metrics.summary(y[400:], model.predict_distribution(X[400:]))
    assert {k: row[k] for k in expected} == expected
    assert row["noise_variance"] == pytest.approx(model.noise_variance_, rel=1e-12)
    assert row["log_evidence"] == pytest.approx(model.log_evidence_, rel=1e-12)
    np.testing.assert_array_equal(fitted.predict(X[400:]), model.predict(X[400:]))


def test_a_constant_column_can_be_a_second_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_diabetes(return_X_y=True)
    X = np.column_stack([X, np.full(len(y), 0.998)])
    job = Job("table1", "diabetes", 0, hidden=(7,), n_epochs=4)
    parts = X[:400], y[:400], X[400:], y[400:]
    known = EXPERIMENTS["table1"].methods
    at_zero, zero_row = scoring.fit_and_score(job, *parts, known)
    monkeypatch.setitem(authors_pbp.ROUND_OFF, "diabetes", (10,))
    at_one, one_row = scoring.fit_and_score(job, *parts, known)
    assert zero_row["rmse"] != one_row["rmse"]
    plain = replace(job, method=methods.PLAIN)
    assert scoring.fit_and_score(plain, *parts, known)[1]["rmse"] == zero_row["rmse"]
    # At zero, nothing but the prior moves the column's weights.
    initial = np.random.RandomState(0).standard_normal((7, 12))[:, 10] / np.sqrt(12)
    signs = [
        np.abs(fitted.posterior_.m_w[0][:, 10]) / np.abs(initial) for fitted in (at_zero, at_one)
    ]
    assert np.ptp(signs[0]) < 1e-6 * signs[0].max() < np.ptp(signs[1])


@needs_data
def test_the_column_of_naval_is_its_constant_pressure() -> None:
    (column,) = authors_pbp.ROUND_OFF["naval_propulsion"]
    naval = probprop_lab.datasets.load("naval_propulsion")
    assert np.ptp(naval.X[:, column]) == 0.0
    assert naval.X[0, column] == 0.998  # not a sum of powers of two: its mean is rounded


@needs_data
def test_a_job_on_a_benchmark_set_is_near_the_authors_own(tmp_path: Path) -> None:
    authors = json.loads(
        (Path(__file__).parents[2] / "data").joinpath("authors_one_layer.json").read_text()
    )
    theirs = authors["results"]["boston_housing"]["splits"]
    rows = [run_job(Job("table1", "boston_housing", s, seed=s)) for s in range(5)]
    for row, expected in zip(rows, theirs, strict=False):
        assert row["rmse"] == pytest.approx(expected["rmse"], rel=0.15)
    assert (rows[0]["n_train"], rows[0]["n_test"]) == (455, 51)


# ---- Tables


def test_means_and_standard_errors_are_over_the_splits() -> None:
    rows = made_rows("table1", Selection(["yacht"]))
    (record,) = EXPERIMENTS["table1"].records(rows)
    assert record["n_splits"] == 20
    assert record["rmse"] == pytest.approx(1.05)
    assert record["rmse_se"] == pytest.approx(np.std([1.0, 1.1] * 10, ddof=1) / np.sqrt(20))
    combined = np.hypot(record["rmse_se"], 0.0542)
    assert record["rmse_difference"] == pytest.approx((1.05 - 1.0155) / combined)
    assert record["seconds_paper"] == 12
    assert record["speedup"] == pytest.approx(24)


def test_protein_is_next_to_both_printed_values() -> None:
    records = EXPERIMENTS["table1"].records(made_rows("table1", Selection(["protein"]), 4.7))
    assert [r["rmse_paper"] for r in records] == ["4.732 ± 0.0130", "4.688 ± 0.0115"]


def test_total_seconds_count_every_fit_once() -> None:
    rows = made_rows("table1", Selection(["protein", "naval_propulsion"]))
    notes = EXPERIMENTS["table1"].notes(EXPERIMENTS["table1"].records(rows))
    ours, papers = 25 * 0.5, 5 * 485 + 20 * 220
    assert f"PBP: 25 fits took {ours:.1f} s" in notes[1]
    assert f"{papers:,} s, {papers / ours:,.0f} times" in notes[1]


def test_deep_names_what_is_worse_than_the_paper() -> None:
    rows = made_rows("deep", Selection(["yacht"]))
    records = EXPERIMENTS["deep"].records(rows)
    assert [r["rmse_max"] for r in records] == [1.1] * 4
    assert [r["verdict"] for r in records] == ["", "worse", "", ""]  # 0.848, but 0.893 ± 0.0991
    notes = EXPERIMENTS["deep"].notes(records)
    assert notes[1].endswith("standard errors: yacht with 50-50")


@pytest.mark.parametrize("what", ["table1", "deep"])
def test_reports_hold_the_same_table(what: str, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[what]
    rows = made_rows(what, Selection(["yacht", "energy"], 3))
    header, cells = report.table(experiment, rows)
    assert all(len(line) == len(header) for line in cells)
    text = report.markdown(experiment, rows)
    assert text.count("\n|") == len(cells) + 2
    assert "| " + " | ".join(cells[-1]) + " |" in text
    records = list(csv.DictReader(io.StringIO(report.csv_text(experiment, rows))))
    assert len(records) == len(cells)
    assert float(records[0]["rmse"]) == experiment.records(rows)[0]["rmse"]
    report.write_html(tmp_path / "r.html", experiment, rows)
    html = (tmp_path / "r.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert html.count("data:image/svg+xml;base64,") == len(experiment.figures(rows))
    assert all(cell in html for cell in cells[0])


# ---- The results in the documentation

RESULTS = Path(__file__).parents[3] / "docs" / "results"


def committed(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


FIVE = ("boston_housing", "concrete", "energy", "wine_red", "yacht")  # all splits of VI were run


def of_pbp(name: str) -> list[dict[str, Any]]:
    return [row for row in committed(name) if row["method"].startswith("PBP")]


@pytest.mark.parametrize(
    "what", ["table1", "deep", "active", "epochs", "auto", "field", "acquisition"]
)
def test_the_tables_of_the_documentation_match_the_rows(what: str) -> None:
    # VI and BP have pages of their own.
    rows = of_pbp(what) if what in ("table1", "deep") else committed(what)
    text = report.markdown(EXPERIMENTS[what], rows)
    assert text == (RESULTS / f"{what}.md").read_text()


def test_no_deep_network_diverges_or_is_worse_than_the_paper() -> None:
    rows = of_pbp("deep")
    assert len(rows) == 4 * (8 * 20 + 5)
    assert max(row["prior_variance"] for row in rows) < 100.0
    assert not any(record["verdict"] for record in EXPERIMENTS["deep"].records(rows))


def test_the_log_likelihood_of_pbp_beats_vi() -> None:
    records = EXPERIMENTS["table1"].records(committed("table1"))
    gaps = {r["dataset"]: r["log_likelihood_gap"] for r in records if r["method"] == "VI"}
    assert all(gaps[name] > 0.0 for name in FIVE)


def test_table1_is_complete_and_agrees_with_the_paper() -> None:
    records = EXPERIMENTS["table1"].records(of_pbp("table1"))
    own = {r["label"]: r for r in records if r["label"] == r["dataset"]}
    assert set(own) == set(NINE)
    for name, record in own.items():
        assert record["n_splits"] == protocol.protocol(name).n_splits
        if name != "protein":
            assert abs(record["rmse_difference"]) <= 1.0
            assert abs(record["log_likelihood_difference"]) <= 1.0
    # The two values the paper prints for protein are 2.5 standard errors apart.
    (supplement,) = [r for r in records if r["label"] == "protein, supplement"]
    assert abs(supplement["rmse_difference"]) <= 2.0


def test_table1_agrees_with_the_authors_code_on_the_same_splits() -> None:
    path = (Path(__file__).parents[2] / "data") / "authors_one_layer.json"
    authors = json.loads(path.read_text())["results"]
    for record in EXPERIMENTS["table1"].records(of_pbp("table1")):
        if record["label"] == record["dataset"]:
            theirs = authors[record["dataset"]]
            for ours, key in (("rmse", "rmse"), ("log_likelihood", "ll")):
                combined = np.hypot(record[f"{ours}_se"], theirs[f"{key}_se"])
                assert abs(record[ours] - theirs[f"{key}_mean"]) <= combined


# ---- The command


def test_the_command_runs_once_and_then_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["reproduce", "toy", "--method", "PBP", "--jobs", "1", "--report", "t.html"]
    assert run_command([*arguments, "--markdown", "t.md", "--csv", "t.csv"]) == 0
    first = capfd.readouterr()
    assert "1 fit in " in first.err
    before = Path("reproduce-toy.jsonl").read_bytes()
    assert run_command(arguments) == 0
    second = capfd.readouterr()
    assert "1 fit of 1 found in reproduce-toy.jsonl" in second.err
    assert second.out == first.out
    assert first.out.splitlines()[0].split()[:2] == ["method", "RMSE"]
    assert Path("reproduce-toy.jsonl").read_bytes() == before
    assert Path("t.html").read_text().count("data:image/svg+xml;base64,") == 1
    assert Path("t.md").read_text().startswith("## The toy data")
    assert Path("t.csv").read_text().startswith("method,rmse,")
    assert run_command([*arguments, "--force", "--quiet"]) == 0
    assert len(Path("reproduce-toy.jsonl").read_bytes().splitlines()) == 1
    assert Path("reproduce-toy.jsonl").read_bytes() != before  # new seconds
    assert capfd.readouterr().err == ""


def test_missing_data_are_said_once_before_any_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise probprop_lab.datasets.DataError(f"{name}: put its file there")

    monkeypatch.setattr(probprop_lab.datasets, "load", missing)
    results = tmp_path / "r.jsonl"
    assert run_command(["reproduce", "deep", "--dataset", "yacht", "--results", str(results)]) == 1
    assert capfd.readouterr().err == "error: yacht: put its file there\n"
    assert not results.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["table9"], 2, "'table9' is not one of 'table1'"),
        (["table1", "--dataset", "mars"], 1, "unknown data set mars"),
        (["toy", "--jobs", "0"], 2, "greater than or equal to 1"),
        (["toy", "--results", "no/such/folder.jsonl"], 1, "there is no folder"),
        (["toy", "--dataset", "yacht"], 1, "has the data set toy_cubic only"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["reproduce", *arguments]) == code
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
