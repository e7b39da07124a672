"""Predictive densities compared with foundation models, on sets of a public benchmark.

Izbicki and Rodrigues (2026, arXiv 2603.26611) compare 22 methods of conditional density estimation.
``density_published.json`` has their log-likelihoods and CRPS, means over repetitions, for eleven
sets; the jobs here run probprop by the same protocol. Eight of the sets are files
``NAME.csv.gz`` without a header, the target in the last column, in the folder named by
``PROBPROP_DENSITY``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.metrics.scorers import predictive
from probprop_lab import datasets
from probprop_lab.clock import fit_and_predict
from probprop_lab.experiments.harness import benchmark, methods
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    Table,
    cells,
    number,
    share,
    text,
    with_error,
)
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.results import Row

FOLDER = "PROBPROP_DENSITY"
SIZES = (500, 1_000, 5_000)
N_REPETITIONS = 4
OF_UCI = {"Kin8nm": "kin8nm", "Protein": "protein", "NavalPropulsion": "naval"}
PUBLISHED: dict[str, dict[str, dict[str, dict[str, float]]]] = json.loads(
    Path(__file__).with_name("density_published.json").read_text()
)
"""Figures of the benchmark: set, samples, measure, method."""

_N_GRID = 200  # points at which the benchmark evaluates a density
_MARGIN = 0.05  # of the range of the training targets, beyond it on either side
_FLOOR = 1e-10  # of a density
_DIGITS = 4  # decimals of the published figures, to which ours are rounded for ranks


def jobs(selection: Selection) -> list[Job]:
    """Return a job per set, size, method and repetition; by default all sets, PBPRegressorCV."""
    names = [
        f"{name}, n = {size}"
        for size in SIZES
        for name in PUBLISHED
        if str(size) in PUBLISHED[name]
    ]
    if selection.datasets:
        known = {name.split(",")[0] for name in names}
        if unknown := [name for name in selection.datasets if name not in {*known, *names}]:
            raise ValueError(f"unknown sets {unknown}; the experiment density has {sorted(known)}")
        names = [n for n in names if {n, n.split(",")[0]} & {*selection.datasets}]
    return [
        Job("density", name, split, method, seed=1000 * selection.seed + split)
        for name in names
        for method in selection.methods or [methods.BEST]
        for split in range(N_REPETITIONS)[: selection.n_splits]
    ]


def check(jobs: Iterable[Job]) -> None:
    """Load each set once, so that what is missing is reported before any job is run."""
    jobs = list(jobs)
    methods.check(jobs, methods.KNOWN)
    for name in dict.fromkeys(job.dataset.split(",")[0] for job in jobs):
        load(name)


@lru_cache(maxsize=2)
def load(name: str) -> tuple[FloatArray, FloatArray]:
    """Return X, (n, d), and y, (n,), of a set; ValueError if its file is missing."""
    if name in OF_UCI:
        full = next(each for each in datasets.NAMES if each.startswith(OF_UCI[name]))
        found = datasets.load(full)
        return found.X, found.y
    folder = os.environ.get(FOLDER)
    path = Path(folder or ".") / f"{name}.csv.gz"
    if folder is None or not path.exists():
        raise ValueError(
            f"The set {name} is read from {name}.csv.gz in the folder named by {FOLDER}: no "
            "header, the target in the last column. Set it, or choose sets with --dataset."
        )
    table = np.loadtxt(path, delimiter=",")
    return table[:, :-1], table[:, -1]


def load_split(dataset: str, repetition: int) -> tuple[Array, Array, Array, Array]:
    """Return X_train, X_test, y_train and y_test by the protocol of the benchmark."""
    name, size = dataset.split(", n = ")
    X, y = load(name)
    rows = np.random.RandomState(42).permutation(len(y))[: int(size)]
    parts: list[Array] = train_test_split(X[rows], y[rows], test_size=0.25, random_state=repetition)
    return parts[0], parts[1], parts[2], parts[3]


def measure(job: Job) -> Row:
    """Fit a method on the training part of a repetition and score it on a grid of targets."""
    X_train, X_test, y_train, y_test = load_split(job.dataset, job.split)
    estimator = methods.KNOWN[job.method].make(job)
    found, seconds, told = fit_and_predict(estimator, X_train, y_train, X_test, predictive)
    lower, upper = found.interval(0.9)
    return {
        **on_a_grid(found, y_train, y_test),
        "exact_log_likelihood": float(np.mean(found.logpdf(y_test))),
        "exact_crps": float(np.mean(found.crps(y_test))),
        "coverage_90": float(np.mean((lower <= y_test) & (y_test <= upper))),
        "seconds": seconds,
        "n_train": len(y_train),
        "warnings": told,
    }


def on_a_grid(found: TargetDistribution, y_train: Array, y_test: Array) -> Row:
    """Return log-likelihood and CRPS as the benchmark computes them, from 200 densities.

    The density at a point is the mean over the cell around it, by differences of the cdf: a law
    with a support has a point mass at its end, which a density at the point would miss.

    >>> from probprop import Mixture
    >>> normal = Mixture.of_one(np.zeros(3), np.zeros(3), np.ones(3))
    >>> row = on_a_grid(normal, np.array([-8.0, 8.0]), np.array([-1.0, 0.0, 1.0]))
    >>> exact = float(normal.logpdf(np.array([-1.0, 0.0, 1.0])).mean())
    >>> abs(row["log_likelihood"] - exact) < 2e-3
    True
    """
    low, high = float(y_train.min()), float(y_train.max())
    margin = _MARGIN * (high - low)
    grid = np.linspace(low - margin, high + margin, _N_GRID)
    step = grid[1] - grid[0]
    edges = np.append(grid, grid[-1] + step) - 0.5 * step
    below = np.stack([found.cdf(np.full(len(y_test), y)) for y in edges], axis=1)
    density = np.diff(below, axis=1) / step
    density /= np.maximum(density.sum(axis=1, keepdims=True) * step, np.finfo(float).tiny)
    cdf = np.cumsum(density, axis=1) * step
    at_targets = [np.interp(y, grid, p) for y, p in zip(y_test, density, strict=True)]
    above = grid >= y_test[:, np.newaxis]
    return {
        "log_likelihood": float(np.mean(np.log(np.maximum(at_targets, _FLOOR)))),
        "crps": float(np.mean(((cdf - above) ** 2).sum(axis=1) * step)),
    }


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set, size and method, with its ranks among the published methods."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["dataset"], row["method"]), []).append(row)
    return [_record(*key, own) for key, own in found.items()]


def _record(dataset: str, method: str, rows: Sequence[Row]) -> Record:
    name, size = dataset.split(", n = ")
    record: Record = {"dataset": name, "n": int(size), "method": method, "n_splits": len(rows)}
    for key in ("log_likelihood", "crps", "coverage_90", "seconds"):
        record[key], record[f"{key}_se"] = benchmark.mean_and_error([row[key] for row in rows])
    for key, sign in (("log_likelihood", -1.0), ("crps", 1.0)):
        others = PUBLISHED[name][size][key]
        best = min(others, key=lambda each: sign * others[each])
        own = round(float(record[key]), _DIGITS)
        ahead = sum(sign * value < sign * own for value in others.values())
        record |= {f"{key}_rank": 1 + ahead, f"{key}_best": f"{others[best]:.4g} ({best})"}
    return record


def notes(records: Sequence[Record]) -> list[str]:
    """Say what the columns are."""
    return [
        "mean ± standard error over the repetitions; ranks, of figures rounded to the four "
        "decimals that are published, among the 22 methods of the benchmark and this one, which "
        "was run on the same sets with other rows for some of them; in brackets the best published "
        "value; 90 %: empirical coverage of the 90 % intervals; seconds: processor time of one fit"
    ]


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the mean ranks of all methods, a table per number of samples."""
    return [
        (f"Mean ranks, n = {size:,}", cells(_RANKS, mean_ranks(own)))
        for size in SIZES
        if (own := [record for record in records if record["n"] == size])
    ]


