"""Trainings and rounds as tasks of a cluster, none pinned to a worker: those of one that dies are
made again by others, to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import dask
from distributed import Client

from probprop._types import Array
from probprop.estimators.cv.search import advanced, with_rows_of, without_rows
from probprop.inference.shards import HasParts, MapShards, Work
from probprop.inference.training import Run

T = TypeVar("T")


def on_cluster(client: Client, shards: Sequence[Any]) -> MapShards:
    """Return a map over shards that are futures.

    No task is pinned to a worker: where one dies, others load its shards again from where they
    came and make its tasks again, to the same bits.
    """

    def map_shards(call: Callable[[HasParts, Work], Any], works: Sequence[Work]) -> list[Any]:
        futures = [client.submit(call, shards[work.part.shard], work, pure=False) for work in works]
        results: list[Any] = client.gather(futures)
        return results

    return map_shards


class Trainings:
    """Trainings of many candidates and folds as tasks; their rows go to the cluster once.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sent: dict[int, tuple[Array, Any]] = {}

    def advance(
        self, runs: Sequence[Run], n_epochs: int, n_threads: int
    ) -> tuple[list[Run], BaseException | None]:
        """Make more epochs of every training, as `search.advance` does, to the same bits."""
        # Rows are part of a task, which is made again where a worker dies, so tasks are large.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            futures = [
                self._client.submit(
                    advanced,
                    without_rows(run),
                    n_epochs,
                    *map(self._at_workers, run.rows),
                    pure=False,
                )
                for run in runs
            ]
        made = self._client.gather(futures)
        return [with_rows_of(*pair) for pair in zip(made, runs, strict=True)], None

    def _at_workers(self, array: Array | None) -> Any:
        """Return the future of an array, which runs may share."""
        if array is None:
            return None
        if id(array) not in self._sent:
            self._sent[id(array)] = array, self._client.submit(itself, array, pure=False)
        return self._sent[id(array)][1]


def itself(value: T) -> T:
    """Return it: a task, which can be made again where a worker dies, as sent data cannot."""
    return value
