"""A cluster for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client

from dask_clusters import processes


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with processes(2) as client:
        yield client
