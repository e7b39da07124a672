"""Classification: PBP and its alternatives on real labeled sets."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from probprop._types import Array, FloatArray
from probprop.cli.comparing import lead
from probprop.metrics.classes import N_BINS, calibration_error
from probprop.metrics.scorers import log_probabilities
from probprop_lab.clock import fit_and_predict
from probprop_lab.experiments.beyond import auto, class_figure, class_methods, class_sets
from probprop_lab.experiments.harness import benchmark, comparison, standings
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    Table,
    cells,
    number,
    share,
    text,
    times,
    with_error,
)
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.results import Row

_AVERAGED = ("accuracy", "log_loss", "calibration_error", "seconds")
_SMALLEST = float(np.log(np.finfo(np.float64).eps))  # as in scikit-learn's log_loss


# ---- The jobs


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, method and split, grouped by set, the smallest first.

    Where a set has too many rows for a method, there is no job.

    Raises
    ------
    ValueError
        Nothing is left of the selection, or something in it is not known.
    """
    names = selection.datasets or list(class_sets.SIZES)
    known = class_methods.KNOWN
    methods = selection.methods or [k for k in known if selection.show or known[k].installed]
    class_sets.check(names)
    class_methods.check(methods)
    found = [
        Job(
            "classification",
            name,
            split,
            method,
            seed=1000 * selection.seed + split,
            evidence_cap=class_methods.EVIDENCE_CAP,
        )
        for name in names
        for method in methods
        if n_training(name) <= class_methods.KNOWN[method].max_rows
        for split in range(class_sets.N_SPLITS)[: selection.n_splits]
    ]
    if not found:
        raise ValueError(
            f"{', '.join(methods)}: these sets have too many rows for it; choose others"
        )
    return found


def n_training(dataset: str) -> int:
    """Return the training rows of a split."""
    return round((1.0 - class_sets.TEST_SHARE) * class_sets.SIZES[dataset].n)


def load_sets(jobs: Iterable[Job]) -> None:
    """Load each set once, so that what is missing is reported before any job is run.

    Raises
    ------
    ValueError
        A method's packages are not installed.
    """
    jobs = list(jobs)
    for method in dict.fromkeys(job.method for job in jobs):
        class_methods.KNOWN[method].check()
    for name in dict.fromkeys(job.dataset for job in jobs):
        class_sets.load(name)


def cost(job: Job) -> float:
    """Return the work in a job: in weight updates of PBP."""
    n, d, n_classes = class_sets.SIZES[job.dataset]
    n_outputs = 1 if n_classes == 2 else n_classes
    n_weights = (d + 1) * job.hidden[0] + (job.hidden[0] + 1) * n_outputs
    return float(n * job.n_epochs * n_weights) * class_methods.KNOWN[job.method].cost


# ---- One fit


def measure(job: Job) -> Row:
    """Fit a method on the training set of a split and score it on the test set."""
    estimator = class_methods.KNOWN[job.method].make(job)
    return evaluate(estimator, *class_sets.load_split(job.dataset, job.split))


def evaluate(estimator: Any, X_train: Array, y_train: Array, X_test: Array, y_test: Array) -> Row:
    """Fit a classifier on the training part and return what the tables need of it.

    The seconds are processor time of the fit alone. Its warnings are in the row.
    """
    log_proba, seconds, told = fit_and_predict(
        estimator, X_train, y_train, X_test, log_probabilities
    )
    # Stratified splits have every class in both parts, and classes_ is sorted.
    true = np.searchsorted(estimator.classes_, y_test)
    return {
        **scores(log_proba, true),
        "seconds": seconds,
        "n_train": len(y_train),
        "n_test": len(y_test),
        **auto.chosen(estimator),
        "warnings": told,
    }


