"""The training on rows that do not fit into memory: the same epochs, a part of the rows at a time.

Where an epoch has one part, or the memory has no bound and the noise neither a network nor tails,
an epoch in parts is one pass over the same rows in the same order, bit for bit. Otherwise what
`probprop.inference.training` does once in an epoch is done after every part, in proportion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from probprop.inference.engine import ENGINES
from probprop.inference.history import epoch_of
from probprop.inference.noise import watch, with_first_tails
from probprop.inference.plan import Plan
from probprop.inference.rounds.loop import State, Step
from probprop.inference.rounds.shards import Rows
from probprop.inference.standardize import Standardizer
from probprop.inference.task import INFORMATIVE_RATIO, ONCE_INFORMATIVE_RATIO, Task

Read = Callable[[int, int], Rows]
"""Returns the rows of an epoch, counted from 1, that belong to a part, counted from 0, in the order
in which they are absorbed."""


@dataclass(frozen=True)
class Setting:
    """What stays the same in all parts of a training.

    Parameters
    ----------
    plan : Plan
    standardizer : Standardizer
        Of all rows.
    n : int
        All rows.
    n_parts : int
        Of an epoch.
    n_epochs : int
        All that there will be.
    """

    plan: Plan
    standardizer: Standardizer
    n: int
    n_parts: int
    n_epochs: int

    @property
    def quiet(self) -> int | None:
        """Epochs before the tails of the noise begin; None: they never do."""
        return self.plan.quiet(self.n_epochs)


def epochs(setting: Setting, state: State, read: Read) -> Iterator[Step]:
    """Make the parts that are left, and yield where the training is after each."""
    while state.n_iter < setting.n_epochs:
        step = one_part(setting, state, read(state.n_iter + 1, state.n_round))
        state = step.state
        yield step


def one_part(setting: Setting, state: State, rows: Rows) -> Step:
    """Absorb the next rows; after the last ones of an epoch say what it observed."""
    plan, n_iter, part = setting.plan, state.n_iter + 1, state.n_round
    (trained,), interrupt = ENGINES[plan.engine].train([_task(setting, state, rows)])
    if interrupt is not None:
        raise interrupt
    posterior, records = trained
    log_Z_sum = state.log_Z_sum + float(records.log_Z_sums.sum())
    counts = state.counts + records.counts[0]
    if part + 1 < setting.n_parts:
        return Step(State(posterior, (), state.n_iter, part + 1, log_Z_sum, counts), None)
    made = epoch_of(n_iter, setting.n, posterior, log_Z_sum, counts, setting.standardizer)
    return Step(State(posterior, (), n_iter), made)


def _task(setting: Setting, state: State, rows: Rows) -> Task:
    plan, n_iter, q = setting.plan, state.n_iter + 1, state.posterior
    if state.n_round == 0 and state.n_iter == setting.quiet:
        q = with_first_tails(q, plan.likelihood.noise_prior)
    watching = None
    if q.noise_network is not None:
        one = range(n_iter, n_iter + 1)
        watching = watch(one, setting.n_epochs, plan.memory, setting.n, q.layer_sizes[0])
    tail_rate = None
    if setting.quiet is not None:
        tail_rate = np.array([len(rows.y) / setting.n if n_iter > setting.quiet else 0.0])
    return Task(
        posterior=q,
        X=rows.X,
        X_var=rows.X_var,
        y=rows.y,
        standardizer=setting.standardizer,
        likelihood=plan.likelihood,
        memory=plan.bound(setting.n),
        refine=np.array([plan.refine and state.n_round + 1 == setting.n_parts]),
        watch=watching,
        weights=rows.weights,
        y_var=rows.y_var,
        tail_rate=tail_rate,
        informative_ratio=ONCE_INFORMATIVE_RATIO if setting.n_epochs == 1 else INFORMATIVE_RATIO,
    )
