"""`probprop active`: from a table that is measured in part to the rows to measure next."""

from __future__ import annotations

import math
import os
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probprop._atomic import replacing
from probprop.cli.arguments import (
    Budget,
    Drop,
    Fast,
    Features,
    HiddenLayerSizes,
    NEpochs,
    check_range,
    column_names,
)
from probprop.cli.console import Terminal, plural, terminal_of
from probprop.cli.output import (
    check_destination,
    check_table_extension,
    naming,
    same_file,
    table_writer,
)
from probprop.cli.recipes import NetworkOptions, budget_of, check_no_budget, recipe_of
from probprop.cli.scores import show
from probprop.cli.tables import Na, na_texts, nameless, note_file, note_gaps, usable_columns
from probprop.table.names import DEFAULT_SEED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pandas import DataFrame

    from probprop._types import FloatArray
    from probprop.active.strategies import IntArray
    from probprop.table.read import TextFormat

    BoolArray = NDArray[np.bool_]

ACTIVE_EXAMPLES = """\b
Examples:
  probprop active alloys.csv --target strength --ask 5
  probprop active alloys.csv --target strength --ask 5 --drop id -o alloys.csv
  probprop active alloys.csv --target strength --strategy thompson --fast
"""
MARKS = ("probprop_ask", "probprop_mean", "probprop_std", "probprop_epistemic_std")

_SHOWN = 6  # columns of the table that are printed, so that a row can be recognised
_TEXT = {".csv": ",", ".tsv": "\t"}
_WHOLE = {MARKS[0]: "Int64"}  # integers with gaps


class Strategy(StrEnum):
    """The strategies of `ActiveLearner`."""

    variance_reduction = "variance_reduction"
    variance = "variance"
    information_gain = "information_gain"
    thompson = "thompson"
    random = "random"


REDUCTION = Strategy.variance_reduction


