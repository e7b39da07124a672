"""The state of a training in a file, from which the same training goes on.

A checkpoint is a file of `numpy.savez` without pickle, replaced whole or not at all. It says
which data, settings and version of probprop it belongs to, and no others go on from it. The content
of a file may be damaged or crafted: it is checked before a training goes on from it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Philox, RandomState

from probprop._atomic import replacing
from probprop._types import Array
from probprop._version import __version__
from probprop.inference.posterior import Epoch, Posterior
from probprop.inference.shards import at_rest
from probprop.inference.training import State
from probprop.reference.likelihoods.heavy import LARGEST_TAIL

_Path = str | os.PathLike[str]

_FORMAT = "probprop checkpoint 2"
_LAYERED = ("m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat")
_SECONDS_BETWEEN = 1.0  # of two writes: short epochs are not held up by the disk
_TIMES_AS_LONG = 20.0  # as a write took, if that is more: nor are those of many networks
_BLOCK = 1 << 16  # rows that are hashed at a time
_AFRESH = "remove the file to start afresh, or give another path"
_LARGEST_COUNT = 2**53  # counts are exact as floats
_LARGEST_WEIGHT = 1e30  # of the mean of a standardised network
_OF_GAMMA = ("alpha_noise", "beta_noise", "alpha_prior", "beta_prior")
_ABOUT: dict[str, tuple[type, ...]] = {
    "label": (str,),
    "n_layers": (int,),
    "n_noise_layers": (int,),
    "n_velocities": (int,),
    "n_iter": (int,),
    "n_round": (int,),
    "log_Z_sum": (float,),
    "n_held": (int,),
    "log_evidence": (float,),
    "history": (list,),
    "generator": (dict, type(None)),
}
_GENERATORS: dict[str, Any] = {
    kind.__name__: kind for kind in (MT19937, PCG64, PCG64DXSM, Philox, SFC64)
}
_POSITIONS = {"pos": 624, "buffer_pos": 4}  # in the arrays of MT19937 and Philox


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
        with open(self.path, "rb") as file, self.reading():
            about, arrays = _read(file)
            self._check(about)
            if type(about["parts"]) is not list or not about["parts"]:
                raise ValueError("it has no training")
            return [_rebuilt(part, f"{i}_", arrays) for i, part in enumerate(about["parts"])]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Refuse the file in words, whatever its content has led to."""
        try:
            yield
        except (CheckpointError, MemoryError):
            raise
        except Exception as error:  # zipfile, JSON and NumPy raise a dozen types
            why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise CheckpointError(
                f"{os.fspath(self.path)} is not a checkpoint, or is damaged "
                f"({why or type(error).__name__}): {_AFRESH}."
            ) from error

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
            each = (f"{k[:50]} was {str(settings.get(k))[:200]} and is {now.get(k)}" for k in names)
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


def _read(file: IO[bytes]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read the parts of a checkpoint; any other file raises any exception."""
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(info.file_size for info in members) > size:  # nothing is compressed
            raise ValueError("it claims more bytes than it has")
        arrays = {
            info.filename.removesuffix(".npy"): _read_array(archive, info) for info in members
        }
    about = json.loads(arrays.pop("about").tobytes())
    if about["format"] != _FORMAT:
        raise ValueError(f"its format is {about['format']}")
    return about, arrays


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """Read an array; what it claims is compared with its size before memory is taken."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{info.filename} is compressed")
    with archive.open(info) as member:
        if npy.read_magic(member) != (1, 0):
            raise ValueError(f"{info.filename} is of another version of the NPY format")
        shape, by_columns, dtype = npy.read_array_header_1_0(member)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
            raise ValueError(f"{info.filename} is longer or shorter than its shape says")
        content = member.read()  # the end verifies the checksum
    array = np.frombuffer(content, dtype).reshape(shape, order="F" if by_columns else "C")
    return array.copy()


def _rebuilt(about: dict[str, Any], part: str, arrays: dict[str, Array]) -> Checkpoint:
    if any(type(about[k]) not in kinds for k, kinds in _ABOUT.items()):
        raise ValueError("an entry is of another type")
    if any(not 0 <= about[k] <= _LARGEST_COUNT for k in _ABOUT if k.startswith("n_")):
        raise ValueError("a count is out of range")
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
    generator = None if about["generator"] is None else _generator_state(about["generator"])
    return Checkpoint(state, history, about["log_evidence"], generator, about["label"])


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
    epoch = Epoch(*fields)
    numbers = epoch._asdict()
    variances = numbers.pop("noise_variance")
    variances = variances if isinstance(variances, tuple) else (variances,)
    for k, number in numbers.items():
        if type(number) is not (int if k.startswith("n_") else float):
            raise ValueError(f"{k} of an epoch is not a number")
        if k.startswith("n_") and not 0 <= number <= _LARGEST_COUNT:
            raise ValueError(f"{k} of an epoch is out of range")
    if not variances or any(type(v) is not float or not 0.0 <= v < math.inf for v in variances):
        raise ValueError("noise_variance of an epoch is not a variance")
    return epoch


