"""The state of a training in a file, from which the training is resumed.

A checkpoint is a file of `probprop.io`, replaced whole or not at all. It belongs to certain data,
parameters and a version of probprop; others are refused. The content of a file may be damaged or
crafted, so it is checked before a training is resumed.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from sklearn.base import BaseEstimator

from probprop import io
from probprop._types import Array, FloatArray
from probprop._version import __version__
from probprop.inference.inputs import Samples, is_listed
from probprop.inference.noise import start_noise_network
from probprop.inference.output_layer import OutputLayer
from probprop.inference.posterior import LAYERED, Epoch, Posterior
from probprop.inference.training import Fitted, Run, State, at_rest
from probprop.reference.likelihoods import LARGEST_TAIL

_Path = str | os.PathLike[str]
Layers = tuple[Array, ...]

_SECONDS_BETWEEN = 1.0  # between two writes: the disk does not slow down short epochs
_TIMES_AS_LONG = 20.0  # times the duration of a write, if that is more: for many networks
_BLOCK = 1 << 16  # rows that are hashed at a time
_AFRESH = "remove the file to start afresh, or give another path"
_LARGEST_WEIGHT = 1e30  # of the mean of a standardized network


class CheckpointError(ValueError):
    """The file is not a checkpoint of this training; the message says why and what to do."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training as far as it has come."""

    state: State  # a training in one piece has no velocity and is between two epochs
    history: list[Epoch]
    log_evidence: float
    label: str = ""  # number of the training in the file


class _Content(NamedTuple):
    """What a checkpoint file holds."""

    data: str
    settings: dict[str, str]
    trainings: list[Checkpoint]


