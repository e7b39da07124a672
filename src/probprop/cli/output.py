"""Tables and reports written so that a failure leaves what was there before."""

from __future__ import annotations

import csv
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

from probprop._atomic import replacing
from probprop.cli.console import visible

if TYPE_CHECKING:
    from pandas import DataFrame

Write = Callable[["DataFrame"], None]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")


def check_destination(path: str | None, option: str = "-o") -> None:
    """Refuse, before the work, an output that could not be written after it."""
    if path is None:
        return
    if path == "-":
        raise typer.BadParameter("give the path of a file", param_hint=option)
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
    if not os.path.isdir(folder):
        raise ValueError(f"{option} {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "Permission denied", path)


def check_table_extension(path: str | None) -> None:
    """Refuse an output whose extension names no format that can be written."""
    if path is None:
        return
    known = (*_DELIMITERS, *_PARQUET)
    if Path(path).suffix.lower() not in known:
        raise typer.BadParameter(
            f"{path} must end in one of {', '.join(known)}, or be - for standard output",
            param_hint="-o",
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
    return path is not None and Path(path).suffix.lower() in _PARQUET


@contextmanager
def table_writer(path: str | None, decimal: str = ".") -> Iterator[Write]:
    """Yield a function that appends a frame to the table at `path`, in its extension's format.

    The table is written beside `path` and renamed at the end. None is CSV on standard output.
    With a decimal comma the cells of CSV are separated by semicolons.
    """
    if path is None:
        if sys.stdout is None:  # `>&-`
            raise ValueError("standard output is closed: open it, or give -o FILE")
        sys.stdout.flush()
        file: Any = _OnTerminal() if sys.stdout.isatty() else sys.stdout.buffer
        yield _csv_writer(file, ";" if decimal == "," else ",", decimal)
        sys.stdout.buffer.flush()
        return

    suffix = Path(path).suffix.lower()
    with naming(path), replacing(path) as file:
        if suffix in _PARQUET:
            with _parquet_writer(file) as write:
                yield write
        else:
            comma = decimal == "," and suffix == ".csv"
            yield _csv_writer(file, ";" if comma else _DELIMITERS[suffix], decimal)


class _OnTerminal:
    """Standard output that somebody looks at: control characters in cells are escaped."""

    def write(self, content: bytes) -> None:
        sys.stdout.buffer.write(visible(content.decode(), kept="\n\t").encode())


def _csv_writer(file: IO[bytes], delimiter: str, decimal: str) -> Write:
    """Write through Arrow, which takes a tenth of the time of ``DataFrame.to_csv``."""
    first = True

    def write(frame: DataFrame) -> None:
        nonlocal first
        if first:
            header = io.StringIO()
            csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(frame.columns)
            file.write(header.getvalue().encode())
        file.write(_csv_lines(_arrow_table(_with_dates_as_text(frame)), delimiter, decimal))
        first = False

    return write


def _csv_lines(table: Any, delimiter: str, decimal: str) -> bytes:
    """Return the rows as text; only cells that need quotes have them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if table.num_rows == 0:
        return b""
    cells = [_cells(column.combine_chunks(), delimiter, decimal) for column in table.columns]
    if len(cells) == 1:  # an empty line would be no row
        cells = [pc.fill_null(cells[0], '""')]
    text, end = pa.large_string(), pa.scalar("\n", pa.large_string())
    between = pa.scalar(delimiter, text)
    options = {"null_handling": "replace", "null_replacement": ""}
    lines = pc.binary_join_element_wise(*cells, between, **options)
    ended = pc.binary_join_element_wise(lines, pa.scalar("", text), end)
    return "".join(ended.to_pylist()).encode()


def _cells(column: Any, delimiter: str, decimal: str) -> Any:
    """Return a column as text, with quotes around cells that hold a delimiter or a quote."""
    import pyarrow as pa
    import pyarrow.compute as pc

    number = pa.types.is_floating(column.type)
    cells = column.cast(pa.large_string())
    if number and decimal == ",":
        cells = pc.replace_substring(cells, ".", ",")
    if pa.types.is_boolean(column.type) or (number and delimiter != decimal):
        return cells
    special = pc.match_substring_regex(cells, f'["\r\n{delimiter}]')
    if not pc.any(special).as_py():
        return cells
    quote = pa.scalar('"', pa.large_string())
    doubled = pc.replace_substring(cells, '"', '""')
    empty = pa.scalar("", pa.large_string())
    return pc.if_else(special, pc.binary_join_element_wise(quote, doubled, quote, empty), cells)


def _with_dates_as_text(frame: DataFrame) -> DataFrame:
    """Write moments of Parquet without a time where all are at midnight."""
    moments = frame.select_dtypes(["datetime", "datetimetz"]).columns
    return frame.assign(**{k: frame[k].astype(str).mask(frame[k].isna()) for k in moments})


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
                f"a column changes its type within the table ({error}), which Parquet cannot "
                "hold: write to a .csv file"
            ) from error
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _arrow_table(frame: DataFrame) -> Any:
    from pyarrow import ArrowInvalid, ArrowTypeError, Table

    try:
        return Table.from_pandas(frame, preserve_index=False)
    except (ArrowInvalid, ArrowTypeError):  # numbers and text in one column: write it as read
        mixed = [name for name in frame.columns if frame[name].dtype.kind == "O"]
        return Table.from_pandas(frame.astype(dict.fromkeys(mixed, "str")), preserve_index=False)
