"""Text, Parquet, JSON lines and spreadsheets as data frames: whole, in chunks, several as one.

The first bytes of a file decide what it is. What comes from a pipe is copied to a temporary file.
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
import shutil
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import IO, Any, NamedTuple, TextIO

import numpy as np
import pandas as pd
from pandas.api import types

from probprop._types import FloatArray
from probprop.table.cells import (
    all_floats,
    amounts,
    is_text,
    missing_texts,
    replaced,
    without_marks,
    without_numbers,
    without_texts,
)
from probprop.table.columns import Kind, written
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
_BUFFER = 1 << 18  # bytes of each column of a Parquet file, or of text, that are read at a time
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
        column contains from all its cells.
    na : sequence of str, default=None
        Texts that mean a missing value, in addition to the empty text. None means "NA", "N/A",
        "null", "nan", "?", "-" and the like, and among numbers "none" and "." too.

    Returns
    -------
    DataFrame of shape (n_rows, n_columns)
        Its ``attrs`` have the file's name and delimiter ("source", for messages), the same if the
        file is unusual ("noted", else empty), the decimal sign ("decimal"), and the arguments of
        ``to_csv`` that write a text file like it ("text", None for other files).

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
    [frame] = frames_of(path, None, columns, None, na)
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
    path, columns, na
        As for `read_table`. Spreadsheets and JSON are read into memory.
    chunk_rows : int, default=100_000
    kinds : mapping of str to str, default=None
        `TableModel.kinds`. Cells of a text file stay text, since what they look like may change
        from chunk to chunk. Columns of kind ``"number"`` become numbers if a chunk is numeric.
    """
    return frames_of(path, chunk_rows, columns, kinds or {}, na)


