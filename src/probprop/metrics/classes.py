"""How good predicted probabilities of classes are.

Accuracy, log-loss, Brier score and calibration judge the probabilities; ROC-AUC and average
precision judge how well they tell the classes apart.

Plain functions of arrays that return a float. ``y`` holds the index of the class of each row, its
place in the columns of the probabilities: ``np.searchsorted(model.classes_, labels)``.
`class_summary` puts them together for a `ClassMixture`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.metrics.columns import weighted_mean, weights_of

N_BINS = 10
"""Bins of the confidence, of equal width, in which calibration is measured."""


def accuracy(y: ArrayLike, proba: ArrayLike) -> float:
    """Share of the rows whose most probable class is the right one.

    Parameters
    ----------
    y : array-like of shape (n,)
        Index of the class of each row.
    proba : array-like of shape (n, n_classes)
        Predicted probabilities.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> accuracy([0, 1], [[0.8, 0.2], [0.6, 0.4]])
    0.5
    """
    y, proba = check_classes_and_proba(y, proba)
    return float(np.mean(proba.argmax(axis=1) == y))


def log_loss(y: ArrayLike, log_proba: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Mean negative log-probability of the right class; lower is better.

    Parameters
    ----------
    y : array-like of shape (n,)
        Index of the class of each row.
    log_proba : array-like of shape (n, n_classes)
        Logarithms of the predicted probabilities, so that none is cut off at 0.
    sample_weight : array-like of shape (n,), default=None
        Weights in the mean over the rows, 0 or more; None stands for equal weights.

    Returns
    -------
    float
        In nats per row, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> round(log_loss([0, 1], np.log([[0.8, 0.2], [0.6, 0.4]])), 4)
    0.5697
    """
    log_proba = np.asarray(log_proba, np.float64)
    y, _ = check_classes_and_proba(y, np.exp(log_proba))
    return -weighted_mean(log_proba[np.arange(len(y)), y], sample_weight)


