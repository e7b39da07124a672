"""Rows that wait for a training: all in memory, on disk in one shard, or on a cluster in several.

Rows in memory are for the estimator's own `fit`. The others are measured shard by shard (on disk,
pile by pile), and a training takes them by parts of an epoch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.random import default_rng

from probprop._types import Array, FloatArray
from probprop.data.scratch import RESERVED, Scratch, check_parts_fit, in_words, scratch, shape_of
from probprop.data.sources import Loaded, Piece, Schema, Source, joined
from probprop.distributions.power import BoxCox
from probprop.encoding.bounds import InputBounds
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.cv.folds import MOST_RAMPS, encoded
from probprop.estimators.cv.missing import Completed, Joint, complete
from probprop.estimators.data import mean_weight_of, relative_weights
from probprop.inference.checkpoint import digest
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Likelihood
from probprop.inference.plan import Plan
from probprop.inference.prediction import features
from probprop.inference.shards import (
    HasParts,
    MapShards,
    Part,
    Rows,
    Shard,
    in_threads,
    shard_order,
)
from probprop.inference.standardize import (
    Moments,
    Standardizer,
    check_target_scale,
    identity_standardizer,
    measure,
    merged,
    standardizer_of,
)
from probprop.inference.training import target_variance

COPIES = 4
"""Copies of rows that are held in memory, while they are put together and checked."""
_CELL = 8  # bytes of a number
_BINS = (4, 8, 16, 32, 64)  # of a feature, in the encodings that are compared
_COPIES_OF_SAMPLE = 5  # encoded, in the folds, and standardized: measured
_SORTED = 0.05  # the share of the variance of the target between shards that is worth a warning


class ShardWarning(UserWarning):
    """The shards have different targets, which makes the fit worse."""


# ---- What is known of a shard


@dataclass(frozen=True, eq=False)
class Summary:
    """What a training needs to know of the rows of a shard, or of a pile."""

    shard: int  # its number
    n: int  # rows
    x: Moments
    y: Moments
    target: Moments  # of the targets, or of the frequencies of the classes
    sizes: tuple[int, ...]  # rows of each piece
    mean_weight: float  # 1 if there are no weights


def summarize(loaded: Loaded, k: int, likelihood: Likelihood) -> Summary:
    """Measure the rows of shard k, whose targets are encoded."""
    n, y = len(loaded.y), loaded.y
    y_moments = measure(y.reshape(n, -1))
    target = y_moments
    if likelihood.task == "classification" and y.ndim == 1 and likelihood.n_outputs > 1:
        share = np.bincount(y.astype(np.int64), minlength=likelihood.n_outputs) / n
        zero, one = np.zeros_like(share), np.ones_like(share)
        target = Moments(np.full_like(share, n), zero, one, share, share * (1.0 - share))
    weight = 1.0 if loaded.weights is None else mean_weight_of(loaded.weights)
    return Summary(k, n, measure(loaded.X), y_moments, target, loaded.sizes, weight)


def between_shards(summaries: Sequence[Summary]) -> float:
    """Return the share of the variance of the target that lies between the shards."""
    parts = [summary.target for summary in summaries]
    whole = merged(parts)
    mean, variance = whole.mean * whole.unit, whole.variance * whole.unit**2
    between = np.sum([p.n / whole.n * (p.mean * p.unit - mean) ** 2 for p in parts], axis=0)
    varies = variance > 0.0
    return float(np.max(between[varies] / variance[varies], initial=0.0))


def warn_of_order(summaries: Sequence[Summary]) -> None:
    """Warn of shards whose targets differ, as if the files were sorted by the target."""
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


# ---- What a network learns of a shard


@dataclass(frozen=True)
class Folds:
    """How the rows of all shards, or piles, are assigned to folds.

    The rows of a shard are shuffled once, by the seed, and the one at place p is of fold p mod
    `n_folds`. So every fold, and every beginning of that order, is a random sample of the shard.
    """

    seed: int
    n_folds: int

    def order(self, shard: int, n: int) -> Array:
        """Return the n rows of a shard in random order."""
        return shard_order(self.seed, shard, n)

    def learned(self, shard: int, n: int, fold: int) -> Array:
        """Return the rows that the network of a fold learns, in random order."""
        learned: Array = self.order(shard, n)[np.arange(n) % self.n_folds != fold]
        return learned

    def n_learned(self, n: int, fold: int) -> int:
        """Return the number of these rows."""
        return n - len(range(fold, n, self.n_folds))


@dataclass(frozen=True, eq=False)
class View:
    """How a network sees rows: bounded, encoded and transformed; by default as they are."""

    plan: Plan
    bounds: InputBounds | None = None
    encoding: PiecewiseLinear | None = None
    transformation: BoxCox | None = None  # of the targets
    joint: Joint | None = None  # completes missing values

    def X(self, rows: Array) -> Array:
        """Return encoded rows, bounded before."""
        rows = rows if self.bounds is None else self.bounds.apply(rows)
        return encoded(rows, self.encoding, self.plan.dtype)

    def y(self, y: Array) -> Array:
        """Return targets on its scale."""
        return y if self.transformation is None else self.transformation.forward(y)

    def rows(
        self, loaded: Loaded, standardizer: Standardizer, completed: Completed | None = None
    ) -> Rows:
        """Return rows as a training takes them; with `completed` they are completed already."""
        inputs = Inputs(self.X(loaded.X))
        if self.joint is not None:
            completed = completed or complete(loaded.X, self.joint)
            inputs = completed.inputs(inputs.X, self.X)
        entries, X_var = features(self.plan, standardizer, inputs)
        y_std = loaded.y_std
        y_var = None if y_std is None else target_variance(self.plan, standardizer, y_std)
        return Rows(entries, X_var, self.y(loaded.y), loaded.weights, y_var)


@dataclass(frozen=True, eq=False)
class Learner:
    """One network of a training: how it sees rows, and which of them it learns."""

    view: View
    standardizer: Standardizer  # of all rows that it learns
    seed: int
    folds: Folds | None = None  # None: it learns all rows
    fold: int = -1  # whose rows it does not learn

    def n_learned(self, n: int) -> int:
        """Return how many of the n rows of a shard it learns."""
        return n if self.folds is None else self.folds.n_learned(n, self.fold)

    def learned(self, shard: int, n: int) -> Array:
        """Return which of the n rows of a shard it learns, in random order."""
        assert self.folds is not None
        return self.folds.learned(shard, n, self.fold)

    def shard(self, loaded: Loaded, k: int) -> HasParts:
        """Return what it learns of shard k."""
        n = len(loaded.y)
        if self.folds is not None:
            return FoldShard(loaded, self.learned(k, n), self, complete(loaded.X, self.view.joint))
        return Shard(self.view.rows(loaded, self.standardizer), shard_order(self.seed, k, n))


@dataclass(frozen=True, eq=False)
class FoldShard:
    """The rows of a shard that the network of a fold learns; encoded when they are asked for."""

    loaded: Loaded  # all rows of the shard
    order: Array  # (n,), those that are learned, shuffled
    learner: Learner
    completed: Completed  # all rows of the shard, not encoded

    def part(self, part: Part) -> Rows:
        """Return the rows that are absorbed in one round."""
        rows, learner = self.order[part.places(len(self.order))], self.learner
        loaded, completed = self.loaded[rows], self.completed[rows]
        return learner.view.rows(loaded, learner.standardizer, completed)


# ---- What is known of all shards


def n_rows(summaries: Sequence[Summary]) -> int:
    """Return the number of all rows."""
    return sum(summary.n for summary in summaries)


def mean_weight(summaries: Sequence[Summary]) -> float:
    """Return the mean sample weight of all rows, 1 if there are none."""
    if all(summary.mean_weight == 1.0 for summary in summaries):
        return 1.0
    n = n_rows(summaries)
    return sum(summary.n / n * summary.mean_weight for summary in summaries)


def digest_of(rows: Any) -> str:
    """Return a digest of all rows, and of how they are assigned to shards or piles."""
    return digest([np.frombuffer(each.encode(), np.uint8) for each in rows.map(shard_digest)])


def shard_digest(loaded: Loaded, k: int) -> str:
    """Return a digest of the rows of a shard."""
    return digest([loaded.X, loaded.y, loaded.weights, loaded.y_std])


def standardizer_of_all(summaries: Sequence[Summary], plan: Plan) -> Standardizer:
    """Return the standardizer of all rows; refuse what no network could be trained on.

    The moments are summed in the order of the shards, or piles.
    """
    x, y = merged([s.x for s in summaries]), merged([s.y for s in summaries])
    if len(empty := np.flatnonzero(x.n == 0)):
        raise ValueError(
            f"X has no value at all in the column(s) {empty.tolist()}: nothing can be learned "
            "about them. Leave them out."
        )
    likelihood = plan.likelihood
    if plan.standardize:
        found = standardizer_of(x, y if likelihood.standardises_target else None)
    else:
        n_targets = likelihood.n_outputs if likelihood.standardises_target else 1
        found = identity_standardizer(len(x.n), n_targets)
    if likelihood.standardises_target:
        check_target_scale(found.y_scale)
        found.check_y(np.array([y.low, y.high]), plan.dtype)
    return found


# ---- Rows on this machine. `ClusterRows` has the attributes and methods of `DiskRows`.


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """All rows in memory, in the order in which they came, with the targets as given."""

    schema: Schema
    loaded: Loaded
    held_out: Any = None


@dataclass(frozen=True, eq=False)
class DiskRows:
    """All rows on disk: one shard, of which an epoch takes a part after the other."""

    schema: Schema
    scratch: Scratch  # X, y as the likelihood encodes it, sample weights, known errors
    like: Loaded  # no rows: their types, and what they have
    held_out: Any = None
    weight_unit: float | None = None  # None: weights are as given

    def loaded(self, rows: FloatArray) -> Loaded:
        """Return rows of the file, (n, n_numbers), as they were loaded."""
        like, at = self.like, self.schema.n_features
        n_targets = like.y.shape[1] if like.y.ndim == 2 else 1
        y = rows[:, at : at + n_targets]
        y = (y[:, 0] if like.y.ndim == 1 else y).astype(like.y.dtype)
        weights = y_std = None
        at += n_targets
        if like.weights is not None:
            weights, at = np.ascontiguousarray(rows[:, at]), at + 1
            if self.weight_unit is not None and len(rows):
                weights = relative_weights(weights, self.weight_unit)
        if like.y_std is not None:
            y_std = rows[:, at] if like.y_std.ndim == 1 else rows[:, at:]
        return Loaded(rows[:, : self.schema.n_features], y, weights, y_std, (len(rows),))

    @cached_property
    def summaries(self) -> list[Summary]:
        """What is known of each pile that has rows."""
        return self.map(summarize, self.schema.likelihood)

    @property
    def settings(self) -> dict[str, str]:
        """What besides the estimator decides the result."""
        return {"training in parts (out of core)": str(self.scratch.shape.n_parts)}

    def map(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function with each pile that has rows."""
        return [call(self.loaded(rows), k, *arguments) for k, rows in self.scratch.piles()]

    def numbers(self, places: Sequence[Array]) -> list[Array]:
        """Return the numbers, among all rows, of rows at these places of each pile with rows."""
        own = iter(places)
        sizes = self.scratch.sizes
        every = [next(own) if n else np.zeros(0, int) for n in sizes]
        found = self.scratch.numbers(every)
        return [numbers for numbers, n in zip(found, sizes, strict=True) if n]

    def with_relative_weights(self) -> DiskRows:
        """Return the rows with weights in units of their mean."""
        made = replace(self, weight_unit=mean_weight(self.summaries))
        made.__dict__["summaries"] = self.summaries  # of the weights as given
        return made

    def n_rounds(self, n_hidden: int) -> int:
        """Return the parts of an epoch."""
        return self.scratch.shape.n_parts

    def sizes(self, learner: Learner) -> tuple[int, ...]:
        """Return the number of rows that a network learns."""
        return (sum(learner.n_learned(summary.n) for summary in self.summaries),)

    def mapped(self, learner: Learner) -> MapShards:
        """Return the map over the one shard."""
        return in_threads([DiskShard(self, learner)], 1)

    def advance(self) -> None:
        """Leave the candidates to threads of this process."""


