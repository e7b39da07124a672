"""The training of a `PBPEstimator`, epoch by epoch.

An epoch is an ADF pass over the likelihood, then a refinement of the prior factors.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import RandomState

from probprop._types import Array
from probprop.estimators.validation import check_layer_sizes, check_target_scale
from probprop.inference.engine import ENGINES, Engine
from probprop.inference.inputs import Inputs
from probprop.inference.posterior import (
    Epoch,
    Likelihood,
    Memory,
    PassInfo,
    PerTarget,
    Posterior,
    SweepInfo,
    initial_posterior,
)
from probprop.inference.standardize import Standardizer, fit_standardizer, identity_standardizer

if TYPE_CHECKING:
    from probprop.estimators.base import PBPEstimator


def train_epoch(
    engine: Engine,
    posterior: Posterior,
    X: Array,
    y: Array,
    blocks: Iterable[Array],
    *,
    X_var: Array | None = None,
    likelihood: Likelihood = "gaussian",
    refine: bool,
    memory: Memory | None = None,
) -> tuple[Posterior, list[PassInfo], list[SweepInfo]]:
    """Absorb the points block by block ([PBP15] section 3.3), refining after each (3.4).

    Parameters
    ----------
    engine : Engine
    posterior : Posterior
    X : ndarray of shape (n, n_features), standardised
    y : ndarray of shape (n,) or (n, K)
        Targets as the likelihood takes them; of a Gaussian, standardised.
    blocks : iterable of ndarray of int
        The order of the points, cut where the prior factors are to be refined.
    X_var : ndarray of shape (n, n_features), default=None
        Variances of the entries of X; None: they are known.
    likelihood : {"gaussian", "probit", "multinomial"}, default="gaussian"
    refine : bool
        Whether to refine at all.
    memory : Memory, default=None
        Bounds the evidence that the posterior holds; None is [PBP15].
    """
    passes, sweeps = [], []
    for order in blocks:
        posterior, passed = engine.adf_pass(
            posterior, X, y, order, likelihood=likelihood, memory=memory, X_var=X_var
        )
        passes.append(passed)
        if refine:
            posterior, swept = engine.refine_prior(posterior)
            sweeps.append(swept)
    return posterior, passes, sweeps


def start(
    model: PBPEstimator, X: Inputs, y: Array, random_state: RandomState
) -> tuple[Posterior, Standardizer]:
    """Return the posterior before any point, and the standardiser of these rows.

    Parameters
    ----------
    model : PBPEstimator
        With valid parameters.
    X : Inputs of shape (n, n_features)
    y : ndarray of shape (n,) or (n, K)
    random_state : RandomState
        Draws the initial means of the weights.
    """
    noise_shape: PerTarget
    noise_rate: PerTarget
    noise_shape, noise_rate = model._noise_prior
    n_outputs = model._n_outputs(y)
    if model._likelihood == "gaussian" and n_outputs > 1:
        noise_shape, noise_rate = (np.full(n_outputs, a) for a in (noise_shape, noise_rate))
    posterior = initial_posterior(
        [X.shape[1], *check_layer_sizes(model.hidden_layer_sizes), n_outputs],
        noise_shape=noise_shape,
        noise_rate=noise_rate,
        prior_shape=model.prior_shape,
        prior_rate=model.prior_rate,
        random_state=random_state,
        dtype=np.dtype(model.dtype),
    )
    if model.standardize:
        # Labels have no scale: only the targets of a regression are standardised.
        standardizer = fit_standardizer(X.X, y if model._likelihood == "gaussian" else None)
    else:
        standardizer = identity_standardizer(X.shape[1])
    check_target_scale(standardizer.y_scale)
    return posterior, standardizer


def bound(model: PBPEstimator, memory: float | None, n: int) -> Memory | None:
    """Return the bound on the evidence, that of `memory` passes over n points."""
    if memory is None:
        return None
    return Memory(memory * n, *model._noise_prior)


def epochs(
    model: PBPEstimator, X: Inputs, y: Array, memory: float | None, random_state: RandomState
) -> tuple[Standardizer, Iterator[tuple[Posterior, Epoch]]]:
    """Return the standardiser of these rows, and the training, one epoch after another.

    Parameters
    ----------
    model : PBPEstimator
        With valid parameters; it is not changed.
    X : Inputs of shape (n, n_features)
    y : ndarray of shape (n,) or (n, K)
    memory : float or None
        In passes over these rows.
    random_state : RandomState
        Draws the initial means, then the order of the points in each epoch.

    Returns
    -------
    standardizer : Standardizer
    epochs : iterator of (Posterior, Epoch)
        Without end.
    """
    posterior, standardizer = start(model, X, y, random_state)
    Xs, X_var = model._working_copy(standardizer, X)
    ys = model._working_targets(standardizer, y)
    every = model.refine_every
    n_blocks = 1 if every >= 1 else min(len(y), round(1 / every))

    def one_after_another(posterior: Posterior) -> Iterator[tuple[Posterior, Epoch]]:
        for n_iter in count(1):
            posterior, passes, sweeps = train_epoch(
                ENGINES[model.engine],
                posterior,
                Xs,
                ys,
                np.array_split(random_state.permutation(len(y)), n_blocks),
                X_var=X_var,
                likelihood=model._likelihood,
                refine=every < 1 or n_iter % every == 0,
                memory=bound(model, memory, len(y)),
            )
            yield posterior, summarize(n_iter, posterior, standardizer, passes, sweeps)

    return standardizer, one_after_another(posterior)


def summarize(
    n_iter: int,
    posterior: Posterior,
    standardizer: Standardizer,
    passes: list[PassInfo],
    sweeps: list[SweepInfo],
) -> Epoch:
    """Bring what an epoch observed into target units and one record."""
    n_absorbed = sum(p.n_points - p.n_skipped for p in passes)
    log_Z_sum = math.fsum(p.log_Z_sum for p in passes)
    noise_variance = posterior.noise_variance * standardizer.y_scale**2
    return Epoch(
        n_iter=n_iter,
        n_points=n_absorbed,
        # A density of standardised targets, divided by their scales, is one of the targets.
        mean_log_Z=log_Z_sum / max(1, n_absorbed) - float(np.log(standardizer.y_scale).sum()),
        noise_variance=noise_variance
        if isinstance(noise_variance, float)
        else tuple(noise_variance.tolist()),
        prior_variance=posterior.prior_variance,
        n_undone=sum(p.n_undone for p in passes),
        n_guarded=sum(p.n_guarded for p in passes),
        n_skipped_points=sum(p.n_skipped for p in passes),
        n_skipped_factors=sum(s.n_skipped for s in sweeps),
    )


def warn_of_counts(history: list[Epoch]) -> None:
    """Warn once of what training had to leave out or compute in another way."""
    counts = {
        "weight updates undone (their new variance was not positive)": "n_undone",
        "noise updates made by quadrature (outliers, or few points)": "n_guarded",
        "points skipped (their log Z was not finite)": "n_skipped_points",
    }
    parts = [
        f"{total} {text}"
        for text, field in counts.items()
        if (total := sum(getattr(epoch, field) for epoch in history))
    ]
    if parts:
        n_points = sum(epoch.n_points for epoch in history)
        warnings.warn(
            f"In {n_points} updates: {'; '.join(parts)}. `history_` has the counts per epoch.",
            RuntimeWarning,
            stacklevel=3,
        )
