"""Files that the commands write, so that a failure leaves what was there before."""

from __future__ import annotations

import errno
import gc
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from typer import BadParameter

from probprop._atomic import replacing
from probprop.cli.console import Terminal, visible
from probprop.table.names import plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.table import TableModel

Write = Callable[["DataFrame"], None]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
_EXCEL = ".xlsx"
TABLE_EXTENSIONS = (*_DELIMITERS, *_PARQUET, _EXCEL)

# The limits of a sheet in Excel: its rows, header included, columns, characters in a cell.
_MOST_ROWS, _MOST_COLUMNS, _MOST_CHARACTERS = 1_048_576, 16_384, 32_767
_WHOLE = 10**15  # Excel changes the last digits of larger whole numbers
# Characters that XML cannot contain, and an underscore that Excel would read as an escape.
_ESCAPED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def check_destination(path: str, option: str = "-o") -> None:
    """Reject an output that cannot be written, before any work is done."""
    if path == "-":
        raise BadParameter("give the path of a file", param_hint=option)
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
    if not os.path.isdir(folder):
        raise ValueError(f"{option} {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "Permission denied", path)


def check_table_extension(path: str) -> None:
    """Reject an output whose extension is not a supported format."""
    suffix = Path(path).suffix.lower()
    if suffix not in TABLE_EXTENSIONS:
        raise BadParameter(
            f"{path} must end in one of {', '.join(TABLE_EXTENSIONS)}, or be - for standard output",
            param_hint="-o",
        )
    if suffix == _EXCEL and find_spec("openpyxl") is None:
        raise ImportError("Excel files need openpyxl: pip install 'probprop[cli]', or write .csv")


def check_table_size(path: str | None, n_rows: int, n_columns: int) -> None:
    """Refuse a table with more rows, besides the header, or columns than an Excel sheet has."""
    if path is None or Path(path).suffix.lower() != _EXCEL:
        return
    for n, most, what in (
        (n_rows, _MOST_ROWS - 1, "rows besides the header"),
        (n_columns, _MOST_COLUMNS, "columns"),
    ):
        if n > most:
            raise ValueError(
                f"{path}: an Excel sheet has at most {most:,} {what}, and the table has more: "
                "write to a .csv or .parquet file"
            )


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name the file the user asked for in errors of the system, not the temporary one."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


def holds_types(path: str | None) -> bool:
    """Whether the format of an output keeps numbers as numbers."""
    return path is not None and Path(path).suffix.lower() in (*_PARQUET, _EXCEL)


def holds_digits(path: str | None) -> bool:
    """Whether an output is for programs and has all digits of a prediction."""
    return path is not None and Path(path).suffix.lower() in _PARQUET


@contextmanager
def table_writer(path: str | None, layout: Mapping[str, Any] | None = None) -> Iterator[Write]:
    """Yield a function that appends a frame to the table at `path`, in its extension's format.

    The table is written to the folder of `path` and renamed at the end. None is CSV on standard
    output. `layout` has options of `DataFrame.to_csv`, which only text files have. With a decimal
    comma the cells of CSV are separated by semicolons, unless it has another delimiter.
    """
    if path is None:
        if sys.stdout is None:  # `>&-`
            raise ValueError("standard output is closed: open it, or give -o FILE")
        sys.stdout.flush()
        escape = sys.stdout.isatty()  # a person reads it
        yield _csv_writer(sys.stdout.buffer, ".csv", layout or {}, escape)
        sys.stdout.buffer.flush()
        return

    suffix = Path(path).suffix.lower()
    with naming(path), replacing(path) as file:
        if suffix in _PARQUET:
            with _parquet_writer(file) as write:
                yield write
        elif suffix == _EXCEL:
            with _excel_writer(file, path) as write:
                yield write
        else:
            yield _csv_writer(file, suffix, layout or {})


def _csv_writer(
    file: IO[bytes], suffix: str, layout: Mapping[str, Any], escape: bool = False
) -> Write:
    comma = layout.get("decimal") == "," and suffix == ".csv"
    options: dict[str, Any] = {"sep": ";" if comma else _DELIMITERS[suffix], "lineterminator": "\n"}
    options |= {**layout, "index": False, "header": True}

    def write(frame: DataFrame) -> None:
        if escape:
            file.write(visible(frame.to_csv(**options), kept="\n\t").encode())
        else:
            frame.to_csv(file, **options)
        options["header"] = False

    return write


@contextmanager
def _parquet_writer(file: IO[bytes]) -> Iterator[Write]:
    from pyarrow import ArrowInvalid, parquet

    writer: Any = None

    def write(frame: DataFrame) -> None:
        nonlocal writer
        table = _arrow_table(frame)
        if writer is None:
            writer = parquet.ParquetWriter(file, table.schema)
        try:
            table = table.cast(writer.schema)
        except ArrowInvalid as error:
            raise ValueError(
                f"a column changes its type within the table ({error}), which Parquet does not "
                "allow: write to a .csv file"
            ) from error
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _excel_writer(file: IO[bytes], path: str) -> Iterator[Write]:
    """Write the one sheet of a workbook row by row; no text in it becomes a formula."""
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet: Any = book.create_sheet("Sheet1")
    n_rows = 0

    def write(frame: DataFrame) -> None:
        nonlocal n_rows
        check_table_size(path, n_rows + len(frame), len(frame.columns))
        if n_rows == 0:
            sheet.append([_excel_cell(str(name), sheet, path) for name in frame.columns])
        n_rows += len(frame)
        columns = [_typed(frame[name]).astype(object) for name in frame.columns]
        for row in zip(*columns, strict=True):
            sheet.append([_excel_cell(value, sheet, path) for value in row])

    try:
        yield write
    except BaseException:
        sheet.close()  # it has a temporary file open
        raise
    book.save(file)


def _typed(column: Any) -> Any:
    """Return a column of text as numbers, dates or true and false, if all of its cells are that.

    Texts with leading zeros and long numbers are identifiers, and stay text.
    """
    import pandas as pd

    from probprop.table.cells import is_text

    known = column.dropna()
    if not is_text(column.dtype) or not len(known):
        return column
    if known.str.fullmatch(r"[+-]?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?(?:[eE][+-]?\d+)?").all():
        return pd.to_numeric(column)
    if known.str.lower().isin(["true", "false"]).all():
        return (known.str.lower() == "true").astype(object).reindex(column.index)
    when = pd.to_datetime(column, format="ISO8601", errors="coerce")
    return when if when.count() == len(known) else column


def _excel_cell(value: Any, sheet: Any, path: str) -> Any:
    """Return a cell for Excel: the value, or text if Excel lacks its type."""
    import pandas as pd
    from openpyxl.cell import WriteOnlyCell

    if pd.isna(value):
        return None
    # Excel's calendar begins in 1900, with a wrong leap day, and has no time zones.
    if isinstance(value, datetime) and value.tzinfo is None and value.year > 1900:
        return value
    exact = isinstance(value, float) and math.isfinite(value)
    if exact or (isinstance(value, int) and abs(value) < _WHOLE):
        return value
    if len(text := str(value)) > _MOST_CHARACTERS:
        raise ValueError(
            f"{path}: a cell of an Excel sheet has at most {_MOST_CHARACTERS:,} characters, and "
            f"one that begins with {text[:20]!r} has {len(text):,}: write to a .csv or .parquet "
            "file"
        )
    cell = WriteOnlyCell(sheet, _ESCAPED.sub(lambda found: f"_x{ord(found[0]):04X}_", text))
    cell.data_type = "s"  # not a formula, whatever it begins with
    return cell


def _arrow_table(frame: DataFrame) -> Any:
    from pyarrow import ArrowInvalid, ArrowTypeError, Table

    try:
        return Table.from_pandas(frame, preserve_index=False)
    except (ArrowInvalid, ArrowTypeError):  # numbers and text in one column: write it as read
        mixed = [name for name in frame.columns if frame[name].dtype.kind == "O"]
        return Table.from_pandas(frame.astype(dict.fromkeys(mixed, "str")), preserve_index=False)


# ---- Outputs that would replace other files, rejected before any work is done


def check_destinations(
    outputs: Mapping[str, str | None], inputs: Mapping[str, str | Sequence[str]]
) -> None:
    """Refuse outputs that cannot be written, and those that are an input or one another.

    `outputs` maps options to paths, or to None for an option that was not given; `inputs` maps the
    names of arguments to a path or paths, where ``-`` is standard input.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for option, path in given.items():
        check_destination(path, option)
        for name, paths in inputs.items():
            for source in [paths] if isinstance(paths, str) else paths:
                if source != "-" and same_file(path, source):
                    raise ValueError(
                        f"{option} {path} is the same file as {name} {source}, which would be "
                        "replaced: give another path"
                    )
    for (option, path), (other, twin) in combinations(given.items(), 2):
        if same_file(path, twin):
            raise ValueError(
                f"{option} {path} and {other} {twin} are the same file: give two paths"
            )
    if "--report" in given:
        check_replaces_page(given["--report"], "--report")


def check_replaces_model(path: str) -> None:
    """Reject an output that would replace a file that is not a model."""
    from probprop.io import MODEL, begins_as

    _check_replaces(path, "-o", "a probprop model", lambda: begins_as(path, MODEL))


def check_replaces_page(path: str, option: str = "-o") -> None:
    """Reject an output that would replace a file that is not HTML."""

    def is_page() -> bool:
        with open(path, "rb") as file:
            return file.read(1000).lstrip().lower().startswith((b"<!doctype html", b"<html"))

    _check_replaces(path, option, "an HTML file", is_page)


def _check_replaces(path: str, option: str, what: str, is_one: Callable[[], bool]) -> None:
    if os.path.isfile(path) and os.path.getsize(path) > 0 and not is_one():
        raise ValueError(
            f"{option} {path} exists and is not {what}: choose another path, or remove the file "
            "first"
        )


def same_file(path: str, other: str) -> bool:
    """Whether two paths lead to one file, through links too; it need not exist yet.

    >>> same_file("a.csv", "./a.csv"), same_file("a.csv", "b.csv")
    (True, False)
    """
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


# ---- Model files as the commands open and write them


def load_table_model(path: str) -> TableModel:
    """Load a model of a table; reject models without column names."""
    for name in ("pandas", "sklearn.base"):
        import_module(name)
    if not gc.get_freeze_count():
        gc.freeze()  # their objects stay; each collection during later imports would visit all
    from probprop.files import load
    from probprop.table import TableModel

    model = load(path)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{path} is a {type(model).__name__} that was saved from Python, without the columns "
            "of a table: use it from Python, or make a model with `probprop fit`"
        )
    return model


def save_model(model: TableModel, path: str) -> None:
    """Write a model atomically; an error names `path` and leaves the file that was there."""
    with naming(path):
        model.save(path)


def save_fitted(terminal: Terminal, model: TableModel, path: str) -> None:
    """Write a model that was just fitted, and print what is in it."""
    save_model(model, path)
    counts = {
        "row": model.estimator.n_samples_seen_,
        "feature": len(model.features),
        "class": 0 if model.classes is None else len(model.classes),
        "network": len(getattr(model.estimator, "estimators_", ())),
    }
    terminal.say(f"wrote {path}: {', '.join(plural(n, k) for k, n in counts.items() if n)}")
