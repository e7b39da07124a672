"""Processor time: work counts, waiting does not, and rows say which clock they have."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from probprop_lab.clock import CLOCK, processor_seconds, wall_note
from probprop_lab.experiments import EXPERIMENTS, report
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.registry import run_job


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_waiting_takes_no_processor_time() -> None:
    start = processor_seconds()
    time.sleep(0.3)
    assert processor_seconds() - start < 0.2


def test_the_threads_of_a_process_add_up() -> None:
    start = processor_seconds()
    threads = [threading.Thread(target=busy, args=(0.1,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert processor_seconds() - start >= 0.3


def test_children_that_ended_are_included() -> None:
    code = "import time\nwhile time.process_time() < 0.3: pass"
    start = processor_seconds()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert processor_seconds() - start >= 0.25  # children are counted in hundredths


def test_rows_say_which_clock_they_have_and_tables_too() -> None:
    toy = EXPERIMENTS["toy"]
    row = run_job(Job("toy", "toy_cubic", 0, n_epochs=1))
    assert row["clock"] == CLOCK
    old = {key: value for key, value in row.items() if key != "clock"} | {"split": 1}
    assert "processor seconds" in report.table(toy, [row])[0]
    assert not any("wall" in note for note in report.notes(toy, [row]))
    for rows, says in (
        ([old], "seconds: wall time, from"),
        ([row, old], "seconds: of 1 of 2 fits wall time, from"),
    ):
        header = report.table(toy, rows)[0]
        assert "seconds" in header
        assert "processor seconds" not in header
        assert any(note.startswith(says) for note in report.notes(toy, rows))
    assert wall_note([]) == ""


def test_wall_time_does_not_count_next_to_processor_time() -> None:
    scores = dict.fromkeys(("rmse", "log_likelihood", "crps", "coverage_95"), 1.0)
    usual = {"dataset": "yacht", "seed": 0, "hidden": [50], "n_epochs": 40, **scores}
    usual |= {"calibration_error": 0.1, "warnings": []}

    def rows(method: str, clocks: str) -> list[dict[str, object]]:
        """Return a row per letter: two seconds of the processor, or nine on the wall."""
        kinds = {"p": {"clock": CLOCK, "seconds": 2.0}, "w": {"seconds": 9.0}}
        made = [{**usual, "method": method, **kinds[kind]} for kind in clocks]
        return [{**row, "split": i} for i, row in enumerate(made)]

    field = EXPERIMENTS["field"]
    plain, mixed, old = rows("PBP", "ppp"), rows("GP", "wpw"), rows("GP ARD", "www")
    both = field.records([*plain, *mixed])
    assert [(record["seconds"], record["slower"]) for record in both] == [(2.0, None), (2.0, 1.0)]
    assert [record["n_splits"] for record in both] == [3, 3]
    assert "processor seconds" in report.table(field, [*plain, *mixed])[0]
    assert not any("fits wall time" in note for note in report.notes(field, [*plain, *mixed]))
    assert [record["seconds"] for record in field.records([*plain, *old])] == [2.0, 9.0]
    notes = report.notes(field, [*plain, *mixed, *old])
    assert any(note.startswith("seconds: of 3 of 7 fits wall time") for note in notes)
