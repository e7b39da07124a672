"""How good predicted class probabilities are: log-loss, calibration and, in one call, all metrics.

The functions take `y`, array-like of shape (n,) with the index of the class of each sample, its
column in the probabilities: ``np.searchsorted(model.classes_, labels)``. They take `proba`,
array-like of shape (n, n_classes), rows that sum to 1, or `log_proba`, its logarithm.
`class_summary` has all metrics of a `ClassMixture`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.estimators.validation import check_sample_weight

N_BINS = 10
"""Bins of the confidence, of equal width, in which calibration is measured."""


def log_loss(y: ArrayLike, log_proba: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Mean negative log-probability of the right class, in nats per sample; lower is better.

    It takes logarithms, so that small probabilities are not cut off at 0. `sample_weight`,
    array-like of shape (n,), 0 or more, weights the mean; None means equal weights.

    >>> import numpy as np
    >>> round(log_loss([0, 1], np.log([[0.8, 0.2], [0.6, 0.4]])), 4)
    0.5697
    """
    log_proba = np.asarray(log_proba, np.float64)
    y, _ = check_classes_and_proba(y, np.exp(log_proba))
    return -weighted_mean(log_proba[np.arange(len(y)), y], sample_weight)


def reliability_curve(y: ArrayLike, proba: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Reliability diagram: accuracy against confidence, in bins.

    The confidence of a sample is the probability of its most probable class. Samples are binned by
    it, in ten bins of equal width from 0 to 1; empty bins are left out.

    Return for each bin the mean confidence, the share of the samples whose predicted class is
    right, which is lower if the model is overconfident, and the number of samples.

    >>> reliability_curve([0, 1, 1], [[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]])
    (array([0.7, 0.9]), array([1. , 0.5]), array([1., 2.]))
    """
    y, proba = check_classes_and_proba(y, proba)
    confidence = proba.max(axis=1)
    in_bin = np.minimum((N_BINS * confidence).astype(int), N_BINS - 1)
    count = np.bincount(in_bin, minlength=N_BINS).astype(np.float64)
    sure = np.bincount(in_bin, confidence, N_BINS)
    right = np.bincount(in_bin, proba.argmax(axis=1) == y, N_BINS)
    filled = count > 0.0
    return sure[filled] / count[filled], right[filled] / count[filled], count[filled]


def calibration_error(y: ArrayLike, proba: ArrayLike) -> float:
    """Expected calibration error (ECE): mean distance of confidence and accuracy over the bins.

    Each bin of `reliability_curve` counts by its samples. It is 0 when calibrated, at most 1; with
    few samples it is above 0 by chance (Guo and others, "On Calibration of Modern Neural Networks",
    ICML 2017, section 2).

    >>> round(calibration_error([0, 1, 1], [[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]]), 4)
    0.3667
    """
    confidence, right, count = reliability_curve(y, proba)
    return float(np.average(np.abs(confidence - right), weights=count))


def rarer_class(y: ArrayLike) -> int:
    """Return the index of the rarer of two classes in y; 1 if both are as frequent.

    >>> rarer_class([0, 1, 1]), rarer_class([0, 1])
    (0, 1)
    """
    n_first, n_second = np.bincount(np.asarray(y), minlength=2)[:2]
    return int(n_second <= n_first)


def class_summary(y: ArrayLike, predictive: ClassMixture) -> dict[str, float]:
    """Every metric of a predictive distribution of classes, for n samples.

    The keys are accuracy, log_loss, brier, calibration_error, roc_auc and average_precision. The
    Brier score is the mean squared distance of the probabilities from 1 for the right class and 0
    for others, between 0 and 2. The areas under the ROC and the precision-recall curve are
    scikit-learn's: with two classes for `rarer_class`, else the mean over the classes with samples,
    each against the rest. They are NaN if all samples have one class.

    >>> import numpy as np
    >>> from probprop import ClassMixture
    >>> log_proba = np.log([[0.8, 0.2], [0.6, 0.4]])
    >>> p = ClassMixture.of_one(np.array([-0.8, -0.3]), np.array([0.3, 0.3]), log_proba)
    >>> found = class_summary([0, 1], p)
    >>> found["accuracy"], round(found["log_loss"], 4), round(found["brier"], 4)
    (0.5, 0.5697, 0.4)
    """
    if predictive.multilabel:
        raise ValueError("predictive must be of classes. Got one of several labels instead.")
    return class_scores(y, predictive.log_proba)


def class_scores(
    y: ArrayLike, log_proba: FloatArray, positive: int | None = None
) -> dict[str, float]:
    """Return every metric of log probabilities, (n, n_classes); the keys of `class_summary`.

    `positive` is one of two classes; None is the rarer one in y.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score  # take long to load

    y, proba = check_classes_and_proba(y, np.exp(log_proba))
    n_classes, present = proba.shape[1], np.unique(y)
    curves = present.tolist()
    if n_classes == 2:
        curves = [rarer_class(y) if positive is None else positive]

    def area(score: Callable[..., float]) -> float:
        if len(present) < 2:
            return float("nan")
        return float(np.mean([score(y == k, proba[:, k]) for k in curves]))

    return {
        "accuracy": float(np.mean(proba.argmax(axis=1) == y)),
        "log_loss": log_loss(y, log_proba),
        "brier": float(((proba - np.eye(n_classes)[y]) ** 2).sum(axis=1).mean()),
        "calibration_error": calibration_error(y, proba),
        "roc_auc": area(roc_auc_score),
        "average_precision": area(average_precision_score),
    }


def class_baseline(y: ArrayLike, n_classes: int, positive: int | None = None) -> dict[str, float]:
    """Score the class shares of y, (n,) class indices, as the probabilities of every sample."""
    index = np.asarray(y)
    shares = np.bincount(index, minlength=n_classes) / len(index)
    with np.errstate(divide="ignore"):  # a class without samples is never looked up
        return class_scores(index, np.log(np.tile(shares, (len(index), 1))), positive)


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


def weighted_mean(values: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Return the mean of values, (n,), with weights of 0 or more, (n,); None is equal weights.

    A value of weight 0 does not count, also if it is infinite.
    """
    weights = check_sample_weight(sample_weight, values)
    if weights is None:
        return float(np.mean(values))
    counts = weights > 0.0
    return float(np.average(values[counts], weights=weights[counts]))
