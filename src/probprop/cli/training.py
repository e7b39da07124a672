"""`probprop fit` and `probprop update`: from a table to a model file."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from probprop.cli.arguments import (
    Data,
    Drop,
    EpochsOrAuto,
    Features,
    Hidden,
    Memory,
    Model,
    Report,
    check_range,
    column_names,
    epochs_of,
    layers,
    memory_of,
)
from probprop.cli.console import Terminal, plural, terminal_of
from probprop.cli.models import load_table_model, save_model
from probprop.cli.output import check_destination
from probprop.cli.scores import score_table, show, write_regression_report
from probprop.regressor import PBPRegressor

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.table import TableModel

FIT_EXAMPLES = """\b
Examples:
  probprop fit houses.csv --target price -o houses.pbp
  probprop fit houses.parquet --target price --drop id,address -o houses.pbp --report houses.html
  probprop fit houses.csv --target price --epochs auto --memory auto -o houses.pbp
  cat houses.csv | probprop fit - --target price --hidden 50,50 -o houses.pbp
"""
UPDATE_EXAMPLES = """\b
Example:
  probprop update houses.pbp sold-today.csv
"""


class Precision(StrEnum):
    """Of the weights; float32 is about twice as fast and predicts the same."""

    float64 = "float64"
    float32 = "float32"


FLOAT64 = Precision.float64


def fit(
    context: typer.Context,
    data: Data,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Column to predict.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="MODEL", help="Model file to write.")
    ],
    features: Features = None,
    drop: Drop = None,
    hidden: Hidden = "50",
    epochs: EpochsOrAuto = "40",
    memory: Memory = "none",
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same model.")] = 0,
    dtype: Annotated[Precision, typer.Option(help="Precision of the weights.")] = FLOAT64,
    test_fraction: Annotated[
        float, typer.Option(metavar="SHARE", help="Rows held out to judge the model; 0: none.")
    ] = 0.1,
    no_refit: Annotated[
        bool, typer.Option("--no-refit", help="Keep the model that was judged.")
    ] = False,
    report: Report = None,
) -> None:
    """Fit a model to a table and save it.

    Text columns are taken as categories. A tenth of the rows is held out to say how good the
    predictions and their error bars are; then the model is fitted again on all rows.
    """
    n_epochs, bound = epochs_of(epochs), memory_of(memory)
    check_range("--seed", seed, 0, 2**32 - 1)
    if not 0.0 <= test_fraction < 1.0:
        raise typer.BadParameter(
            f"{test_fraction:g} is not at least 0 and below 1", param_hint="--test-fraction"
        )
    regressor = PBPRegressor(
        layers(hidden), n_epochs=n_epochs, memory=bound, dtype=dtype.value, random_state=seed
    )
    check_destination(output)
    check_destination(report, "--report")
    from probprop.table import fit_table_model, read_table
    from probprop.table.columns import check_no_missing

    terminal = terminal_of(context)
    frame = read_table(data)
    columns = [str(name) for name in frame.columns]
    wanted = column_names(features, columns) if features else None
    unwanted = column_names(drop or [], columns)
    among = columns if wanted is None else [*wanted, target]
    # Before rows are held out, so that the message counts them all.
    check_no_missing(frame[[k for k in columns if k in among and k not in unwanted]])

    def fitted(rows: DataFrame, text: str) -> TableModel:
        n_rows = plural(len(rows), "row")
        first = f"choosing epochs and memory on {n_rows}" if "auto" in (n_epochs, bound) else None
        n_known = None if n_epochs == "auto" else n_epochs
        with terminal.epochs(f"{text} {n_rows}", n_known, first=first) as callback:
            model = fit_table_model(
                rows,
                target,
                features=wanted,
                drop=unwanted,
                regressor=regressor,
                callback=callback,
            )
        if first is not None:
            from probprop.report import choice_text  # which is slow to import

            terminal.say(choice_text(model.regressor))
        return model

    train, test = _split(frame, test_fraction, seed)
    model = fitted(train, "fitting")
    if len(test):
        terminal.say(
            f"fitted on {plural(len(train), 'row')}; on the {plural(len(test), 'row')} held out:"
        )
        _show_scores(model, test, terminal)
    if report is not None:
        held_out = len(test) > 0
        write_regression_report(report, model, test if held_out else train, held_out=held_out)
        terminal.say(f"wrote {report}")
    if len(test) and not no_refit:
        model = fitted(frame, "fitting again on all")
    save_model(model, output)
    n_seen = model.regressor.n_samples_seen_
    terminal.say(
        f"wrote {output}: {plural(n_seen, 'row')}, {plural(len(model.features), 'column')}, "
        f"{plural(model.regressor.n_iter_, 'epoch')}"
    )


def update(context: typer.Context, model: Model, data: Data) -> None:
    """Learn from new rows: one more pass, over these rows only.

    Give each row once: rows seen twice count twice. The old model file is there until the new
    one is complete.
    """
    check_destination(model, "MODEL")
    from probprop.table import read_table

    old = load_table_model(model)
    frame = read_table(data, columns=[*old.features, old.target], kinds=old.kinds)
    new = old.update(frame)
    save_model(new, model)
    fitted = new.regressor
    noise = ", ".join(show("noise std", std) for std in fitted.history_[-1].noise_std)
    terminal_of(context).say(
        f"updated {model} with {plural(len(frame), 'row')}: {fitted.n_samples_seen_:,} rows seen "
        f"in {fitted.n_iter_:,} passes; noise std {noise}"
    )


def _split(frame: DataFrame, fraction: float, seed: int) -> tuple[DataFrame, DataFrame]:
    """Hold out a share of the rows, at least one unless the share is 0."""
    n_test = max(1, round(fraction * len(frame))) if fraction > 0.0 else 0
    if n_test >= len(frame):
        raise ValueError(
            f"the table has {plural(len(frame), 'row')}, too few to hold out a share of "
            f"{fraction:g}: give more rows or --test-fraction 0"
        )
    order = np.random.RandomState(seed).permutation(len(frame))
    # In the order of the file, so that the fit depends on the seed in one way only.
    return frame.iloc[np.sort(order[n_test:])], frame.iloc[np.sort(order[:n_test])]


def _show_scores(model: TableModel, frame: DataFrame, terminal: Terminal) -> None:
    if not terminal.quiet:
        terminal.table(*score_table(model, frame))
