"""The state of a training in a file, from which the same training goes on.

A checkpoint is a file of `numpy.savez` without pickle, replaced whole or not at all. It says
which data, settings and version of probprop it belongs to, and no others go on from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from probprop._atomic import replacing
from probprop._types import Array
from probprop._version import __version__
from probprop.inference.posterior import Epoch, Posterior
from probprop.inference.rounds.loop import State

_Path = str | os.PathLike[str]

_FORMAT = "probprop checkpoint 2"
_LAYERED = ("m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat")
_SECONDS_BETWEEN = 1.0  # of two writes: short epochs are not held up by the disk
_TIMES_AS_LONG = 20.0  # as a write took, if that is more: nor are those of many networks
_BLOCK = 1 << 16  # rows that are hashed at a time
_AFRESH = "remove the file to start afresh, or give another path"


class CheckpointError(ValueError):
    """The file is no checkpoint of this training; the message says why and what to do."""


@dataclass(frozen=True)
class Origin:
    """What a checkpoint belongs to.

    Parameters
    ----------
    data : str
        A digest of rows and targets.
    settings : dict of str
        Every setting that changes the result, as text.
    """

    data: str
    settings: dict[str, str]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training as far as it has come.

    Parameters
    ----------
    state : State
        Where it is. A training in one piece has no velocity and is between two epochs.
    history : list of Epoch
    log_evidence : float
    generator : dict or None
        The state of the generator that shuffles the rows of the epochs to come.
    label : str, default=""
        Which of several trainings in one file it is.
    """

    state: State
    history: list[Epoch]
    log_evidence: float
    generator: dict[str, Any] | None = None
    label: str = ""


def digest(arrays: Iterable[Array | None]) -> str:
    """Return a digest of arrays: their shapes, types and bytes, whatever their memory layout.

    >>> a = np.arange(6.0).reshape(2, 3)
    >>> digest([a, None]) == digest([np.asfortranarray(a), None]) != digest([a])
    True
    """
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is None:
            found.update(b"none")
            continue
        found.update(f"{array.dtype.str}{array.shape}".encode())
        for start in range(0, len(array), _BLOCK):
            found.update(np.ascontiguousarray(array[start : start + _BLOCK]).data)
    return found.hexdigest()


