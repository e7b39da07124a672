"""One epoch of PBP: an ADF pass over the likelihood, then a refinement of the prior factors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

from probprop.engine import Engine
from probprop.posterior import Array, Epoch, PassInfo, Posterior, SweepInfo
from probprop.standardize import Standardizer


def train_epoch(
    engine: Engine, posterior: Posterior, X: Array, y: Array, blocks: Iterable[Array], refine: bool
) -> tuple[Posterior, list[PassInfo], list[SweepInfo]]:
    """Absorb the points block by block ([PBP15] section 3.3), refining after each (3.4).

    Parameters
    ----------
    engine : Engine
    posterior : Posterior
    X : ndarray of shape (n, n_features), standardised
    y : ndarray of shape (n,), standardised
    blocks : iterable of ndarray of int
        The order of the points, cut where the prior factors are to be refined.
    refine : bool
        Whether to refine at all.
    """
    passes, sweeps = [], []
    for order in blocks:
        posterior, passed = engine.adf_pass(posterior, X, y, order)
        passes.append(passed)
        if refine:
            posterior, swept = engine.refine_prior(posterior)
            sweeps.append(swept)
    return posterior, passes, sweeps


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
    return Epoch(
        n_iter=n_iter,
        n_points=n_absorbed,
        # A density of the standardised target, divided by the scale, is one of the target.
        mean_log_Z=log_Z_sum / max(1, n_absorbed) - math.log(standardizer.y_scale),
        noise_variance=posterior.noise_variance * standardizer.y_scale**2,
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
