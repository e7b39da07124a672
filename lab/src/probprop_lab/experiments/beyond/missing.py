"""Missing entries: marginalized, filled with the mean of their feature, and not missing at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from probprop._types import Array
from probprop.estimators.regressor import PBPRegressor
from probprop_lab.experiments.beyond import auto, missing_figure
from probprop_lab.experiments.harness import benchmark, comparison
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    Table,
    cells,
    share,
    text,
    with_error,
)
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.protocol import USUAL_EPOCHS, dataset_names
from probprop_lab.experiments.harness.scoring import evaluate
from probprop_lab.results import Row

SHARES = (0.1, 0.3)
"""Shares of the entries of X that are deleted."""

COMPLETE = "complete"
MEASURES = {"log_likelihood": "log-likelihood", "rmse": "RMSE", "crps": "CRPS"}
_SETS = ("boston_housing", "concrete", "energy", "wine_red", "yacht")
_COST = 1.2  # of a fit with uncertain inputs, in units of one without


class Method(NamedTuple):
    """How missing entries are treated."""

    share: float
    treatment: str
    make: Callable[[Job], Any]
    """From a job to an estimator that is not fitted."""


def _marginalize(job: Job) -> PBPRegressor:
    return _pbp(job).set_params(missing="marginalize")  # type: ignore[no-any-return]


def _mean(job: Job) -> Any:
    return make_pipeline(SimpleImputer(), _pbp(job))


def _pbp(job: Job) -> PBPRegressor:
    return PBPRegressor(job.hidden, n_epochs=job.n_epochs, random_state=job.seed)


def _name(treatment: str, share: float) -> str:
    return f"{treatment} {100 * share:.0f} %"


METHODS = {COMPLETE: Method(0.0, COMPLETE, _pbp)} | {
    _name(treatment, share): Method(share, treatment, make)
    for share in SHARES
    for treatment, make in (("marginalize", _marginalize), ("mean", _mean))
}
COMPARED = {_name("marginalize", share): _name("mean", share) for share in SHARES}
"""Pairs of methods that are compared on the same splits with the same entries missing."""


# ---- The jobs


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, split and method; one hidden layer and epochs as in Table 1.

    Without a selection: five sets, all of their splits.

    Raises
    ------
    ValueError
        The selection has another method, or a set that is not known.
    """
    names = selection.methods or list(METHODS)
    others = [name for name in names if name not in METHODS]
    if others:
        raise ValueError(
            f"the experiment missing has the methods {', '.join(METHODS)} only, not "
            f"{', '.join(others)}"
        )
    found = benchmark.jobs(
        "missing",
        replace(selection, methods=None),
        lambda known: [((known.units,), USUAL_EPOCHS)],
        _SETS,
    )
    return [replace(job, method=name) for job in found for name in names]


def cost(job: Job) -> float:
    """Return the work in a job, in weight updates of PBP."""
    known = _COST if METHODS[job.method].treatment == "marginalize" else 1.0
    return known * benchmark.cost(replace(job, method="PBP"))


# ---- One fit


def measure(job: Job) -> Row:
    """Delete entries of a split, fit on its training set and score on its test set.

    What is deleted depends on the seed of the job alone, which differs by split: it is the same
    for every method, and what is deleted at 10 % is deleted at 30 % too.
    """
    method = METHODS[job.method]
    X_train, y_train, X_test, y_test = benchmark.load_split(job.dataset, job.split)
    rng = np.random.default_rng(job.seed)  # not the generator that draws the weights
    holed = [with_holes(X, method.share, rng) for X in (X_train, X_test)]
    return evaluate(method.make(job), holed[0], y_train, holed[1], y_test)


def with_holes(X: Array, share: float, rng: np.random.Generator) -> Array:
    """Return X with each entry NaN with this probability, independently.

    Examples
    --------
    >>> with_holes(np.ones((2, 3)), 0.3, np.random.default_rng(0))
    array([[ 1., nan, nan],
           [nan,  1.,  1.]])
    """
    return np.where(rng.uniform(size=X.shape) < share, np.nan, X)


