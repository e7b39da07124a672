"""`predict` of `PBPRegressorCV` with ten networks: one row beside CatBoost's, and 1,000 rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.agreement import check_close
from benchmarks.cases import made_data
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, verdict
from probprop import Candidate, PBPRegressorCV
from probprop._types import Array

_N_FIT, _N_FEATURES, _N_ROWS = 400, 10, 1_000
_N_CALLS = 200  # of one row, in one timing
_MOST = {"mean": 0.6, "mean and std": 0.8, "interval": 2.2}  # times CatBoost's mean of one row


def run(effort: Effort) -> Outcome:
    """Time all in turn; CatBoost's ratio is reported where it is installed."""
    X, y = made_data(_N_ROWS, _N_FEATURES)
    plain = [Candidate(evidence_cap=10.0, noise="constant")]
    model = PBPRegressorCV(candidates=plain, budget="fast", random_state=0)
    model.fit(X[:_N_FIT], y[:_N_FIT])
    _check(model, X[:_N_FIT])  # inside the training range, where no value is bounded
    n_calls = effort.of(_N_CALLS, least=2)
    works: dict[str, tuple[Callable[[], Any], int]] = {}
    for n, rows in ((n_calls, X[:1]), (1, X)):
        asked = _asked(model, rows) | _catboost(X[:_N_FIT], y[:_N_FIT], rows)
        works |= {f"{name}, {len(rows):,} rows": (work, n) for name, work in asked.items()}
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for repetition in range(effort.n_repetitions):
        say(f"cv_predict: repetition {repetition + 1} of {effort.n_repetitions}")
        for name, (work, n) in works.items():
            seconds[name].append(timed(lambda work=work, n=n: _often(work, n))[0] / n)  # type: ignore[misc]
    beside = "CatBoost, 1 rows"
    ratios = {
        name: median([a / b for a, b in zip(seconds[name], seconds[beside], strict=True)])
        for name in works
        if beside in works and name.endswith(", 1 rows")
    }
    most = {f"{name}, 1 rows": value for name, value in _MOST.items()}
    return Outcome(
        title=f"PBPRegressorCV of ten networks, processor time (medians of {effort.n_repetitions})",
        header=["what", "microseconds", "of CatBoost", "at most", ""],
        rows=[
            [
                name,
                f"{1e6 * median(seconds[name]):,.0f}",
                f"{ratios[name]:.2f}" if name in ratios else "",
                f"{most[name]}" if name in most else "",
                verdict(ratios[name] <= most[name]) if name in most and name in ratios else "",
            ]
            for name in works
        ],
        figures=[Figure(f"cv predict, {name}", [1.0 / s for s in seconds[name]]) for name in works],
        notes=["Checked: the mean is the average of the networks' own predictions."],
        measured={"cv_predict": dict(seconds)},
        missed=[
            f"cv_predict: {name} takes {ratios[name]:.2f} times CatBoost's, above {most[name]}"
            for name in ratios
            if name in most and ratios[name] > most[name]
        ],
    )


def _often(work: Callable[[], Any], n: int) -> None:
    for _ in range(n):
        work()


def _asked(model: PBPRegressorCV, rows: Array) -> dict[str, Callable[[], Any]]:
    return {
        "mean": lambda: model.predict(rows),
        "mean and std": lambda: model.predict(rows, return_std=True),
        "interval": lambda: model.predict_interval(rows),
    }


def _catboost(X: Array, y: Array, rows: Array) -> dict[str, Callable[[], Any]]:
    try:
        from catboost import CatBoostRegressor
    except ImportError:
        return {}
    trees = CatBoostRegressor(
        verbose=False, random_seed=0, thread_count=1, allow_writing_files=False
    )
    trees.fit(X, y)
    return {"CatBoost": lambda: trees.predict(rows)}


def _check(model: PBPRegressorCV, X: Array) -> None:
    """Compare with the slow way: each network by itself, and quantiles against the cdf."""
    each = np.mean([member.predict(X) for member in model.estimators_], axis=0)
    check_close("cv_predict", model.predict(X), each, 1e-12)
    predicted = model.predict_distribution(X)
    ends = model.predict_interval(X, 0.9).T
    for end, q in zip(ends, (0.05, 0.95), strict=True):
        check_close("cv_predict interval", predicted.cdf(end), np.full(len(X), q), 1e-9)
