"""Which rows each shard absorbs in which round, decided by the seed alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from numpy.random import SeedSequence, default_rng

from probprop._types import Array

FEWEST_ROUNDS = 16
"""The fewest rounds of an epoch for each hidden layer: the more, the closer to one pass.

What a shard learns about one layer presumes the others as they were at the start of the round.
"""
_WARM_UP = 2000  # rows that are absorbed one after the other before the first round
_FEWEST_IN_PART = 8  # rows of a shard in the first round


class Part(NamedTuple):
    """The rows of one shard that are absorbed in one round.

    Parameters
    ----------
    shard : int
    start, stop : int
        Places in the epoch of this shard, from 0 to its number of rows.
    seed : int
        Of the whole training.
    n_iter : int
        The epoch, counted from 1.
    n_round : int
        The round in it, counted from 0.
    """

    shard: int
    start: int
    stop: int
    seed: int
    n_iter: int
    n_round: int

    def places(self, n: int) -> Array:
        """Return which of the n rows of the shard are absorbed, in this order.

        Every epoch begins elsewhere in the shard, and every part is shuffled anew.

        Examples
        --------
        >>> import numpy as np
        >>> parts = [Part(0, *ends, seed=7, n_iter=2, n_round=0) for ends in [(0, 2), (2, 5)]]
        >>> np.sort(np.concatenate([part.places(5) for part in parts]))
        array([0, 1, 2, 3, 4])
        """
        begins = int(SeedSequence((self.seed, self.n_iter, self.shard)).generate_state(1)[0]) % n
        drawn = default_rng((self.seed, self.n_iter, self.shard, 1 + self.n_round))
        return (begins + self.start + drawn.permutation(self.stop - self.start)) % n


def shard_order(seed: int, shard: int, n: int) -> Array:
    """Return the order in which a shard has its n rows, (n,): parts of it are random samples."""
    return default_rng((seed, 0, shard, 0)).permutation(n)


@dataclass(frozen=True)
class Schedule:
    """The rounds of a training.

    Parameters
    ----------
    sizes : tuple of int
        Rows of each shard, at least 1.
    n_rounds : int
        Of an epoch; the first has more, which grow.
    seed : int
    """

    sizes: tuple[int, ...]
    n_rounds: int
    seed: int

    @property
    def n(self) -> int:
        """All rows."""
        return sum(self.sizes)

    @property
    def n_shards(self) -> int:
        """The number of shards, K."""
        return len(self.sizes)

    @cached_property
    def first_ends(self) -> tuple[float, ...]:
        """The shares of the first epoch at which its rounds end; round 0 is the warm-up.

        A round has at most 1/n_rounds of the rows absorbed before it: what q believes after few
        rows is not worth acting upon K times at once.
        """
        fewest = max(_WARM_UP, _FEWEST_IN_PART * self.n_shards * self.n_rounds)
        ends = [min(1.0, fewest / self.n)]
        while ends[-1] < 1.0:
            end = ends[-1] * (1.0 + 1.0 / self.n_rounds)
            # A last round of a few rows would be none at all for most shards.
            ends.append(end if end < 1.0 - 0.5 * (end - ends[-1]) else 1.0)
        return tuple(ends)

    def ends(self, n_iter: int) -> tuple[float, ...]:
        """Return the shares of an epoch, counted from 1, at which its rounds end.

        Examples
        --------
        >>> Schedule((4000, 4000), 4, seed=0).ends(1)
        (0.25, 0.3125, 0.390625, 0.48828125, 0.6103515625, 0.762939453125, 1.0)
        >>> Schedule((4000, 4000), 4, seed=0).ends(2)
        (0.25, 0.5, 0.75, 1.0)
        """
        if n_iter == 1:
            return self.first_ends
        n_rounds = min(self.n_rounds, max(self.sizes))  # a round without any row would be none
        return tuple(t / n_rounds for t in range(1, n_rounds + 1))

    def is_warm_up(self, n_iter: int, n_round: int) -> bool:
        """Whether the rows of this round are absorbed one after the other, without shards."""
        return (n_iter, n_round) == (1, 0)

    def parts(self, n_iter: int, n_round: int) -> list[Part]:
        """Return what the shards absorb in a round; a shard without rows has no part in it."""
        ends = (0.0, *self.ends(n_iter))
        made = []
        for shard, n in enumerate(self.sizes):
            start, stop = (round(end * n) for end in ends[n_round : n_round + 2])
            if start < stop:
                made.append(Part(shard, start, stop, self.seed, n_iter, n_round))
        return made


def usual_rounds(n_shards: int, n_hidden: int) -> int:
    """Return the rounds of an epoch, if nobody says otherwise.

    Parameters
    ----------
    n_shards : int
    n_hidden : int
        Hidden layers of the network.

    Examples
    --------
    >>> usual_rounds(8, 1), usual_rounds(8, 2), usual_rounds(64, 2)
    (16, 32, 64)
    """
    return max(FEWEST_ROUNDS * max(1, n_hidden), n_shards)
