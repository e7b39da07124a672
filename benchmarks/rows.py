"""Updates per second against the number of rows: what random access to memory costs."""

from __future__ import annotations

import functools
from collections import defaultdict

import numpy as np

from benchmarks.agreement import check_posteriors
from benchmarks.cases import DTYPES, first_posterior
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, rate
from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Posterior

ROWS = (10_000, 100_000, 1_000_000, 10_000_000)
_N_FEATURES, _HIDDEN = 20, (50,)
_N_UPDATES = 500_000  # per repetition: the beginning of a permutation of all rows
_N_CHECKED = 300


def run(effort: Effort) -> Outcome:
    """Go through the sizes one after another: the largest takes 1.6 GB in float64."""
    posteriors = {dtype: first_posterior(_N_FEATURES, _HIDDEN, dtype) for dtype in DTYPES}
    rates: defaultdict[str, list[float]] = defaultdict(list)
    names = []
    for n_full in ROWS:
        n_rows = effort.of(n_full, least=1_000)
        X, y = _made(n_rows)
        for dtype in DTYPES:
            name = f"(20, 50) {dtype}, {n_full:,} rows"
            say(f"rows: {name}")
            names.append(name)
            data = functools.partial(_pass, posteriors[dtype], X.astype(dtype), y)
            _check(name, data, n_rows)
            order = np.resize(
                np.random.default_rng(1).permutation(n_rows), effort.of(_N_UPDATES, least=1_000)
            )
            for _ in range(effort.n_repetitions):
                seconds, _ = timed(functools.partial(data, "native", order))
                rates[name].append(len(order) / seconds)
    return Outcome(
        title=f"Updates per second, rows in random order (medians of {effort.n_repetitions})",
        header=["features, hidden, rows", "updates/s"],
        rows=[[name, rate(median(rates[name]))] for name in names],
        figures=[Figure(f"updates/s {name}", rates[name]) for name in names],
        notes=[f"Checked: posteriors after {_N_CHECKED} updates agree with the reference's."],
        measured=dict(rates),
    )


def _made(n_rows: int) -> tuple[Array, FloatArray]:
    """Draw features in float32, the smaller copy, and a target."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, _N_FEATURES), np.float32)
    y = np.sin(X[:, 0].astype(np.float64))
    y += 0.1 * rng.standard_normal(n_rows)
    return X, y


def _pass(posterior: Posterior, X: Array, y: FloatArray, engine: str, order: Array) -> Posterior:
    return ENGINES[engine].adf_pass(posterior, X, y, order)[0]


def _check(name: str, data: functools.partial[Posterior], n_rows: int) -> None:
    order = np.random.default_rng(2).integers(n_rows, size=_N_CHECKED)
    check_posteriors(name, data("native", order), data("reference", order))
