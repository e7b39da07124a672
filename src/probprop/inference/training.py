"""The training of a network: one loop, for `fit`, `partial_fit`, choices and ensembles alike.

An epoch is an ADF pass over the likelihood ([PBP15] section 3.3), then a refinement of the prior
factors (section 3.4). Rows in memory make a `Run`: they are one shard, whose epochs go to the
engine several at a time, as those of many networks do. `rounds` makes the same epochs over shards
in parts: each absorbs its next rows, the results are combined, the prior factors refined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.history import epoch_of, summarize
from probprop.inference.inputs import Inputs
from probprop.inference.noise import start_noise_network, with_first_tails
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch, Posterior, initial_posterior, near_a_draw
from probprop.inference.prediction import features
from probprop.inference.shards import (
    MapShards,
    Rows,
    Schedule,
    Shard,
    Velocity,
    Work,
    absorb,
    absorb_rows,
    combine,
    in_threads,
    joined,
    ratio_of,
    shard_order,
    take,
    task_of,
    usual_rounds,
)
from probprop.inference.standardize import (
    Standardizer,
    check_magnitude,
    check_target_scale,
    fit_standardizer,
    identity_standardizer,
)
from probprop.inference.task import Task

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
    posterior = initial_posterior(
        [X.shape[1], *plan.hidden, likelihood.n_outputs],
        noise_shape=noise_shape,
        noise_rate=noise_rate,
        prior_shape=plan.prior_shape,
        prior_rate=plan.prior_rate,
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


@dataclass(frozen=True)
class Setting:
    """What stays the same in all rounds of a training."""

    plan: Plan
    standardizer: Standardizer  # of all rows
    schedule: Schedule
    n_epochs: int  # all that there will be


@dataclass(frozen=True, eq=False)
class State:
    """Where a training by rounds is: all that the next round needs."""

    posterior: Posterior
    velocity: Velocity = ()  # of the means of the weights
    n_iter: int = 0  # whole epochs made
    n_round: int = 0  # rounds made of the epoch under way
    log_Z_sum: float = 0.0  # of the epoch under way, standardized
    counts: Array = field(default_factory=lambda: np.zeros(4, np.int64))  # likewise, as `Records`
    n_held: int = 0  # likewise, as in `Combined`


class Step(NamedTuple):
    """What a round has led to."""

    state: State
    made: Epoch | None  # the epoch that the round has completed


def rounds(setting: Setting, state: State, map_shards: MapShards) -> Iterator[Step]:
    """Make the rounds that are left, and yield where the training is after each."""
    while state.n_iter < setting.n_epochs:
        step = one_round(setting, state, map_shards)
        state = step.state
        yield step


def one_round(setting: Setting, state: State, map_shards: MapShards) -> Step:
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
            part=part,
            plan=plan,
            standardizer=setting.standardizer,
            posterior=state.posterior,
            n_epochs=setting.n_epochs,
            n=schedule.n,
            size=schedule.sizes[part.shard],
            refine=refine and schedule.n_shards == 1,
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
        posterior, swept = ENGINES[plan.engine].refine_prior(posterior, ratio)
        counts[3] += swept.n_skipped
    log_Z_sum = state.log_Z_sum + sum(each.log_Z_sum for each in absorbed)
    n_held += state.n_held
    if end < 1.0:
        so_far = (state.n_round + 1, log_Z_sum, counts, n_held)
        return Step(State(posterior, velocity, state.n_iter, *so_far), None)
    epoch = epoch_of(n_iter, schedule.n, posterior, log_Z_sum, counts, setting.standardizer)
    return Step(State(posterior, velocity, n_iter), epoch._replace(n_held=n_held))


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
    setting = Setting(run.plan, fitted.standardizer, schedule, run.n_epochs)
    shards = [Shard(run.rows, order) for order in orders]
    state = State(fitted.posterior, run.velocity, fitted.epoch.n_iter)
    for state, made in rounds(setting, state, in_threads(shards, n_threads)):  # noqa: B020
        if made is not None:
            run = _after(run, state.posterior, [made], state.velocity)
            yield run
