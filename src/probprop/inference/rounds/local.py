"""A training by rounds on one machine: shards of rows that lie in its memory, in threads."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

import numpy as np

from probprop.inference.rounds.combining import at_rest
from probprop.inference.rounds.loop import Setting, State, in_threads, rounds
from probprop.inference.rounds.schedule import Schedule, shard_order, usual_rounds
from probprop.inference.rounds.shards import Rows, Shard
from probprop.inference.training import Run

N_SHARDS = 8
"""Shards of a fit on one machine, however many threads it has: they decide the result."""
_FEWEST_ROWS = 500  # of a shard


def train_by_rounds(run: Run, n_threads: int) -> Iterator[Run]:
    """Make the epochs that are left, and yield where the training is after each.

    The number of threads changes no bit. On Ctrl-C an epoch under way is lost.

    Parameters
    ----------
    run : Run
        With `n_epochs`. Its generator gives the seed and stays as it is.
    n_threads : int
    """
    fitted, n = run.fitted, len(run.y)
    assert run.n_epochs is not None
    seed = int(deepcopy(run.random_state).randint(2**31 - 1))  # type: ignore[union-attr]
    shards = _shards(Rows(run.X, run.X_var, run.y, run.weights, run.y_var), seed)
    sizes = tuple(len(shard.order) for shard in shards)
    n_hidden = len(fitted.posterior.layer_sizes) - 2
    schedule = Schedule(sizes, usual_rounds(len(shards), n_hidden), seed)
    setting = Setting(run.plan, fitted.standardizer, schedule, run.n_epochs)
    velocity = run.velocity or at_rest(fitted.posterior)
    state = State(fitted.posterior, velocity, fitted.epoch.n_iter)
    for state, made in rounds(setting, state, in_threads(shards, n_threads)):  # noqa: B020
        if made is None:
            continue
        gained = made.sum_log_Z if made.n_iter == 1 else 0.0
        fitted = replace(
            fitted,
            posterior=state.posterior,
            epoch=made,
            log_evidence=fitted.log_evidence + gained,
            n_samples_seen=n,
        )
        run = run._replace(fitted=fitted, made=[made], new=False, velocity=state.velocity)
        yield run


def _shards(rows: Rows, seed: int) -> list[Shard]:
    n = len(rows.y)
    n_shards = max(1, min(N_SHARDS, n // _FEWEST_ROWS))
    return [Shard(rows, order) for order in np.array_split(shard_order(seed, 0, n), n_shards)]
