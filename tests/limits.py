"""Limits that are lowered until a few rows reach them; only this module binds their names."""

from __future__ import annotations

from typing import Any

import pytest

from probprop import Candidate
from probprop.cli import arguments, cost, judging, output
from probprop.data import fitting, scratch, shards
from probprop.estimators.cv import policy
from probprop.inference import checkpoint
from probprop.report import live
from probprop.table import read

FEW = (Candidate(None, (3,), 10.0), Candidate(4, (3,), 10.0))  # small, so that they take no time


class Limits:
    """Lowers limits until the end of a test, as the fixture `limits`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def of_policy(self, **constants: Any) -> None:
        """Set constants of the search by their names in lower case."""
        for name, value in constants.items():
            self._patch.setattr(policy, name.upper(), value)

    def epochs_of_fast(self, *numbers: int) -> None:
        """Let the rungs of `budget="fast"` make these numbers of epochs."""
        self._patch.setitem(policy.BUDGETS, "fast", numbers)

    def large_from(self, n_samples: int, *, held_out: int = 20_000, as_if: int = 20) -> None:
        """Let the search treat tables as large from `n_samples` samples."""
        self.of_policy(large=n_samples, held_out=held_out, as_if=as_if)

    def selected_on(self, n_samples: int) -> None:
        """Let fits beyond memory or on clusters select on a sample of `n_samples`."""
        self._patch.setattr(fitting, "SAMPLE", n_samples)

    def few_candidates(self) -> None:
        """Let the search compare `FEW` by default, whatever the table."""
        self._patch.setattr(policy, "default_candidates", lambda *_, **__: list(FEW))

    def chunks_of(self, n_rows: int) -> None:
        """Read tables in chunks of `n_rows`."""
        self._patch.setattr(read, "_CHUNK_ROWS", n_rows)

    def rows_of_a_sheet(self, n_rows: int) -> None:
        """Let a sheet of Excel have this many rows at most, the header included."""
        self._patch.setattr(output, "_MOST_ROWS", n_rows)

    def on_disk(self, partition_bytes: int = 2000) -> None:
        """Leave no room for rows in memory, and make partitions of a few dozen rows."""
        self._patch.setattr(shards, "COPIES", 10**9)
        self._patch.setattr(scratch, "PARTITION_BYTES", partition_bytes)

    def sampled_for_a_report(self, n_rows: int) -> None:
        """Let scores of a table in chunks keep at most `n_rows` for the figures of its report."""
        self._patch.setattr(judging, "MOST_SAMPLED", n_rows)

    def numbers_in_a_page(self, n: int) -> None:
        """Let what-if pages have models of at most `n` numbers."""
        self._patch.setattr(live, "MOST_NUMBERS", n)

    def tables_above_memory(self) -> None:
        """Let the commands treat every table as one of 12 GB."""
        self._patch.setattr(arguments, "needed_beyond", lambda paths, limit: 12 * 10**9)

    def seconds_between_checkpoints(self, seconds: float) -> None:
        self._patch.setattr(checkpoint, "_SECONDS_BETWEEN", seconds)

    def costs_told_from(self, seconds: float) -> None:
        """Let an estimate of the time be printed if it is at least this."""
        self._patch.setattr(cost, "WORTH_TELLING", seconds)
