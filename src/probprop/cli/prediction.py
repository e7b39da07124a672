"""`probprop predict`: predictions with their uncertainty for every row, chunk by chunk."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probprop.cli.arguments import Data, Model
from probprop.cli.console import plural, terminal_of
from probprop.cli.destinations import check_destinations
from probprop.cli.models import load_table_model
from probprop.cli.output import check_table_extension, table_writer

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.table import TableModel

PREDICT_EXAMPLES = """\b
Examples:
  probprop predict houses.pbp new.csv -o predicted.csv
  probprop predict houses.pbp new.parquet --level 0.8 -o predicted.parquet
  cat new.csv | probprop predict houses.pbp - > predicted.csv
"""
_OUTPUT = "CSV, TSV or Parquet file."

_CHUNK_BYTES = 16 << 20  # of the file; in memory a chunk takes about ten times as much
_CHUNK_ROWS = 100_000
_SAMPLE_BYTES = 1 << 20


def predict(
    context: typer.Context,
    model: Model,
    data: Data,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help=f"{_OUTPUT}  [default: CSV to stdout]"),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Probability of a target from lower to upper.  [default: 0.95]"
        ),
    ] = None,
) -> None:
    """Predict the target of every row, with its uncertainty.

    The table is kept and gets the columns mean, std (of the target: model and noise together),
    std_model (what the model does not know), std_noise (what no model could know), and lower
    and upper, the ends of the interval that holds the target with the probability --level.
    Each of several targets has its own: TARGET_mean, TARGET_std and so on.
    A model of classes adds predicted_class, the most probable class, and p_CLASS, the
    probability of each CLASS.

    Columns are matched by name, in any order. Files larger than memory are fine.
    """
    if level is not None and not 0.0 < level < 1.0:
        raise typer.BadParameter(f"{level} is not between 0 and 1", param_hint="--level")
    output = None if output == "-" else output
    check_table_extension(output)
    check_destinations({"-o": output}, {"MODEL": model, "DATA": data})
    from probprop.table import iter_table

    terminal = terminal_of(context)
    table_model = load_table_model(model)
    if level is not None and table_model.classes is not None:
        raise typer.BadParameter(
            f"{model} predicts classes, which have no interval", param_hint="--level"
        )
    n_rows, chunk_rows = _plan(data)
    chunks = iter_table(data, chunk_rows=chunk_rows, kinds=table_model.all_kinds)
    first = next(chunks)
    if taken := [name for name in _added(table_model) if name in first.columns]:
        raise ValueError(
            f"{data} already has a column {taken[0]!r}, which the predictions would overwrite: "
            "rename or remove it"
        )
    ignored = table_model.extra_columns(first)
    if ignored and {*table_model.features} <= {*first.columns}:  # else the error says it all
        terminal.note(f"columns the model does not use are kept as they are: {_listed(ignored)}")
    n_done, unknown = 0, Counter[str]()
    with terminal.rows("predicting", n_rows) as advance, table_writer(output) as write:
        for frame in chain([first], chunks):
            write(_with_predictions(frame, table_model, 0.95 if level is None else level))
            unknown.update(table_model.unknown_categories(frame))
            n_done += len(frame)
            advance(len(frame))
    for name, n in unknown.items():
        terminal.note(
            f"{plural(n, 'row')} with a {name!r} that the model was not fitted on: taken as none "
            "of those it knows"
        )
    if output is not None:
        what = f"{100 * (0.95 if level is None else level):g} % intervals"
        if table_model.classes is not None:
            what = f"probabilities of {len(table_model.classes):,} classes"
        terminal.say(f"wrote {output}: {plural(n_done, 'row')}, {what}")


def _added(model: TableModel) -> list[str]:
    """Return the names of the columns that predictions add."""
    if model.classes is None:
        from probprop.predictive.protocol import frame_columns

        return frame_columns(model.targets)
    return ["predicted_class", *(f"p_{name}" for name in model.classes)]


def _with_predictions(frame: DataFrame, model: TableModel, level: float) -> DataFrame:
    import pandas as pd

    from probprop.table import UnknownCategoryWarning

    with warnings.catch_warnings():  # the rows are counted over all chunks
        warnings.simplefilter("ignore", UnknownCategoryWarning)
        predicted: Any = model.predict_distribution(frame)
    if model.classes is None:
        added = predicted.to_frame(model.targets, level=level)
    else:
        values = [predicted.most_probable(model.classes), *predicted.proba.T]
        added = pd.DataFrame(dict(zip(_added(model), values, strict=True)))
    return pd.concat([frame, added.set_axis(frame.index)], axis=1)


def _plan(path: str) -> tuple[int | None, int]:
    """Return about how many rows a table has (None: unknown), and how many to take at a time.

    A text file is judged by its first megabyte.
    """
    if path == "-" or not os.path.isfile(path):
        return None, _CHUNK_ROWS
    with open(path, "rb") as file:
        sample = file.read(_SAMPLE_BYTES)
    if sample.startswith(b"PAR1"):
        return _plan_parquet(path)
    n_bytes = os.path.getsize(path)
    bytes_per_row = max(1, len(sample)) / max(1, sample.count(b"\n"))
    rows_at_a_time = min(_CHUNK_ROWS, max(1, int(_CHUNK_BYTES / bytes_per_row)))
    return max(1, round(n_bytes / bytes_per_row)), rows_at_a_time


def _plan_parquet(path: str) -> tuple[int | None, int]:
    from pyarrow import ArrowException, parquet

    try:
        metadata = parquet.read_metadata(path)
    except (ArrowException, OSError):  # whoever reads the table explains what is wrong with it
        return None, _CHUNK_ROWS
    at_a_time = _CHUNK_BYTES // (8 * max(1, metadata.num_columns))
    return metadata.num_rows, min(_CHUNK_ROWS, max(1, at_a_time))


def _listed(names: list[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
