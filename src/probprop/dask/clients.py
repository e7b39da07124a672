"""Whose workers do the work: the client given, the current one, or a local one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, default_client


@contextmanager
def client_or_local(client: Client | None) -> Iterator[Client]:
    """Yield the client given or the current one; without any, start one, say so, and end it."""
    if client is None:
        try:
            client = default_client()
        except ValueError:  # there is none
            with Client(dashboard_address=":0") as local:
                print(
                    f"probprop.dask: no Dask client, so a local cluster was started for this "
                    f"call: {len(local.nthreads())} worker processes, {local.dashboard_link}",
                    file=sys.stderr,
                    flush=True,
                )
                yield local
            return
    yield client


def n_threads(client: Client) -> int:
    """Return the threads of all workers."""
    n: int = sum(client.nthreads().values())
    return max(1, n)
