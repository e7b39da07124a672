"""The folds of shards: which rows of a shard a network learns, seen as its candidate sees them.

The rows of a shard are shuffled once, by the seed, and dealt in turn. So every fold, and every
beginning of that order, is a random sample of the shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probprop._types import Array
from probprop.dask.shards import Loaded, Summary
from probprop.distributions.power import BoxCox
from probprop.encoding.bounds import InputBounds
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.cv.folds import encoded
from probprop.estimators.cv.missing import Completed, Joint, complete
from probprop.inference.plan import Plan
from probprop.inference.prediction import features
from probprop.inference.shards import Part, Rows, shard_order
from probprop.inference.standardize import Moments, Standardizer, measure, merged

_BLOCK = 1 << 14  # rows that are encoded at a time


@dataclass(frozen=True)
class Dealt:
    """How the rows of all shards are dealt into folds.

    Parameters
    ----------
    seed : int
    n_folds : int
    """

    seed: int
    n_folds: int

    def order(self, shard: int, n: int) -> Array:
        """Return the n rows of a shard in random order; the one at place p is of fold p mod K."""
        return shard_order(self.seed, shard, n)

    def learned(self, shard: int, n: int, fold: int) -> Array:
        """Return the rows that the network of a fold learns, in random order."""
        learned: Array = self.order(shard, n)[np.arange(n) % self.n_folds != fold]
        return learned

    def n_learned(self, n: int, fold: int) -> int:
        """Return how many these are."""
        return n - len(range(fold, n, self.n_folds))


class Drawn(NamedTuple):
    """A sample of rows.

    Parameters
    ----------
    X, y : ndarray
        As in `Loaded`.
    fold : ndarray of int
        Of each row.
    row : ndarray of int
        Their places in the shard, or among all rows.
    weights : ndarray of shape (n,)
    """

    X: Array
    y: Array
    fold: Array
    row: Array
    weights: Array


def draw(loaded: Loaded, dealt: Dealt, shard: int, n: int) -> Drawn:
    """Draw n rows of a shard."""
    rows = dealt.order(shard, len(loaded.y))[:n]
    weights = np.ones(n) if loaded.weights is None else loaded.weights[rows]
    return Drawn(loaded.X[rows], loaded.y[rows], np.arange(n) % dealt.n_folds, rows, weights)


def sample_sizes(sizes: Sequence[int], n: int) -> list[int]:
    """Return how many of n rows each shard gives: its share of all rows.

    >>> sample_sizes([10, 30, 60], 10), sample_sizes([2, 3], 10)
    ([1, 3, 6], [2, 3])
    """
    ends = np.cumsum([0, *sizes])
    drawn: list[int] = np.diff(np.rint(ends * min(1.0, n / ends[-1])).astype(int)).tolist()
    return drawn


def row_numbers(summaries: Sequence[Summary]) -> list[Array]:
    """Return the number of every row of each shard among all rows, in the order of the pieces.

    Shards have the pieces in turn.
    """
    n = len(summaries)
    n_pieces = sum(len(summary.sizes) for summary in summaries)
    sizes = [summaries[i % n].sizes[i // n] for i in range(n_pieces)]
    starts = np.cumsum([0, *sizes])
    return [
        np.concatenate([np.arange(starts[i], starts[i + 1]) for i in range(k, n_pieces, n)])
        for k in range(n)
    ]


@dataclass(frozen=True, eq=False)
class View:
    """How a candidate sees rows.

    Parameters
    ----------
    plan : Plan
    bounds : InputBounds
    encoding : PiecewiseLinear or None
    transformation : BoxCox or None
        Of the targets.
    joint : Joint or None
        Completes missing values.
    """

    plan: Plan
    bounds: InputBounds
    encoding: PiecewiseLinear | None
    transformation: BoxCox | None
    joint: Joint | None

    def X(self, rows: Array) -> Array:
        """Return encoded rows, bounded before."""
        return encoded(self.bounds.apply(rows), self.encoding, self.plan.dtype)

    def y(self, y: Array) -> Array:
        """Return targets on its scale."""
        return y if self.transformation is None else self.transformation.forward(y)


class FoldMoments(NamedTuple):
    """What the rows of a fold in a shard are like, as a candidate sees them."""

    x: Moments
    y: Moments


def measure_folds(loaded: Loaded, dealt: Dealt, shard: int, view: View) -> list[FoldMoments | None]:
    """Measure the rows of every fold of a shard, some at a time; None: there are none."""
    order, found = dealt.order(shard, len(loaded.y)), list[FoldMoments | None]()
    for fold in range(dealt.n_folds):
        rows = order[fold :: dealt.n_folds]
        blocks = [rows[i : i + _BLOCK] for i in range(0, len(rows), _BLOCK)]
        x = [measure(view.X(loaded.X[block])) for block in blocks]
        y = [measure(view.y(loaded.y[block]).reshape(len(block), -1)) for block in blocks]
        found.append(FoldMoments(merged(x), merged(y)) if blocks else None)
    return found


@dataclass(frozen=True, eq=False)
class FoldShard:
    """The rows of a shard that the network of a fold learns; encoded when they are asked for.

    Parameters
    ----------
    loaded : Loaded
        All rows of the shard.
    order : ndarray of int
        Those that are learned, shuffled.
    view : View
    standardizer : Standardizer
        Of all rows that this network learns.
    completed : Completed
        All rows of the shard, not encoded.
    """

    loaded: Loaded
    order: Array
    view: View
    standardizer: Standardizer
    completed: Completed

    def part(self, part: Part) -> Rows:
        """Return the rows that are absorbed in one round."""
        rows, view = self.order[part.places(len(self.order))], self.view
        own = self.completed[rows]
        inputs = own.inputs(view.X(own.X), view.X)
        entries, X_var = features(view.plan, self.standardizer, inputs)
        weights = None if self.loaded.weights is None else self.loaded.weights[rows]
        return Rows(entries, X_var, view.y(self.loaded.y[rows]), weights)


def fold_shard(
    loaded: Loaded, dealt: Dealt, shard: int, fold: int, view: View, standardizer: Standardizer
) -> FoldShard:
    """Return what the network of a fold learns in a shard."""
    if view.plan.likelihood.standardises_target:
        standardizer.check_y(view.y(loaded.y), view.plan.dtype)
    learned = dealt.learned(shard, len(loaded.y), fold)
    return FoldShard(loaded, learned, view, standardizer, complete(loaded.X, view.joint))
