"""The two implementations of the algorithm behind one interface.

``native`` is the compiled kernel (``cpp/``), ``reference`` the same in NumPy
(`probprop.reference`). Both are pure: a posterior goes in, a new one comes out. What the reference
does with whole data is here: epochs as passes and refinements, rows standardized first. This is
the readable form of ``cpp/train.hpp`` and ``cpp/points.hpp``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from probprop import reference
from probprop._types import Array, FloatArray
from probprop.inference import native
from probprop.inference.inputs import Encoded, Samples, dense
from probprop.inference.posterior import PassInfo, Posterior, Records, SweepInfo
from probprop.inference.standardize import Standardizer
from probprop.inference.task import Task, Trained
from probprop.reference.likelihoods import SCALE, learned_tail


@dataclass(frozen=True)
class Engine:
    """One implementation of the operations training and prediction need; see `native`."""

    train: Callable[..., tuple[list[Trained], BaseException | None]]
    adf_pass: Callable[..., tuple[Posterior, PassInfo]]
    refine_prior: Callable[..., tuple[Posterior, SweepInfo]]
    predict_moments: Callable[..., tuple[FloatArray, FloatArray]]
    predict_gradient: Callable[..., tuple[FloatArray, FloatArray, FloatArray, FloatArray]]
    class_log_probabilities: Callable[[FloatArray, FloatArray], FloatArray]  # all (n, K)
    class_log_probability: Callable[[FloatArray, FloatArray, Array], FloatArray]  # of one, (n,)


# ---- The reference on whole data


def _train_all(
    tasks: Sequence[Task], n_threads: int = 1
) -> tuple[list[Trained], BaseException | None]:
    """Make the epochs of every task, one after the other."""
    trained: list[Trained] = []
    interrupt: BaseException | None = None
    for task in tasks:
        posterior = task.posterior
        records = [Records(*(field[:0] for field in Records.of_epoch(posterior)))]
        if interrupt is not None:
            trained.append(Trained(posterior, *records))
            continue
        try:
            X = _standardized(task.X, task.standardizer, posterior.dtype)
            task = replace(task, X_var=None if task.X_var is None else dense(task.X_var))
            y = task.standardizer.transform_y(task.y)
            for e in range(len(task.refine)):
                posterior, record = _epoch(task, posterior, X, y, e)
                records.append(record)
        except KeyboardInterrupt as error:
            interrupt = error
        trained.append(Trained(posterior, Records.joined(records)))
    return trained, interrupt


def _epoch(
    task: Task, posterior: Posterior, X: Array, y: FloatArray, e: int
) -> tuple[Posterior, Records]:
    """Make the pass of one epoch, its refinement, and the step of the tails."""
    swept, order = None, task.order()
    rate = 0.0 if task.tail_rate is None else float(task.tail_rate[e])
    noise_power = 0.0 if task.noise_schedule is None else float(task.noise_schedule.power[e])
    seen = np.empty((len(y), 3 * len(posterior.alpha_noise))) if noise_power > 0.0 else None
    names = ("likelihood", "memory", "X_var", "weights", "y_var", "power")
    options: Any = {name: getattr(task, name) for name in names}
    posterior, passed = reference.adf_pass(posterior, X, y, order, seen=seen, **options)
    if seen is not None:
        assert posterior.noise_network is not None
        assert task.noise_schedule is not None
        options = {"memory": task.noise_schedule.memory, "X_var": task.X_var, "power": noise_power}
        rows = (X, seen, order)
        network, learned = reference.adf_pass(
            posterior.noise_network, *rows, likelihood=SCALE, **options
        )
        network = _with_learned_tail(network, learned, rate)
        posterior = replace(posterior, noise_network=network)
        n_undone = passed.n_undone + learned.n_undone
        # It skips what was skipped.
        passed = replace(passed, n_undone=n_undone, n_skipped=learned.n_skipped)
    if task.refine[e]:
        due = None if task.due is None else task.due[e]
        posterior, swept = reference.refine_prior(
            posterior, task.informative_ratio, task.groups, due
        )
    posterior = _with_learned_tail(posterior, passed, rate)
    return posterior, Records.of_epoch(posterior, passed, swept)


def _with_learned_tail(posterior: Posterior, passed: PassInfo, rate: float) -> Posterior:
    """Make the step of the tails that follows an epoch."""
    n_used = passed.n_points - passed.n_skipped  # 0: nothing was learned
    if rate == 0.0 or n_used == 0:
        return posterior
    d_tail = np.array(passed.d_tail_sum or 0.0) / n_used
    return replace(posterior, tail=learned_tail(posterior.tail, d_tail, rate))


def _predict_moments(
    posterior: Posterior,
    X: Samples,
    X_var: Array | None = None,
    standardizer: Standardizer | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the outputs for every row, in double precision.

    In target units single precision would not do: a mean of 1e6 has steps of 0.06 there.
    """
    X = _standardized(X, standardizer, posterior.dtype)
    mean, variance = reference.predict_moments(
        posterior, X, None if X_var is None else dense(X_var)
    )
    return mean.astype(np.float64), variance.astype(np.float64)


def _predict_gradient(
    posterior: Posterior, X: Samples, standardizer: Standardizer | None = None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return those moments and their derivatives by the features; see `native`."""
    Xs = _standardized(X, standardizer, posterior.dtype)
    mean, variance, *slopes = reference.predict_gradient(posterior, Xs)
    if isinstance(X, Encoded):
        scale = 1.0 if standardizer is None else standardizer.x_scale
        slopes = [X.by_columns(slope / scale) for slope in slopes]
    return mean, variance, slopes[0], slopes[1]


def _standardized(X: Samples, standardizer: Standardizer | None, dtype: np.dtype[Any]) -> Array:
    X = dense(X)
    return X if standardizer is None else standardizer.checked_X(X, dtype)


_OPERATIONS = [operation.name for operation in fields(Engine)]
_REFERENCE = vars(reference) | {
    "train": _train_all,
    "predict_moments": _predict_moments,
    "predict_gradient": _predict_gradient,
}
ENGINES: dict[str, Engine] = {
    "native": Engine(*(vars(native)[name] for name in _OPERATIONS)),
    "reference": Engine(*(_REFERENCE[name] for name in _OPERATIONS)),
}