def frames_of(
    path: Path,
    chunk_rows: int | None,
    columns: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    na: Sequence[str] | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield frames with a continued index; one frame if `chunk_rows` is None.

    If `kinds` is None, types are inferred per frame; else columns have those kinds or are text.
    """
    n_rows = 0
    with opened(path) as file:
        _check_format(file.label, file.start)
        if file.start.startswith(b"PAR1"):
            frames = _parquet_frames(file, chunk_rows, columns)
        elif not file.start.startswith(_SHEETS) and _is_json(file := _as_text(file)):
            file = replace(file, what="JSON")
            frames = _json_frames(file, chunk_rows)
        else:
            file = _with_layout(file)
            frames = _text_frames(file, chunk_rows, kinds, na)
        if kinds is None and file.layout is None:
            frames = (without_marks(frame, na) for frame in frames)
        for frame in frames:
            if columns is not None:
                check_present(file.source, columns, frame.columns)
                frame = frame[list(columns)]
            if frame.shape[0] == 0:
                continue
            frame.index = pd.RangeIndex(n_rows, n_rows + len(frame))
            frame.attrs |= file.attrs
            n_rows += len(frame)
            yield frame
        if n_rows == 0:
            raise TableError(f"{file.source} has a header but no rows: {FORMATS} with data in it.")


def _as_text(file: Opened) -> Opened:
    """Return a file as text, whatever its encoding."""
    encoding = _encoding_of(file)
    codec = "utf-8-sig" if encoding == "UTF-8" else encoding
    text = io.TextIOWrapper(file.content, codec, errors=_LATIN, newline="")
    return replace(file, content=text, encoding=encoding)


def _with_layout(file: Opened) -> Opened:
    """Return text with a delimiter, or a spreadsheet, and what was found out about it."""
    if file.start.startswith(_SHEETS):
        text, sheet = _sheet_as_csv(file.label, file.content)
        file = replace(file, content=text, what=f"spreadsheet, sheet {sheet!r}")
    layout = _find_layout(file.source, file.content.read(START))
    file.content.seek(0)
    file = replace(file, layout=layout)
    check_names(file.source, layout.names)
    return file


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
    source: Opened, chunk_rows: int | None, columns: Sequence[str] | None
) -> Iterator[pd.DataFrame]:
    try:
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'probprop[cli]'") from error

    label = source.label
    with reading_parquet(label):
        # Otherwise it would keep all that it has read, and all columns of a row group at a time.
        buffer = 0 if chunk_rows is None else _BUFFER
        parquet = pq.ParquetFile(source.content, pre_buffer=False, buffer_size=buffer)
        names = parquet.schema_arrow.names
        if columns is not None:
            check_present(label, columns, names)
        check_names(label, names)
        if chunk_rows is None:
            tables = iter([parquet.read(columns=columns)])
        else:
            tables = parquet.iter_batches(chunk_rows, columns=columns)
    while True:
        with reading_parquet(label):
            if (table := next(tables, None)) is None:
                return
            frame = table.to_pandas()
            # The named levels of the index, which pandas may have stored, are columns.
            if named := [name for name in frame.index.names if name is not None]:
                frame = frame.reset_index(level=named)
        yield frame


def parquet_metadata(path: str) -> Any:
    """Return what a Parquet file says about its rows and columns."""
    from pyarrow import parquet

    with reading_parquet(path):
        return parquet.read_metadata(path)


# ---- CSV and TSV: the delimiter, the decimal sign, the header, and what pandas makes of the rows


_FLAGS = {
    text: text.lower() == "true" for text in ("true", "True", "TRUE", "false", "False", "FALSE")
}
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


def _find_layout(source: str, text: str) -> Layout:
    """Find the delimiter that splits all first records into the same number of cells, or the most.

    `text` is the start of the file, at most `START` characters.
    """
    cut = len(text) >= START
    records = {d: r for d in _DELIMITERS if (r := _first_records(text, d, cut))}
    if not records:
        raise TableError(f"{source} has a header line of more than {START} characters: {FORMATS}.")
    alike = [d for d, r in records.items() if len(r[0]) > 1 and len({len(x) for x in r}) == 1]
    most = max(reversed(records), key=lambda d: len(records[d][0]))  # comma where there is none
    delimiter = alike[0] if alike else most
    names = [name.strip() for name in records[delimiter][0]]
    n_all = len(names)
    while len(names) > 1 and not names[-1]:  # every line ends with a delimiter, or with several
        names.pop()
    n_blank = n_all - len(names)
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    return Layout(delimiter, names, _decimal(text, delimiter), n_blank)


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


def _text_frames(
    file: Opened, chunk_rows: int | None, kinds: Mapping[str, str] | None, na: Sequence[str] | None
) -> Iterator[pd.DataFrame]:
    """Yield the rows in chunks, or all at once, of the types that `kinds` asks for."""
    source, text, layout = file.source, file.content, file.layout
    assert layout is not None  # text has one
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
        **_EXACT,
    }

    try:
        with pd.read_csv(text, chunksize=chunk_rows, iterator=True, **options) as reader:
            while True:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", pd.errors.ParserWarning)  # of lost cells
                    frame = next(reader, None)
                if frame is None:
                    return
                # pandas leaves out at most one column without a name and cells.
                if blank and frame[blank].notna().to_numpy().any():
                    raise _ragged(source, "a row", "more", len(layout.names))
                frame = frame.drop(columns=blank)
                if kinds is None:
                    yield _settled(frame, layout.decimal, na)
                else:
                    yield with_numbers(frame, kinds, layout.decimal, na)
    except pd.errors.ParserWarning as error:  # only ever of the first rows
        raise _ragged(source, "a row", "more", len(layout.names)) from error
    except pd.errors.ParserError as error:
        reason = str(error).strip()
        if fields := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason):
            raise _ragged(source, f"line {fields[2]}", fields[3], int(fields[1])) from error
        if row := re.search(r"EOF inside string starting at row (\d+)", reason):
            raise TableError(
                f"{source} has a quote in line {int(row[1]) + 1} that is never closed: close it, "
                "or double each quote that is part of a quoted cell."
            ) from error
        raise TableError(f"{source} cannot be read as a table ({reason}): {FORMATS}.") from error


def _ragged(source: str, line: str, n_fields: object, n_names: int) -> TableError:
    title = "remove the lines above the header, " if n_names == 1 else ""
    return TableError(
        f"{source} has {n_fields} fields in {line} where its header has {n_names}: {title}put "
        "quotes around cells that contain the delimiter, or name every column."
    )


def with_numbers(
    frame: pd.DataFrame, kinds: Mapping[str, str], decimal: str, na: Sequence[str] | None
) -> pd.DataFrame:
    """Return cells of text; columns in which all cells are numbers become floats."""
    columns = {}
    for name, dtype in frame.dtypes.items():
        if kinds.get(name) != "number" or not is_text(dtype):
            continue
        values, cells = all_floats(frame[name]), frame[name]
        if values is None:
            cells = without_texts(cells, missing_texts(na, among_numbers=True))
            values = _plain_numbers(cells, decimal)
        if values is None and (values := amounts(cells)) is None:
            columns[name] = _pointed(cells) if decimal == "," else cells
        else:
            columns[name] = pd.Series(without_numbers(values, na or ()), frame.index)
    return replaced(frame, columns)


def _plain_numbers(cells: pd.Series, decimal: str) -> FloatArray | None:
    """Return text as numbers, (n,), NaN where missing; None if a cell is not a number."""
    values = all_floats(cells)
    return all_floats(_pointed(cells)) if values is None and decimal == "," else values


def _pointed(column: pd.Series) -> pd.Series:
    """Write decimal commas as points."""
    return column.astype(str).str.replace(",", ".", n=1, regex=False).mask(column.isna())


def _settled(frame: pd.DataFrame, decimal: str, na: Sequence[str] | None) -> pd.DataFrame:
    """Return columns of text as numbers, or true and false, where they are that besides "NA".

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
            values = _plain_numbers(cells, decimal)
            if values is None and (values := amounts(cells)) is not None:
                place = int(cells.astype(object).map(lambda cell: len(str(cell))).argmax())
                unusual[str(name)] = str(cells.iloc[place]), float(values[place])
        if values is not None:
            cells = pd.Series(values, cells.index)
        else:
            cells = without_texts(column, missing_texts(na, among_numbers=False))
            different = {*cells.dropna().unique()[: len(_FLAGS) + 1]}
            if different and different <= {*_FLAGS}:
                cells = cells.astype(object).map(_FLAGS)
        columns[name] = cells
    new = replaced(frame, columns)
    if unusual:
        new.attrs["amounts"] = unusual
    return new


# ---- About how large a file is: how many rows to take at a time, and the memory of a fit


_CHUNK_BYTES = 16 << 20  # of the file; in memory a chunk takes about ten times as much
_CHUNK_ROWS = 100_000
_CELL = 8  # bytes
_COPIES = 5  # of the cells, at the peak of a fit: the table, its test set, and X
_UNPACKED = 5  # times a compressed file, about


class _Size(NamedTuple):
    n_rows: int | None  # estimated from the start of the file; None if it is compressed
    row_bytes: float  # of the file, uncompressed
    n_bytes: int  # of the file or of its cells in memory, whichever is more


def _size(path: str) -> _Size | None:
    """Estimate the size of a table; None if it is unknown before it is read."""
    if path == "-" or not os.path.isfile(path):
        return None
    with opened(path) as file:
        start, packed = file.start, file.compression is not None or b"\0" in file.start
    n_bytes = os.path.getsize(path)
    if start.startswith(b"PAR1"):
        try:
            metadata = parquet_metadata(path)
        except TableError:  # whoever reads the table explains what is wrong with it
            return None
        row = _CELL * max(1, metadata.num_columns)
        return _Size(metadata.num_rows, row, max(n_bytes, row * metadata.num_rows))
    n_bytes *= _UNPACKED if packed else 1
    row_bytes = max(1, len(start)) / max(1, start.count(b"\n"))
    n_rows = max(1, round(n_bytes / row_bytes))
    header = start.partition(b"\n")[0]
    n_columns = 1 + max(header.count(sign.encode()) for sign in _DELIMITERS)
    return _Size(None if packed else n_rows, row_bytes, max(n_bytes, _CELL * n_rows * n_columns))


def plan_chunks(path: str) -> tuple[int | None, int]:
    """Return about how many rows a table has (None: unknown), and how many to take at a time."""
    if (size := _size(path)) is None:
        return None, _CHUNK_ROWS
    return size.n_rows, min(_CHUNK_ROWS, max(1, int(_CHUNK_BYTES / size.row_bytes)))


def memory_needed(paths: Sequence[str]) -> int:
    """Return about how many bytes a fit on the whole table takes, without the libraries.

    What comes from standard input is not known, and counted as nothing.
    """
    return sum(_COPIES * size.n_bytes for size in map(_size, paths) if size is not None)


# ---- Several files as one table


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
    """Return the kind of a column; None if it has no cells. Dates in text are text here."""
    if column.isna().all():
        return None
    if types.infer_dtype(column, skipna=True) == "boolean":
        return "boolean"
    if types.is_numeric_dtype(column):
        return "number"
    return "date" if types.is_datetime64_any_dtype(column) else "text"


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


# ---- The bytes of a file: opened, decompressed, and as text whatever their encoding


START = 1 << 20  # bytes looked at; the header line must be among them
STANDARD_INPUT = "standard input"

_COMPRESSED: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ": ("xz", lzma.LZMAFile),
}
# UTF-32 first: its mark begins with the mark of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_LATIN = "probprop_latin"  # the five bytes that Windows-1252 lacks are taken as Latin-1


