"""Rows on a Dask cluster: shards that are futures, with a lineage that goes back to the files.

No task is pinned to a worker: where one dies, others load its shards again from where they came
and make its tasks again, to the same bits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

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
from probprop.data.shards import (
    NONE_KEPT,
    Kept,
    Learner,
    Summary,
    mean_weight,
    sample_sizes,
    summarize,
    warn_of_order,
)
from probprop.data.sources import (
    ArrayReader,
    Columnwise,
    Loaded,
    Piece,
    Schema,
    Source,
    check_no_columns,
    joined,
)
from probprop.data.tables import rows_at, table_reader
from probprop.distributions.base import frame_columns
from probprop.estimators.cv.search import advanced, with_rows_of, without_rows
from probprop.estimators.data import relative_weights
from probprop.estimators.kind import classes_of
from probprop.inference.likelihoods import Likelihood
from probprop.inference.shards import HasParts, MapShards, Work, shard_order, usual_rounds
from probprop.inference.training import Run
from probprop.table.model import TableModel
from probprop.table.names import TableError

T = TypeVar("T")


# ---- Whose workers do the work


@contextmanager
def client_or_local(client: Client | None) -> Iterator[Client]:
    """Yield the client given or the current one; without any, start one, say so, and end it."""
    if client is None:
        try:
            client = default_client()
        except ValueError:  # there is none
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


def n_threads(client: Client) -> int:
    """Return the threads of all workers."""
    n: int = sum(client.nthreads().values())
    return max(1, n)


# ---- Dask collections as sources


@dataclass(frozen=True, eq=False)
class Collection:
    """Partitions of a dask DataFrame, or blocks of dask arrays."""

    reader: Any
    partitions: list[Piece]
    in_memory: bool = False

    def pieces(self, schema: Schema | None) -> Iterator[Piece]:
        """Refuse to compute them here."""
        raise TypeError("a dask collection is fitted on a cluster: give its client.")

    def tasks(self, n: int) -> list[Piece]:
        """Return the partitions."""
        return self.partitions


def collection_of(network: Any, given: Any, asked: Columnwise) -> Collection:
    """Return a dask DataFrame, or a tuple of dask arrays or frames, as a source."""
    if isinstance(given, dd.DataFrame):
        return _of_frame(network, given, asked)
    if not isinstance(given, tuple) or not 2 <= len(given) <= 4:
        raise TypeError(
            "a dask array must come with its targets: give a tuple (X, y), (X, y, sample_weight) "
            f"or (X, y, sample_weight, y_std). Got {type(given).__name__}."
        )
    X, y = given[:2]
    if isinstance(X, dd.DataFrame):
        if asked.targets or len(given) > 2:
            raise TypeError(
                "with a tuple (X, y) of dask frames, target must be None, and weights and errors "
                "must be columns of X: name them with weight= and error=."
            )
        columns = [y] if isinstance(y, dd.Series) else [y[name] for name in y.columns]
        targets = tuple(str(column.name or "target") for column in columns)
        X = X.assign(**dict(zip(targets, columns, strict=True)))
        return _of_frame(network, X, asked._replace(targets=targets))
    check_no_columns(asked)
    return _of_arrays(network, given)


def _of_frame(network: Any, frame: dd.DataFrame, asked: Columnwise) -> Collection:
    partitions = [Piece(f"Partition {i}", each) for i, each in enumerate(frame.to_delayed())]
    return Collection(table_reader(network, asked), partitions)


def _of_arrays(network: Any, given: Sequence[Any]) -> Collection:
    if not all(isinstance(a, da.Array) or a is None for a in given) or given[1] is None:
        kinds = ", ".join(type(a).__name__ for a in given)
        raise TypeError(f"a dask array X must come with dask arrays. Got {kinds}.")
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
        raise ValueError(f"X and y must have as many rows. Got {len(X)} and {lengths}.")
    X = X.rechunk({1: -1})
    rows = {0: X.chunks[0]}
    rest = [
        None if a is None else a.rechunk(rows | dict.fromkeys(range(1, a.ndim), -1)) for a in rest
    ]
    n_blocks = X.numblocks[0]
    columns = [[None] * n_blocks if a is None else a.to_delayed().reshape(n_blocks) for a in rest]
    blocks = zip(X.to_delayed()[:, 0], *columns, strict=True)
    partitions = [Piece(f"block {i}", tuple(block)) for i, block in enumerate(blocks)]
    return Collection(ArrayReader(network), partitions)


# ---- From a source to shards


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """Rows in shards on a cluster."""

    schema: Schema
    client: Client
    shards: list[Any]  # futures of `Loaded`
    summaries: list[Summary]
    held_out: Any = None

    @property
    def settings(self) -> dict[str, str]:
        """What besides the estimator decides the result."""
        return {"n_shards": str(len(self.shards))}

    def map(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function with each shard."""
        shared = [self.client.submit(itself, value, pure=False) for value in arguments]
        futures = [
            self.client.submit(call, rows, k, *shared, pure=False)
            for k, rows in enumerate(self.shards)
        ]
        results: list[Any] = self.client.gather(futures)
        return results

    def numbers(self, places: Sequence[Array]) -> list[Array]:
        """Return the numbers of rows among all rows, in the order of the pieces.

        Shards have the pieces in turn.
        """
        n, starts = len(self.summaries), self._starts
        every = [
            np.concatenate([np.arange(*pair) for pair in list(pairwise(starts))[k::n]])
            for k in range(n)
        ]
        return [numbers[own] for numbers, own in zip(every, places, strict=True)]

    @property
    def _starts(self) -> Array:
        """The number of the first row of each piece, and of all rows."""
        n = len(self.summaries)
        n_pieces = sum(len(summary.sizes) for summary in self.summaries)
        return np.cumsum([0, *(self.summaries[i % n].sizes[i // n] for i in range(n_pieces))])

    def taken(self, source: Source, numbers: Array) -> list[pd.DataFrame]:
        """Return the rows of the source with these numbers, ascending, as they are in the table."""
        pieces = zip(source.tasks(n_threads(self.client)), pairwise(self._starts), strict=True)
        futures = [
            _submit(self.client, rows_of_pieces, [piece], self.schema, own - start)
            for piece, (start, stop) in pieces
            if len(own := numbers[(numbers >= start) & (numbers < stop)])
        ]
        return [frame for frames in self.client.gather(futures) for frame in frames]

    def with_relative_weights(self) -> ClusterRows:
        """Return the rows with weights in units of their mean."""
        mean = mean_weight(self.summaries)
        shards = [self.client.submit(in_units_of, rows, mean, pure=False) for rows in self.shards]
        return replace(self, shards=shards)

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
        return on_cluster(self.client, shards)

    def advance(self) -> Any:
        """Return what makes epochs of the candidates, as tasks."""
        return Trainings(self.client).advance


def load_shards(
    client: Client,
    source: Source,
    n_shards: int | None,
    seed: int = 0,
    test: Kept = NONE_KEPT,
) -> ClusterRows:
    """Survey all pieces of a source, then load and measure the shards.

    Shards take the pieces in turn. With `test` some rows of every shard are held out; the seed
    draws them.
    """
    pieces, reader = source.tasks(n_threads(client)), source.reader
    if n_shards is not None and n_shards > len(pieces):
        raise ValueError(
            f"n_shards == {n_shards}, but there are only {len(pieces)} partitions, row groups or "
            "files: give fewer shards, or repartition the data."
        )
    n = min(len(pieces), n_threads(client)) if n_shards is None else n_shards
    surveys = client.gather([_submit(client, surveyed, [piece], reader) for piece in pieces])
    schema = reader.agree(surveys)
    shares = [pieces[k::n] for k in range(n)]
    sizes = [sum(each.n for each in surveys[k::n]) for k in range(n)]
    if 0 in sizes:
        raise TableError(
            f"{shares[sizes.index(0)][0].label}, of shard {sizes.index(0)}, has no rows with a "
            "target and a weight above 0: give fewer shards, or leave it out."
        )
    shards = [_submit(client, loaded_shard, own, schema) for own in shares]
    held_out = None
    if test.share > 0.0:
        places = drawn_places(sizes, test, seed)
        parts = client.gather(
            [
                _submit(client, rows_of_pieces, own, schema, at)
                for own, at in zip(shares, places, strict=True)
            ]
        )
        by_piece = [each[i] for i in range(len(parts[0])) for each in parts if i < len(each)]
        held_out = pd.concat(by_piece, ignore_index=True)
        shards = [
            client.submit(without, rows, at, pure=False)
            for rows, at in zip(shards, places, strict=True)
        ]
    rows = ClusterRows(schema, client, shards, [], held_out)
    rows = replace(rows, summaries=rows.map(summarize, schema.likelihood))
    warn_of_order(rows.summaries)
    return rows


def _submit(client: Client, call: Callable[..., Any], pieces: Sequence[Piece], *more: Any) -> Any:
    """Return the future of a call with labels, pieces and more; its lineage has the files."""
    labels, rows = [piece.label for piece in pieces], [piece.rows for piece in pieces]
    delayed = rows[0] if not isinstance(rows[0], tuple) else rows[0][0]
    if not dask.is_dask_collection(delayed):
        return client.submit(call, labels, rows, *more, pure=False)
    if isinstance(rows[0], tuple):
        rows = [dask.delayed(_block)(*block) for block in rows]
    return client.compute(dask.delayed(call, pure=False)(labels, rows, *more))


def _block(*arrays: Any) -> tuple[Any, ...]:
    return arrays


def surveyed(labels: Sequence[str], pieces: Sequence[Any], reader: Any) -> Any:
    """Look at one piece, on a worker."""
    [label], [piece] = labels, pieces
    return reader.survey(piece, label)


def loaded_shard(labels: Sequence[str], pieces: Sequence[Any], schema: Schema) -> Loaded:
    """Load the pieces of a shard, on a worker."""
    likelihood: Likelihood = schema.likelihood
    parts = [schema.load(piece, label) for piece, label in zip(pieces, labels, strict=True)]
    rows = joined(parts)
    return replace(rows, y=likelihood.encode(rows.y))


def in_units_of(loaded: Loaded, mean: float) -> Loaded:
    """Return a shard with its weights in units of the mean over all shards."""
    if loaded.weights is None:
        return loaded
    return replace(loaded, weights=relative_weights(loaded.weights, mean))


# ---- Rows held out


def drawn_places(sizes: Sequence[int], test: Kept, seed: int) -> list[Array]:
    """Return the places of the rows that are held out of each shard, ascending."""
    n = min(max(1, round(test.share * sum(sizes))), test.most)
    if n >= sum(sizes):
        raise ValueError(
            f"the files have {sum(sizes)} rows, too few to hold out a share of {test.share:g}: "
            "give more rows, or hold out none."
        )
    pairs = zip(sizes, sample_sizes(sizes, n), strict=True)
    return [np.sort(shard_order(seed, k, size)[:own]) for k, (size, own) in enumerate(pairs)]


def rows_of_pieces(
    labels: Sequence[str], pieces: Sequence[Any], schema: Schema, places: Array
) -> list[pd.DataFrame]:
    """Return some rows of a shard, for each of its pieces, on a worker; places are ascending."""
    return rows_at(map(Piece, labels, pieces), schema, places)


def without(loaded: Loaded, places: Array) -> Loaded:
    """Return a shard without some of its rows."""
    kept = np.ones(len(loaded.y), bool)
    kept[places] = False
    ends = np.cumsum(loaded.sizes)[:-1]
    sizes = tuple(int(part.sum()) for part in np.split(kept, ends))
    return replace(loaded[kept], sizes=sizes)


# ---- Tasks


def on_cluster(client: Client, shards: Sequence[Any]) -> MapShards:
    """Return a map over shards that are futures."""

    def map_shards(call: Callable[[HasParts, Work], Any], works: Sequence[Work]) -> list[Any]:
        futures = [client.submit(call, shards[work.part.shard], work, pure=False) for work in works]
        results: list[Any] = client.gather(futures)
        return results

    return map_shards


class Trainings:
    """Trainings of many candidates and folds as tasks; their rows go to the cluster once."""

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
    estimator: Any
    predicted: Any
    if isinstance(model, TableModel):
        estimator, predicted = model.estimator, model.predict_distribution(frame)
    else:
        names = getattr(model, "feature_names_in_", None)
        rows = frame.to_numpy(np.float64) if names is None else frame[list(names)]
        estimator, predicted = model, model.predict_distribution(rows)
    if is_classifier(estimator):
        made = predicted.to_frame(classes_of(estimator))
    else:
        made = predicted.to_frame(_target_names(model), coverage=coverage)
    return made.set_axis(frame.index)


def _target_names(model: Any) -> list[str]:
    if isinstance(model, TableModel):
        return model.targets
    return [str(k) for k in range(model.n_outputs_)]


def _meta(model: Any) -> pd.DataFrame:
    """Return predictions of no rows: their columns and types."""
    estimator = model.estimator if isinstance(model, TableModel) else model
    classes = classes_of(estimator)
    if classes is None:
        return pd.DataFrame({k: np.zeros(0) for k in frame_columns(_target_names(model))})
    parts = ("entropy", "entropy_model", "entropy_noise")
    several = getattr(estimator, "multilabel_", False)
    columns = {f"p_{name}": np.zeros(0) for name in classes}
    if several:
        of_each = {f"{k}_{name}": np.zeros(0) for k in parts for name in classes}
        return pd.DataFrame(columns | of_each)
    first = {"predicted_class": classes[:0]}
    return pd.DataFrame(first | columns | {k: np.zeros(0) for k in parts})
