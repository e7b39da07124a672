"""How the test scores go with the number of epochs, with and without a bound on the memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import RandomState

from probprop import metrics
from probprop.cli.methods import processor_seconds
from probprop.inference import prediction, training
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian
from probprop.inference.plan import Plan
from probprop_lab.experiments.harness import benchmark
from probprop_lab.experiments.harness.columns import Column, Record, Table, number, text
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.protocol import dataset_names
from probprop_lab.experiments.paper import epochs_figure
from probprop_lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_EPOCHS = (1, 2, 5, 10, 20, 40, 80, 160, 400, 1000)
"""Numbers of epochs after which a training run is judged."""

MEMORIES = (None, 3.0, 10.0, 30.0, 100.0)
"""Bounds on the memory, each with a training run of its own."""

_SCORES = ("rmse", "log_likelihood", "crps", "coverage_95")
_AVERAGED = (*_SCORES, "epistemic_std", "aleatoric_std", "seconds")
_SETS = ("boston_housing", "concrete", "energy", "wine_red", "yacht")


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, memory and split: a training run of 1,000 epochs.

    The runs of a split have one seed: they begin with the same weights.
    """
    benchmark.only_pbp("epochs", selection)
    longest = max(N_EPOCHS)
    found = benchmark.jobs("epochs", selection, lambda known: [((known.units,), longest)], _SETS)
    return [replace(job, memory=memory) for job in found for memory in MEMORIES]


def measure(job: Job) -> Row:
    """Train on the training part of a split, and judge on the test part along the way."""
    return {"curve": watch(job, *benchmark.load_split(job.dataset, job.split))}


def watch(
    job: Job,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    n_epochs: Sequence[int] = N_EPOCHS,
) -> list[Row]:
    """Return the scores after each of these numbers of epochs, all of one training run.

    The scores after n epochs are those of a fit of n epochs. The seconds are processor time of
    the training up to there, without the predictions.
    """
    plan, inputs = Plan(Gaussian(), job.hidden, memory=job.memory), Inputs(X)
    random_state = RandomState(job.seed)
    start = processor_seconds()
    before_all = training.start(plan, inputs, y, random_state)
    run = training.begin(plan, before_all, inputs, y, random_state)
    seconds = processor_seconds() - start
    points = []
    for before, n in pairwise([0, *n_epochs]):
        start = processor_seconds()
        (run,) = training.train(run, [n - before])
        seconds += processor_seconds() - start
        state = run.fitted
        predictive = prediction.predictive(
            plan, state.posterior, state.standardizer, Inputs(X_test)
        )
        scores = metrics.summary(y_test, predictive)
        points.append(
            {
                "n_epochs": n,
                **{name: scores[name] for name in _SCORES},
                "epistemic_std": float(np.sqrt(np.mean(predictive.epistemic_std**2))),
                "aleatoric_std": float(np.median(predictive.aleatoric_std)),
                "seconds": seconds,
            }
        )
    return points


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and number of epochs, with the means of every memory.

    Those of memory 3 are ``rmse_3``, with the standard error ``rmse_3_se``; without a bound
    ``rmse_none`` and so on. A memory that was not run has None.
    """
    place = {name: i for i, name in enumerate(dataset_names())}
    found: dict[tuple[str, int], dict[str, list[Row]]] = {}
    for row in rows:
        for point in row["curve"]:
            cells = found.setdefault((row["dataset"], point["n_epochs"]), {})
            cells.setdefault(label(row["memory"]), []).append(point)
    return [
        {
            "dataset": dataset,
            "n_epochs": n_epochs,
            "n_splits": max(len(points) for points in cells.values()),
            **{k: v for memory in MEMORIES for k, v in _means(cells, label(memory)).items()},
        }
        for (dataset, n_epochs), cells in sorted(
            found.items(), key=lambda item: (place[item[0][0]], item[0][1])
        )
    ]


def _means(cells: dict[str, list[Row]], memory: str) -> Record:
    points = cells.get(memory, [])
    record: Record = {}
    for name in _AVERAGED:
        values = [point[name] for point in points]
        mean, error = benchmark.mean_and_error(values) if values else (None, None)
        record |= {f"{name}_{memory}": mean, f"{name}_{memory}_se": error}
    return record


def label(memory: float | None) -> str:
    """Return a memory as text.

    Examples
    --------
    >>> label(None), label(30.0)
    ('none', '30')
    """
    return "none" if memory is None else f"{memory:g}"


def _title(memory: float | None) -> str:
    return "no bound" if memory is None else f"memory {memory:g}"


def _score(memory: str) -> Callable[[Record], str]:
    """Show the log-likelihood and, in brackets, the share in the 95 % interval."""

    def show(record: Record) -> str:
        value = record[f"log_likelihood_{memory}"]
        inside = record[f"coverage_95_{memory}"]
        return "" if value is None else f"{value:.2f} ({100.0 * inside:.0f} %)"

    return show


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the table of the errors: a column per memory that was run."""
    run = [m for m in MEMORIES if any(r[f"rmse_{label(m)}"] is not None for r in records)]
    header = ["data set", "epochs", *(_title(memory) for memory in run)]
    shown = [number(f"rmse_{label(memory)}", 3) for memory in run]
    cells = [[r["dataset"], str(r["n_epochs"]), *(show(r) for show in shown)] for r in records]
    return [("RMSE", (header, cells))]


def notes(records: Sequence[Record]) -> list[str]:
    """Say what the cells are, and which is the best of each set."""
    lines = [
        "log-likelihood and, in brackets, share in the 95 % interval, mean over the splits; "
        "40 epochs without a bound are the paper's protocol; the file of --csv has the standard "
        "errors too, and the standard deviations of the model and of the noise"
    ]
    for name in dict.fromkeys(record["dataset"] for record in records):
        cells = [
            (value, record["n_epochs"], memory)
            for record in records
            if record["dataset"] == name
            for memory in MEMORIES
            if (value := record[f"log_likelihood_{label(memory)}"]) is not None
        ]
        value, n_epochs, memory = max(cells, key=lambda cell: cell[0])
        lines.append(
            f"{name}: the highest log-likelihood, {value:.3f}, is that of {_title(memory)} after "
            f"{n_epochs} epochs"
        )
    return lines


def figures(rows: Sequence[Row]) -> list[tuple[Figure, str]]:
    """Draw log-likelihood, RMSE and coverage against the epochs."""
    lines = [(label(memory), _title(memory)) for memory in MEMORIES]
    return epochs_figure.figures(records(rows), lines)


EXPERIMENT = Experiment(
    name="epochs",
    title="Scores against the number of epochs",
    text="Every epoch absorbs the likelihood of every point again, so that the posterior narrows "
    "with the number of epochs. The error goes down for long; the share of test points inside "
    "the 95 % interval goes down with it, and on some sets the log-likelihood follows. A memory "
    "bounds the evidence that the posterior holds, in passes over the data.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("epochs", text("n_epochs")),
        Column("splits", text("n_splits")),
        *(Column(_title(memory), _score(label(memory))) for memory in MEMORIES),
    ],
    notes=notes,
    summaries=summaries,
    figures=figures,
)
