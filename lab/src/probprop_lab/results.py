"""The file of results: JSON Lines that survive a kill at any moment.

One row per line, appended by one process, each on the disk before the next. A kill may leave half
a line at the end and nothing else; it is dropped when the file is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probprop._atomic import replacing, updating

Row = dict[str, Any]
"""What identifies a result, then what was measured; plain JSON values."""

StrPath = str | os.PathLike[str]


class ResultsError(ValueError):
    """A file of results that cannot be read or is in use."""


def read_rows(path: StrPath) -> list[Row]:
    """Return the rows of a file, without half a line at the end; a missing file has none.

    Raises
    ------
    ResultsError
        A line other than the last is not a row.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return []
    return _parse(content, path)[0]


def _parse(content: bytes, path: StrPath) -> tuple[list[Row], int]:
    """Return the rows, and the length of the part of the content that holds them."""
    rows: list[Row] = []
    end = 0
    *lines, _ = content.split(b"\n")  # a row is complete only with its line end
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                rows.append(dict(json.loads(line)))
            except (ValueError, TypeError) as error:
                if number == len(lines):
                    break
                raise ResultsError(
                    f"{os.fspath(path)}, line {number} is not a result: delete the line to have "
                    "it measured again, or give another file"
                ) from error
        end += len(line) + 1
    return rows, end


@contextmanager
def appending(
    path: StrPath, keep: Callable[[Row], bool] | None = None
) -> Iterator[Callable[[Row], None]]:
    """Open a file, created if it is missing, as its only writer; yield what puts a row on the disk.

    Parameters
    ----------
    path : str or path-like
    keep : callable or None, default=None
        Whether a row that is in the file stays there; None keeps all.

    Raises
    ------
    ResultsError
        Another process is writing to the file, or it holds something other than results.
    """

    def refuse() -> None:
        raise ResultsError(
            f"{os.fspath(path)}: another run is writing to it; wait for its end or give another "
            "file"
        )

    with open(path, "ab"):
        pass
    if keep is not None:
        with updating(path, refuse):
            kept = [row for row in read_rows(path) if keep(row)]
            with replacing(path) as new:
                new.writelines(map(_line, kept))
    with updating(path, refuse), open(path, "r+b") as file:
        _, end = _parse(file.read(), path)
        file.truncate(end)
        file.seek(end)

        def append(row: Row) -> None:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())

        yield append


def _line(row: Row) -> bytes:
    return json.dumps(row).encode() + b"\n"
