"""The runner: nothing that was done is lost, nothing is done twice, nothing is mixed up."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from probprop_lab.experiments import (
    Job,
    JobError,
    ResultsError,
    read_results,
    run,
    run_job,
    unfinished,
)
from probprop_lab.results import appending

Row = dict[str, Any]

VARYING = ("seconds", "finished")


def toy_jobs(n: int, n_epochs: int = 3) -> list[Job]:
    return [Job("toy", "toy_cubic", i, hidden=(5,), n_epochs=n_epochs) for i in range(n)]


def bad_job() -> Job:
    return Job("toy", "toy_cubic", 0, hidden=(0,))


def without_times(rows: list[Row]) -> list[str]:
    """Rows in a form that can be compared whatever their order."""
    return sorted(json.dumps({k: v for k, v in row.items() if k not in VARYING}) for row in rows)


def lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# ---- A row


def test_a_row_has_the_job_and_everything_the_tables_need() -> None:
    job = toy_jobs(1)[0]
    row = run_job(job)
    assert Job.of_row(row) == job
    needed = ["rmse", "log_likelihood", "crps", "coverage_95", "calibration_error", "seconds"]
    needed += ["noise_variance", "prior_variance", "n_train", "n_test", "n_undone", "n_guarded"]
    assert set(needed) <= set(row)
    assert json.loads(json.dumps(row)) == row


def test_jobs_that_differ_in_any_field_have_different_keys() -> None:
    job = Job("table1", "yacht", 0)
    others = [
        Job("deep", "yacht", 0),
        Job("table1", "energy", 0),
        Job("table1", "yacht", 1),
        Job("table1", "yacht", 0, method="BP"),
        Job("table1", "yacht", 0, seed=1),
        Job("table1", "yacht", 0, hidden=(50, 50)),
        Job("table1", "yacht", 0, n_epochs=41),
        Job("table1", "yacht", 0, evidence_cap=3.0),
    ]
    assert len({j.key for j in [job, *others]}) == 9


def test_rows_from_before_there_was_an_evidence_cap_are_those_without_one() -> None:
    job = Job("table1", "yacht", 3, seed=3)
    row = {name: value for name, value in job.fields.items() if name != "evidence_cap"}
    assert Job.of_row(row) == job
    assert Job.of_row(Job("epochs", "yacht", 0, evidence_cap=3.0).fields).evidence_cap == 3.0
    with pytest.raises(KeyError):
        Job.of_row({name: value for name, value in row.items() if name != "split"})


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(ValueError, match="experiment must be one of table1, deep"):
        run_job(Job("table9", "yacht", 0))


# ---- Resuming, and starting again


def test_finished_jobs_are_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    first = run(toy_jobs(3), path, n_jobs=1)
    ran: list[Job] = []
    rows = run(toy_jobs(5), path, n_jobs=1, progress=ran.append)
    assert ran == toy_jobs(5)[3:]
    assert rows[:3] == first
    assert [Job.of_row(row) for row in rows] == toy_jobs(5)
    assert len(lines(path)) == 5


def test_force_runs_again_and_leaves_other_rows_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    others = run(toy_jobs(4), path, n_jobs=1)
    ran: list[Job] = []
    rows = run(toy_jobs(2), path, n_jobs=1, force=True, progress=ran.append)
    assert ran == toy_jobs(2)
    assert without_times(lines(path)) == without_times(others)
    assert lines(path)[:2] == others[2:]  # the very rows, seconds too
    assert lines(path)[2:] == rows


def test_two_processes_give_the_rows_of_one(tmp_path: Path) -> None:
    one = run(toy_jobs(6), tmp_path / "1.jsonl", n_jobs=1)
    two = run(toy_jobs(6), tmp_path / "2.jsonl", n_jobs=2)
    assert without_times(two) == without_times(one)
    assert [Job.of_row(row) for row in two] == toy_jobs(6)


def test_a_job_given_twice_is_run_once(tmp_path: Path) -> None:
    assert len(run(toy_jobs(2) * 2, tmp_path / "r.jsonl", n_jobs=1)) == 2
    assert len(lines(tmp_path / "r.jsonl")) == 2


def test_a_failed_job_does_not_stop_the_others(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with pytest.raises(JobError, match=r"1 of 4 jobs failed.*toy_cubic, split 0: ValueError: each"):
        run([bad_job(), *toy_jobs(3)], path, n_jobs=1)
    assert unfinished([bad_job(), *toy_jobs(3)], path) == [bad_job()]


# ---- The file


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_half_a_last_line_is_dropped_and_its_job_run_again(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "r.jsonl"
    rows = run(toy_jobs(3), path, n_jobs=1)
    path.write_bytes(path.read_bytes()[:-cut])
    assert unfinished(toy_jobs(3), path) == toy_jobs(3)[2:]
    again = run(toy_jobs(3), path, n_jobs=1)
    assert without_times(lines(path)) == without_times(again) == without_times(rows)


def test_every_length_of_the_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    row = {**toy_jobs(1)[0].fields, "rmse": 1.5}
    with appending(path) as append:
        for split in range(3):
            append({**row, "split": split})
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        n_whole = whole[:length].count(b"\n")
        assert len(read_results(path)) == n_whole
        with appending(path) as append:
            append({**row, "split": 9})
        assert [r["split"] for r in lines(path)] == [*range(n_whole), 9]


def test_a_bad_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run(toy_jobs(3), path, n_jobs=1)
    first, _, third = path.read_text().splitlines()
    damaged = f"{first}\n{{bad\n{third}\n"
    path.write_text(damaged)
    with pytest.raises(ResultsError, match=r"r\.jsonl, line 2 is not a result"):
        run(toy_jobs(3), path, n_jobs=1)
    assert path.read_text() == damaged


@pytest.mark.parametrize("force", [False, True])
def test_rows_of_something_else_are_refused_and_kept(tmp_path: Path, force: bool) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"case": 3, "rmse": 1.5}\n')
    with pytest.raises(ResultsError, match=r"r\.jsonl has a row without the fields of a job"):
        run(toy_jobs(1), path, n_jobs=1, force=force)
    assert path.read_text() == '{"case": 3, "rmse": 1.5}\n'


def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with appending(path), pytest.raises(ResultsError, match="another run is writing"):
        run(toy_jobs(1), path, n_jobs=1)


def test_a_row_is_in_the_file_before_progress_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    seen = []
    run(toy_jobs(3), path, n_jobs=1, progress=lambda job: seen.append(len(lines(path))))
    assert seen == [1, 2, 3]


# ---- Killed and interrupted

KILLED_JOBS = [Job("toy", "toy_cubic", i, hidden=(20,), n_epochs=300) for i in range(60)]

_SCRIPT = """
import sys
from probprop_lab.experiments import Job, run
jobs = [Job("toy", "toy_cubic", i, hidden=(20,), n_epochs=300) for i in range(60)]
run(jobs, sys.argv[1], n_jobs=int(sys.argv[2]), progress=lambda job: print(job.split, flush=True))
"""


def start(path: Path, n_jobs: int) -> subprocess.Popen[bytes]:
    # A group of its own, so that its workers can be ended with it.
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(path), str(n_jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    return run(KILLED_JOBS, tmp_path_factory.mktemp("rows") / "undisturbed.jsonl", n_jobs=1)


# Two processes are killed less often only because each start takes them seconds.
@pytest.mark.parametrize(("n_jobs", "n_kills"), [(1, 10), (2, 2)])
@pytest.mark.process
def test_killed_and_resumed_gives_the_same_rows(
    tmp_path: Path, undisturbed: list[Row], n_jobs: int, n_kills: int
) -> None:
    path = tmp_path / "killed.jsonl"
    rng = random.Random(n_jobs)
    n_rows = [0]
    for _ in range(n_kills):
        process = start(path, n_jobs)
        assert process.stdout is not None
        process.stdout.readline()  # at least one row is there
        time.sleep(rng.uniform(0.0, 0.03))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        n_rows.append(len(read_results(path)))
    assert all(a < b for a, b in pairwise(n_rows))
    assert n_rows[-1] < len(KILLED_JOBS)  # or the last kills hit nothing
    rows = run(KILLED_JOBS, path, n_jobs=n_jobs)
    assert without_times(rows) == without_times(undisturbed)
    assert without_times(lines(path)) == without_times(undisturbed)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.process
def test_interrupted_keeps_what_is_done(tmp_path: Path, n_jobs: int) -> None:
    path = tmp_path / "r.jsonl"
    process = start(path, n_jobs)
    assert process.stdout is not None
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: the workers too
    _, errors = process.communicate()
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in errors
    assert 1 <= len(lines(path)) < 60
