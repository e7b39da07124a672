"""Small tables that go to disk as if they were large."""

from __future__ import annotations

import pytest

from probprop.data import scratch, shards


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no room for rows in memory, and make piles of a few dozen rows."""
    monkeypatch.setattr(shards, "COPIES", 10**9)
    monkeypatch.setattr(scratch, "PILE_BYTES", 2000)
