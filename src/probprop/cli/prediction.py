"""`probprop predict`: predictions with their uncertainty for every row, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Context, Option

from probprop.cli import arguments
from probprop.cli import output as outputs
from probprop.cli.console import terminal_of
from probprop.cli.tables import Unknown, count_unknown, note_file, note_unknown
from probprop.table.names import listed, plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop._types import FloatArray
    from probprop.table import TableModel

PREDICT_EXAMPLES = """\b
Examples:
  probprop predict houses.pbp new.csv -o predicted.csv
  probprop predict houses.pbp new.parquet --coverage 0.8 -o predicted.parquet
  probprop predict houses.pbp new.xlsx --quantiles 0.1,0.9 -o predicted.xlsx
  cat new.csv | probprop predict houses.pbp - > predicted.csv
"""
_OF_NUMBERS = {"--coverage": "interval", "--quantiles": "quantiles"}
_OUTPUT = "CSV, TSV, Parquet or Excel file."


def predict(
    context: Context,
    model: arguments.Model,
    data: arguments.DataFiles,
    output: Annotated[
        str | None,
        Option("-o", "--output", metavar="FILE", help=f"{_OUTPUT}  [default: CSV to stdout]"),
    ] = None,
    coverage: Annotated[
        float | None,
        Option(metavar="P", help="Probability between lower and upper.  [default: 0.95]"),
    ] = None,
    quantiles: Annotated[
        str | None, Option(metavar="Q,Q,...", help="Probabilities of quantiles to add.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        Option(metavar="A,B,...", help="Columns to write, of the table or added.  [default: all]"),
    ] = None,
) -> None:
    """Predict the target of every row, with its uncertainty.

    The table is written with these columns added, in units of the target:

    \b
      mean           predicted target
      std            its standard deviation
      epistemic_std  its epistemic part, which more data can reduce
      aleatoric_std  its aleatoric part: the noise
      lower, upper   interval that contains the target with probability --coverage
      quantile_0.1   with --quantiles 0.1: the quantile at this probability

    With several targets, the columns of each are TARGET_mean, TARGET_std and so on. For
    classes, the columns are predicted_class, the most probable class, and p_CLASS, the probability
    of each CLASS.

    Columns of the table are matched by name, in any order. The rows are read and written in chunks,
    so files may be larger than memory, except for Excel, which has at most 1,048,575 rows.
    Cells of text files are written as they were. Predictions have as many digits as their std
    supports, and all digits in Parquet. --columns id,mean,std writes only these columns.
    """  # noqa: D301
    if coverage is not None and not 0.0 < coverage < 1.0:
        raise BadParameter(
            f"{coverage:g} is not between 0 and 1; 95 % is 0.95", param_hint="--coverage"
        )
    levels = _levels(quantiles)
    output = None if output == "-" else output
    if output is not None:
        outputs.check_table_extension(output)
    paths = arguments.input_paths(data)
    outputs.check_destinations({"-o": output}, {"MODEL": model, "DATA": paths})
    import pandas as pd

    from probprop.table.read import plan_chunks, with_numbers

    terminal = terminal_of(context)
    table_model = outputs.load_table_model(model)
    for option, given in (("--coverage", coverage), ("--quantiles", quantiles)):
        if given is not None and table_model.classes is not None:
            raise BadParameter(
                f"{model} predicts classes, which have no {_OF_NUMBERS[option]}", param_hint=option
            )
    n_rows = [plan_chunks(path)[0] for path in paths]
    chunks = _chunks(paths)
    first = next(chunks)
    added = _added_columns(table_model, levels)
    if taken := [name for name in added if name in first]:
        raise ValueError(
            f"{paths[0]} already has a column {taken[0]!r}, which the predictions would overwrite: "
            "rename or remove it"
        )
    there = [*map(str, first.columns), *added]
    written = list(dict.fromkeys(arguments.column_names(columns, there))) if columns else there
    if absent := [name for name in written if name not in there]:
        raise BadParameter(
            f"there is no column {absent[0]!r} in the table or among the predictions: they have "
            f"{listed(there, 20, str)}",
            param_hint="--columns",
        )
    note_file(terminal, first)
    known = {*table_model.features, *table_model.targets, *table_model.counting.names}
    left = {*written} - known
    ignored = [name for name in first if name in left]
    if ignored and {*table_model.features} <= {*first.columns}:  # else the error says it all
        terminal.note(f"columns that the model does not use are copied: {listed(ignored, 6, str)}")
    n_done, share = 0, 0.95 if coverage is None else coverage
    unknown: Unknown = {}
    total = None if None in n_rows else sum(n for n in n_rows if n is not None)
    outputs.check_table_size(output, total or 0, len(written))
    with (
        terminal.rows("predicting", total) as advance,
        outputs.table_writer(output, {"decimal": first.attrs["decimal"]}) as write,
    ):
        for cells in chain([first], chunks):
            frame = with_numbers(cells, table_model.kinds, cells.attrs["decimal"], table_model.na)
            predicted = predictions(frame, table_model, share, levels)
            shown = predicted if outputs.holds_digits(output) else rounded(predicted, table_model)
            left = frame if outputs.holds_types(output) else cells
            write(pd.concat([left, shown], axis=1)[written])
            count_unknown(unknown, table_model, frame)
            n_done += len(frame)
            advance(len(frame))
    note_unknown(terminal, unknown, table_model, learning=False)
    if output is not None:
        what = f"{100 * share:g} % intervals"
        if table_model.classes is not None:
            what = f"probabilities of {len(table_model.classes):,} classes"
        terminal.say(f"wrote {output}: {plural(n_done, 'row')}, {what}")


def _levels(text: str | None) -> list[float]:
    """Return the probabilities of ``--quantiles``, each once."""
    with suppress(ValueError):
        levels = [] if text is None else [float(part) for part in text.split(",")]
        if all(0.0 < level < 1.0 for level in levels):
            return list(dict.fromkeys(levels))
    raise BadParameter(
        f"{text!r} is not a list of numbers between 0 and 1, such as 0.1,0.9",
        param_hint="--quantiles",
    )


def _chunks(paths: Sequence[str]) -> Iterator[DataFrame]:
    """Yield the rows of all files, which must have the columns of the first file."""
    from probprop.table import iter_table
    from probprop.table.read import plan_chunks

    names: list[str] | None = None
    for path in paths:
        for frame in iter_table(path, chunk_rows=plan_chunks(path)[1], columns=names):
            names = names or [*map(str, frame)]
            yield frame


# ---- Predictions as columns of a table: their names, their values and their digits


def _added_columns(model: TableModel, quantiles: Sequence[float]) -> list[str]:
    if model.classes is not None:
        return ["predicted_class", *(f"p_{name}" for name in model.classes)]
    from probprop.distributions.base import frame_columns

    return frame_columns(model.targets, quantiles)


def predictions(
    frame: DataFrame, model: TableModel, coverage: float, quantiles: Sequence[float]
) -> DataFrame:
    """Return the predictions of rows, in the columns that are added."""
    import pandas as pd

    predicted: Any = model.predict_distribution(frame)
    if model.classes is None:
        added = predicted.to_frame(model.targets, coverage=coverage, quantiles=quantiles)
    else:
        values = [predicted.most_probable(model.classes), *predicted.proba.T]
        added = pd.DataFrame(dict(zip(_added_columns(model, ()), values, strict=True)))
    return added.set_axis(frame.index)


def rounded(predicted: DataFrame, model: TableModel) -> DataFrame:
    """Return predictions with the digits that mean something.

    A standard deviation and a probability have four significant digits. Means and ends of
    intervals have as many decimals as their standard deviation, and at least four significant
    digits of their own.
    """
    names, n = list(predicted), len(predicted.columns) // len(model.targets)
    columns = {}
    for i, name in enumerate(names):
        values = scale = predicted[name].to_numpy()
        if model.classes is None:
            scale = predicted[names[n * (i // n) + 1]].to_numpy()  # the std of this target
        columns[name] = _to_place(values, scale) if values.dtype.kind == "f" else values
    return predicted.assign(**columns)


def _to_place(values: FloatArray, scale: FloatArray) -> FloatArray:
    """Round to the place of the fourth digit of `scale` or of the value, the finer one; (n,).

    >>> import numpy as np
    >>> _to_place(np.array([12345.67891, 12345.0, 1.5]), np.array([0.98765, 45000, 0.0])).tolist()
    [12345.6789, 12340.0, 1.5]
    >>> _to_place(np.array([7.654321, 0.0]), np.array([1.337e22, 1.337e22])).tolist()
    [7.654, 0.0]
    """
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        decimals = 3.0 - np.floor(np.log10(np.minimum(np.abs(values), scale)))
        power = 10.0 ** np.abs(decimals)
        up = np.round(values * power) / power
        down = np.round(values / power) * power
        result = np.where(decimals >= 0.0, up, down)
    return np.where(np.isfinite(result) & np.isfinite(decimals), result, values)
