"""The two implementations of the algorithm behind one interface.

``native`` is the compiled kernel (``cpp/``), ``reference`` the same in NumPy
(`probprop.reference`). Both are pure: a posterior goes in, a new one comes out.
Only `probprop.inference.native` and `probprop.distributions.functions`, whose networks are certain,
import ``probprop._kernel``. What the reference does with whole data is here: epochs as passes and
refinements, rows standardized first. This is the readable form of ``cpp/train.hpp`` and
``cpp/points.hpp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from probprop import reference
from probprop._types import Array, FloatArray
from probprop.inference import native
from probprop.inference.native import cpu_level, cpu_levels
from probprop.inference.posterior import Memory, PassInfo, Posterior, Records, SweepInfo
from probprop.inference.standardize import Standardizer
from probprop.inference.task import INFORMATIVE_RATIO, Task, Trained
from probprop.reference.likelihoods import GAUSSIAN, SCALE, PointLikelihood
from probprop.reference.likelihoods.heavy import learned_tail

__all__ = ["ENGINES", "Engine", "cpu_level", "cpu_levels"]


class AdfPass(Protocol):
    """Absorb the rows of X and y in the given order, once.

    y is (n,), or (n, K) for Gaussians or probits of several outputs. With a `memory` q gives
    evidence back as it absorbs more. `X_var`, (n, D), has the variances of the entries of X. How
    the rows count, `weights`, (n,), `y_var`, (n, K), and `power`, is as in a `Task`.
    """

    def __call__(
        self,
        posterior: Posterior,
        X: Array,
        y: Array,
        order: Array,
        *,
        likelihood: PointLikelihood = GAUSSIAN,
        memory: Memory | None = None,
        X_var: Array | None = None,
        weights: FloatArray | None = None,
        y_var: FloatArray | None = None,
        power: float = 1.0,
    ) -> tuple[Posterior, PassInfo]: ...


class RefinePrior(Protocol):
    """Refine every approximate prior factor once."""

    def __call__(
        self, posterior: Posterior, informative_ratio: float = INFORMATIVE_RATIO
    ) -> tuple[Posterior, SweepInfo]: ...


class Train(Protocol):
    """Make the epochs of every task, in as many threads; what ended them early comes second.

    An epoch is whole or was not made. The orders are drawn from the tasks' generators.
    """

    def __call__(
        self, tasks: Sequence[Task], n_threads: int = 1
    ) -> tuple[list[Trained], BaseException | None]: ...


class PredictMoments(Protocol):
    """Mean and variance (without noise) of the outputs for every row of X, (n,) or (n, K).

    With a `standardizer` X is in the units of the features, but `X_var` is standardised.
    """

    def __call__(
        self,
        posterior: Posterior,
        X: Array,
        X_var: Array | None = None,
        standardizer: Standardizer | None = None,
    ) -> tuple[FloatArray, FloatArray]: ...


class PredictGradient(Protocol):
    """Those moments, each (n,), and their derivatives by the entries of X, each (n, D).

    With a `standardizer` X is in the units of the features; the derivatives are by those of the
    standardised ones.
    """

    def __call__(
        self, posterior: Posterior, X: Array, standardizer: Standardizer | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]: ...


class ClassLogProbabilities(Protocol):
    """The log of the probability of every class, from the moments of the outputs; all (n, K)."""

    def __call__(self, m: FloatArray, v: FloatArray) -> FloatArray: ...


class ClassLogProbability(Protocol):
    """The log of the probability of one class per row, c; (n,)."""

    def __call__(self, m: FloatArray, v: FloatArray, c: Array) -> FloatArray: ...


@dataclass(frozen=True)
class Engine:
    """One implementation of the operations training and prediction need."""

    train: Train
    adf_pass: AdfPass
    refine_prior: RefinePrior
    predict_moments: PredictMoments
    predict_gradient: PredictGradient
    class_log_probabilities: ClassLogProbabilities
    class_log_probability: ClassLogProbability


# ---- The reference on whole data


def _train_all(
    tasks: Sequence[Task], n_threads: int = 1
) -> tuple[list[Trained], BaseException | None]:
    """Make the epochs of every task, one after the other."""
    trained: list[Trained] = []
    for task in tasks:
        done, error = _train(task)
        trained.append(done)
        if error is not None:
            rest = (Trained(task.posterior, _no_records(task)) for task in tasks[len(trained) :])
            return [*trained, *rest], error
    return trained, None


def _train(task: Task) -> tuple[Trained, BaseException | None]:
    posterior, records = task.posterior, [_no_records(task)]
    try:
        X = _standardised(task.X, task.standardizer, posterior.dtype)
        y = task.standardizer.transform_y(task.y)
        rates = np.zeros(len(task.refine)) if task.tail_rate is None else task.tail_rate
        for e, (refine, rate) in enumerate(zip(task.refine, rates, strict=True)):
            power = 0.0 if task.noise_schedule is None else float(task.noise_schedule.power[e])
            posterior, passes, sweeps, of_noise = _epoch(
                task, posterior, X, y, refine=bool(refine), noise_power=power
            )
            posterior = _with_learned_tail(posterior, passes, float(rate))
            if (network := posterior.noise_network) is not None:
                network = _with_learned_tail(network, of_noise, float(rate))
                posterior = replace(posterior, noise_network=network)
            records.append(Records.of_epoch(posterior, passes, sweeps))
    except KeyboardInterrupt as interrupt:
        return Trained(posterior, Records.joined(records)), interrupt
    return Trained(posterior, Records.joined(records)), None


def _epoch(
    task: Task, posterior: Posterior, X: Array, y: FloatArray, *, refine: bool, noise_power: float
) -> tuple[Posterior, list[PassInfo], list[SweepInfo], list[PassInfo]]:
    """Make the passes over the blocks of one epoch, each with its refinement.

    What the network of the noise observed comes last.
    """
    passes, sweeps, of_noise = [], [], []
    seen = np.empty((len(y), 3 * len(posterior.alpha_noise))) if noise_power > 0.0 else None
    for block in np.array_split(task.order(), task.n_blocks):
        posterior, passed = reference.adf_pass(
            posterior,
            X,
            y,
            block,
            likelihood=task.likelihood,
            memory=task.memory,
            X_var=task.X_var,
            seen=seen,
            weights=task.weights,
            y_var=task.y_var,
            power=task.power,
        )
        if seen is not None:
            network, learned = _noise_pass(task, posterior, X, seen, block, noise_power)
            posterior = replace(posterior, noise_network=network)
            of_noise.append(learned)
            passed = replace(
                passed,
                n_undone=passed.n_undone + learned.n_undone,
                n_skipped=learned.n_skipped,  # it skips what was skipped
            )
        passes.append(passed)
        if refine:
            posterior, swept = reference.refine_prior(posterior, task.informative_ratio)
            sweeps.append(swept)
    return posterior, passes, sweeps, of_noise


def _with_learned_tail(posterior: Posterior, passes: Sequence[PassInfo], rate: float) -> Posterior:
    """Make the step of the tails that follows an epoch."""
    n_absorbed = sum(p.n_points - p.n_skipped for p in passes)  # 0: nothing was learned
    if rate == 0.0 or n_absorbed == 0:
        return posterior
    d_tail = np.sum([p.d_tail_sum for p in passes if p.d_tail_sum], axis=0) / n_absorbed
    return replace(posterior, tail=learned_tail(posterior.tail, d_tail, rate))


def _noise_pass(
    task: Task,
    posterior: Posterior,
    X: Array,
    seen: FloatArray,
    block: Array,
    power: float,
) -> tuple[Posterior, PassInfo]:
    """Let the noise network absorb the residuals."""
    assert posterior.noise_network is not None
    assert task.noise_schedule is not None
    return reference.adf_pass(
        posterior.noise_network,
        X,
        seen,
        block,
        likelihood=SCALE,
        memory=task.noise_schedule.memory,
        X_var=task.X_var,
        power=power,
    )


def _no_records(task: Task) -> Records:
    n_noise = len(task.posterior.alpha_noise)
    return Records(
        np.zeros((0, task.n_blocks)),
        np.zeros((0, 4), np.int64),
        np.zeros((0, 2, n_noise)),
        np.zeros((0, 2)),
        np.zeros((0, len(task.posterior.tail))),
    )


def _predict_moments(
    posterior: Posterior,
    X: Array,
    X_var: Array | None = None,
    standardizer: Standardizer | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the outputs for every row, in double precision.

    In target units single precision would not do: a mean of 1e6 has steps of 0.06 there.
    """
    mean, variance = reference.predict_moments(
        posterior, _standardised(X, standardizer, posterior.dtype), X_var
    )
    return mean.astype(np.float64), variance.astype(np.float64)


def _predict_gradient(
    posterior: Posterior, X: Array, standardizer: Standardizer | None = None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return those moments and their derivatives by the standardised features."""
    return reference.predict_gradient(posterior, _standardised(X, standardizer, posterior.dtype))


def _standardised(X: Array, standardizer: Standardizer | None, dtype: np.dtype[Any]) -> Array:
    return X if standardizer is None else standardizer.checked_X(X, dtype)


ENGINES: dict[str, Engine] = {
    "native": Engine(
        native.train,
        native.adf_pass,
        native.refine_prior,
        native.predict_moments,
        native.predict_gradient,
        native.class_log_probabilities,
        native.class_log_probability,
    ),
    "reference": Engine(
        _train_all,
        reference.adf_pass,
        reference.refine_prior,
        _predict_moments,
        _predict_gradient,
        reference.class_log_probabilities,
        reference.class_log_probability,
    ),
}
