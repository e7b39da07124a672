"""Rows per second of exact Student-t intervals."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.agreement import check_close
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, rate, verdict
from probprop import Mixture

ALPHAS = (2.0, 6.0, 300.0)
_N_ROWS, _N_CHECKED = 100_000, 50
_LEVEL = 0.95
_LEAST = 200e3


def run(effort: Effort) -> Outcome:
    """Time one interval of many rows, some with more model variance than noise, some with less."""
    n_rows = effort.of(_N_ROWS, least=200)
    epistemic_std = np.exp(np.random.default_rng(0).uniform(-3.0, 1.0, n_rows))
    made = {
        f"alpha = {alpha:g}": Mixture.of_one(np.zeros(n_rows), epistemic_std, 1.0, dof=2.0 * alpha)
        for alpha in ALPHAS
    }
    rates: defaultdict[str, list[float]] = defaultdict(list)
    for name, predicted in made.items():
        _check(name, predicted)
    for repetition in range(effort.n_repetitions):
        say(f"quantiles: repetition {repetition + 1} of {effort.n_repetitions}")
        for name, predicted in made.items():
            seconds, _ = timed(lambda p=predicted: p.interval(_LEVEL))  # type: ignore[misc]
            rates[name].append(n_rows / seconds)
    short = [name for name in made if median(rates[name]) < _LEAST]
    return Outcome(
        title=f"Student-t intervals of {n_rows:,} rows (medians of {effort.n_repetitions})",
        header=["noise", "rows/s", "at least", ""],
        rows=[
            [name, rate(median(rates[name])), rate(_LEAST), verdict(name not in short)]
            for name in made
        ],
        figures=[Figure(f"Student-t intervals rows/s, {name}", rates[name]) for name in made],
        notes=[f"Checked: outside lies {1 - _LEVEL:.2g} of the probability, by quadrature."],
        measured=dict(rates),
        missed=[f"quantiles: {rate(median(rates[n]))} rows/s at {n}" for n in short],
    )


def _check(name: str, predicted: Mixture) -> None:
    lower, upper = (end[:_N_CHECKED] for end in predicted.interval(_LEVEL))
    some = predicted[:_N_CHECKED]
    tail = np.full(_N_CHECKED, 0.5 * (1.0 - _LEVEL))
    check_close(f"quantiles, {name}", some.cdf(lower), tail, 1e-11)
    check_close(f"quantiles, {name}", 1.0 - some.cdf(upper), tail, 1e-11)
