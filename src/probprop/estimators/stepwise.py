"""The training of an estimator in many small steps, each of which a checkpoint may keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from probprop.inference.rounds.loop import State, Step
from probprop.inference.standardize import Standardizer
from probprop.inference.training import Fitted

RoundsOf = Callable[[int], int]
"""Returns the rounds, or parts, of an epoch, counted from 1."""
Steps = Callable[[Plan, State, int], Iterator[Step]]
"""Makes the steps that are left of a training with a plan, from a state on, with a seed."""


def train_by_steps(
    model: PBPEstimator,
    likelihood: Likelihood,
    standardizer: Standardizer,
    n: int,
    steps: Steps,
    rounds_of: RoundsOf,
    file: CheckpointFile | None = None,
    callback: Callback | None = None,
    mean_weight: float = 1.0,
) -> None:
    """Train a model, which knows its features, on n rows that only `steps` sees; publish it.

    Also on Ctrl-C the file gets what the last whole step has reached.
    """
    plan = plan_of(model, likelihood)
    random_state: RandomState = check_random_state(model.random_state)
    none = Inputs(np.zeros((0, len(standardizer.x_mean))))
    once = model.n_epochs == 1
    begun = training.start(plan, none, np.zeros(0), random_state, standardizer, once=once)
    state, history, log_evidence = State(begun.posterior, ()), list[Epoch](), 0.0
    if file is not None and (found := file.read()) is not None:
        with file.reading():
            n_rounds = rounds_of(found.state.n_iter + 1)
            found = checked(found, begun.posterior, n_rounds=n_rounds)
            random_state = generator_of(found)
        state, history, log_evidence = found.state, found.history, found.log_evidence
    seed = int(deepcopy(random_state).randint(2**31 - 1))
    generator: Any = random_state.get_state(legacy=False)
    callbacks = [] if callback is None else [callback]
    if model.verbose:
        callbacks.append(progress_bar(model.n_epochs, show_noise=likelihood.learns_noise))
    try:
        for state, made in steps(plan, state, seed):  # noqa: B020
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
    fitted = Fitted(state.posterior, standardizer, history[-1], log_evidence, n)
    publish(model, fitted, history, mean_weight)
