"""Peak memory of a fit on many rows, beyond the data."""

from __future__ import annotations

from benchmarks.agreement import WrongAnswerError
from benchmarks.child import run_fresh
from benchmarks.clock import say
from benchmarks.effort import Effort
from benchmarks.memory_fit import N_FEATURES, N_HIDDEN, N_ROWS, NOISE_STD
from benchmarks.outcome import Figure, Outcome, verdict

_MOST_MB = 50.0
_MB = 1e6


def run(effort: Effort) -> Outcome:
    """Fit once in a fresh process: memory varies little from run to run."""
    n_rows = effort.of(N_ROWS, least=5_000)
    say(f"memory: a fit of {n_rows:,} x {N_FEATURES} in a fresh process")
    figures = run_fresh("-m", "benchmarks.memory_fit", str(n_rows))
    noise = figures["noise_variance"] / NOISE_STD**2
    if effort.checked and not 0.8 < noise < 1.25:
        raise WrongAnswerError(f"memory: the noise variance learned is {noise:.2f} of the true one")

    above = (figures["peak"] - figures["resident"]) / _MB
    passed = above < _MOST_MB
    return Outcome(
        title=f"Memory of a fit of {n_rows:,} x {N_FEATURES}, {N_HIDDEN} hidden units, float64",
        header=["what", "MB", "at most", ""],
        rows=[
            ["resident before the fit", f"{figures['resident'] / _MB:.0f}", "", ""],
            ["X", f"{figures['data'] / _MB:.0f}", "", ""],
            ["peak above what was resident", f"{above:.1f}", f"{_MOST_MB:.0f}", verdict(passed)],
        ],
        figures=[None, None, Figure("memory, MB: fit of 500,000 x 90 above the data", [above])],
        notes=["Checked: the noise variance learned is within a quarter of the true one."],
        measured={**figures, "above_mb": above},
        missed=[] if passed else [f"memory: {above:.0f} MB above the data"],
    )
