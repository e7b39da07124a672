"""The checkpoints of a fit: what they belong to, and how a training goes on from one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from probprop.inference.checkpoint import Checkpoint, Generator, checked
from probprop.inference.posterior import Epoch
from probprop.inference.training import Fitted, Run, State

_NO_MATTER = {"verbose", "n_jobs"}  # they change no bit of the result


def settings_of(model: Any) -> dict[str, str]:
    """Return the parameters of a model that change the result, as text."""
    parameters = model.get_params(deep=False)
    if not isinstance(parameters.get("cv"), Integral | None):
        parameters["cv"] = type(parameters["cv"])  # the digest of the data has the folds
    settings = {k: text_of(v) for k, v in parameters.items() if k not in _NO_MATTER}
    return {"class": type(model).__name__, **settings}


def text_of(value: Any) -> str:
    """Return a setting as text: the same for equal settings, another one for others.

    Objects that are not settings are their type: a generator has a state of its own. Tuples and
    arrays are lists, and whole numbers are ints.
    """
    plain = _plain(value)
    return plain if isinstance(plain, str) and not isinstance(value, str) else repr(plain)


def _plain(value: Any) -> Any:
    """Return a setting as numbers, texts, lists and dicts."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return int(number) if number.is_integer() else number
    if isinstance(value, BaseEstimator):
        return settings_of(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(value[k]) for k in sorted(value, key=str)}
    if isinstance(value, Collection):
        return [_plain(item) for item in value]
    return value.__name__ if isinstance(value, type) else type(value).__name__


def check_seed(random_state: Any) -> None:
    """Refuse a seed with which the same call would begin with other networks."""
    if not isinstance(random_state, int | np.integer):
        raise ValueError(
            "with checkpoint, random_state must be an int, so that the same call begins with the "
            f"same seeds again. Got {random_state!r}."
        )


def checkpoint_of(run: Run, history: list[Epoch]) -> Checkpoint:
    """Return where a training is, between two epochs."""
    fitted = run.fitted
    state = State(fitted.posterior, run.velocity, fitted.epoch.n_iter)
    generator = None if run.random_state is None else Generator.of(run.random_state)
    return Checkpoint(state, list(history), fitted.log_evidence, generator)


def resumed(run: Run, found: Checkpoint) -> tuple[Run, list[Epoch]]:
    """Return a training as far as a checkpoint has come, with the epochs made since.

    ValueError says why it cannot go on from there; see `CheckpointFile.reading`.
    """
    before = run.fitted
    found = checked(found, before.posterior, before.epoch.n_iter)
    if not found.history or found.generator is None:
        raise ValueError("it has no epochs, or no generator")
    q, epoch = found.state.posterior, found.history[-1]
    there = Fitted(q, before.standardizer, epoch, found.log_evidence, len(run.rows.y))
    run = run._replace(
        fitted=there,
        random_state=found.generator.restored(),
        velocity=found.state.velocity,
        made=[epoch],  # it is published if there is nothing left to do
        new=False,
    )
    return run, found.history