def active(
    context: typer.Context,
    pool: Annotated[
        str,
        typer.Argument(metavar="POOL", help="CSV, TSV or Parquet file, measured in part."),
    ],
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column to predict; empty where not measured.")
    ],
    ask: Annotated[int, typer.Option(metavar="N", help="Rows to measure next.")] = 5,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Table to write; POOL itself to mark it there.  [default: beside POOL]",
        ),
    ] = None,
    strategy: Annotated[Strategy, typer.Option(help="How to choose the rows.")] = REDUCTION,
    features: Features = None,
    drop: Drop = None,
    na: Na = None,
    fast: Fast = False,
    budget: Budget = None,
    hidden_layer_sizes: HiddenLayerSizes = None,
    n_epochs: NEpochs = None,
    random_state: Annotated[
        int, typer.Option(metavar="N", help="Same table and seed, same rows.")
    ] = DEFAULT_SEED,
) -> None:
    """Choose the rows to measure next.

    A model is fitted to the rows that have a target and predicts the others. The rows worth
    measuring are printed, and the whole table is written with the columns probprop_ask (1 is
    the first choice), probprop_mean, probprop_std (of the target: model and noise together)
    and probprop_epistemic_std (what the model does not know). POOL is left as it is, unless it is
    the output too. Fill in what was measured, add rows if there are new ones, and run it
    again: columns of an earlier run are replaced.

    The strategies: variance_reduction, the rows that tell most about all the others, to learn
    the whole function; variance, where the model is least certain, which are the extreme rows;
    information_gain, the same as long as the noise is constant; thompson, where the target may
    be largest; random.

    The settings of the model are chosen by cross-validation, as in `probprop fit`; with --fast,
    --hidden-layer-sizes or --n-epochs it is one network.
    """
    check_range("--ask", ask, 1, math.inf)
    check_range("--random-state", random_state, 0, 2**32 - 1)
    options = NetworkOptions(hidden_layer_sizes, n_epochs)
    budget_of(budget)
    options.check()
    check_no_budget(options.given, fast=fast, budget=budget)
    if pool == "-":
        raise typer.BadParameter("give the path of a file", param_hint="POOL")
    check_table_extension(output)
    destination = _beside(pool) if output is None else output
    check_destination(destination)
    from probprop.active.learner import ActiveLearner, rows_not_told
    from probprop.active.strategies import MOST_ROWS
    from probprop.table import read_table
    from probprop.table.columns import check_no_missing
    from probprop.table.encoding import fit_encoder
    from probprop.table.names import choose_features
    from probprop.table.read import text_format
    from probprop.table.target import target_of

    terminal = terminal_of(context)
    table = _without_marks(read_table(pool, na=na_texts(na)))
    columns = [str(name) for name in table.columns]
    wanted = column_names(features, columns) if features else None
    unwanted = [*column_names(drop or [], columns), *nameless(table, wanted, terminal)]
    chosen = choose_features(table, [target], wanted, unwanted)
    measured = table[target].notna().to_numpy()
    _check_both(pool, target, measured)
    y = target_of(table[measured], target)
    _check_nothing_lost(destination, pool, table, target)
    note_file(terminal, table)
    chosen = usable_columns(table, chosen, asked_for=wanted is not None, terminal=terminal)
    if strategy is Strategy.thompson:  # a function that is drawn needs every feature
        check_no_missing(table[chosen])
    missing = "marginalize" if note_gaps(terminal, table, chosen) else "error"
    # The encoder sees all rows: a category that was never measured is then a column of its
    # own, about which the model knows nothing, and not a row like any other.
    _, X = fit_encoder(table[chosen])

    n_new = len(rows_not_told(X[~measured], X[measured]))
    if n_new == 0:
        raise ValueError(
            f"{pool} has no row to measure that differs in its features from all measured rows: "
            "add rows that differ, or the columns in which they do"
        )
    if n_new < ask:
        terminal.note(f"--ask is {ask:,}, but only {plural(n_new, 'new row')} can be asked for")
    if strategy is REDUCTION and n_new > MOST_ROWS:
        terminal.note(
            f"the rows are chosen from {MOST_ROWS:,}, drawn from the {n_new:,} different ones that "
            "could be measured; another --random-state draws others"
        )
    # Of a single row none can be held out.
    reasons = [*options.given, *(["one measured row"] if len(y) == 1 else [])]
    recipe = recipe_of(
        terminal,
        options,
        reasons,
        fast=fast,
        budget=budget,
        of_classes=False,
        seed=random_state,
        missing=missing,
    )
    learner = ActiveLearner(recipe.first(again=False), strategy.value, random_state=random_state)
    asked = learner.tell(X[measured], y).ask(X[~measured], min(ask, n_new))
    predicted = learner.estimator_.predict_distribution(X[~measured])

    layout = text_format(pool)
    cells = table if layout is None else _without_marks(read_table(pool, kinds={}))
    marks = _marks(measured, asked, predicted.mean, predicted.std, predicted.epistemic_std)
    in_place = same_file(destination, pool)
    if layout is None or Path(destination).suffix.lower() not in _TEXT:
        with table_writer(destination) as write:
            write(table.assign(**marks).astype(_WHOLE))
    else:
        _write_text(destination, cells.assign(**marks).astype(_WHOLE), layout, pool)
    for line in recipe.choice(learner.estimator_).splitlines():
        terminal.say(line)
    terminal.say(
        f"fitted on {plural(len(y), 'row')} with a {target!r}; of the "
        f"{plural(len(predicted.mean), 'row')} without, measure these next:"
    )
    _show(terminal, cells.drop(columns=target), marks)
    terminal.say(
        f"wrote {destination}: {plural(len(asked), 'row')} marked in {MARKS[0]}"
        + ("" if in_place else f"; {pool} is as it was")
    )


