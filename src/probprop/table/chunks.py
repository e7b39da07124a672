"""How a file is read in chunks: about how many rows it has, and how many to take at a time."""

from __future__ import annotations

import os

from probprop.table.errors import TableError
from probprop.table.opening import opened
from probprop.table.read import parquet_metadata

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
