"""Fits on the benchmark sets: what table1, deep and epochs have in common."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from probprop import metrics
from probprop._types import Array
from probprop_lab.experiments import methods, paper
from probprop_lab.experiments.experiment import Record, Selection
from probprop_lab.experiments.job import Job, Row

AVERAGED = ("rmse", "log_likelihood", "crps", "coverage_95", "calibration_error", "seconds")
"""What the records of an experiment average over the splits."""

COMPARED = ("rmse", "log_likelihood", "crps")
"""What is compared on the splits that two methods were run on."""

Split = tuple[Array, Array]

# Active learning makes ten small fits whatever the set has, which take about as long as it takes
# to choose from a pool of this size; what grows with the set is the choosing.
_ACTIVE_ROWS = 20_000


@lru_cache(maxsize=2)  # a worker meets the splits of one set one after another
def _data(dataset: str) -> tuple[Array, Array, list[Split]]:
    from probprop_lab import datasets

    found = datasets.load(dataset)
    return found.X, found.y, list(datasets.splits(dataset))


def load_split(dataset: str, split: int) -> tuple[Array, Array, Array, Array]:
    """Return X_train, y_train, X_test, y_test of one of the fixed splits.

    Parameters
    ----------
    dataset : str
    split : int
        From 0.

    Raises
    ------
    ValueError
        The set has no such split.
    """
    X, y, splits = _data(dataset)
    if not 0 <= split < len(splits):
        raise ValueError(f"{dataset} has the splits 0 to {len(splits) - 1}; got {split}")
    train, test = splits[split]
    return X[train], y[train], X[test], y[test]


def measure(job: Job) -> Row:
    """Fit a method on the training part of a split and judge it on the test part."""
    return fit_and_judge(job, *load_split(job.dataset, job.split))[1]


def fit_and_judge(
    job: Job, X_train: Array, y_train: Array, X_test: Array, y_test: Array
) -> tuple[Any, Row]:
    """Fit as a job says and return the estimator with everything the tables need."""
    estimator = methods.find(job.method).make(job)
    return estimator, judge(estimator, X_train, y_train, X_test, y_test)


def judge(estimator: Any, X_train: Array, y_train: Array, X_test: Array, y_test: Array) -> Row:
    """Fit an estimator on the training part and return what the tables need of it.

    The seconds are those of the fit alone: normalisation, and a search for hyperparameters
    where there is one, included. What it warned of is in the row.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        estimator.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        predictive = methods.predictive(estimator, X_test)
    told = [str(w.message) for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)]
    parted = hasattr(estimator, "predict_distribution")  # into model and noise
    return {
        **metrics.summary(y_test, predictive),
        "seconds": seconds,
        "n_train": len(y_train),
        "n_test": len(y_test),
        "n_features": X_train.shape[1],
        "std_model": float(np.sqrt(np.mean(predictive.std_model**2))) if parted else None,
        **methods.details(estimator),
        "warnings": list(dict.fromkeys(told)),
    }


def jobs(
    experiment: str,
    selection: Selection,
    variants: Callable[[paper.Protocol], Iterable[tuple[tuple[int, ...], int]]],
    default: Sequence[str] | None = None,
    n_splits: int | None = None,
) -> list[Job]:
    """Return the jobs of an experiment: sets, then methods, then variants, then splits.

    Parameters
    ----------
    experiment : str
    selection : Selection
    variants : callable
        From the protocol of a set to the hidden layers and numbers of epochs to try.
    default : sequence of str or None, default=None
        The sets without a selection; None is all whose files can be had without asking.
    n_splits : int or None, default=None
        Splits of each set; None is as many as the set has fixed ones.

    Raises
    ------
    ValueError
        A set or a method the selection asks for is not known.
    """
    for method in selection.methods or ():
        methods.check_name(method)
    chosen = selection.datasets or default or available()
    unknown = [name for name in chosen if name not in paper.dataset_names()]
    if unknown:
        known = ", ".join(paper.dataset_names())
        raise ValueError(f"unknown data set {', '.join(unknown)}: choose among {known}")
    return [
        Job(
            experiment,
            name,
            split,
            method,
            # The initial weights matter as much as the split does: they differ as well.
            seed=1000 * selection.seed + split,
            hidden=hidden,
            n_epochs=n_epochs,
        )
        for name in chosen
        for method in selection.methods or ("PBP",)
        for hidden, n_epochs in variants(paper.protocol(name))
        for split in range(n_splits or paper.protocol(name).n_splits)[: selection.n_splits]
    ]


