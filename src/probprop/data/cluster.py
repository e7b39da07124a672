"""Samples on a Dask cluster: shards are futures that can be recomputed from the files.

No task is pinned to a worker: if one dies, other workers load its shards again and repeat its
tasks, with a bit-identical result.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

try:
    import dask
    from dask import array as da
    from dask import dataframe as dd
    from distributed import Client, default_client
except ModuleNotFoundError as error:
    raise ImportError(
        "clusters and dask collections need Dask with its scheduler: pip install 'probprop[dask]'"
    ) from error

from probprop._types import Array
from probprop.data import sources
from probprop.data.shards import (
    NONE_KEPT,
    Kept,
    Known,
    Learner,
    Summary,
    known_pieces,
    load_piece,
    rows_of_piece,
    summarize,
    warn_of_order,
)
from probprop.data.sources import ArrayReader, Columnwise, Loaded, Piece, Schema, Source
from probprop.data.tables import table_reader
from probprop.estimators.kind import classes_of
from probprop.inference import training
from probprop.inference.training import MapShards, Rows, Run, Shard, Work, usual_rounds
from probprop.table.model import TableModel
from probprop.table.names import TableError

T = TypeVar("T")


# ---- The cluster


@contextmanager
def client_or_local(client: Client | None) -> Iterator[Client]:
    """Yield the given or the current client; without any, start a local cluster, with a note."""
    if client is None:
        try:
            client = default_client()
        except ValueError:  # there is no current client
            with Client(dashboard_address=":0") as local:
                print(
                    f"probprop.fit: no Dask client, so a local cluster was started for this "
                    f"call: {len(local.nthreads())} worker processes, {local.dashboard_link}",
                    file=sys.stderr,
                    flush=True,
                )
                yield local
            return
    yield client


# ---- Dask collections as sources


def collection_of(network: Any, given: Any, asked: Columnwise) -> Source:
    """Return a dask DataFrame, or a tuple of dask arrays, as a source."""
    if isinstance(given, dd.DataFrame):
        frames = [Piece(f"Partition {i}", each) for i, each in enumerate(given.to_delayed())]
        return Source(table_reader(network, asked), lambda _: iter(frames), lambda _: frames)
    if not isinstance(given, tuple) or not 2 <= len(given) <= 4:
        raise TypeError(
            "a dask array must come with its targets: give a tuple (X, y), (X, y, sample_weight) "
            f"or (X, y, sample_weight, y_std). Got {type(given).__name__}."
        )
    if not all(isinstance(a, da.Array) or a is None for a in given) or given[1] is None:
        kinds = ", ".join(type(a).__name__ for a in given)
        raise TypeError(
            f"a dask array X must come with dask arrays. Got {kinds}. A dask DataFrame has its "
            "target among its columns: name it with target=."
        )
    sources.check_no_columns(asked)
    X, *rest = given
    if X.ndim != 2 or given[1].ndim not in (1, 2):
        raise ValueError(
            "X must be of shape (n, n_features) and y (n,) or (n, K). Got "
            f"{X.shape} and {given[1].shape}."
        )
    if any(np.isnan(a.shape).any() for a in given if a is not None):
        X, *rest = (None if a is None else a.compute_chunk_sizes() for a in given)
    if any(len(a) != len(X) for a in rest if a is not None):
        lengths = [len(a) for a in rest if a is not None]
        raise ValueError(f"X and y must have the same number of rows. Got {len(X)} and {lengths}.")
    X = X.rechunk({1: -1})
    rows = {0: X.chunks[0]}
    rest = [
        None if a is None else a.rechunk(rows | dict.fromkeys(range(1, a.ndim), -1)) for a in rest
    ]
    n_blocks = X.numblocks[0]
    columns = [[None] * n_blocks if a is None else a.to_delayed().reshape(n_blocks) for a in rest]
    blocks = zip(X.to_delayed()[:, 0], *columns, strict=True)
    arrays = [Piece(f"block {i}", tuple(block)) for i, block in enumerate(blocks)]
    return Source(ArrayReader(network), lambda _: iter(arrays), lambda _: arrays)


# ---- From a source to shards


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """Rows in shards on a cluster."""

    schema: Schema
    client: Client
    pieces: Sequence[Piece]  # where the rows come from
    known: Sequence[Known]
    shards: list[Any]  # futures of `Loaded`
    summaries: list[Summary]

    @property
    def settings(self) -> dict[str, str]:
        """What determines the result besides the estimator."""
        return {"n_shards": str(len(self.shards))}

    def map(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function with each shard."""
        shared = [self.client.submit(itself, value, pure=False) for value in arguments]
        futures = [
            self.client.submit(call, rows, k, *shared, pure=False)
            for k, rows in enumerate(self.shards)
        ]
        return list(self.client.gather(futures))

    def taken(self, numbers: Array) -> list[Any]:
        """Return the rows with these numbers of each piece, as they are in the table."""
        futures = [
            _submit(self.client, rows_of_piece, piece.rows, each, self.schema, numbers)
            for piece, each in zip(self.pieces, self.known, strict=True)
        ]
        return list(self.client.gather(futures))

    def n_rounds(self, n_hidden: int) -> int:
        """Return the rounds of an epoch."""
        return usual_rounds(len(self.shards), n_hidden)

    def sizes(self, learner: Learner) -> tuple[int, ...]:
        """Return the rows of each shard that a network learns."""
        return tuple(learner.n_learned(summary.n) for summary in self.summaries)

    def mapped(self, learner: Learner) -> MapShards:
        """Return the map over the shards of a network."""
        shards = [
            self.client.submit(learner.shard, rows, k, pure=False)
            for k, rows in enumerate(self.shards)
        ]

        def map_shards(call: Callable[[Shard, Work], Any], works: Sequence[Work]) -> list[Any]:
            each = ((shards[work.part.shard], work) for work in works)
            futures = [self.client.submit(call, *given, pure=False) for given in each]
            return list(self.client.gather(futures))

        return map_shards

    def advance(self) -> Any:
        """Return a function that continues trainings as tasks, as `training.advance` does.

        It gives the same bits. The rows, which runs may share, are sent to the cluster once.
        """
        sent: dict[int, tuple[Array, Any]] = {}
        client = self.client

        def at_workers(array: Array | None) -> Any:
            if array is None:
                return None
            if id(array) not in sent:
                sent[id(array)] = array, client.submit(itself, array, pure=False)
            return sent[id(array)][1]

        def advance(runs: Sequence[Run], n_epochs: int, n_threads: int) -> tuple[list[Run], None]:
            # Rows are part of a task, which is made again where a worker dies: tasks are large.
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                given = [(without_rows(run), n_epochs, *map(at_workers, run.rows)) for run in runs]
                futures = [client.submit(advanced, *each, pure=False) for each in given]
            made = client.gather(futures)
            return [own._replace(rows=run.rows) for own, run in zip(made, runs, strict=True)], None

        return advance


