"""The training of a network: one loop, for `fit`, `partial_fit`, choices and ensembles alike.

An epoch is an ADF pass over the likelihood ([PBP15] section 3.3), then a refinement of the prior
factors (section 3.4). Rows in memory make a `Run`: they are one shard, whose epochs go to the
engine several at a time, as for many networks. `rounds` makes the same epochs over shards
in parts: each absorbs its next rows, the results are combined, the prior factors refined. Nothing
here knows who does the work: a function that maps over shards is given, and a plain loop, threads
and Dask give the same bits.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.random import RandomState, SeedSequence, default_rng
from scipy import sparse

from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs, Samples, stacked
from probprop.inference.noise import noise_schedule, start_noise_network, with_first_tails
from probprop.inference.plan import Plan
from probprop.inference.posterior import (
    LAYERED,
    Epoch,
    Posterior,
    Records,
    cut,
    flat,
    initial_posterior,
    near_a_draw,
)
from probprop.inference.prediction import features
from probprop.inference.standardize import (
    Standardizer,
    check_magnitude,
    check_target_scale,
    fit_standardizer,
    identity_standardizer,
)
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
        due=_due(rows.X, n_iters),
        groups=plan.groups(rows.X),
        random_state=random_state,
        noise_schedule=schedule,
        weights=rows.weights,
        y_var=rows.y_var,
        power=power,
        tail_rate=tail_rate,
        informative_ratio=ratio_of(once=stream or n_epochs == 1),
    )


_WIDE = 256  # inputs: below that, sparse rows and arrays are refined alike
_OFTEN = 128  # samples in which an input is not 0: then an epoch refines its weights
_FEWEST_SWEEPS = 8  # every so many epochs all weights are refined
_SIDE_BY_SIDE = 64  # inputs that are refined in the same epoch: their factors share cache lines


def _due(X: Samples, n_iters: range) -> Array | None:
    """Return the inputs of wide sparse rows that each epoch refines, (n_epochs, n_features).

    The weights of an input that is seldom not 0 change little in an epoch, and in wide layers
    most of the time would go into their refinement.
    """
    n, n_features = X.shape
    if not sparse.issparse(X) or n_features < _WIDE:
        return None
    counts = np.bincount(X.indices, minlength=n_features)
    every = np.ceil(min(_OFTEN, n) / np.maximum(counts, 1))
    every = np.clip(every, 1, _FEWEST_SWEEPS).astype(np.int64)
    turn = np.arange(n_features) // _SIDE_BY_SIDE
    due: Array = (np.array(n_iters)[:, np.newaxis] + turn) % every == 0
    return due


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


Shard = Callable[[Part], Rows]
"""A share of the rows, whatever it is made of: returns those that are absorbed in one round."""


def rows_of_part(rows: Rows, order: Array, part: Part) -> Rows:
    """Return a part of the shard whose rows are at these places of `rows`, (n,), shuffled."""
    return rows.at(order[part.places(len(order))])


@dataclass(frozen=True)
class Setting:
    """What stays the same in all rounds of a training."""

    plan: Plan
    standardizer: Standardizer  # of all rows
    schedule: Schedule
    n_epochs: int  # all that there will be
    groups: Array | None = None  # as in a `Task`


@dataclass(frozen=True, eq=False)
class Work:
    """What a shard is asked to do in a round."""

    part: Part  # the rows to absorb
    setting: Setting
    posterior: Posterior  # the q that all shards begin with
    size: int  # rows of this shard; all rows if they are absorbed together
    refine: bool  # whether the prior factors are refined after it; never by one of several shards


MapShards = Callable[[Callable[[Shard, Work], Any], Sequence[Work]], list[Any]]
"""Calls a function with the shard of each work and the work itself, anywhere; the results come in
the order of the works."""


class Absorbed(NamedTuple):
    """What became of q in one shard, and what was observed there."""

    posterior: Posterior  # of one of several shards: without the prior factors, which all share
    n_points: int
    log_Z_sum: float  # standardized
    counts: Array  # (4,), as in `Records`


def take(shard: Shard, work: Work) -> Rows:
    """Return the rows of a part: the warm-up absorbs all shards' rows together."""
    return shard(work.part)


