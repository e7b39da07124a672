"""Trainings side by side: in threads of this process, or as tasks of a joblib backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import BACKENDS, get_active_backend

from probprop.inference import training
from probprop.inference.shards import Rows
from probprop.inference.training import Run

Step = Callable[[Sequence[Run], int, int], tuple[list[Run], BaseException | None]]
"""Makes so many epochs of every training, with so many threads, and says what ended them early."""

_OF_THIS_MACHINE = ("loky", "multiprocessing", "sequential", "threading")


def is_elsewhere() -> bool:
    """Whether a `joblib.parallel_config` names a backend with workers of its own, such as Dask.

    Those of this machine are left to the threads of the kernel, which copy no rows.
    """
    backend, _ = get_active_backend()
    kinds = [BACKENDS[name] for name in _OF_THIS_MACHINE if name in BACKENDS]
    return type(backend) not in kinds


def advance(
    runs: Sequence[Run], n_epochs: int, n_threads: int
) -> tuple[list[Run], BaseException | None]:
    """Make more epochs of every training, as `training.advance` does, to the same bits.

    Parameters
    ----------
    runs : sequence of Run
    n_epochs : int
    n_threads : int
        Of this process; a backend with workers of its own uses all of these.
    """
    if not is_elsewhere():
        return training.advance(runs, n_epochs, n_threads)
    # Arrays that are arguments of their own go to the workers once, however many runs share them.
    tasks = (delayed(advanced)(without_rows(run), n_epochs, *run.rows) for run in runs)
    made = Parallel(n_jobs=-1, batch_size=1)(tasks)
    return [with_rows_of(*pair) for pair in zip(made, runs, strict=True)], None


def advanced(run: Run, n_epochs: int, *rows: Any) -> Run:
    """Make the epochs of one training, on a worker; its rows do not come back."""
    (run,), interrupt = training.advance([run._replace(rows=Rows(*rows))], n_epochs)
    if interrupt is not None:
        raise interrupt
    return without_rows(run)


def without_rows(run: Run) -> Run:
    """Return a training as it goes over a network: its rows go on their own."""
    return run._replace(rows=Rows(run.rows.X[:0], None, run.rows.y[:0]))


def with_rows_of(run: Run, before: Run) -> Run:
    """Return a training that came back, with the rows that it had."""
    return run._replace(rows=before.rows)
