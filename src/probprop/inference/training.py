"""The training of a network: one loop, for `fit`, `partial_fit`, choices and ensembles alike.

An epoch is an ADF pass over the likelihood ([PBP15] section 3.3), then a refinement of the prior
factors (section 3.4). A `Plan` and data go in; the state after every epoch comes out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.plan import Plan
from probprop.inference.posterior import (
    Epoch,
    PassInfo,
    Posterior,
    SweepInfo,
    initial_posterior,
)
from probprop.inference.prediction import standardised
from probprop.inference.standardize import (
    Standardizer,
    check_magnitude,
    check_target_scale,
    fit_standardizer,
    identity_standardizer,
)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training has reached: all that predictions, and further passes, need.

    Parameters
    ----------
    posterior : Posterior
    standardizer : Standardizer
    epoch : Epoch
        The record of the last pass; before the first its `n_iter` is 0.
    log_evidence : float
        Sum of log Z over the passes in which rows were new, in target units.
    n_samples_seen : int
        Rows given, each counted once.
    """

    posterior: Posterior
    standardizer: Standardizer
    epoch: Epoch
    log_evidence: float = 0.0
    n_samples_seen: int = 0


class Visit(NamedTuple):
    """The order in which an epoch absorbs its points.

    Parameters
    ----------
    blocks : list of ndarray of int
        Indices of points, cut where the prior factors may be refined.
    refine : bool
        Whether they are refined after each block.
    """

    blocks: list[Array]
    refine: bool


def shuffled(plan: Plan, n: int, random_state: RandomState) -> Iterator[Visit]:
    """Yield the order of epoch after epoch over n points, without end."""
    n_iter = 0
    while True:
        n_iter += 1
        blocks = np.array_split(random_state.permutation(n), plan.n_blocks(n))
        yield Visit(blocks, plan.refines(n_iter))


def as_given(n: int) -> Visit:
    """Return the order of a stream: every point in turn, then a refinement."""
    return Visit([np.arange(n)], refine=True)


def start(plan: Plan, X: Inputs, y: FloatArray, random_state: RandomState) -> Fitted:
    """Return the state before any point: the prior absorbed, the data measured.

    Parameters
    ----------
    plan : Plan
    X : Inputs of shape (n, n_features)
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    random_state : RandomState
        Draws the initial means of the weights.
    """
    likelihood = plan.likelihood
    n_noise = likelihood.n_outputs if likelihood.learns_noise else 1
    noise_shape, noise_rate = (np.full(n_noise, a) for a in likelihood.noise_prior)
    posterior = initial_posterior(
        [X.shape[1], *plan.hidden, likelihood.n_outputs],
        noise_shape=noise_shape,
        noise_rate=noise_rate,
        prior_shape=plan.prior_shape,
        prior_rate=plan.prior_rate,
        random_state=random_state,
        dtype=plan.dtype,
    )
    if plan.standardize:
        standardizer = fit_standardizer(X.X, y if likelihood.standardises_target else None)
    else:
        standardizer = identity_standardizer(X.shape[1], n_noise)
    check_target_scale(standardizer.y_scale)
    return Fitted(posterior, standardizer, summarize(0, posterior, standardizer, [], []))


def train(
    plan: Plan, fitted: Fitted, X: Inputs, y: FloatArray, visits: Iterable[Visit]
) -> Iterator[Fitted]:
    """Make one pass per visit over rows that are new to the posterior; yield the state after each.

    Parameters
    ----------
    plan : Plan
    fitted : Fitted
        Where to go on from; `start` gives the first.
    X : Inputs of shape (n, n_features)
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    visits : iterable of Visit

    Yields
    ------
    Fitted
    """
    engine, posterior, standardizer = ENGINES[plan.engine], fitted.posterior, fitted.standardizer
    Xs, X_var = standardised(plan, standardizer, X)
    ys = _standardised_targets(plan, standardizer, y)
    n_seen = fitted.n_samples_seen + len(y)
    log_evidence = fitted.log_evidence
    memory = plan.bound(n_seen)
    for n_made, visit in enumerate(visits):
        passes, sweeps = [], []
        for order in visit.blocks:
            posterior, passed = engine.adf_pass(
                posterior, Xs, ys, order, likelihood=plan.likelihood, memory=memory, X_var=X_var
            )
            passes.append(passed)
            if visit.refine:
                posterior, swept = engine.refine_prior(posterior)
                sweeps.append(swept)
        n_iter = fitted.epoch.n_iter + n_made + 1
        epoch = summarize(n_iter, posterior, standardizer, passes, sweeps)
        if n_made == 0:  # the rows are new in the first pass only
            log_evidence += epoch.sum_log_Z
        yield Fitted(posterior, standardizer, epoch, log_evidence, n_seen)


def _standardised_targets(plan: Plan, standardizer: Standardizer, y: FloatArray) -> FloatArray:
    if not plan.likelihood.standardises_target:
        return y
    ys = standardizer.transform_y(y)
    check_magnitude("y", float(np.abs(ys).max()), plan.dtype)
    return ys


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
    noise_variance = (posterior.noise_variance * standardizer.y_scale**2).tolist()
    return Epoch(
        n_iter=n_iter,
        n_points=n_absorbed,
        # A density of standardised targets, divided by their scales, is one of the targets.
        mean_log_Z=log_Z_sum / max(1, n_absorbed) - float(np.log(standardizer.y_scale).sum()),
        noise_variance=noise_variance[0] if len(noise_variance) == 1 else tuple(noise_variance),
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
