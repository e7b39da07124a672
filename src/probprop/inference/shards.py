"""One training shared by shards of the rows: threads, a disk, processes or machines.

In a round every shard absorbs its next rows from the same q, then the q of all shards are combined
into one, the beginning of the next round. Rows in memory are one shard in one part, rows on disk
one shard in several parts, a cluster has K shards. Nothing here knows who does the work: a function
that maps over shards is given, and a plain loop, threads and Dask give the same bits.

Every shard k begins with the same q; after its rows its weights have the means m_k and the
precisions tau_k. Evidence adds up, so precisions and the Gamma of the noise do:

    tau'   = tau + sum_k (tau_k - tau)
    alpha' = alpha + sum_k (alpha_k - alpha),   beta' likewise.

Means do not: where weights are correlated, every shard corrects the same error, and K corrections
overshoot. Their average by precision is K times too slow where they do not agree by accident, so
it is carried on, with momentum b = (K - 1)/(K - 1/3) and clipped at one standard deviation:

    delta = sum_k tau_k (m_k - m) / sum_k tau_k
    u'    = clip(b u + delta, -1/sqrt(tau'), 1/sqrt(tau'))
    m'    = m + delta + b u'.

Precisions stay at or above the least of tau, all tau_k and the prior factor's. With one shard all
of it is the q of the shard, which is taken as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.random import RandomState, SeedSequence, default_rng

from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Samples, stacked
from probprop.inference.noise import noise_schedule
from probprop.inference.plan import Plan
from probprop.inference.posterior import LAYERED, Posterior, cut, flat
from probprop.inference.standardize import Standardizer
from probprop.inference.task import INFORMATIVE_RATIO, ONCE_INFORMATIVE_RATIO, Task

Item = TypeVar("Item")
Result = TypeVar("Result")

# Of an epoch for each hidden layer: what a shard learns about one layer presumes the others as they
# were at the start of the round.
_FEWEST_ROUNDS = 16
_WARM_UP = 2000  # rows that are absorbed one after the other before the first round
_FEWEST_IN_PART = 8  # rows of a shard in the first round

# ---- Rows, and the task that a plan makes of them


class Rows(NamedTuple):
    """Rows with their targets and how they count, as in a `Task`."""

    X: Samples  # (n, n_features), in the units of the features
    X_var: Array | None  # (n, n_features), standardized
    y: Array  # (n,) or (n, K), as the likelihood encodes them
    weights: FloatArray | None = None  # (n,)
    y_var: FloatArray | None = None  # (n, K), standardized

    def at(self, places: Array) -> Rows:
        """Return some of them, copied."""
        return Rows._make(None if a is None else a[places] for a in self)


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several parts, one after the other.

    Where one part has variances of its inputs, the entries of the others are known.
    """
    if any(part.X_var is not None for part in parts):
        known = (np.zeros(part.X.shape) if part.X_var is None else part.X_var for part in parts)
        parts = [part._replace(X_var=X_var) for part, X_var in zip(parts, known, strict=True)]
    return Rows._make(None if f[0] is None else stacked(f) for f in zip(*parts, strict=True))