def absorb(shard: Shard, work: Work) -> Absorbed:
    """Absorb the rows of a part. A pure function: whoever calls it gets the same bits."""
    return absorb_rows(shard(work.part), work)


def absorb_rows(rows: Rows, work: Work) -> Absorbed:
    """Absorb rows in the order given."""
    setting, n_iter, n = work.setting, work.part.n_iter, work.setting.schedule.n
    task = task_of(
        setting.plan,
        setting.standardizer,
        work.posterior,
        rows,
        range(n_iter, n_iter + 1),
        setting.n_epochs,
        n,
        share=len(rows.y) / work.size,
        refine=work.refine,
    )
    ((q, records),), interrupt = ENGINES[setting.plan.engine].train([task])
    if interrupt is not None:
        raise interrupt
    if work.size < n:
        q = replace(q, v_hat_nat=(), a_hat_nat=(), b_hat_nat=())
    return Absorbed(q, len(rows.y), float(records.log_Z_sums.sum()), records.counts[0])


def in_threads(shards: Sequence[Shard], n_threads: int) -> MapShards:
    """Return a map over shards of this process; the number of threads changes no bit."""

    def map_shards(call: Callable[[Shard, Work], Any], works: Sequence[Work]) -> list[Any]:
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

# u of the weights, flat: of the network, then of the noise network, if there is one; () is zero.
Velocity = tuple[FloatArray, ...]


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


def combine(
    posterior: Posterior, absorbed: Sequence[Absorbed], velocity: Velocity
) -> tuple[Posterior, Velocity, int]:
    """Combine what the shards made of q, at least one of them, in their order.

    The velocity is the second, and then the number of precisions that had to be held up, and of
    Gammas that were left as they were.

    Every shard k begins with the same q; after its rows its weights have the means m_k and the
    precisions tau_k. Evidence adds up, so precisions and the Gamma of the noise do:

        tau'   = tau + sum_k (tau_k - tau)
        alpha' = alpha + sum_k (alpha_k - alpha),   beta' likewise.

    Means do not: where weights are correlated, every shard corrects the same error, and K
    corrections overshoot. Their average by precision is K times too slow where they do not agree by
    accident, so it is carried on, with momentum b and clipped at one standard deviation:

        delta = sum_k tau_k (m_k - m) / sum_k tau_k
        u'    = clip(b u + delta, -1/sqrt(tau'), 1/sqrt(tau'))
        m'    = m + delta + b u'.

    Precisions stay at or above the least of tau, all tau_k and the prior factor's. With one shard
    all of it is the q of the shard, which is taken as it is.
    """
    if len(absorbed) == 1:
        made = absorbed[0].posterior
        if not made.v_hat_nat:  # it is the only one of several shards that had rows
            made = replace(made, **{k: getattr(posterior, k) for k in LAYERED[2:]})
        return (made, velocity, 0)
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
    return (combined, tuple(moved), n_held + n)


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


