"""An epoch in eight data shards compared with an epoch in one piece, on the same splits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.regressor import PBPRegressor
from probprop_lab.experiments.beyond import class_sets, classification
from probprop_lab.experiments.harness import benchmark
from probprop_lab.experiments.harness.columns import Column, Record, number, text, with_error
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.scoring import evaluate
from probprop_lab.results import Row

EVIDENCE_CAP = 3.0
N_EPOCHS = 40
N_SHARDS = {"one piece": None, "eight shards": 8}
"""The methods, with the `n_shards` of their estimators."""


class Case(NamedTuple):
    """What is fitted on a set."""

    dataset: str
    hidden: tuple[int, ...]
    n_splits: int
    evidence_cap: float | None = EVIDENCE_CAP


CASES = (
    Case("kin8nm", (50,), 5),
    Case("naval_propulsion", (50,), 5),
    Case("power_plant", (50,), 5),
    Case("protein", (50,), 2),
    Case("kin8nm", (50, 50), 20),
    Case("power_plant", (50, 50), 20),
    Case("kin8nm", (50,), 5, None),
    Case("power_plant", (50,), 5, None),
    Case("penbased", (50,), 5),
    Case("magic", (50,), 5),
)


def jobs(selection: Selection) -> list[Job]:
    """Return two jobs per case and split.

    Raises
    ------
    ValueError
        The selection has a set or a method that the experiment has not.
    """
    known = list(dict.fromkeys(case.dataset for case in CASES))
    names, sets = selection.methods or list(N_SHARDS), selection.datasets or known
    for given, there, what in ((names, N_SHARDS, "methods"), (sets, known, "sets")):
        if others := [name for name in given if name not in there]:
            raise ValueError(
                f"the experiment rounds has the {what} {', '.join(there)} only, not "
                f"{', '.join(others)}"
            )
    return [
        Job(
            "rounds",
            case.dataset,
            split,
            name,
            seed=1000 * selection.seed + split,
            hidden=case.hidden,
            n_epochs=N_EPOCHS,
            evidence_cap=case.evidence_cap,
        )
        for case in CASES
        if case.dataset in sets
        for split in range(case.n_splits)[: selection.n_splits]
        for name in names
    ]


def load_sets(jobs: Iterable[Job]) -> None:
    """Load each set of classes once, so that what is missing is reported before any job is run."""
    for name in dict.fromkeys(job.dataset for job in jobs):
        if name in class_sets.SIZES:
            class_sets.load(name)


def measure(job: Job) -> Row:
    """Fit on the training set of a split and score on its test set."""
    parameters: dict[str, Any] = {
        "n_epochs": job.n_epochs,
        "evidence_cap": job.evidence_cap,
        "random_state": job.seed,
        "n_shards": N_SHARDS[job.method],
    }
    if job.dataset not in class_sets.SIZES:
        split = benchmark.load_split(job.dataset, job.split)
        return evaluate(PBPRegressor(job.hidden, **parameters), *split)
    return classification.evaluate(
        PBPClassifier(job.hidden, **parameters), *class_sets.load_split(job.dataset, job.split)
    )


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per case: both log-likelihoods, and their difference over the splits."""
    found = []
    for case in CASES:
        own = [r for r in rows if _key(r) == (case.dataset, case.hidden, case.evidence_cap)]
        if pairs := _pairs(own):
            found.append(_record(case, pairs))
    return found


def _key(row: Row) -> tuple[str, tuple[int, ...], float | None]:
    return row["dataset"], tuple(row["hidden"]), row["evidence_cap"]


def _pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of both methods of every split that has both."""
    ordered = sorted(rows, key=lambda r: (r["split"], list(N_SHARDS).index(r["method"])))
    splits = [list(group) for _, group in groupby(ordered, lambda r: r["split"])]
    return [(both[0], both[1]) for both in splits if len(both) == len(N_SHARDS)]


def _record(case: Case, pairs: Sequence[tuple[Row, Row]]) -> Record:
    alone, shared = ([_log_likelihood(row) for row in side] for side in zip(*pairs, strict=True))
    gain, gain_se = benchmark.mean_and_error([b - a for a, b in zip(alone, shared, strict=True)])
    seconds = [sum(row["seconds"] for row in side) for side in zip(*pairs, strict=True)]
    return {
        "dataset": case.dataset,
        "hidden": "-".join(map(str, case.hidden)),
        "evidence_cap": "none" if case.evidence_cap is None else f"{case.evidence_cap:g}",
        "n_splits": len(pairs),
        "alone": benchmark.mean_and_error(alone)[0],
        "shared": benchmark.mean_and_error(shared)[0],
        "gain": gain,
        "gain_se": gain_se,
        "slower": seconds[1] / seconds[0],
    }


def _log_likelihood(row: Row) -> float:
    value = row["log_likelihood"] if "log_likelihood" in row else -row["log_loss"]
    return float(value)


def notes(records: Sequence[Record]) -> list[str]:
    """Say what the columns are, and where rounds lose more than one standard error."""
    worse = [r for r in records if r["gain_se"] is not None and r["gain"] < -r["gain_se"]]
    names = ", ".join(
        f"{r['dataset']} ({r['hidden']}, evidence cap {r['evidence_cap']})" for r in worse
    )
    return [
        "mean log-likelihood of test rows, in target units; of classes minus the log-loss; the "
        "difference is eight shards − one piece, ± its standard error over the splits",
        "processor time: eight shards in one thread divided by one piece; on sets of this size, "
        "whose slices have about fifty rows, most of it is the cost of a call",
        f"worse by more than a standard error: {names or 'nowhere'}",
    ]


EXPERIMENT = Experiment(
    name="rounds",
    title="One fit in eight data shards",
    text="PBPRegressor(n_shards=8) and PBPClassifier(n_shards=8), whose epochs are shared by "
    "eight data shards in synchronization rounds, compared with n_shards=None, sequential "
    "training. 40 epochs, the same splits and first weights.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("hidden", text("hidden")),
        Column("evidence cap", text("evidence_cap")),
        Column("splits", text("n_splits")),
        Column("one piece", number("alone")),
        Column("eight shards", number("shared")),
        Column("difference", with_error("gain")),
        Column("processor time", number("slower", 2)),
    ],
    notes=notes,
    check=load_sets,
)