@dataclass(frozen=True, eq=False)
class DiskShard:
    """All rows on disk that a network learns."""

    rows: DiskRows
    learner: Learner

    def part(self, part: Part) -> Rows:
        """Return the rows of one part of an epoch."""
        learner = self.learner
        chosen = None if learner.folds is None else learner.learned
        found = self.rows.scratch.part(part.seed, part.n_iter, part.n_round, chosen)
        return learner.view.rows(self.rows.loaded(found), learner.standardizer)


# ---- From a source to rows on this machine


def sample_sizes(sizes: Sequence[int], n: int) -> list[int]:
    """Return how many of n rows each shard gives: its share of all rows.

    >>> sample_sizes([10, 30, 60], 10), sample_sizes([2, 3], 10)
    ([1, 3, 6], [2, 3])
    """
    ends = np.cumsum([0, *sizes])
    drawn: list[int] = np.diff(np.rint(ends * min(1.0, n / ends[-1])).astype(int)).tolist()
    return drawn


class Kept(NamedTuple):
    """Which rows are held out of a fit, to judge it on."""

    share: float = 0.0  # of all rows
    most: int = 0  # rows


NONE_KEPT = Kept()


@contextmanager
def read_here(
    source: Source, limit: int | None, seed: int, *, test: Kept = NONE_KEPT, n_sample: int = 0
) -> Iterator[MemoryRows | DiskRows]:
    """Read all rows of a source within a limit, in bytes of memory of this process; yield them.

    The seed draws the rows that are held out and the piles of the others. With `n_sample` above 0
    hyperparameters are chosen on so many rows, and all rows are learned in an encoding, which is
    wider. A limit of None keeps all rows in memory.
    """
    budget = np.inf if limit is None else limit - RESERVED
    surveys, held, n_bytes = list[Any](), list[Piece](), 0
    for piece in source.pieces(None):
        surveys.append(found := source.reader.survey(piece.rows, piece.label))
        n_bytes += _CELL * getattr(found, "n_numbers", 0) * found.n
        held.append(piece)
        # Files are read again, with the kinds of their columns; so are blocks above the limit.
        if not (source.in_memory or (hasattr(found, "n_numbers") and COPIES * n_bytes <= budget)):
            held.clear()
    schema = source.reader.agree(surveys)
    n = sum(each.n for each in surveys)
    n_wide = _n_encoded(schema.n_features) if n_sample else 0
    shape = shape_of(n, schema.n_numbers, n_wide)
    most_test = int(min(test.most, budget / 8 / (_CELL * schema.n_features)))
    pieces = iter(held) if len(held) == len(surveys) else source.pieces(schema)
    share, held_out = min(test.share, most_test / max(1, n)), list[Any]()
    parts = _left(schema, share, seed, pieces, surveys, held_out)
    if COPIES * shape.n_bytes + _CELL * n * n_wide <= budget:
        loaded = joined([part for part in parts if len(part.X)])
        yield MemoryRows(schema, loaded, _joined_frames(held_out))
        return
    check_parts_fit(shape, int(budget))
    needed = _COPIES_OF_SAMPLE * _CELL * min(n, n_sample) * n_wide
    if needed > budget:
        raise ValueError(
            f"the memory limit is too small for cross-validation with {schema.n_features} "
            f"features: give at least {in_words(RESERVED + needed)}, or fit one network."
        )
    with scratch(shape, seed, int(budget)) as file:
        like = Loaded(np.zeros((0, schema.n_features)), np.zeros(0))
        for part in parts:
            if len(part.X):
                like = replace(part, y=schema.likelihood.encode(part.y))
                file.add(_stacked(like))
        file.finish()
        yield DiskRows(schema, file, like[np.arange(0)], _joined_frames(held_out))