def _generator_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a generator as `RandomState.set_state` takes it."""
    usual: Any = RandomState(_GENERATORS[state["bit_generator"]]()).get_state(legacy=False)
    found: dict[str, Any] = _like(state, usual)
    for part in (found, found["state"]):
        for k, end in _POSITIONS.items():
            if not 0 <= part.get(k, 0) <= end:  # NumPy would read beyond its array
                raise ValueError("the state of the generator is out of range")
    return found


def _like(found: Any, usual: Any) -> Any:
    """Return values that came through JSON with the types and shapes of others."""
    if isinstance(usual, dict):
        if found.keys() != usual.keys():
            raise ValueError("the state of the generator has other entries")
        return {k: _like(found[k], value) for k, value in usual.items()}
    if isinstance(usual, np.ndarray):
        array = np.array(found, usual.dtype)
        if array.shape != usual.shape:
            raise ValueError("the state of the generator has another shape")
        return array
    if type(found) is not type(usual):
        raise ValueError("the state of the generator has an entry of another type")
    return found


# ---- Whether a training can go on from it


def checked(
    found: Checkpoint, begun: Posterior, n_before: int = 0, n_rounds: int = 1
) -> Checkpoint:
    """Return a checkpoint that a training can go on from; ValueError says why it cannot.

    Parameters
    ----------
    found : Checkpoint
    begun : Posterior
        Of the same training, before its first epoch: it has the shapes.
    n_before : int, default=0
        Epochs made before the first one in the history.
    n_rounds : int, default=1
        Rounds of the epoch under way.
    """
    state, history = found.state, found.history
    if [epoch.n_iter for epoch in history] != [*range(n_before + 1, state.n_iter + 1)]:
        raise ValueError("the history does not have the epochs that were made")
    if not state.n_round < n_rounds:
        raise ValueError("n_round is out of range")
    if state.counts.shape != (4,) or state.counts.dtype.kind != "i" or (state.counts < 0).any():
        raise ValueError("counts are not four numbers")
    n_targets = len(begun.noise_variance)
    for epoch in history:
        if np.size(epoch.noise_variance) != n_targets:
            raise ValueError("noise_variance of an epoch is of other targets")
    posterior = _checked_posterior(state.posterior, begun)
    if state.velocity:
        for u, rest in zip_longest(state.velocity, at_rest(begun)):
            _check_array("velocity", u, rest)
    return replace(found, state=replace(state, posterior=posterior))


def _checked_posterior(found: Posterior, begun: Posterior) -> Posterior:
    for name in _LAYERED:
        for array, first in zip_longest(getattr(found, name), getattr(begun, name)):
            _check_array(name, array, first)
    tiny = float(np.finfo(begun.dtype).tiny)
    if not all((0.99 * tiny < v).all() for v in found.v_w):
        raise ValueError("v_w has values that no training has")
    if not all((np.abs(m) < _LARGEST_WEIGHT).all() for m in found.m_w):
        raise ValueError("m_w has values that no training has")
    for name in (*_OF_GAMMA, "tail"):
        _check_array(name, np.asarray(getattr(found, name)), np.asarray(getattr(begun, name)))
    for name in _OF_GAMMA:
        lowest = 1.0 if name.startswith("alpha") else 0.0
        value = np.asarray(getattr(found, name))
        if not ((value > lowest) & (value < 1e110)).all():
            raise ValueError(f"{name} has values that no training has")
    if not ((found.tail >= 0.0) & (found.tail <= LARGEST_TAIL)).all():
        raise ValueError("tail has values that no training has")
    network, first_network = found.noise_network, begun.noise_network
    if (network is None) != (first_network is None):
        raise ValueError("the noise is not that of this training")
    if network is None or first_network is None:
        return found
    # The rest of a noise network never changes.
    own = replace(first_network, m_w=network.m_w, v_w=network.v_w, tail=network.tail)
    return replace(found, noise_network=_checked_posterior(own, first_network))


def _check_array(name: str, found: Array | None, usual: Array | None) -> None:
    """Refuse an array of another shape or dtype, or with values that are not finite."""
    if found is None or usual is None or (found.shape, found.dtype) != (usual.shape, usual.dtype):
        raise ValueError(f"{name} has another shape or dtype than in this training")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} has values that are not finite")
