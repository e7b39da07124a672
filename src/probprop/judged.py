"""Scores of predictions, with the baseline and the verdict, for reports and the command."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probprop._types import Array, FloatArray
    from probprop.metrics.regression import Pointwise
    from probprop.metrics.verdict import ClassVerdict, Verdict

LABELS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "log_likelihood": "log-likelihood",
    "crps": "CRPS",
    "coverage_50": "inside 50 % interval",
    "coverage_80": "inside 80 % interval",
    "coverage_90": "inside 90 % interval",
    "coverage_95": "inside 95 % interval",
    "accuracy": "accuracy",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "calibration_error": "calibration error",
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "sharpness": "mean predicted std",
}


def show(name: str, value: float) -> str:
    """Write a score as a reader expects it.

    >>> show("rmse", 53.4159), show("rmse", 21987.6), show("coverage_95", 0.955)
    ('53.42', '21,988', '95.5 %')
    >>> show("r2", 0.98765), show("r2", -1e-9), show("r2", float("nan"))
    ('0.9877', '0', '–')
    """
    if not math.isfinite(value):
        return "–"
    if name == "r2":
        value = round(value, 4) + 0.0  # no -0
    if name.startswith("coverage") or name in ("accuracy", "calibration_error"):
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


@dataclass(frozen=True)
class Judged:
    """Scores of the predictions of one target.

    The baseline predicts without features: the marginal mean and standard deviation of the training
    target, or the class shares of these rows; None if that is not known. The log-likelihood skips
    the rows whose target has density 0.
    """

    scores: dict[str, float]  # every metric
    baseline: dict[str, float] | None
    verdict: Verdict | ClassVerdict  # of intervals, or of probabilities
    left_out: tuple[int, ...] = ()  # row numbers
    positive: str | None = None  # of two classes, whose average precision it is


def judge_values(at: Pointwise, baseline: tuple[float, float] | None, numbers: Array) -> Judged:
    """Score n samples, whose row numbers are given, (n,); the baseline is a mean and a std."""
    from probprop.metrics.regression import baseline_summary, scores
    from probprop.metrics.verdict import verdict_of

    values, left_out = scores(at)
    of_baseline = None if baseline is None else baseline_summary(at.y, *baseline)
    return Judged(values, of_baseline, verdict_of(at), tuple(numbers[left_out].tolist()))


def judge_classes(
    classes: Array, index: Array, log_proba: FloatArray, positive: str | None = None
) -> Judged:
    """Score n samples by the indices of their classes, (n,), and log probabilities.

    `positive` is one of two classes; None is the rarer one of these samples.
    """
    import numpy as np

    from probprop.metrics.classes import class_baseline, class_scores, rarer_class
    from probprop.metrics.verdict import class_verdict

    proba = np.exp(log_proba)
    found = class_verdict(int((proba.argmax(axis=1) == index).sum()), proba.max(axis=1))
    names, place = [str(name) for name in classes], None
    if len(names) == 2:
        place = rarer_class(index) if positive is None else names.index(positive)
    values = class_scores(index, log_proba, place)
    baseline = class_baseline(index, len(names), place)
    return Judged(values, baseline, found, positive=None if place is None else names[place])
