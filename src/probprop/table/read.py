"""Text, Parquet, JSON lines and spreadsheets as data frames: whole, in chunks, several as one.

The first bytes of a file decide what it is; nothing is rewound, so that pipes work as files do.
Empty cells are missing, and so are "NA" and the like.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import datetime
import glob
import gzip
import io
import json
import lzma
import os
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, Any

import numpy as np
import pandas as pd
from pandas.api import types

from probprop.table.cells import (
    all_floats,
    amounts,
    is_text,
    missing_texts,
    replaced,
    with_gaps,
    without_numbers,
    without_texts,
)
from probprop.table.columns import Kind
from probprop.table.encoding import one_kind
from probprop.table.names import FORMATS, TableError, check_names, check_present, reading_parquet

Path = str | os.PathLike[str]

_FOREIGN = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard",
}
_SHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # .xlsx and .ods are zip files; .xls is not
_USUAL = ("", "delimiter: comma", "delimiter: tab", "no comma, semicolon or tab found")
_BUFFER = 1 << 18  # bytes of each column of a Parquet file that are read at a time
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def read_table(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    na: Sequence[str] | None = None,
) -> pd.DataFrame:
    r"""Read a whole CSV, TSV, Parquet, JSON or spreadsheet file, or raise a `TableError`.

    Parameters
    ----------
    path : str or path-like
        ``-`` is the standard input. The delimiter (comma, semicolon, tab or bar), decimal sign and
        encoding (UTF-8, Windows-1252, or UTF-16 and UTF-32 with a byte-order mark) of text are
        detected. Files may be compressed with gzip, bzip2 or xz. JSON is one object per line, or a
        list of them. For spreadsheets, the first non-empty sheet is read.
    columns : sequence of str, default=None
        The columns wanted, in this order; None means all.
    kinds : mapping of str to str, default=None
        `TableModel.kinds`, to read a text file for a model: see `iter_table`. None finds what a
        column holds from all its cells.
    na : sequence of str, default=None
        Texts that mean a missing cell, besides the empty one. None means "NA", "N/A", "null",
        "nan", "?", "-" and the like, and among numbers "none" and "." too.

    Returns
    -------
    DataFrame of shape (n_rows, n_columns)
        Its ``attrs`` have the file's name and delimiter ("source", for messages), the same if the
        file is unusual ("noted", else empty), and the decimal sign ("decimal").

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from probprop.table import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp(), "fruit.csv")
    >>> _ = path.write_text("kind;weight\napple;150\npear;NA\n")
    >>> read_table(path)["weight"].tolist()
    [150.0, nan]
    """
    if kinds is not None:
        return pd.concat(list(iter_table(path, columns=columns, kinds=kinds, na=na)))
    [frame] = _frames(path, None, columns, None, na)
    return frame


def iter_table(
    path: Path,
    *,
    chunk_rows: int = 100_000,
    columns: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    na: Sequence[str] | None = None,
) -> Iterator[pd.DataFrame]:
    """Read a table in chunks, so that it may be larger than memory.

    The index is continued from chunk to chunk. The file is opened with the first chunk.

    Parameters
    ----------
    path : str or path-like
        As for `read_table`. Parquet from a pipe, spreadsheets and lists in JSON are held in
        memory.
    chunk_rows : int, default=100_000
    columns : sequence of str, default=None
        The columns wanted, in this order; None means all.
    kinds : mapping of str to str, default=None
        `TableModel.kinds`. Cells of a text file stay text, since what they look like may change
        from chunk to chunk. Columns of kind ``"number"`` become numbers if a chunk is numeric.
    na : sequence of str, default=None
        As for `read_table`, for the columns of numbers.
    """
    return _frames(path, chunk_rows, columns, kinds or {}, na)


def _frames(
    path: Path,
    chunk_rows: int | None,
    columns: Sequence[str] | None,
    kinds: Mapping[str, str] | None,
    na: Sequence[str] | None,
) -> Iterator[pd.DataFrame]:
    """Yield frames with a continued index; one frame if `chunk_rows` is None."""
    n_rows = 0
    with opened(path) as file:
        _check_format(file.label, file.start)
        if file.start.startswith(b"PAR1"):
            found = _Found(file, [])
            frames = _parquet_frames(file, chunk_rows, columns, na)
        else:
            found, layout, text = _as_text(file)
            if columns is not None:
                check_present(found.source, columns, layout.names)
            frames = text_frames(found.source, text, layout, chunk_rows, kinds, na)
        for frame in frames:
            if columns is not None:
                frame = frame[list(columns)]
            if frame.shape[0] == 0:
                continue
            frame.index = pd.RangeIndex(n_rows, n_rows + len(frame))
            frame.attrs |= found.attrs
            n_rows += len(frame)
            yield frame
        if n_rows == 0:
            raise TableError(f"{found.source} has a header but no rows: {FORMATS} with data in it.")


@dataclass
class _Found:
    """What was found out about a file; some of it only while it is read."""

    file: Opened
    layout: list[str]
    decimal: str = "."

    @property
    def source(self) -> str:
        """The file as messages name it."""
        words = ", ".join([*self.file.words, *self.layout])
        return f"{self.file.label} ({words})" if words else self.file.label

    @property
    def attrs(self) -> dict[str, str]:
        """What a frame knows about its file."""
        usual = not self.file.words and ", ".join(self.layout) in _USUAL
        noted = "" if usual else self.source
        return {"source": self.source, "decimal": self.decimal, "noted": noted}


def _as_text(file: Opened) -> tuple[_Found, Layout, io.BufferedReader]:
    """Return what a file is, and its rows as text in UTF-8 with a delimiter."""
    what: list[str] = []
    if file.start.startswith(_SHEETS):
        text, sheet = sheet_as_csv(file.label, file.everything())
        what = [f"spreadsheet, sheet {sheet!r}"]
    else:
        text = file.text()
        if is_json(text.peek(1)):
            what, text = ["JSON"], json_as_csv(file.label, text)
    start = text.read(START)

    def found(layout: Layout) -> _Found:
        return _Found(file, what or layout.words * bool(layout.names), layout.decimal)

    layout = find_layout(lambda layout: found(layout).source, start)
    return found(layout), layout, rejoined(start, text)


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written, so that a copy of it looks the same."""

    delimiter: str
    newline: str
    encoding: str
    decimal: str


