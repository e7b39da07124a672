"""The shards of data on a cluster: loaded by workers, measured, and made ready for the rounds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probprop._types import Array, FloatArray
from probprop.dask.sources import Block, frame_of, no_rows
from probprop.estimators.data import mean_weight_of, relative_weights
from probprop.inference.checkpoint import digest
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Likelihood
from probprop.inference.plan import Plan
from probprop.inference.prediction import features
from probprop.inference.shards import Rows, Shard, shard_order
from probprop.inference.standardize import Moments, Standardizer, measure, merged
from probprop.inference.training import target_variance
from probprop.table.encoding import Columns, labelled
from probprop.table.target import Counting

_SORTED = 0.05  # the share of the variance of the target between shards that is worth a warning


class ShardWarning(UserWarning):
    """The shards have different targets, which makes the fit worse."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """The rows of a shard as they are.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        NaN where an entry is missing.
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    sizes : tuple of int
        Rows of each of its pieces.
    weights : ndarray of shape (n,), default=None
        Above 0; None: each is 1.
    y_std : ndarray of the shape of y, default=None
        Known errors of the targets; None: there are none.
    """

    X: Array
    y: Array
    sizes: tuple[int, ...]
    weights: FloatArray | None = None
    y_std: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Summary:
    """What the coordinator needs to know of a shard.

    Parameters
    ----------
    n : int
        Rows.
    x, y : Moments
    target : Moments
        Of the targets, or of the frequencies of the classes.
    digest : str
        Of all rows.
    sizes : tuple of int
        Rows of each of its pieces.
    mean_weight : float
        Mean sample weight; 1 if there are none.
    """

    n: int
    x: Moments
    y: Moments
    target: Moments
    digest: str
    sizes: tuple[int, ...]
    mean_weight: float


def load_table(
    pieces: Sequence[Any],
    *,
    labels: Sequence[str],
    columns: Columns,
    counting: Counting,
    likelihood: Likelihood,
) -> Loaded:
    """Read and encode the pieces of a shard; rows of weight 0 are left out."""
    parts, options = [], []
    for piece, label in zip(pieces, labels, strict=True):
        with labelled(label):
            frame = frame_of(piece, label)
            counting.check(frame, columns.wanted.targets, columns.features)
            frame = counting.rows(frame)
            X, y = columns.encode(frame)
            parts.append((X, likelihood.encode(y)))
            options.append(counting.options(frame))
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    weights, y_std = (
        np.concatenate([own[k] for own in options]) if k in options[0] else None
        for k in ("sample_weight", "y_std")
    )
    return Loaded(X, y, tuple(len(own) for _, own in parts), weights, y_std)


def load_blocks(
    pieces: Sequence[Block], *, labels: Sequence[str], gaps: bool, likelihood: Likelihood
) -> Loaded:
    """Check and encode the blocks of a shard."""
    for block, label in zip(pieces, labels, strict=True):
        if len(block.X) == 0:
            raise no_rows(label)
        X = np.asarray(block.X, np.float64)
        bad = np.isinf(X) if gaps else ~np.isfinite(X)
        if bad.any():
            advice = "" if gaps else ', or give the estimator missing="marginalize" for gaps'
            raise ValueError(
                f"{label} of X contains {X[bad][0]}: leave out such rows, or correct them{advice}."
            )
        if block.y.dtype.kind == "f" and not np.isfinite(block.y).all():
            raise ValueError(f"{label} of y contains NaN or infinity: leave out such rows.")
    X = np.concatenate([np.asarray(block.X, np.float64) for block in pieces])
    y = likelihood.encode(np.concatenate([block.y for block in pieces]))
    return Loaded(X, y, tuple(len(block.X) for block in pieces))


def summarise(loaded: Loaded, likelihood: Likelihood) -> Summary:
    """Measure the rows of a shard."""
    n, y = len(loaded.y), loaded.y
    y_moments = measure(y.reshape(n, -1))
    target = y_moments
    if likelihood.task == "classification" and y.ndim == 1 and likelihood.n_outputs > 1:
        share = np.bincount(y.astype(np.int64), minlength=likelihood.n_outputs) / n
        zero, one = np.zeros_like(share), np.ones_like(share)
        target = Moments(np.full_like(share, n), zero, one, share, share * (1.0 - share))
    found = digest([loaded.X, y, loaded.weights, loaded.y_std])
    weight = 1.0 if loaded.weights is None else mean_weight_of(loaded.weights)
    return Summary(n, measure(loaded.X), y_moments, target, found, loaded.sizes, weight)


def with_relative_weights(loaded: Loaded, mean_weight: float) -> Loaded:
    """Return a shard with its weights in units of the mean over all shards."""
    if loaded.weights is None:
        return loaded
    return replace(loaded, weights=relative_weights(loaded.weights, mean_weight))


def ready(loaded: Loaded, plan: Plan, standardizer: Standardizer, seed: int, shard: int) -> Shard:
    """Return a shard as rounds take it."""
    if plan.likelihood.standardises_target:
        standardizer.check_y(loaded.y, plan.dtype)
    X, X_var = features(plan, standardizer, Inputs(loaded.X))
    y_std = loaded.y_std
    y_var = None if y_std is None else target_variance(plan, standardizer, y_std)
    rows = Rows(X, X_var, loaded.y, loaded.weights, y_var)
    return Shard(rows, shard_order(seed, shard, len(loaded.y)))


def between_shards(summaries: Sequence[Summary]) -> float:
    """Return the share of the variance of the target that lies between the shards."""
    parts = [summary.target for summary in summaries]
    whole = merged(parts)
    mean, variance = whole.mean * whole.unit, whole.variance * whole.unit**2
    between = np.sum([p.n / whole.n * (p.mean * p.unit - mean) ** 2 for p in parts], axis=0)
    varies = variance > 0.0
    return float(np.max(between[varies] / variance[varies], initial=0.0))


def warn_of_order(summaries: Sequence[Summary]) -> None:
    """Warn of shards whose targets differ, as those of files that are sorted by them do."""
    n = sum(summary.n for summary in summaries)
    share = between_shards(summaries)
    if share > _SORTED + 10.0 * len(summaries) / n:
        warnings.warn(
            f"{100.0 * share:.0f} % of the variance of the target lies between the "
            f"{len(summaries)} shards, as if the rows were sorted by it: the fit will be worse. "
            "Write the rows in random order, or in more and smaller files.",
            ShardWarning,
            stacklevel=4,
        )
