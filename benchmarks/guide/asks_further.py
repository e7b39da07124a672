"""Asking beyond 60 rows: ``python -m benchmarks.guide.asks_further``.

As in the experiment acquisition, with 60 rows at first and fourteen queries of ten more, up to 200:
the default strategy and "variance" next to random rows. ``docs/results/asks_further.jsonl`` keeps
the rows, ``asks_further.md`` is their table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.guide.pages import Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import brief, change, difference, verdict
from probprop.active import ActiveLearner
from probprop_lab.experiments.beyond import acquisition, acquisition_sets

SETS = [name for name in acquisition_sets.NAMES if acquisition_sets.size(name) > 500]
"""Sets whose pools have about twice the rows that are queried, or more."""

STRATEGIES = acquisition.STRATEGIES  # "random" is the first
DEFAULT = "variance_reduction"
N_REPETITIONS = 10
FIRST, BATCH, N_ASKS = 60, 10, 14


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of("asks_further", __doc__, SETS)
    parser.add_argument("--repetitions", type=int, default=N_REPETITIONS)
    parser.add_argument("--asks", type=int, default=N_ASKS)
    parser.add_argument("--members", type=int, default=acquisition.N_MEMBERS)
    parser.add_argument("--epochs", type=int, default=acquisition.N_EPOCHS)
    arguments = parser.parse_args(argv)
    cases = [
        {"dataset": name, "repetition": k, "strategy": strategy}
        for name in arguments.sets
        for k in range(arguments.repetitions)
        for strategy in STRATEGIES
    ]
    measured = partial(
        measure,
        n_asks=arguments.asks,
        n_members=arguments.members,
        n_epochs=arguments.epochs,
    )
    rows = rows_of(arguments.results / "asks_further.jsonl", cases, measured)
    write_pages(arguments.results, {"asks_further": page(rows)})


def measure(
    dataset: str, repetition: int, strategy: Any, n_asks: int, n_members: int, n_epochs: int
) -> Figures:
    """Collect rows; return the scores of the first fit and of one after each query."""
    X, y = acquisition_sets.load(dataset)
    model = acquisition.Averaged(repetition, n_members, n_epochs)
    learner = ActiveLearner(model, strategy, BATCH, random_state=repetition)
    rows = acquisition_sets.split(len(y), repetition, FIRST)
    found = acquisition.curve(learner, X, y, rows, n_asks)
    return {what: found[what] for what in ("rmses", "log_likelihoods")}


def page(rows: Sequence[Figures]) -> str:
    """Return a line per set: the error at random, and what the strategies change of it."""
    lines, better, worse = [], 0, 0
    for name in dict.fromkeys(row["dataset"] for row in rows):
        rmses, log_p = (_curves(rows, name, what) for what in ("rmses", "log_likelihoods"))
        errors = {strategy: _means(curves) for strategy, curves in rmses.items()}
        needed = acquisition.rows_needed(rmses[DEFAULT], rmses["random"], FIRST, BATCH)
        sign = verdict(errors[DEFAULT], errors["random"])
        better, worse = better + (sign < 0), worse + (sign > 0)
        lines.append(
            [
                name,
                brief(errors["random"]),
                *(change(errors[s], errors["random"]) for s in STRATEGIES[1:]),
                difference(_means(log_p[DEFAULT]), _means(log_p["random"]), 3),
                "" if needed is None else f"{needed:.0f}",
            ]
        )
    header = ["data set", "at random", *(f"`{s}`" for s in STRATEGIES[1:])]
    n_runs = len(rows) // len(lines) // len(STRATEGIES)
    return "\n".join(
        [
            table([*header, "log-likelihood", "rows"], lines),
            "",
            f"From 60 rows to 200 in batches of ten, {n_runs} repetitions; the columns are those "
            "of the table above, over the fifteen fits; rows: with how many the error of 200 at "
            f"random is reached. `{DEFAULT}` is better than random rows by more than two standard "
            f"errors on {better} of {len(lines)} sets, worse on "
            f"{worse or 'none'}.",
            "",
        ]
    )


def _curves(rows: Sequence[Figures], dataset: str, what: str) -> dict[str, list[list[float]]]:
    """Return the curves of each strategy, one per repetition in their order."""
    return {
        strategy: [
            row[what] for row in rows if (row["dataset"], row["strategy"]) == (dataset, strategy)
        ]
        for strategy in STRATEGIES
    }


def _means(curves: Sequence[Sequence[float]]) -> list[float]:
    return [float(np.mean(curve)) for curve in curves]


if __name__ == "__main__":
    main()
