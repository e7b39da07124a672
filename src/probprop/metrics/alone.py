"""What the targets alone would score, without any feature: what every score is compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from probprop.metrics.classes import accuracy, brier_score, calibration_error, log_loss
from probprop.metrics.columns import check_columns
from probprop.metrics.regression import summary
from probprop.predictive.gaussian import Predictive


def mean_alone(y: ArrayLike) -> dict[str, float] | None:
    """Score the Gaussian with the mean and the variance of the targets, the same for every row.

    Parameters
    ----------
    y : array-like of shape (n,)
        Observed targets, in target units.

    Returns
    -------
    dict or None
        The keys of `summary`; None where all targets are the same, which has no density.

    Examples
    --------
    >>> found = mean_alone([1.0, 3.0])
    >>> found["rmse"], found["sharpness"]
    (1.0, 1.0)
    """
    (y,) = check_columns(y=y)
    scale = np.abs(y).max()
    if y.min() == y.max():
        return None
    scaled = y / scale  # squares of large targets are not floats
    mean, std = scale * np.mean(scaled), scale * np.std(scaled)
    return summary(y, Predictive(np.full_like(y, mean), np.zeros_like(y), std, 6.0))


def shares_alone(y: ArrayLike, n_classes: int) -> dict[str, float]:
    """Score the shares of the classes as probabilities, the same for every row.

    Parameters
    ----------
    y : array-like of shape (n,)
        Index of the class of each row.
    n_classes : int

    Returns
    -------
    dict
        The keys of `class_summary`.

    Examples
    --------
    >>> shares_alone([0, 0, 0, 1], 2)["accuracy"]
    0.75
    """
    index = np.asarray(y)
    shares = np.bincount(index, minlength=n_classes) / len(index)
    proba = np.tile(shares, (len(index), 1))
    with np.errstate(divide="ignore"):  # a class without rows is never looked up
        log_proba = np.log(proba)
    return {
        "accuracy": accuracy(index, proba),
        "log_loss": log_loss(index, log_proba),
        "brier": brier_score(index, proba),
        "calibration_error": calibration_error(index, proba),
    }
