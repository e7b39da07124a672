"""Against the field: PBP beside what a user would pick instead, on the benchmark sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from probprop_lab.experiments.beyond import field_figure
from probprop_lab.experiments.harness import benchmark, comparison, methods, standings
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    Table,
    number,
    share,
    text,
    times,
    with_error,
)
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job, Row
from probprop_lab.experiments.harness.protocol import protocol, without_year

N_SPLITS, N_SPLITS_LARGE = 10, 3
_SMALL = 2_000  # rows up to which a set has the larger number of splits


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, method and split; networks of PBP as in Table 1.

    Without a selection: nine sets, the first 10 splits of those with up to 2,000 rows and 3 of
    the larger, and all methods that are installed. Where a set has too many rows for a method,
    there is no job.

    Raises
    ------
    ValueError
        Nothing is left of the selection, or something in it is not known.
    """
    chosen = selection.methods or [name for name in methods.FIELD if methods.KNOWN[name].installed]
    nine = without_year()
    asked = replace(selection, methods=chosen)
    found = benchmark.jobs("field", asked, lambda known: [((known.units,), 40)], nine)
    default = selection.n_splits is None
    left = [
        job
        for job in found
        if feasible(job.method, n_training(job.dataset))
        and not (default and job.split >= default_splits(job.dataset))
    ]
    if not left:
        raise ValueError(
            f"{', '.join(chosen)}: these sets have too many rows for it; choose others"
        )
    return left


def n_training(dataset: str) -> int:
    """Return the training rows of a split of a benchmark set."""
    return round(0.9 * protocol(dataset).n)


def default_splits(dataset: str) -> int:
    """Return how many splits of a set are run by default."""
    return N_SPLITS if protocol(dataset).n <= _SMALL else N_SPLITS_LARGE


def feasible(method: str, n_rows: int) -> bool:
    """Whether a method is run on so many training rows; a user's own always is."""
    return method not in methods.KNOWN or n_rows <= methods.KNOWN[method].max_rows


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and method, with its rank and its gain over PBP.

    The gain is the method's log-likelihood minus PBP's, over the splits both were run on.
    """
    ranks = standings.ranks(rows)
    return [
        {**record, "rank": ranks[record["dataset"]].get(record["method"]), **gain(record)}
        for record in benchmark.mean_records(rows)
    ]


def gain(record: Record) -> Record:
    """Return the log-likelihood above PBP's of one of `benchmark.mean_records`."""
    gap = record["log_likelihood_gap"]  # PBP's minus the method's
    return {"gain": None if gap is None else -gap, "gain_se": record["log_likelihood_gap_se"]}


def notes(records: Sequence[Record]) -> list[str]:
    """Say what the columns are, who leads, what was left out and what warned."""
    lines = [
        "mean ± standard error over the splits, in target units; rank: of the log-likelihood, "
        "among the methods run on the set, over the splits they share; above PBP: mean difference "
        "in log-likelihood ± its standard error over the same splits; seconds: of one fit",
    ]
    standing = standings.mean_ranks(records)
    if standing:
        first = standing[0]
        lines.append(
            f"first in mean rank: {first['method']} with {first['mean_rank']:.2f}; number of sets "
            f"it was run on: {first['n_sets']}"
        )
    lines += left_out(records)
    lines += [comparison.warned(*of_one) for of_one in comparison.by_method(records)]
    return [line for line in lines if line]


def left_out(records: Sequence[Record]) -> list[str]:
    """Say which sets have too many rows for a method, and which methods are not installed."""
    sets = list(dict.fromkeys(record["dataset"] for record in records))
    lines = []
    limited = [name for name in methods.FIELD if methods.KNOWN[name].max_rows < float("inf")]
    large = [name for name in sets if not all(feasible(k, n_training(name)) for k in limited)]
    if large:
        most = min(methods.KNOWN[name].max_rows for name in limited)
        lines.append(
            f"{', '.join(limited)}: run up to {most:,.0f} training rows only, so not on "
            f"{', '.join(large)}"
        )
    run = {record["method"] for record in records}
    missing = [k for k in methods.FIELD if k not in run and not methods.KNOWN[k].installed]
    return lines + [
        f"{name} was not run: pip install 'probprop[{methods.KNOWN[name].extra}]'"
        for name in missing
    ]


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the table of mean ranks."""
    title = "Mean rank of the log-likelihood; above and below PBP by more than two standard errors"
    return [(title, standings.rank_table(records))]


EXPERIMENT = Experiment(
    name="field",
    title="Against the field",
    text="PBP with the paper's protocol, with epochs and memory chosen automatically, and an "
    "ensemble of five such networks, beside what a user would pick instead, out of the box. One "
    "hidden layer of 50 units (100 for protein), on the fixed splits.",
    jobs=jobs,
    measure=benchmark.measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("method", text("method")),
        Column("splits", text("n_splits")),
        Column("RMSE", with_error("rmse"), "Scores"),
        Column("log-likelihood", with_error("log_likelihood"), "Scores"),
        Column("rank", number("rank"), "Scores"),
        Column("above PBP", with_error("gain"), "Scores"),
        Column("CRPS", with_error("crps"), "Calibration and time"),
        Column("in 95 %", share("coverage_95"), "Calibration and time"),
        Column("seconds", times("seconds"), "Calibration and time"),
        Column("of PBP's", times("slower"), "Calibration and time"),
    ],
    notes=notes,
    summaries=summaries,
    figures=lambda rows: field_figure.figures(records(rows)),
)
