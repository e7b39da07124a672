"""Metrics of predicted targets; those of predicted labels are in `probprop.metrics.classes`."""

from probprop.metrics.baseline import baseline_summary
from probprop.metrics.classes import class_summary
from probprop.metrics.columns import check_columns
from probprop.metrics.dependence import Dependence, average_prediction
from probprop.metrics.importance import Importance, permutation_importance
from probprop.metrics.regression import (
    LEVELS,
    calibration_curve,
    calibration_error,
    crps_gaussian,
    crps_scorer,
    interval_coverage,
    log_likelihood,
    log_likelihood_scorer,
    mae,
    predictive_coverage,
    r2,
    rmse,
    sharpness,
    summary,
)

__all__ = [
    "LEVELS",
    "Dependence",
    "Importance",
    "average_prediction",
    "baseline_summary",
    "calibration_curve",
    "calibration_error",
    "check_columns",
    "class_summary",
    "crps_gaussian",
    "crps_scorer",
    "interval_coverage",
    "log_likelihood",
    "log_likelihood_scorer",
    "mae",
    "permutation_importance",
    "predictive_coverage",
    "r2",
    "rmse",
    "sharpness",
    "summary",
]
