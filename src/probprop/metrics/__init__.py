"""Metrics of predictive distributions and scorers; for classes `probprop.metrics.classes`."""

from probprop.metrics.classes import class_summary
from probprop.metrics.importance import (
    Dependence,
    Importance,
    average_prediction,
    permutation_importance,
)
from probprop.metrics.regression import (
    LEVELS,
    baseline_summary,
    check_columns,
    interval_coverage,
    predictive_coverage,
    rmse,
    summary,
)
from probprop.metrics.scorers import (
    average_precision_scorer,
    brier_scorer,
    calibration_error_scorer,
    crps_scorer,
    log_likelihood_scorer,
    log_loss_scorer,
    roc_auc_scorer,
)

__all__ = [
    "LEVELS",
    "Dependence",
    "Importance",
    "average_precision_scorer",
    "average_prediction",
    "baseline_summary",
    "brier_scorer",
    "calibration_error_scorer",
    "check_columns",
    "class_summary",
    "crps_scorer",
    "interval_coverage",
    "log_likelihood_scorer",
    "log_loss_scorer",
    "permutation_importance",
    "predictive_coverage",
    "rmse",
    "roc_auc_scorer",
    "summary",
]
