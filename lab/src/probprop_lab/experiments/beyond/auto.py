"""The paper's protocol against hyperparameters that are selected by cross-validation."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from probprop.estimators.cv.policy import Candidate
from probprop_lab.experiments.beyond import auto_figure
from probprop_lab.experiments.beyond.field import default_splits
from probprop_lab.experiments.harness import benchmark, comparison, methods
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
from probprop_lab.experiments.harness.protocol import (
    USUAL_EPOCHS,
    protocol,
    without_year,
)
from probprop_lab.experiments.harness.scoring import fit_and_score
from probprop_lab.results import Row

N_LAYERS = (1, 2)
CHOOSING = CV, CV_FAST = "PBPRegressorCV", "PBPRegressorCV fast"
"""Methods that select their layers, so that a job does not specify a network."""

COMPARED = (CV, "PBP"), (CV_FAST, "PBP")
"""Pairs of methods that are compared on the same splits."""

_NOTHING = {"chosen_bins": None, "chosen_hidden": None}
_NOTHING |= {"chosen_evidence_cap": None, "chosen_epochs": None}


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, method, number of layers and split; one network where it is chosen.

    Without a selection: nine sets, the first 10 splits of those with up to 2,000 rows and 3 of
    the larger.

    Raises
    ------
    ValueError
        The selection has another method, or a set that is not known.
    """
    asked = selection.methods or methods.OURS
    others = [name for name in asked if name not in methods.OURS]
    if others:
        raise ValueError(
            f"the experiment auto has the methods {', '.join(methods.OURS)} only, not "
            f"{', '.join(others)}"
        )
    found = benchmark.jobs(
        "auto",
        replace(selection, methods=asked),
        lambda known: [((known.units,) * n, USUAL_EPOCHS) for n in N_LAYERS],
        without_year(),
    )
    found = [job for job in found if len(job.hidden) == 1 or job.method not in CHOOSING]
    if selection.n_splits is not None:
        return found
    return [job for job in found if job.split < default_splits(job.dataset)]


def measure(job: Job) -> Row:
    """Fit and score as the other experiments do, and add the selected hyperparameters."""
    estimator, row = fit_and_score(job, *benchmark.load_split(job.dataset, job.split))
    return {**row, **chosen(estimator)}


def chosen(estimator: Any) -> Row:
    """Return the hyperparameters that an estimator selected; all are None without a selection."""
    groups = getattr(estimator, "groups_", None)
    if groups is None:
        return _NOTHING
    candidate: Candidate = groups[0].candidate
    return {
        "chosen_bins": candidate.n_bins,
        "chosen_hidden": list(candidate.layers),
        "chosen_evidence_cap": candidate.evidence_cap,
        "chosen_epochs": groups[0].n_epochs,
    }


# ---- The tables


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set, method and network.

    Where there is something to compare it with, `base` names that, and the gains are the
    method's value minus the other's, mean and standard error over the splits both were run on.
    """
    found = [_record(record, rows) for record in benchmark.mean_records(rows)]
    place = {name: i for i, name in enumerate(dict.fromkeys(r["dataset"] for r in found))}
    return sorted(found, key=lambda record: (place[record["dataset"]], record["n_layers"]))


def _record(record: Record, rows: Sequence[Row]) -> Record:
    base = dict(COMPARED).get(record["method"])
    own = _of(rows, record, record["method"])
    network = "chosen" if record["method"] in CHOOSING else record["hidden"]
    return {**with_gains(record, rows, base), **choices(own), "network": network}


def with_gains(record: Record, rows: Sequence[Row], base: str | None) -> Record:
    """Put into a record what its method gains over another, on the splits both were run on."""
    own = _of(rows, record, record["method"])
    compared = benchmark.paired([] if base is None else _of(rows, record, base), own)
    kept = {k: v for k, v in record.items() if k not in compared}
    gains = {
        f"{name}_gain": None if (gap := compared[f"{name}_gap"]) is None else -gap
        for name in benchmark.COMPARED
    }
    errors = {f"{name}_gain_se": compared[f"{name}_gap_se"] for name in benchmark.COMPARED}
    return {
        **kept,
        "base": base,
        "n_paired": compared["n_paired"],
        **gains,
        **errors,
        "slower": compared["slower"],
    }


def _of(rows: Sequence[Row], record: Record, method: str) -> list[Row]:
    """Return the rows of a method on the set and the network of a record."""
    hidden = record["hidden"]
    return [
        row
        for row in rows
        if row["method"] == method
        and row["dataset"] == record["dataset"]
        and "-".join(map(str, row["hidden"])) == hidden
    ]


def choices(rows: Sequence[Row]) -> Record:
    """Summarize what was selected on the splits of one set, method and network.

    Returns
    -------
    dict
        ``encodings``, ``networks`` and ``evidence_caps``, each with how often it was chosen, the
        most frequent first; ``median_epochs``. None where nothing was chosen.

    Examples
    --------
    >>> rows = [(32, [50], 10.0, 160), (None, [50, 50], None, 80), (32, [50], 10.0, 320)]
    >>> names = ("chosen_bins", "chosen_hidden", "chosen_evidence_cap", "chosen_epochs")
    >>> for name, words in choices([dict(zip(names, one)) for one in rows]).items():
    ...     print(f"{name}: {words}")
    encodings: 32 bins (2), as they are (1)
    networks: 50 (2), 50-50 (1)
    evidence_caps: 10 (2), none (1)
    median_epochs: 160
    """
    made = [row for row in rows if row["chosen_epochs"] is not None]
    if not made:
        return dict.fromkeys(("encodings", "networks", "evidence_caps", "median_epochs"))
    bins = [row["chosen_bins"] for row in made]
    evidence_caps = [row["chosen_evidence_cap"] for row in made]
    return {
        "encodings": _counted("as they are" if n is None else f"{n} bins" for n in bins),
        "networks": _counted("-".join(map(str, row["chosen_hidden"])) or "none" for row in made),
        "evidence_caps": _counted(
            "none" if evidence_cap is None else f"{evidence_cap:g}"
            for evidence_cap in evidence_caps
        ),
        "median_epochs": statistics.median(row["chosen_epochs"] for row in made),
    }


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{name} ({n})" for name, n in Counter(names).most_common())


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the differences of the pairs, and what was chosen."""
    pairs = [record for record in records if record["n_paired"]]
    found = []
    if pairs:
        found.append(("Differences on the same splits", cells(_DIFFERENCES, pairs)))
    made = [record for record in records if record["evidence_caps"] is not None]
    if made:
        found.append(("What was chosen (number of splits)", cells(CHOICES, made)))
    return found