def digest(arrays: Iterable[Samples | None]) -> str:
    """Return a digest of arrays, dense or sparse: shapes, types and bytes, whatever their layout.

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

    def read(self) -> list[Checkpoint]:
        """Return the trainings in the file, none if there is no file; refuse another fit's."""
        if not os.path.exists(self.path):
            return []
        with self.reading():
            tree, arrays, version = io.read_file(self.path, io.CHECKPOINT)
            if version != __version__:
                raise self._refused(
                    f"was written by probprop {version[:50]}, and this is {__version__}: resume "
                    f"with that version, or {_AFRESH}"
                )
            content: _Content = io.decode(_Content, tree, arrays, DECLARED)
            self._check(content)
            if not content.trainings:
                raise ValueError("it has no training")
            return content.trainings

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn any error about the content into a message."""
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

    def offer(self, *checkpoints: Checkpoint) -> None:
        """Write them, unless the last ones are not a second old, or took long to write."""
        self._waiting = checkpoints
        if time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> None:
        """Write what was offered last, if it is not written yet."""
        if self._waiting is not None:
            start = time.monotonic()
            content = _Content(self.data, self.settings, list(self._waiting))
            io.write_file(self.path, io.CHECKPOINT, *io.encode(_Content, content, DECLARED))
            end = time.monotonic()
            between = _SECONDS_BETWEEN * max(1.0, _TIMES_AS_LONG * (end - start))
            self._waiting, self._next = None, end + between

    def _check(self, content: _Content) -> None:
        settings, now = content.settings, self.settings
        names = [k for k in sorted({*settings, *now}) if settings.get(k) != now.get(k)]
        if names:
            each = (f"{k[:50]} was {str(settings.get(k))[:200]} and is {now.get(k)}" for k in names)
            raise self._refused(f"has other parameters ({', '.join(each)}): {_AFRESH}")
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
    sizes = (m_w[0].shape[1] - 1, *map(len, m_w))
    begun = start_noise_network(sizes, RandomState(0), m_w[0].dtype)
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
    if (layer := q.output_layer) is not None:
        n_features = q.layer_sizes[0] + (q.layer_sizes[-2] if len(q.m_w) > 1 else 0)
        if layer.coef.shape != (n_features, q.layer_sizes[-1]):
            raise ValueError("output_layer does not fit the layers of m_w")
    if (noise := q.noise_network) is None:
        return
    ends, own = q.layer_sizes, noise.layer_sizes
    if (own[0], own[-1]) != (ends[0], ends[-1]) or noise.dtype != q.dtype:
        raise ValueError("the layers of noise_network do not fit the layers of the mean")


# No data bring a Gamma this far, and beyond the squares of its moments leave the floats.
_SHAPE, _RATE = io.above(1.0, 1e110), io.above(0.0, 1e110)
_TAIL = io.within(0.0, LARGEST_TAIL)

DECLARED: dict[Any, io.Declared] = {
    Posterior: io.Declared(
        ranges=dict.fromkeys(("alpha_noise", "alpha_prior"), _SHAPE)
        | dict.fromkeys(("beta_noise", "beta_prior"), _RATE)
        | {"tail": _TAIL},
        shapes={"alpha_noise": "k", "beta_noise": "k", "tail": "n"},
        check=_check_posterior,
        types={"noise_network": NoiseWeights | None},
    ),
    NoiseWeights: io.Declared(
        ranges={"tail": _TAIL}, check=_check_posterior, make=_made_noise_network
    ),
    OutputLayer: io.Declared(
        ranges=dict.fromkeys(("variance", "intercept_variance", "noise_variance"), io.above(0.0)),
        shapes={"center": "m", "axes": "m m", "coef": "m k", "variance": "m k"}
        | dict.fromkeys(("intercept", "intercept_variance", "noise_variance"), "k"),
    ),
    Epoch: io.Declared(
        {"mean_log_Z": io.anything, "noise_variance": io.within(0.0, np.finfo(float).max)}
    ),
    State: io.Declared({"log_Z_sum": io.anything}),
    Checkpoint: io.Declared({"log_evidence": io.anything}),
}
"""The classes that checkpoints and model files have in common."""


# ---- Whether a training can be resumed from it


def checked(
    found: Checkpoint, begun: Posterior, n_before: int = 0, n_rounds: int = 1
) -> Checkpoint:
    """Return a checkpoint from which a training can be resumed; ValueError says why it cannot.

    The training begins with the posterior `begun` after `n_before` epochs, and the epoch under way
    has `n_rounds` rounds.
    """
    state, q = found.state, found.state.posterior
    if [epoch.n_iter for epoch in found.history] != [*range(n_before + 1, state.n_iter + 1)]:
        raise ValueError("the history does not have the epochs that were made")
    n_targets = {np.size(epoch.noise_variance) for epoch in found.history}
    if not state.n_round < n_rounds or not n_targets <= {len(begun.noise_variance)}:
        raise ValueError("it is of other rounds, or of other targets")
    arrays = [*_arrays(q), *state.velocity, state.counts]
    usual = [*_arrays(begun), *at_rest(begun)[: len(state.velocity)], np.zeros(4, np.int64)]
    if [(a.shape, a.dtype) for a in arrays] != [(a.shape, a.dtype) for a in usual]:
        raise ValueError("the arrays have other shapes or dtypes than in this training")
    means = [m for network in (q, q.noise_network) if network is not None for m in network.m_w]
    if not all((np.abs(m) < _LARGEST_WEIGHT).all() for m in (*means, *state.velocity)):
        raise ValueError("m_w has values that no training has")
    return found


def _arrays(q: Posterior) -> list[Array]:
    """Return all arrays of a posterior, its noise network included."""
    own = [array for name in LAYERED for array in getattr(q, name)]
    noise = [] if q.noise_network is None else _arrays(q.noise_network)
    return [*own, q.alpha_noise, q.beta_noise, q.tail, *noise]


# ---- What a checkpoint belongs to, and how a training is resumed from it

_NO_MATTER = {"verbose", "n_jobs"}  # the result does not depend on them


def settings_of(model: Any) -> dict[str, str]:
    """Return the parameters of a model that change the result, as text."""
    parameters = model.get_params(deep=False)
    if not isinstance(parameters.get("cv"), Integral | None):
        parameters["cv"] = type(parameters["cv"])  # the digest of the data has the folds
    settings = {k: text_of(v) for k, v in parameters.items() if k not in _NO_MATTER}
    return {"class": type(model).__name__, **settings}


def text_of(value: Any) -> str:
    """Return a parameter as text: equal for equal parameters only.

    Other objects are their type: a generator has a state of its own. Tuples and
    arrays are lists, and whole numbers are ints.
    """
    plain = _plain(value)
    return plain if isinstance(plain, str) and not isinstance(value, str) else repr(plain)


def _plain(value: Any) -> Any:
    """Return a parameter as numbers, texts, lists and dicts."""
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
    """Refuse a seed with which the same call would initialize other networks."""
    if not isinstance(random_state, int | np.integer):
        raise ValueError(
            "with checkpoint, random_state must be an int, so that the same call begins with the "
            f"same seeds again. Got {random_state!r}."
        )


def checkpoint_of(run: Run, history: list[Epoch]) -> Checkpoint:
    """Return where a training is, between two epochs."""
    state = State(run.fitted.posterior, run.velocity, run.fitted.epoch.n_iter)
    return Checkpoint(state, list(history), run.fitted.log_evidence)


def resumed(run: Run, found: Checkpoint, *, shuffled: bool = True) -> tuple[Run, list[Epoch]]:
    """Return a training at the state of a checkpoint.

    If each epoch is `shuffled` by the generator of the run, that is moved on by the orders of the
    epochs. ValueError says why the training cannot be resumed; see `CheckpointFile.reading`.
    """
    before, n = run.fitted, len(run.rows.y)
    found = checked(found, before.posterior, before.epoch.n_iter)
    if not found.history:
        raise ValueError("it has no epochs")
    random_state = deepcopy(run.random_state)
    if shuffled and random_state is not None:
        for _ in found.history:
            random_state.permutation(n)
    q, epoch = found.state.posterior, found.history[-1]
    fitted = Fitted(q, before.standardizer, epoch, found.log_evidence, n)
    run = run._replace(fitted=fitted, random_state=random_state, velocity=found.state.velocity)
    # The last epoch is published if there is nothing left to do.
    return run._replace(made=[epoch], new=False), found.history