def brier_score(y: ArrayLike, proba: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Mean squared distance of the probabilities from 1 for the right class and 0 for others.

    Parameters
    ----------
    y : array-like of shape (n,)
        Index of the class of each row.
    proba : array-like of shape (n, n_classes)
        Predicted probabilities.
    sample_weight : array-like of shape (n,), default=None
        Weights in the mean over the rows, 0 or more; None stands for equal weights.

    Returns
    -------
    float
        Between 0 and 2; lower is better. With two classes it is twice the mean squared error of
        one probability.

    Examples
    --------
    >>> round(brier_score([0, 1], [[0.8, 0.2], [0.6, 0.4]]), 4)
    0.4
    """
    y, proba = check_classes_and_proba(y, proba)
    right = np.eye(proba.shape[1])[y]
    return weighted_mean(((proba - right) ** 2).sum(axis=1), sample_weight)


def reliability_curve(
    y: ArrayLike, proba: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of right predictions against their predicted probability: the reliability diagram.

    The confidence of a row is the probability of its most probable class. Rows are binned by
    it, in ten bins of equal width from 0 to 1; bins without rows are left out.

    Parameters
    ----------
    y, proba, sample_weight
        As in `brier_score`.

    Returns
    -------
    confidence, right, count : ndarray of shape (n_bins,)
        Mean confidence, share of the rows whose predicted class is right, and number of rows (or
        their total weight), in each bin. The first two are equal when calibrated; `right` is below
        `confidence` where the model is too sure of itself.

    Examples
    --------
    >>> reliability_curve([0, 1, 1], [[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]])
    (array([0.7, 0.9]), array([1. , 0.5]), array([1., 2.]))
    """
    y, proba = check_classes_and_proba(y, proba)
    confidence = proba.max(axis=1)
    in_bin = np.minimum((N_BINS * confidence).astype(int), N_BINS - 1)
    weights = weights_of(sample_weight, len(y))
    count = np.bincount(in_bin, weights, N_BINS).astype(np.float64)
    sure = np.bincount(in_bin, weights * confidence, N_BINS)
    right = np.bincount(in_bin, weights * (proba.argmax(axis=1) == y), N_BINS)
    filled = count > 0.0
    return sure[filled] / count[filled], right[filled] / count[filled], count[filled]


def calibration_error(
    y: ArrayLike, proba: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Mean distance of confidence and accuracy over the bins of `reliability_curve`.

    Known as the expected calibration error (ECE): every bin counts by its rows.

    Parameters
    ----------
    y, proba, sample_weight
        As in `brier_score`.

    Returns
    -------
    float
        0 when calibrated, at most 1. With few rows chance alone keeps it from 0.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern Neural Networks",
    ICML 2017, section 2.

    Examples
    --------
    >>> round(calibration_error([0, 1, 1], [[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]]), 4)
    0.3667
    """
    confidence, right, count = reliability_curve(y, proba, sample_weight)
    return float(np.average(np.abs(confidence - right), weights=count))


def roc_auc(y: ArrayLike, proba: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Area under the ROC curve, by scikit-learn's `roc_auc_score`.

    Parameters
    ----------
    y, proba, sample_weight
        As in `brier_score`.

    Returns
    -------
    float
        Between 0 and 1; higher is better, and 0.5 is chance. For two classes, the curve of the
        second; for more, the mean over the classes, each against the rest. A class without rows has
        no curve and is left out. NaN if all rows have one class.

    Examples
    --------
    >>> roc_auc([0, 1, 1], [[0.8, 0.2], [0.6, 0.4], [0.9, 0.1]])
    0.5
    """
    from sklearn.metrics import roc_auc_score  # here, because it takes long to load

    return _mean_over_classes(roc_auc_score, y, proba, sample_weight)


def average_precision(
    y: ArrayLike, proba: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Area under the precision-recall curve, by scikit-learn's `average_precision_score`.

    Parameters
    ----------
    y, proba, sample_weight
        As in `brier_score`.

    Returns
    -------
    float
        Between 0 and 1; higher is better, and the share of the class is chance. Classes are
        averaged as in `roc_auc`.

    Examples
    --------
    >>> round(average_precision([0, 1, 1], [[0.8, 0.2], [0.6, 0.4], [0.9, 0.1]]), 4)
    0.8333
    """
    from sklearn.metrics import average_precision_score

    return _mean_over_classes(average_precision_score, y, proba, sample_weight)


def _mean_over_classes(
    score: Callable[..., float], y: ArrayLike, proba: ArrayLike, sample_weight: ArrayLike | None
) -> float:
    """Score the second of two classes, or the mean of all that occur, each against the rest."""
    y, proba = check_classes_and_proba(y, proba)
    weights = weights_of(sample_weight, len(y))
    present = np.unique(y[weights > 0.0])
    if len(present) < 2:
        return float("nan")
    scored = [1] if proba.shape[1] == 2 else present
    each = [score(y == k, proba[:, k], sample_weight=weights) for k in scored]
    return float(np.mean(each))


def class_summary(y: ArrayLike, predictive: ClassMixture) -> dict[str, float]:
    """Every metric of a predictive distribution of classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Index of the class of each row.
    predictive : ClassMixture
        Predictions for the same n rows; of classes, not of several labels.

    Returns
    -------
    dict
        Keys: accuracy, log_loss, brier, calibration_error, roc_auc, average_precision.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import ClassMixture
    >>> log_proba = np.log([[0.8, 0.2], [0.6, 0.4]])
    >>> p = ClassMixture.of_one(np.array([-0.8, -0.3]), np.array([0.3, 0.3]), log_proba)
    >>> found = class_summary([0, 1], p)
    >>> found["accuracy"], round(found["log_loss"], 4)
    (0.5, 0.5697)
    """
    if predictive.multilabel:
        raise ValueError("predictive must be of classes. Got one of several labels instead.")
    return class_scores(y, predictive.log_proba)


def class_scores(y: ArrayLike, log_proba: FloatArray) -> dict[str, float]:
    """Return every metric of log probabilities, (n, n_classes); the keys of `class_summary`."""
    proba = np.exp(log_proba)
    return {
        "accuracy": accuracy(y, proba),
        "log_loss": log_loss(y, log_proba),
        "brier": brier_score(y, proba),
        "calibration_error": calibration_error(y, proba),
        "roc_auc": roc_auc(y, proba),
        "average_precision": average_precision(y, proba),
    }


# ---- Validation, once, here


def check_classes_and_proba(y: ArrayLike, proba: ArrayLike) -> tuple[Array, FloatArray]:
    """Return indices of classes, (n,), and probabilities, (n, n_classes), n > 0, that fit."""
    index, p = np.asarray(y), np.asarray(proba, np.float64)
    if index.ndim != 1 or p.ndim != 2 or len(index) != len(p) or p.size == 0:
        raise ValueError(
            "y must have shape (n,) and proba (n, n_classes), with one row or more. Got shapes "
            f"{index.shape} and {p.shape} instead."
        )
    if index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= p.shape[1]:
        raise ValueError(
            f"y must hold indices of the {p.shape[1]} columns of proba: give "
            "np.searchsorted(model.classes_, labels)."
        )
    if not ((p >= 0.0) & (p <= 1.0 + 1e-9)).all() or not np.allclose(p.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError("Each row of proba must be probabilities that sum to 1.")
    return index, p
