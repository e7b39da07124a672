"""Small tables that go to disk as if they were large."""

from __future__ import annotations

import pytest

from limits import Limits


@pytest.fixture
def on_disk(limits: Limits) -> None:
    """Leave no room for rows in memory, and make partitions of a few dozen rows."""
    limits.on_disk(2000)
