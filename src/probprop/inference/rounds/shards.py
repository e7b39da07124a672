"""What one shard does in a round: absorb some of its rows from the q that all begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Memory, Posterior, flat
from probprop.inference.rounds.schedule import Part
from probprop.inference.standardize import Standardizer
from probprop.inference.task import Task, Watch
from probprop.reference.likelihoods import PointLikelihood


class Rows(NamedTuple):
    """Rows with their targets and how they count, as in a `Task`."""

    X: Array
    X_var: Array | None
    y: Array
    weights: FloatArray | None = None
    y_var: FloatArray | None = None

    def at(self, places: Array) -> Rows:
        """Return some of them, copied."""
        fields: list[Any] = [None if a is None else a[places] for a in self]
        return Rows(*fields)


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several parts, one after the other.

    Where one part has variances of its inputs, the entries of the others are known.
    """
    if any(part.X_var is not None for part in parts):
        known = (np.zeros(part.X.shape) if part.X_var is None else part.X_var for part in parts)
        parts = [part._replace(X_var=X_var) for part, X_var in zip(parts, known, strict=True)]
    fields: list[Any] = [
        None if f[0] is None else np.concatenate(f) for f in zip(*parts, strict=True)
    ]
    return Rows(*fields)


class HasParts(Protocol):
    """A share of the rows, whatever it is made of."""

    def part(self, part: Part) -> Rows:
        """Return the rows that are absorbed in one round."""


@dataclass(frozen=True, eq=False)
class Shard:
    """A share of the rows, in memory.

    Parameters
    ----------
    rows : Rows
        Of this shard, or of all of them.
    order : ndarray of int, shape (n,)
        Which rows are those of this shard, shuffled.
    """

    rows: Rows
    order: Array

    def part(self, part: Part) -> Rows:
        """Return the rows that are absorbed in one round."""
        return self.rows.at(self.order[part.places(len(self.order))])


@dataclass(frozen=True, eq=False)
class Work:
    """What a shard is asked to do in a round.

    Parameters
    ----------
    part : Part
        The rows to absorb.
    posterior : Posterior
        The q that all shards begin with.
    standardizer : Standardizer
        Of all rows.
    likelihood : PointLikelihood
    engine : str
        A key of `ENGINES`.
    memory : Memory or None
        The bound on the evidence, that of all rows.
    watch : Watch or None
        How the network of the noise learns in this round, if there is one.
    tail_rate : float
        How far the round moves the tails of the noise.
    """

    part: Part
    posterior: Posterior
    standardizer: Standardizer
    likelihood: PointLikelihood
    engine: str
    memory: Memory | None
    watch: Watch | None
    tail_rate: float


class Weights(NamedTuple):
    """What a shard made of a network: flat means and variances of its weights, and the tails."""

    m_w: Array
    v_w: Array
    tail: FloatArray

    @classmethod
    def of(cls, posterior: Posterior) -> Weights:
        """Return those of a network."""
        return cls(flat(posterior.m_w), flat(posterior.v_w), posterior.tail)


class Absorbed(NamedTuple):
    """What became of q in one shard, and what was observed there.

    Parameters
    ----------
    network : Weights
    alpha_noise, beta_noise : ndarray of shape (K,)
    noise : Weights or None
        Of the network of the noise.
    n_points : int
    log_Z_sum : float
    counts : ndarray of shape (4,)
        As in `Records`.
    """

    network: Weights
    alpha_noise: FloatArray
    beta_noise: FloatArray
    noise: Weights | None
    n_points: int
    log_Z_sum: float
    counts: Array


def take(shard: HasParts, work: Work) -> Rows:
    """Return the rows of a part: the warm-up absorbs those of all shards together."""
    return shard.part(work.part)


def absorb(shard: HasParts, work: Work) -> Absorbed:
    """Absorb the rows of a part. A pure function: whoever calls it gets the same bits."""
    return absorb_rows(shard.part(work.part), work)


def absorb_rows(rows: Rows, work: Work) -> Absorbed:
    """Absorb rows in the order given."""
    task = Task(
        posterior=work.posterior,
        X=rows.X,
        X_var=rows.X_var,
        y=rows.y,
        standardizer=work.standardizer,
        likelihood=work.likelihood,
        memory=work.memory,
        refine=np.array([False]),
        watch=work.watch,
        weights=rows.weights,
        y_var=rows.y_var,
        tail_rate=None if work.tail_rate == 0.0 else np.array([work.tail_rate]),
    )
    (trained,), interrupt = ENGINES[work.engine].train([task])
    if interrupt is not None:
        raise interrupt
    q, records = trained
    return Absorbed(
        network=Weights.of(q),
        alpha_noise=q.alpha_noise,
        beta_noise=q.beta_noise,
        noise=None if q.noise_network is None else Weights.of(q.noise_network),
        n_points=len(rows.y),
        log_Z_sum=float(records.log_Z_sums.sum()),
        counts=records.counts[0],
    )
