"""`reproduce auto`: its jobs, the paired differences, what is counted, the picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from probprop import PBPRegressor, PBPRegressorCV
from probprop.cli.application import run as run_command
from probprop_lab.experiments import EXPERIMENTS, Job, Selection, run_job
from probprop_lab.experiments.beyond import auto
from probprop_lab.experiments.harness import methods, protocol, report

AUTO = EXPERIMENTS["auto"]
Row = dict[str, Any]
CV, FAST = auto.CV, auto.CV_FAST
NOTHING = dict.fromkeys(("chosen_bins", "chosen_hidden", "chosen_evidence_cap", "chosen_epochs"))


def settings(n_bins: int | None, evidence_cap: float | None, n_epochs: int) -> Row:
    return dict(zip(NOTHING, (n_bins, [50], evidence_cap, n_epochs), strict=True))


def row(
    dataset: str,
    method: str,
    split: int,
    value: float,
    *,
    hidden: tuple[int, ...] = (50,),
    rmse: float = 1.0,
    coverage: float = 0.95,
    seconds: float = 1.0,
    chosen: Row = NOTHING,
) -> Row:
    """A row as the runner keeps it, with this log-likelihood."""
    job = Job("auto", dataset, split, method, seed=split, hidden=hidden)
    scores = {"log_likelihood": value, "rmse": rmse, "coverage_95": coverage, "seconds": seconds}
    more = {"crps": 1.0, "calibration_error": 0.1, "warnings": []}
    return {**job.fields, **scores, **more, **chosen}


def pair(dataset: str, gains: list[float], coverage: float = 0.95) -> list[Row]:
    """PBP, and PBPRegressorCV above it by these gains."""
    rows = [row(dataset, "PBP", i, float(i), rmse=2.0) for i in range(len(gains))]
    return rows + [
        row(
            dataset,
            CV,
            i,
            i + gain,
            rmse=1.0 + i,
            coverage=coverage,
            seconds=30.0,
            chosen=settings(32, 3.0, 100 + 100 * i),
        )
        for i, gain in enumerate(gains)
    ]


# ---- The jobs


def test_the_default_is_nine_sets_three_methods_and_two_depths() -> None:
    jobs = AUTO.jobs(Selection())
    assert {job.method for job in jobs} == set(methods.OURS)
    assert len({job.dataset for job in jobs}) == 9
    assert {job.n_epochs for job in jobs} == {40}
    n_splits = {name: 0 for name in protocol.dataset_names()[:-1]}
    for job in jobs:
        if (job.method, len(job.hidden)) == ("PBP", 2):
            n_splits[job.dataset] += 1
    assert (n_splits["yacht"], n_splits["kin8nm"]) == (10, 3)
    assert sum(n_splits.values()) == 5 * 10 + 4 * 3
    assert {job.hidden for job in jobs if job.dataset == "protein"} == {(100,), (100, 100)}


def test_what_chooses_its_layers_is_run_once() -> None:
    jobs = AUTO.jobs(Selection(["yacht"], 2, methods=[CV, "PBP"]))
    assert [len(job.hidden) for job in jobs if job.method == CV] == [1, 1]
    assert [len(job.hidden) for job in jobs if job.method == "PBP"] == [1, 1, 2, 2]


def test_a_selection_is_obeyed() -> None:
    jobs = AUTO.jobs(Selection(["kin8nm"], 7, methods=["PBP"]))
    assert len(jobs) == 2 * 7
    with pytest.raises(ValueError, match=r"auto has the methods PBP, .* only, not GP"):
        AUTO.jobs(Selection(["yacht"], methods=["PBP", "GP"]))


def test_what_is_compared_is_made_from_the_job() -> None:
    job = Job("auto", "naval_propulsion", 0, seed=7, hidden=(8, 8))
    made = {name: methods.find(name, AUTO.methods).make(job) for name in methods.OURS}
    # A constant column is at 0, unlike in Table 1.
    assert type(made["PBP"]) is PBPRegressor
    expected = PBPRegressor((8, 8), random_state=7).get_params()
    assert made["PBP"].get_params() == expected
    cv = {budget: PBPRegressorCV(budget=budget, random_state=7) for budget in ("fast", "good")}
    assert made[FAST].get_params() == cv["fast"].get_params()
    assert made[CV].get_params() == cv["good"].get_params()


# ---- A row


@pytest.mark.parametrize("method", ["PBP", FAST])
def test_a_row_says_what_was_chosen(method: str, every_split_is: Callable[..., None]) -> None:
    X, y = load_diabetes(return_X_y=True)
    parts = X[:40], y[:40], X[40:60], y[40:60]
    every_split_is(parts)
    found = run_job(Job("auto", "yacht", 0, method, seed=3, hidden=(2,)))
    assert json.loads(json.dumps(found)) == found
    if method != FAST:
        assert {k: found[k] for k in NOTHING} == NOTHING
        return
    group = PBPRegressorCV(budget="fast", random_state=3).fit(*parts[:2]).groups_[0]
    candidate = group.candidate
    expected = candidate.n_bins, [*candidate.layers], candidate.evidence_cap, group.n_epochs
    assert tuple(found[k] for k in NOTHING) == expected


# ---- Differences


def test_differences_are_paired_within_a_network() -> None:
    deep = [
        row("yacht", "PBP", 0, 50.0, hidden=(50, 50)),
        row("yacht", FAST, 0, 40.0, hidden=(50, 50)),
    ]
    alone = [row("yacht", CV, 9, 1000.0)]  # a split PBP was not run on
    records = {
        (r["method"], r["n_layers"]): r for r in AUTO.records(pair("yacht", [0.1, 0.5]) + deep)
    }
    first = records[CV, 1]
    assert (first["base"], first["network"]) == ("PBP", "chosen")
    assert first["log_likelihood_gain"] == pytest.approx(0.3)
    assert first["log_likelihood_gain_se"] == pytest.approx(0.2)
    assert first["rmse_gain"] == pytest.approx(-0.5)  # 1 and 2 against 2
    assert first["rmse_gain_se"] == pytest.approx(0.5)
    assert first["slower"] == pytest.approx(30.0)
    assert records["PBP", 1]["log_likelihood_gain"] is None
    assert records[FAST, 2]["log_likelihood_gain"] == pytest.approx(-10.0)
    assert records["PBP", 2]["network"] == "50-50"
    more = AUTO.records(pair("yacht", [0.1, 0.5]) + alone)
    assert [r["log_likelihood_gain"] for r in more if r["method"] == CV] == [pytest.approx(0.3)]


def test_all_are_compared_with_the_papers_protocol() -> None:
    values = {"PBP": 0.0, FAST: 5.0, CV: 8.0}
    rows = [row("yacht", name, 0, value) for name, value in values.items()]
    gains = {r["method"]: r["log_likelihood_gain"] for r in AUTO.records(rows)}
    assert gains == {**values, "PBP": None}
    [(title, (_, cells))] = report.summaries(AUTO, rows)
    assert title == "Differences on the same splits"
    assert [line[2] for line in cells] == [
        "PBPRegressorCV fast − PBP",
        "PBPRegressorCV − PBP",
    ]


def test_the_lines_of_a_network_are_adjacent() -> None:
    rows = [
        row(name, method, 0, 0.0, hidden=hidden)
        for method in methods.OURS
        for hidden in ((50,), (50, 50))
        for name in ("yacht", "energy")
    ]
    found = [(r["dataset"], r["hidden"], r["method"]) for r in AUTO.records(rows)]
    assert found == [
        (name, hidden, method)
        for name in ("energy", "yacht")
        for hidden in ("50", "50-50")
        for method in methods.OURS
    ]


def test_what_was_chosen_is_summed_up() -> None:
    tables = dict(report.summaries(AUTO, pair("yacht", [0.1, 0.5])))
    header, cells = tables["What was chosen (number of splits)"]
    line = dict(zip(header, cells[0], strict=True))
    assert (line["features"], line["hidden"]) == ("32 bins (2)", "50 (2)")
    assert (line["evidence cap"], line["median epochs"]) == ("3 (2)", "150")
    raw = [row("yacht", CV, i, 0.0, chosen=settings(None, None, 40 - i)) for i in range(3)]
    assert auto.choices(raw)["encodings"] == "as they are (3)"
    assert auto.choices([row("yacht", "PBP", 0, 0.0)])["evidence_caps"] is None


# ---- What is counted


def test_the_notes_count_sets() -> None:
    rows = [
        *pair("boston_housing", [0.1, 0.3], coverage=0.90),
        *pair("kin8nm", [0.1, 0.2], coverage=0.981),
        *pair("wine_red", [-0.3, 0.1]),  # -0.1 ± 0.2: lower, but within a standard error
        *pair("yacht", [-0.3, -0.1], coverage=0.80),  # -0.2 ± 0.1
    ]
    (line,) = [note for note in AUTO.notes(AUTO.records(rows)) if " against " in note]
    assert line == (
        "PBPRegressorCV against PBP with one hidden layer: the log-likelihood is higher on 2 of 4 "
        "sets (1 of the 3 with up to 2,000 rows), lower by more than one standard error on yacht "
        "(-0.20 ± 0.10); the 95 % interval covers 90 % to 98 % of the targets on 2 of 4, not on "
        "kin8nm (98.1 %), yacht (80.0 %)"
    )


def test_one_split_says_nothing_of_standard_errors() -> None:
    (line,) = [n for n in AUTO.notes(AUTO.records(pair("yacht", [-1.0]))) if " against " in n]
    assert "higher on 0 of 1 sets" in line
    assert "standard error" not in line


# ---- What is written


def test_the_tables_are_in_the_markdown_and_the_report(tmp_path: Path) -> None:
    rows = pair("yacht", [0.1, 0.5])
    text = report.markdown(AUTO, rows)
    assert (
        "| yacht | chosen | PBPRegressorCV | 2 | 1.50 ± 0.50 | 0.80 ± 0.70 | 1 | 95.0 % | 30 |"
        in text
    )
    assert "| yacht | chosen | PBPRegressorCV − PBP | 2 | 0.30 ± 0.20 | -0.50 ± 0.50 | 30 |" in text
    report.write_html(tmp_path / "r.html", AUTO, rows)
    assert (tmp_path / "r.html").read_text().count("data:image/svg+xml;base64,") == 1


def test_the_picture_shows_gains_and_coverages() -> None:
    [(figure, words)] = AUTO.figures(pair("yacht", [0.1, 0.5]) + pair("energy", [1.0, 1.0], 0.9))
    gains, coverages = figure.axes
    assert [label.get_text() for label in gains.get_yticklabels()] == ["energy", "yacht"]
    marks = [container.lines[0].get_xydata()[0] for container in gains.containers]
    np.testing.assert_allclose(marks, [[1.0, 0.0], [0.3, 1.0]])
    ours = [x for x in coverages.lines if x.get_label() == CV]
    np.testing.assert_allclose([line.get_xydata()[0] for line in ours], [[0.9, 0.0], [0.95, 1.0]])
    assert words.endswith("energy, yacht")
    assert AUTO.figures([r for r in pair("yacht", [0.1]) if r["method"] == "PBP"]) == []


def test_the_command_shows_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps(found) + "\n" for found in pair("yacht", [0.1, 0.5])]
    Path("rows.jsonl").write_text("".join(lines))
    asked = "--show --results rows.jsonl --splits 2 --dataset yacht"
    assert run_command(["reproduce", "auto", *asked.split()]) == 0
    out, err = capfd.readouterr()
    assert out.index("CRPS") < out.index("PBPRegressorCV − PBP") < out.index("median epochs")
    assert "PBPRegressorCV against PBP" in err
