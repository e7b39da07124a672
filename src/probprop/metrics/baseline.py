"""Baselines: the scores of predictions without any feature."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from probprop.distributions.mixture import Mixture
from probprop.metrics.classes import class_scores
from probprop.metrics.regression import check_columns, scores


def baseline_summary(y: ArrayLike, mean: float, std: float) -> dict[str, float] | None:
    """Score one Gaussian for all samples, with the marginal mean and std of the training target.

    `y` are the observed targets, array-like of shape (n,); all are in target units. Return a dict
    with the keys of `summary`; None if `std` is 0, because there is no density then.

    >>> found = baseline_summary([1.0, 3.0], mean=2.0, std=1.0)
    >>> found["rmse"], found["r2"], found["sharpness"]
    (1.0, 0.0, 1.0)
    """
    (y,) = check_columns(y=y)
    if not std > 0.0:
        return None
    return scores(y, Mixture.of_one(np.full_like(y, mean), np.zeros_like(y), std)).values


def class_baseline(y: ArrayLike, n_classes: int) -> dict[str, float]:
    """Score the class shares as probabilities of every sample, with the keys of `class_summary`.

    `y`, (n,), has the index of the class of each sample.
    """
    index = np.asarray(y)
    shares = np.bincount(index, minlength=n_classes) / len(index)
    with np.errstate(divide="ignore"):  # a class without rows is never looked up
        log_proba = np.log(np.tile(shares, (len(index), 1)))
    return class_scores(index, log_proba)