# ---- The tables


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and method, in the order of `METHODS`.

    Where there is something to compare it with, `base` names that, and the gains are the
    method's value minus the other's, mean and standard error over the splits both were run on.
    """
    sets, names = dataset_names(), list(METHODS)
    found = [_record(record, rows) for record in benchmark.mean_records(rows)]
    return sorted(found, key=lambda r: (sets.index(r["dataset"]), names.index(r["method"])))


def _record(record: Record, rows: Sequence[Row]) -> Record:
    method = METHODS[record["method"]]
    base = COMPARED.get(record["method"])
    return {
        **auto.with_gains(record, rows, base),
        "share": method.share,
        "treatment": method.treatment,
    }


def _share(record: Record) -> str:
    return f"{100 * record['share']:.0f} %" if record["share"] else "none"


_DIFFERENCES = [
    Column("data set", text("dataset")),
    Column("missing", _share),
    Column("splits", text("n_paired")),
    *(Column(words, with_error(f"{key}_gain")) for key, words in MEASURES.items()),
]


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the differences of the pairs."""
    pairs = [record for record in records if record["n_paired"]]
    title = "Marginalize − mean, on the same splits with the same entries missing"
    return [(title, cells(_DIFFERENCES, pairs))] if pairs else []


def notes(records: Sequence[Record]) -> list[str]:
    """Say what the columns are, then on which sets marginalizing is better and on which not."""
    lines = [
        "mean ± standard error over the splits, in target units; each entry of X is missing with "
        "the probability given, in training and test rows alike; mean: the mean of the feature in "
        "the training rows takes its place; complete: the same fits with nothing missing",
    ]
    for level in SHARES:
        own = [record for record in records if record["share"] == level and record["n_paired"]]
        lines += [against(level, own, key) for key in MEASURES if own]
    lines += [comparison.warned(*of_one) for of_one in comparison.by_method(records)]
    lines.append(comparison.fewer_splits(records))
    return [line for line in lines if line]


def against(level: float, records: Sequence[Record], measure: str) -> str:
    """Say on how many sets marginalizing beats the mean, and by how much it loses elsewhere.

    Parameters
    ----------
    level : float
        Share of the entries missing.
    records : sequence of dict
        The records of marginalizing at this share; one per set.
    measure : {"log_likelihood", "rmse", "crps"}
    """
    key = f"{measure}_gain"
    sign = 1.0 if measure == "log_likelihood" else -1.0
    better = [record for record in records if sign * record[key] > 0.0]
    clearly = [
        record
        for record in better
        if (se := record[f"{key}_se"]) is not None and abs(record[key]) > comparison.TOLERANCE * se
    ]
    others = [f"{r['dataset']} ({with_error(key)(r)})" for r in records if r not in better]
    return (
        f"{100 * level:.0f} % missing: marginalizing has the better {MEASURES[measure]} on "
        f"{len(better)} of {len(records)} sets, by more than two standard errors on {len(clearly)}"
        + (f"; not on {', '.join(others)}" if others else "")
    )


EXPERIMENT = Experiment(
    name="missing",
    title="Missing values",
    text='PBPRegressor(missing="marginalize"), which replaces a missing value by a Gaussian with '
    "the mean and the variance of its feature, compared with PBPRegressor() after scikit-learn's "
    "SimpleImputer, which imputes the mean, and with PBPRegressor() on the complete data. One "
    "hidden layer of 50 units, 40 epochs, on the fixed splits.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("missing", _share),
        Column("method", text("treatment")),
        Column("splits", text("n_splits")),
        Column("RMSE", with_error("rmse")),
        Column("log-likelihood", with_error("log_likelihood")),
        Column("CRPS", with_error("crps")),
        Column("in 95 %", share("coverage_95")),
    ],
    notes=notes,
    summaries=summaries,
    figures=lambda rows: missing_figure.figures(records(rows)),
    check=lambda jobs: None,  # packages and names were checked before
    cost=cost,
)