def text_format(path: Path) -> TextFormat | None:
    """Look at the start of a table; None where it is no plain text with a delimiter."""
    with opened(path) as file:
        start = file.start
        if file.compression or start.startswith((b"PAR1", *_SHEETS, *_WIDE)):
            return None
        found, layout, _ = _as_text(file)
        if found.layout != layout.words:
            return None
        encoding = "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"
        if file.encoding != "UTF-8":
            encoding = "cp1252"
        newline = "\r\n" if b"\r\n" in start else "\n"
        return TextFormat(layout.delimiter, newline, encoding, layout.decimal)


def _check_format(label: str, start: bytes) -> None:
    if not start.strip(b"\r\n\t \xef\xbb\xbf"):
        raise TableError(f"{label} is empty: {FORMATS} with a header and rows.")
    for magic, what in _FOREIGN.items():
        if start.startswith(magic):
            raise TableError(f"{label} is not a table but {what}: {FORMATS}.")
    if start.startswith(b"PAR1"):
        return
    if label.lower().endswith((".parquet", ".pq")):
        raise TableError(f"{label} is not a Parquet file, though it is named so: {FORMATS}.")
    if b"\0" in start and not start.startswith((*_SHEETS, *_WIDE)):
        raise TableError(f"{label} is not a table but binary data: {FORMATS}.")


# ---- Parquet