def _beside(pool: str) -> str:
    """Return the name of the marked table.

    >>> _beside("data/alloys.csv"), _beside("alloys.pq"), _beside("alloys.txt")
    ('data/alloys.asked.csv', 'alloys.asked.pq', 'alloys.asked.csv')
    >>> _beside("alloys.tsv.gz")
    'alloys.asked.tsv'
    """
    path = Path(pool)
    if path.suffix.lower() in (".gz", ".bz2", ".xz"):
        path = path.with_suffix("")
    known = (*_TEXT, ".parquet", ".pq")
    suffix = path.suffix if path.suffix.lower() in known else ".csv"
    return str(path.with_name(f"{path.stem}.asked{suffix}"))


def _without_marks(table: DataFrame) -> DataFrame:
    return table.drop(columns=[name for name in MARKS if name in table])


# ---- Checks


def _check_both(pool: str, target: str, measured: BoolArray) -> None:
    """Refuse a table without training data, or without a pool."""
    if not measured.any():
        raise ValueError(
            f"{pool} has no value of {target!r} in any of its {plural(len(measured), 'row')}: "
            "measure some rows first, chosen at random"
        )
    if measured.all():
        raise ValueError(
            f"{pool} has a {target!r} in every one of its {plural(len(measured), 'row')}: add rows "
            "that could be measured, and leave it empty there"
        )


def _check_nothing_lost(path: str, pool: str, table: DataFrame, target: str) -> None:
    """Refuse to replace a table in which somebody has filled in measurements."""
    if not os.path.exists(path) or same_file(path, pool):
        return
    import pandas as pd

    from probprop.table import TableError, read_table

    try:
        there = read_table(path)
    except TableError:  # not one of ours
        return
    if target not in there:
        return
    old, new = (Counter(pd.to_numeric(t[target], errors="coerce").dropna()) for t in (there, table))
    if lost := old - new:
        raise ValueError(
            f"{path} has {plural(lost.total(), 'measurement')} of {target!r} that {pool} lacks, "
            f"such as {next(iter(lost)):g}, and would be replaced: copy them to {pool}, or give "
            "another file (-o)"
        )


# ---- The result


def _marks(measured: BoolArray, asked: IntArray, *predictions: FloatArray) -> dict[str, FloatArray]:
    """Return the new columns for all rows, (n_rows,) each; NaN where there is none."""
    import numpy as np

    order = np.full(int((~measured).sum()), np.nan)
    order[asked] = np.arange(1, len(asked) + 1)
    marks = {name: np.full(len(measured), np.nan) for name in MARKS}
    for name, values in zip(MARKS, (order, *predictions), strict=True):
        marks[name][~measured] = values
    return marks


def _show(terminal: Terminal, cells: DataFrame, marks: dict[str, FloatArray]) -> None:
    """Print the rows asked for, the first choice first, with the first of their cells."""
    import numpy as np

    order = marks[MARKS[0]]
    rows = np.argsort(order)[: np.isfinite(order).sum()]
    known_by = cells.iloc[rows, :_SHOWN].astype(object).fillna("")
    terminal.table(
        ["row", *known_by, *(name.removeprefix("probprop_") for name in MARKS[1:])],
        [
            [f"{row + 1}", *map(str, cells), *(show(name, marks[name][row]) for name in MARKS[1:])]
            for row, cells in zip(rows, known_by.to_numpy(), strict=True)
        ],
    )


# ---- Text tables, whose cells come out as they went in


def _write_text(path: str, marked: DataFrame, layout: TextFormat, pool: str) -> None:
    """Write a table of text atomically; another extension than the pool's changes the delimiter."""
    suffix, own = Path(path).suffix.lower(), Path(_beside(pool)).suffix.lower()
    with naming(path), replacing(path) as file:
        marked.to_csv(
            file,
            sep=layout.delimiter if suffix == own else _TEXT[suffix],
            decimal=layout.decimal,
            lineterminator=layout.newline,
            encoding=layout.encoding,
            float_format="%.6g",
            index=False,
        )
