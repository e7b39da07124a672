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

_FEWEST_ROWS = 500  # of a shard


def number_of_shards(n_shards: int | None, n: int) -> int:
    """Return the number of shards that n samples are split into, of those asked for.

    Examples
    --------
    >>> [number_of_shards(*given) for given in [(None, 10**6), (8, 10**6), (8, 1200), (8, 3)]]
    [1, 8, 2, 1]
    """
    return max(1, min(int(n_shards or 1), n // _FEWEST_ROWS))


def train_by_rounds(run: Run, n_shards: int, n_threads: int) -> Iterator[Run]:
    """Make the epochs that are left, and yield where the training is after each.

    The result depends on the number of shards, not on the number of threads. On Ctrl-C
    an epoch under way is lost.

    Parameters
    ----------
    run : Run
        With `n_epochs`. Its generator gives the seed and stays as it is.
    n_shards, n_threads : int
    """
    fitted, n = run.fitted, len(run.y)
    assert run.n_epochs is not None
    seed = int(deepcopy(run.random_state).randint(2**31 - 1))  # type: ignore[union-attr]
    shards = _shards(Rows(run.X, run.X_var, run.y, run.weights, run.y_var), seed, n_shards)
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


def _shards(rows: Rows, seed: int, n_shards: int) -> list[Shard]:
    order = shard_order(seed, 0, len(rows.y))
    return [Shard(rows, own) for own in np.array_split(order, n_shards)]