def load_shards(
    client: Client,
    source: Source,
    n_shards: int | None,
    seed: int = 0,
    test: Kept = NONE_KEPT,
) -> ClusterRows:
    """Survey all pieces of a source, then load and measure the shards, with the pieces in turn.

    With `test` some rows of every piece, drawn by the seed, are a test set.
    """
    n_threads = max(1, sum(client.nthreads().values()))
    pieces, reader = source.tasks(n_threads), source.reader
    if n_shards is not None and n_shards > len(pieces):
        raise ValueError(
            f"n_shards == {n_shards}, but there are only {len(pieces)} partitions, row groups or "
            "files: give fewer shards, or repartition the data."
        )
    n = min(len(pieces), n_threads) if n_shards is None else n_shards
    surveys = client.gather(
        [_submit(client, reader.survey, piece.rows, piece.label) for piece in pieces]
    )
    schema = reader.agree(surveys)
    known = known_pieces(surveys, test, seed)
    for k in range(n):
        if sum(each.n - len(each.out) for each in known[k::n]) == 0:
            raise TableError(
                f"{known[k].label}, of shard {k}, has no rows with a target and a weight above 0: "
                "give fewer shards, or leave it out."
            )
    shards = [
        _submit(client, loaded_shard, [p.rows for p in pieces[k::n]], known[k::n], schema)
        for k in range(n)
    ]
    rows = ClusterRows(schema, client, pieces, known, shards, [])
    rows = replace(rows, summaries=rows.map(summarize, schema.likelihood))
    warn_of_order(rows.summaries)
    return rows


