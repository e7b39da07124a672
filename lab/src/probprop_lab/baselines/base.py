"""What the baselines have in common: standardized data in, predictions out."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.mixture import Mixture
from probprop.inference.standardize import (
    Standardizer,
    check_target_scale,
    fit_standardizer,
)


class Baseline(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose predictions are distributions."""

    @abstractmethod
    def predict_distribution(self, X: ArrayLike) -> TargetDistribution:
        """Return the predictive distribution of the target for every row."""

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = ...) -> FloatArray: ...
    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...
    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the mean of the target and, if asked, its standard deviation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            In target units.
        std : ndarray of shape (n_samples,)
            Standard deviation of the target, noise included, in target units; only with
            ``return_std=True``.
        """
        predictive = self.predict_distribution(X)
        return (predictive.mean, predictive.std) if return_std else predictive.mean


# ---- Data in


class Training(NamedTuple):
    """What a `fit` starts from."""

    rows: Array  # (n, n_features), as given
    targets: FloatArray  # (n,), as given
    Xs: FloatArray  # the same in standardized units
    ys: FloatArray
    standardizer: Standardizer
    random_state: RandomState


def training_data(estimator: Any, X: ArrayLike, y: ArrayLike) -> Training:
    """Check and standardize the data of a `fit`, and make its source of random numbers.

    Parameters
    ----------
    estimator : estimator
        With a parameter ``random_state``. It gets the number and the names of the features.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,)

    Raises
    ------
    ValueError
        Values that are not finite, or too large to compute with.
    """
    rows, targets = check_training_data(estimator, X, y)
    random_state = check_random_state(estimator.random_state)
    standardizer = fit_standardizer(rows, targets)
    check_target_scale(standardizer.y_scale)
    Xs, ys = standardized(standardizer, rows), standardizer.transform_y(targets)
    return Training(rows, targets, Xs, ys, standardizer, random_state)


def check_training_data(estimator: Any, X: ArrayLike, y: ArrayLike) -> tuple[Array, FloatArray]:
    """Return X, (n, n_features), and y, (n,), as arrays of finite floats."""
    rows, targets = validate_data(estimator, X, y, dtype=[np.float64, np.float32], y_numeric=True)
    return rows, np.asarray(targets, np.float64)  # raises for text


def standardized(standardizer: Standardizer, X: Array) -> FloatArray:
    """Return rows in the units of training; ValueError for values too far out."""
    return standardizer.checked_X(X, np.dtype(np.float64))


# ---- Predictions out


def scalar(value: float | FloatArray) -> float:
    """Return a quantity with one value per target as a number, for a single target."""
    return float(np.reshape(value, ()))


def in_target_units(standardizer: Standardizer, outputs: FloatArray) -> FloatArray:
    """Return standardized outputs, of any shape, in the units of the target."""
    return outputs * scalar(standardizer.y_scale) + scalar(standardizer.y_mean)


def gaussian(mean: FloatArray, epistemic_std: FloatArray, aleatoric_std: float) -> Mixture:
    """Return Gaussians with the same noise in every row.

    Parameters
    ----------
    mean, epistemic_std : ndarray of shape (n,)
        Mean, and standard deviation without the noise, in target units.
    aleatoric_std : float
        In target units.
    """
    return Mixture.of_one(mean, epistemic_std, aleatoric_std)


def mixture(means: FloatArray, aleatoric_stds: float | FloatArray) -> Mixture:
    """Return the mixture of Gaussians around the outputs of networks whose weights are known.

    Parameters
    ----------
    means : ndarray of shape (n_networks, n)
        In target units.
    aleatoric_stds : float, or ndarray of shape (n_networks,)
        In target units.
    """
    noise = np.broadcast_to(aleatoric_stds, len(means))[:, np.newaxis]
    return Mixture(means, np.broadcast_to(0.0, means.shape), noise)