def scores(log_proba: FloatArray, true: Array) -> Row:
    """Return accuracy, log-loss and calibration error.

    Probabilities below 2.2e-16 are raised to it, as in scikit-learn's ``log_loss``: for two classes
    it has no smaller ones. ``n_clipped`` is the number of rows whose class had one.

    Parameters
    ----------
    log_proba : ndarray of shape (n, n_classes)
    true : ndarray of shape (n,)
        Index of the class of each row.

    Examples
    --------
    >>> found = scores(np.log([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]))
    >>> found["accuracy"], round(found["log_loss"], 4), found["calibration_error"]
    (0.5, 0.837, 0.25)
    """
    log_p = log_proba[np.arange(len(true)), true]
    correct = log_proba.argmax(axis=1) == true
    return {
        "accuracy": float(np.mean(correct)),
        "log_loss": -float(np.mean(np.maximum(log_p, _SMALLEST))),
        "calibration_error": calibration_error(true, np.exp(log_proba)),
        "n_clipped": int(np.sum(log_p < _SMALLEST)),
    }


# ---- The table


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and method: means and standard errors over the splits.

    ``gap`` is the log-loss minus MLPClassifier's, over the splits both were run on; its
    standard error has the correction for splits that share rows (`lead`). ``rank`` is
    the rank in log-loss among the methods of the set, over the splits they share.
    """
    sets, methods = list(class_sets.SIZES), list(class_methods.KNOWN)

    def key(row: Row) -> tuple[int, int]:
        return sets.index(row["dataset"]), methods.index(row["method"])

    base = {
        (row["dataset"], row["split"], row["seed"]): row
        for row in rows
        if row["method"] == class_methods.BASE
    }
    found = [_record(list(group), base) for _, group in groupby(sorted(rows, key=key), key)]
    ranks = standings.ranks(rows, "log_loss")
    return [{**r, "rank": ranks[r["dataset"]].get(r["method"])} for r in found]


def _record(rows: Sequence[Row], base: dict[tuple[str, int, int], Row]) -> Record:
    name, method = rows[0]["dataset"], rows[0]["method"]
    record: Record = {
        "dataset": name,
        "n": class_sets.SIZES[name].n,
        "method": method,
        "n_layers": 1,
        "n_splits": len(rows),
        "splits": benchmark.ranges(sorted(row["split"] for row in rows)),
        "n_warned": sum(bool(row["warnings"]) for row in rows),
        "n_clipped": sum(row["n_clipped"] for row in rows),
        **auto.choices(rows),
    }
    for score in _AVERAGED:
        record[score], record[f"{score}_se"] = benchmark.mean_and_error([r[score] for r in rows])
    found = [(row, base.get((name, row["split"], row["seed"]))) for row in rows]
    pairs = [(row, other) for row, other in found if other is not None]
    if method == class_methods.BASE or not pairs:
        return {**record, "n_paired": 0, "gap": None, "gap_se": None, "of_seconds": None}
    gaps = [row["log_loss"] - other["log_loss"] for row, other in pairs]
    found_lead = lead(gaps, class_sets.TEST_SHARE)
    seconds = [sum(row["seconds"] for row in side) for side in zip(*pairs, strict=True)]
    return {
        **record,
        "n_paired": len(pairs),
        "gap": found_lead.mean,
        "gap_se": found_lead.se,
        "of_seconds": seconds[0] / seconds[1],
    }


def notes(records: Sequence[Record]) -> list[str]:
    """Describe the columns, the results of PBP, what was left out and what warned."""
    lines = [
        "mean ± standard error over the splits; calibration error: of the predicted class, in "
        f"{N_BINS} bins of its probability; above {class_methods.BASE}: mean difference in "
        "log-loss over the same splits, negative where it is better, ± its standard error, "
        "corrected for splits that share rows; rank: in log-loss, over the splits that all methods "
        "of a set have; seconds: of one fit on one thread"
    ]
    ours = [name for name in class_methods.KNOWN if name.startswith("PBP")]
    lines += [against(records, name) for name in ours]
    run = dict.fromkeys(record["method"] for record in records)
    large = [n for n in dict.fromkeys(r["dataset"] for r in records) if not _feasible("GP", n)]
    if "GP" in run and large:
        most = class_methods.KNOWN["GP"].max_rows
        lines.append(f"GP: run up to {most:,.0f} training rows, so not on {', '.join(large)}")
    for method in run:
        own = [record for record in records if record["method"] == method]
        lines += [comparison.warned(method, own), _clipped(method, own)]
    lines.append(comparison.fewer_splits(records, class_sets.N_SPLITS))
    return [line for line in lines if line]


def _feasible(method: str, dataset: str) -> bool:
    return n_training(dataset) <= class_methods.KNOWN[method].max_rows


def _clipped(method: str, records: Sequence[Record]) -> str:
    n = sum(record["n_clipped"] for record in records)
    return f"{method} gave {n} test rows' class a probability below 2.2e-16" if n else ""


def against(records: Sequence[Record], method: str) -> str:
    """Count the sets on which a method's log-loss is lower than with MLPClassifier."""
    own = [r for r in records if r["method"] == method and r["gap"] is not None]
    if not own:
        return ""
    lower = [record for record in own if record["gap"] < 0.0]
    others = [record["dataset"] for record in own if record["gap"] >= 0.0]
    return (
        f"{method}'s log-loss is lower than with {class_methods.BASE} on {len(lower)} of "
        f"{len(own)} sets{', not on ' if others else ''}{', '.join(others)}"
    )


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the results over all sets, and the selected hyperparameters."""
    names = dict.fromkeys(r["method"] for r in records if r["gap"] is not None)
    found: list[tuple[str, Table]] = []
    if names:
        header = ["method", "sets", "lower", "clearly lower", "clearly higher", "seconds"]
        lines = [_line(name, [r for r in records if r["method"] == name]) for name in names]
        title = (
            f"Compared with {class_methods.BASE}: sets with a lower log-loss, clearly so by two "
            "standard errors, and the median share of its seconds"
        )
        found.append((title, (header, lines)))
    if any(record["rank"] is not None for record in records):
        found.append(("Mean ranks in log-loss", standings.rank_table(records)))
    made = [record for record in records if record["evidence_caps"] is not None]
    if made:
        found.append(("What was chosen (number of splits)", cells(auto.CHOICES, made)))
    return found


def _line(method: str, records: Sequence[Record]) -> list[str]:
    own = [record for record in records if record["gap"] is not None]
    known = [record for record in own if record["gap_se"] is not None]
    limits = [(record["gap"], comparison.TOLERANCE * record["gap_se"]) for record in known]
    return [
        method,
        str(len(own)),
        str(sum(record["gap"] < 0.0 for record in own)),
        str(sum(gap < -limit for gap, limit in limits)),
        str(sum(gap > limit for gap, limit in limits)),
        times("of_seconds")({"of_seconds": statistics.median(r["of_seconds"] for r in own)}),
    ]


EXPERIMENT = Experiment(
    name="classification",
    title="Results of eight classifiers",
    text="PBPClassifier with its defaults (50 hidden units, 40 epochs, evidence cap 10), and "
    "PBPClassifierCV, which selects its hyperparameters by cross-validation, compared with "
    "scikit-learn's logistic regression, multi-layer perceptron and Gaussian process on "
    "standardized features, and two kinds of boosted trees, all with default parameters. Ten "
    "random stratified splits, nine tenths of the rows to fit and one tenth to test.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("method", text("method")),
        Column("splits", text("n_splits")),
        Column("accuracy", share("accuracy"), "Scores"),
        Column("log-loss", with_error("log_loss"), "Scores"),
        Column("rank", number("rank"), "Scores"),
        Column(f"above {class_methods.BASE}", with_error("gap"), "Scores"),
        Column("calibration error", with_error("calibration_error"), "Calibration and time"),
        Column("seconds", times("seconds"), "Calibration and time"),
    ],
    notes=notes,
    summaries=summaries,
    figures=lambda rows: class_figure.figures(records(rows)),
    methods=class_methods.KNOWN,
    check=load_sets,
    cost=cost,
)
