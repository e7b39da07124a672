"""What epochs observed, as `history_` shows it, and the one warning about it."""

from __future__ import annotations

import math
import warnings

import numpy as np

from probprop._types import Array
from probprop.inference.posterior import Epoch, Posterior, Records
from probprop.inference.standardize import Standardizer

WORTH_TELLING = 1e-4
"""The share of updates that were undone, or made in another way, above which one is warned."""


def summarize(
    first: int, n_points: int, records: Records, standardizer: Standardizer
) -> list[Epoch]:
    """Bring what epochs over n points observed into target units; the first has this `n_iter`."""
    y_scale2, log_y_scale = (standardizer.y_scale**2).tolist(), standardizer.log_y_scale
    epochs = []
    for n_iter, (log_Z_sums, counts, noise, prior, tail) in enumerate(
        zip(*(field.tolist() for field in records), strict=True), first
    ):
        undone, guarded, skipped, skipped_factors = counts
        n_absorbed = n_points - skipped
        noise_variance = [
            beta / (alpha - 1.0) * math.exp(0.5 * s2) * scale2
            for alpha, beta, s2, scale2 in zip(*noise, tail, y_scale2, strict=False)
        ]
        # A density of standardised targets, divided by their scales, is one of the targets.
        mean_log_Z = math.fsum(log_Z_sums) / max(1, n_absorbed) - log_y_scale
        epochs.append(
            Epoch(
                n_iter,
                n_absorbed,
                mean_log_Z,
                noise_variance[0] if len(noise_variance) == 1 else tuple(noise_variance),
                prior[1] / (prior[0] - 1.0),
                undone,
                guarded,
                skipped,
                skipped_factors,
            )
        )
    return epochs


def epoch_of(
    n_iter: int,
    n_points: int,
    posterior: Posterior,
    log_Z_sum: float,
    counts: Array,
    standardizer: Standardizer,
) -> Epoch:
    """Return the record of an epoch in parts that ended with a posterior and observed these sums.

    The sum of log Z is standardized; the counts, (4,), are as in `Records`.
    """
    records = Records.of_epoch(posterior, [], [])
    records = records._replace(log_Z_sums=np.array([[log_Z_sum]]), counts=counts[np.newaxis])
    (epoch,) = summarize(n_iter, n_points, records, standardizer)
    return epoch


def check_learned(history: list[Epoch]) -> None:
    """Refuse a fit in which not one point could be absorbed: the weights are still the prior."""
    n_skipped = sum(epoch.n_skipped_points for epoch in history)
    if n_skipped and not any(epoch.n_points for epoch in history):
        raise ValueError(
            f"Nothing was learned: all {n_skipped} updates were skipped, because what the network "
            "predicts of the targets overflows. Fit it with a smaller prior_rate or fewer layers, "
            "on features that are standardised (standardize=True), or with dtype='float64'."
        )


class UpdateWarning(RuntimeWarning):
    """Many updates were undone or made in another way; no row was left out."""


def warn_of_counts(history: list[Epoch], posterior: Posterior) -> None:
    """Warn once of what training had to leave out or compute in another way.

    Points that were skipped are told always. Weight updates that were undone, or held up by
    rounds, and noise updates made by quadrature, are told above one in 10,000 of their kind: a few
    are ordinary.
    """
    names = ("n_points", "n_undone", "n_guarded", "n_skipped_points", "n_held")
    n_points, n_undone, n_guarded, n_skipped, n_held = (
        sum(getattr(epoch, name) for epoch in history) for name in names
    )
    if not (n_undone or n_guarded or n_skipped or n_held):
        return  # nearly always, and a stream calls for every row
    of_weights = WORTH_TELLING * n_points * sum(layer.size for layer in posterior.m_w)
    many = n_undone > of_weights or n_held > of_weights
    many |= n_guarded > WORTH_TELLING * n_points
    if n_skipped or many:
        counts = {
            "weight updates undone (their new variance was not positive)": n_undone,
            "noise updates made by quadrature (outliers, or few points)": n_guarded,
            "points skipped (their log Z was not finite)": n_skipped,
            "precisions held up between rounds (the shards, of few rows, gave back more than there "
            "was; error bars are only wider: with few rows leave n_shards at None, on a cluster "
            "give fewer shards)": n_held,
        }
        parts = [f"{count} {text}" for text, count in counts.items() if count]
        warnings.warn(
            f"In {n_points} updates: {'; '.join(parts)}. `history_` has the counts per epoch.",
            RuntimeWarning if n_skipped else UpdateWarning,
            stacklevel=3,
        )