def _submit(client: Client, call: Callable[..., Any], rows: Any, *more: Any) -> Any:
    """Return the future of a call with rows of pieces and more; its lineage has the files."""
    first = rows
    while isinstance(first, list | tuple):
        first = first[0]
    if not dask.is_dask_collection(first):
        return client.submit(call, rows, *more, pure=False)
    return client.compute(dask.delayed(call, pure=False)(rows, *more))


def loaded_shard(rows: Sequence[Any], known: Sequence[Known], schema: Schema) -> Loaded:
    """Load the pieces of a shard, on a worker."""
    whole = sources.joined([load_piece(*each, schema) for each in zip(rows, known, strict=True)])
    return replace(whole, y=schema.likelihood.encode(whole.y))


# ---- Tasks


def advanced(run: Run, n_epochs: int, *rows: Any) -> Run:
    """Continue one training, on a worker; return it without its rows."""
    (run,), interrupt = training.advance([run._replace(rows=Rows(*rows))], n_epochs)
    if interrupt is not None:
        raise interrupt
    return without_rows(run)


def without_rows(run: Run) -> Run:
    """Return a training without its rows, which are sent separately."""
    return run._replace(rows=Rows(run.rows.X[:0], None, run.rows.y[:0]))


def itself(value: T) -> T:
    """Return the argument: unlike sent data, a task can be repeated if a worker dies."""
    return value


# ---- Predictions


def predict_partitions(model: Any, X: Any, coverage: float) -> dd.DataFrame:
    """Predict every row, partition by partition, when it is computed."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be in the range (0.0, 1.0). Got {coverage} instead.")
    if isinstance(X, str | os.PathLike):
        X = dd.read_parquet(os.fspath(X))
    elif isinstance(X, da.Array):
        X = dd.from_dask_array(X)
    elif not isinstance(X, dd.DataFrame):
        raise TypeError(
            "X must be a dask DataFrame, a dask array, or the path or pattern of Parquet files, "
            f"not {type(X).__name__}. The model's own predict takes rows in memory."
        )
    return X.map_partitions(predictions, model, coverage, meta=_meta(model), align_dataframes=False)


def predictions(frame: pd.DataFrame, model: Any, coverage: float) -> pd.DataFrame:
    """Return the predictions of the rows of one partition."""
    if len(frame) == 0:
        return _meta(model)
    rows: Any = frame
    if not isinstance(model, TableModel):
        names = getattr(model, "feature_names_in_", None)
        rows = frame.to_numpy(np.float64) if names is None else frame[list(names)]
    predicted = model.predict_distribution(rows)
    return _columns(model, predicted, coverage).set_axis(frame.index)


def _columns(model: Any, predicted: Any, coverage: float) -> Any:
    of_table = isinstance(model, TableModel)
    if (classes := classes_of(model.estimator if of_table else model)) is not None:
        return predicted.to_frame(classes)
    return predicted.to_frame(model.targets if of_table else None, coverage=coverage)


def _meta(model: Any) -> pd.DataFrame:
    """Return predictions of no rows: their columns and types."""
    estimator = model.estimator if isinstance(model, TableModel) else model
    names = getattr(estimator, "feature_names_in_", None)
    row = pd.DataFrame(np.zeros((1, estimator.n_features_in_)), columns=names)
    predicted = estimator.predict_distribution(row if names is not None else row.to_numpy())
    return _columns(model, predicted, coverage=0.95).iloc[:0]
