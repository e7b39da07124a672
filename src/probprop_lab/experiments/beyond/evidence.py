"""How well the evidence chooses a network: beside cross-validation, and beside not choosing."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold, cross_val_score

from probprop import PBPRegressor
from probprop.estimators.selection import EVIDENCES, orderings
from probprop.metrics import log_likelihood_scorer
from probprop_lab.clock import processor_seconds
from probprop_lab.experiments.harness import benchmark
from probprop_lab.experiments.harness.columns import Column, Record, number, text, with_error
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job, Row
from probprop_lab.experiments.harness.judging import fit_and_judge
from probprop_lab.experiments.harness.protocol import dataset_names

NETWORKS = ((), (10,), (50,), (100,), (50, 50), (50, 50, 50))
"""The candidates: a linear model, then one to three hidden layers."""

N_ORDERINGS = 3  # the default of `select`
N_FOLDS = 5
_SETS = ("boston_housing", "concrete", "energy", "kin8nm", "wine_red", "yacht")


class Chooser(NamedTuple):
    """A way to choose among the networks of a split."""

    label: str
    criterion: Callable[[Row], float]
    """From the row of a network to its score; the highest is chosen."""
    seconds: Callable[[Row], float]
    """From the row of a network to the time that took."""


CHOOSERS = (
    Chooser(
        "evidence in blocks",
        lambda row: float(np.mean(row["blocks"])),
        lambda row: row["blocks_seconds"],
    ),
    Chooser(
        "evidence in blocks, one ordering",
        lambda row: row["blocks"][0],
        lambda row: row["blocks_seconds"] / N_ORDERINGS,
    ),
    Chooser(
        "evidence of the first pass",
        lambda row: float(np.mean(row["first_pass"])),
        lambda row: row["first_pass_seconds"],
    ),
    Chooser(
        f"{N_FOLDS}-fold cross-validation",
        lambda row: float(np.mean(row["folds"])),
        lambda row: row["folds_seconds"],
    ),
    Chooser("always 50 units", lambda row: float(row["hidden"] == [50]), lambda row: 0.0),
)


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, network and split; 40 epochs."""
    benchmark.only_pbp("evidence", selection)
    return benchmark.jobs(
        "evidence", selection, lambda found: [(hidden, 40) for hidden in NETWORKS], _SETS
    )


def measure(job: Job) -> Row:
    """Judge a network on the test part, and by each criterion on the training part alone.

    Its evidence is what `select` finds with the seed of the job as `random_state`: each network
    has its own job, and the orderings and folds are the same for all networks of a split.
    """
    X, y, X_test, y_test = benchmark.load_split(job.dataset, job.split)
    _, row = fit_and_judge(job, X, y, X_test, y_test)
    model = PBPRegressor(job.hidden, n_epochs=job.n_epochs, random_state=job.seed)
    seeds = orderings(job.seed, N_ORDERINGS)
    folds = KFold(N_FOLDS, shuffle=True, random_state=job.seed)

    def evidences(kind: str) -> list[float]:
        return [EVIDENCES[kind](model, X, y, seed) for seed in seeds]

    def on_folds() -> list[float]:
        scores = cross_val_score(model, X, y, scoring=log_likelihood_scorer, cv=folds)
        return [float(score) for score in scores]

    return {
        **row,
        **_timed("blocks", lambda: evidences("blocks")),
        **_timed("first_pass", lambda: evidences("first_pass")),
        **_timed("folds", on_folds),
    }


def _timed(name: str, scores: Callable[[], list[float]]) -> Row:
    start = processor_seconds()
    with warnings.catch_warnings():  # of fits that are thrown away
        warnings.simplefilter("ignore", RuntimeWarning)
        return {name: scores(), f"{name}_seconds": processor_seconds() - start}


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and way to choose, over the splits with all networks."""
    place = {name: i for i, name in enumerate(dataset_names())}
    ordered = sorted(rows, key=lambda row: (place[row["dataset"]], row["split"]))
    found: list[Record] = []
    for dataset, of_set in groupby(ordered, lambda row: row["dataset"]):
        splits = [list(group) for _, group in groupby(of_set, lambda row: row["split"])]
        whole = [split for split in splits if len(split) == len(NETWORKS)]
        found += [_record(dataset, chooser, whole) for chooser in CHOOSERS if whole]
    return found


def _record(dataset: str, chooser: Chooser, splits: Sequence[Sequence[Row]]) -> Record:
    """Say how one way to choose fared on the splits of one set."""
    chosen = [max(split, key=chooser.criterion) for split in splits]
    best = [max(row["log_likelihood"] for row in split) for split in splits]
    regrets = [b - row["log_likelihood"] for b, row in zip(best, chosen, strict=True)]
    regret, regret_se = benchmark.mean_and_error(regrets)
    log_likelihood, log_likelihood_se = benchmark.mean_and_error(
        [row["log_likelihood"] for row in chosen]
    )
    counts = Counter("-".join(map(str, row["hidden"])) or "linear" for row in chosen)
    seconds = [sum(chooser.seconds(row) for row in split) for split in splits]
    return {
        "dataset": dataset,
        "chooser": chooser.label,
        "n_splits": len(splits),
        "n_best": regrets.count(0.0),
        "regret": regret,
        "regret_se": regret_se,
        "log_likelihood": log_likelihood,
        "log_likelihood_se": log_likelihood_se,
        "chosen": ", ".join(f"{name} ({n})" for name, n in counts.most_common()),
        "seconds": float(np.mean(seconds)),
    }


def notes(records: Sequence[Record]) -> list[str]:
    """Say what the columns are, then sum each way to choose up over the sets."""
    lines = [
        "best: on how many splits the chosen network has the highest test log-likelihood; "
        "behind: by how much that of the best network is higher, mean ± standard error over the "
        "splits; seconds: to choose among the networks, on one core, without the last fit"
    ]
    for chooser in CHOOSERS:
        own = [record for record in records if record["chooser"] == chooser.label]
        if own:
            n_best, n = (sum(record[key] for record in own) for key in ("n_best", "n_splits"))
            behind = np.mean([record["regret"] for record in own])
            seconds = sum(record["seconds"] for record in own)
            lines.append(
                f"{chooser.label}: best on {n_best} of {n} splits; {behind:.3f} behind the best, "
                f"mean over the sets; {seconds:.2f} s for one split of each set"
            )
    return lines


EXPERIMENT = Experiment(
    name="evidence",
    title="Choosing the network by its evidence",
    text="Six networks, from a linear model to three hidden layers of 50 units, 40 epochs. One of "
    "them is chosen from the training part of each split by its evidence, as `probprop.select` "
    f"does with {N_ORDERINGS} orderings, or by the log-likelihood on {N_FOLDS} folds, and judged "
    "by its log-likelihood on the test part.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("chosen by", text("chooser")),
        Column("splits", text("n_splits")),
        Column("best", text("n_best")),
        Column("behind", with_error("regret")),
        Column("log-likelihood", with_error("log_likelihood")),
        Column("chosen (times)", text("chosen")),
        Column("seconds", number("seconds", 2)),
    ],
    notes=notes,
)
