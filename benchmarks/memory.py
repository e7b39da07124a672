"""Peak memory of fits on many rows, beyond the data."""

from __future__ import annotations

from typing import Any

from benchmarks.agreement import WrongAnswerError
from benchmarks.child import run_fresh
from benchmarks.clock import say
from benchmarks.effort import Effort
from benchmarks.memory_fit import (
    N_FEATURES,
    N_FEATURES_CV,
    N_HIDDEN,
    N_ROWS,
    N_ROWS_CV,
    NOISE_STD,
)
from benchmarks.outcome import Figure, Outcome, verdict

_MB = 1e6
# Model, rows, features, arguments of its process, and the bound in MB above the resident memory.
_CASES = (
    (f"PBPRegressor({N_HIDDEN}, n_epochs=1)", N_ROWS, N_FEATURES, (), 50.0),
    ("default PBPRegressorCV", N_ROWS_CV, N_FEATURES_CV, ("cv",), 1_000.0),
)


def run(effort: Effort) -> Outcome:
    """Fit each once in a fresh process: memory varies little from run to run."""
    rows, figures, missed, measured = [], list[Figure | None](), list[str](), dict[str, Any]()
    for name, n, n_features, arguments, most in _CASES:
        n_rows = effort.of(n, least=5_000)
        label = f"{name}, {n:,} x {n_features}"
        say(f"memory: {label} in a fresh process")
        found = run_fresh("-m", "benchmarks.memory_fit", str(n_rows), *arguments)
        ratio = (found["std"] / NOISE_STD) ** 2
        if effort.checked and not 0.8 < ratio < 1.25:
            raise WrongAnswerError(f"memory: the noise variance learned is {ratio:.2f} of the true")
        above = (found["peak"] - found["resident"]) / _MB
        data, before = (f"{found[key] / _MB:.0f}" for key in ("data", "resident"))
        rows.append([label, data, before, f"{above:.1f}", f"{most:.0f}", verdict(above < most)])
        figures.append(Figure(f"memory, MB: {label} above the data", [above]))
        missed += [] if above < most else [f"memory: {label}: {above:.0f} MB above the data"]
        measured[label] = {**found, "above_mb": above}
    return Outcome(
        title="Memory of fits, MB",
        header=["fit", "X", "resident before", "peak above that", "at most", ""],
        rows=rows,
        figures=figures,
        notes=["Checked: the noise variance learned is within a quarter of the true one."],
        measured=measured,
        missed=missed,
    )
