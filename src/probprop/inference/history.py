"""What epochs observed, as `history_` shows it, and the one warning about it."""

from __future__ import annotations

import math
import warnings

from probprop.inference.posterior import Epoch, Records
from probprop.inference.standardize import Standardizer


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
