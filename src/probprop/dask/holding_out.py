"""Rows of every shard that no network learns, to judge a fit on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from probprop._types import Array
from probprop.dask.folds import sample_sizes
from probprop.dask.preparing import Prepared
from probprop.dask.shards import Loaded, summarise
from probprop.dask.sources import Source, frame_of
from probprop.inference.shards import shard_order
from probprop.table.target import Counting

MOST = 20_000
"""Rows that are held out at most: as many say how good a fit is to a hundredth."""


def hold_out(
    prepared: Prepared, source: Source, share: float, seed: int
) -> tuple[Prepared, pd.DataFrame]:
    """Leave a share of the rows out, and return them as they are in the files, in their order.

    Parameters
    ----------
    prepared : Prepared
    source : Source
        Of the same pieces.
    share : float
        Of all rows, above 0 and below 1; of many rows only `MOST`.
    seed : int
    """
    sizes = [summary.n for summary in prepared.summaries]
    n = min(max(1, round(share * sum(sizes))), MOST)
    if n >= sum(sizes):
        raise ValueError(
            f"the files have {sum(sizes)} rows, too few to hold out a share of {share:g}: give "
            "more rows, or hold out none."
        )
    client, likelihood = prepared.client, prepared.likelihood
    places = [
        np.sort(shard_order(seed, k, size)[:own])
        for k, (size, own) in enumerate(zip(sizes, sample_sizes(sizes, n), strict=True))
    ]
    frames = client.gather(
        [
            source.submit(client, partial(rows_at, counting=prepared.counting, places=own), which)
            for own, which in zip(places, source.shares(len(sizes)), strict=True)
        ]
    )
    loaded = [
        client.submit(without, rows, own, pure=False)
        for rows, own in zip(prepared.loaded, places, strict=True)
    ]
    summaries = client.gather(
        [client.submit(summarise, rows, likelihood, pure=False) for rows in loaded]
    )
    # Shards have the pieces in turn.
    by_piece = [parts[i] for i in range(len(frames[0])) for parts in frames if i < len(parts)]
    return replace(prepared, loaded=loaded, summaries=summaries), pd.concat(by_piece)


def rows_at(
    pieces: Sequence[Any], *, labels: Sequence[str], counting: Counting, places: Array
) -> list[pd.DataFrame]:
    """Return some rows of a shard, for each of its pieces; places are ascending."""
    found, start = [], 0
    for piece, label in zip(pieces, labels, strict=True):
        frame = counting.rows(frame_of(piece, label))
        own = places[(places >= start) & (places < start + len(frame))] - start
        found.append(frame.iloc[own])
        start += len(frame)
    return found


def without(loaded: Loaded, places: Array) -> Loaded:
    """Return a shard without some of its rows."""
    gone = np.zeros(len(loaded.y), bool)
    gone[places] = True
    ends = np.cumsum(loaded.sizes)[:-1]
    sizes = tuple(int((~part).sum()) for part in np.split(gone, ends))
    rest = (None if a is None else a[~gone] for a in (loaded.weights, loaded.y_std))
    return Loaded(loaded.X[~gone], loaded.y[~gone], sizes, *rest)
