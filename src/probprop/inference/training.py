"""The training of a network: one loop for `fit`, `partial_fit`, model selection and ensembles.

An epoch is an ADF pass over the likelihood ([PBP15] section 3.3), then a refinement of the prior
factors (section 3.4). Rows in memory make a `Run`: they are one shard, whose epochs go to the
engine several at a time, as for many networks. `rounds` makes the same epochs over shards
in parts: each shard is updated on its next rows, the results are combined, the prior factors
refined. The function that maps over shards is an argument: a plain loop, threads and Dask give the
same bits.
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

from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import (
    Encoded,
    Inputs,
    Samples,
    dense,
    is_listed,
    stacked,
    stacked_entries,
)
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

# Per epoch and hidden layer: a shard updates one layer given the other layers at the start of the
# round.
_FEWEST_ROUNDS = 16
_WARM_UP = 2000  # rows of the sequential warm-up before the first round
_FEWEST_IN_PART = 8  # rows of a shard in the first round

# ---- Rows, and their task under a plan


class Rows(NamedTuple):
    """Rows with their targets and weights, as in a `Task`."""

    X: Samples  # (n, n_features), in the units of the features
    X_var: Any  # (n, n_features), standardized, as `Inputs.std`, or None
    y: Array  # (n,) or (n, K), as the likelihood encodes them
    weights: FloatArray | None = None  # (n,)
    y_var: FloatArray | None = None  # (n, K), standardized

    def at(self, places: Array) -> Rows:
        """Return some of them, copied."""
        return Rows._make(None if a is None else a[places] for a in self)


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several parts, one after the other.

    If only some parts have variances of their inputs, the other inputs are exact.
    """
    Xs, variances, *rest = zip(*parts, strict=True)
    X, X_var = stacked(Xs), None
    if any(each is not None for each in variances):
        known = stacked_entries(variances, [part.shape for part in Xs])
        X, X_var = (X, known) if isinstance(X, Encoded) else (dense(X), dense(known))
    return Rows._make([X, X_var, *(None if f[0] is None else np.concatenate(f) for f in rest)])


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
    """Return the task of an engine: whole epochs over rows, or a part of one epoch.

    `n_iters` are the epochs, counted from 1, `n_epochs` all that are planned, `n` all rows, in
    whose number the evidence cap is given, and `share` is the share of the rows in an epoch, by
    which the tails of the noise are moved. If `refine` is None, the prior factors are refined as
    in the plan. Rows of a `stream` are used once.
    """
    schedule, tail_rate = None, None
    if posterior.noise_network is not None:
        schedule = noise_schedule(n_iters, n_epochs, plan.evidence_cap, n, posterior.layer_sizes[0])
    if plan.likelihood.learns_tail:
        burn_in = 0 if stream else plan.burn_in(n_epochs)
        tail_rate = np.where(np.array(n_iters) > burn_in, share, 0.0)
    return Task(
        **rows._asdict(),
        posterior=posterior,
        standardizer=standardizer,
        likelihood=plan.likelihood,
        memory=plan.bound(n),
        refine=np.full(len(n_iters), stream or plan.refine if refine is None else refine),
        due=_due(rows.X, n_iters),
        groups=plan.groups(rows.X),
        random_state=random_state,
        noise_schedule=schedule,
        power=power,
        tail_rate=tail_rate,
        informative_ratio=ONCE_INFORMATIVE_RATIO if stream or n_epochs == 1 else INFORMATIVE_RATIO,
    )


_WIDE = 256  # inputs: below that, sparse rows and arrays are refined alike
_OFTEN = 128  # samples in which an input is not 0: then an epoch refines its weights
_FEWEST_SWEEPS = 8  # number of epochs between refinements of all weights


def _due(X: Samples, n_iters: range) -> Array | None:
    """Return the inputs of wide listed rows that each epoch refines, (n_epochs, n_features).

    The weights of a rarely active input change little in an epoch, and refining wide layers takes
    most of the time.
    """
    n, n_features = X.shape
    if not is_listed(X) or n_features < _WIDE:
        return None
    counts = X.counts() if isinstance(X, Encoded) else np.bincount(X.indices, minlength=n_features)
    every = np.ceil(min(_OFTEN, n) / np.maximum(counts, 1))
    every = np.clip(every, 1, _FEWEST_SWEEPS).astype(np.int64)
    if (every == 1).all():
        return None
    return np.asarray((np.array(n_iters)[:, np.newaxis] + np.arange(n_features)) % every == 0)