def _parquet_frames(
    source: Opened, chunk_rows: int | None, columns: Sequence[str] | None, na: Sequence[str] | None
) -> Iterator[pd.DataFrame]:
    try:
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'probprop[cli]'") from error

    label, file = source.label, source.rest
    plain = source.compression is None and label != STANDARD_INPUT and file.seekable()
    with reading_parquet(label):
        content = file if plain else io.BytesIO(source.everything())
        # Else it would hold all that it has read, and all columns of a row group at a time.
        buffer = 0 if chunk_rows is None else _BUFFER
        parquet = pq.ParquetFile(content, pre_buffer=False, buffer_size=buffer)
        names = parquet.schema_arrow.names
        if columns is not None:
            check_present(label, columns, names)
        check_names(label, names)
        if chunk_rows is None:
            tables = iter([parquet.read(columns=columns)])
        else:
            tables = parquet.iter_batches(chunk_rows, columns=columns)
    texts = missing_texts(na, among_numbers=False)
    while True:
        with reading_parquet(label):
            if (table := next(tables, None)) is None:
                return
            frame = table.to_pandas()
            # The named levels of the index, which pandas may have stored, are columns.
            if named := [name for name in frame.index.names if name is not None]:
                frame = frame.reset_index(level=named)
            if columns is not None:  # the names that pandas stored beside them may be damaged
                check_present(label, columns, frame.columns)
        yield frame if chunk_rows is not None else with_gaps(frame, lambda _: (texts, ()))


def parquet_metadata(path: str) -> Any:
    """Return what a Parquet file says about its rows and columns."""
    from pyarrow import parquet

    with reading_parquet(path):
        return parquet.read_metadata(path)


# ---- CSV and TSV: the delimiter, the decimal sign, the header, and what pandas makes of the rows


_LOOK = 20  # records compared to find the delimiter
_DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}  # the rarer in prose first
# Later versions of pandas read every number exactly, and warn about the option.
_EXACT = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}


@dataclass(frozen=True)
class Layout:
    """What the start of a text file shows: delimiter, column names and the decimal sign."""

    delimiter: str
    names: list[str]
    decimal: str = "."
    n_blank: int = 0  # columns after the last that has a name

    @property
    def words(self) -> list[str]:
        """What was detected."""
        found = f"delimiter: {_DELIMITERS[self.delimiter]}"
        decimal = ["decimal comma"] if self.decimal == "," else []
        return [found if len(self.names) > 1 else "no comma, semicolon or tab found", *decimal]


def find_layout(source: Callable[[Layout], str], start: bytes) -> Layout:
    """Find the delimiter: the first to cut all first records into as many cells, or the most.

    `source` names the file in messages, given its layout; `start` is the first bytes as UTF-8, at
    most `START` and perhaps a few more.
    """
    text = start.decode(errors="ignore")  # the last letter may be cut
    cut = len(start) >= START
    records = {d: r for d in _DELIMITERS if (r := _first_records(text, d, cut))}
    if not records:
        raise TableError(
            f"{source(Layout(',', []))} has a header line of more than {START} bytes: {FORMATS}."
        )
    alike = [d for d, r in records.items() if len(r[0]) > 1 and len({len(x) for x in r}) == 1]
    most = max(reversed(records), key=lambda d: len(records[d][0]))  # comma where there is none
    delimiter = alike[0] if alike else most
    names = [name.strip() for name in records[delimiter][0]]
    n_all = len(names)
    while len(names) > 1 and not names[-1]:  # every line ends with a delimiter, or with several
        names.pop()
    n_blank = n_all - len(names)
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    layout = Layout(delimiter, names, _decimal(text, delimiter), n_blank)
    check_names(source(layout), names)
    return layout


def _decimal(text: str, delimiter: str) -> str:
    """Return the sign that more cells have between digits; a point where commas delimit."""
    if delimiter == ",":
        return "."
    edge = re.escape(delimiter) + r'"\s'
    cell = rf"(?:^|(?<=[{edge}]))[+-]?\d*{{}}\d+(?:[eE][+-]?\d+)?(?=$|[{edge}])"
    n = {sign: len(re.findall(cell.format(re.escape(sign)), text, re.M)) for sign in ",."}
    return "," if n[","] > n["."] else "."


