"""Limits that are lowered until a few rows reach them; only this module binds their names."""

from __future__ import annotations

import pytest

from probprop.cli import arguments, cost
from probprop.data import scratch, shards
from probprop.inference import checkpoint
from probprop.table import read


class Limits:
    """Lowers limits until the end of a test, as the fixture `limits`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def chunks_of(self, n_rows: int) -> None:
        """Read tables in chunks of `n_rows`."""
        self._patch.setattr(read, "_CHUNK_ROWS", n_rows)

    def on_disk(self, partition_bytes: int = 2000) -> None:
        """Leave no room for rows in memory, and make partitions of a few dozen rows."""
        self._patch.setattr(shards, "COPIES", 10**9)
        self._patch.setattr(scratch, "PARTITION_BYTES", partition_bytes)

    def tables_above_memory(self) -> None:
        """Let the commands treat every table as one of 12 GB."""
        self._patch.setattr(arguments, "needed_beyond", lambda paths, limit: 12 * 10**9)

    def seconds_between_checkpoints(self, seconds: float) -> None:
        self._patch.setattr(checkpoint, "_SECONDS_BETWEEN", seconds)

    def costs_told_from(self, seconds: float) -> None:
        """Let an estimate of the time be printed if it is at least this."""
        self._patch.setattr(cost, "WORTH_TELLING", seconds)