def _as_latin(error: Any) -> tuple[str, int]:
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error(_LATIN, _as_latin)


@dataclass(frozen=True)
class Opened:
    """A file that is being read, and what was found out about it."""

    label: str  # the file as messages name it
    start: bytes  # the first bytes, at most `START`, decompressed
    content: Any  # the whole file, decompressed, as bytes or as text; it can be rewound
    compression: str | None = None
    encoding: str = "UTF-8"
    what: str = ""  # the format, where it is neither text nor Parquet
    layout: Layout | None = None  # of text

    @property
    def source(self) -> str:
        """The file as messages name it, with what was found out about it."""
        return f"{self.label} ({', '.join(self._words)})" if self._words else self.label

    @property
    def _words(self) -> list[str]:
        unusual = [
            word for word in (self.compression, self.encoding) if word not in (None, "UTF-8")
        ]
        if self.what or self.layout is None:
            return unusual + [self.what] * bool(self.what)
        found = f"delimiter: {_DELIMITERS[self.layout.delimiter]}"
        found = found if len(self.layout.names) > 1 else "no comma, semicolon or tab found"
        return [*unusual, found, *["decimal comma"] * (self.layout.decimal == ",")]

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of a frame about its file."""
        layout, text = None if self.what else self.layout, None
        if layout and not self.compression and self.encoding not in ("UTF-16", "UTF-32"):
            encoding = "utf-8-sig" if self.start.startswith(codecs.BOM_UTF8) else "utf-8"
            text = {  # options of `to_csv`
                "sep": layout.delimiter,
                "decimal": layout.decimal,
                "lineterminator": "\r\n" if b"\r\n" in self.start else "\n",
                "encoding": encoding if self.encoding == "UTF-8" else "cp1252",
            }
        noted = "" if ", ".join(self._words) in _USUAL else self.source
        decimal = layout.decimal if layout else "."
        return {"source": self.source, "decimal": decimal, "noted": noted, "text": text}


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open for reading; errors of the system and damaged files become a `TableError`."""
    label = STANDARD_INPUT if os.fspath(path) == "-" else os.fspath(path)
    try:
        with ExitStack() as stack:
            if label != STANDARD_INPUT:
                file: Any = stack.enter_context(open(path, "rb"))
            elif sys.stdin is None:  # `<&-`
                raise TableError("standard input is closed: open it, or give a file.")
            if label == STANDARD_INPUT or not file.seekable():
                pipe = sys.stdin.buffer if label == STANDARD_INPUT else file
                file = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(pipe, file)
                file.seek(0)
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
    file.seek(0)
    for magic, (name, decompress) in _COMPRESSED.items():
        if start.startswith(magic):
            content = decompress(file)
            start = content.read(START)
            content.seek(0)
            return Opened(label, start, content, name)
    return Opened(label, start, file)