def _first_records(text: str, delimiter: str, cut: bool) -> list[list[str]]:
    """Split the first lines, without the last one if the text is cut off in it."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    records: list[list[str]] = []
    limit = csv.field_size_limit(START)  # else a name or a cell of 128 KiB would be too long
    try:
        with suppress(csv.Error):
            records.extend(islice(filter(None, reader), _LOOK + 1))
    finally:
        csv.field_size_limit(limit)
    return records[:-1] if cut and len(records) <= _LOOK else records[:_LOOK]


def text_frames(
    source: str,
    file: Any,
    layout: Layout,
    chunk_rows: int | None,
    kinds: Mapping[str, str] | None,
    na: Sequence[str] | None,
) -> Iterator[pd.DataFrame]:
    """Yield the rows in chunks, or all at once, of the types that `kinds` asks for."""
    blank = [f"\0{i}" for i in range(layout.n_blank)] if layout.n_blank > 1 else []
    options: dict[str, Any] = {
        "sep": layout.delimiter,
        "names": [*layout.names, *blank],
        "header": 0,
        "index_col": False,  # else a row longer than the header would shift the columns
        "dtype": None if kinds is None else str,
        "decimal": layout.decimal,
        "skipinitialspace": True,
        "keep_default_na": False,
        "na_values": [""],
        "low_memory": False,  # else the type of a cell could depend on its place
        "encoding": "utf-8",
        **_EXACT,
    }

    def without_blank(frame: pd.DataFrame) -> pd.DataFrame:
        """Leave out columns without a name and without cells; pandas knows of one at most."""
        if blank and frame[blank].notna().to_numpy().any():
            raise _ragged(source, "a row", "more", len(layout.names))
        return frame.drop(columns=blank)

    try:
        if chunk_rows is None:
            frame = without_blank(_strictly(lambda: pd.read_csv(file, **options)))
            yield _settled(frame, layout, na)
            return
        with pd.read_csv(file, chunksize=chunk_rows, **options) as reader:
            while (frame := _strictly(lambda: next(reader, None))) is not None:
                yield with_numbers(without_blank(frame), kinds or {}, layout.decimal, na)
    except pd.errors.ParserWarning as error:  # only ever of the first rows
        raise _ragged(source, "a row", "more", len(layout.names)) from error
    except pd.errors.ParserError as error:
        text = str(error).strip()
        if fields := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text):
            raise _ragged(source, f"line {fields[2]}", fields[3], int(fields[1])) from error
        if row := re.search(r"EOF inside string starting at row (\d+)", text):
            raise TableError(
                f"{source} has a quote in line {int(row[1]) + 1} that is never closed: close it, "
                "or double each quote that is part of a quoted cell."
            ) from error
        raise TableError(f"{source} cannot be read as a table ({text}): {FORMATS}.") from error


def _strictly(read: Callable[[], Any]) -> Any:
    """Read with pandas' warning of lost cells turned into an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return read()


def _ragged(source: str, line: str, n_fields: object, n_names: int) -> TableError:
    title = "remove the lines above the header, " if n_names == 1 else ""
    return TableError(
        f"{source} has {n_fields} fields in {line} where its header has {n_names}: {title}put "
        "quotes around cells that contain the delimiter, or name every column."
    )


def with_numbers(
    frame: pd.DataFrame, kinds: Mapping[str, str], decimal: str, na: Sequence[str] | None
) -> pd.DataFrame:
    """Return cells of text with those of each column of numbers as floats, if all are numbers."""
    columns = {}
    dtypes = frame.dtypes.items()
    names = [str(k) for k, dtype in dtypes if kinds.get(k) == "number" and is_text(dtype)]
    if decimal == "." and not na and len(names) > len(frame):
        # All columns at once: each alone would take longer than its few cells.
        values = all_floats(pd.Series(frame[names].to_numpy(object).ravel(), dtype=object))
        if values is not None:
            block = pd.DataFrame(values.reshape(-1, len(names)), frame.index, names)
            new = pd.concat([frame.drop(columns=names), block], axis=1)[list(frame)]
            new.attrs = dict(frame.attrs)
            return new
    for name in names:
        cells = _pointed(frame[name]) if decimal == "," else frame[name]
        values = all_floats(cells)
        if values is None:
            cells = without_texts(cells, missing_texts(na, among_numbers=True))
            values = all_floats(cells)
        if values is None:
            values = amounts(without_texts(frame[name], missing_texts(na, among_numbers=True)))
        if values is None:
            columns[name] = cells
        else:
            columns[name] = pd.Series(without_numbers(values, na or ()), frame.index)
    return replaced(frame, columns)


