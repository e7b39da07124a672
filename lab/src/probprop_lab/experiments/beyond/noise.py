"""Heteroscedastic and homoscedastic noise, on the same splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from probprop import metrics
from probprop._types import Array
from probprop.distributions.base import TargetDistribution
from probprop.distributions.mixture import Mixture
from probprop.estimators.regressor import PBPRegressor
from probprop.metrics.scorers import predictive
from probprop_lab.experiments.beyond import noise_figure, noise_sets
from probprop_lab.experiments.harness import benchmark, comparison, methods
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    Table,
    cells,
    number,
    text,
    times,
    with_error,
)
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.protocol import (
    USUAL_EPOCHS,
    Protocol,
    dataset_names,
    protocol,
    without_year,
)
from probprop_lab.experiments.harness.scoring import evaluate
from probprop_lab.results import Row

CONSTANT, INPUT, NGBOOST = METHODS = ("constant", "input", "NGBoost")
"""`noise` of PBPRegressor, and boosted trees with heteroscedastic noise."""

N_QUINTILES = 5
N_SPLITS_LARGE, N_SPLITS_DEEP = 3, 5
_SMALL = 2_000  # rows up to which a set has all of its splits, and networks of two layers
_COST = 1.6  # of a fit with noise="input", in units of one with constant noise


# ---- The jobs


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, network, split and method; 40 epochs, as in Table 1.

    Without a selection: nine sets with one hidden layer, all splits of those with up to 2,000
    rows and 3 of the larger; these small ones with two layers, 5 splits; and the synthetic sets.
    NGBoost is run where it is installed, on the nine sets.

    Raises
    ------
    ValueError
        The selection has another method, or a set that is not known.
    """
    known = methods.KNOWN[NGBOOST].installed
    names = selection.methods or [name for name in METHODS if known or name != NGBOOST]
    others = [name for name in names if name not in METHODS]
    if others:
        raise ValueError(
            f"the experiment noise has the methods {', '.join(METHODS)} only, not "
            f"{', '.join(others)}"
        )
    made, real = noise_sets.split_names(selection.datasets or [*without_year(), *noise_sets.SIZES])
    found = [job for job in _real(selection, real) if _wanted(job, selection.n_splits)]
    found += [
        Job("noise", name, repeat, seed=1000 * selection.seed + repeat, n_epochs=USUAL_EPOCHS)
        for name in made
        for repeat in range(noise_sets.N_REPEATS)[: selection.n_splits]
    ]
    # Jobs of one split follow each other, so that their seconds can be compared.
    pairs = [replace(job, method=name) for job in found for name in names]
    return [job for job in pairs if job.method != NGBOOST or _for_trees(job)]


def _real(selection: Selection, names: Sequence[str]) -> list[Job]:
    if not names:
        return []
    asked = replace(selection, methods=None, datasets=names)
    return benchmark.jobs("noise", asked, _networks)


def _networks(known: Protocol) -> list[tuple[tuple[int, ...], int]]:
    n_layers = (1, 2) if known.n <= _SMALL else (1,)
    return [((known.units,) * n, USUAL_EPOCHS) for n in n_layers]


def _wanted(job: Job, n_splits: int | None) -> bool:
    """Whether a job is run by default."""
    if n_splits is not None:
        return True
    if len(job.hidden) > 1:
        return job.split < N_SPLITS_DEEP
    return job.split < N_SPLITS_LARGE or protocol(job.dataset).n <= _SMALL


def _for_trees(job: Job) -> bool:
    return len(job.hidden) == 1 and job.dataset not in noise_sets.SIZES


def check(jobs: Sequence[Job]) -> None:
    """Refuse jobs of NGBoost where it is not installed."""
    methods.check(job for job in jobs if job.method == NGBOOST)


def cost(job: Job) -> float:
    """Return the work in a job, in weight updates of PBP."""
    if job.dataset in noise_sets.SIZES:
        n, d = noise_sets.SIZES[job.dataset]
        work = float(n * job.n_epochs * (d + 2) * sum(job.hidden))
    else:
        work = benchmark.cost(replace(job, method="PBP"))
    return {INPUT: _COST, NGBOOST: methods.cost(NGBOOST)}.get(job.method, 1.0) * work


# ---- One fit


def measure(job: Job) -> Row:
    """Fit on the training set of a split and score on its test set."""
    X_train, y_train, X_test, y_test = load(job)
    estimator = make(job)
    row = evaluate(estimator, X_train, y_train, X_test, y_test)
    predicted = predictive(estimator, X_test)
    row["quintiles"] = by_quintile(y_test, predicted, predicted.std)
    if job.method == INPUT:
        constant = at_level(estimator, X_test)
        row["quintiles_of_constant"] = by_quintile(y_test, constant, predicted.std)
    return row


def at_level(model: PBPRegressor, X: Array) -> Mixture:
    """Return what a model with noise="input" would predict with constant noise.

    The network of the noise changes nothing else: this is what the same fit without it predicts.
    """
    predicted = model.predict_distribution(X)
    return Mixture.of_one(predicted.mean, predicted.epistemic_std, np.sqrt(model.noise_variance_))


