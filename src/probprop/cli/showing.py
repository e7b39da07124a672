"""`probprop demo` and `probprop bench`: what this is, and how fast it is here."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from probprop.cli.arguments import Fast
from probprop.cli.console import terminal_of
from probprop.cli.output import check_destination, naming
from probprop.cli.scores import show

DEMO_EXAMPLES = """\b
Examples:
  probprop demo
  probprop demo -o report.html
"""
BENCH_EXAMPLES = """\b
Examples:
  probprop bench
  PROBPROP_CPU_LEVEL=v2 probprop bench
"""

_SHAPES = [(13, 50, 1), (9, 100, 1), (90, 100, 1), (13, 50, 50, 1)]
_SECONDS = 0.3  # per shape and precision
_ROWS = 2_000


def demo(
    context: typer.Context,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="HTML report to write.")
    ] = "probprop-demo.html",
    fast: Fast = False,
) -> None:
    """Fit two small data sets and write a report to click.

    The weight of 344 penguins, from a table with columns of text and empty cells: settings are
    compared by cross-validation and the best are calibrated, as `probprop fit --budget fast`
    does; with --fast it is one network. The report begins with the model itself, a control for
    every column of the table. The other data are the toy problem of the paper, 20 points of
    y = x^3 + noise, and one network of 100 hidden units.
    """
    check_destination(output)
    from probprop.demo import SCORES, fit_penguins, fit_toy, write_demo_report

    terminal = terminal_of(context)
    with terminal.working("fitting two data sets"):
        penguins, toy = fit_penguins(fast=fast), fit_toy()
    header = ["data", "rows", "RMSE", "log-likelihood", "CRPS", "in 95 %", "fit"]
    terminal.table(
        header,
        [
            [name, rows, *(show(k, scores[k]) for k in SCORES), fit]
            for result in (penguins.result, toy.result)
            for name, rows, scores, fit in (
                (
                    result.name,
                    f"{result.n_train} + {result.n_test}",
                    result.scores,
                    f"{result.seconds:.3f} s",
                ),
                ("baseline", f"{result.n_test}", result.baseline, "–"),
            )
        ],
    )
    terminal.say("rows: to fit + to test; every score is on the test rows; fit: processor seconds")
    terminal.say("baseline: one prediction for all test rows, mean and std of the rows to fit")
    with naming(output), terminal.working("writing the report"):
        write_demo_report(output, penguins, toy)
    terminal.result(f"The report is {os.path.abspath(output)}: open it in a browser.")


def bench(context: typer.Context) -> None:
    """Measure the updates per second of this machine, on one core, in processor time.

    One update is one row of a table, learned once; an epoch is as many as there are rows.
    """
    from probprop.inference.engine import cpu_level

    terminal = terminal_of(context)
    rows = []
    for sizes in _SHAPES:
        speeds = [updates_per_second(sizes, dtype) for dtype in ("float64", "float32")]
        hidden = "-".join(str(n) for n in sizes[1:-1])
        rows.append([f"{sizes[0]} features, {hidden} hidden", *(f"{v:,.0f}" for v in speeds)])
    terminal.table(["network", "float64 updates/s", "float32 updates/s"], rows)
    terminal.result(f"instruction set: {cpu_level()}")


def updates_per_second(sizes: tuple[int, ...], dtype: str) -> float:
    """Return the updates per second of processor time, of the fastest of some passes."""
    import numpy as np

    from probprop.inference.engine import ENGINES
    from probprop.inference.posterior import initial_posterior

    random_state = np.random.RandomState(0)
    posterior = initial_posterior(
        sizes,
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=random_state,
        dtype=np.dtype(dtype),
    )
    X = random_state.standard_normal((_ROWS, sizes[0])).astype(dtype)
    y = np.sin(X[:, 0].astype(np.float64)) + 0.1 * random_state.standard_normal(_ROWS)
    order = random_state.permutation(_ROWS)
    fastest = float("inf")
    end = time.thread_time() + _SECONDS
    while (start := time.thread_time()) < end:
        posterior, _ = ENGINES["native"].adf_pass(posterior, X, y, order)
        fastest = min(fastest, time.thread_time() - start)
    return _ROWS / fastest
