"""Updates per second of one ADF pass: the native engine, the reference, and the target."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.agreement import RTOL, check_posteriors
from benchmarks.cases import DTYPES, SHAPES, TARGET_GFLOPS, Case, make_case
from benchmarks.clock import dgemm_gflops, median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, rate, verdict
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Memory, Posterior

_SECONDS = 0.2  # of native work per repetition, at the target rate
_LEAST_OF_TARGET = 0.9
_MOST_FOR_CAP = 0.1  # of the time of an epoch without
_HEADER = [
    "features, hidden",
    "dtype",
    "updates/s",
    "reference",
    "ratio",
    "evidence cap costs",
    "target",
    "of target",
    "",
]


def run(effort: Effort) -> Outcome:
    """Time every case once per repetition, so that a slow minute slows all of them."""
    cases = [make_case(shape, dtype) for shape in SHAPES for dtype in DTYPES]
    differences = {case.name: _check(case, effort) for case in cases}

    dgemm: list[float] = []
    native: defaultdict[str, list[float]] = defaultdict(list)
    bounded: defaultdict[str, list[float]] = defaultdict(list)
    reference: defaultdict[str, list[float]] = defaultdict(list)
    for repetition in range(effort.n_repetitions):
        say(f"updates: repetition {repetition + 1} of {effort.n_repetitions}, {len(cases)} cases")
        dgemm.append(dgemm_gflops())
        for case in cases:
            n = effort.of(int(_SECONDS * case.target))
            native[case.name].append(_rate("native", case, n))
            bounded[case.name].append(_rate("native", case, n, _three_passes(case)))
            reference[case.name].append(_rate("reference", case, _n_reference(case, effort)))

    gflops = median(dgemm)
    rows, missed, measured = [], [], {}
    figures: list[Figure | None] = []
    for case in cases:
        name = case.name
        updates, slow = median(native[name]), median(reference[name])
        ratio = updates / slow
        of_target = (updates / case.target) / (gflops / TARGET_GFLOPS)
        cost = median([a / b for a, b in zip(native[name], bounded[name], strict=True)]) - 1.0
        short = _shortfalls(case, ratio, of_target, cost)
        missed += short
        rows.append(
            [
                case.shape.name,
                case.dtype,
                rate(updates),
                rate(slow),
                f"{ratio:.0f}",
                f"{cost:+.0%}",
                rate(case.target),
                f"{of_target:.2f}",
                verdict(not short),
            ]
        )
        figures.append(Figure(f"updates/s {name}", native[name]))
        measured[name] = {
            "updates_per_second": updates,
            "reference_updates_per_second": slow,
            "ratio_to_reference": ratio,
            "of_target": of_target,
            "cost_of_evidence_cap": cost,
            "relative_difference": differences[name],
            "repetitions": native[name],
            "reference_repetitions": reference[name],
        }
    return Outcome(
        title=f"Updates per second of an ADF pass (medians of {effort.n_repetitions})",
        header=_HEADER,
        rows=rows,
        notes=_notes(gflops),
        measured={
            "dgemm_gflops": gflops,
            "dgemm_gflops_repetitions": dgemm,
            "cases": measured,
        },
        figures=figures,
        missed=missed,
    )


def _order(case: Case, n_updates: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.resize(np.random.RandomState(2).permutation(len(case.y)), n_updates)


def _three_passes(case: Case) -> Memory:
    return Memory(3.0 * len(case.y), noise_shape=6.0, noise_rate=6.0)


def _pass(
    engine: str, case: Case, n_updates: int, memory: Memory | None = None
) -> tuple[float, Posterior]:
    """Return the seconds of an epoch and the posterior after it."""
    order = _order(case, n_updates)
    seconds, (posterior, _) = timed(
        lambda: ENGINES[engine].adf_pass(case.posterior, case.X, case.y, order, memory=memory)
    )
    return seconds, posterior


def _rate(engine: str, case: Case, n_updates: int, memory: Memory | None = None) -> float:
    return n_updates / _pass(engine, case, n_updates, memory)[0]


def _n_reference(case: Case, effort: Effort) -> int:
    return effort.of(case.shape.n_reference, least=20)


def _check(case: Case, effort: Effort) -> float:
    """Compare the native pass with the reference's; this also warms up both."""
    say(f"updates: checking {case.name}")
    n = _n_reference(case, effort)
    return check_posteriors(case.name, _pass("native", case, n)[1], _pass("reference", case, n)[1])


def _shortfalls(case: Case, ratio: float, of_target: float, cost: float) -> list[str]:
    missed = []
    if of_target < _LEAST_OF_TARGET:
        missed.append(f"{case.name}: {of_target:.2f} of the target rate, below {_LEAST_OF_TARGET}")
    if cost > _MOST_FOR_CAP:
        missed.append(f"{case.name}: the evidence cap costs {cost:.0%}, above {_MOST_FOR_CAP:.0%}")
    least = case.shape.min_ratios.get(case.dtype, 0.0)
    if ratio < least:
        missed.append(f"{case.name}: {ratio:.0f} times the reference, below {least:.0f}")
    return missed


def _notes(gflops: float) -> list[str]:
    least = [
        f"{minimum:.0f} times at ({shape.name}) {dtype}"
        for shape in SHAPES
        for dtype, minimum in shape.min_ratios.items()
    ]
    return [
        f"Single-thread dgemm of this machine, in the same repetitions: {gflops:.1f} GFLOP/s.",
        f"Targets were measured on a core with {TARGET_GFLOPS:.0f} GFLOP/s dgemm. 'of target' is",
        f"(updates/s / target) / (dgemm / {TARGET_GFLOPS:.0f} GFLOP/s), and must be at least "
        f"{_LEAST_OF_TARGET}.",
        "'reference' is the NumPy engine on one thread; required are",
        f"{' and '.join(least)}.",
        "'evidence cap costs' is the time that an evidence cap of three passes adds, at most "
        f"{_MOST_FOR_CAP:.0%}.",
        "Checked: posteriors of both engines agree to "
        + ", ".join(f"{rtol:.0e} in {dtype}" for dtype, rtol in RTOL.items())
        + ".",
    ]
