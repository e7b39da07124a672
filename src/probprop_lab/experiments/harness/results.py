"""The results file: JSON Lines that survive a kill at any moment.

One row per line, appended by one process, each on the disk before the next. A kill may leave
half a line at the end and nothing else; it is dropped when the file is opened again, and its
job is run again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from probprop._atomic import replacing
from probprop_lab.experiments.harness.job import Job, Row

StrPath = str | os.PathLike[str]


class ResultsError(ValueError):
    """A results file that cannot be read or is in use."""


def read_results(path: StrPath) -> dict[str, Row]:
    """Return the rows of a results file by the key of their job.

    A missing file has no rows. Half a line at the end is left out. The later of two rows of
    one job counts.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    dict of dict

    Raises
    ------
    ResultsError
        A line other than the last is not a row.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return {}
    return {job.key: row for job, row in _parse(content, path)[0]}


def _parse(content: bytes, path: StrPath) -> tuple[list[tuple[Job, Row]], int]:
    """Return jobs with rows, and the length of the part of the file that holds them."""
    rows: list[tuple[Job, Row]] = []
    end = 0
    lines = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        whole = number < len(lines)  # a row is complete only with its line end
        if whole and not line.strip():
            end += len(line) + 1
            continue
        try:
            row: Any = json.loads(line)
            job = Job.of_row(row)
        except (ValueError, KeyError, TypeError) as error:
            if number >= len(lines) - 1:  # the last, with or without its line end
                break
            raise ResultsError(
                f"{os.fspath(path)}, line {number} is not a result: delete the line to have its "
                "job run again, or give another file"
            ) from error
        if not whole:
            break
        rows.append((job, row))
        end += len(line) + 1
    return rows, end


class Writer:
    """Appends rows to an open results file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def append(self, row: Row) -> None:
        """Put one row on the disk."""
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@contextmanager
def appending(path: StrPath, without: Collection[str] = ()) -> Iterator[Writer]:
    """Open a results file to append rows, as its only writer; create it if it is missing.

    Parameters
    ----------
    path : str or path-like
    without : collection of str, default=()
        Keys of jobs whose rows are taken out first.

    Raises
    ------
    ResultsError
        Another process is writing to the file, or it holds something other than results.
    """
    with _locked(path) as file:
        rows, end = _parse(file.read(), path)
        kept = [row for job, row in rows if job.key not in without]
        if len(kept) == len(rows):
            file.truncate(end)
            file.seek(end)
            yield Writer(file)
            return
        with replacing(path) as new:
            new.writelines(json.dumps(row).encode() + b"\n" for row in kept)
        with _locked(path) as file:
            file.seek(0, os.SEEK_END)
            yield Writer(file)


@contextmanager
def _locked(path: StrPath) -> Iterator[IO[bytes]]:
    """Open a file for reading and writing, alone; the lock ends with the process at the latest."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ResultsError(
                f"{os.fspath(path)}: another run is writing to it; wait for its end or give "
                "another file"
            ) from error
        yield file