def only_pbp(experiment: str, selection: Selection) -> None:
    """Refuse other methods in an experiment that looks at PBP."""
    if selection.methods and set(selection.methods) != {"PBP"}:
        raise ValueError(f"the experiment {experiment} has the method PBP only")


def available() -> list[str]:
    """Return the ten sets, without the one of 200 MB where its file is not at hand."""
    from probprop_lab import datasets

    large = "year_prediction_msd"
    return [k for k in paper.dataset_names() if k != large or datasets.where(k) is not None]


def cost(job: Job) -> float:
    """Return the work in a job, to foresee the time it takes: in weight updates of PBP."""
    try:
        known = paper.protocol(job.dataset)
    except KeyError:
        known = paper.Protocol(job.dataset, 20, 1, 0, 1)
    sizes = [known.d, *job.hidden, 1]
    n_weights = sum((a + 1) * b for a, b in pairwise(sizes))
    n_rows = known.n + (_ACTIVE_ROWS if job.experiment == "active" else 0)
    return float(n_rows * job.n_epochs * n_weights) * methods.cost(job.method)


def mean_records(rows: Sequence[Row]) -> list[Record]:
    """Average rows over their splits: one record per set, method, network and
    number of epochs.

    Standard errors are std(ddof=1)/sqrt(n); None with one split. They stand beside the means
    as ``rmse_se`` and so on. The gaps are PBP's value minus the other method's.
    """
    order = {name: i for i, name in enumerate(paper.dataset_names())}

    def key(row: Row) -> tuple[int, str, int, str, int, list[int], int]:
        name, method, layers = row["dataset"], row["method"], row["hidden"]
        place = order.get(name, len(order))
        n_layers, n_epochs = len(layers), row["n_epochs"]
        return place, name, methods.place(method), method, n_layers, layers, n_epochs

    pbp = [row for row in rows if row["method"] == "PBP"]
    records: list[Record] = []
    for found, group in groupby(sorted(rows, key=key), key):
        _, dataset, _, method, n_layers, hidden, n_epochs = found
        same = list(group)
        record: Record = {
            "dataset": dataset,
            "method": method,
            "n_layers": n_layers,
            "hidden": "-".join(str(n) for n in hidden),
            "n_epochs": n_epochs,
            "n_splits": len(same),
            "splits": ranges(sorted(row["split"] for row in same)),
            "rmse_max": max(row["rmse"] for row in same),  # shows a fit that went astray
            "total_seconds": sum(row["seconds"] for row in same),
        }
        for name in AVERAGED:
            record[name], record[f"{name}_se"] = mean_and_error([row[name] for row in same])
        record["n_warned"] = sum(bool(row.get("warnings")) for row in same)
        other = method not in ("PBP", methods.PLAIN)
        records.append({**record, **paired(pbp if other else [], same)})
    return records


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as text: 0 to 4, 7."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True))


_PAIRED = ("dataset", "split", "seed", "hidden", "n_epochs")


def paired(first: Sequence[Row], second: Sequence[Row]) -> Record:
    """Return how one method differs from another on the splits both were run on.

    The differences are those of the first minus the second, with the standard error of their
    mean; None where there is no such split.
    """
    found = {_identity(row): row for row in first}
    pairs = [(found[_identity(row)], row) for row in second if _identity(row) in found]
    record: Record = {"n_paired": len(pairs)}
    for name in COMPARED:
        gaps = [one[name] - other[name] for one, other in pairs]
        record[f"{name}_gap"], record[f"{name}_gap_se"] = (
            mean_and_error(gaps) if gaps else (None, None)
        )
    seconds = [sum(row["seconds"] for row in side) for side in zip(*pairs, strict=True)]
    record["slower"] = seconds[1] / seconds[0] if seconds else None
    return record


def _identity(row: Row) -> str:
    """What two rows have in common that differ in the method only."""
    return str([row[name] for name in _PAIRED])


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error, None of one value.

    Examples
    --------
    >>> mean_and_error([1.0, 2.0, 3.0]), mean_and_error([1.0])
    ((2.0, 0.5773502691896258), (1.0, None))
    """
    se = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return float(np.mean(values)), se


def compare(record: Record, name: str, printed: paper.Printed | None) -> Record:
    """Return the printed value beside ours and the difference in combined standard errors."""
    if printed is None:
        return {f"{name}_paper": None, f"{name}_difference": None}
    return {
        f"{name}_paper": str(printed),
        f"{name}_difference": printed.difference(record[name], record[f"{name}_se"]),
    }
