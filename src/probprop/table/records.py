"""JSON lines and spreadsheets as comma-separated text, which is then read like any other."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from probprop.table.errors import FORMATS, TableError
from probprop.table.opening import Pieces

_LOOK = 1000  # JSON lines whose names are the columns
_LINES = 1000  # written at a time


# ---- JSON


def is_json(start: bytes) -> bool:
    """Whether text begins as JSON objects do, one per line or in a list."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        return text[1:].lstrip().startswith(b"{")
    return text.startswith(b"{") and text[1:].lstrip()[:1] in (b'"', b"}")


def json_as_csv(label: str, file: io.BufferedReader) -> io.BufferedReader:
    r"""Return JSON objects as CSV; numbers are written as they were.

    >>> file = io.BufferedReader(io.BytesIO(b'{"a": 1.50, "b": null}\n{"a": 2, "c": true}\n'))
    >>> json_as_csv("it", file).read()
    b'a,b,c\n1.50,,\n2,,true\n'
    """
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
    lines: Iterable[Any] = enumerate(file, 1)
    if file.peek(1).lstrip().startswith(b"["):
        text = file.read()
        lines = [(1, text)]
    for number, line in lines:
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
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---- Spreadsheets


def sheet_as_csv(label: str, content: bytes) -> tuple[io.BufferedReader, str]:
    """Return the first sheet with cells in it as CSV, and its name."""
    try:
        import python_calamine as calamine
    except ModuleNotFoundError as error:
        raise ImportError(
            "Spreadsheets need python-calamine: pip install 'probprop[cli]'"
        ) from error

    try:
        book = calamine.load_workbook(io.BytesIO(content))
        for name in book.sheet_names:
            rows = [row for row in book.get_sheet_by_name(name).to_python() if any(map(_full, row))]
            if rows:
                return _csv([_cell(value) for value in row] for row in rows), name
    except (calamine.CalamineError, OSError) as error:
        raise TableError(
            f"{label} is not a table but a zip file or an old document, perhaps a model: {FORMATS}."
        ) from error
    raise TableError(f"{label} is empty: {FORMATS} with a header and rows.")


def _full(value: Any) -> bool:
    return value is not None and value != ""


def _cell(value: Any) -> str:
    """Write a cell as text: whole numbers without a point, dates in the ISO form.

    >>> [_cell(v) for v in (3.0, 0.1, True, datetime.date(2024, 5, 31), "x")]
    ['3', '0.1', 'true', '2024-05-31', 'x']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return value.isoformat()
    return "" if value is None else str(value)


def _csv(rows: Iterable[Sequence[str]]) -> io.BufferedReader:
    """Write rows, so many at a time, as one file of bytes."""

    def pieces() -> Iterator[bytes]:
        rest = iter(rows)
        while some := list(islice(rest, _LINES)):
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(some)
            yield text.getvalue().encode()

    return io.BufferedReader(Pieces(pieces()))
