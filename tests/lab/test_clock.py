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
