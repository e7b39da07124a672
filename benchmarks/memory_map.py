"""Peak memory of a fit on a memory map of float32, above the map itself."""

from __future__ import annotations

import tempfile

from benchmarks.agreement import WrongAnswerError
from benchmarks.child import run_fresh
from benchmarks.clock import say
from benchmarks.effort import Effort
from benchmarks.map_fit import N_FEATURES, N_HIDDEN, N_ROWS, NOISE_STD
from benchmarks.outcome import Figure, Outcome, verdict

_MOST_MB = 50.0
_MB = 1e6


def run(effort: Effort) -> Outcome:
    """Fit once in a fresh process: memory varies little from run to run."""
    n_rows = effort.of(N_ROWS, least=5_000)
    say(f"memory map: a fit of {n_rows:,} x {N_FEATURES} in a fresh process")
    with tempfile.TemporaryDirectory() as folder:
        figures = run_fresh("-m", "benchmarks.map_fit", str(n_rows), folder)
    noise = figures["noise_variance"] / NOISE_STD**2
    if effort.checked and not 0.8 < noise < 1.25:
        raise WrongAnswerError(f"memory map: the noise variance is {noise:.2f} of the true one")

    above = (figures["peak"] - figures["resident"]) / _MB
    passed = above < _MOST_MB
    return Outcome(
        title=f"Memory of a fit of a map, {n_rows:,} x {N_FEATURES} float32, {N_HIDDEN} units",
        header=["what", "MB", "at most", ""],
        rows=[
            ["the map, read before the fit", f"{figures['map'] / _MB:.0f}", "", ""],
            ["peak above what was resident", f"{above:.1f}", f"{_MOST_MB:.0f}", verdict(passed)],
        ],
        figures=[None, Figure("memory, MB: fit above a map of 5,000,000 x 20", [above])],
        notes=["Checked: the noise variance learned is within a quarter of the true one."],
        measured={**figures, "above_mb": above},
        missed=[] if passed else [f"memory map: {above:.0f} MB above the map"],
    )