def _better(record: Record) -> str:
    return f"{record['method']} − {record['base']}"


_DIFFERENCES = [
    Column("data set", text("dataset")),
    Column("hidden", text("network")),
    Column("difference", _better),
    Column("splits", text("n_paired")),
    Column("log-likelihood", with_error("log_likelihood_gain")),
    Column("RMSE", with_error("rmse_gain")),
    Column("times the seconds", times("slower")),
]
CHOICES = [
    Column("data set", text("dataset")),
    Column("method", text("method")),
    Column("features", text("encodings")),
    Column("hidden", text("networks")),
    Column("evidence cap", text("evidence_caps")),
    Column("median epochs", number("median_epochs")),
]


# ---- What it adds up to


def notes(records: Sequence[Record]) -> list[str]:
    """Explain the columns, then say on how many sets each method is better and covers well."""
    lines = [
        "mean ± standard error over the splits, in target units; seconds: of one fit on one "
        "thread, the choice included",
    ]
    for method, base in COMPARED:
        for hidden in dict.fromkeys(record["n_layers"] for record in records):
            own = [r for r in records if r["method"] == method and r["n_layers"] == hidden]
            lines.append(against(method, base, hidden, own))
    lines += [comparison.warned(*of_one) for of_one in comparison.by_method(records)]
    return [line for line in lines if line]


def against(method: str, base: str, n_layers: int, records: Sequence[Record]) -> str:
    """Count the sets on which a method is better, clearly worse, and covers as it should.

    Parameters
    ----------
    method, base : str
    n_layers : int
    records : sequence of dict
        Records of this method and this number of layers; one per set.
    """
    paired = [record for record in records if record["n_paired"]]
    if not paired:
        return ""

    def small(record: Record) -> bool:
        return protocol(record["dataset"]).n <= 2000

    better = [record for record in paired if record["log_likelihood_gain"] > 0.0]
    known = [record for record in paired if record["log_likelihood_gain_se"] is not None]
    worse = [r for r in known if r["log_likelihood_gain"] < -r["log_likelihood_gain_se"]]
    gain = with_error("log_likelihood_gain")
    low, high = auto_figure.COVERAGES
    outside = [record for record in paired if not low <= record["coverage_95"] <= high]
    n, n_small = len(paired), sum(small(record) for record in paired)
    return (
        f"{method} against {base}{_layers(method, n_layers)}: the log-likelihood is higher on "
        f"{len(better)} of {n} sets ({sum(small(r) for r in better)} of the {n_small} with up to "
        f"2,000 rows)"
        + (f", lower by more than one standard error on {_names(worse, gain)}" if known else "")
        + f"; the 95 % interval covers {100 * low:.0f} % to {100 * high:.0f} % of the targets on "
        f"{n - len(outside)} of {n}"
        + (f", not on {_names(outside, share('coverage_95'))}" if outside else "")
    )


def _layers(method: str, n: int) -> str:
    if method in CHOOSING:
        return " with one hidden layer"
    return ", one hidden layer" if n == 1 else ", two hidden layers"


def _names(records: Sequence[Record], show: Callable[[Record], str]) -> str:
    return ", ".join(f"{r['dataset']} ({show(r)})" for r in records) or "none"


EXPERIMENT = Experiment(
    name="auto",
    title="Model selection and the protocol of the paper",
    text="PBP with the paper's protocol, 40 epochs and no evidence cap, with one and two hidden "
    "layers of 50 units (100 for protein), and PBPRegressorCV, which selects its hyperparameters "
    "by cross-validation. On the fixed splits.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("hidden", text("network")),
        Column("method", text("method")),
        Column("splits", text("n_splits")),
        Column("RMSE", with_error("rmse")),
        Column("log-likelihood", with_error("log_likelihood")),
        Column("CRPS", with_error("crps")),
        Column("in 95 %", share("coverage_95")),
        Column("seconds", times("seconds")),
    ],
    notes=notes,
    summaries=summaries,
    figures=lambda rows: auto_figure.figures(records(rows)),
)