def load(job: Job) -> tuple[Array, Array, Array, Array]:
    """Return X_train, y_train, X_test, y_test of a job."""
    if job.dataset in noise_sets.SIZES:
        return noise_sets.load(job.dataset, job.split)
    return benchmark.load_split(job.dataset, job.split)


def make(job: Job) -> Any:
    """Return the estimator of a job, not fitted; the seed is the same for all methods."""
    if job.method == NGBOOST:
        return methods.find(NGBOOST).make(job)
    model = PBPRegressor(job.hidden, n_epochs=job.n_epochs, random_state=job.seed)
    return model.set_params(noise=job.method)


def by_quintile(y: Array, predicted: TargetDistribution, std: Array) -> list[float]:
    """Return the shares of the targets inside the 95 % intervals, of rows with similar `std`.

    Parameters
    ----------
    y : ndarray of shape (n,)
    predicted : TargetDistribution
    std : ndarray of shape (n,)
        Orders the rows: the fifth with the smallest comes first.

    Examples
    --------
    >>> p = Mixture.of_one(np.zeros(5), np.zeros(5), 1.0)
    >>> by_quintile(np.array([0.0, 3.0, 0.0, 0.0, 0.0]), p, np.array([1, 5, 2, 3, 4]))
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """
    lower, upper = predicted.interval(0.95)
    parts = np.array_split(np.argsort(std, kind="stable"), N_QUINTILES)
    return [metrics.interval_coverage(y[part], lower[part], upper[part]) for part in parts]


# ---- The tables


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and network: the methods side by side.

    Gains are over constant noise, mean and standard error over the splits both were run on.
    """
    places = {name: i for i, name in enumerate([*dataset_names(), *noise_sets.SIZES])}

    def key(row: Row) -> tuple[bool, int, int]:
        layers = len(row["hidden"])
        return layers > 1 and row["dataset"] not in noise_sets.SIZES, places[row["dataset"]], layers

    return [_record(list(group)) for _, group in groupby(sorted(rows, key=key), key)]


def _record(rows: Sequence[Row]) -> Record:
    of = {name: [row for row in rows if row["method"] == name] for name in METHODS}
    pairs = _pairs(of[CONSTANT], of[INPUT])
    seconds = [sum(row["seconds"] for row in side) for side in zip(*pairs, strict=True)]
    ratios = [two["rmse"] / one["rmse"] for one, two in pairs]
    record: Record = {
        "dataset": rows[0]["dataset"],
        "hidden": "-".join(str(n) for n in rows[0]["hidden"]),
        "n_splits": len(of[CONSTANT]) or len(of[INPUT]),
        "n_paired": len(pairs),
        "rmse_ratio": max(ratios, key=lambda r: abs(r - 1.0)) if ratios else None,
        "slower": seconds[1] / seconds[0] if seconds else None,
        "n_warned": sum(bool(row.get("warnings")) for row in rows),
        "n_fits": len(rows),
    }
    for name in METHODS:
        record |= _mean(f"{name}_log_likelihood", of[name], lambda row: row["log_likelihood"])
        record |= _mean(f"{name}_coverage", of[name], lambda row: row["coverage_95"])
    record |= _gain("gain", of[CONSTANT], of[INPUT])
    record |= _gain("over_trees", of[NGBOOST], of[INPUT])
    for i in range(N_QUINTILES):
        for name in (CONSTANT, INPUT):
            record[f"{name}_quintile_{i + 1}"] = _of_fifth(of[name], "quintiles", i)
        same = _of_fifth(of[INPUT], "quintiles_of_constant", i)
        record[f"constant_same_rows_{i + 1}"] = same
    return record


def _of_fifth(rows: Sequence[Row], key: str, i: int) -> float | None:
    return float(np.mean([row[key][i] for row in rows])) if rows else None


def _pairs(first: Sequence[Row], second: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of two methods of one set and network, by split and seed."""
    found = {(row["split"], row["seed"]): row for row in first}
    places = [((row["split"], row["seed"]), row) for row in second]
    return [(found[place], row) for place, row in places if place in found]


def _mean(key: str, rows: Sequence[Row], value: Callable[[Row], float]) -> Record:
    values = [value(row) for row in rows]
    mean, se = benchmark.mean_and_error(values) if values else (None, None)
    return {key: mean, f"{key}_se": se}


def _gain(key: str, base: Sequence[Row], own: Sequence[Row]) -> Record:
    """Return by how much one method is above another in log-likelihood, on the same splits."""
    gains = [two["log_likelihood"] - one["log_likelihood"] for one, two in _pairs(base, own)]
    mean, se = benchmark.mean_and_error(gains) if gains else (None, None)
    return {key: mean, f"{key}_se": se}


def _percent(key: str) -> Callable[[Record], str]:
    return lambda record: "" if record[key] is None else f"{100.0 * record[key]:.1f} %"