def _encoding_of(file: Opened) -> str:
    """Return the encoding of a text, which is read to its end.

    Text is Windows-1252 if its first letters beyond ASCII, wherever they are, are not UTF-8.
    """
    encoding = next((k for mark, k in _MARKS.items() if file.start.startswith(mark)), "UTF-8")
    decoder = codecs.getincrementaldecoder(encoding)()
    ascii_so_far, n_lines, piece = encoding == "UTF-8", 0, b"-"
    while piece:
        piece, held = file.content.read(_BUFFER), decoder.getstate()[0]
        try:
            text = decoder.decode(piece, final=not piece)
        except UnicodeError as error:
            good = (held + piece)[: getattr(error, "start", 0)]
            if not (ascii_so_far and good.isascii()):
                line = n_lines + good.count(b"\n") + 1
                raise TableError(
                    f"{file.label} is {encoding} text at first, but not in line {line}: write the "
                    "whole file in one encoding, best UTF-8."
                ) from error
            encoding = "Windows-1252"
            break
        ascii_so_far = ascii_so_far and text.lstrip("\ufeff").isascii()
        n_lines += text.count("\n")
    file.content.seek(0)
    return encoding


# ---- JSON, and spreadsheets as comma-separated text, which is then read like any other


def _is_json(file: Opened) -> bool:
    """Whether text begins as JSON objects do, one per line or in a list."""
    start = file.content.read(START)
    file.content.seek(0)
    return re.match(r"\s*(\[\s*\{|\{\s*[\"}])", start) is not None


