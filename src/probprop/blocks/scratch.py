"""Rows on disk, dealt into piles at random, so that any pile is a sample of all of them.

Files are often sorted, by time or by the target, and a network that sees such rows in their order
forgets the first ones. A shuffle of what fits into memory does not help: it would still see one
end of the files first. So every row goes to a pile drawn at random, once; then every epoch takes
the piles in a new order, a few at a time, and shuffles the rows of these.

Which pile a row goes to depends on the seed and on its place among all rows alone: neither the
sizes of the blocks nor the memory limit change what is learned.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.random import default_rng

from probprop._types import Array, FloatArray
from probprop.blocks.limits import RESERVED, in_words

PILE_BYTES = 4 << 20
"""What a pile should hold: a few are in memory at a time."""
_MOST_PILES = 4096  # more would be written, and read again, in scraps
_PILES_AT_A_TIME = 4
_COPIES_OF_PART = 4  # its piles, these together, shuffled, and standardised
_LEAST_WAITING, _MOST_WAITING = 1 << 20, 64 << 20  # bytes of rows that are written together
_CELL = 8  # bytes


@dataclass(frozen=True)
class Shape:
    """How many rows there are, of how many numbers each, and in how many piles.

    Parameters
    ----------
    n : int
    n_columns : int
    n_piles : int
    """

    n: int
    n_columns: int
    n_piles: int

    @property
    def n_bytes(self) -> int:
        """Of all rows."""
        return _CELL * self.n * self.n_columns

    @property
    def n_parts(self) -> int:
        """Parts of an epoch, of a few piles each, and not more than there are rows."""
        return min(self.n, -(-self.n_piles // _PILES_AT_A_TIME))


def shape_of(n: int, n_columns: int) -> Shape:
    """Return how n rows are put into piles; the memory limit has no say in it.

    >>> shape_of(5_000_000, 21).n_piles
    201
    """
    n_piles = -(-_CELL * n * n_columns // PILE_BYTES)
    return Shape(n, n_columns, min(_MOST_PILES, max(1, n_piles)))


class Scratch:
    """A temporary file of rows in piles, which is gone when it is closed, however that happens.

    Parameters
    ----------
    file : file
        Open for writing and reading.
    shape : Shape
    seed : int
    budget : int
        Bytes of memory; the more rows are written together, the fewer the scraps of a pile.
    """

    def __init__(self, file: IO[bytes], shape: Shape, seed: int, budget: int) -> None:
        self.shape = shape
        self._file = file
        self._random = default_rng((seed, 0))
        n_bytes = min(_MOST_WAITING, max(_LEAST_WAITING, budget // 4))
        n_rows = min(shape.n, -(-n_bytes // (_CELL * shape.n_columns)))
        self._waiting = np.empty((n_rows, shape.n_columns))
        self._piles = np.empty(n_rows, np.int32)
        self._n_waiting = 0
        self._runs: list[tuple[int, Array]] = []  # where each lies, and where its piles begin
        self.n = 0

    # ---- Writing

    def add(self, rows: FloatArray) -> None:
        """Deal rows, (n, n_columns), into piles."""
        drawn = self._random.random(len(rows))  # a number each: blocks of any size draw the same
        piles = (drawn * self.shape.n_piles).astype(np.int32)
        self.n += len(rows)
        done = 0
        while done < len(rows):
            start = self._n_waiting
            n = min(len(rows) - done, len(self._piles) - start)
            self._waiting[start : start + n] = rows[done : done + n]
            self._piles[start : start + n] = piles[done : done + n]
            self._n_waiting, done = start + n, done + n
            if self._n_waiting == len(self._piles):
                self.write()

    def write(self) -> None:
        """Write the rows that wait, pile after pile."""
        n, self._n_waiting = self._n_waiting, 0
        if n == 0:
            return
        piles = self._piles[:n]
        order = np.argsort(piles, kind="stable")  # in a pile the rows keep their order
        begins = np.searchsorted(piles[order], np.arange(self.shape.n_piles + 1))
        start = self._file.seek(0, os.SEEK_END)
        with _words_of_full_disk(self.shape):
            _write_all(self._file, self._waiting[order])
        self._runs.append((start, begins))

    def finish(self) -> None:
        """Write what waits, and give back the memory for it."""
        self.write()
        self._waiting, self._piles = self._waiting[:0].copy(), self._piles[:0].copy()

    # ---- Reading

    def pile(self, k: int) -> FloatArray:
        """Return the rows of a pile, in the order in which they came, (n_k, n_columns)."""
        sizes = [int(begins[k + 1] - begins[k]) for _, begins in self._runs]
        rows = np.empty((sum(sizes), self.shape.n_columns))
        done, width = 0, _CELL * self.shape.n_columns
        for size, (start, begins) in zip(sizes, self._runs, strict=True):
            if size:
                self._file.seek(start + width * int(begins[k]))
                _read_into(self._file, rows[done : done + size])
                done += size
        return rows

    def piles(self) -> Iterator[FloatArray]:
        """Yield all of them that have rows."""
        for k in range(self.shape.n_piles):
            if len(rows := self.pile(k)):
                yield rows

    def part(self, seed: int, n_iter: int, part: int) -> FloatArray:
        """Return the rows of one part of an epoch, shuffled: every row is in one part."""
        order = default_rng((seed, n_iter)).permutation(self.shape.n_piles)
        n_parts = self.shape.n_parts
        rows = np.concatenate([self.pile(k) for k in np.array_split(order, n_parts)[part]])
        return rows[default_rng((seed, n_iter, 1 + part)).permutation(len(rows))]


def _write_all(file: IO[bytes], rows: FloatArray) -> None:
    whole: Any = rows.data.cast("B")
    while len(whole):
        whole = whole[file.write(whole) :]  # a file without a buffer may take a part of it


def _read_into(file: IO[bytes], rows: FloatArray) -> None:
    whole: Any = rows.data.cast("B")
    done = 0
    while done < len(whole):
        n = file.readinto(whole[done:])  # type: ignore[attr-defined]
        if not n:
            raise OSError(errno.EIO, "the temporary file of rows was cut off")
        done += n


@contextmanager
def scratch(shape: Shape, seed: int, budget: int) -> Iterator[Scratch]:
    """Yield an empty file for rows of this shape; refuse a disk without room for them."""
    folder = scratch_folder()
    free = shutil.disk_usage(folder).free
    if free < shape.n_bytes:
        raise _no_room(shape, folder, free)
    with tempfile.TemporaryFile(dir=folder, prefix="probprop-", buffering=0) as file:
        yield Scratch(file, shape, seed, budget)


def check_parts_fit(shape: Shape, budget: int) -> None:
    """Refuse a limit that one part of an epoch would break: above 16 GB of rows piles grow."""
    needed = _COPIES_OF_PART * _PILES_AT_A_TIME * shape.n_bytes // shape.n_piles
    if needed > budget:
        raise ValueError(
            f"the memory limit is too small for {shape.n:,} rows, {in_words(shape.n_bytes)}: give "
            f"at least {in_words(RESERVED + needed)}."
        )


def scratch_folder() -> str:
    """Return where temporary rows go: TMPDIR if it is set, else where there is most room.

    On many systems /tmp is in memory, which is what such rows do not fit into.
    """
    asked = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    if not asked and os.access("/var/tmp", os.W_OK):
        return "/var/tmp"
    return tempfile.gettempdir()


@contextmanager
def _words_of_full_disk(shape: Shape) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _no_room(shape, scratch_folder(), None) from error


def _no_room(shape: Shape, folder: str, free: int | None) -> OSError:
    there = "" if free is None else f", and {in_words(free)} are free"
    return OSError(
        errno.ENOSPC,
        f"Rows that do not fit into memory take {in_words(shape.n_bytes)} of disk in {folder}"
        f"{there}: set TMPDIR to a folder with more room, or leave out columns",
    )
