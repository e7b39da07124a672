"""How the test scores go with the number of epochs: the posterior that shrinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probprop.experiments import benchmark
from probprop.experiments.experiment import (
    Column,
    Experiment,
    Record,
    Selection,
    number,
    share,
    text,
    with_error,
)
from probprop.experiments.job import Job, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_EPOCHS = (1, 2, 5, 10, 20, 40, 80, 160, 400)
_SETS = ("boston_housing", "concrete", "energy", "wine_red", "yacht")


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, number of epochs and split.

    Fits with one seed begin alike, so that those of a split are one training run, looked at
    after 1, 2, … 400 epochs.
    """
    benchmark.only_pbp("epochs", selection)
    return benchmark.jobs(
        "epochs", selection, lambda found: [((found.units,), n) for n in N_EPOCHS], _SETS
    )


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and number of epochs, with the model's share of the std."""
    averaged = benchmark.mean_records(rows)
    for record in averaged:
        name, n_epochs = record["dataset"], record["n_epochs"]
        same = [r for r in rows if r["dataset"] == name and r["n_epochs"] == n_epochs]
        record["std_model"] = benchmark.mean_and_error([r["std_model"] for r in same])[0]
        noise = [r["noise_variance"] ** 0.5 for r in same]
        record["std_noise"] = benchmark.mean_and_error(noise)[0]
    return averaged


def figures(rows: Sequence[Row]) -> list[tuple[Figure, str]]:
    """Draw RMSE, log-likelihood and coverage against the epochs, three figures per set."""
    found = records(rows)
    drawn = []
    for name in dict.fromkeys(record["dataset"] for record in found):
        own = [record for record in found if record["dataset"] == name]
        for key, label, marker in _PANELS:
            drawn.append((_panel(own, key, label, marker), f"{name}: {label}"))
    return drawn


_PANELS = [
    ("rmse", "RMSE", "o"),
    ("log_likelihood", "log-likelihood", "s"),
    ("coverage_95", "inside the 95 % interval", "^"),
]


def _panel(records: Sequence[Record], key: str, label: str, marker: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    from probprop.plot.parts import BLUE

    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    ax = figure.subplots()
    n_epochs = [record["n_epochs"] for record in records]
    means = [record[key] for record in records]
    errors = [record[f"{key}_se"] or 0.0 for record in records]
    ax.errorbar(n_epochs, means, errors, color=BLUE, marker=marker, ms=4, capsize=2)
    ax.axvline(40, color="0.6", lw=1, ls=":")  # the paper's protocol
    ax.set(xscale="log", xlabel="epochs", ylabel=label)
    ax.set_xticks(n_epochs, [str(n) for n in n_epochs])
    ax.minorticks_off()
    if key == "coverage_95":
        ax.axhline(0.95, color="black", lw=1, ls="--")
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    return figure


EXPERIMENT = Experiment(
    name="epochs",
    title="Scores against the number of epochs",
    text="Every epoch absorbs the likelihood of every point again, so that the posterior narrows "
    "with the number of epochs. The error goes down for long; the share of test points inside "
    "the 95 % interval goes down with it, and on some sets the log-likelihood follows. The "
    "dotted line is the paper's protocol, 40 epochs.",
    jobs=jobs,
    measure=benchmark.measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("epochs", text("n_epochs")),
        Column("splits", text("n_splits")),
        Column("RMSE", with_error("rmse")),
        Column("log-likelihood", with_error("log_likelihood")),
        Column("in 95 %", share("coverage_95")),
        Column("std of the model", number("std_model", 3)),
        Column("std of the noise", number("std_noise", 3)),
        Column("seconds", number("seconds", 2)),
    ],
    notes=lambda records: [
        "mean ± standard error over the splits; standard deviations in target units"
    ],
    figures=figures,
)
