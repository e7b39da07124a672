"""The same comparison on a user's own table: random splits, the table, and who wins."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from textwrap import shorten
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array
from probprop.inference.standardize import marginal, measure
from probprop.metrics.baseline import baseline_summary
from probprop_lab.clock import CLOCK
from probprop_lab.experiments.beyond import field
from probprop_lab.experiments.harness import benchmark, methods, standings
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    number,
    share,
    text,
    times,
    with_error,
)
from probprop_lab.experiments.harness.job import Job, Row
from probprop_lab.experiments.harness.judging import fit_and_judge

TEST_SHARE = 0.1
MIN_ROWS = 20
_LEVEL = 0.05  # of significance
_REASON_LENGTH = 200  # of the reason why a method failed: its start tells most


def score(key: str) -> Callable[[Record], str]:
    """Show a value in target units, which may be large.

    Examples
    --------
    >>> score("rmse")({"rmse": 21987.6}), score("rmse")({"rmse": 0.31416})
    ('21,988', '0.3142')
    """

    def show(record: Record) -> str:
        value = record[key]
        return f"{value:,.0f}" if 1e4 <= value < 1e9 else f"{value:.4g}"

    return show


COLUMNS = [
    Column("method", text("method")),
    Column("log-likelihood", number("log_likelihood")),
    Column("behind the first", with_error("behind")),
    Column("p", number("p", 2)),
    Column("RMSE", score("rmse")),
    Column("CRPS", score("crps")),
    Column("in 95 %", share("coverage_95")),
    Column("processor seconds", times("seconds")),
]


class Outcome(NamedTuple):
    """What a job gave: a row, or why there is none."""

    job: Job
    row: Row | None
    reason: str = ""


def jobs(table: str, n_rows: int, names: Sequence[str], n_splits: int, seed: int) -> list[Job]:
    """Return one job per method and split, without the methods such a table is too large for.

    Parameters
    ----------
    table : str
        Its name.
    n_rows : int
    names : sequence of str
        Names that `methods.find` knows.
    n_splits : int
    seed : int

    Raises
    ------
    ValueError
        There are too few rows, or a method cannot be run.

    Examples
    --------
    >>> [job.method for job in jobs("houses.csv", 10_000, ["PBP", "GP"], 2, 0)]
    ['PBP', 'PBP']
    """
    if n_rows < MIN_ROWS:
        raise ValueError(
            f"{table} has {n_rows} rows, too few to compare methods on: give at least {MIN_ROWS}"
        )
    n_train = n_rows - n_test(n_rows)
    found = [
        Job("compare", table, split, name, seed=1000 * seed + split)
        for name in names
        if field.feasible(name, n_train)
        for split in range(n_splits)
    ]
    if not found:
        raise ValueError(
            f"{table} has too many rows for {', '.join(names)}: choose other methods, or leave "
            "--method out"
        )
    methods.check(found)
    return found


def n_test(n_rows: int) -> int:
    """Return how many rows a split holds out."""
    return max(1, round(TEST_SHARE * n_rows))


def split(n_rows: int, seed: int) -> tuple[Array, Array]:
    """Return the rows to train and to test on, each in the order of the table.

    Examples
    --------
    >>> train, test = split(20, 0)
    >>> len(train), test
    (18, array([ 1, 18]))
    """
    order = RandomState(seed).permutation(n_rows)
    n = n_test(n_rows)
    return np.sort(order[n:]), np.sort(order[:n])


def run(X: Array, y: Array, jobs: Sequence[Job], n_jobs: int) -> Iterator[Outcome]:
    """Fit and judge, `n_jobs` at a time; yield outcomes in the order in which they finish.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        NaN where an entry is missing: see `filled`.
    y : ndarray of shape (n,)
    jobs : sequence of Job
    n_jobs : int
        Each fit has one core; -1 is as many fits at a time as there are cores.
    """
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        yield from parallel(delayed(_attempt)(X, y, job) for job in jobs)


def _attempt(X: Array, y: Array, job: Job) -> Outcome:
    """Run a job; the failure of one method must not end the others."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    train, test = split(len(y), job.seed)
    X = filled(X, train)
    try:
        with threadpool_limits(1):
            _, row = fit_and_judge(job, X[train], y[train], X[test], y[test])
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Outcome(job, None, shorten(reason, _REASON_LENGTH, placeholder=" …"))
    return Outcome(job, {**job.fields, **row, "clock": CLOCK})


