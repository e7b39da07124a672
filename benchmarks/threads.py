"""Measure whether two fits in two threads run side by side: the native engine releases the GIL."""

from __future__ import annotations

import functools
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

from benchmarks.agreement import WrongAnswerError
from benchmarks.cases import N_ROWS, made_data
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Outcome
from probprop import PBPRegressor

_N_FEATURES = 13
_N_EPOCHS = 40

_data = functools.cache(made_data)


def run(effort: Effort) -> Outcome:
    """Time one fit, two in threads and, to see what the machine can spare, two in processes.

    In wall time, the only part that is: whether they run side by side is the question.
    """
    n_repetitions, n_epochs = effort.n_repetitions, effort.of(_N_EPOCHS)
    fit = functools.partial(_fit, n_epochs)
    spawn = multiprocessing.get_context("spawn")
    one: list[float] = []
    threads: list[float] = []
    processes: list[float] = []
    with ThreadPoolExecutor(2) as in_threads, ProcessPoolExecutor(2, spawn) as in_processes:
        for pool in (in_threads, in_processes):
            _two(pool, fit)  # starts the workers
        for repetition in range(n_repetitions):
            say(f"threads: repetition {repetition + 1} of {n_repetitions}")
            seconds, expected = timed(fit, time.perf_counter)
            one.append(seconds)
            for pool, times in ((in_threads, threads), (in_processes, processes)):
                seconds, answers = timed(functools.partial(_two, pool, fit), time.perf_counter)
                times.append(seconds)
                if answers != [expected, expected]:
                    raise WrongAnswerError(
                        f"threads: noise variances {answers} side by side, {expected} alone"
                    )

    rows = [[f"one fit of {N_ROWS:,} x {_N_FEATURES}, {n_epochs} epochs", *_cells(one, one, 1)]]
    rows += [["two, in two threads", *_cells(threads, one, 2)]]
    rows += [["two, in two processes", *_cells(processes, one, 2)]]
    return Outcome(
        title=f"Fits side by side (medians of {n_repetitions})",
        header=["what", "wall seconds", "throughput"],
        rows=rows,
        notes=[
            f"This machine has {os.cpu_count()} processors. Processes show what it has to spare:",
            "threads should do as well. In wall time, for that is the question, and without a",
            "target, for others may be using the machine.",
            "Checked: all of them learn the same noise variance, to the bit.",
        ],
        measured={
            "throughput_of_two_threads": 2.0 * median(one) / median(threads),
            "throughput_of_two_processes": 2.0 * median(one) / median(processes),
            "one_seconds_repetitions": one,
            "two_threads_seconds_repetitions": threads,
            "two_processes_seconds_repetitions": processes,
        },
    )


def _fit(n_epochs: int) -> float:
    X, y = _data(N_ROWS, _N_FEATURES)
    return PBPRegressor(n_epochs=n_epochs, random_state=1).fit(X, y).noise_variance_


def _two(pool: Executor, fit: Callable[[], float]) -> list[float]:
    return [future.result() for future in [pool.submit(fit) for _ in range(2)]]


def _cells(times: list[float], alone: list[float], n_fits: int) -> list[str]:
    return [f"{median(times):.3f}", f"{n_fits * median(alone) / median(times):.2f}"]
