"""Rows per second of networks drawn from the posterior, next to the full Bayesian forward pass."""

from __future__ import annotations

import functools
from collections import defaultdict

from benchmarks.agreement import check_close
from benchmarks.cases import made_data
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, rate, verdict
from probprop import PBPRegressor, SampledNetwork
from probprop._types import FloatArray
from probprop.inference.engine import ENGINES
from probprop.reference import sampled as oracle

_N_ROWS, _N_FIT, _N_CHECKED = 200_000, 1_000, 500
_SHAPES: tuple[tuple[int, tuple[int, ...]], ...] = ((13, (50,)), (90, (100,)), (13, (50, 50)))


def run(effort: Effort) -> Outcome:
    """Time f(X), its gradient, and the moments of the network it was drawn from."""
    n_rows = effort.of(_N_ROWS, least=1_000)
    found: dict[str, defaultdict[str, list[float]]] = {
        what: defaultdict(list) for what in ("f", "gradient", "moments")
    }
    works = {}
    for n_features, hidden in _SHAPES:
        X, y = made_data(n_rows, n_features)
        model = PBPRegressor(hidden, n_epochs=2, random_state=0).fit(X[:_N_FIT], y[:_N_FIT])
        [f] = model.sample_functions(1, random_state=0)
        name = f"({n_features}, {'-'.join(map(str, hidden))})"
        _check(name, f, X[:_N_CHECKED])
        works[name] = {
            "f": functools.partial(f, X),
            "gradient": functools.partial(f.gradient, X),
            "moments": functools.partial(
                ENGINES["native"].predict_moments,
                model.posterior_,
                (X - f.standardizer.x_mean) / f.standardizer.x_scale,
            ),
        }
    for repetition in range(effort.n_repetitions):
        say(f"sampled: repetition {repetition + 1} of {effort.n_repetitions}")
        for name, ways in works.items():
            for what, work in ways.items():
                found[what][name].append(n_rows / timed(work)[0])
    short = [name for name in works if median(found["f"][name]) < median(found["moments"][name])]
    return Outcome(
        title=f"Rows per second of sampled networks, {n_rows:,} rows "
        f"(medians of {effort.n_repetitions})",
        header=["features, hidden", "f(X)", "f.gradient(X)", "kernel's moments", ""],
        rows=[
            [
                name,
                *(rate(median(found[what][name])) for what in ("f", "gradient", "moments")),
                verdict(name not in short),
            ]
            for name in works
        ],
        figures=[Figure(f"sampled rows/s {name}", found["f"][name]) for name in works],
        notes=[
            "f(X) must be at least as fast as the kernel's moments of the whole posterior.",
            "Checked: f and its gradient agree with NumPy's.",
        ],
        measured={what: dict(rates) for what, rates in found.items()},
        missed=[f"sampled: {name} is slower than the moments" for name in short],
    )


def _check(name: str, f: SampledNetwork, X: FloatArray) -> None:
    s = f.standardizer
    Xs = (X - s.x_mean) / s.x_scale
    value, df_dX = f.gradient(X)
    output, gradient = oracle.output_and_gradient(f.weights, Xs)
    expected = output * s.y_scale + s.y_mean
    check_close(f"sampled {name}", value, expected, 1e-11)
    check_close(f"sampled {name}", f(X), expected, 1e-11)
    check_close(f"sampled gradient {name}", df_dX, gradient / s.x_scale * s.y_scale, 1e-11)
