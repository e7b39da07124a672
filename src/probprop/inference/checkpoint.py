"""The state of a training in a file, from which the same training goes on.

A checkpoint is a file of `probprop.io`, replaced whole or not at all. It says which data, settings
and version of probprop it belongs to, and no others go on from it. The content of a file may be
damaged or crafted: it is checked before a training goes on from it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop._version import __version__
from probprop.inference.inputs import Samples, is_listed
from probprop.inference.noise import start_noise_network
from probprop.inference.posterior import LAYERED, Epoch, Posterior
from probprop.inference.shards import at_rest
from probprop.inference.training import State
from probprop.io import (
    CHECKPOINT,
    Declared,
    above,
    anything,
    decode,
    encode,
    read_file,
    within,
    write_file,
)
from probprop.reference.likelihoods import LARGEST_TAIL

_Path = str | os.PathLike[str]
Layers = tuple[Array, ...]

_SECONDS_BETWEEN = 1.0  # of two writes: short epochs are not held up by the disk
_TIMES_AS_LONG = 20.0  # as a write took, if that is more: nor are those of many networks
_BLOCK = 1 << 16  # rows that are hashed at a time
_AFRESH = "remove the file to start afresh, or give another path"
_LARGEST_WEIGHT = 1e30  # of the mean of a standardised network


class CheckpointError(ValueError):
    """The file is no checkpoint of this training; the message says why and what to do."""


class Generator(NamedTuple):
    """The state of a generator of NumPy's usual kind, MT19937."""

    key: Array  # (624,), words of 32 bits
    pos: int  # among them
    has_gauss: int
    cached_gaussian: float

    @classmethod
    def of(cls, random_state: RandomState) -> Self:
        """Return the state that a generator is in; refuse other kinds."""
        state: Any = random_state.get_state(legacy=False)
        if state["bit_generator"] != "MT19937":
            raise ValueError(
                "with checkpoint, random_state must be an int, None or a RandomState of the usual "
                f"kind, MT19937. Got {state['bit_generator']}."
            )
        key = state["state"]["key"].astype(np.int64)
        return cls(key, state["state"]["pos"], state["has_gauss"], state["gauss"])

    def restored(self) -> RandomState:
        """Return a generator that goes on from the state."""
        random_state = RandomState()
        random_state.set_state(("MT19937", *self))
        return random_state


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training as far as it has come."""

    state: State  # a training in one piece has no velocity and is between two epochs
    history: list[Epoch]
    log_evidence: float
    generator: Generator | None = None  # shuffles later epochs
    label: str = ""  # which of several trainings in one file it is


class _Content(NamedTuple):
    """What a checkpoint file holds."""

    data: str
    settings: dict[str, str]
    trainings: list[Checkpoint]


def digest(arrays: Iterable[Samples | None]) -> str:
    """Return a digest of arrays: their shapes, types and bytes, whatever their memory layout.

    An array may also be a sparse one.

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
        if is_listed(array):
            found.update(digest([array.indptr, array.indices, array.data]).encode())
            continue
        for start in range(0, len(array), _BLOCK):
            found.update(np.ascontiguousarray(array[start : start + _BLOCK]).data)
    return found.hexdigest()


class CheckpointFile:
    """A file that is written again and again, at most once a second.

    It belongs to a digest of samples and targets, and to every setting that changes the result.
    """

    def __init__(self, path: _Path, data: str, settings: dict[str, str]) -> None:
        self.path, self.data, self.settings = path, data, settings
        self._next = -np.inf
        self._waiting: Sequence[Checkpoint] | None = None

    def read(self) -> Checkpoint | None:
        """Return what is in the file, None if there is none; refuse that of another training."""
        return next(iter(self.read_all()), None)

    def read_all(self) -> list[Checkpoint]:
        """Return all trainings in the file, none if there is no file."""
        if not os.path.exists(self.path):
            return []
        with self.reading():
            tree, arrays, version = read_file(self.path, CHECKPOINT)
            if version != __version__:
                raise self._refused(
                    f"was written by probprop {version[:50]}, and this is {__version__}: go on "
                    f"with that version, or {_AFRESH}"
                )
            content: _Content = decode(_Content, tree, arrays, DECLARED)
            self._check(content)
            if not content.trainings:
                raise ValueError("it has no training")
            return content.trainings

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
            content = _Content(self.data, self.settings, list(self._waiting))
            write_file(self.path, CHECKPOINT, *encode(_Content, content, DECLARED))
            end = time.monotonic()
            between = _SECONDS_BETWEEN * max(1.0, _TIMES_AS_LONG * (end - start))
            self._waiting, self._next = None, end + between

    def _check(self, content: _Content) -> None:
        settings, now = content.settings, self.settings
        names = [k for k in sorted({*settings, *now}) if settings.get(k) != now.get(k)]
        if names:
            each = (f"{k[:50]} was {str(settings.get(k))[:200]} and is {now.get(k)}" for k in names)
            raise self._refused(f"is of other settings ({', '.join(each)}): {_AFRESH}")
        if content.data != self.data:
            raise self._refused(f"is of other data: {_AFRESH}")

    def _refused(self, why: str) -> CheckpointError:
        return CheckpointError(f"The checkpoint {os.fspath(self.path)} {why}.")


# ---- Declarations of what training carries, for checkpoints and model files


class NoiseWeights:
    """The noise network in a file: the weights and tails of a `Posterior`, as the rest is fixed."""


