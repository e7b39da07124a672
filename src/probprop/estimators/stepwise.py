"""The training of an estimator on shards, after each round of which a checkpoint may be kept."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.utils import check_random_state

from probprop.estimators.base import Callback, PBPEstimator, plan_of, publish
from probprop.estimators.checkpoints import generator_of
from probprop.estimators.progress import progress_bar
from probprop.inference import training
from probprop.inference.checkpoint import Checkpoint, CheckpointFile, checked
from probprop.inference.history import check_learned
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Likelihood
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch
from probprop.inference.shards import MapShards, Schedule
from probprop.inference.standardize import Standardizer
from probprop.inference.training import Fitted, Setting, first_state, rounds


def train_on_shards(
    model: PBPEstimator,
    likelihood: Likelihood,
    standardizer: Standardizer,
    sizes: tuple[int, ...],
    n_rounds: int,
    mapped: Callable[[Plan, int], MapShards],
    *,
    file: CheckpointFile | None = None,
    callback: Callback | None = None,
    progress: Callable[[float], object] | None = None,
    mean_weight: float = 1.0,
) -> None:
    """Train a model, which knows its features, on shards of rows; publish it.

    Also on Ctrl-C the file gets what the last whole round has reached.

    Parameters
    ----------
    model : PBPEstimator
    likelihood : Likelihood
    standardizer : Standardizer
        Of all rows.
    sizes : tuple of int
        Number of rows of each shard.
    n_rounds : int
        Rounds, or parts, of an epoch.
    mapped : callable
        Returns the map over the shards, given the plan and the seed of the training.
    file : CheckpointFile, default=None
    callback : callable, default=None
        Called with the `Epoch` after each pass; returning True ends the training.
    progress : callable, default=None
        Called after every round with the share of the training that is done.
    mean_weight : float, default=1.0
        Mean sample weight.
    """
    plan = plan_of(model, likelihood)
    random_state: RandomState = check_random_state(model.random_state)
    none = Inputs(np.zeros((0, len(standardizer.x_mean))))
    once = model.n_epochs == 1
    begun = training.start(plan, none, np.zeros(0), random_state, standardizer, once=once)
    state, history, log_evidence = first_state(begun.posterior), list[Epoch](), 0.0
    if file is not None and (found := file.read()) is not None:
        with file.reading():
            ends = Schedule(sizes, n_rounds, seed=0).ends(found.state.n_iter + 1)
            found = checked(found, begun.posterior, n_rounds=len(ends))
            random_state = generator_of(found)
        state, history, log_evidence = found.state, found.history, found.log_evidence
    seed = int(deepcopy(random_state).randint(2**31 - 1))
    setting = Setting(plan, standardizer, Schedule(sizes, n_rounds, seed), model.n_epochs)
    generator: Any = random_state.get_state(legacy=False)
    callbacks = [] if callback is None else [callback]
    if model.verbose:
        callbacks.append(progress_bar(model.n_epochs, show_noise=likelihood.learns_noise))
    try:
        for state, made in rounds(setting, state, mapped(plan, seed)):  # noqa: B020
            if progress is not None:
                n_ends = len(setting.schedule.ends(state.n_iter + 1))
                progress((state.n_iter + state.n_round / n_ends) / model.n_epochs)
            if made is not None:
                history.append(made)
                log_evidence += made.sum_log_Z if made.n_iter == 1 else 0.0
            if file is not None:
                file.offer(Checkpoint(state, list(history), log_evidence, generator))
            if made is not None and any([c(made) for c in callbacks]):  # every one is called
                break
    finally:
        if file is not None:
            file.flush()
    check_learned(history)
    model.likelihood_ = likelihood
    fitted = Fitted(state.posterior, standardizer, history[-1], log_evidence, sum(sizes))
    publish(model, fitted, history, mean_weight)