def task_of(
    plan: Plan,
    standardizer: Standardizer,
    posterior: Posterior,
    rows: Rows,
    n_iters: range,
    n_epochs: int | None,
    n: int,
    *,
    share: float = 1.0,
    refine: bool | None = None,
    random_state: RandomState | None = None,
    stream: bool = False,
    power: float = 1.0,
) -> Task:
    """Return what an engine is given to train: whole epochs over rows, or a part of one epoch.

    `n_iters` are the epochs, counted from 1, `n_epochs` all that are planned, `n` all rows, in
    whose number the evidence cap is given, and `share` is the share of the rows in an epoch, by
    which the tails of the noise are moved. If `refine` is None, the prior factors are refined as
    the plan says. Rows of a `stream` are absorbed once and followed by others.
    """
    schedule, tail_rate = None, None
    if posterior.noise_network is not None:
        n_features = posterior.layer_sizes[0]
        schedule = noise_schedule(n_iters, n_epochs, plan.evidence_cap, n, n_features)
    if plan.likelihood.learns_tail:
        burn_in = 0 if stream else plan.burn_in(n_epochs)
        tail_rate = np.where(np.array(n_iters) > burn_in, share, 0.0)
    return Task(
        posterior=posterior,
        X=rows.X,
        X_var=rows.X_var,
        y=rows.y,
        standardizer=standardizer,
        likelihood=plan.likelihood,
        memory=plan.bound(n),
        refine=np.full(len(n_iters), stream or plan.refine if refine is None else refine),
        random_state=random_state,
        noise_schedule=schedule,
        weights=rows.weights,
        y_var=rows.y_var,
        power=power,
        tail_rate=tail_rate,
        informative_ratio=ratio_of(once=stream or n_epochs == 1),
    )


def ratio_of(*, once: bool) -> float:
    """Return which prior factors are refined, where every row is absorbed once or more often."""
    return ONCE_INFORMATIVE_RATIO if once else INFORMATIVE_RATIO


# ---- Which rows each shard absorbs in which round, decided by the seed alone


