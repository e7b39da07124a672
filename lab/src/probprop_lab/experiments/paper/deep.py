"""Table 1 of the supplement: one to four hidden layers."""

from __future__ import annotations

from collections.abc import Sequence

from probprop_lab.experiments.harness import benchmark, comparison
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    number,
    share,
    text,
    with_error,
)
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.paper import printed
from probprop_lab.experiments.paper.authors_pbp import METHODS
from probprop_lab.results import Row

N_LAYERS = (1, 2, 3, 4)


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, method, number of layers and split; 40 epochs."""
    return benchmark.jobs(
        "deep", selection, lambda found: [((found.units,) * n, 40) for n in N_LAYERS]
    )


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set, method and number of layers, with the paper's printed RMSE."""
    found = []
    several = len({row["method"] for row in rows}) > 1
    for record in benchmark.mean_records(rows):
        method = record["method"]
        cell = printed.deep(record["dataset"], record["n_layers"], method)
        compared = printed.compare(record, "rmse", cell)
        difference = compared["rmse_difference"]
        worse = difference is not None and not difference <= comparison.TOLERANCE
        more = {"verdict": "worse" if worse else "", "column": method if several else None}
        found.append({**record, **compared, "log_likelihood_paper": None, **more})
    return found


def notes(records: Sequence[Record]) -> list[str]:
    """Name the cells that are worse than the paper's by more than two standard errors."""
    lines = [printed.meaning("splits")]
    own = [record for record in records if record["method"] == "PBP"]
    worse = [f"{r['dataset']} with {r['hidden']}" for r in own if r["verdict"]]
    if worse:
        lines.append(f"worse than the paper by more than two standard errors: {', '.join(worse)}")
    elif own:
        lines.append("no cell is worse than the paper's by more than two standard errors")
    return lines + comparison.notes(records)


EXPERIMENT = Experiment(
    name="deep",
    title="Supplement, Table 1: one to four hidden layers",
    text="Test RMSE of networks with one to four hidden layers of 50 units (100 for protein and "
    "Year) after 40 epochs, next to the values that the supplement prints.",
    jobs=jobs,
    measure=lambda job: benchmark.measure(job, METHODS),
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("method", text("column")),
        Column("hidden", text("hidden")),
        Column("splits", text("n_splits")),
        *printed.columns("rmse", "RMSE", "RMSE"),
        Column("", text("verdict"), "RMSE"),
        Column("worst split", number("rmse_max"), "RMSE"),
        Column("log-likelihood", with_error("log_likelihood"), "Calibration and time"),
        Column("in 95 %", share("coverage_95"), "Calibration and time"),
        Column("seconds", number("seconds", 2), "Calibration and time"),
    ],
    notes=notes,
    methods=METHODS,
)
