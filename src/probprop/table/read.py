"""CSV, TSV and Parquet files as data frames, whole or in chunks.

The first bytes of a file decide what it is; nothing is rewound, so that pipes work as files do.
Empty cells of text files are missing. "NA" and the like are missing too, but only among numbers:
in a column of text they may be a category.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

import pandas as pd

from probprop.table.errors import FORMATS, TableError, check_names, columns_absent
from probprop.table.text import START, find_layout, not_utf8, text_frames

_Path = str | os.PathLike[str]

_FOREIGN = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip file, perhaps a spreadsheet or a model",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard",
    codecs.BOM_UTF16_LE: "UTF-16 text",
    codecs.BOM_UTF16_BE: "UTF-16 text",
}


def read_table(
    path: _Path,
    *,
    columns: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    r"""Read a whole CSV, TSV or Parquet file.

    Parameters
    ----------
    path : str or path-like
        ``-`` is the standard input. The delimiter of a text file (comma, semicolon or tab) is
        detected; the text must be UTF-8, with or without a byte-order mark.
    columns : sequence of str, default=None
        The columns wanted, in this order; None means all.
    kinds : mapping of str to str, default=None
        `TableModel.kinds`, to read a text file for a model: see `iter_table`. By default what
        a column holds is found from all its cells.

    Returns
    -------
    DataFrame of shape (n_rows, n_columns)
        ``attrs["source"]`` has the file's name and delimiter, for messages.

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
        return pd.concat(list(iter_table(path, columns=columns, kinds=kinds)))
    [frame] = _frames(path, None, columns, None)
    return frame


def iter_table(
    path: _Path,
    *,
    chunk_rows: int = 100_000,
    columns: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Iterator[pd.DataFrame]:
    r"""Read a CSV, TSV or Parquet file in chunks, so that it may be larger than memory.

    The index goes on from chunk to chunk. The file is opened, and its errors are raised, when
    the first chunk is asked for.

    Parameters
    ----------
    path : str or path-like
        As for `read_table`. Parquet from a pipe is held in memory, since it ends with its index.
    chunk_rows : int, default=100_000
    columns : sequence of str, default=None
        The columns wanted, in this order; None means all.
    kinds : mapping of str to str, default=None
        `TableModel.kinds`. The cells of a text file come as the text they are, since what they
        look like may change from chunk to chunk; a model finds the numbers in them. Columns
        of kind ``"number"`` come as numbers, which is faster, if a whole chunk is numeric.

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
    return _frames(path, chunk_rows, columns, kinds or {})


def _frames(
    path: _Path,
    chunk_rows: int | None,
    columns: Sequence[str] | None,
    kinds: Mapping[str, str] | None,
) -> Iterator[pd.DataFrame]:
    """Yield frames with a continued index; one frame if `chunk_rows` is None."""
    label = "standard input" if os.fspath(path) == "-" else os.fspath(path)
    n_rows = 0
    with _opened(path, label) as file:
        start = file.read(START)
        _check_format(label, start)
        if start.startswith(b"PAR1"):
            source, frames = label, _parquet_frames(label, file, start, chunk_rows, columns)
        else:
            layout = find_layout(label, start)
            source = layout.source(label)
            if columns is not None:
                _check_present(source, columns, layout.names)
            rejoined = io.BufferedReader(_Rejoined(start, file))
            frames = text_frames(source, rejoined, layout, chunk_rows, kinds)
        for frame in frames:
            if columns is not None:
                frame = frame[list(columns)]
            if frame.shape[0] == 0:
                continue
            frame.index = pd.RangeIndex(n_rows, n_rows + len(frame))
            frame.attrs["source"] = source
            n_rows += len(frame)
            yield frame
        if n_rows == 0:
            raise TableError(f"{source} has a header but no rows: {FORMATS} with data in it.")


@contextmanager
def _opened(path: _Path, label: str) -> Iterator[IO[bytes]]:
    """Open for reading; what the system refuses becomes a `TableError`."""
    try:
        if label == "standard input":
            yield sys.stdin.buffer
        else:
            with open(path, "rb") as file:
                yield file
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TableError(
            f"{label} cannot be read ({reason}): {FORMATS}, or - for standard input."
        ) from error
    except UnicodeDecodeError as error:
        raise not_utf8(label, _line_that_is_not_utf8(path)) from error


def _check_format(label: str, start: bytes) -> None:
    if not start.strip(b"\r\n\t \xef\xbb\xbf"):
        raise TableError(f"{label} is empty: {FORMATS} with a header and rows.")
    for magic, what in _FOREIGN.items():
        if start.startswith(magic):
            raise TableError(f"{label} is not a table but {what}: {FORMATS}, uncompressed, UTF-8.")
    if start.startswith(b"PAR1"):
        return
    if label.lower().endswith((".parquet", ".pq")):
        raise TableError(f"{label} is not a Parquet file, though it is named so: {FORMATS}.")
    if b"\0" in start:
        raise TableError(f"{label} is not a table but binary data: {FORMATS}.")


def _check_present(source: str, columns: Sequence[str], names: Collection[str]) -> None:
    if absent := [name for name in columns if name not in names]:
        raise columns_absent(source, absent, names)


class _Rejoined(io.RawIOBase):
    """The start that was looked at, then the rest: a pipe cannot be rewound."""

    def __init__(self, start: bytes, rest: IO[bytes]) -> None:
        self._start, self._rest = io.BytesIO(start), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self._start.readinto(buffer)
        if n == 0:
            data = self._rest.read(len(buffer))
            n = len(data)
            buffer[:n] = data
        return n


def _line_that_is_not_utf8(path: _Path) -> int | None:
    """Find the line for the message; the standard input is gone by then."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return None


# ---- Parquet


def _parquet_frames(
    label: str, file: IO[bytes], start: bytes, chunk_rows: int | None, columns: Sequence[str] | None
) -> Iterator[pd.DataFrame]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'probprop[cli]'") from error

    seekable = file.seekable() and label != "standard input"
    try:
        content = file if seekable else io.BytesIO(start + file.read())
        parquet = pq.ParquetFile(content, pre_buffer=False)  # it would keep all that it has read
        names = parquet.schema_arrow.names
        if columns is not None:
            _check_present(label, columns, names)
        check_names(label, names)
        if chunk_rows is None:
            yield _without_index(parquet.read(columns=columns).to_pandas())
            return
        for batch in parquet.iter_batches(chunk_rows, columns=columns):
            yield _without_index(batch.to_pandas())
    except (pa.ArrowException, OSError) as error:
        text = str(error).partition("\n")[0]
        raise TableError(
            f"{label} is damaged or is not a Parquet file ({text}): write it again."
        ) from error


def _without_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Make columns of the named levels of the index, which pandas may have stored."""
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(level=named) if named else frame
