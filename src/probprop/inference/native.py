"""The compiled kernel (``cpp/``) as an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
from scipy.sparse import issparse

from probprop import _kernel
from probprop._types import Array, FloatArray
from probprop.inference.inputs import Encoded, Samples, dense, is_listed, readable
from probprop.inference.posterior import (
    LAYERED,
    Memory,
    PassInfo,
    Posterior,
    Records,
    SweepInfo,
    cut,
    flat,
)
from probprop.inference.standardize import LARGEST, Standardizer
from probprop.inference.task import INFORMATIVE_RATIO, Task, Trained
from probprop.reference.likelihoods import GAUSSIAN, PointLikelihood

_FLOAT64 = np.dtype(np.float64)
_FINE = 1e-25  # the kernel takes single-precision numbers below 1e-38 for 0


class_log_probabilities = _kernel.class_log_probabilities
class_log_probability = _kernel.class_log_probability
scale_mixture = _kernel.scale_mixture

# ---- Arrays as the kernel takes them


def _rows(
    X: Samples, standardizer: Standardizer | None, dtype: np.dtype[Any], X_var: Any = None
) -> tuple[Any, tuple[FloatArray, FloatArray, float] | None]:
    """Return rows without a copy, and the standardizer to apply, or None."""
    if standardizer is None:
        return readable(X, X_var), None
    X = _uncentered(X, [standardizer])
    fine = bool(standardizer.x_scale.min() < _FINE)
    if fine and not is_listed(X):
        return standardizer.checked_X(X, dtype), None
    scaling = standardizer.x_mean, standardizer.x_scale, LARGEST[dtype]
    return readable(X, X_var, exactly=fine), scaling


def _uncentered(X: Samples, standardizers: Sequence[Standardizer]) -> Samples:
    """Return rows that the kernel can standardize: it does not center listed rows."""
    return dense(X) if is_listed(X) and any(each.x_mean.any() for each in standardizers) else X


_Whole = tuple[Array, Array, Array, Array, Array]  # what `LAYERED` names, each flat
_WHOLE: WeakKeyDictionary[Posterior, _Whole] = WeakKeyDictionary()
"""The arrays whose views are the layers of a posterior that the kernel has trained."""


def _whole(q: Posterior) -> _Whole:
    if (known := _WHOLE.get(q)) is not None:
        return known
    return (*_weights(q), flat(q.v_hat_nat), flat(q.a_hat_nat), flat(q.b_hat_nat))


def _weights(q: Posterior) -> tuple[Array, Array]:
    """Return m_w and v_w, flat."""
    known = _WHOLE.get(q)
    return (flat(q.m_w), flat(q.v_w)) if known is None else known[:2]


def _layers(whole: Sequence[Array], like: Posterior) -> dict[str, Any]:
    """Return some of those layers again, as fields of a posterior."""
    return dict(zip(LAYERED, cut(whole, like.m_w), strict=False))


def _kernel_memory(memory: Memory | None, posterior: Posterior) -> tuple[Any, ...] | None:
    if memory is None:
        return None
    v_hat_nat = flat(posterior.v_hat_nat).astype(posterior.dtype, copy=False)
    return v_hat_nat, memory.capacity, memory.every, memory.noise_shape, memory.noise_rate


def _variances(X_var: Any, posterior: Posterior) -> Array | None:
    """Return the variances of rows that are an array; other rows have their own."""
    return np.ascontiguousarray(X_var, posterior.dtype) if isinstance(X_var, np.ndarray) else None


def _weighting(
    weights: FloatArray | None, y_var: FloatArray | None, power: float
) -> tuple[FloatArray | None, FloatArray | None, float] | None:
    if weights is None and y_var is None and power == 1.0:
        return None
    weights, y_var = (
        None if a is None else np.ascontiguousarray(a, np.float64) for a in (weights, y_var)
    )
    return weights, y_var, power


# ---- Training


def train(tasks: Sequence[Task], n_threads: int = 1) -> tuple[list[Trained], BaseException | None]:
    """Make the epochs of every task without the GIL, in threads; also return what ended them early.

    On Ctrl-C all end soon; each task then keeps its whole epochs. The orders are drawn
    from the tasks' generators.
    """
    jobs = [_job(task) for task in tasks]
    with _naming_overflow((task.posterior, task.standardizer, task.X) for task in tasks):
        interrupt: Any = _kernel.train(jobs, n_threads)
    return [_trained(task, job) for task, job in zip(tasks, jobs, strict=True)], interrupt


def _job(task: Task) -> Any:
    posterior, standardizer = task.posterior, task.standardizer
    X, scaling = (
        (readable(standardizer.divided(task.X, posterior.dtype)), None)
        if issparse(task.X) and not standardizer.x_mean.any()
        else _rows(task.X, standardizer, posterior.dtype, task.X_var)
    )
    leaves = standardizer.leaves_targets
    kind = _kernel.Job64 if posterior.dtype == _FLOAT64 else _kernel.Job32
    return kind(
        posterior.layer_sizes,
        *_whole(posterior),
        posterior.alpha_noise,
        posterior.beta_noise,
        posterior.alpha_prior,
        posterior.beta_prior,
        task.informative_ratio,
        X,
        readable(task.y).reshape(len(task.y), -1),
        task.likelihood.name,
        task.refine,
        scaling,
        None if leaves else (standardizer.y_mean, standardizer.y_scale, np.inf),
        _variances(task.X_var, posterior),
        _kernel_memory(task.memory, posterior),
        *_shuffling(task),
        _weighting(task.weights, task.y_var, task.power),
        _noise_learning(task),
        posterior.tail,
        task.tail_rate,
        task.due,
        task.groups,
    )


def _noise_learning(task: Task) -> tuple[Any, ...] | None:
    """Return the noise network and its schedule, if there is one."""
    network, schedule = task.posterior.noise_network, task.noise_schedule
    if network is None or schedule is None:
        return None
    memory = _kernel_memory(schedule.memory, network)
    return network.layer_sizes, *_weights(network), schedule.power, memory, network.tail


def _shuffling(task: Task) -> tuple[tuple[Array, int] | None, Array | None]:
    """Return the generator that the kernel shuffles with, or the orders of another kind of it."""
    if task.random_state is None:
        return None, None
    generator: Any = task.random_state.get_state(legacy=False)
    if generator["bit_generator"] != "MT19937":
        return None, np.stack([task.order() for _ in task.refine])
    return (generator["state"]["key"], generator["state"]["pos"]), None


def _trained(task: Task, job: Any) -> Trained:
    result = job.result()
    alpha_noise, beta_noise, tail, alpha_prior, beta_prior, n_epochs, *records = result[5:]
    if (generator := task.random_state) is not None and (shuffled := job.generator()) is not None:
        state: Any = generator.get_state(legacy=False)
        key, position = shuffled
        generator.set_state(state | {"state": {"key": key, "pos": position}})
    network = task.posterior.noise_network
    if network is not None and (learned := job.noise_weights()) is not None:
        *weights, noise_tail = learned
        network = replace(network, **_layers(weights, network), tail=noise_tail)
    posterior = Posterior(
        **_layers(result[:5], task.posterior),
        alpha_noise=alpha_noise,
        beta_noise=beta_noise,
        alpha_prior=alpha_prior,
        beta_prior=beta_prior,
        tail=tail,
        noise_network=network,
    )
    _WHOLE[posterior] = result[:5]
    if n_epochs < len(task.refine):  # Ctrl-C
        records = [record[:n_epochs] for record in records]
    return Trained(posterior, Records(*records))


# ---- One pass, one sweep


def adf_pass(
    posterior: Posterior,
    X: Samples,
    y: Array,
    order: Array,
    *,
    likelihood: PointLikelihood = GAUSSIAN,
    memory: Memory | None = None,
    X_var: Array | None = None,
    weights: FloatArray | None = None,
    y_var: FloatArray | None = None,
    power: float = 1.0,
) -> tuple[Posterior, PassInfo]:
    """Update q on each row of X and y, (n,) or (n, K), in the given order, once.

    With a `memory` q is tempered before the updates. `X_var`, (n, D), are the variances of
    the entries of X; `weights`, `y_var` and `power` are as in a `Task`.
    """
    m_w, v_w, observed = _kernel.adf_pass(
        posterior.layer_sizes,
        *_weights(posterior),
        readable(X, X_var),
        readable(y).reshape(len(y), -1),
        np.ascontiguousarray(order, np.int64),
        likelihood.name,
        posterior.alpha_noise,
        posterior.beta_noise,
        _kernel_memory(memory, posterior),
        _variances(X_var, posterior),
        _weighting(weights, y_var, power),
        posterior.tail,
    )
    alpha_noise, beta_noise, log_Z_sum, n_undone, n_guarded, n_skipped, d_tail_sum = observed
    layers = _layers([m_w, v_w], posterior)
    q = replace(posterior, **layers, alpha_noise=alpha_noise, beta_noise=beta_noise)
    of_tails = tuple(d_tail_sum.tolist()) if d_tail_sum.any() else ()
    return q, PassInfo(log_Z_sum, len(order), n_undone, n_guarded, n_skipped, of_tails)


def refine_prior(
    posterior: Posterior, informative_ratio: float = INFORMATIVE_RATIO, groups: Array | None = None
) -> tuple[Posterior, SweepInfo]:
    """Refine every approximate prior factor once; see `probprop.reference.prior`."""
    refined = _kernel.refine_prior(
        posterior.layer_sizes,
        *_whole(posterior),
        posterior.alpha_prior,
        posterior.beta_prior,
        informative_ratio,
        groups,
    )
    alpha_prior, beta_prior, n_skipped, n_uninformative = refined[5]
    layers = _layers(refined[:5], posterior)
    q = replace(posterior, **layers, alpha_prior=alpha_prior, beta_prior=beta_prior)
    return q, SweepInfo(n_skipped, n_uninformative)


# ---- Prediction


def predict_moments(
    posterior: Posterior,
    X: Samples,
    X_var: Array | None = None,
    standardizer: Standardizer | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance (without noise) of the outputs for every row, (n,) or (n, K).

    With a `standardizer` X is in the units of the features, but `X_var` is standardized.
    """
    rows, scaling = _rows(X, standardizer, posterior.dtype, X_var)
    sizes, (m_w, v_w) = posterior.layer_sizes, _weights(posterior)
    X_var = _variances(X_var, posterior)
    with _naming_overflow([(posterior, standardizer, X)]):
        mean, variance = _kernel.predict_moments(sizes, m_w, v_w, rows, X_var, scaling)
    if sizes[-1] == 1:
        return mean[:, 0], variance[:, 0]
    return mean, variance


