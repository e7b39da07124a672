"""`probprop active`: from a table that is measured in part to the rows to measure next."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Context, Option

from probprop.cli import arguments, recipes, tables
from probprop.cli import output as outputs
from probprop.cli.console import Terminal, terminal_of
from probprop.judged import show
from probprop.table.names import DEFAULT_SEED, plural

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from probprop._types import Array, FloatArray

ACTIVE_EXAMPLES = """\b
Examples:
  probprop active alloys.csv --target strength --ask 5
  probprop active alloys.csv --target strength --ask 5 --drop id -o alloys.csv
  probprop active alloys.csv --target strength --strategy thompson --fast
  probprop active letters.csv --target spam --task classification --ask 20 -o asked.xlsx
"""
ASK = "probprop_ask"
OF_NUMBERS = ("probprop_mean", "probprop_std", "probprop_epistemic_std")
OF_CLASSES = ("probprop_class", "probprop_probability", "probprop_entropy_model")
MARKS = (ASK, *OF_NUMBERS, *OF_CLASSES)

_SHOWN = 6  # columns of the table that are printed, so that a row can be recognized
_EXCEL = ".xlsx"


def active(
    context: Context,
    pool: Annotated[
        str,
        Argument(
            metavar="POOL",
            help="CSV, TSV, Parquet or Excel file; rows without a target are the pool.",
        ),
    ],
    target: Annotated[
        str, Option(metavar="COLUMN", help="Column to predict, empty in unmeasured rows.")
    ],
    task: arguments.Task = "auto",
    ask: Annotated[int, Option(metavar="N", min=1, help="Number of rows to choose.")] = 5,
    output: Annotated[
        str | None,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Table to write; POOL itself to mark it there.  [default: in the folder of POOL]",
        ),
    ] = None,
    strategy: Annotated[
        Literal["variance_reduction", "variance", "thompson", "random"],
        Option(help="How to choose the rows."),
    ] = "variance_reduction",
    features: arguments.Features = None,
    drop: arguments.Drop = None,
    na: tables.Na = None,
    fast: arguments.Fast = False,
    budget: arguments.Budget = None,
    hidden_layer_sizes: arguments.HiddenLayerSizes = None,
    n_epochs: arguments.NEpochs = None,
    random_state: arguments.RandomState = DEFAULT_SEED,
) -> None:
    """Choose the rows to measure next.

    A model is fitted to the rows that have a target and predicts the others. The rows worth
    measuring are printed, and the whole table is written with the column probprop_ask (1 is the
    first choice) and the predictions. For regression they are probprop_mean, probprop_std (standard
    deviation of the target) and probprop_epistemic_std (the part that more data can reduce); for
    classification probprop_class (the most probable class), probprop_probability (of that class)
    and probprop_entropy_model (mutual information of class and weights, in nats). POOL is not
    changed unless it is the output too. Fill in what was measured, add rows if there are new ones,
    and run the command again: columns of an earlier run are replaced.

    Before any row is measured, or while all have the same class, no model can be fitted. The rows
    are then spread over the pool by their features; with --strategy random they are random.

    The strategies: variance_reduction reduces the total variance over the pool most; variance
    takes the highest epistemic variance, or the highest entropy of the class; thompson takes the
    maximum of a function drawn from the posterior, to find large values; random chooses at random.

    The hyperparameters of the model are selected by cross-validation, as in `probprop fit`; with
    --fast, --hidden-layer-sizes or --n-epochs one network is fitted.
    """
    every = {"hidden_layer_sizes": hidden_layer_sizes, "n_epochs": n_epochs}
    options = {name: value for name, value in every.items() if value is not None}
    reasons = [*map(recipes.option, options)]
    recipes.check_budget(reasons, fast=fast, budget=budget)
    if pool == "-":
        raise BadParameter("give the path of a file", param_hint="POOL")
    destination = _marked_path(pool) if output is None else output
    outputs.check_destination(destination)
    outputs.check_table_extension(destination)
    if destination.lower().endswith(_EXCEL) and outputs.same_file(destination, pool):
        raise ValueError(
            f"-o {destination} would replace the workbook {pool} with its other sheets, formulas "
            f"and formats: give another path, such as {_marked_path(pool)}"
        )
    from probprop.active.learner import ActiveLearner, rows_not_told
    from probprop.active.strategies import MOST_ROWS
    from probprop.table import read_table
    from probprop.table.columns import check_no_missing

    terminal = terminal_of(context)
    table = _without_marks(read_table(pool, na=tables.na_texts(na)))
    chosen = tables.features_of(terminal, table, [target], features, drop)
    measured = table[target].notna().to_numpy()
    if measured.all():
        raise ValueError(
            f"{pool} has a {target!r} in every one of its {plural(len(measured), 'row')}: add rows "
            "to measure, without a value in that column"
        )
    of_classes, y = _targets(terminal, table[measured], target, task)
    if of_classes and strategy == "thompson":
        raise BadParameter(
            f"{target!r} has classes, but thompson maximizes a number: choose another strategy",
            param_hint="--strategy",
        )
    _check_nothing_lost(destination, pool, table, target)
    tables.note_file(terminal, table)
    encoder = tables.encoder_of(terminal, table, chosen, named=features is not None)
    chosen = list(encoder.kinds)
    if strategy == "thompson":  # a function that is drawn needs every feature
        check_no_missing(table[chosen])
    missing = "marginalize" if table[chosen].isna().to_numpy().any() else "error"
    # The encoder is fitted to all rows: a category that was never measured then has an input of
    # its own, whose weights keep their prior.
    X = encoder.encode(table)

    new = rows_not_told(X[~measured], X[measured])
    pool_rows, n_new = X[~measured][new], len(new)
    if n_new == 0:
        raise ValueError(
            f"{pool} has no row to measure that differs in its features from all measured rows: "
            "add rows that differ, or the columns in which they do"
        )
    if n_new < ask:
        terminal.note(f"--ask is {ask:,}, but only {plural(n_new, 'new row')} can be measured")
    if strategy == "variance_reduction" and n_new > MOST_ROWS:
        terminal.note(
            f"the rows are chosen from a random sample of {MOST_ROWS:,} of the {n_new:,} different "
            "ones that could be measured; it depends on --random-state"
        )
    without = plural(int((~measured).sum()), "row")
    # A single row cannot be split into folds.
    reasons += ["one measured row"] if y is not None and len(y) == 1 else []
    estimator = recipes.estimator_of(
        terminal,
        options,
        [] if y is None else reasons,
        fast=fast,
        budget=budget,
        of_classes=of_classes,
        seed=random_state,
        missing=missing,
    )
    tables.note_gaps(terminal, table, encoder.kinds, selected=recipes.selects(estimator))
    learner = ActiveLearner(estimator, strategy, random_state=random_state)
    predicted: dict[str, Array] = {}
    if y is None:
        known = "no row has" if not measured.any() else "only one class is observed in"
        how = "at random" if strategy == "random" else "to cover the range of their features"
        heading = (
            f"{known} {target!r}, so no model is fitted; of the {without} without, measure these "
            f"first, chosen {how}:"
        )
    else:
        learner.tell(X[measured], y)
        predicted = _predictions(learner.estimator_, X[~measured])
        recipes.say_choice(terminal, learner.estimator_)
        heading = (
            f"fitted on {plural(len(y), 'row')} with a {target!r}; of the {without} without, "
            "measure these next:"
        )
    asked = new[learner.ask(pool_rows, min(ask, n_new))]

    # The cells of a text file come out as they went in, unless the extension is another.
    layout = {"float_format": "%.6g"} | (table.attrs["text"] or {})
    if Path(destination).suffix.lower() != Path(_marked_path(pool)).suffix.lower():
        layout.pop("sep", None)
    in_place = outputs.same_file(destination, pool)
    cells = _without_marks(read_table(pool, kinds={}))  # as they were, 007 for 007
    marks = _marks(measured, asked, predicted)
    with outputs.table_writer(destination, layout) as write:
        write((table if outputs.holds_digits(destination) else cells).assign(**marks))
    terminal.say(heading)
    _show(terminal, cells.drop(columns=target), marks)
    terminal.say(
        f"wrote {destination}: {plural(len(asked), 'row')} marked in {ASK}"
        + ("" if in_place else f"; {pool} is as it was")
    )


def _marked_path(pool: str) -> str:
    """Return the name of the marked table.

    >>> _marked_path("data/alloys.csv"), _marked_path("alloys.pq"), _marked_path("alloys.txt")
    ('data/alloys.asked.csv', 'alloys.asked.pq', 'alloys.asked.csv')
    >>> _marked_path("alloys.tsv.gz"), _marked_path("alloys.xlsx")
    ('alloys.asked.tsv', 'alloys.asked.xlsx')
    """
    path = Path(pool)
    if path.suffix.lower() in (".gz", ".bz2", ".xz"):
        path = path.with_suffix("")
    suffix = path.suffix if path.suffix.lower() in outputs.TABLE_EXTENSIONS else ".csv"
    return str(path.with_name(f"{path.stem}.asked{suffix}"))


def _without_marks(table: DataFrame) -> DataFrame:
    return table.drop(columns=[name for name in MARKS if name in table])


# ---- Checks


def _targets(
    terminal: Terminal, measured: DataFrame, target: str, task: str
) -> tuple[bool, Array | None]:
    """Return whether the targets are classes, and their values; None if no model can be fitted."""
    from probprop.table.target import guess_task, labels_of, target_of

    if not len(measured):
        return task == "classification", None
    of_classes = task == "classification"
    if task == "auto":
        guess, words = guess_task(measured[target])
        repeated = measured[target].value_counts().min() > 1
        # Two different whole numbers may be the first two measurements.
        of_classes = guess == "classification" and (repeated or measured[target].dtype.kind in "bO")
        if of_classes:
            terminal.say(f"{target!r} has {words}")
    if not of_classes:
        return False, target_of(measured, target)
    return True, None if measured[target].nunique() == 1 else labels_of(measured, target)


def _check_nothing_lost(path: str, pool: str, table: DataFrame, target: str) -> None:
    """Refuse to replace a table in which somebody has filled in measurements."""
    if not os.path.exists(path) or outputs.same_file(path, pool):
        return
    from probprop.table import TableError, read_table

    try:
        there = read_table(path)
    except TableError:  # not one of ours
        return
    if target not in there:
        return
    old, new = (Counter(t[target].dropna().tolist()) for t in (there, table))
    if lost := old - new:  # 1 and 1.0 are the same
        raise ValueError(
            f"{path} has {plural(lost.total(), 'measurement')} of {target!r} that {pool} lacks, "
            f"such as {next(iter(lost))}, and would be replaced: copy them to {pool}, or give "
            "another file (-o)"
        )


# ---- The result


def _predictions(estimator: Any, X: FloatArray) -> dict[str, Array]:
    """Return the predictions of rows by the names of their columns, (n,) each."""
    from sklearn.base import is_classifier

    found = estimator.predict_distribution(X)
    if not is_classifier(estimator):
        return dict(zip(OF_NUMBERS, (found.mean, found.std, found.epistemic_std), strict=True))
    most = found.most_probable(estimator.classes_)
    values = (most, found.proba.max(axis=1), found.entropy_model)
    return dict(zip(OF_CLASSES, values, strict=True))


def _marks(measured: Array, asked: Array, predicted: dict[str, Array]) -> dict[str, Series]:
    """Return the new columns for all rows, missing where a row was measured or not asked for."""
    import numpy as np
    import pandas as pd

    pool = np.flatnonzero(~measured)
    every = range(len(measured))
    order = pd.Series(np.arange(1, len(asked) + 1), pool[asked], "Int64")
    columns = {name: pd.Series(values, pool) for name, values in predicted.items()}
    return {name: column.reindex(every) for name, column in {ASK: order, **columns}.items()}


def _show(terminal: Terminal, cells: DataFrame, marks: dict[str, Series]) -> None:
    """Print the rows asked for, the first choice first, with the first of their cells."""
    rows = marks[ASK].dropna().sort_values().index
    known_by = cells.iloc[rows, :_SHOWN].astype(object).fillna("")
    names = [name for name in marks if name != ASK]
    lines = []
    for row, own in zip(rows, known_by.to_numpy(), strict=True):
        values = [(name, marks[name][row]) for name in names]
        words = [show(k, v) if isinstance(v, float) else str(v) for k, v in values]
        lines.append([f"{row + 1}", *map(str, own), *words])
    terminal.table(["row", *known_by, *(k.removeprefix("probprop_") for k in names)], lines)