def _json_frames(file: Opened, chunk_rows: int | None) -> Iterator[pd.DataFrame]:
    """Yield the objects of a list, or one per line."""
    text = file.content.read()
    try:
        a_list = text.lstrip().startswith("[")
        lines = [text] if a_list else [line for line in text.split("\n") if line.strip()]
        objects = [json.loads(line) for line in lines]
        frame = pd.DataFrame([dict(each) for each in (objects[0] if a_list else objects)])
    except (ValueError, TypeError) as error:
        raise TableError(
            f"{file.label} is not JSON lines ({error}): write one object per line, or {FORMATS}."
        ) from error
    for start in range(0, len(frame), chunk_rows or len(frame)):
        yield frame[start : start + (chunk_rows or len(frame))]


def _sheet_as_csv(label: str, file: IO[bytes]) -> tuple[TextIO, str]:
    """Return the first sheet with cells in it as CSV, and its name."""
    try:
        import python_calamine as calamine
    except ModuleNotFoundError as error:
        need = "Spreadsheets need python-calamine: pip install 'probprop[cli]'"
        raise ImportError(need) from error
    try:
        book = calamine.load_workbook(file)
        for name in book.sheet_names:
            rows = book.get_sheet_by_name(name).to_python()
            if rows := [row for row in rows if any(value not in (None, "") for value in row)]:
                text = io.StringIO()
                cells = ([_cell(value) for value in row] for row in rows)
                csv.writer(text, lineterminator="\n").writerows(cells)
                text.seek(0)
                return text, name
    except (calamine.CalamineError, OSError) as error:
        raise TableError(
            f"{label} is not a table but a zip file or an old document, perhaps a model: {FORMATS}."
        ) from error
    raise TableError(f"{label} is empty: {FORMATS} with a header and rows.")


def _cell(value: Any) -> str:
    """Write a cell as text: whole numbers without a point, dates in the ISO form."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return value.isoformat()
    return "" if value is None else written(value)
