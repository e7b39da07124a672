"""Run jobs in parallel, keep every result at once, and resume where a run was stopped."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from probprop_lab.experiments.harness.job import Job
from probprop_lab.results import ResultsError, Row, StrPath, appending, read_rows

Progress = Callable[[Job], None]
Work = Callable[[Job], Row]
"""Does one job and returns its row; workers import it by its name."""


class JobError(RuntimeError):
    """Jobs failed; the results of the others are in the file."""


class _Outcome(NamedTuple):
    """What comes back from a worker: a row, or why there is none."""

    job: Job
    row: Row | None
    reason: str = ""
    details: str = ""


def run(
    jobs: Iterable[Job],
    results_path: StrPath,
    work: Work,
    *,
    check: Callable[[Sequence[Job]], None],
    n_jobs: int = -1,
    force: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """Run the jobs that have no result yet, in parallel, and return the rows of all.

    Every row is on the disk before the next is awaited.

    Parameters
    ----------
    jobs : iterable of Job
    results_path : str or path-like
        JSON Lines; created if it is missing.
    work : callable
        A function of a module, from a job to its row.
    check : callable
        Raises where some of the jobs to run cannot be run, before any is.
    n_jobs : int, default=-1
        Jobs at a time, each on one thread; -1 is as many as there are cores.
    force : bool, default=False
        Forget the results these jobs have in the file, and run them again.
    progress : callable, default=None
        Called with each job once its row is on the disk.

    Returns
    -------
    list of dict
        One row per job, in the order of the jobs.

    Raises
    ------
    JobError
        Some jobs failed. All the others were run, and their rows kept.
    """
    wanted = list({job.key: job for job in jobs}.values())
    failed: list[_Outcome] = []
    left = unfinished(wanted, results_path)  # refuses a file of something else
    check(wanted if force else left)
    forgotten = {job.key for job in wanted} if force else set()
    keep = (lambda row: Job.of_row(row).key not in forgotten) if force else None
    with appending(results_path, keep) as append:
        for outcome in _outcomes(unfinished(wanted, results_path), work, n_jobs):
            if outcome.row is None:
                failed.append(outcome)
                continue
            append(outcome.row)
            if progress is not None:
                progress(outcome.job)
    if failed:
        raise JobError(_explain(failed, len(wanted))) from RuntimeError(failed[0].details)
    found = read_results(results_path)
    return [found[job.key] for job in wanted]


def read_results(path: StrPath) -> dict[str, Row]:
    """Return the rows of a results file by the key of their job; of two, the later one.

    Raises
    ------
    ResultsError
        The file cannot be read, or a row is not the result of a job.
    """
    try:
        return {Job.of_row(row).key: row for row in read_rows(path)}
    except (KeyError, TypeError) as error:
        raise ResultsError(
            f"{os.fspath(path)} has a row without the fields of a job ({error}): give another file"
        ) from error


def unfinished(jobs: Sequence[Job], results_path: StrPath) -> list[Job]:
    """Return the jobs that have no row in the results file."""
    found = read_results(results_path)
    return [job for job in jobs if job.key not in found]


def finished(jobs: Sequence[Job], results_path: StrPath) -> list[Row]:
    """Return the rows of the jobs that have one in the results file."""
    found = read_results(results_path)
    return [found[job.key] for job in jobs if job.key in found]


def _outcomes(jobs: Sequence[Job], work: Work, n_jobs: int) -> Iterator[_Outcome]:
    """Yield what the workers bring, in the order in which they finish."""
    if not jobs:
        return
    from joblib import Parallel, delayed

    # Jobs differ by a factor of thousands: batches would keep short ones behind long ones.
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    with warnings.catch_warnings():
        # joblib replaces a worker that jax's compiled programs have made large, between jobs.
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        yield from parallel(delayed(_attempt)(work, job) for job in jobs)


def _attempt(work: Work, job: Job) -> _Outcome:
    """Run a job; a failure must not end the others, so it is brought back as text."""
    try:
        return _Outcome(job, work(job))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return _Outcome(job, None, reason, traceback.format_exc())


def _explain(failed: Sequence[_Outcome], n_jobs: int) -> str:
    first = failed[0]
    same = {outcome.reason for outcome in failed}
    more = "" if len(same) == 1 else f" (and {len(same) - 1} other reasons)"
    return (
        f"{len(failed)} of {n_jobs} jobs failed; what the others gave is kept; "
        f"{first.job.dataset}, split {first.job.split}: {first.reason}{more}"
    )
