"""What the baselines have in common: standardised data in, predictions out."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from probprop._types import Array, FloatArray
from probprop.inference.standardize import (
    Standardizer,
    check_magnitude,
    check_target_scale,
    fit_standardizer,
)
from probprop.predictive.protocol import TargetDistribution


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


def standardised_data(X: Array, y: Array) -> tuple[Standardizer, FloatArray, FloatArray]:
    """Return the standardiser of training data, and the data in its units.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
    y : ndarray of shape (n,)

    Raises
    ------
    ValueError
        Values no float could be computed with.
    """
    standardizer = fit_standardizer(X, y)
    check_target_scale(standardizer.y_scale)
    return standardizer, standardised(standardizer, X), standardizer.transform_y(y)


def standardised(standardizer: Standardizer, X: Array) -> FloatArray:
    """Return rows in the units of training; ValueError for values too far out."""
    Xs, largest = standardizer.transform_X(X, np.dtype(np.float64))
    check_magnitude("X", largest, Xs.dtype)
    return Xs
