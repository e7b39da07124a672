"""Text, Parquet, JSON lines and spreadsheets as data frames: whole, in chunks, several as one.

The first bytes of a file decide what it is; nothing is rewound, so that pipes work as files do.
Empty cells are missing, and so are "NA" and the like.
"""

from __future__ import annotations

import codecs
import csv
import glob
import io
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

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
from probprop.table.names import (
    FORMATS,
    TableError,
    check_names,
    check_present,
    reading_parquet,
)
from probprop.table.opening import (
    STANDARD_INPUT,
    START,
    Opened,
    Path,
    is_json,
    json_as_csv,
    opened,
    rejoined,
    sheet_as_csv,
)

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
    r"""Read a whole CSV, TSV, Parquet, JSON or spreadsheet file.

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

    Raises
    ------
    TableError
        If the file cannot be read, is not a table or has no rows.

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
    r"""Read a table in chunks, so that it may be larger than memory.

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

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from probprop.table import iter_table
    >>> path = pathlib.Path(tempfile.mkdtemp(), "rooms.csv")
    >>> _ = path.write_text("room,area\n1,20.0\n2,35.5\n3b,12.0\n")
    >>> [chunk["room"].tolist() for chunk in iter_table(path, chunk_rows=2)]
    [['1', '2'], ['3b']]
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
        return _plan_parquet(path)
    bytes_per_row = max(1, len(sample)) / max(1, sample.count(b"\n"))
    rows_at_a_time = min(_CHUNK_ROWS, max(1, int(_CHUNK_BYTES / bytes_per_row)))
    if compressed or b"\0" in sample:
        return None, rows_at_a_time
    return max(1, round(os.path.getsize(path) / bytes_per_row)), rows_at_a_time


def _plan_parquet(path: str) -> tuple[int | None, int]:
    try:
        metadata = parquet_metadata(path)
    except TableError:  # whoever reads the table explains what is wrong with it
        return None, _CHUNK_ROWS
    at_a_time = _CHUNK_BYTES // (8 * max(1, metadata.num_columns))
    return metadata.num_rows, min(_CHUNK_ROWS, max(1, at_a_time))


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
_COMPRESSED = ("", ".gz", ".bz2", ".xz")


def paths_of(data: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """Return the files of a path, of a folder, of a quoted pattern such as 'data/*.parquet'.

    Several of them are put together in this order; the files of a pattern are sorted by name. A
    path that is neither a folder nor a pattern is returned as it is, whether it exists or not.
    """
    given = [os.fspath(data)] if isinstance(data, str | os.PathLike) else list(data)
    return [path for one in given for path in _paths(one)]


def _paths(path: str) -> list[str]:
    if os.path.isdir(path):
        ends = tuple(f"{table}{packed}" for table in _TABLES for packed in _COMPRESSED)
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
