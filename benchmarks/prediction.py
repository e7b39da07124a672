"""Rows per second of the native engine's prediction, next to the reference's."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.agreement import check_moments
from benchmarks.cases import DTYPES, N_ROWS, SHAPES, Case, make_case
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, rate
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Posterior

_HIDDEN = ((13, (50,)), (90, (100,)), (13, (50, 50)))
_PASSES = 4  # over all rows, per repetition of the native engine


def run(effort: Effort) -> Outcome:
    shapes = [shape for shape in SHAPES if (shape.n_features, shape.hidden) in _HIDDEN]
    cases = [
        make_case(shape, dtype, effort.of(N_ROWS, least=100))
        for shape in shapes
        for dtype in DTYPES
    ]
    posteriors = {case.name: _trained(case) for case in cases}
    differences = {case.name: _check(case, posteriors[case.name]) for case in cases}

    native: defaultdict[str, list[float]] = defaultdict(list)
    reference: defaultdict[str, list[float]] = defaultdict(list)
    for repetition in range(effort.n_repetitions):
        say(f"prediction: repetition {repetition + 1} of {effort.n_repetitions}")
        for case in cases:
            posterior = posteriors[case.name]
            native[case.name].append(_rate("native", case, posterior, _PASSES))
            reference[case.name].append(_rate("reference", case, posterior, 1))

    medians = {c.name: (median(native[c.name]), median(reference[c.name])) for c in cases}
    return Outcome(
        title=f"Rows predicted per second of the engine (medians of {effort.n_repetitions})",
        header=["features, hidden", "dtype", "rows/s", "reference", "ratio"],
        rows=[
            [c.shape.name, c.dtype, rate(fast), rate(slow), f"{fast / slow:.1f}"]
            for c in cases
            for fast, slow in [medians[c.name]]
        ],
        figures=[Figure(f"engine rows/s {c.name}", native[c.name]) for c in cases],
        notes=["Checked: mean and variance agree with the reference's, as for the updates."],
        measured={
            name: {
                "rows_per_second": fast,
                "reference_rows_per_second": slow,
                "relative_difference": differences[name],
                "repetitions": native[name],
                "reference_repetitions": reference[name],
            }
            for name, (fast, slow) in medians.items()
        },
    )


def _trained(case: Case) -> Posterior:
    order = np.arange(len(case.y))
    return ENGINES["native"].adf_pass(case.posterior, case.X, case.y, order)[0]


def _check(case: Case, posterior: Posterior) -> float:
    native, reference = (
        ENGINES[name].predict_moments(posterior, case.X) for name in ("native", "reference")
    )
    return check_moments(case.name, native, reference, case.dtype)


def _rate(engine: str, case: Case, posterior: Posterior, n_passes: int) -> float:
    def predict() -> None:
        for _ in range(n_passes):
            ENGINES[engine].predict_moments(posterior, case.X)

    return n_passes * len(case.X) / timed(predict)[0]
