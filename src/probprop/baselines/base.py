"""What the baselines have in common: predictions in the words of scikit-learn."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, overload

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from probprop.mixture import Mixture
from probprop.posterior import FloatArray
from probprop.predictive import Predictive


class Baseline(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose predictions are distributions."""

    @abstractmethod
    def predict_distribution(self, X: ArrayLike) -> Predictive | Mixture:
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