def mean_ranks(records: Sequence[Record]) -> list[Record]:
    """Return mean ranks over the sets of these records, of one size, the best first."""
    ranks: dict[str, dict[str, list[float]]] = {}
    for record in records:
        for key, sign in (("log_likelihood", -1.0), ("crps", 1.0)):
            others = PUBLISHED[record["dataset"]][str(record["n"])][key]
            own = round(float(record[key]), _DIGITS)
            values = {**others, f"probprop: {record['method']}": own}
            losses: Any = {method: sign * value for method, value in values.items()}
            for method, loss in losses.items():
                rank = 1 + sum(other < loss for other in losses.values())
                ranks.setdefault(method, {}).setdefault(key, []).append(float(rank))
    found: list[Record] = [
        {"method": method, "n_sets": len(by["crps"])}
        | {f"{key}_rank": float(np.mean(values)) for key, values in by.items()}
        for method, by in ranks.items()
    ]
    return sorted(found, key=lambda record: record["log_likelihood_rank"])


_RANKS = [
    Column("method", text("method")),
    Column("sets", text("n_sets")),
    Column("mean rank, log-likelihood", number("log_likelihood_rank", 3)),
    Column("mean rank, CRPS", number("crps_rank", 3)),
]

EXPERIMENT = Experiment(
    name="density",
    title="Predictive densities and foundation models",
    text="Eleven sets of the benchmark of conditional densities by Izbicki and Rodrigues (2026), "
    "by its protocol: n samples, three quarters to train on, densities on 200 points.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("n", text("n")),
        Column("method", text("method")),
        Column("repetitions", text("n_splits")),
        Column("log-likelihood", with_error("log_likelihood")),
        Column("rank", text("log_likelihood_rank")),
        Column("best published", text("log_likelihood_best")),
        Column("CRPS", with_error("crps")),
        Column("rank of the CRPS", text("crps_rank")),
        Column("best published CRPS", text("crps_best")),
        Column("90 %", share("coverage_90")),
        Column("seconds", number("seconds", 2)),
    ],
    notes=notes,
    summaries=summaries,
    check=check,
    cost=lambda job: float(job.dataset.split(" = ")[1]) * 1e6,
)
