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
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.random import default_rng

from probprop._types import Array, FloatArray

MEGABYTE = 10**6
RESERVED = 500 * MEGABYTE
"""What Python, its libraries and one chunk of a table take before a row is kept, as measured."""
LEAST = 700 * MEGABYTE
"""The least limit: what is above `RESERVED` is for rows."""

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_UNKNOWN = 8 * 10**9  # taken for the memory of a machine that does not tell
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

PILE_BYTES = 4 << 20
"""What a pile should hold: a few are in memory at a time."""
_MOST_PILES = 4096  # more would be written, and read again, in scraps
_PILES_AT_A_TIME = 4
_FEWEST_WIDE = 16  # rows of a pile, so that each has rows of every fold
_COPIES_OF_PART = 4  # its piles, these together, shuffled, and standardised
_LEAST_WAITING, _MOST_WAITING = 1 << 20, 64 << 20  # bytes of rows that are written together
_CELL = 8  # bytes
_AT_A_TIME = 1 << 20  # rows whose numbers are looked up together


@dataclass(frozen=True)
class Shape:
    """How rows are put into piles."""

    n: int  # rows
    n_columns: int  # numbers of a row
    n_piles: int
    n_wide: int = 0  # numbers of a row while it is learned, if that is more

    @property
    def n_bytes(self) -> int:
        """Size of the whole table in bytes."""
        return _CELL * self.n * self.n_columns

    @property
    def n_parts(self) -> int:
        """Parts of an epoch, of a few piles each, and not more than there are rows."""
        return min(self.n, -(-self.n_piles // _PILES_AT_A_TIME))


def shape_of(n: int, n_columns: int, n_wide: int = 0) -> Shape:
    """Return how n rows are put into piles; the memory limit has no say in it.

    >>> shape_of(5_000_000, 21).n_piles
    201
    """
    n_piles = -(-_CELL * n * n_columns // PILE_BYTES)
    n_wide_piles = min(-(-_CELL * n * n_wide // PILE_BYTES), n // _FEWEST_WIDE)
    n_piles = min(_MOST_PILES, max(1, n_piles, n_wide_piles))
    return Shape(n, n_columns, n_piles, n_wide)


class Scratch:
    """A temporary file of rows in piles, which is gone when it is closed, however that happens.

    The more rows are written together, within a budget in bytes of memory, the fewer the scraps of
    a pile.
    """

    def __init__(self, file: IO[bytes], shape: Shape, seed: int, budget: int) -> None:
        self.shape = shape
        self._file, self._seed = file, seed
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

    @property
    def sizes(self) -> Array:
        """Rows of each pile, (n_piles,)."""
        sizes: Array = np.sum([np.diff(begins) for _, begins in self._runs], axis=0)
        return sizes

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

    def piles(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield the number and the rows of each pile that has rows."""
        for k in range(self.shape.n_piles):
            if len(rows := self.pile(k)):
                yield k, rows

    def part(
        self, seed: int, n_iter: int, part: int, chosen: Callable[[int, int], Array] | None = None
    ) -> FloatArray:
        """Return the rows of one part of an epoch, shuffled: every row is in one part.

        Of a pile, given its number and its size, only the rows that are `chosen` are taken.
        """
        order = default_rng((seed, n_iter)).permutation(self.shape.n_piles)

        def taken(k: int) -> FloatArray:
            rows = self.pile(k)
            return rows if chosen is None else rows[chosen(k, len(rows))]

        numbers = np.array_split(order, self.shape.n_parts)[part]
        rows = np.concatenate([taken(k) for k in numbers])
        return rows[default_rng((seed, n_iter, 1 + part)).permutation(len(rows))]

    def numbers(self, places: Sequence[Array]) -> list[Array]:
        """Return the numbers, among all rows as they came, of rows at these places of each pile."""
        random, n_piles = default_rng((self._seed, 0)), self.shape.n_piles
        found = [np.zeros(len(own), np.int64) for own in places]
        n_before = np.zeros(n_piles, np.int64)
        for start in range(0, self.n, _AT_A_TIME):
            drawn = random.random(min(_AT_A_TIME, self.n - start))
            piles = (drawn * n_piles).astype(np.int32)
            order = np.argsort(piles, kind="stable")
            begins = np.searchsorted(piles[order], np.arange(n_piles + 1))
            for k, own in enumerate(places):
                at = own - n_before[k]
                here = (at >= 0) & (at < begins[k + 1] - begins[k])
                found[k][here] = start + order[begins[k] + at[here]]
            n_before += np.diff(begins)
        return found


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
    n_bytes = _CELL * shape.n * max(shape.n_columns, shape.n_wide)
    needed = _COPIES_OF_PART * _PILES_AT_A_TIME * n_bytes // shape.n_piles
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


# ---- The memory limit


def bytes_of(limit: int | float | str | None) -> int:
    """Return a limit in bytes; None is half of the memory there is.

    A text has a unit: K, M, G and T are powers of 1000, Ki, Mi, Gi and Ti of 1024.

    >>> bytes_of("2GB"), bytes_of("1.5 GiB"), bytes_of("800m"), bytes_of(9e8)
    (2000000000, 1610612736, 800000000, 900000000)
    """
    if limit is None:
        return max(LEAST, memory_of_machine() // 2)
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?|)b?\s*", limit, re.IGNORECASE)
        if found is None:
            raise ValueError(
                f"the memory limit must be a number with a unit, such as 2GB or 800MB. Got "
                f"{limit!r} instead."
            )
        size = float(found[1]) * (_UNITS | _BINARY)[found[2].upper()]
    elif isinstance(limit, bool) or not isinstance(limit, int | float):
        raise TypeError(
            f"the memory limit must be an int or a str, such as '2GB', not {type(limit).__name__}."
        )
    else:
        size = limit
    if not LEAST <= size < 2**60:
        raise ValueError(
            f"the memory limit must be at least {in_words(LEAST)}: Python and its libraries take "
            f"most of that themselves. Got {limit!r} instead."
        )
    return int(size)


def in_words(n_bytes: float) -> str:
    """Return a size as people write it.

    >>> in_words(2e9), in_words(512_300_000), in_words(20)
    ('2 GB', '512 MB', '20 bytes')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"


def memory_of_machine() -> int:
    """Return the memory of this machine, or of the container, in bytes."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        found = _UNKNOWN
    for path in _CGROUPS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) > 0:
            found = min(found, int(text))
    return found