def _check_layers(m_w: Layers, v_w: Layers, *others: Layers) -> None:
    """Refuse layers that are not one network: shapes (n_out, n_in + 1), weights of one dtype."""
    shapes = [m.shape for m in m_w]
    if any([a.shape for a in layers] != shapes for layers in (v_w, *others)):
        raise ValueError("the shapes of m_w and of the other layers do not fit together")
    possible = bool(shapes) and all(len(s) == 2 and min(s) > 0 for s in shapes)
    if not possible or any(n_in != n + 1 for (n, _), (_, n_in) in pairwise(shapes)):
        raise ValueError("the layers of m_w do not fit together")
    dtypes = {a.dtype for a in (*m_w, *v_w)}
    if len(dtypes) > 1 or m_w[0].dtype.kind != "f":
        raise ValueError("the dtypes of m_w and v_w do not fit together")


def _made_noise_network(m_w: Layers, v_w: Layers, tail: FloatArray) -> Posterior:
    """Return a noise network, of which nothing but weights and tails ever changes."""
    _check_layers(m_w, v_w)  # before arrays of these sizes are made
    n_features, *hidden, n_targets = (m_w[0].shape[1] - 1, *(len(m) for m in m_w))
    sizes = (n_features, tuple(hidden), n_targets)
    begun = start_noise_network(*sizes, RandomState(0), m_w[0].dtype)
    return replace(begun, m_w=m_w, v_w=v_w, tail=tail)


def _check_posterior(q: Posterior) -> None:
    """Refuse arrays that do not fit together, and values outside of the dtype of the weights."""
    _check_layers(*(getattr(q, name) for name in LAYERED))
    limits = np.finfo(q.dtype)
    if not all((v > 0.99 * float(limits.tiny)).all() for v in q.v_w):
        raise ValueError("v_w has values that are out of range")
    # Precisions, in units of the weights.
    if not all((np.abs(a) < 1.0 / float(limits.tiny)).all() for a in q.v_hat_nat):
        raise ValueError("v_hat_nat has values that are out of range")
    if q.tail.shape != (len(q.m_w[-1]),):
        raise ValueError("tail does not have a value per output")
    if (noise := q.noise_network) is None:
        return
    ends, own = q.layer_sizes, noise.layer_sizes
    if (own[0], own[-1]) != (ends[0], ends[-1]) or noise.dtype != q.dtype:
        raise ValueError("the layers of noise_network do not fit the layers of the mean")


def _check_generator(state: Generator) -> None:
    key = state.key
    if key.shape != (624,) or key.dtype.kind != "i" or key.min() < 0 or key.max() >= 2**32:
        raise ValueError("the state of the generator is out of range")


# No data bring a Gamma this far, and beyond the squares of its moments leave the floats.
_SHAPE, _RATE = above(1.0, 1e110), above(0.0, 1e110)
_TAIL = within(0.0, LARGEST_TAIL)

DECLARED: dict[Any, Declared] = {
    Posterior: Declared(
        ranges={
            "alpha_noise": _SHAPE,
            "beta_noise": _RATE,
            "alpha_prior": _SHAPE,
            "beta_prior": _RATE,
            "tail": _TAIL,
        },
        shapes={"alpha_noise": "k", "beta_noise": "k", "tail": "n"},
        check=_check_posterior,
        types={"noise_network": NoiseWeights | None},
    ),
    NoiseWeights: Declared(
        ranges={"tail": _TAIL}, check=_check_posterior, make=_made_noise_network
    ),
    Epoch: Declared({"mean_log_Z": anything, "noise_variance": within(0.0, np.finfo(float).max)}),
    State: Declared({"log_Z_sum": anything}),
    Checkpoint: Declared({"log_evidence": anything}),
    # With another position NumPy would read beyond the words.
    Generator: Declared({"pos": within(0, 624)}, check=_check_generator),
}
"""The classes that checkpoints and model files have in common."""


# ---- Whether a training can go on from it


def checked(
    found: Checkpoint, begun: Posterior, n_before: int = 0, n_rounds: int = 1
) -> Checkpoint:
    """Return a checkpoint that a training can go on from; ValueError says why it cannot.

    The training begins with the posterior `begun` after `n_before` epochs, and the epoch under way
    has `n_rounds` rounds.
    """
    state, history = found.state, found.history
    if [epoch.n_iter for epoch in history] != [*range(n_before + 1, state.n_iter + 1)]:
        raise ValueError("the history does not have the epochs that were made")
    if not state.n_round < n_rounds:
        raise ValueError("n_round is out of range")
    if state.counts.shape != (4,) or state.counts.dtype.kind != "i" or (state.counts < 0).any():
        raise ValueError("counts are not four numbers")
    if any(np.size(epoch.noise_variance) != len(begun.noise_variance) for epoch in history):
        raise ValueError("noise_variance of an epoch is of other targets")
    arrays, usual = _arrays(state.posterior), _arrays(begun)
    if state.velocity:
        arrays, usual = [*arrays, *state.velocity], [*usual, *at_rest(begun)]
    if [(a.shape, a.dtype) for a in arrays] != [(a.shape, a.dtype) for a in usual]:
        raise ValueError("the arrays have other shapes or dtypes than in this training")
    if not all(np.isfinite(a).all() for a in arrays):
        raise ValueError("the arrays have values that are not finite")
    means = [m for q in (state.posterior, state.posterior.noise_network) if q for m in q.m_w]
    if not all((np.abs(m) < _LARGEST_WEIGHT).all() for m in means):
        raise ValueError("m_w has values that no training has")
    return found


def _arrays(q: Posterior) -> list[Array]:
    """Return all arrays of a posterior, with those of its noise network."""
    own = [array for name in LAYERED for array in getattr(q, name)]
    noise = [] if q.noise_network is None else _arrays(q.noise_network)
    return [*own, q.alpha_noise, q.beta_noise, q.tail, *noise]