_STACKS: WeakKeyDictionary[Posterior, tuple[list[ref[Any]], Any]] = WeakKeyDictionary()
"""Ensembles as the kernel takes them, by their first member, and what they were made from."""


def predict_members(
    networks: Sequence[tuple[Posterior, Standardizer]], X: Samples, n_threads: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the outputs of networks with the same inputs.

    All of them predict in one call of the kernel, whose arguments are made once per ensemble. They
    have one dtype and the same numbers of inputs and outputs; X is finite and in the units of the
    features. Mean and variance are standardized, without noise: (n_members, n), or (n_members, n,
    K) for several outputs. They do not depend on the number of threads.
    """
    first, parts = networks[0][0], [part for network in networks for part in network]
    known = _STACKS.get(first)
    if known is None or [made_of() for made_of in known[0]] != parts:  # compared by identity
        if any(standardizer.x_scale.min() < _FINE for _, standardizer in networks):
            each = [predict_moments(posterior, X, None, scales) for posterior, scales in networks]
            means, variances = (np.stack(part) for part in zip(*each, strict=True))
            return means, variances
        kind = _kernel.Members64 if first.dtype == _FLOAT64 else _kernel.Members32
        largest = LARGEST[first.dtype]
        members = [
            (posterior.layer_sizes, *_weights(posterior), (scales.x_mean, scales.x_scale, largest))
            for posterior, scales in networks
        ]
        known = _STACKS[first] = [ref(part) for part in parts], kind(members)
    X = _uncentered(X, [standardizer for _, standardizer in networks])
    with _naming_overflow((*network, X) for network in networks):
        mean, variance = known[1].moments(readable(X), n_threads)
    if mean.shape[2] == 1:
        return mean[..., 0], variance[..., 0]
    return mean, variance


def predict_gradient(
    posterior: Posterior, X: Samples, standardizer: Standardizer | None = None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return those moments, (n,), and their derivatives by the standardized features, (n, D).

    Where X is `Encoded`, the derivatives are by its columns as they are.
    """
    if isinstance(X, Encoded) and standardizer is not None and standardizer.x_mean.any():
        mean, variance, *slopes = predict_gradient(posterior, dense(X), standardizer)
        dm_dx, dv_dx = (X.by_columns(slope / standardizer.x_scale) for slope in slopes)
        return mean, variance, dm_dx, dv_dx
    rows, scaling = _rows(X, standardizer, posterior.dtype)
    with _naming_overflow([(posterior, standardizer, X)]):
        return _kernel.predict_gradient(posterior.layer_sizes, *_weights(posterior), rows, scaling)


@contextmanager
def _naming_overflow(
    given: Iterable[tuple[Posterior, Standardizer | None, Samples]],
) -> Iterator[None]:
    """Say which value of X it was that the kernel refused."""
    try:
        yield
    except OverflowError:
        for posterior, standardizer, X in given:
            if standardizer is not None:
                standardizer.check_X(X, posterior.dtype)
        raise