class CheckpointFile:
    """A file that is written again and again, at most once a second.

    Parameters
    ----------
    path : str or path-like
    origin : Origin
        Of the training.
    """

    def __init__(self, path: _Path, origin: Origin) -> None:
        self.path, self.origin = path, origin
        self._next = -np.inf
        self._waiting: Sequence[Checkpoint] | None = None

    def read(self) -> Checkpoint | None:
        """Return what is in the file, None if there is none; refuse that of another training."""
        return next(iter(self.read_all()), None)

    def read_all(self) -> list[Checkpoint]:
        """Return all trainings in the file, none if there is no file."""
        if not os.path.exists(self.path):
            return []
        about, arrays = _read(self.path)
        self._check(about)
        return [_rebuilt(part, f"{i}_", arrays) for i, part in enumerate(about["parts"])]

    def offer(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, unless the last one is not a second old."""
        self.offer_all([checkpoint])

    def offer_all(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Write several, as `offer` does; where that takes long, it is done less often."""
        self._waiting = checkpoints
        if time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Write what was offered last, if it is not written yet."""
        if self._waiting is not None:
            start = time.monotonic()
            _write(self.path, self.origin, self._waiting)
            end = time.monotonic()
            between = _SECONDS_BETWEEN * max(1.0, _TIMES_AS_LONG * (end - start))
            self._waiting, self._next = None, end + between

    def _check(self, about: dict[str, Any]) -> None:
        version, settings = about["version"], about["settings"]
        if version != __version__:
            raise self._refused(
                f"was written by probprop {version}, and this is {__version__}: go on with that "
                f"version, or {_AFRESH}"
            )
        now = self.origin.settings
        names = [k for k in sorted({*settings, *now}) if settings.get(k) != now.get(k)]
        if names:
            each = (f"{k} was {settings.get(k)} and is {now.get(k)}" for k in names)
            raise self._refused(f"is of other settings ({', '.join(each)}): {_AFRESH}")
        if about["data"] != self.origin.data:
            raise self._refused(f"is of other data: {_AFRESH}")

    def _refused(self, why: str) -> CheckpointError:
        return CheckpointError(f"The checkpoint {os.fspath(self.path)} {why}.")


# ---- A checkpoint as arrays, and back


def _write(path: _Path, origin: Origin, checkpoints: Sequence[Checkpoint]) -> None:
    parts = [_described(each) for each in checkpoints]
    arrays = {f"{i}_{k}": a for i, (_, own) in enumerate(parts) for k, a in own.items()}
    about = {
        "format": _FORMAT,
        "version": __version__,
        "data": origin.data,
        "settings": origin.settings,
        "parts": [described for described, _ in parts],
    }
    text = json.dumps(about, default=lambda array: array.tolist())
    arrays["about"] = np.frombuffer(text.encode(), np.uint8)
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _described(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Array]]:
    state, arrays = checkpoint.state, _posterior_arrays("q", checkpoint.state.posterior)
    network = state.posterior.noise_network
    if network is not None:
        arrays |= _posterior_arrays("noise", network)
    arrays |= {f"velocity_{i}": u for i, u in enumerate(state.velocity)}
    arrays["counts"] = state.counts
    about = {
        "label": checkpoint.label,
        "n_layers": len(state.posterior.m_w),
        "n_noise_layers": 0 if network is None else len(network.m_w),
        "n_velocities": len(state.velocity),
        "n_iter": state.n_iter,
        "n_round": state.n_round,
        "log_Z_sum": state.log_Z_sum,
        "n_held": state.n_held,
        "log_evidence": checkpoint.log_evidence,
        "history": [list(epoch) for epoch in checkpoint.history],
        "generator": checkpoint.generator,
    }
    return about, arrays


def _posterior_arrays(part: str, posterior: Posterior) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for field in fields(posterior):
        value = getattr(posterior, field.name)
        if field.name in _LAYERED:
            arrays |= {f"{part}_{field.name}_{i}": layer for i, layer in enumerate(value)}
        elif field.name != "noise_network":
            arrays[f"{part}_{field.name}"] = np.asarray(value)
    return arrays


def _read(path: _Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read the parts of a checkpoint; refuse any other file."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        about = json.loads(arrays.pop("about").tobytes())
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']}")
    except OSError as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise _no_checkpoint(path, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise _no_checkpoint(path, error) from error
    return about, arrays


def _no_checkpoint(path: _Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{os.fspath(path)} is not a checkpoint, or is damaged ({error}): {_AFRESH}."
    )


def _rebuilt(about: dict[str, Any], part: str, arrays: dict[str, Array]) -> Checkpoint:
    posterior = _rebuilt_posterior(f"{part}q", about["n_layers"], arrays)
    if about["n_noise_layers"]:
        network = _rebuilt_posterior(f"{part}noise", about["n_noise_layers"], arrays)
        posterior = replace(posterior, noise_network=network)
    state = State(
        posterior,
        tuple(arrays[f"{part}velocity_{i}"] for i in range(about["n_velocities"])),
        about["n_iter"],
        about["n_round"],
        about["log_Z_sum"],
        arrays[f"{part}counts"],
        about["n_held"],
    )
    history = [_epoch(values) for values in about["history"]]
    generator, label = about["generator"], about["label"]
    return Checkpoint(state, history, about["log_evidence"], generator, label)


def _rebuilt_posterior(part: str, n_layers: int, arrays: dict[str, Array]) -> Posterior:
    values: dict[str, Any] = {}
    for field in fields(Posterior):
        name = f"{part}_{field.name}"
        if field.name in _LAYERED:
            values[field.name] = tuple(arrays[f"{name}_{i}"] for i in range(n_layers))
        elif field.name != "noise_network":
            array = arrays[name]
            values[field.name] = array if array.ndim else float(array)
    return Posterior(**values)


def _epoch(values: list[Any]) -> Epoch:
    fields: list[Any] = [tuple(v) if isinstance(v, list) else v for v in values]
    return Epoch(*fields)