def _pointed(column: pd.Series) -> pd.Series:
    """Write decimal commas as points."""
    return column.astype(str).str.replace(",", ".", n=1, regex=False).mask(column.isna())


def _settled(frame: pd.DataFrame, layout: Layout, na: Sequence[str] | None) -> pd.DataFrame:
    """Make numbers of text that is numbers and "NA" or the like, and gaps of "NA" in text.

    ``attrs["amounts"]`` has a cell of each column of numbers with separators or currencies, and
    the number that it was read as.
    """
    columns: dict[str, pd.Series] = {}
    unusual: dict[str, tuple[str, float]] = {}
    for name, dtype in frame.dtypes.items():
        column = frame[name]
        if types.is_numeric_dtype(dtype):  # bool is one, too
            if na and not types.is_bool_dtype(dtype):
                given = column.to_numpy(np.float64)
                left = without_numbers(given, na)
                if np.isnan(left).sum() > np.isnan(given).sum():
                    columns[name] = pd.Series(left, column.index)
            continue
        cells = without_texts(column, missing_texts(na, among_numbers=True))
        values = None
        if cells.notna().any() and types.infer_dtype(cells, skipna=True) == "string":
            values = all_floats(cells)
            if values is None and layout.decimal == ",":  # its sign may differ from other columns
                values = all_floats(_pointed(cells))
            if values is None and (values := amounts(cells)) is not None:
                place = int(cells.astype(object).map(lambda cell: len(str(cell))).argmax())
                unusual[str(name)] = str(cells.iloc[place]), float(values[place])
        if values is not None:
            columns[name] = pd.Series(values, cells.index)
        elif (cells := without_texts(column, missing_texts(na, among_numbers=False))) is not column:
            columns[name] = cells
    new = replaced(frame, columns)
    if unusual:
        new.attrs["amounts"] = unusual
    return new


# ---- Chunks: about how many rows a file has, and how many to take at a time


_CHUNK_BYTES = 16 << 20  # of the file; in memory a chunk takes about ten times as much
_CHUNK_ROWS = 100_000


def plan_chunks(path: str) -> tuple[int | None, int]:
    """Return about how many rows a table has (None: unknown), and how many to take at a time.

    A text file is judged by its first megabyte.
    """
    if path == "-" or not os.path.isfile(path):
        return None, _CHUNK_ROWS
    with opened(path) as file:
        sample, compressed = file.start, file.compression is not None
    if sample.startswith(b"PAR1"):
        try:
            metadata = parquet_metadata(path)
        except TableError:  # whoever reads the table explains what is wrong with it
            return None, _CHUNK_ROWS
        at_a_time = _CHUNK_BYTES // (8 * max(1, metadata.num_columns))
        return metadata.num_rows, min(_CHUNK_ROWS, max(1, at_a_time))
    bytes_per_row = max(1, len(sample)) / max(1, sample.count(b"\n"))
    rows_at_a_time = min(_CHUNK_ROWS, max(1, int(_CHUNK_BYTES / bytes_per_row)))
    if compressed or b"\0" in sample:
        return None, rows_at_a_time
    return max(1, round(os.path.getsize(path) / bytes_per_row)), rows_at_a_time


# ---- Several files as one table, and how much memory a table will take


_CELL = 8  # bytes
_COPIES = 5  # of the cells, at the peak of a fit: the table, its rows held out, and X
_UNPACKED = 5  # times a compressed file, about


