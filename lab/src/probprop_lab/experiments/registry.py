"""The experiments by name, and what runs their jobs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from probprop_lab.clock import CLOCK
from probprop_lab.experiments.beyond import (
    acquisition,
    auto,
    classification,
    density,
    field,
    missing,
    noise,
    rounds,
    tables,
)
from probprop_lab.experiments.harness import benchmark, methods, runner
from probprop_lab.experiments.harness.experiment import Experiment
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.paper import active, deep, epochs, t_approximation, table1, toy
from probprop_lab.results import Row, StrPath

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        table1,
        deep,
        active,
        toy,
        t_approximation,
        epochs,
        auto,
        field,
        classification,
        density,
        tables,
        missing,
        noise,
        rounds,
        acquisition,
    )
}
"""What `probprop reproduce` can run."""


def run_job(job: Job) -> Row:
    """Do one job and return its row.

    Parameters
    ----------
    job : Job

    Returns
    -------
    dict
        The fields of the job, what was measured, the clock of its seconds, the package's version
        and the time.
    """
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from probprop import __version__

    if job.experiment not in EXPERIMENTS:
        raise ValueError(
            f"experiment must be one of {', '.join(EXPERIMENTS)}, got {job.experiment!r}"
        )
    # The cores are for other jobs, and seconds on one are comparable. The limit does not reach jax,
    # whose programs here are sequential and keep one core busy anyway.
    with threadpool_limits(1), parallel_config("sequential"):
        measured = EXPERIMENTS[job.experiment].measure(job)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        **job.fields,
        **measured,
        "clock": CLOCK,
        "version": __version__,
        "finished": finished,
    }


def run(
    jobs: Iterable[Job],
    results_path: StrPath,
    *,
    n_jobs: int = -1,
    force: bool = False,
    progress: runner.Progress | None = None,
) -> list[Row]:
    """Run the jobs that have no result yet, in parallel, and return the rows of all.

    Every row is on the disk before the next is awaited: stop the run in any way, start it
    again, and it resumes with the jobs that are left. A cluster works as everywhere with
    joblib: call this inside ``joblib.parallel_config("dask")``.

    Parameters
    ----------
    jobs : iterable of Job
    results_path : str or path-like
        JSON Lines; created if it is missing.
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
    ValueError
        A method cannot be run here; no job was.
    JobError
        Some jobs failed. All the others were run, and their rows kept.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "toy.jsonl")
    >>> rows = run([Job("toy", "toy_cubic", 0, n_epochs=2)], path, n_jobs=1)
    >>> rows[0]["n_train"], rows == run([Job("toy", "toy_cubic", 0, n_epochs=2)], path)
    (20, True)
    """
    return runner.run(
        jobs,
        results_path,
        run_job,
        check=check,
        n_jobs=n_jobs,
        force=force,
        progress=progress,
    )


def check(jobs: Iterable[Job]) -> None:
    """Refuse jobs that cannot be run here, before any is run.

    Raises
    ------
    ValueError
        A method cannot be run, or its data cannot be had.
    """
    by_experiment: dict[str, list[Job]] = {}
    for job in jobs:
        by_experiment.setdefault(job.experiment, []).append(job)
    for name, group in by_experiment.items():
        experiment = EXPERIMENTS.get(name)
        if experiment is None:  # `run_job` says which there are
            continue
        if experiment.check is None:
            methods.check(group, experiment.methods)
        else:
            experiment.check(group)


def cost(job: Job) -> float:
    """Return the work in a job, in weight updates of PBP, to predict the time it takes."""
    experiment = EXPERIMENTS.get(job.experiment)
    if experiment is None or experiment.cost is None:
        return benchmark.cost(job)
    return experiment.cost(job)
