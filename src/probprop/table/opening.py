"""The bytes of a table: opened, decompressed, and as UTF-8 whatever their encoding.

JSON and spreadsheets become comma-separated text, which is then read like any other.

Nothing is rewound, so that pipes work as files do.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import datetime
import gzip
import io
import json
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, Any

from probprop.table.names import FORMATS, TableError

Path = str | os.PathLike[str]

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
        unusual = [] if self.encoding == "UTF-8" else [self.encoding]
        return [*([self.compression] if self.compression else []), *unusual]

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


_LOOK = 1000  # JSON lines whose names are the columns
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
    first = list(islice(objects, _LOOK))
    names = list(dict.fromkeys(name for line in first for name in line))
    known = {*names}

    def rows() -> Iterator[list[str]]:
        for number, line in enumerate(chain(first, objects), 1):
            if unknown := [name for name in line if name not in known]:
                raise TableError(
                    f"{label} has a field {unknown[0]!r} in record {number} that none of the first "
                    f"{_LOOK:,} has: give it in the first one too, as null."
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