def read_tables(paths: Sequence[str], *, na: Sequence[str] | None = None) -> pd.DataFrame:
    """Read whole files with the same columns, one after the other; refuse those that differ.

    One file is as `read_table` gives it.
    """
    frames = [read_table(path, na=na) for path in paths]
    if len(frames) == 1:
        return frames[0]
    names = list(dict.fromkeys(str(k) for frame in frames for k in frame))
    for path, frame in zip(paths, frames, strict=True):
        check_present(path, names, list(frame))
    for name in names:
        found = ((path, _kind(f[name])) for path, f in zip(paths, frames, strict=True))
        one_kind(name, {path: kind for path, kind in found if kind is not None})
    table = pd.concat([frame[names] for frame in frames], ignore_index=True)
    table.attrs = dict(frames[0].attrs)
    table.attrs["source"] = f"{paths[0]} and {len(paths) - 1} more"
    return table


def _kind(column: pd.Series) -> Kind | None:
    """Return what a column looks like; None if it has no cells. Dates in text are text here."""
    if column.isna().all():
        return None
    if types.is_bool_dtype(column) or types.infer_dtype(column, skipna=True) == "boolean":
        return "boolean"
    if types.is_numeric_dtype(column):
        return "number"
    return "date" if types.is_datetime64_any_dtype(column) else "text"


def memory_needed(paths: Sequence[str]) -> int:
    """Return about how many bytes a fit on the whole table takes, beside the libraries.

    What comes from standard input is not known, and counted as nothing.
    """
    return sum(_needed(path) for path in paths if path != "-" and os.path.isfile(path))


def _needed(path: str) -> int:
    n_rows, _ = plan_chunks(path)
    n_columns: int
    size: int = os.path.getsize(path)
    with opened(path) as file:
        start = file.start
        size *= _UNPACKED if file.compression is not None or b"\0" in start[:4] else 1
    if start.startswith(b"PAR1"):
        try:
            n_columns = parquet_metadata(path).num_columns
        except TableError:  # whoever reads it says so
            return 0
    else:
        header = start.partition(b"\n")[0]
        n_columns = 1 + max(header.count(sign.encode()) for sign in _DELIMITERS)
        n_rows = n_rows or round(size * start.count(b"\n") / max(1, len(start)))
    return _COPIES * max(size, _CELL * (n_rows or 0) * n_columns)


# ---- The files that a path, a folder or a pattern means


_TABLES = (".parquet", ".pq", ".csv", ".tsv", ".txt", ".jsonl", ".json")
_PACKED = ("", ".gz", ".bz2", ".xz")


def paths_of(data: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """Return the files of a path, of a folder, of a quoted pattern such as 'data/*.parquet'.

    Several of them are put together in this order; the files of a pattern are sorted by name. A
    path that is neither a folder nor a pattern is returned as it is, whether it exists or not.
    """
    given = [os.fspath(data)] if isinstance(data, str | os.PathLike) else list(data)
    return [path for one in given for path in _paths(one)]


def _paths(path: str) -> list[str]:
    if os.path.isdir(path):
        ends = tuple(f"{table}{packed}" for table in _TABLES for packed in _PACKED)
        names = sorted(name for name in os.listdir(path) if name.lower().endswith(ends))
        if not names:
            raise TableError(f"the folder {path} has no tables in it: {FORMATS}.")
        return [os.path.join(path, name) for name in names]
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise TableError(f"no file matches {path}: {FORMATS}, or a pattern of such files.")
    return found


# ---- The bytes of a file: opened, decompressed, and as UTF-8 whatever their encoding


START = 1 << 20  # bytes looked at; the header line must be among them
STANDARD_INPUT = "standard input"
_PIECE = 1 << 18  # bytes decoded at a time

_COMPRESSED: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ": ("xz", lzma.LZMAFile),
}
# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


