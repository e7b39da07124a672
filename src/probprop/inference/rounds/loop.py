"""The training by rounds: the same epochs as `probprop.inference.training` makes, shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from probprop._types import Array
from probprop.inference.engine import ENGINES
from probprop.inference.history import epoch_of
from probprop.inference.noise import watch, with_first_tails
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch, Posterior
from probprop.inference.rounds.combining import Velocity, at_rest, combine
from probprop.inference.rounds.schedule import Schedule
from probprop.inference.rounds.shards import HasParts, Work, absorb, absorb_rows, joined, take
from probprop.inference.standardize import Standardizer
from probprop.inference.task import INFORMATIVE_RATIO, ONCE_INFORMATIVE_RATIO
from probprop.inference.threads import map_in_threads

MapShards = Callable[[Callable[[HasParts, Work], Any], Sequence[Work]], list[Any]]
"""Calls a function with the shard of each work and the work itself, anywhere; the results come in
the order of the works."""


@dataclass(frozen=True)
class Setting:
    """What stays the same in all rounds of a training.

    Parameters
    ----------
    plan : Plan
    standardizer : Standardizer
        Of all rows.
    schedule : Schedule
    n_epochs : int
        All that there will be.
    """

    plan: Plan
    standardizer: Standardizer
    schedule: Schedule
    n_epochs: int

    @property
    def quiet(self) -> int | None:
        """Epochs before the tails of the noise begin; None: they never do."""
        return self.plan.quiet(self.n_epochs)


@dataclass(frozen=True, eq=False)
class State:
    """Where a training by rounds is: all that the next round needs.

    Parameters
    ----------
    posterior : Posterior
    velocity : Velocity
        Of the means of the weights.
    n_iter : int
        Whole epochs made.
    n_round : int
        Rounds made of the epoch under way.
    log_Z_sum : float
        Of the epoch under way, standardised.
    counts : ndarray of shape (4,)
        Of the epoch under way, as in `Records`.
    n_held : int
        Of the epoch under way, as in `Combined`.
    """

    posterior: Posterior
    velocity: Velocity
    n_iter: int = 0
    n_round: int = 0
    log_Z_sum: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(4, np.int64))
    n_held: int = 0


class Step(NamedTuple):
    """What a round has led to.

    Parameters
    ----------
    state : State
    made : Epoch or None
        The epoch that the round has completed.
    """

    state: State
    made: Epoch | None


def in_threads(shards: Sequence[HasParts], n_threads: int) -> MapShards:
    """Return a map over shards of this process; the number of threads changes no bit."""

    def map_shards(call: Callable[[HasParts, Work], Any], works: Sequence[Work]) -> list[Any]:
        return map_in_threads(lambda work: call(shards[work.part.shard], work), works, n_threads)

    return map_shards


def first_state(posterior: Posterior) -> State:
    """Return the state before any row."""
    return State(posterior, at_rest(posterior))


def rounds(setting: Setting, state: State, map_shards: MapShards) -> Iterator[Step]:
    """Make the rounds that are left, and yield where the training is after each."""
    while state.n_iter < setting.n_epochs:
        step = one_round(setting, state, map_shards)
        state = step.state
        yield step


def one_round(setting: Setting, state: State, map_shards: MapShards) -> Step:
    """Let every shard absorb its next rows, and combine what they made of q."""
    schedule, n_iter = setting.schedule, state.n_iter + 1
    start, end = (0.0, *schedule.ends(n_iter))[state.n_round : state.n_round + 2]
    if state.n_round == 0 and state.n_iter == setting.quiet:
        begun = with_first_tails(state.posterior, setting.plan.likelihood.noise_prior)
        state = replace(state, posterior=begun)
    warm_up = schedule.is_warm_up(n_iter, state.n_round)
    works = _works(setting, state, end - start)
    if warm_up:
        rows = joined(map_shards(take, works))
        absorbed = [absorb_rows(rows, works[0])]
    else:
        absorbed = map_shards(absorb, works)
    posterior, velocity, n_held = combine(state.posterior, absorbed, state.velocity)
    counts = state.counts + sum(each.counts for each in absorbed)
    n_held += state.n_held
    if warm_up:
        velocity = at_rest(posterior)
    if setting.plan.refine and (warm_up or end == 1.0):
        ratio = ONCE_INFORMATIVE_RATIO if setting.n_epochs == 1 else INFORMATIVE_RATIO
        posterior, swept = ENGINES[setting.plan.engine].refine_prior(posterior, ratio)
        counts[3] += swept.n_skipped
    log_Z_sum = state.log_Z_sum + sum(each.log_Z_sum for each in absorbed)
    if end < 1.0:
        n_round = state.n_round + 1
        so_far = (n_round, log_Z_sum, counts, n_held)
        return Step(State(posterior, velocity, state.n_iter, *so_far), None)
    epoch = epoch_of(n_iter, schedule.n, posterior, log_Z_sum, counts, setting.standardizer)
    return Step(State(posterior, velocity, n_iter), epoch._replace(n_held=n_held))


def _works(setting: Setting, state: State, share: float) -> list[Work]:
    """Return what the shards are asked to do with this share of an epoch."""
    plan, schedule, n_iter = setting.plan, setting.schedule, state.n_iter + 1
    q = state.posterior
    watching = None
    if q.noise_network is not None:
        n_features = q.layer_sizes[0]
        watching = watch(
            range(n_iter, n_iter + 1), setting.n_epochs, plan.memory, schedule.n, n_features
        )
    quiet = setting.quiet
    return [
        Work(
            part=part,
            posterior=q,
            standardizer=setting.standardizer,
            likelihood=plan.likelihood,
            engine=plan.engine,
            memory=plan.bound(schedule.n),
            watch=watching,
            tail_rate=0.0 if quiet is None or n_iter <= quiet else share,
        )
        for part in schedule.parts(n_iter, state.n_round)
    ]