# ---- The rows of each shard in each round, determined by the seed


class Part(NamedTuple):
    """The rows of one shard in one round."""

    shard: int
    start: int  # places in the epoch of this shard, from 0 to its number of rows
    stop: int
    seed: int  # of the whole training
    n_iter: int  # the epoch, counted from 1
    n_round: int  # the round in it, counted from 0

    def places(self, n: int) -> Array:
        """Return which of the n rows of the shard are used, in this order.

        Every epoch begins at another place in the shard, and every part is shuffled.

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

        Round 0 is the warm-up. A later round has at most 1/n_rounds of the rows used before it,
        because K parallel updates of an early q would overshoot.
        """
        fewest = max(_WARM_UP, _FEWEST_IN_PART * self.n_shards * self.n_rounds)
        ends = [min(1.0, fewest / self.n)]
        while ends[-1] < 1.0:
            end = ends[-1] * (1.0 + 1.0 / self.n_rounds)
            # A last round of a few rows would be empty for most shards.
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
        n_rounds = min(self.n_rounds, max(self.sizes))  # no round is empty
        return tuple(t / n_rounds for t in range(1, n_rounds + 1))

    def parts(self, n_iter: int, n_round: int) -> list[Part]:
        """Return the parts of a round; a shard without rows has none."""
        start, stop = (0.0, *self.ends(n_iter))[n_round : n_round + 2]
        places = [(round(start * n), round(stop * n)) for n in self.sizes]
        at = (self.seed, n_iter, n_round)
        return [Part(k, a, b, *at) for k, (a, b) in enumerate(places) if a < b]


def usual_rounds(n_shards: int, n_hidden: int) -> int:
    """Return the default number of rounds per epoch of a network with `n_hidden` layers."""
    return max(_FEWEST_ROUNDS * max(1, n_hidden), n_shards)


# ---- One shard in one round


Shard = Callable[[Part], Rows]
"""A shard: a function that returns its rows of one round."""


def rows_of_part(rows: Rows, order: Array, part: Part) -> Rows:
    """Return a part of the shard whose rows are at these places of `rows`, (n,), shuffled."""
    return rows.at(order[part.places(len(order))])


@dataclass(frozen=True)
class Setting:
    """The constants of all rounds of a training."""

    plan: Plan
    standardizer: Standardizer  # of all rows
    schedule: Schedule
    n_epochs: int  # all that are planned
    groups: Array | None = None  # as in a `Task`


@dataclass(frozen=True, eq=False)
class Work:
    """The work of a shard in a round."""

    part: Part  # the rows to use
    setting: Setting
    posterior: Posterior  # the q with which all shards start
    size: int  # rows of this shard; all rows in the warm-up
    refine: bool  # whether the prior factors are refined after it; never by one of several shards


MapShards = Callable[[Callable[[Shard, Work], Any], Sequence[Work]], list[Any]]
"""Calls a function with the shard of each work and the work itself, anywhere; the results come in
the order of the works."""


class PartUpdate(NamedTuple):
    """The q of one shard after a round, and the observations."""

    posterior: Posterior  # of one of several shards: without the prior factors, which all share
    n_points: int
    log_Z_sum: float  # standardized
    counts: Array  # (4,), as in `Records`


def update_part(shard: Shard, work: Work) -> PartUpdate:
    """Update q on the rows of a part. A pure function: whoever calls it gets the same bits."""
    rows, setting, n_iter = shard(work.part), work.setting, work.part.n_iter
    n = setting.schedule.n
    given = (setting.plan, setting.standardizer, work.posterior, rows)
    planned = (range(n_iter, n_iter + 1), setting.n_epochs, n)
    share = len(rows.y) / work.size
    task = task_of(*given, *planned, share=share, refine=work.refine)
    ((q, records),), interrupt = ENGINES[setting.plan.engine].train([task])
    if interrupt is not None:
        raise interrupt
    if work.size < n:
        q = replace(q, v_hat_nat=(), a_hat_nat=(), b_hat_nat=())
    return PartUpdate(q, len(rows.y), float(records.log_Z_sums.sum()), records.counts[0])


def in_threads(shards: Sequence[Shard], n_threads: int) -> MapShards:
    """Return a map over shards of this process, in threads that do not change the result."""
    return lambda call, works: map_in_threads(
        lambda work: call(shards[work.part.shard], work), works, n_threads
    )


