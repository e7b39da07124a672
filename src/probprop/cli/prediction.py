"""`probprop predict`: predictions with their uncertainty for every row, chunk by chunk."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probprop.cli.arguments import Data, Model, column_names
from probprop.cli.console import plural, terminal_of
from probprop.cli.destinations import check_destinations
from probprop.cli.models import load_table_model
from probprop.cli.output import check_table_extension, holds_types, table_writer
from probprop.cli.tables import note_file

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop._types import FloatArray
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
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...", help="Columns to write, of the table or predicted.  [default: all]"
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

    Columns are matched by name, in any order. Files larger than memory are fine. Cells of text
    files are written as they were; predictions have as many digits as their std supports, and all
    of them in Parquet. --columns id,mean,std writes only those.
    """
    if level is not None and not 0.0 < level < 1.0:
        raise typer.BadParameter(f"{level} is not between 0 and 1", param_hint="--level")
    output = None if output == "-" else output
    check_table_extension(output)
    check_destinations({"-o": output}, {"MODEL": model, "DATA": data})
    import pandas as pd

    from probprop.table import iter_table
    from probprop.table.model import takes_gaps
    from probprop.table.text import with_numbers

    terminal = terminal_of(context)
    table_model = load_table_model(model)
    if level is not None and table_model.classes is not None:
        raise typer.BadParameter(
            f"{model} predicts classes, which have no interval", param_hint="--level"
        )
    n_rows, chunk_rows = _plan(data)
    chunks = iter_table(data, chunk_rows=chunk_rows)
    first = next(chunks)
    added = _added(table_model)
    if taken := [name for name in added if name in first.columns]:
        raise ValueError(
            f"{data} already has a column {taken[0]!r}, which the predictions would overwrite: "
            "rename or remove it"
        )
    written = _chosen(columns, [*map(str, first.columns), *added])
    note_file(terminal, first)
    kept = {*written}
    ignored = [name for name in table_model.extra_columns(first) if name in kept]
    if ignored and {*table_model.features} <= {*first.columns}:  # else the error says it all
        terminal.note(f"columns the model does not use are kept as they are: {_listed(ignored)}")
    n_done, unknown, decimal = 0, Counter[str](), first.attrs["decimal"]
    cells = first
    with (
        terminal.rows("predicting", n_rows) as advance,
        table_writer(output, decimal=decimal) as write,
    ):
        for cells in chain([first], chunks):
            frame = with_numbers(cells, table_model.kinds, decimal, table_model.na)
            predicted = _predictions(frame, table_model, 0.95 if level is None else level)
            if holds_types(output):
                write(pd.concat([frame, predicted], axis=1)[written])
            else:
                digits = rounded(predicted, table_model)
                write(pd.concat([cells, digits], axis=1)[written])
            unknown.update(table_model.unknown_categories(frame))
            n_done += len(frame)
            advance(len(frame))
    if cells.attrs["noted"] != first.attrs["noted"]:  # letters beyond ASCII came late
        note_file(terminal, cells)
    for name, n in unknown.items():
        terminal.note(
            f"{plural(n, 'row')} with a {name!r} that the model was not fitted on: taken as "
            + ("missing" if takes_gaps(table_model.estimator) else "none of those it knows")
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


def _chosen(asked: list[str] | None, there: Sequence[str]) -> list[str]:
    """Return the columns to write: those asked for, in that order, or all."""
    if asked is None:
        return list(there)
    names = list(dict.fromkeys(column_names(asked, there)))
    if absent := [name for name in names if name not in there]:
        raise typer.BadParameter(
            f"there is no column {absent[0]!r} in the table or among the predictions: they have "
            f"{_listed(list(there), 20)}",
            param_hint="--columns",
        )
    return names


def _predictions(frame: DataFrame, model: TableModel, level: float) -> DataFrame:
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
    return added.set_axis(frame.index)


def rounded(predicted: DataFrame, model: TableModel) -> DataFrame:
    """Return predictions with the digits that mean something.

    A standard deviation and a probability have four significant digits; means and ends of
    intervals have as many decimals as their standard deviation.
    """
    import pandas as pd

    if model.classes is not None:
        places = {k: predicted[k].to_numpy() for k in predicted if predicted[k].dtype.kind == "f"}
    else:
        n = len(predicted.columns) // len(model.targets)
        of = {k: predicted.columns[n * (i // n) + 1] for i, k in enumerate(predicted)}  # its std
        own = ("std", "std_model", "std_noise")
        places = {
            k: predicted[k if k.endswith(own) else of[k]].to_numpy() for k in predicted.columns
        }
    columns = {
        k: _to_place(predicted[k].to_numpy(), places[k]) if k in places else predicted[k].to_numpy()
        for k in predicted
    }
    return pd.DataFrame(columns, index=predicted.index)


def _to_place(values: FloatArray, scale: FloatArray) -> FloatArray:
    """Round to the place of the fourth digit of `scale`, (n,).

    >>> import numpy as np
    >>> _to_place(np.array([12345.67891, 12345.0, 1.5]), np.array([0.98765, 45000, 0.0])).tolist()
    [12345.6789, 12340.0, 1.5]
    """
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        decimals = 3.0 - np.floor(np.log10(scale))
        power = 10.0 ** np.abs(decimals)
        up = np.round(values * power) / power
        down = np.round(values / power) * power
        result = np.where(decimals >= 0.0, up, down)
    return np.where(np.isfinite(result) & np.isfinite(decimals), result, values)


def _plan(path: str) -> tuple[int | None, int]:
    """Return about how many rows a table has (None: unknown), and how many to take at a time.

    A text file is judged by its first megabyte.
    """
    if path == "-" or not os.path.isfile(path):
        return None, _CHUNK_ROWS
    from probprop.table.opening import opened

    with opened(path) as file:
        sample, compressed = file.start, file.compression is not None
    if sample.startswith(b"PAR1"):
        return _plan_parquet(path)
    bytes_per_row = max(1, len(sample)) / max(1, sample.count(b"\n"))
    rows_at_a_time = min(_CHUNK_ROWS, max(1, int(_CHUNK_BYTES / bytes_per_row)))
    if compressed or b"\0" in sample:
        return None, rows_at_a_time
    return max(1, round(os.path.getsize(path) / bytes_per_row)), rows_at_a_time


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
