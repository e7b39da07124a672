"""The rows of a source, where epochs can take them: in memory if they fit, else in a scratch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np
from numpy.random import default_rng

from probprop._types import Array, FloatArray
from probprop.blocks.limits import RESERVED
from probprop.blocks.scratch import Scratch, check_parts_fit, scratch, shape_of
from probprop.blocks.source import Block, Looked, Source
from probprop.inference.checkpoint import digest
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Likelihood
from probprop.inference.plan import Plan
from probprop.inference.prediction import features
from probprop.inference.shards import Part, Rows
from probprop.inference.standardize import (
    Moments,
    Standardizer,
    check_target_scale,
    identity_standardizer,
    marginal,
    measure,
    merged,
    standardizer_of,
)

COPIES = 4
"""Of rows that are held, while they are put together and checked."""


@dataclass(frozen=True, eq=False)
class Held:
    """Rows in memory, in the order in which they came.

    Parameters
    ----------
    X : ndarray of shape (n, n_columns)
    y : ndarray of shape (n,) or (n, K)
        As they were given.
    """

    X: Array
    y: Array

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.X)


@dataclass(frozen=True, eq=False)
class Dealt:
    """Rows on disk.

    Parameters
    ----------
    scratch : Scratch
        Of rows of X and the targets as the likelihood encodes them.
    n_columns : int
        Of X.
    likelihood : Likelihood
    y_like : ndarray
        Encoded targets of some rows: their type, and whether a row has one or K.
    """

    scratch: Scratch
    n_columns: int
    likelihood: Likelihood
    y_like: Array

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.scratch.n

    def split(self, rows: FloatArray) -> tuple[FloatArray, Array]:
        """Return X and y of some rows."""
        y = rows[:, self.n_columns :]
        y = y[:, 0] if self.y_like.ndim == 1 else y
        return rows[:, : self.n_columns], y.astype(self.y_like.dtype)

    @cached_property
    def moments(self) -> tuple[Moments, Moments]:
        """Those of X and of the targets, summed in the order of the piles."""
        parts = [
            (measure(r[:, : self.n_columns]), measure(r[:, self.n_columns :]))
            for r in self.scratch.piles()
        ]
        x, y = (merged(each) for each in zip(*parts, strict=True))
        return x, y

    @cached_property
    def digest(self) -> str:
        """A digest of all rows."""
        each = (digest([rows]).encode() for rows in self.scratch.piles())
        return digest([np.frombuffer(text, np.uint8) for text in each])

    def standardizer(self, plan: Plan) -> Standardizer:
        """Return that of all rows; refuse what no network could be trained on."""
        x, y = self.moments
        if len(empty := np.flatnonzero(x.n == 0)):
            raise ValueError(
                f"X has no value at all in the column(s) {empty.tolist()}: nothing can be learned "
                "about them. Leave them out."
            )
        standardises = self.likelihood.standardises_target
        if plan.standardize:
            found = standardizer_of(x, y if standardises else None)
        else:
            n_targets = self.likelihood.n_outputs if standardises else 1
            found = identity_standardizer(self.n_columns, n_targets)
        if standardises:
            check_target_scale(found.y_scale)
            found.check_y(np.array([y.low, y.high]), plan.dtype)
        return found


@dataclass(frozen=True, eq=False)
class DealtShard:
    """Rows on disk as the only shard of a training, an epoch of which has the parts of the file."""

    rows: Dealt
    plan: Plan
    standardizer: Standardizer

    def part(self, part: Part) -> Rows:
        """Return the rows that are absorbed in one round."""
        X, y = self.rows.split(self.rows.scratch.part(part.seed, part.n_iter, part.n_round))
        entries, X_var = features(self.plan, self.standardizer, Inputs(X))
        return Rows(entries, X_var, y)


@dataclass(frozen=True, eq=False)
class Deal:
    """What became of the rows of a source.

    Parameters
    ----------
    rows : Held or Dealt
        To train on.
    likelihood : Likelihood
    held_out : Held or None
        Rows to judge the model on.
    """

    rows: Held | Dealt
    likelihood: Likelihood
    held_out: Held | None

    @property
    def baseline(self) -> tuple[tuple[float, float], ...]:
        """Mean and standard deviation of each target; empty for classes."""
        if not self.likelihood.standardises_target:
            return ()
        if isinstance(self.rows, Held):
            return marginal(measure(self.rows.y.reshape(self.rows.n, -1)))
        return marginal(self.rows.moments[1])


@contextmanager
def dealt(
    source: Source, limit: int, seed: int, *, test_share: float = 0.0, most_test: int = 0
) -> Iterator[Deal]:
    """Read all rows of a source, within a memory limit; yield them.

    Parameters
    ----------
    source : Source
    limit : int
        Bytes of memory that the process may take.
    seed : int
        Draws the rows that are held out, and the piles of the others.
    test_share : float, default=0.0
        Share of the rows to hold out.
    most_test : int, default=0
        The most rows to hold out.
    """
    budget = limit - RESERVED
    looked = source.look(budget // COPIES)
    n, likelihood = looked.n, looked.likelihood
    most_test = min(most_test, budget // 8 // (8 * looked.n_columns))
    share = min(test_share, most_test / max(1, n))
    test = _Test(share, seed)
    shape = shape_of(n, looked.n_columns + looked.n_targets)
    if looked.held is not None or COPIES * shape.n_bytes <= budget:
        blocks = _same(source, looked) if looked.held is None else iter(looked.held)
        kept = [test.leave(block) for block in blocks if len(block.X)]
        yield Deal(_together(kept), likelihood, test.rows)
        return
    check_parts_fit(shape, budget)
    with scratch(shape, seed, budget) as file:
        y_like = np.zeros(0)
        for block in _same(source, looked):
            if len(block.X) == 0:
                continue
            left = test.leave(block)
            y_like = likelihood.encode(left.y)
            file.add(np.column_stack([left.X, y_like]).astype(np.float64, copy=False))
        file.finish()
        yield Deal(Dealt(file, looked.n_columns, likelihood, y_like[:0]), likelihood, test.rows)


class _Test:
    """Draws the rows that are held out."""

    def __init__(self, share: float, seed: int) -> None:
        self._share, self._random = share, default_rng((seed, 1))
        self._blocks: list[Block] = []

    def leave(self, block: Block) -> Block:
        """Return the rows of a block that are not held out."""
        if self._share == 0.0:
            return block
        out = self._random.random(len(block.X)) < self._share
        if out.any():
            self._blocks.append(Block(block.label, block.X[out], block.y[out]))
        return Block(block.label, block.X[~out], block.y[~out])

    @property
    def rows(self) -> Held | None:
        """Those held out."""
        return _together(self._blocks) if self._blocks else None


def _together(blocks: list[Block]) -> Held:
    if len(blocks) == 1:
        return Held(blocks[0].X, blocks[0].y)
    return Held(np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks]))


def _same(source: Source, looked: Looked) -> Iterator[Block]:
    """Go through the blocks again; refuse those that are not what they were."""
    for before, block in zip_longest(looked.sizes, source.read()):
        if before is None:
            raise ValueError(f"{block.label} was not there in the first pass: {_ADVICE}.")
        label, n = before
        if block is None:
            raise ValueError(f"{label} is gone in the second pass: {_ADVICE}.")
        if (block.label, len(block.X)) != (label, n):
            raise ValueError(
                f"{label} had {n:,} rows in the first pass, and {block.label} has "
                f"{len(block.X):,} in the second: {_ADVICE}."
            )
        yield block


_ADVICE = "leave the rows as they are while they are read"
