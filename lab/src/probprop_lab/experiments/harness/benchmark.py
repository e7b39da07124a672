"""Fits on the benchmark sets: what table1, deep and epochs have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np

from probprop._types import Array
from probprop_lab.clock import timed_alike
from probprop_lab.experiments.harness import methods
from probprop_lab.experiments.harness.columns import Record
from probprop_lab.experiments.harness.experiment import Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.protocol import (
    YEAR,
    Protocol,
    dataset_names,
    protocol,
    without_year,
)
from probprop_lab.experiments.harness.scoring import fit_and_score
from probprop_lab.results import Row

AVERAGED = ("rmse", "log_likelihood", "crps", "coverage_95", "calibration_error", "seconds")
"""What the records of an experiment average over the splits."""

COMPARED = ("rmse", "log_likelihood", "crps")
"""What is compared on the splits that two methods were run on."""

Split = tuple[Array, Array]
Parts = tuple[Array, Array, Array, Array]  # X_train, y_train, X_test, y_test
Loader = Callable[[str, int], Parts]  # from a data set and the number of a split


@lru_cache(maxsize=2)  # a worker meets the splits of one set one after another
def _data(dataset: str) -> tuple[Array, Array, list[Split]]:
    from probprop_lab import datasets

    found = datasets.load(dataset)
    return found.X, found.y, list(datasets.splits(dataset))


def load_split(dataset: str, split: int) -> Parts:
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


def measure(job: Job, known: methods.Methods = methods.KNOWN) -> Row:
    """Fit a method on the training set of a split and score it on the test set."""
    return fit_and_score(job, *load_split(job.dataset, job.split), known)[1]


def jobs(
    experiment: str,
    selection: Selection,
    variants: Callable[[Protocol], Iterable[tuple[tuple[int, ...], int]]],
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
        Splits of each set; None is all its fixed ones.

    Raises
    ------
    ValueError
        A set or a method of the selection is unknown.
    """
    for method in selection.methods or ():
        methods.check_name(method)
    chosen = selection.datasets or default or available()
    unknown = [name for name in chosen if name not in dataset_names()]
    if unknown:
        known = ", ".join(dataset_names())
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
        for hidden, n_epochs in variants(protocol(name))
        for split in range(n_splits or protocol(name).n_splits)[: selection.n_splits]
    ]


def only_pbp(experiment: str, selection: Selection) -> None:
    """Refuse other methods in an experiment on PBP alone."""
    if selection.methods and set(selection.methods) != {"PBP"}:
        raise ValueError(f"the experiment {experiment} has the method PBP only")


def available() -> list[str]:
    """Return the ten sets, without the one of 200 MB where its file is not at hand."""
    from probprop_lab import datasets

    return dataset_names() if datasets.where(YEAR) is not None else without_year()


def cost(job: Job, more_rows: int = 0) -> float:
    """Return the work in a job, in weight updates of PBP, to predict the time it takes.

    `more_rows` represent work that does not grow with the data set.
    """
    try:
        known = protocol(job.dataset)
    except KeyError:
        known = Protocol(job.dataset, 20, 1, 0, 1)
    sizes = [known.d, *job.hidden, 1]
    n_weights = sum((a + 1) * b for a, b in pairwise(sizes))
    return float((known.n + more_rows) * job.n_epochs * n_weights) * methods.cost(job.method)


def mean_records(rows: Sequence[Row]) -> list[Record]:
    """Average rows over their splits: one record per set, method, network and
    number of epochs.

    Standard errors are std(ddof=1)/sqrt(n); None with one split. They are next to the means
    as ``rmse_se`` and so on. The gaps are PBP's value minus the other method's. Seconds are taken
    from the fits of rows with processor time, if a record has any.
    """
    pbp = [row for row in rows if row["method"] == "PBP"]
    records: list[Record] = []
    for found, same in _alike(rows):
        _, dataset, _, method, n_layers, hidden, n_epochs = found
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
            of = timed_alike(same) if name == "seconds" else same
            record[name], record[f"{name}_se"] = mean_and_error([row[name] for row in of])
        record["n_warned"] = sum(bool(row.get("warnings")) for row in same)
        other = method not in ("PBP", methods.PLAIN)
        records.append({**record, **paired(pbp if other else [], same)})
    return records


_Key = tuple[int, str, int, str, int, list[int], int]


def _alike(rows: Sequence[Row]) -> list[tuple[_Key, list[Row]]]:
    """Return rows by set, method, network and number of epochs, in the order of the tables."""
    order = {name: i for i, name in enumerate(dataset_names())}

    def key(row: Row) -> _Key:
        name, method, layers = row["dataset"], row["method"], row["hidden"]
        place = order.get(name, len(order))
        n_layers, n_epochs = len(layers), row["n_epochs"]
        return place, name, methods.place(method), method, n_layers, layers, n_epochs

    return [(found, list(group)) for found, group in groupby(sorted(rows, key=key), key)]


def timed(rows: Sequence[Row]) -> list[Row]:
    """Return the rows whose seconds are in the records of `mean_records`."""
    return [row for _, same in _alike(rows) for row in timed_alike(same)]


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as text: 0 to 4, 7."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True))


_PAIRED = ("dataset", "split", "seed", "hidden", "n_epochs")


def paired(first: Sequence[Row], second: Sequence[Row]) -> Record:
    """Return how one method differs from another on the splits both were run on.

    The differences are first minus second, with the standard error of their
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
    own = timed_alike([row for _, row in pairs])
    clocked = [(one, other) for one, other in pairs if other in own]
    seconds = [sum(row["seconds"] for row in side) for side in zip(*clocked, strict=True)]
    record["slower"] = seconds[1] / seconds[0] if seconds else None
    return record


def _identity(row: Row) -> str:
    """What two rows have in common if they differ in the method only."""
    return str([row[name] for name in _PAIRED])


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error, None for one value.

    Examples
    --------
    >>> mean_and_error([1.0, 2.0, 3.0]), mean_and_error([1.0])
    ((2.0, 0.5773502691896258), (1.0, None))
    """
    se = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return float(np.mean(values)), se
