"""The reference engine on whole data: epochs as passes and refinements, rows standardised first.

This is the readable form of what ``cpp/train.hpp`` and ``cpp/points.hpp`` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from probprop import reference
from probprop._types import Array, FloatArray
from probprop.inference.posterior import PassInfo, Posterior, Records, SweepInfo
from probprop.inference.standardize import Standardizer
from probprop.inference.task import Task, Trained
from probprop.reference.likelihoods import SCALE
from probprop.reference.likelihoods.heavy import learned_tail


def train(tasks: Sequence[Task], n_threads: int = 1) -> tuple[list[Trained], BaseException | None]:
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
            power = 0.0 if task.watch is None else float(task.watch.power[e])
            posterior, passes, sweeps, watched = _epoch(
                task, posterior, X, y, refine=bool(refine), watch_power=power
            )
            posterior = _with_learned_tail(posterior, passes, float(rate))
            if (network := posterior.noise_network) is not None:
                network = _with_learned_tail(network, watched, float(rate))
                posterior = replace(posterior, noise_network=network)
            records.append(Records.of_epoch(posterior, passes, sweeps))
    except KeyboardInterrupt as interrupt:
        return Trained(posterior, Records.joined(records)), interrupt
    return Trained(posterior, Records.joined(records)), None


def _epoch(
    task: Task, posterior: Posterior, X: Array, y: FloatArray, *, refine: bool, watch_power: float
) -> tuple[Posterior, list[PassInfo], list[SweepInfo], list[PassInfo]]:
    """Make the passes over the blocks of one epoch, each with its refinement.

    What the network of the noise observed comes last.
    """
    passes, sweeps, of_noise = [], [], []
    seen = np.empty((len(y), 3 * len(posterior.alpha_noise))) if watch_power > 0.0 else None
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
            network, watched = _watched(task, posterior, X, seen, block, watch_power)
            posterior = replace(posterior, noise_network=network)
            of_noise.append(watched)
            passed = replace(
                passed,
                n_undone=passed.n_undone + watched.n_undone,
                n_skipped=watched.n_skipped,  # it skips what was skipped
            )
        passes.append(passed)
        if refine:
            posterior, swept = reference.refine_prior(posterior, task.informative_ratio)
            sweeps.append(swept)
    return posterior, passes, sweeps, of_noise


def _with_learned_tail(posterior: Posterior, passes: Sequence[PassInfo], rate: float) -> Posterior:
    """Make the step of the tails that follows an epoch."""
    n_absorbed = sum(p.n_points - p.n_skipped for p in passes)  # 0: nobody watched
    if rate == 0.0 or n_absorbed == 0:
        return posterior
    d_tail = np.sum([p.d_tail_sum for p in passes if p.d_tail_sum], axis=0) / n_absorbed
    return replace(posterior, tail=learned_tail(posterior.tail, d_tail, rate))


def _watched(
    task: Task,
    posterior: Posterior,
    X: Array,
    seen: FloatArray,
    block: Array,
    power: float,
) -> tuple[Posterior, PassInfo]:
    """Let the network of the noise absorb what it saw."""
    assert posterior.noise_network is not None
    assert task.watch is not None
    return reference.adf_pass(
        posterior.noise_network,
        X,
        seen,
        block,
        likelihood=SCALE,
        memory=task.watch.memory,
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


def predict_moments(
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


def predict_gradient(
    posterior: Posterior, X: Array, standardizer: Standardizer | None = None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return those moments and their derivatives by the standardised features."""
    return reference.predict_gradient(posterior, _standardised(X, standardizer, posterior.dtype))


def _standardised(X: Array, standardizer: Standardizer | None, dtype: np.dtype[Any]) -> Array:
    return X if standardizer is None else standardizer.checked_X(X, dtype)
