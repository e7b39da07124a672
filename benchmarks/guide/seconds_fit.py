"""One fit of `benchmarks.guide.seconds`, alone in its process; prints its figures as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from sklearn.datasets import make_friedman1

from benchmarks.guide.pages import Figures
from benchmarks.memory_fit import peak, reset_peak, resident
from probprop import PBPRegressorCV
from probprop_lab.experiments.harness.benchmark import Parts, load_split
from probprop_lab.experiments.harness.scoring import evaluate

_N_FEATURES, _N_TEST = 10, 1_000


def rows_to_fit_and_test(data: str, split: int, n_test: int) -> Parts:
    """Return a fixed split of a benchmark set, or rows of Friedman's function with noise 1."""
    if not data.startswith("made "):
        return load_split(data, split)
    n = int(data.partition(" ")[2])
    X, y = make_friedman1(n + n_test, _N_FEATURES, noise=1.0, random_state=split)
    return X[:n], y[:n], X[n:], y[n:]


def fit(data: str, split: int, budget: Any, n_test: int = _N_TEST) -> Figures:
    """Fit once; return what it took, and what came of it."""
    parts = rows_to_fit_and_test(data, split, n_test)
    model = PBPRegressorCV(budget=budget, random_state=split)
    reset_peak()
    before = resident()
    scored = evaluate(model, *parts)
    return {
        "peak_above": peak() - before,
        "n_networks": len(model.estimators_),
        **{name: scored[name] for name in ("n_train", "seconds", "log_likelihood", "rmse")},
    }


def main() -> None:
    data, split, budget = sys.argv[1:]
    print(json.dumps(fit(data, int(split), budget)))


if __name__ == "__main__":
    main()
