"""How the test scores go with the number of epochs, with and without an evidence cap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import RandomState

from probprop import metrics
from probprop.inference import prediction, training
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian
from probprop.inference.plan import Plan
from probprop_lab.clock import processor_seconds
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
"""Numbers of epochs after which a training run is scored."""

EVIDENCE_CAPS = (None, 3.0, 10.0, 30.0, 100.0)
"""Evidence caps, each with a training run of its own."""

_SCORES = ("rmse", "log_likelihood", "crps", "coverage_95")
_AVERAGED = (*_SCORES, "epistemic_std", "aleatoric_std", "seconds")
_SETS = ("boston_housing", "concrete", "energy", "wine_red", "yacht")


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, evidence cap and split: a training run of 1,000 epochs.

    The runs of a split have one seed: they begin with the same weights.
    """
    benchmark.only_pbp("epochs", selection)
    longest = max(N_EPOCHS)
    found = benchmark.jobs("epochs", selection, lambda known: [((known.units,), longest)], _SETS)
    return [
        replace(job, evidence_cap=evidence_cap) for job in found for evidence_cap in EVIDENCE_CAPS
    ]


def measure(job: Job) -> Row:
    """Train on the training set of a split, and score on the test set along the way."""
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

    The scores after n epochs equal the scores of a fit of n epochs. The seconds are processor time
    of the training up to there, without the predictions.
    """
    plan, inputs = Plan(Gaussian(), job.hidden, evidence_cap=job.evidence_cap), Inputs(X)
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
    """Return one record per set and number of epochs, with the means of every evidence cap.

    The scores of evidence cap 3 are ``rmse_3``, with the standard error ``rmse_3_se``; without a
    cap ``rmse_none`` and so on. An evidence cap that was not run has None.
    """
    place = {name: i for i, name in enumerate(dataset_names())}
    found: dict[tuple[str, int], dict[str, list[Row]]] = {}
    for row in rows:
        for point in row["curve"]:
            cells = found.setdefault((row["dataset"], point["n_epochs"]), {})
            cells.setdefault(label(row["evidence_cap"]), []).append(point)
    return [
        {
            "dataset": dataset,
            "n_epochs": n_epochs,
            "n_splits": max(len(points) for points in cells.values()),
            **{
                k: v
                for evidence_cap in EVIDENCE_CAPS
                for k, v in _means(cells, label(evidence_cap)).items()
            },
        }
        for (dataset, n_epochs), cells in sorted(
            found.items(), key=lambda item: (place[item[0][0]], item[0][1])
        )
    ]


def _means(cells: dict[str, list[Row]], evidence_cap: str) -> Record:
    points = cells.get(evidence_cap, [])
    record: Record = {}
    for name in _AVERAGED:
        values = [point[name] for point in points]
        mean, error = benchmark.mean_and_error(values) if values else (None, None)
        record |= {f"{name}_{evidence_cap}": mean, f"{name}_{evidence_cap}_se": error}
    return record


def label(evidence_cap: float | None) -> str:
    """Return an evidence cap as text.

    Examples
    --------
    >>> label(None), label(30.0)
    ('none', '30')
    """
    return "none" if evidence_cap is None else f"{evidence_cap:g}"


def _title(evidence_cap: float | None) -> str:
    return "no cap" if evidence_cap is None else f"evidence cap {evidence_cap:g}"


def _score(evidence_cap: str) -> Callable[[Record], str]:
    """Show the log-likelihood and, in brackets, the share in the 95 % interval."""

    def show(record: Record) -> str:
        value = record[f"log_likelihood_{evidence_cap}"]
        inside = record[f"coverage_95_{evidence_cap}"]
        return "" if value is None else f"{value:.2f} ({100.0 * inside:.0f} %)"

    return show


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the table of the errors: a column per evidence cap that was run."""
    run = [m for m in EVIDENCE_CAPS if any(r[f"rmse_{label(m)}"] is not None for r in records)]
    header = ["data set", "epochs", *(_title(evidence_cap) for evidence_cap in run)]
    shown = [number(f"rmse_{label(evidence_cap)}", 3) for evidence_cap in run]
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
            (value, record["n_epochs"], evidence_cap)
            for record in records
            if record["dataset"] == name
            for evidence_cap in EVIDENCE_CAPS
            if (value := record[f"log_likelihood_{label(evidence_cap)}"]) is not None
        ]
        value, n_epochs, evidence_cap = max(cells, key=lambda cell: cell[0])
        lines.append(
            f"{name}: the highest log-likelihood, {value:.3f}, is reached with "
            f"{_title(evidence_cap)} "
            f"after {n_epochs} epochs"
        )
    return lines


def figures(rows: Sequence[Row]) -> list[tuple[Figure, str]]:
    """Draw log-likelihood, RMSE and coverage against the epochs."""
    lines = [(label(evidence_cap), _title(evidence_cap)) for evidence_cap in EVIDENCE_CAPS]
    return epochs_figure.figures(records(rows), lines)


EXPERIMENT = Experiment(
    name="epochs",
    title="Scores against the number of epochs",
    text="Every epoch uses the likelihood of every point again, so that the posterior narrows "
    "with the number of epochs. The error keeps decreasing; so does the coverage of the 95 % "
    "interval, and on some sets the log-likelihood. An evidence cap bounds the effective sample "
    "size, in multiples of the number of samples.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("epochs", text("n_epochs")),
        Column("splits", text("n_splits")),
        *(
            Column(_title(evidence_cap), _score(label(evidence_cap)))
            for evidence_cap in EVIDENCE_CAPS
        ),
    ],
    notes=notes,
    summaries=summaries,
    figures=figures,
)
