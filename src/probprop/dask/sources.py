"""The pieces that data on a cluster come in: Parquet files, partitions of a frame, or blocks."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask
import numpy as np
import pandas as pd
from dask import array as da
from dask import dataframe as dd

from probprop._types import Array
from probprop.table.names import TableError, reading_parquet
from probprop.table.read import parquet_metadata


@dataclass(frozen=True)
class ParquetPiece:
    """Some row groups of a Parquet file: enough to read them again anywhere.

    Parameters
    ----------
    path : str
    row_groups : tuple of int
    """

    path: str
    row_groups: tuple[int, ...]

    def read(self) -> pd.DataFrame:
        """Return the rows."""
        from pyarrow import parquet

        with reading_parquet(self.path), parquet.ParquetFile(self.path) as file:
            return file.read_row_groups(list(self.row_groups)).to_pandas()


@dataclass(frozen=True)
class Block:
    """Rows of arrays."""

    X: Array
    y: Array


Rows = pd.DataFrame | Block


def frame_of(rows: pd.DataFrame | ParquetPiece, label: str) -> pd.DataFrame:
    """Return the rows of a piece, which know where they come from."""
    frame = rows.read() if isinstance(rows, ParquetPiece) else rows.copy(deep=False)
    frame.attrs["source"] = label
    return frame


@dataclass(frozen=True)
class Source:
    """Data in pieces.

    Parameters
    ----------
    pieces : list
        Of `ParquetPiece`, of Delayed frames, or of pairs of Delayed arrays.
    labels : list of str
        What messages call each.
    n_targets : int
    """

    pieces: list[Any]
    labels: list[str]
    n_targets: int

    @property
    def has_arrays(self) -> bool:
        """Whether the pieces are blocks of X and y, without names."""
        return isinstance(self.pieces[0], tuple)

    def shares(self, n: int) -> list[list[int]]:
        """Return the pieces of each of n shards: neighbours go to different ones."""
        return [list(range(k, len(self.pieces), n)) for k in range(n)]

    def submit(self, client: Any, call: Callable[..., Any], which: Sequence[int]) -> Any:
        """Return the future of a call with a list of pieces and one of their labels.

        Its lineage goes back to the files.
        """
        named = partial(call, labels=[self.labels[i] for i in which])
        pieces = [self.pieces[i] for i in which]
        if isinstance(pieces[0], ParquetPiece):
            return client.submit(named, pieces, pure=False)
        if self.has_arrays:
            pieces = [dask.delayed(Block)(*pair) for pair in pieces]
        return client.compute(dask.delayed(named, pure=False)(pieces))


def source_of(X: Any, y: Any, target: str | Sequence[str] | None) -> tuple[Source, list[str]]:
    """Return the pieces of what a user passed, and the names of the targets in them."""
    if isinstance(X, da.Array):
        return _of_arrays(X, y, target), []
    if isinstance(X, str | os.PathLike):
        targets = _target_names(target)
        if y is not None:
            raise TypeError(
                "y is for dask arrays and frames: name the column of the files, target=."
            )
        return _of_parquet(os.fspath(X), len(targets)), targets
    if not isinstance(X, dd.DataFrame):
        raise TypeError(
            "X must be a dask DataFrame, a dask array, or the path or pattern of Parquet files, "
            f"not {type(X).__name__}. Rows that fit into memory are for the estimator's own fit."
        )
    if y is not None:
        if target is not None:
            raise TypeError("give y or target=, not both: each says what to predict.")
        columns = [y] if isinstance(y, dd.Series) else [y[name] for name in y.columns]
        targets = [str(column.name or "target") for column in columns]
        X = X.assign(**dict(zip(targets, columns, strict=True)))
    else:
        targets = _target_names(target)
    partitions = X.to_delayed()
    labels = [f"Partition {i}" for i in range(len(partitions))]
    return Source(list(partitions), labels, len(targets)), targets


def _target_names(target: str | Sequence[str] | None) -> list[str]:
    if target is None:
        raise TypeError("target is missing: name the column, or the columns, to predict.")
    return [target] if isinstance(target, str) else list(target)


def _of_arrays(X: da.Array, y: Any, target: object) -> Source:
    if target is not None or not isinstance(y, da.Array):
        raise TypeError(
            "with a dask array X, y must be a dask array of its targets, and target must be None. "
            f"Got y of type {type(y).__name__}, target={target!r}."
        )
    if X.ndim != 2 or y.ndim not in (1, 2):
        raise ValueError(
            f"X must be of shape (n, n_features) and y (n,) or (n, K). Got {X.shape} and {y.shape}."
        )
    if np.isnan([*X.shape, *y.shape]).any():
        X, y = X.compute_chunk_sizes(), y.compute_chunk_sizes()
    if len(X) != len(y):
        raise ValueError(f"X and y must have as many rows. Got {len(X)} and {len(y)}.")
    X = X.rechunk({1: -1})
    y = y.rechunk({0: X.chunks[0], **({1: -1} if y.ndim == 2 else {})})
    pairs = list(zip(X.to_delayed()[:, 0], y.to_delayed().reshape(X.numblocks[0]), strict=True))
    labels = [f"Block {i}" for i in range(len(pairs))]
    return Source(pairs, labels, 1 if y.ndim == 1 else y.shape[1])


def _of_parquet(pattern: str, n_targets: int) -> Source:
    if os.path.isdir(pattern):
        pattern = os.path.join(pattern, "*.parquet")
    paths = sorted(glob.glob(pattern))
    if not paths:
        raise FileNotFoundError(f"there is no file {pattern}: give the path of Parquet files.")
    pieces, labels = [], []
    for path in map(os.path.abspath, paths):
        metadata = parquet_metadata(path)
        if metadata.num_rows == 0:
            raise no_rows(path)
        for i in range(metadata.num_row_groups):
            pieces.append(ParquetPiece(path, (i,)))
            labels.append(path)
    return Source(pieces, labels, n_targets)


def no_rows(label: str) -> TableError:
    """Say that a piece is empty."""
    return TableError(
        f"{label} has no rows: leave it out, or spread the rows anew, as "
        "`frame.repartition(...)` does."
    )
