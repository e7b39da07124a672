"""Text, Parquet, JSON lines and spreadsheets as data frames, whole or in chunks.

The first bytes of a file decide what it is; nothing is rewound, so that pipes work as files do.
Empty cells are missing, and so are "NA" and the like.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from probprop.table.cells import is_text, missing_texts, without_texts
from probprop.table.errors import (
    FORMATS,
    TableError,
    check_names,
    columns_absent,
    reading_parquet,
)
from probprop.table.opening import STANDARD_INPUT, START, Opened, Path, opened, rejoined
from probprop.table.records import is_json, json_as_csv, sheet_as_csv
from probprop.table.text import Layout, find_layout, replaced, text_frames

_FOREIGN = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard",
}
_SHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # .xlsx and .ods are zip files; .xls is not
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
        ``-`` is the standard input. Of a text file the delimiter (comma, semicolon, tab or bar),
        the decimal sign and the encoding (UTF-8, Windows-1252, or UTF-16 and UTF-32 with a
        byte-order mark) are detected. It may be compressed with gzip, bzip2 or xz. JSON is one
        object per line, or a list of them. Of a spreadsheet the first sheet with cells is read.
    columns : sequence of str, default=None
        The columns wanted, in this order; None means all.
    kinds : mapping of str to str, default=None
        `TableModel.kinds`, to read a text file for a model: see `iter_table`. By default what
        a column holds is found from all its cells.
    na : sequence of str, default=None
        Texts that mean a missing cell, besides the empty one. None means "NA", "N/A", "null",
        "nan", "?", "-" and the like, and among numbers "none" and "." too.

    Returns
    -------
    DataFrame of shape (n_rows, n_columns)
        ``attrs["source"]`` has the file's name and delimiter, for messages; ``attrs["noted"]``
        has the same where something about the file is unusual, and is empty otherwise;
        ``attrs["decimal"]`` has the decimal sign.

    Raises
    ------
    TableError
        Where the file cannot be read, is not a table or has no rows.

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

    The index goes on from chunk to chunk. The file is opened, and its errors are raised, when
    the first chunk is asked for.

    Parameters
    ----------
    path : str or path-like
        As for `read_table`. Parquet from a pipe, spreadsheets and lists in JSON are held in
        memory.
    chunk_rows : int, default=100_000
    columns : sequence of str, default=None
        The columns wanted, in this order; None means all.
    kinds : mapping of str to str, default=None
        `TableModel.kinds`. The cells of a text file come as the text they are, since what they
        look like may change from chunk to chunk; a model finds the numbers in them. Columns
        of kind ``"number"`` come as numbers if a whole chunk is numeric.
    na : sequence of str, default=None
        As for `read_table`, for the columns of numbers.

    Yields
    ------
    DataFrame of shape (chunk_rows or fewer, n_columns)

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
                _check_present(found.source, columns, layout.names)
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
        usual = not self.file.words and self.layout[:2] in (
            [],
            ["delimiter: comma"],
            ["delimiter: tab"],
            ["no comma, semicolon or tab found"],
        )
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


def _check_present(source: str, columns: Sequence[str], names: Collection[str]) -> None:
    if absent := [name for name in columns if name not in names]:
        raise columns_absent(source, absent, names)


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
            _check_present(label, columns, names)
        check_names(label, names)
    tables = _parquet_tables(parquet, chunk_rows, columns)
    while True:
        with reading_parquet(label):
            if (table := next(tables, None)) is None:
                return
            frame = _without_index(table.to_pandas())
            if columns is not None:  # the names that pandas stored beside them may be damaged
                _check_present(label, columns, frame.columns)
        yield with_gaps(frame, na) if chunk_rows is None else frame


def _parquet_tables(
    parquet: Any, chunk_rows: int | None, columns: Sequence[str] | None
) -> Iterator[Any]:
    """Yield the rows as Arrow has them: at once, or some at a time."""
    if chunk_rows is None:
        yield parquet.read(columns=columns)
    else:
        yield from parquet.iter_batches(chunk_rows, columns=columns)


def parquet_metadata(path: str) -> Any:
    """Return what a Parquet file says about its rows and columns."""
    from pyarrow import parquet

    with reading_parquet(path):
        return parquet.read_metadata(path)


def _without_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Make columns of the named levels of the index, which pandas may have stored."""
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(level=named) if named else frame


def with_gaps(frame: pd.DataFrame, na: Sequence[str] | None) -> pd.DataFrame:
    """Return a frame with missing values for "NA" and the like in columns of text."""
    texts = missing_texts(na, among_numbers=False)
    cells = {str(k): frame[k] for k, dtype in frame.dtypes.items() if is_text(dtype)}
    left = {name: without_texts(column, texts) for name, column in cells.items()}
    return replaced(frame, {k: v for k, v in left.items() if v is not cells[k]})
