"""Processor seconds until a fresh interpreter has imported the package and fitted a model."""

from __future__ import annotations

from benchmarks.agreement import WrongAnswerError
from benchmarks.child import processor_seconds_of_children, run_fresh
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.first_fit import first_fit
from benchmarks.outcome import Figure, Outcome, verdict

_MOST_PROCESSES = 5
_MOST_OVER_SKLEARN = 0.5  # seconds
_FIT = "from benchmarks.first_fit import first_fit; print(first_fit())"
_IMPORT = """
from time import process_time as now
a = now()
import numpy, scipy, sklearn.base
b = now()
import probprop
print([b - a, now() - b])
"""


def run(effort: Effort) -> Outcome:
    """Start `n_processes` interpreters for each figure."""
    n_processes = min(_MOST_PROCESSES, effort.n_repetitions)
    expected = first_fit()
    totals, sklearn, probprop = [], [], []
    for process in range(n_processes):
        say(f"cold start: process {process + 1} of {n_processes}")
        seconds, noise_variance = timed(
            lambda: run_fresh("-c", _FIT), processor_seconds_of_children
        )
        if noise_variance != expected:
            raise WrongAnswerError(
                f"cold start: the noise variance is {noise_variance!r} in a fresh interpreter "
                f"and {expected!r} here."
            )
        totals.append(seconds)
        theirs, ours = run_fresh("-c", _IMPORT)
        sklearn.append(theirs)
        probprop.append(ours)

    over = median(probprop)
    passed = over < _MOST_OVER_SKLEARN
    return Outcome(
        title=f"Cold start (medians of {n_processes} processes)",
        header=["what", "processor s", "at most", ""],
        rows=[
            ["interpreter, import, fit of 500 x 13", f"{median(totals):.2f}", "", ""],
            ["import of numpy, scipy, sklearn.base", f"{median(sklearn):.2f}", "", ""],
            ["import of probprop after those", f"{over:.3f}", "0.5", verdict(passed)],
        ],
        figures=[
            Figure("cold start, s: interpreter, import, fit", totals),
            None,
            Figure("cold start, s: import of probprop", probprop),
        ],
        notes=["Checked: the fit gives the same noise variance, to the bit, as in this process."],
        measured={
            "total_seconds": median(totals),
            "sklearn_import_seconds": median(sklearn),
            "probprop_import_seconds": over,
            "total_seconds_repetitions": totals,
            "sklearn_import_seconds_repetitions": sklearn,
            "probprop_import_seconds_repetitions": probprop,
        },
        missed=[] if passed else [f"cold start: importing probprop takes {over:.2f} s more"],
    )