def filled(X: Array, train: Array) -> Array:
    """Return X with the mean over the training rows, or 0, in place of what is missing.

    Most of the methods take no gaps, so all of them get the same numbers.

    Examples
    --------
    >>> filled(np.array([[1.0], [3.0], [np.nan], [9.0]]), train=np.array([0, 1, 2])).ravel()
    array([1., 3., 2., 9.])
    """
    missing = np.isnan(X)
    if not missing.any():
        return X
    n = np.maximum(1, (~missing[train]).sum(axis=0))
    return np.where(missing, np.nansum(X[train], axis=0) / n, X)


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per method, by log-likelihood, and how far it is behind the first.

    ``behind`` is the mean difference from the first over the splits with its standard error,
    ``p`` the probability of one as large by chance (`standings.lead`).

    Parameters
    ----------
    rows : sequence of dict
        Of methods that were all run on the same splits.
    """
    means = sorted(benchmark.mean_records(rows), key=lambda record: -record["log_likelihood"])
    first = _by_split(rows, means[0]["method"])
    share = rows[0]["n_test"] / (rows[0]["n_test"] + rows[0]["n_train"])
    none = standings.Lead(None, None, None)
    found = []
    for record in means:
        own = _by_split(rows, record["method"])
        gaps = [first[k] - own[k] for k in sorted(first)]
        mean, se, p = none if record is means[0] else standings.lead(gaps, share)
        found.append({**record, **field.gain(record), "behind": mean, "behind_se": se, "p": p})
    return found


def baseline(y: Array, rows: Sequence[Row]) -> list[str]:
    """Return the cells of one more line: mean and std of the training rows, for all test rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets of the whole table.
    rows : sequence of dict
        Of the methods: their splits are taken.
    """
    seeds = sorted({row["seed"] for row in rows})
    parts = [split(len(y), seed) for seed in seeds]
    found = [
        baseline_summary(y[test], *marginal(measure(y[train, np.newaxis]))[0])
        for train, test in parts
    ]
    scores = [each for each in found if each is not None]  # not all targets are the same
    if not scores:
        return ["baseline", *("" for _ in COLUMNS[1:])]
    mean = {k: float(np.mean([each[k] for each in scores])) for k in scores[0]}
    of_methods = {"behind": None, "behind_se": None, "p": None, "seconds": None}
    return ["baseline", *(column.show({**mean, **of_methods}) for column in COLUMNS[1:])]


def _by_split(rows: Sequence[Row], method: str) -> dict[int, float]:
    return {row["split"]: row["log_likelihood"] for row in rows if row["method"] == method}


def verdict(records: Sequence[Record]) -> str:
    """Say which method wins, and which of the others cannot be told from it.

    Examples
    --------
    >>> best = {"method": "GP", "n_splits": 5, "p": None}
    >>> verdict([best, {"method": "PBP", "behind": 0.1, "behind_se": 0.02, "p": 0.008}])
    'GP has the highest log-likelihood, and every other is significantly behind: PBP, the next, by 0.100 ± 0.020 (p = 0.008)'
    """  # noqa: E501
    first, *others = records
    leads = f"{first['method']} has the highest log-likelihood"
    if not others:
        return f"{first['method']} was run alone: there is nothing to compare it with"
    if first["n_splits"] < 2:
        return f"{leads} on one split, which says nothing of significance: take 5 or more"
    close = [record["method"] for record in others if record["p"] >= _LEVEL]
    nearest = others[0]
    by = f"{nearest['method']}, the next, by {with_error('behind')(nearest)} (p = "
    by += f"{nearest['p']:.2g})"
    if not close:
        return f"{leads}, and every other is significantly behind: {by}"
    return f"{leads}, but not significantly so against {', '.join(close)}: {by}"
