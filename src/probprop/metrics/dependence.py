"""What is predicted if some columns of all rows are set to given values, the others left."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.classes import ClassMixture
from probprop.estimators.kind import classes_of

_STDS = 2.0  # half the width of the band


@dataclass(frozen=True, eq=False)
class Dependence:
    """Predictions at some values of a column, averaged over rows.

    Parameters
    ----------
    mean : ndarray of shape (n_values, K)
        Predicted mean of each of K targets, in target units; or the probability of each class.
    low, high : ndarray of shape (n_values, K), or None
        Two standard deviations of what the model does not know, without the noise, below and above;
        for two classes the probabilities there. None for more classes.
    """

    mean: FloatArray
    low: FloatArray | None
    high: FloatArray | None


def average_prediction(model: Any, X: Array, place: ArrayLike, values: ArrayLike) -> Dependence:
    """Set some columns of X to each of some values, and average the predictions over the rows.

    Parameters
    ----------
    model : estimator
        Fitted, with `predict_distribution`.
    X : ndarray of shape (n, n_features)
        Rows to average over.
    place : array-like of int, of shape (m,)
        The columns of X that are set: together, as the categories of one text are.
    values : array-like of shape (n_values, m), (n_values, 1, m) or (n_values, n, m)
        What they are set to; in the last form each row has its own.

    Returns
    -------
    Dependence

    Examples
    --------
    >>> from probprop import PBPRegressor
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 3.0]])
    >>> model = PBPRegressor(random_state=0).fit(X, [0, 1, 5])
    >>> average_prediction(model, X, [1], [[1.0], [2.0], [3.0]]).mean.shape
    (3, 1)
    """
    given, at = np.asarray(values, X.dtype), np.asarray(place, int)
    n_values, n = len(given), len(X)
    each = given if given.ndim == 3 else given[:, np.newaxis]
    moved = np.tile(X, (n_values, 1))
    moved[:, at] = np.broadcast_to(each, (n_values, n, len(at))).reshape(-1, len(at))
    with warnings.catch_warnings():  # a model fitted on a frame expects names
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        predictive = model.predict_distribution(moved)

    def averaged(per_row: FloatArray) -> FloatArray:
        mean: FloatArray = per_row.reshape(n_values, n, -1).mean(axis=1)
        return mean

    if classes_of(model) is None:
        target = cast(TargetDistribution, predictive)
        mean, std = averaged(target.mean), averaged(target.epistemic_std)
        return Dependence(mean, mean - _STDS * std, mean + _STDS * std)
    label = cast(ClassMixture, predictive)
    mean = averaged(label.proba)
    if label.mean.ndim > 1:  # no band of one class without the others
        return Dependence(mean, None, None)
    # A probability is Phi(f) where the output f is known.
    second = [averaged(ndtr(label.mean + k * label.std))[:, 0] for k in (-_STDS, _STDS)]
    low, high = np.stack([1.0 - second[1], second[0]], 1), np.stack([1.0 - second[0], second[1]], 1)
    return Dependence(mean, low, high)