@dataclass
class Opened:
    """A file that is being read, and what was found out about its bytes."""

    label: str  # the file as messages name it
    start: bytes  # the first bytes, at most `START`, decompressed
    rest: Any  # the file after them
    compression: str | None = None
    encoding: str = "UTF-8"  # may change while the file is read, if letters beyond ASCII come late

    @property
    def words(self) -> list[str]:
        """What is unusual about the bytes, for a note."""
        found = [self.compression, None if self.encoding == "UTF-8" else self.encoding]
        return [word for word in found if word]

    def everything(self) -> bytes:
        """Return all bytes, decompressed."""
        return self.start + bytes(self.rest.read())

    def text(self) -> io.BufferedReader:
        """Return the file as UTF-8 without a byte-order mark."""
        return io.BufferedReader(Pieces(_as_utf8(self)), _PIECE)


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open for reading; what the system refuses, or is damaged, becomes a `TableError`."""
    label = STANDARD_INPUT if os.fspath(path) == "-" else os.fspath(path)
    try:
        if label == STANDARD_INPUT:
            if sys.stdin is None:  # `<&-`
                raise TableError("standard input is closed: open it, or give a file.")
            yield _decompressed(label, sys.stdin.buffer)
        else:
            with open(path, "rb") as file:
                yield _decompressed(label, file)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise TableError(
            f"{label} is compressed, and damaged or cut off ({error}): copy it again."
        ) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TableError(
            f"{label} cannot be read ({reason}): {FORMATS}, or - for standard input."
        ) from error


def _decompressed(label: str, file: IO[bytes]) -> Opened:
    start = file.read(START)
    for magic, (name, decompress) in _COMPRESSED.items():
        if start.startswith(magic):
            inside = decompress(rejoined(start, file))
            return Opened(label, inside.read(START), inside, compression=name)
    return Opened(label, start, file)


class Pieces(io.RawIOBase):
    """Pieces of bytes as one file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._piece = pieces, b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Copy what fits of the next piece that is not empty."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = piece
        n = min(len(buffer), len(self._piece))
        buffer[:n], self._piece = self._piece[:n], self._piece[n:]
        return n


def rejoined(start: bytes, rest: Any) -> io.BufferedReader:
    """Return the start that was looked at, then the rest: a pipe cannot be rewound."""
    return io.BufferedReader(Pieces(_pieces(start, rest)), _PIECE)


def _pieces(start: bytes, rest: Any) -> Iterator[bytes]:
    for i in range(0, len(start), _PIECE):
        yield start[i : i + _PIECE]
    while piece := rest.read(_PIECE):
        yield piece


def _as_utf8(source: Opened) -> Iterator[bytes]:
    """Yield the text as UTF-8, from UTF-8, UTF-16 or UTF-32 with a mark, or Windows-1252.

    Text is Windows-1252 if its first letters beyond ASCII are no UTF-8; that may be seen late.
    """
    pieces = _pieces(source.start, source.rest)
    for mark, name in _MARKS.items():
        if source.start.startswith(mark):
            source.encoding = name
            yield from _decoded(source.label, name, pieces)
            return
    decoder, ascii_so_far, n_lines = codecs.getincrementaldecoder("utf-8-sig")(), True, 0
    for piece in chain(pieces, [b""]):
        held = decoder.getstate()[0]
        try:
            text = decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            good = (held + piece)[: error.start]
            if not (ascii_so_far and good.isascii()):
                line = n_lines + good.count(b"\n") + 1
                raise TableError(
                    f"{source.label} is UTF-8 text at first, but not in line {line}: write the "
                    "whole file in one encoding, best UTF-8."
                ) from error
            source.encoding = "Windows-1252"
            yield _from_windows(held + piece)
            yield from map(_from_windows, pieces)
            return
        ascii_so_far = ascii_so_far and text.isascii()
        n_lines += piece.count(b"\n")
        yield text.encode()


def _from_windows(piece: bytes) -> bytes:
    """Recode; the five bytes that Windows-1252 lacks are taken as Latin-1."""
    try:
        return piece.decode("cp1252").encode()
    except UnicodeDecodeError:
        return piece.decode("latin-1").encode()