def map_in_threads(
    call: Callable[[Item], Result], items: Iterable[Item], n_threads: int
) -> list[Result]:
    """Return the results of the calls, in the order of the items; with one thread, made here.

    On an error, and on Ctrl-C, calls that have not begun are dropped; running calls
    finish, so they should check for cancellation.

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


# ---- The combination of the shards' q

# u of the weights, flat: of the network, then of the noise network, if there is one; () is zero.
Velocity = tuple[FloatArray, ...]


def at_rest(posterior: Posterior) -> Velocity:
    """Return the u of all weights that is 0."""
    networks = [posterior, posterior.noise_network]
    return tuple(np.zeros(sum(m.size for m in q.m_w)) for q in networks if q is not None)


def combine(
    posterior: Posterior, updates: Sequence[PartUpdate], velocity: Velocity
) -> tuple[Posterior, Velocity, int]:
    """Combine the q of one or more shards, in their order.

    Also returns the velocity, the number of precisions that were bounded below, and the number of
    Gammas that were unchanged.

    Every shard k begins with the same q; after its rows its weights have the means m_k and the
    precisions tau_k. Evidence adds up, so precisions and the Gamma of the noise do:

        tau'   = tau + sum_k (tau_k - tau)
        alpha' = alpha + sum_k (alpha_k - alpha),   beta' likewise.

    Means do not: where weights are correlated, every shard corrects the same error, and K
    corrections overshoot. Their average by precision is K times too slow along common directions,
    so it has a momentum b, clipped at one standard deviation:

        delta = sum_k tau_k (m_k - m) / sum_k tau_k
        u'    = clip(b u + delta, -1/sqrt(tau'), 1/sqrt(tau'))
        m'    = m + delta + b u'.

    Precisions are bounded below by the smallest of tau, all tau_k and the precision of the prior
    factor. With one shard the result is its q.
    """
    if len(updates) == 1:
        made = updates[0].posterior
        if not made.v_hat_nat:  # the only shard with rows
            made = replace(made, **{k: getattr(posterior, k) for k in LAYERED[2:]})
        return (made, velocity, 0)
    # What shards agree upon is carried on to 1/(1 - b) = (3 K - 1)/2 times as far, a little more
    # than K. With b = 1 - 1/K few epochs over many rows were too slow, and with 1 - 1/(2 K) one of
    # four benchmark sets was worse than in one piece.
    b = (len(updates) - 1.0) / (len(updates) - 1.0 / 3.0)
    shares = np.array([each.n_points for each in updates], float)
    shares /= shares.sum()
    velocity = velocity or at_rest(posterior)
    networks = [each.posterior for each in updates]
    combined, u, n_held = _combine_weights(posterior, networks, shares, velocity[0], b)
    moved = [u]
    if (network := posterior.noise_network) is not None:
        of_noise = [q.noise_network for q in networks if q.noise_network is not None]
        network, u, n = _combine_weights(network, of_noise, shares, velocity[1], b)
        n_held += n
        moved.append(u)
    before, *after = (np.stack([q.alpha_noise, q.beta_noise]) for q in (posterior, *networks))
    gamma = sum((each - before for each in after), before)
    valid = (gamma[0] > 1.0) & (gamma[1] > 0.0)
    alpha, beta = np.where(valid, gamma, before)
    combined = replace(combined, alpha_noise=alpha, beta_noise=beta, noise_network=network)
    return (combined, tuple(moved), n_held + int((~valid).sum()))


def _combine_weights(
    q: Posterior, made: Sequence[Posterior], shares: FloatArray, u: FloatArray, b: float
) -> tuple[Posterior, FloatArray, int]:
    """Return q with new weights and tails, the new velocity, and the bounded precisions."""
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
    # Together, several shards may remove more precision than a weight had.
    held = ~(tau_new >= floor)
    tau_new[held] = floor[held]
    delta = weighted / total
    most = 1.0 / np.sqrt(tau_new)
    u_new = np.clip(b * u + delta, -most, most)
    m_new = m + delta + b * u_new
    (m_w,), (v_w,) = (cut([new.astype(q.dtype)], q.m_w) for new in (m_new, 1.0 / tau_new))
    tail = q.tail + sum(s * (each.tail - q.tail) for s, each in zip(shares, made, strict=True))
    return replace(q, m_w=m_w, v_w=v_w, tail=tail), u_new, int(held.sum())


_FEWEST_ROWS = 500  # of a shard of a fit on one machine


@dataclass(frozen=True, eq=False)
class Fitted:
    """The state of a training: all that predictions and further passes need."""

    posterior: Posterior
    standardizer: Standardizer
    epoch: Epoch  # the record of the last pass; before the first its `n_iter` is 0
    log_evidence: float = 0.0  # sum of log Z over the passes with new rows, in target units
    n_samples_seen: int = 0  # number of rows


class Run(NamedTuple):
    """The training on one set of rows in memory, and its state."""

    plan: Plan
    fitted: Fitted  # where it is
    rows: Rows
    random_state: RandomState | None  # shuffles before every epoch; None: a stream
    n_epochs: int | None = None  # number of planned epochs; None: unknown
    made: Sequence[Epoch] = ()  # the epochs that the last step made
    new: bool = True  # whether no pass over the rows was made yet
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
    """Return the initial state: the prior, and the moments of the data.

    Targets are as the likelihood encodes them, (n,) or (n, K). The generator draws the initial
    means of the weights. A standardizer that was measured before is not measured again. With
    `near_draw` the layers between hidden layers begin near a draw from the prior.
    """
    likelihood, network = plan.likelihood, None
    n_noise = likelihood.n_outputs if likelihood.learns_noise else 1
    noise_shape, noise_rate = (np.full(n_noise, a) for a in likelihood.noise_prior)
    if plan.noise_hidden is not None:
        sizes = (X.shape[1], *plan.noise_hidden, n_noise)
        network = start_noise_network(sizes, random_state, plan.dtype)
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
        standardizer = fit_standardizer(X.X, y if likelihood.standardizes_target else None)
    elif standardizer is None:
        standardizer = identity_standardizer(X.shape[1], n_noise)
    check_target_scale(standardizer.y_scale)
    (nothing,) = summarize(0, 0, Records.of_epoch(posterior), standardizer)
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
    """Return a training that continues from a state with new rows.

    The generator shuffles the rows before each of the `n_epochs` epochs. None is a stream, whose
    rows come in the order given. Weights, (n,), and `power` are as in a `Task`; `y_std`, (n,) or
    (n, K), are known errors of the targets, in their units.
    """
    entries, X_var = features(plan, fitted.standardizer, X)
    if plan.likelihood.standardizes_target:
        fitted.standardizer.check_y(y, plan.dtype)
    y_var = None if y_std is None else target_variance(plan, fitted.standardizer, y_std)
    rows = Rows(entries, X_var, y, weights, y_var)
    return Run(plan, fitted, rows, random_state, n_epochs, power=power)


def target_variance(plan: Plan, standardizer: Standardizer, y_std: FloatArray) -> FloatArray:
    """Return the variances of standardized targets, (n, K)."""
    with np.errstate(over="ignore"):  # too large values are refused
        std: FloatArray = y_std.reshape(len(y_std), -1) / standardizer.y_scale
    check_magnitude("y_std", float(std.max()), plan.dtype)
    return std**2


# ---- Whole epochs over rows in memory


def train(run: Run, steps: Iterable[int]) -> Iterator[Run]:
    """Make that many epochs in each step, and yield the training after it.

    Ctrl-C within a step yields the whole epochs made so far before it is raised.
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
    """Make more epochs of every training, in parallel threads.

    Returns the trainings, and what ended them early, if anything: then each has its whole epochs.
    The result does not depend on the number of threads.
    """
    first = runs[0]  # parallel trainings have made the same number of epochs
    learned = first.plan.likelihood.learns_tail and first.random_state is not None
    n_before = first.plan.burn_in(first.n_epochs) - first.fitted.epoch.n_iter
    if not (learned and 0 <= n_before < n_epochs):
        return _advance(runs, n_epochs, n_threads)
    before, interrupt = [run._replace(made=()) for run in runs], None
    if n_before > 0:
        before, interrupt = _advance(runs, n_before, n_threads)
    if interrupt is not None:
        return before, interrupt
    begun = []
    for run in before:
        q = with_first_tails(run.fitted.posterior, run.plan.likelihood.noise_prior)
        begun.append(run._replace(fitted=replace(run.fitted, posterior=q)))
    moved, interrupt = _advance(begun, n_epochs - n_before, n_threads)
    # Broken off before a whole epoch: the tails have not begun either.
    return [
        then._replace(made=[*run.made, *then.made]) if then.made else run
        for run, then in zip(before, moved, strict=True)
    ], interrupt


def _advance(
    runs: Sequence[Run], n_epochs: int, n_threads: int
) -> tuple[list[Run], BaseException | None]:
    engine = ENGINES[runs[0].plan.engine]
    trained, interrupt = engine.train([_task(run, n_epochs) for run in runs], n_threads)
    moved = []
    for run, (posterior, records) in zip(runs, trained, strict=True):
        first, n = run.fitted.epoch.n_iter + 1, len(run.rows.y)
        moved.append(_after(run, posterior, summarize(first, n, records, run.fitted.standardizer)))
    return moved, interrupt


def _task(run: Run, n_epochs: int) -> Task:
    fitted, n, share = run.fitted, _n_seen(run), 1.0
    first, stream = fitted.epoch.n_iter + 1, run.random_state is None
    if stream:  # the tails are not updated on the first rows
        share = len(run.rows.y) / n if fitted.n_samples_seen > 0 else 0.0
    given = (run.plan, fitted.standardizer, fitted.posterior, run.rows)
    planned = (range(first, first + n_epochs), run.n_epochs, n)
    options: Any = {"random_state": run.random_state, "stream": stream, "power": run.power}
    return task_of(*given, *planned, share=share, **options)


def _n_seen(run: Run) -> int:
    return run.fitted.n_samples_seen + (len(run.rows.y) if run.new else 0)


def _after(run: Run, posterior: Posterior, made: Sequence[Epoch], velocity: Velocity = ()) -> Run:
    """Return a training after whole epochs with this posterior."""
    if not made:
        return run._replace(made=made)
    # The rows are new in the first pass only.
    evidence = run.fitted.log_evidence + (made[0].sum_log_Z if run.new else 0.0)
    fitted = Fitted(posterior, run.fitted.standardizer, made[-1], evidence, _n_seen(run))
    return run._replace(fitted=fitted, made=made, new=False, velocity=velocity)


# ---- Epochs over shards, in rounds


@dataclass(frozen=True, eq=False)
class State:
    """The state of a training by rounds: all that the next round needs."""

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
    """Update every shard on its next rows, combine their q, refine, and record."""
    plan, schedule, n_iter = setting.plan, setting.schedule, state.n_iter + 1
    end = schedule.ends(n_iter)[state.n_round]
    # In the first round of several shards their rows are used one after the other.
    warm_up = schedule.n_shards > 1 and (n_iter, state.n_round) == (1, 0)
    begins = state.n_round == 0 and state.n_iter == plan.burn_in(setting.n_epochs)
    if plan.likelihood.learns_tail and begins:
        q = with_first_tails(state.posterior, plan.likelihood.noise_prior)
        state = replace(state, posterior=q)
    refine = plan.refine and (warm_up or end == 1.0)
    sizes, alone = schedule.sizes, refine and schedule.n_shards == 1
    works = [
        Work(part, setting, state.posterior, sizes[part.shard], alone)
        for part in schedule.parts(n_iter, state.n_round)
    ]
    if warm_up:
        rows = joined(map_shards(lambda shard, work: shard(work.part), works))
        updates = [update_part(lambda _: rows, replace(works[0], size=schedule.n, refine=refine))]
    else:
        updates = map_shards(update_part, works)
    posterior, velocity, n_held = combine(state.posterior, updates, state.velocity)
    counts = state.counts + sum(each.counts for each in updates)
    if refine and schedule.n_shards > 1 and not warm_up:
        ratio = ONCE_INFORMATIVE_RATIO if setting.n_epochs == 1 else INFORMATIVE_RATIO
        posterior, swept = ENGINES[plan.engine].refine_prior(posterior, ratio, setting.groups)
        counts[3] += swept.n_skipped
    log_Z_sum = state.log_Z_sum + sum(each.log_Z_sum for each in updates)
    n_held += state.n_held
    if end < 1.0:
        so_far = (state.n_round + 1, log_Z_sum, counts, n_held)
        return State(posterior, velocity, state.n_iter, *so_far), None
    observed = Records.of_epoch(posterior)
    observed = observed._replace(log_Z_sums=np.array([log_Z_sum]), counts=counts[np.newaxis])
    (epoch,) = summarize(n_iter, schedule.n, observed, setting.standardizer)
    return State(posterior, velocity, n_iter), epoch._replace(n_held=n_held)


def number_of_shards(n_shards: int | None, n: int) -> int:
    """Return the number of shards that n samples are split into, of those asked for."""
    return max(1, min(int(n_shards or 1), n // _FEWEST_ROWS))


def train_by_rounds(run: Run, n_shards: int, n_threads: int) -> Iterator[Run]:
    """Make the remaining epochs over shards in threads; yield the training after each.

    The result depends on the number of shards, not on the number of threads. On Ctrl-C an epoch
    under way is lost. The generator of the run gives the seed and stays as it is.
    """
    fitted, n = run.fitted, len(run.rows.y)
    assert run.n_epochs is not None
    seed = int(deepcopy(run.random_state).randint(2**31 - 1))  # type: ignore[union-attr]
    orders = np.array_split(shard_order(seed, 0, n), n_shards)
    schedule = Schedule(tuple(map(len, orders)), usual_rounds(n_shards, len(run.plan.hidden)), seed)
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


# ---- Observations of epochs for `history_`, and the warning about them


def summarize(
    first: int, n_points: int, records: Records, standardizer: Standardizer
) -> list[Epoch]:
    """Convert observations of epochs over n points to target units; the first has this `n_iter`."""
    y_scale2, log_y_scale = (standardizer.y_scale**2).tolist(), standardizer.log_y_scale
    epochs = []
    for n_iter, (log_Z_sum, counts, noise, prior, tail) in enumerate(
        zip(*(column.tolist() for column in records), strict=True), first
    ):
        undone, guarded, skipped, skipped_factors = counts
        n_used = n_points - skipped
        noise_variance = [
            beta / (alpha - 1.0) * math.exp(0.5 * s2) * scale2
            for alpha, beta, s2, scale2 in zip(*noise, tail, y_scale2, strict=False)
        ]
        # The density of the targets is the density of standardized targets divided by the scales.
        mean_log_Z = log_Z_sum / max(1, n_used) - log_y_scale
        noises = noise_variance[0] if len(noise_variance) == 1 else tuple(noise_variance)
        prior_variance = prior[1] / (prior[0] - 1.0)
        observed = (mean_log_Z, noises, prior_variance, undone, guarded, skipped, skipped_factors)
        epochs.append(Epoch(n_iter, n_used, *observed))
    return epochs


def check_learned(history: list[Epoch]) -> None:
    """Refuse a fit in which all points were skipped: the weights are still the prior."""
    n_skipped = sum(epoch.n_skipped_points for epoch in history)
    if n_skipped and not any(epoch.n_points for epoch in history):
        raise ValueError(
            f"Nothing was learned: all {n_skipped} updates were skipped, because what the network "
            "predicts of the targets overflows. Fit it with a smaller prior_rate or fewer layers, "
            "on features that are standardized (standardize=True), or with dtype='float64'."
        )


class UpdateWarning(RuntimeWarning):
    """Many updates were undone or made by quadrature; no row was skipped."""


def warn_of_counts(history: list[Epoch], posterior: Posterior) -> None:
    """Warn once about skipped points, and about updates that were undone or guarded.

    Skipped points are always reported; weight updates that were undone or bounded by rounds, and
    noise updates by quadrature, above one in 10,000 of their kind.
    """
    names = ("n_points", "n_undone", "n_guarded", "n_skipped_points", "n_held")
    sums = (sum(getattr(epoch, name) for epoch in history) for name in names)
    n_points, n_undone, n_guarded, n_skipped, n_held = sums
    if not (n_undone or n_guarded or n_skipped or n_held):
        return  # the usual case, and a stream calls this for every row
    of_weights = WORTH_TELLING * n_points * sum(layer.size for layer in posterior.m_w)
    many = max(n_undone, n_held) > of_weights or n_guarded > WORTH_TELLING * n_points
    if n_skipped or many:
        counts = {
            "weight updates undone (their new variance was not positive)": n_undone,
            "noise updates made by quadrature (outliers, or few points)": n_guarded,
            "points skipped (their log Z was not finite)": n_skipped,
            "precisions held up between rounds (the combined updates of the shards would have "
            "removed more; intervals are only wider: with few rows leave n_shards at None, on a "
            "cluster give fewer shards)": n_held,
        }
        parts = [f"{count} {text}" for text, count in counts.items() if count]
        warnings.warn(
            f"In {n_points} updates: {'; '.join(parts)}. `history_` has the counts per epoch.",
            RuntimeWarning if n_skipped else UpdateWarning,
            stacklevel=3,
        )