_FEWEST_ROWS = 500  # of a shard of a fit on one machine
_MOST_EPOCHS = 1000  # of a step without callbacks


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training has reached: all that predictions, and further passes, need."""

    posterior: Posterior
    standardizer: Standardizer
    epoch: Epoch  # the record of the last pass; before the first its `n_iter` is 0
    log_evidence: float = 0.0  # sum of log Z over the passes with new rows, in target units
    n_samples_seen: int = 0  # each row counted once


class Run(NamedTuple):
    """The training on one set of rows in memory, as far as it has come."""

    plan: Plan
    fitted: Fitted  # where it is
    rows: Rows
    random_state: RandomState | None  # shuffles before every epoch; None: a stream, as it comes
    n_epochs: int | None = None  # all epochs there will be; None: nobody knows
    made: Sequence[Epoch] = ()  # the epochs that the last step made
    new: bool = True  # no pass over the rows is made yet
    power: float = 1.0  # as in a `Task`
    velocity: Velocity = ()  # of the means of the weights, if `train_by_rounds` trains them


def start(
    plan: Plan,
    X: Inputs,
    y: Array,
    random_state: RandomState,
    standardizer: Standardizer | None = None,
    *,
    near_draw: bool = False,
) -> Fitted:
    """Return the state before any point: the prior absorbed, the data measured.

    Targets are as the likelihood encodes them, (n,) or (n, K). The generator draws the initial
    means of the weights. A standardizer that was measured before is not measured again. With
    `near_draw` the layers between hidden layers begin near a draw from the prior.
    """
    likelihood = plan.likelihood
    n_noise = likelihood.n_outputs if likelihood.learns_noise else 1
    noise_shape, noise_rate = (np.full(n_noise, a) for a in likelihood.noise_prior)
    network = None
    if plan.noise_hidden is not None:
        network = start_noise_network(
            X.shape[1], plan.noise_hidden, n_noise, random_state, plan.dtype
        )
    prior_shape, prior_rate = plan.hyperprior
    posterior = initial_posterior(
        [X.shape[1], *plan.hidden, likelihood.n_outputs],
        noise_shape=noise_shape,
        noise_rate=noise_rate,
        prior_shape=prior_shape,
        prior_rate=prior_rate,
        random_state=random_state,
        dtype=plan.dtype,
    )
    if near_draw and plan.hidden:
        posterior = near_a_draw(posterior)
    if standardizer is None and plan.standardize:
        standardizer = fit_standardizer(X.X, y if likelihood.standardises_target else None)
    elif standardizer is None:
        standardizer = identity_standardizer(X.shape[1], n_noise)
    check_target_scale(standardizer.y_scale)
    nothing = epoch_of(0, 0, posterior, 0.0, np.zeros(4, np.int64), standardizer)
    return Fitted(replace(posterior, noise_network=network), standardizer, nothing)


def begin(
    plan: Plan,
    fitted: Fitted,
    X: Inputs,
    y: Array,
    random_state: RandomState | None = None,
    *,
    n_epochs: int | None = None,
    weights: FloatArray | None = None,
    y_std: FloatArray | None = None,
    power: float = 1.0,
) -> Run:
    """Return a training that goes on from a state with rows that are new to its posterior.

    The generator shuffles the rows before each of the `n_epochs` epochs. None is a stream: rows
    come in the order given, an epoch is not cut, and the prior factors are refined after it.
    Weights, (n,), and `power` are as in a `Task`; `y_std`, (n,) or (n, K), are known errors of the
    targets, in their units.
    """
    entries, X_var = features(plan, fitted.standardizer, X)
    if plan.likelihood.standardises_target:
        fitted.standardizer.check_y(y, plan.dtype)
    y_var = None if y_std is None else target_variance(plan, fitted.standardizer, y_std)
    rows = Rows(entries, X_var, y, weights, y_var)
    return Run(plan, fitted, rows, random_state, n_epochs, power=power)


def target_variance(plan: Plan, standardizer: Standardizer, y_std: FloatArray) -> FloatArray:
    """Return the variances of standardized targets, (n, K)."""
    with np.errstate(over="ignore"):  # what is too large is refused
        std: FloatArray = y_std.reshape(len(y_std), -1) / standardizer.y_scale
    check_magnitude("y_std", float(std.max()), plan.dtype)
    return std**2


# ---- Whole epochs over rows in memory


def steps_of(n_epochs: int) -> list[int]:
    """Cut epochs into steps whose records stay small.

    >>> steps_of(2300)
    [1000, 1000, 300]
    """
    return [min(_MOST_EPOCHS, n_epochs - made) for made in range(0, n_epochs, _MOST_EPOCHS)]


def train(run: Run, steps: Iterable[int]) -> Iterator[Run]:
    """Make that many epochs in each step, and yield where the training is after it.

    Ctrl-C in the middle of a step yields the whole epochs it had made before it is raised.
    """
    for n_epochs in steps:
        (run,), interrupt = advance([run], n_epochs)
        if run.made:
            yield run
        if interrupt is not None:
            raise interrupt


def advance(
    runs: Sequence[Run], n_epochs: int, n_threads: int = 1
) -> tuple[list[Run], BaseException | None]:
    """Make more epochs of every training, side by side in threads, which change no bit.

    Returns where they are now, and what ended them early, if anything did: then each has the whole
    epochs it had made.
    """
    first = runs[0]  # those that run side by side have made as many epochs
    if first.random_state is None or not first.plan.likelihood.learns_tail:
        return _advance(runs, n_epochs, n_threads)
    burn_in, made = first.plan.burn_in(first.n_epochs), first.fitted.epoch.n_iter
    if not made <= burn_in < made + n_epochs:
        return _advance(runs, n_epochs, n_threads)
    before, interrupt = list(runs), None
    if burn_in > made:
        before, interrupt = _advance(runs, burn_in - made, n_threads)
    if interrupt is not None:
        return before, interrupt
    begun = []
    for run in before:
        q = with_first_tails(run.fitted.posterior, run.plan.likelihood.noise_prior)
        begun.append(run._replace(fitted=replace(run.fitted, posterior=q)))
    moved, interrupt = _advance(begun, made + n_epochs - burn_in, n_threads)
    after = []
    for run, then in zip(before, moved, strict=True):
        earlier = run.made if burn_in > made else ()
        # Broken off before a whole epoch: the tails have not begun either.
        after.append(then._replace(made=[*earlier, *then.made]) if then.made else run)
    return after, interrupt


def _advance(
    runs: Sequence[Run], n_epochs: int, n_threads: int
) -> tuple[list[Run], BaseException | None]:
    engine = ENGINES[runs[0].plan.engine]
    trained, interrupt = engine.train([_task(run, n_epochs) for run in runs], n_threads)
    moved = []
    for run, (posterior, records) in zip(runs, trained, strict=True):
        first, n = run.fitted.epoch.n_iter + 1, len(run.rows.y)
        made = summarize(first, n, records, run.fitted.standardizer)
        moved.append(_after(run, posterior, made))
    return moved, interrupt


def _task(run: Run, n_epochs: int) -> Task:
    fitted, n, share = run.fitted, _n_seen(run), 1.0
    first, stream = fitted.epoch.n_iter + 1, run.random_state is None
    if stream:  # the tails do not move with the first rows
        share = len(run.rows.y) / n if fitted.n_samples_seen > 0 else 0.0
    return task_of(
        run.plan,
        fitted.standardizer,
        fitted.posterior,
        run.rows,
        range(first, first + n_epochs),
        run.n_epochs,
        n,
        share=share,
        random_state=run.random_state,
        stream=stream,
        power=run.power,
    )


def _n_seen(run: Run) -> int:
    return run.fitted.n_samples_seen + (len(run.rows.y) if run.new else 0)


def _after(run: Run, posterior: Posterior, made: Sequence[Epoch], velocity: Velocity = ()) -> Run:
    """Return where a training is after whole epochs that led to a posterior."""
    if not made:
        return run._replace(made=made)
    before = run.fitted
    # The rows are new in the first pass only.
    gained = made[0].sum_log_Z if run.new else 0.0
    fitted = Fitted(
        posterior=posterior,
        standardizer=before.standardizer,
        epoch=made[-1],
        log_evidence=before.log_evidence + gained,
        n_samples_seen=_n_seen(run),
    )
    return run._replace(fitted=fitted, made=made, new=False, velocity=velocity)


# ---- Epochs over shards, in rounds


@dataclass(frozen=True, eq=False)
class State:
    """Where a training by rounds is: all that the next round needs."""

    posterior: Posterior
    velocity: Velocity = ()  # of the means of the weights
    n_iter: int = 0  # whole epochs made
    n_round: int = 0  # rounds made of the epoch under way
    log_Z_sum: float = 0.0  # of the epoch under way, standardized
    counts: Array = field(default_factory=lambda: np.zeros(4, np.int64))  # likewise, as `Records`
    n_held: int = 0  # likewise, as `combine` counts it


def rounds(
    setting: Setting, state: State, map_shards: MapShards
) -> Iterator[tuple[State, Epoch | None]]:
    """Make the rounds that are left; yield the state after each, and the epoch it completed."""
    while state.n_iter < setting.n_epochs:
        state, made = one_round(setting, state, map_shards)
        yield state, made


def one_round(setting: Setting, state: State, map_shards: MapShards) -> tuple[State, Epoch | None]:
    """Let every shard absorb its next rows, combine what they made of q, refine, and record."""
    plan, schedule, n_iter = setting.plan, setting.schedule, state.n_iter + 1
    end = schedule.ends(n_iter)[state.n_round]
    warm_up = schedule.is_warm_up(n_iter, state.n_round)
    begins = state.n_round == 0 and state.n_iter == plan.burn_in(setting.n_epochs)
    if plan.likelihood.learns_tail and begins:
        q = with_first_tails(state.posterior, plan.likelihood.noise_prior)
        state = replace(state, posterior=q)
    refine = plan.refine and (warm_up or end == 1.0)
    works = [
        Work(
            part,
            setting,
            state.posterior,
            schedule.sizes[part.shard],
            refine and schedule.n_shards == 1,
        )
        for part in schedule.parts(n_iter, state.n_round)
    ]
    if warm_up:
        rows = joined(map_shards(take, works))
        alone = replace(works[0], size=schedule.n, refine=refine)
        absorbed = [absorb_rows(rows, alone)]
    else:
        absorbed = map_shards(absorb, works)
    posterior, velocity, n_held = combine(state.posterior, absorbed, state.velocity)
    counts = state.counts + sum(each.counts for each in absorbed)
    if refine and schedule.n_shards > 1 and not warm_up:
        ratio = ratio_of(once=setting.n_epochs == 1)
        posterior, swept = ENGINES[plan.engine].refine_prior(posterior, ratio, setting.groups)
        counts[3] += swept.n_skipped
    log_Z_sum = state.log_Z_sum + sum(each.log_Z_sum for each in absorbed)
    n_held += state.n_held
    if end < 1.0:
        so_far = (state.n_round + 1, log_Z_sum, counts, n_held)
        return State(posterior, velocity, state.n_iter, *so_far), None
    epoch = epoch_of(n_iter, schedule.n, posterior, log_Z_sum, counts, setting.standardizer)
    return State(posterior, velocity, n_iter), epoch._replace(n_held=n_held)


def number_of_shards(n_shards: int | None, n: int) -> int:
    """Return the number of shards that n samples are split into, of those asked for.

    >>> [number_of_shards(*given) for given in [(None, 10**6), (8, 10**6), (8, 1200), (8, 3)]]
    [1, 8, 2, 1]
    """
    return max(1, min(int(n_shards or 1), n // _FEWEST_ROWS))


def train_by_rounds(run: Run, n_shards: int, n_threads: int) -> Iterator[Run]:
    """Make the epochs that are left over shards in threads; yield where the training is after each.

    The result depends on the number of shards, not on the number of threads. On Ctrl-C an epoch
    under way is lost. The generator of the run gives the seed and stays as it is.
    """
    fitted, n = run.fitted, len(run.rows.y)
    assert run.n_epochs is not None
    seed = int(deepcopy(run.random_state).randint(2**31 - 1))  # type: ignore[union-attr]
    orders = np.array_split(shard_order(seed, 0, n), n_shards)
    n_rounds = usual_rounds(n_shards, len(run.plan.hidden))
    schedule = Schedule(tuple(map(len, orders)), n_rounds, seed)
    groups = run.plan.groups(run.rows.X)
    setting = Setting(run.plan, fitted.standardizer, schedule, run.n_epochs, groups)
    shards = [partial(rows_of_part, run.rows, order) for order in orders]
    state = State(fitted.posterior, run.velocity, fitted.epoch.n_iter)
    for state, made in rounds(setting, state, in_threads(shards, n_threads)):  # noqa: B020
        if made is not None:
            run = _after(run, state.posterior, [made], state.velocity)
            yield run


WORTH_TELLING = 1e-4
"""The share of updates that were undone, or made in another way, above which one is warned."""


# ---- What epochs observed, as `history_` shows it, and the one warning about it


def summarize(
    first: int, n_points: int, records: Records, standardizer: Standardizer
) -> list[Epoch]:
    """Bring what epochs over n points observed into target units; the first has this `n_iter`."""
    y_scale2, log_y_scale = (standardizer.y_scale**2).tolist(), standardizer.log_y_scale
    epochs = []
    for n_iter, (log_Z_sums, counts, noise, prior, tail) in enumerate(
        zip(*(column.tolist() for column in records), strict=True), first
    ):
        undone, guarded, skipped, skipped_factors = counts
        n_absorbed = n_points - skipped
        noise_variance = [
            beta / (alpha - 1.0) * math.exp(0.5 * s2) * scale2
            for alpha, beta, s2, scale2 in zip(*noise, tail, y_scale2, strict=False)
        ]
        # A density of standardized targets, divided by their scales, is one of the targets.
        mean_log_Z = math.fsum(log_Z_sums) / max(1, n_absorbed) - log_y_scale
        epochs.append(
            Epoch(
                n_iter,
                n_absorbed,
                mean_log_Z,
                noise_variance[0] if len(noise_variance) == 1 else tuple(noise_variance),
                prior[1] / (prior[0] - 1.0),
                undone,
                guarded,
                skipped,
                skipped_factors,
            )
        )
    return epochs


def epoch_of(
    n_iter: int,
    n_points: int,
    posterior: Posterior,
    log_Z_sum: float,
    counts: Array,
    standardizer: Standardizer,
) -> Epoch:
    """Return the record of an epoch in parts that ended with a posterior and observed these sums.

    The sum of log Z is standardized; the counts, (4,), are as in `Records`.
    """
    records = Records.of_epoch(posterior, [], [])
    records = records._replace(log_Z_sums=np.array([[log_Z_sum]]), counts=counts[np.newaxis])
    (epoch,) = summarize(n_iter, n_points, records, standardizer)
    return epoch


def check_learned(history: list[Epoch]) -> None:
    """Refuse a fit in which not one point could be absorbed: the weights are still the prior."""
    n_skipped = sum(epoch.n_skipped_points for epoch in history)
    if n_skipped and not any(epoch.n_points for epoch in history):
        raise ValueError(
            f"Nothing was learned: all {n_skipped} updates were skipped, because what the network "
            "predicts of the targets overflows. Fit it with a smaller prior_rate or fewer layers, "
            "on features that are standardized (standardize=True), or with dtype='float64'."
        )


class UpdateWarning(RuntimeWarning):
    """Many updates were undone or made in another way; no row was left out."""


def warn_of_counts(history: list[Epoch], posterior: Posterior) -> None:
    """Warn once of what training had to leave out or compute in another way.

    Points that were skipped are told always. Weight updates that were undone, or held up by
    rounds, and noise updates made by quadrature, are told above one in 10,000 of their kind: a few
    are ordinary.
    """
    names = ("n_points", "n_undone", "n_guarded", "n_skipped_points", "n_held")
    n_points, n_undone, n_guarded, n_skipped, n_held = (
        sum(getattr(epoch, name) for epoch in history) for name in names
    )
    if not (n_undone or n_guarded or n_skipped or n_held):
        return  # nearly always, and a stream calls for every row
    of_weights = WORTH_TELLING * n_points * sum(layer.size for layer in posterior.m_w)
    many = n_undone > of_weights or n_held > of_weights
    many |= n_guarded > WORTH_TELLING * n_points
    if n_skipped or many:
        counts = {
            "weight updates undone (their new variance was not positive)": n_undone,
            "noise updates made by quadrature (outliers, or few points)": n_guarded,
            "points skipped (their log Z was not finite)": n_skipped,
            "precisions held up between rounds (the shards, of few rows, gave back more than there "
            "was; error bars are only wider: with few rows leave n_shards at None, on a cluster "
            "give fewer shards)": n_held,
        }
        parts = [f"{count} {text}" for text, count in counts.items() if count]
        warnings.warn(
            f"In {n_points} updates: {'; '.join(parts)}. `history_` has the counts per epoch.",
            RuntimeWarning if n_skipped else UpdateWarning,
            stacklevel=3,
        )
