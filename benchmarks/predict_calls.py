"""Rows per second of `predict`, checks and standardization included, next to the kernel's."""

from __future__ import annotations

import functools
from collections import defaultdict

from benchmarks.agreement import check_close
from benchmarks.cases import DTYPES, made_data
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, rate, verdict
from probprop import PBPRegressor
from probprop._types import Array
from probprop.inference.engine import ENGINES
from probprop.inference.standardize import Standardizer

_N_ROWS, _N_FIT = 200_000, 1_000
_SHAPES = ((13, (50,)), (90, (100,)))
_LEAST_OF_KERNEL = 0.9


def run(effort: Effort) -> Outcome:
    """Time both on the same rows, in turn."""
    n_rows = effort.of(_N_ROWS, least=1_000)
    whole: defaultdict[str, list[float]] = defaultdict(list)
    kernel: defaultdict[str, list[float]] = defaultdict(list)
    works = {}
    for n_features, hidden in _SHAPES:
        X, y = made_data(n_rows, n_features)
        for dtype in DTYPES:
            model = PBPRegressor(hidden, n_epochs=2, random_state=0, dtype=dtype)
            model.fit(X[:_N_FIT], y[:_N_FIT])
            name = f"({n_features}, {hidden[0]}) {dtype}"
            works[name] = _two_ways(name, model, X.astype(dtype))
    for repetition in range(effort.n_repetitions):
        say(f"predict: repetition {repetition + 1} of {effort.n_repetitions}")
        for name, (predict, moments) in works.items():
            whole[name].append(n_rows / timed(predict)[0])
            kernel[name].append(n_rows / timed(moments)[0])
    shares = {
        name: median([a / b for a, b in zip(whole[name], kernel[name], strict=True)])
        for name in works
    }
    return Outcome(
        title=f"Rows per second of predict(), {n_rows:,} rows (medians of {effort.n_repetitions})",
        header=["features, hidden, dtype", "predict()", "kernel", "of it", "at least", ""],
        rows=[
            [
                name,
                rate(median(whole[name])),
                rate(median(kernel[name])),
                f"{shares[name]:.2f}",
                f"{_LEAST_OF_KERNEL}",
                verdict(shares[name] >= _LEAST_OF_KERNEL),
            ]
            for name in works
        ],
        figures=[Figure(f"predict() rows/s {name}", whole[name]) for name in works],
        notes=["Checked: predict() gives the kernel's means, in target units."],
        measured={"predict": dict(whole), "kernel": dict(kernel)},
        missed=[
            f"predict(): {share:.2f} of the kernel's rate at {name}, below {_LEAST_OF_KERNEL}"
            for name, share in shares.items()
            if share < _LEAST_OF_KERNEL
        ],
    )


def _two_ways(
    name: str, model: PBPRegressor, X: Array
) -> tuple[functools.partial[Array], functools.partial[tuple[Array, Array]]]:
    """Return `predict` of these rows, and the kernel on the same, already standardized."""
    s: Standardizer = model.standardizer_
    Xs = ((X - s.x_mean) / s.x_scale).astype(X.dtype)
    moments = functools.partial(ENGINES["native"].predict_moments, model.posterior_, Xs)
    predict = functools.partial(model.predict, X)
    rtol = 1e-10 if X.dtype == "float64" else 1e-4
    check_close(f"predict() {name}", predict(), moments()[0] * s.y_scale + s.y_mean, rtol)
    return predict, moments