class Part(NamedTuple):
    """The rows of one shard that are absorbed in one round."""

    shard: int
    start: int  # places in the epoch of this shard, from 0 to its number of rows
    stop: int
    seed: int  # of the whole training
    n_iter: int  # the epoch, counted from 1
    n_round: int  # the round in it, counted from 0

    def places(self, n: int) -> Array:
        """Return which of the n rows of the shard are absorbed, in this order.

        Every epoch begins elsewhere in the shard, and every part is shuffled anew.

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
    """The rounds of a training."""

    sizes: tuple[int, ...]  # rows of each shard, at least 1
    n_rounds: int  # of an epoch; the first epoch of several shards has more, which grow
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
        """The shares of the first epoch at which rounds of several shards end.

        Round 0 is the warm-up. A later round has at most 1/n_rounds of the rows absorbed before
        it: what q believes after few rows is not worth acting upon K times at once.
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

        >>> Schedule((4000, 4000), 4, seed=0).ends(1)
        (0.25, 0.3125, 0.390625, 0.48828125, 0.6103515625, 0.762939453125, 1.0)
        >>> Schedule((4000, 4000), 4, seed=0).ends(2)
        (0.25, 0.5, 0.75, 1.0)
        """
        if n_iter == 1 and self.n_shards > 1:
            return self.first_ends
        n_rounds = min(self.n_rounds, max(self.sizes))  # a round without any row would be none
        return tuple(t / n_rounds for t in range(1, n_rounds + 1))

    def is_warm_up(self, n_iter: int, n_round: int) -> bool:
        """Whether the rows of all shards are absorbed one after the other in this round."""
        return self.n_shards > 1 and (n_iter, n_round) == (1, 0)

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
    """Return the rounds of an epoch of a network with so many hidden layers, unless told.

    >>> usual_rounds(8, 1), usual_rounds(8, 2), usual_rounds(64, 2)
    (16, 32, 64)
    """
    return max(_FEWEST_ROUNDS * max(1, n_hidden), n_shards)


# ---- What one shard does in a round


class HasParts(Protocol):
    """A share of the rows, whatever it is made of."""

    def part(self, part: Part) -> Rows:
        """Return the rows that are absorbed in one round."""


@dataclass(frozen=True, eq=False)
class Shard:
    """A share of the rows, in memory."""

    rows: Rows  # of this shard, or of all of them
    order: Array  # (n,), int: which rows are those of this shard, shuffled

    def part(self, part: Part) -> Rows:
        """Return the rows that are absorbed in one round."""
        return self.rows.at(self.order[part.places(len(self.order))])


@dataclass(frozen=True, eq=False)
class Work:
    """What a shard is asked to do in a round."""

    part: Part  # the rows to absorb
    plan: Plan
    standardizer: Standardizer  # of all rows
    posterior: Posterior  # the q that all shards begin with
    n_epochs: int  # all that are planned
    n: int  # rows of all shards
    size: int  # rows of this shard
    refine: bool  # whether the prior factors are refined after it; never by one of several shards

    @property
    def is_alone(self) -> bool:
        """Whether all rows of the round are absorbed here."""
        return self.size == self.n


MapShards = Callable[[Callable[[HasParts, Work], Any], Sequence[Work]], list[Any]]
"""Calls a function with the shard of each work and the work itself, anywhere; the results come in
the order of the works."""


class Absorbed(NamedTuple):
    """What became of q in one shard, and what was observed there."""

    posterior: Posterior  # of one of several shards: without the prior factors, which all share
    n_points: int
    log_Z_sum: float  # standardized
    counts: Array  # (4,), as in `Records`


def take(shard: HasParts, work: Work) -> Rows:
    """Return the rows of a part: the warm-up absorbs those of all shards together."""
    return shard.part(work.part)


def absorb(shard: HasParts, work: Work) -> Absorbed:
    """Absorb the rows of a part. A pure function: whoever calls it gets the same bits."""
    return absorb_rows(shard.part(work.part), work)


def absorb_rows(rows: Rows, work: Work) -> Absorbed:
    """Absorb rows in the order given."""
    n_iter = work.part.n_iter
    task = task_of(
        work.plan,
        work.standardizer,
        work.posterior,
        rows,
        range(n_iter, n_iter + 1),
        work.n_epochs,
        work.n,
        share=len(rows.y) / work.size,
        refine=work.refine,
    )
    ((q, records),), interrupt = ENGINES[work.plan.engine].train([task])
    if interrupt is not None:
        raise interrupt
    if not work.is_alone:
        q = replace(q, v_hat_nat=(), a_hat_nat=(), b_hat_nat=())
    return Absorbed(q, len(rows.y), float(records.log_Z_sums.sum()), records.counts[0])


def in_threads(shards: Sequence[HasParts], n_threads: int) -> MapShards:
    """Return a map over shards of this process; the number of threads changes no bit."""

    def map_shards(call: Callable[[HasParts, Work], Any], works: Sequence[Work]) -> list[Any]:
        return map_in_threads(lambda work: call(shards[work.part.shard], work), works, n_threads)

    return map_shards


def map_in_threads(
    call: Callable[[Item], Result], items: Iterable[Item], n_threads: int
) -> list[Result]:
    """Return the results of the calls, in the order of the items; with one thread, made here.

    On an error, and on Ctrl-C, calls that have not begun are dropped; those that run end in
    their own time, so they should look now and then whether somebody has given up.

    >>> map_in_threads(lambda x: x * x, [1, 2, 3], n_threads=2)
    [1, 4, 9]
    """
    if n_threads == 1:
        return [call(item) for item in items]
    # Not joblib's threads: they are daemons, and a process that ends while one of them is in the
    # kernel is aborted.
    pool = ThreadPoolExecutor(n_threads)
    try:
        return list(pool.map(call, items))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


# ---- One q out of those that the shards made of it

Velocity = tuple[FloatArray, ...]
"""u of the weights, flat: of the network, then of that of the noise, if there is one. Nothing
stands for 0."""


class Combined(NamedTuple):
    """The beginning of the next round."""

    posterior: Posterior
    velocity: Velocity
    n_held: int  # precisions that had to be held up, and Gammas that were left as they were


def momentum(n_shards: int) -> float:
    """Return b: what shards agree upon is carried on to 1/(1 - b) = (3 K - 1)/2 times as far.

    A little more than K. With b = 1 - 1/K few epochs over many rows were too slow, and with
    1 - 1/(2 K) one of four benchmark sets was worse than in one piece.

    >>> momentum(1), momentum(2)
    (0.0, 0.6)
    """
    return (n_shards - 1.0) / (n_shards - 1.0 / 3.0)


def at_rest(posterior: Posterior) -> Velocity:
    """Return the u of all weights that is 0."""
    networks = [posterior, posterior.noise_network]
    return tuple(np.zeros(sum(m.size for m in q.m_w)) for q in networks if q is not None)


def combine(posterior: Posterior, absorbed: Sequence[Absorbed], velocity: Velocity) -> Combined:
    """Combine what the shards made of q, at least one of them, in their order."""
    if len(absorbed) == 1:
        made = absorbed[0].posterior
        if not made.v_hat_nat:  # it is the only one of several shards that had rows
            made = replace(made, **{k: getattr(posterior, k) for k in LAYERED[2:]})
        return Combined(made, velocity, 0)
    b = momentum(len(absorbed))
    shares = np.array([each.n_points for each in absorbed], float)
    shares /= shares.sum()
    velocity = velocity or at_rest(posterior)
    networks = [each.posterior for each in absorbed]
    combined, u, n_held = _combine_weights(posterior, networks, shares, velocity[0], b)
    moved = [u]
    if (network := posterior.noise_network) is not None:
        of_noise = [q.noise_network for q in networks if q.noise_network is not None]
        network, u, n = _combine_weights(network, of_noise, shares, velocity[1], b)
        n_held += n
        moved.append(u)
    alpha, beta, n = _combine_gammas(posterior, networks)
    combined = replace(combined, alpha_noise=alpha, beta_noise=beta, noise_network=network)
    return Combined(combined, tuple(moved), n_held + n)


def _combine_weights(
    q: Posterior, made: Sequence[Posterior], shares: FloatArray, u: FloatArray, b: float
) -> tuple[Posterior, FloatArray, int]:
    """Return q with new weights and tails, the new velocity, and how many precisions were held."""
    m = flat(q.m_w).astype(np.float64)
    tau = 1.0 / flat(q.v_w).astype(np.float64)
    tau_new, weighted, total = tau.copy(), np.zeros_like(m), np.zeros_like(m)
    floor = np.minimum(tau, flat(q.v_hat_nat))
    for each in made:
        tau_k = 1.0 / flat(each.v_w).astype(np.float64)
        tau_new += tau_k - tau
        weighted += tau_k * (flat(each.m_w) - m)
        total += tau_k
        floor = np.minimum(floor, tau_k)
    # What several shards give back of their evidence may together be more than there was.
    held = ~(tau_new >= floor)
    tau_new[held] = floor[held]
    delta = weighted / total
    most = 1.0 / np.sqrt(tau_new)
    u_new = np.clip(b * u + delta, -most, most)
    m_new = m + delta + b * u_new
    (m_w,), (v_w,) = (cut([new.astype(q.dtype)], q.m_w) for new in (m_new, 1.0 / tau_new))
    tail = q.tail + sum(s * (each.tail - q.tail) for s, each in zip(shares, made, strict=True))
    return replace(q, m_w=m_w, v_w=v_w, tail=tail), u_new, int(held.sum())


def _combine_gammas(
    posterior: Posterior, made: Sequence[Posterior]
) -> tuple[FloatArray, FloatArray, int]:
    """Return shape and rate of the noise of every target, and how many were left as they were."""
    alpha, beta = posterior.alpha_noise, posterior.beta_noise
    alpha_new, beta_new = alpha.copy(), beta.copy()
    for each in made:
        alpha_new += each.alpha_noise - alpha
        beta_new += each.beta_noise - beta
    valid = (alpha_new > 1.0) & (beta_new > 0.0)
    n_left = int((~valid).sum())
    return np.where(valid, alpha_new, alpha), np.where(valid, beta_new, beta), n_left
