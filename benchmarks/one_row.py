"""Calls with one row: a stream's `partial_fit`, and `predict`."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from benchmarks.agreement import check_close, check_posteriors
from benchmarks.cases import made_data
from benchmarks.clock import median, say, seconds_per_call
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, verdict
from probprop import PBPRegressor

_N_ROWS, _N_FEATURES = 500, 13
_N_CALLS = 1_000
_MOST_MILLISECONDS = {"partial_fit": 0.1, "predict": 0.08}


def run(effort: Effort) -> Outcome:
    """Time many calls of each in turn."""
    X, y = made_data(_N_ROWS, _N_FEATURES)
    model, oracle = (
        PBPRegressor(n_epochs=2, random_state=0, engine=engine).fit(X, y)
        for engine in ("native", "reference")
    )
    _check(model, oracle)
    rows = itertools.cycle(range(_N_ROWS))

    def partial_fit() -> None:
        i = next(rows)
        model.partial_fit(X[i : i + 1], y[i : i + 1])

    calls = {"partial_fit": partial_fit, "predict": functools.partial(model.predict, X[:1])}
    found: dict[str, list[float]] = {name: [] for name in calls}
    for repetition in range(effort.n_repetitions):
        say(f"one row: repetition {repetition + 1} of {effort.n_repetitions}")
        for name, call in calls.items():
            found[name].append(1e3 * seconds_per_call(call, effort.of(_N_CALLS, least=5)))
    short = [name for name in calls if median(found[name]) > _MOST_MILLISECONDS[name]]
    return Outcome(
        title=f"Calls with one row of {_N_FEATURES} features (medians of {effort.n_repetitions})",
        header=["call", "ms", "at most", ""],
        rows=[
            [
                name,
                f"{median(found[name]):.3f}",
                f"{_MOST_MILLISECONDS[name]}",
                verdict(name not in short),
            ]
            for name in calls
        ],
        figures=[Figure(f"one row, ms: {name}", found[name]) for name in calls],
        notes=["Checked: predictions equal the batch's, and updates row by row equal one call."],
        measured=dict(found),
        missed=[f"one row: {name} takes {median(found[name]):.3f} ms" for name in short],
    )


def _check(model: PBPRegressor, oracle: PBPRegressor) -> None:
    """Compare one row with many, and a stream of single rows with the reference's."""
    X, y = made_data(_N_ROWS, _N_FEATURES)
    alone = np.concatenate([model.predict(X[i : i + 1]) for i in range(5)])
    check_close("predict of one row", alone, model.predict(X)[:5], 1e-12)
    for i in range(5):
        for each in (model, oracle):
            each.partial_fit(X[i : i + 1], y[i : i + 1])
    check_posteriors("partial_fit of one row", model.posterior_, oracle.posterior_)