def _decoded(label: str, name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(name)()
    try:
        for piece in chain(pieces, [b""]):
            yield decoder.decode(piece, final=not piece).encode()
    except UnicodeError as error:
        raise TableError(
            f"{label} begins as {name} text but does not go on so: write it again, as UTF-8."
        ) from error


# ---- JSON lines and spreadsheets as comma-separated text, which is then read like any other


_JSON_LOOK = 1000  # JSON lines whose names are the columns
_LINES = 1000  # written at a time


def is_json(start: bytes) -> bool:
    """Whether text begins as JSON objects do, one per line or in a list."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        return text[1:].lstrip().startswith(b"{")
    return text.startswith(b"{") and text[1:].lstrip()[:1] in (b'"', b"}")


def json_as_csv(label: str, file: io.BufferedReader) -> io.BufferedReader:
    """Return JSON objects as CSV; numbers are written as they were."""
    objects = _objects(label, file)
    first = list(islice(objects, _JSON_LOOK))
    names = list(dict.fromkeys(name for line in first for name in line))
    known = {*names}

    def rows() -> Iterator[list[str]]:
        for number, line in enumerate(chain(first, objects), 1):
            if unknown := [name for name in line if name not in known]:
                raise TableError(
                    f"{label} has a field {unknown[0]!r} in record {number} that none of the first "
                    f"{_JSON_LOOK:,} has: give it in the first one too, as null."
                )
            yield [_json_cell(label, number, name, line.get(name)) for name in names]

    return _csv(chain([names], rows()))


def _objects(label: str, file: io.BufferedReader) -> Iterator[dict[str, Any]]:
    a_list = file.peek(1).lstrip().startswith(b"[")
    for number, line in enumerate([file.read()] if a_list else file, 1):
        if not line.strip():
            continue
        try:
            # Numbers stay the text they are.
            found = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
        except ValueError as error:
            raise TableError(
                f"{label} is not JSON lines (line {number}: {error}): write one object per line, "
                f"or {FORMATS}."
            ) from error
        for one in found if isinstance(found, list) else [found]:
            if not isinstance(one, dict):
                raise TableError(
                    f"{label} has a line {number} of JSON that is no object: write each row as "
                    '{"column": value, ...}.'
                )
            yield one


def _json_cell(label: str, number: int, name: str, value: Any) -> str:
    if isinstance(value, list | dict):
        raise TableError(
            f"{label} has a list or an object in the field {name!r} of record {number}, but a cell "
            "holds one value: give its parts fields of their own, or leave it out."
        )
    return _cell(value)


def sheet_as_csv(label: str, content: bytes) -> tuple[io.BufferedReader, str]:
    """Return the first sheet with cells in it as CSV, and its name."""
    try:
        import python_calamine as calamine
    except ModuleNotFoundError as error:
        need = "Spreadsheets need python-calamine: pip install 'probprop[cli]'"
        raise ImportError(need) from error
    try:
        book = calamine.load_workbook(io.BytesIO(content))
        for name in book.sheet_names:
            rows = book.get_sheet_by_name(name).to_python()
            if rows := [row for row in rows if any(value not in (None, "") for value in row)]:
                return _csv([_cell(value) for value in row] for row in rows), name
    except (calamine.CalamineError, OSError) as error:
        raise TableError(
            f"{label} is not a table but a zip file or an old document, perhaps a model: {FORMATS}."
        ) from error
    raise TableError(f"{label} is empty: {FORMATS} with a header and rows.")


def _cell(value: Any) -> str:
    """Write a cell as text: whole numbers without a point, dates in the ISO form."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return value.isoformat()
    return "" if value is None else str(value)


def _csv(rows: Iterable[Sequence[str]]) -> io.BufferedReader:
    """Write rows, `_LINES` at a time, as one file of bytes."""

    def pieces() -> Iterator[bytes]:
        rest = iter(rows)
        while some := list(islice(rest, _LINES)):
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(some)
            yield text.getvalue().encode()

    return io.BufferedReader(Pieces(pieces()))