_FIFTHS = range(1, N_QUINTILES + 1)
_WORDS = {1: "1 (smallest std)", N_QUINTILES: f"{N_QUINTILES} (largest)"}


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the coverages by quintile, constant noise and noise="input" under each other."""
    shown = [r for r in records if r["n_paired"] and r["dataset"] not in noise_sets.SIZES]
    lines: list[Record] = []
    for record in shown:
        for noise, key in ((CONSTANT, "constant_same_rows"), (INPUT, "input_quintile")):
            fifths = {str(i): record[f"{key}_{i}"] for i in _FIFTHS}
            lines.append(
                {"dataset": record["dataset"], "hidden": record["hidden"], "noise": noise} | fifths
            )
    columns = [
        Column("data set", text("dataset")),
        Column("hidden", text("hidden")),
        Column("noise", text("noise")),
        *(Column(_WORDS.get(i, str(i)), _percent(str(i))) for i in _FIFTHS),
    ]
    title = 'Share of the targets in the 95 % interval, by quintile of the std of noise="input"'
    return [(title, cells(columns, lines))] if lines else []


# ---- What it adds up to


def notes(records: Sequence[Record]) -> list[str]:
    """Describe the columns, then the sets on which the noise network gains and loses."""
    paired = [record for record in records if record["n_paired"]]
    real = [record for record in paired if record["dataset"] not in noise_sets.SIZES]
    made = [record for record in paired if record["dataset"] in noise_sets.SIZES]
    lines = [
        "mean ± standard error over the splits, in target units; gain: log-likelihood of "
        'noise="input" minus constant noise, on the same splits with the same seed; RMSE '
        "ratio: the one of all splits that is furthest from 1; times the seconds: of the "
        "processor, for a fit; above NGBoost: on the splits that NGBoost was run on; "
        f"made_NxD: N rows, D features, {noise_sets.N_REPEATS} draws, all with Gaussian noise of "
        f"standard deviation {noise_sets.NOISE_STD}, the same everywhere",
        "year_prediction_msd was not run: it has 515,345 rows",
    ]
    for words, group in (
        ("one hidden layer", [r for r in real if "-" not in r["hidden"]]),
        ("two hidden layers", [r for r in real if "-" in r["hidden"]]),
        ("homoscedastic noise (synthetic data)", made),
    ):
        if group:
            lines.append(f"{words}: {_better(group)}")
    if paired and all(record["rmse_ratio"] == 1.0 for record in paired):
        n = sum(record["n_paired"] for record in paired)
        lines.append(f"the RMSE is the same to the last bit in {n} of {n} pairs of fits")
    n_warned = sum(record["n_warned"] for record in records)
    if n_warned:
        n_fits = sum(record["n_fits"] for record in records)
        lines.append(f"{n_warned} of {n_fits} fits warned; their rows say of what")
    return lines


def _better(records: Sequence[Record]) -> str:
    def clearly(record: Record) -> bool:
        se = record["gain_se"]
        return se is not None and abs(record["gain"]) > comparison.TOLERANCE * se

    better = [record for record in records if record["gain"] > 0.0]
    worse = [record for record in records if record["gain"] <= 0.0]
    lost = ", ".join(f"{r['dataset']} ({with_error('gain')(r)})" for r in worse if clearly(r))
    return (
        f'noise="input" has the better log-likelihood on {len(better)} of {len(records)} sets, by '
        f"more than two standard errors on {sum(map(clearly, better))}, and the worse by as much "
        f"on {lost or 'none'}"
    )


EXPERIMENT = Experiment(
    name="noise",
    title="Homoscedastic and heteroscedastic noise",
    text='PBPRegressor(noise="input"), whose second network learns heteroscedastic noise, '
    "compared with PBPRegressor(), whose noise is constant. One hidden layer of 50 units (100 for "
    "protein), or two; 40 epochs, on the fixed splits. NGBoost learns heteroscedastic noise too. "
    "Synthetic data with constant noise show what the second network loses where there is nothing "
    "to gain.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("hidden", text("hidden")),
        Column("splits", text("n_splits")),
        Column("constant", with_error("constant_log_likelihood"), "Log-likelihood"),
        Column("input", with_error("input_log_likelihood"), "Log-likelihood"),
        Column("gain", with_error("gain"), "Log-likelihood"),
        Column("NGBoost", with_error("NGBoost_log_likelihood"), "Log-likelihood"),
        Column("above NGBoost", with_error("over_trees"), "Log-likelihood"),
        Column("RMSE ratio", number("rmse_ratio", 8), "Mean, coverage and time"),
        Column("constant: in 95 %", _percent("constant_coverage"), "Mean, coverage and time"),
        Column("input: in 95 %", _percent("input_coverage"), "Mean, coverage and time"),
        Column("times the seconds", times("slower"), "Mean, coverage and time"),
    ],
    notes=notes,
    summaries=summaries,
    figures=lambda rows: noise_figure.figures(records(rows)),
    check=lambda jobs: check(list(jobs)),
    cost=cost,
)
