"""Metrics of predictive distributions and scorers; for classes `probprop.metrics.classes`."""

from probprop.estimators.shapley import explain
from probprop.metrics.classes import class_summary
from probprop.metrics.importance import Importance, permutation_importance
from probprop.metrics.regression import (
    LEVELS,
    baseline_summary,
    check_columns,
    interval_coverage,
    predictive_coverage,
    rmse,
    summary,
)
from probprop.metrics.scorers import crps_scorer, log_likelihood_scorer

__all__ = [
    "LEVELS",
    "Importance",
    "baseline_summary",
    "check_columns",
    "class_summary",
    "crps_scorer",
    "explain",
    "interval_coverage",
    "log_likelihood_scorer",
    "permutation_importance",
    "predictive_coverage",
    "rmse",
    "summary",
]
