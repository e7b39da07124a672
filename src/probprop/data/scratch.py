"""Rows on disk in random partitions, each a random sample of all rows.

Files are often sorted, by time or by the target, and sequential training on sorted rows degrades
the fit. A shuffle buffer would still see one end of the files first. So every row is assigned to
a random partition, once; then every epoch visits the partitions in a new order, a few at a time,
and shuffles their rows together.

The partition of a row depends on the seed and on its place among all rows only: neither the sizes
of the blocks nor the memory limit change the result.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.random import default_rng

from probprop._types import Array

MEGABYTE = 10**6
RESERVED = 500 * MEGABYTE
"""Memory of Python, its libraries and one chunk of a table, without rows, as measured."""
LEAST = 700 * MEGABYTE
"""Smallest limit: the memory above `RESERVED` is for rows."""

_UNKNOWN = 8 * 10**9  # memory of a machine if it is unknown
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

PARTITION_BYTES = 4 << 20
"""Target size of a partition in bytes: a few are in memory at a time."""
_MOST_PARTITIONS = 4096  # more would make the writes too small
_PARTITIONS_AT_A_TIME = 4
_FEWEST_WIDE = 16  # rows of a partition, so that each has rows of every fold
_COPIES_OF_PART = 4  # copies of a part: its partitions, joined, shuffled, standardized
_LEAST_WAITING, _MOST_WAITING = 1 << 20, 64 << 20  # bytes of rows that are written together
_CELL = 8  # bytes


@dataclass(frozen=True)
class Shape:
    """How rows are assigned to partitions."""

    n: int  # rows
    n_columns: int  # numbers of a row
    n_partitions: int
    n_wide: int = 0  # numbers of a row in training, if that is more

    @property
    def n_bytes(self) -> int:
        """Size of the whole table in bytes."""
        return _CELL * self.n * self.n_columns

    @property
    def n_parts(self) -> int:
        """Parts of an epoch, of a few partitions each, and not more than there are rows."""
        return min(self.n, -(-self.n_partitions // _PARTITIONS_AT_A_TIME))


def shape_of(n: int, n_columns: int, n_wide: int = 0) -> Shape:
    """Return the shape of n rows; it does not depend on the memory limit."""
    n_partitions = -(-_CELL * n * n_columns // PARTITION_BYTES)
    n_wide_partitions = min(-(-_CELL * n * n_wide // PARTITION_BYTES), n // _FEWEST_WIDE)
    n_partitions = min(_MOST_PARTITIONS, max(1, n_partitions, n_wide_partitions))
    return Shape(n, n_columns, n_partitions, n_wide)


class Scratch:
    """A temporary file of rows in partitions, which is deleted when it is closed, even by a kill.

    Rows are buffered, within a budget in bytes of memory, so that few pieces of a partition are
    written.
    """

    def __init__(self, file: IO[bytes], shape: Shape, seed: int, budget: int) -> None:
        self.shape = shape
        self.n = 0  # rows
        self._file, self._random = file, default_rng((seed, 0))
        n_bytes = min(_MOST_WAITING, max(_LEAST_WAITING, budget // 4))
        self._n_together = -(-n_bytes // (_CELL * shape.n_columns))
        self._waiting, self._n_waiting = np.empty(0), 0  # buffered rows
        self._runs: list[tuple[int, Array]] = []  # where each lies, and where its partitions begin

    def add(self, rows: Array) -> None:
        """Assign rows, (n,), records of always the same columns, to partitions."""
        done = 0
        while done < len(rows):
            start = self._n_waiting
            if start == 0:
                self._waiting = np.empty(self._n_together, rows.dtype)
            part = rows[done : done + self._n_together - start]
            self._waiting[start : start + len(part)] = part
            self._n_waiting, done = start + len(part), done + len(part)
            if self._n_waiting == self._n_together:
                self.write()

    def write(self) -> None:
        """Write the buffered rows, partition after partition."""
        if not self._n_waiting:
            return
        rows = self._waiting[: self._n_waiting]
        self._waiting, self._n_waiting, self._dtype = np.empty(0), 0, rows.dtype
        # A number for each row: blocks of any size draw the same.
        partitions = (self._random.random(len(rows)) * self.shape.n_partitions).astype(np.int32)
        order = np.argsort(partitions, kind="stable")  # in a partition the rows keep their order
        begins = np.searchsorted(partitions[order], np.arange(self.shape.n_partitions + 1))
        self._runs.append((self._file.seek(0, os.SEEK_END), begins))
        self.n += len(rows)
        left: Any = rows[order].view(np.uint8).data
        try:
            while len(left):
                left = left[self._file.write(left) :]  # a full disk may take a part of it
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise _no_room(self.shape, scratch_folder(), "") from error

    def partition(self, k: int) -> Array:
        """Return the rows of a partition, in the order in which they came, (n_k,)."""
        parts = []
        for start, begins in self._runs:
            self._file.seek(start + self._dtype.itemsize * int(begins[k]))
            n = int(begins[k + 1] - begins[k])
            parts.append(np.fromfile(self._file, self._dtype, n))
        return np.concatenate(parts)

    def partitions(self) -> Iterator[tuple[int, Array]]:
        """Yield the number and the rows of each partition that has rows."""
        for k in range(self.shape.n_partitions):
            if len(rows := self.partition(k)):
                yield k, rows

    def part(
        self, seed: int, n_iter: int, part: int, chosen: Callable[[int, int], Array] | None = None
    ) -> Array:
        """Return the rows of one part of an epoch, shuffled: every row is in one part.

        Only the rows that `chosen` selects, given number and size of a partition, are used.
        """
        order = default_rng((seed, n_iter)).permutation(self.shape.n_partitions)

        def taken(k: int) -> Array:
            rows = self.partition(k)
            return rows if chosen is None else rows[chosen(k, len(rows))]

        numbers = np.array_split(order, self.shape.n_parts)[part]
        rows = np.concatenate([taken(k) for k in numbers])
        return rows[default_rng((seed, n_iter, 1 + part)).permutation(len(rows))]


@contextmanager
def scratch(shape: Shape, seed: int, budget: int) -> Iterator[Scratch]:
    """Yield an empty file for rows of this shape; refuse a disk without room for them."""
    folder = scratch_folder()
    free = shutil.disk_usage(folder).free
    if free < shape.n_bytes:
        raise _no_room(shape, folder, f", and {in_words(free)} are free")
    with tempfile.TemporaryFile(dir=folder, prefix="probprop-", buffering=0) as file:
        yield Scratch(file, shape, seed, budget)


def check_parts_fit(shape: Shape, budget: int) -> None:
    """Refuse a limit that one part of an epoch would break: above 16 GB of rows partitions grow."""
    n_bytes = _CELL * shape.n * max(shape.n_columns, shape.n_wide)
    needed = _COPIES_OF_PART * _PARTITIONS_AT_A_TIME * n_bytes // shape.n_partitions
    if needed > budget:
        raise ValueError(
            f"the memory limit is too small for {shape.n:,} rows, {in_words(shape.n_bytes)}: give "
            f"at least {in_words(RESERVED + needed)}."
        )


def scratch_folder() -> str:
    """Return where temporary rows go: TMPDIR if it is set, else where there is most room.

    On many systems /tmp is in memory, which is too small for such rows.
    """
    asked = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    if not asked and os.access("/var/tmp", os.W_OK):
        return "/var/tmp"
    return tempfile.gettempdir()


def _no_room(shape: Shape, folder: str, there: str) -> OSError:
    return OSError(
        errno.ENOSPC,
        f"Rows that do not fit into memory take {in_words(shape.n_bytes)} of disk in {folder}"
        f"{there}: set TMPDIR to a folder with more room, or leave out columns",
    )


# ---- The memory limit


def bytes_of(limit: int | float | str | None) -> int:
    """Return a limit in bytes; None is half of the memory.

    A text has a unit: K, M, G and T are powers of 1000, Ki, Mi, Gi and Ti of 1024.

    >>> bytes_of("2GB"), bytes_of("1.5 GiB"), bytes_of("800m"), bytes_of(9e8)
    (2000000000, 1610612736, 800000000, 900000000)
    """
    if limit is None:
        return max(LEAST, memory_of_machine() // 2)
    pattern = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?|)b?\s*"
    found = re.fullmatch(pattern, str(limit), re.IGNORECASE)
    if found is None:
        raise ValueError(
            "the memory limit must be a number of bytes, or a number with a unit, such as 2GB or "
            f"800MB. Got {limit!r} instead."
        )
    power = " KMGT".index(found[2][:1].upper() or " ")
    size = float(found[1]) * (1024 if len(found[2]) == 2 else 1000) ** power
    if not LEAST <= size < 2**60:
        raise ValueError(
            f"the memory limit must be at least {in_words(LEAST)}: Python and its libraries take "
            f"most of that themselves. Got {limit!r} instead."
        )
    return int(size)


def in_words(n_bytes: float) -> str:
    """Return a size as people write it, such as 512 MB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"


def memory_of_machine() -> int:
    """Return the memory of this machine, or of the container, in bytes."""
    found = _UNKNOWN
    with suppress(AttributeError, ValueError, OSError):
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CGROUPS:
        with suppress(OSError):
            text = Path(path).read_text().strip()
            found = min(found, int(text)) if text.isdigit() and int(text) > 0 else found
    return found
