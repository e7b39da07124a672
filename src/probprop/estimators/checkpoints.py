"""The checkpoints of a fit: what they belong to, and how a training goes on from one."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import RandomState

from probprop.inference.checkpoint import Checkpoint, CheckpointFile, Origin, digest
from probprop.inference.posterior import Epoch
from probprop.inference.rounds.loop import State
from probprop.inference.training import Run

_NO_MATTER = {"verbose", "n_jobs"}  # they change no bit of the result


def settings_of(model: Any) -> dict[str, str]:
    """Return the parameters of a model that change the result, as text."""
    parameters = model.get_params(deep=False)
    settings = {k: _text(v) for k, v in parameters.items() if k not in _NO_MATTER}
    return {"class": type(model).__name__, **settings}


def _text(value: Any) -> str:
    plain = isinstance(value, int | float | str | tuple | list | None)
    return repr(value) if plain else type(value).__name__  # a generator has a state of its own


def check_seed(random_state: Any) -> None:
    """Refuse a seed with which the same call would begin with other networks."""
    if not isinstance(random_state, int | np.integer):
        raise ValueError(
            "with checkpoint, random_state must be an int, so that the same call begins with the "
            f"same seeds again. Got {random_state!r}."
        )


def checkpoint_file(path: str | os.PathLike[str], model: Any, run: Run) -> CheckpointFile:
    """Return the file of a fit that begins with this run."""
    rounds = "no" if model.n_jobs is None else "yes"
    settings = settings_of(model) | {"training by rounds (n_jobs)": rounds}
    data = digest([run.X, run.X_var, run.y, run.weights, run.y_var])
    return CheckpointFile(path, Origin(data, settings))


def checkpoint_of(run: Run, history: list[Epoch]) -> Checkpoint:
    """Return where a training is, between two epochs."""
    fitted = run.fitted
    state = State(fitted.posterior, run.velocity, fitted.epoch.n_iter)
    generator: Any = None if run.random_state is None else run.random_state.get_state(legacy=False)
    return Checkpoint(state, list(history), fitted.log_evidence, generator)


def resumed(run: Run, found: Checkpoint) -> tuple[Run, list[Epoch]]:
    """Return a training that has only begun, as far as another one had come, with its history."""
    fitted = replace(
        run.fitted,
        posterior=found.state.posterior,
        epoch=found.history[-1],
        log_evidence=found.log_evidence,
        n_samples_seen=len(run.y),
    )
    return (
        run._replace(
            fitted=fitted,
            random_state=generator_of(found),
            velocity=found.state.velocity,
            made=found.history[-1:],  # it is published if there is nothing left to do
            new=False,
        ),
        found.history,
    )


def generator_of(found: Checkpoint) -> RandomState:
    """Return the generator of a training that goes on, whose state came through JSON."""
    state: Any = found.generator
    inner = {
        k: np.array(v, np.uint32) if isinstance(v, list) else v for k, v in state["state"].items()
    }
    generator = RandomState(getattr(np.random, state["bit_generator"])())
    generator.set_state(state | {"state": inner})
    return generator
