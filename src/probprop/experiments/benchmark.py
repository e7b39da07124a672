"""Fits on the benchmark sets: what table1, deep and epochs have in common."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np

from probprop import metrics
from probprop.experiments import paper
from probprop.experiments.experiment import Record, Selection
from probprop.experiments.job import Job, Row
from probprop.posterior import Array, Epoch
from probprop.predictive import Predictive
from probprop.regressor import PBPRegressor
from probprop.standardize import Standardizer, fit_standardizer

AVERAGED = ("rmse", "log_likelihood", "crps", "coverage_95", "calibration_error", "seconds")
"""What the records of an experiment average over the splits."""

_COUNTS = ("n_undone", "n_guarded", "n_skipped_points", "n_skipped_factors")

PLAIN = "PBP, constant columns at 0"
METHODS = ("PBP", PLAIN)
"""PBP as the authors ran it, and as `PBPRegressor` does; they differ on naval only."""

# The pressure P1 of naval is constant. In the authors' code round-off leaves it a standard
# deviation of 2e-13, by which its distance from the mean is divided: the column becomes a
# second bias unit, and their results on this set, the printed ones too, depend on it.
_ROUND_OFF = {"naval_propulsion": (11,)}

Split = tuple[Array, Array]


@lru_cache(maxsize=2)  # a worker meets the splits of one set one after another
def _data(dataset: str) -> tuple[Array, Array, list[Split]]:
    from probprop import datasets

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
    """Fit a network on the training part of a split and judge it on the test part."""
    X, y, X_test, y_test = load_split(job.dataset, job.split)
    ones = _ROUND_OFF.get(job.dataset, ()) if job.method == "PBP" else ()
    return fit_and_judge(job, X, y, X_test, y_test, ones)[1]


def fit_and_judge(
    job: Job,
    X_train: Array,
    y_train: Array,
    X_test: Array,
    y_test: Array,
    ones: Sequence[int] = (),
) -> tuple[Fitted, Row]:
    """Fit PBP as a job says and return the model with everything the tables need.

    The seconds are those of the fit alone, normalisation included.
    """
    if job.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {job.method!r}")
    start = time.perf_counter()
    fitted = fit(job, X_train, y_train, ones)
    seconds = time.perf_counter() - start
    predictive = fitted.predict(X_test)
    model, y_scale = fitted.model, fitted.standardizer.y_scale
    return fitted, {
        **metrics.summary(y_test, predictive),
        "seconds": seconds,
        "n_train": len(y_train),
        "n_test": len(y_test),
        "n_features": X_train.shape[1],
        "std_model": float(np.sqrt(np.mean(predictive.std_model**2))),
        "noise_variance": model.noise_variance_ * y_scale**2,
        "prior_variance": model.prior_variance_,
        "alpha_noise": model.posterior_.alpha_noise,
        "log_evidence": model.log_evidence_ - len(y_train) * float(np.log(y_scale)),
        **_counts(model.history_),
    }


@dataclass(frozen=True, eq=False)
class Fitted:
    """A regressor of normalised data with what brings it back to target units.

    Parameters
    ----------
    model : PBPRegressor
    standardizer : Standardizer
        Of the training part.
    ones : sequence of int
        Columns set to 1.
    """

    model: PBPRegressor
    standardizer: Standardizer
    ones: Sequence[int]

    def predict(self, X: Array) -> Predictive:
        """Return the predictive distribution of rows of shape (n, d), in target units."""
        found = self.model.predict_distribution(_normalised(X, self.standardizer, self.ones))
        y_scale = self.standardizer.y_scale
        return Predictive(
            mean=found.mean * y_scale + self.standardizer.y_mean,
            std_model=found.std_model * y_scale,
            std_noise=found.std_noise * y_scale,
            alpha_noise=found.alpha_noise,
        )


def fit(job: Job, X: Array, y: Array, ones: Sequence[int] = ()) -> Fitted:
    """Normalise on the training part and fit; without `ones`, `PBPRegressor` does the same."""
    standardizer = fit_standardizer(X, y)
    model = PBPRegressor(
        job.hidden, n_epochs=job.n_epochs, random_state=job.seed, standardize=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts, which the row has
        model.fit(_normalised(X, standardizer, ones), standardizer.transform_y(y))
    return Fitted(model, standardizer, ones)


def _normalised(X: Array, standardizer: Standardizer, ones: Sequence[int]) -> Array:
    normalised = standardizer.transform_X(X, np.dtype("float64"))[0]
    normalised[:, list(ones)] = 1.0
    return normalised


def _counts(history: Iterable[Epoch]) -> Row:
    epochs = list(history)
    return {name: sum(getattr(epoch, name) for epoch in epochs) for name in _COUNTS}


def jobs(
    experiment: str,
    selection: Selection,
    variants: Callable[[paper.Protocol], Iterable[tuple[tuple[int, ...], int]]],
    default: Sequence[str] | None = None,
) -> list[Job]:
    """Return the jobs of an experiment: sets, then variants, then splits.

    Parameters
    ----------
    experiment : str
    selection : Selection
    variants : callable
        From the protocol of a set to the hidden layers and numbers of epochs to try.
    default : sequence of str or None, default=None
        The sets without a selection; None is all whose files can be had without asking.
    """
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
            # The initial weights matter as much as the split does: they differ as well.
            seed=1000 * selection.seed + split,
            hidden=hidden,
            n_epochs=n_epochs,
        )
        for name in chosen
        for hidden, n_epochs in variants(paper.protocol(name))
        for split in range(min(paper.protocol(name).n_splits, selection.n_splits or 20))
    ]


def available() -> list[str]:
    """Return the ten sets, without the one of 200 MB where its file is not at hand."""
    from probprop import datasets

    large = "year_prediction_msd"
    return [k for k in paper.dataset_names() if k != large or datasets.where(k) is not None]


def cost(job: Job) -> float:
    """Return about how many weight updates a job makes, to foresee the time it takes."""
    try:
        known = paper.protocol(job.dataset)
    except KeyError:
        known = paper.Protocol(job.dataset, 20, 1, 0, 1)
    sizes = [known.d, *job.hidden, 1]
    n_weights = sum((a + 1) * b for a, b in pairwise(sizes))
    return float(known.n * job.n_epochs * n_weights)


def mean_records(rows: Sequence[Row]) -> list[Record]:
    """Average rows over their splits: one record per set, method, network and
    number of epochs.

    Standard errors are std(ddof=1)/sqrt(n); None with one split. They stand beside the means
    as ``rmse_se`` and so on.
    """
    order = {name: i for i, name in enumerate(paper.dataset_names())}

    def key(row: Row) -> tuple[int, str, str, int, list[int], int]:
        name, layers = row["dataset"], row["hidden"]
        place = order.get(name, len(order))
        return place, name, row["method"], len(layers), layers, row["n_epochs"]

    records: list[Record] = []
    for found, group in groupby(sorted(rows, key=key), key):
        _, dataset, method, n_layers, hidden, n_epochs = found
        same = list(group)
        record: Record = {
            "dataset": dataset,
            "method": method,
            "n_layers": n_layers,
            "hidden": "-".join(str(n) for n in hidden),
            "n_epochs": n_epochs,
            "n_splits": len(same),
            "rmse_max": max(row["rmse"] for row in same),  # shows a fit that went astray
            "total_seconds": sum(row["seconds"] for row in same),
        }
        for name in AVERAGED:
            record[name], record[f"{name}_se"] = mean_and_error([row[name] for row in same])
        records.append(record)
    return records


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error, None of one value.

    Examples
    --------
    >>> mean_and_error([1.0, 2.0, 3.0]), mean_and_error([1.0])
    ((2.0, 0.5773502691896258), (1.0, None))
    """
    se = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return float(np.mean(values)), se


def compare(record: Record, name: str, printed: paper.Printed) -> Record:
    """Return the printed value beside ours and the difference in combined standard errors."""
    return {
        f"{name}_paper": str(printed),
        f"{name}_difference": printed.difference(record[name], record[f"{name}_se"]),
    }
