"""Fit an estimator and score it: all methods in the same way."""

from __future__ import annotations

from typing import Any

import numpy as np

from probprop import metrics
from probprop._types import Array
from probprop.inference.posterior import Epoch, Posterior
from probprop.metrics.scorers import predictive
from probprop_lab.baselines.base import scalar
from probprop_lab.clock import fit_and_predict
from probprop_lab.experiments.harness import methods
from probprop_lab.experiments.harness.job import Job
from probprop_lab.results import Row

_COUNTS = ("n_undone", "n_guarded", "n_skipped_points", "n_skipped_factors")


def fit_and_score(
    job: Job,
    X_train: Array,
    y_train: Array,
    X_test: Array,
    y_test: Array,
    known: methods.Methods = methods.KNOWN,
) -> tuple[Any, Row]:
    """Fit as a job says and return the estimator with everything the tables need.

    `known` are the methods of the job's experiment, by name.
    """
    estimator = methods.find(job.method, known).make(job)
    return estimator, evaluate(estimator, X_train, y_train, X_test, y_test)


def evaluate(estimator: Any, X_train: Array, y_train: Array, X_test: Array, y_test: Array) -> Row:
    """Fit an estimator on the training part and return what the tables need of it.

    The seconds are processor time of the fit alone: normalization, and a search for hyperparameters
    where there is one, included. Its warnings are in the row.
    """
    predicted, seconds, told = fit_and_predict(estimator, X_train, y_train, X_test, predictive)
    split = hasattr(estimator, "predict_distribution")  # into model and noise
    return {
        **metrics.summary(y_test, predicted),
        "seconds": seconds,
        "n_train": len(y_train),
        "n_test": len(y_test),
        "n_features": X_train.shape[1],
        "epistemic_std": float(np.sqrt(np.mean(predicted.epistemic_std**2))) if split else None,
        **details(estimator),
        "warnings": told,
    }


def details(estimator: Any) -> Row:
    """Return what only some methods have; None where this one has none."""
    params = None
    if hasattr(estimator, "best_estimator_"):  # found by a search
        params, estimator = estimator.best_params_, estimator.best_estimator_
    posterior = getattr(estimator, "posterior_", None)
    history = getattr(estimator, "history_", None)
    epochs = [e for e in history if isinstance(e, Epoch)] if isinstance(history, list) else []
    return {
        "noise_variance": _number(estimator, "noise_variance_"),
        "prior_variance": _number(estimator, "prior_variance_"),
        "alpha_noise": scalar(posterior.alpha_noise) if isinstance(posterior, Posterior) else None,
        "log_evidence": _number(estimator, "log_evidence_"),
        **{name: sum(getattr(e, name) for e in epochs) if epochs else None for name in _COUNTS},
        "params": params,
        "r_hat": max(estimator.r_hat_.values()) if hasattr(estimator, "r_hat_") else None,
        "n_divergent": getattr(estimator, "n_divergent_", None),
    }


def _number(estimator: Any, name: str) -> float | None:
    value = getattr(estimator, name, None)
    return value if isinstance(value, float) else None
