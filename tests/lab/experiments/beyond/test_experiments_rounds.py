"""The experiment on rounds: its jobs, its one fit, and the differences it shows."""

from __future__ import annotations

import pytest

from probprop_lab.experiments import EXPERIMENTS, Job, Selection, run_job
from probprop_lab.experiments.beyond import rounds


def test_jobs_are_pairs_of_every_case_and_split() -> None:
    jobs = EXPERIMENTS["rounds"].jobs(Selection())
    assert len(jobs) == 2 * sum(case.n_splits for case in rounds.CASES)
    assert len({job.key for job in jobs}) == len(jobs)
    few = EXPERIMENTS["rounds"].jobs(Selection(["protein"], 1, seed=2))
    assert [(job.method, job.seed) for job in few] == [("one piece", 2000), ("eight shards", 2000)]
    for selection in (Selection(["yacht"]), Selection(methods=["VI"])):
        with pytest.raises(ValueError, match="the experiment rounds has the"):
            EXPERIMENTS["rounds"].jobs(selection)


def test_one_fit_of_each_method() -> None:
    found = [
        run_job(Job("rounds", "digits", 0, name, n_epochs=2, evidence_cap=3.0))
        for name in rounds.N_SHARDS
    ]
    assert found[0]["n_train"] == found[1]["n_train"] == 1617
    assert found[0]["log_loss"] != found[1]["log_loss"]
    assert min(row["accuracy"] for row in found) > 0.8


def test_differences_are_paired_over_the_splits() -> None:
    def row(split: int, method: str, value: float) -> dict:
        job = Job("rounds", "kin8nm", split, method, evidence_cap=3.0)
        return {**job.fields, "log_likelihood": value, "seconds": 1.0 + (method != "one piece")}

    rows = [row(0, "one piece", 1.0), row(1, "one piece", 2.0), row(2, "one piece", 9.0)]
    rows += [row(0, "eight shards", 0.8), row(1, "eight shards", 1.9)]
    (record,) = rounds.records(rows)
    assert record["n_splits"] == 2
    assert record["gain"] == pytest.approx(-0.15)
    assert record["gain_se"] == pytest.approx(0.05)
    assert record["slower"] == 2.0
    assert rounds.notes([record])[-1].endswith("kin8nm (50, evidence cap 3)")
