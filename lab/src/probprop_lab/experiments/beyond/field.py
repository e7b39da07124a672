"""PBP and its alternatives on the benchmark sets."""

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
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.protocol import protocol, without_year
from probprop_lab.results import Row

N_SPLITS, N_SPLITS_LARGE = 10, 3
_SMALL = 2_000  # rows up to which a set has the larger number of splits


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, method and split; networks of PBP as in Table 1.

    Without a selection: nine sets, the first 10 splits of those with up to 2,000 rows and 3 of
    the larger, and all methods that are installed, or to show rows that are there all methods.
    Where a set has too many rows for a method, there is no job.

    Raises
    ------
    ValueError
        Nothing is left of the selection, or something in it is not known.
    """
    chosen = selection.methods or [
        name for name in methods.FIELD if selection.show or methods.KNOWN[name].installed
    ]
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
    """Return the default number of splits of a set."""
    return N_SPLITS if protocol(dataset).n <= _SMALL else N_SPLITS_LARGE


def feasible(method: str, n_rows: int) -> bool:
    """Whether a method is run on this number of training rows; a user's own always is."""
    return method not in methods.KNOWN or n_rows <= methods.KNOWN[method].max_rows


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and method, with its ranks and how far it is from two others.

    The gain is the method's log-likelihood minus PBP's, over the splits both were run on.
    ``behind`` is the log-likelihood of the set's ``leader`` minus the method's, likewise.
    """
    ranks = {measure: standings.ranks(rows, measure) for measure in ("log_likelihood", "crps")}
    found = [
        {
            **record,
            "rank": ranks["log_likelihood"][record["dataset"]].get(record["method"]),
            "crps_rank": ranks["crps"][record["dataset"]].get(record["method"]),
            **gain(record),
        }
        for record in benchmark.mean_records(rows)
    ]
    leaders = {name: record["method"] for name, record in standings.first(found).items()}
    return [{**record, **_behind(rows, record, leaders)} for record in found]


def _behind(rows: Sequence[Row], record: Record, leaders: dict[str, str]) -> Record:
    """Return the log-likelihood of the first of the set above a method's; None for the first."""
    leader = leaders.get(record["dataset"])
    first, own = (
        [row for row in rows if (row["dataset"], row["method"]) == (record["dataset"], method)]
        for method in (leader, record["method"])
    )
    gaps = benchmark.paired(first if leader != record["method"] else [], own)
    return {
        "leader": leader,
        "behind": gaps["log_likelihood_gap"],
        "behind_se": gaps["log_likelihood_gap_se"],
    }


def gain(record: Record) -> Record:
    """Return the log-likelihood above PBP's of one of `benchmark.mean_records`."""
    gap = record["log_likelihood_gap"]  # PBP's minus the method's
    return {"gain": None if gap is None else -gap, "gain_se": record["log_likelihood_gap_se"]}


def notes(records: Sequence[Record]) -> list[str]:
    """Say what the columns are, who leads, what was left out and what warned."""
    lines = [
        "mean ± standard error over the splits, in target units; ranks: of the log-likelihood and "
        "of the CRPS, among the methods run on the set, over the splits they share; above PBP: "
        "mean difference in log-likelihood ± its standard error over the same splits; seconds: of "
        "one fit, on one thread; fits with wall time count only where there are no others",
    ]
    standing = standings.mean_ranks(records)
    for words, key in (("mean rank", "mean_rank"), ("mean rank of the CRPS", "mean_crps_rank")):
        for best in sorted(standing, key=lambda record: record[key])[:1]:
            lines.append(
                f"first in {words}: {best['method']} with {best[key]:.2f}; number of sets it was "
                f"run on: {best['n_sets']}"
            )
    lines += [behind(own) for name, own in comparison.by_method(records) if name == methods.BEST]
    lines += left_out(records)
    lines += [comparison.warned(*of_one) for of_one in comparison.by_method(records)]
    return [line for line in lines if line]


def behind(records: Sequence[Record]) -> str:
    """Say on which sets a method is first, and which method leads by how much elsewhere.

    Parameters
    ----------
    records : sequence of dict
        Records of one method.
    """
    ranked = [record for record in records if record["rank"] is not None]
    if not ranked:
        return ""
    others = [
        f"{record['dataset']} ({record['leader']}, by {with_error('behind')(record)})"
        for record in ranked
        if record["leader"] != record["method"]
    ]
    n_first = len(ranked) - len(others)
    not_first = f"; another is on {', '.join(others)}" if others else ""
    return f"{ranked[0]['method']} is first on {n_first} of {len(ranked)} sets{not_first}"


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
    return lines + [f"{name} was not run: {methods.KNOWN[name].install}" for name in missing]


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the log-likelihoods at a glance, and the table of mean ranks."""
    title = "Mean ranks; above and below PBP by more than two standard errors"
    return [
        ("Log-likelihood at a glance", at_a_glance(records)),
        (title, standings.rank_table(records)),
    ]


def at_a_glance(records: Sequence[Record]) -> Table:
    """Return a line per method, by mean rank, a column per set."""
    sets = list(dict.fromkeys(record["dataset"] for record in records))
    found = {(record["method"], record["dataset"]): record for record in records}
    names = [record["method"] for record in standings.mean_ranks(records)]
    cells = [[_glance(found.get((name, dataset))) for dataset in sets] for name in names]
    return ["method", *sets], [[name, *line] for name, line in zip(names, cells, strict=True)]


def _glance(record: Record | None) -> str:
    if record is None:
        return ""
    value = f"{record['log_likelihood']:.2f}"
    return f"{value} (first)" if record["method"] == record["leader"] else value


EXPERIMENT = Experiment(
    name="field",
    title="Twelve regressors",
    text="PBP with the paper's protocol, and PBPRegressorCV, which selects its hyperparameters by "
    "cross-validation, compared with alternatives with default parameters. PBP and the deep "
    "ensemble have one hidden layer of 50 units (100 for protein). All on the same fixed splits.",
    jobs=jobs,
    measure=benchmark.measure,
    timed=benchmark.timed,
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
        Column("rank of the CRPS", number("crps_rank"), "Calibration and time"),
        Column("in 95 %", share("coverage_95"), "Calibration and time"),
        Column("seconds", times("seconds"), "Calibration and time"),
        Column("of PBP's", times("slower"), "Calibration and time"),
    ],
    notes=notes,
    summaries=summaries,
    figures=lambda rows: field_figure.figures(records(rows)),
)