def _n_encoded(n_features: int) -> int:
    """Return the numbers of 8 bytes that an encoded row of single precision takes, at most."""
    bins = [n for n in _BINS if n * n_features <= MOST_RAMPS]
    return (n_features + max(bins, default=0) * n_features + 1) // 2


def _stacked(rows: Loaded) -> FloatArray:
    parts = [a for a in (rows.X, rows.y, rows.weights, rows.y_std) if a is not None]
    return np.column_stack(parts).astype(np.float64, copy=False)


def _left(
    schema: Schema,
    share: float,
    seed: int,
    pieces: Iterator[Piece],
    surveys: Sequence[Any],
    held_out: list[Any],
) -> Iterator[Loaded]:
    """Yield the rows of each piece that are not held out, and append a frame of the others.

    Pieces that have changed since they were surveyed are refused.
    """
    random = default_rng((seed, 1))
    for before, piece in zip_longest(surveys, pieces):
        if before is None:
            raise ValueError(f"{piece.label} was not there in the first pass: {_ADVICE}.")
        if piece is None:
            raise ValueError(f"{before.label} is gone in the second pass: {_ADVICE}.")
        rows, n_out = piece.rows, 0
        if share > 0.0:
            frame = schema.reader.rows(piece.rows, piece.label)
            out = random.random(len(frame)) < share
            held_out.append(frame[out])
            rows, n_out = frame[~out], int(out.sum())
        loaded = schema.load(rows, piece.label)
        n = len(loaded.X) + n_out
        if (piece.label, n) != (before.label, before.n):
            raise ValueError(
                f"{before.label} had {before.n:,} rows in the first pass, and {piece.label} "
                f"has {n:,} in the second: {_ADVICE}."
            )
        yield loaded


def _joined_frames(frames: Sequence[Any]) -> Any:
    """Return frames as one, None if they have no rows."""
    if not any(map(len, frames)):
        return None
    import pandas as pd  # arrays do without it

    return pd.concat([frame for frame in frames if len(frame)], ignore_index=True)


_ADVICE = "leave the rows as they are while they are read"
