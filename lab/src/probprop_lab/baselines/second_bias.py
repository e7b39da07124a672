"""SecondBiasPBP: PBP with features that are 1 in every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.distributions.mixture import Mixture
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_inputs
from probprop_lab.baselines.base import (
    Baseline,
    gaussian,
    in_target_units,
    scalar,
    standardized,
    training_data,
)


class SecondBiasPBP(Baseline):
    """PBP with further bias units: some features, standardized, are 1 in every row.

    A standardized feature that is constant is 0. In the authors' code round-off can make it 1
    instead, and such a feature is one more bias unit.

    Parameters
    ----------
    estimator : PBPRegressor
        The regressor to fit to the data, which are standardized here.
    ones : sequence of int
        Columns of the features that are 1.

    Attributes
    ----------
    estimator_ : PBPRegressor
        Fitted to the standardized data.
    posterior_ : Posterior
        Posterior of the weights and of the noise, in standardized units.
    standardizer_ : Standardizer
        Means and scales of the training data.
    history_ : list of Epoch
        One entry per epoch, in standardized units.
    noise_variance_ : float
        Posterior mean of the variance of the noise, in target units squared.
    prior_variance_ : float
        Posterior mean of the variance of the weights' prior.
    log_evidence_ : float
        Sum of log Z over the first epoch, in target units.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]]), np.array([1.0, 2.0, 3.0])
    >>> model = SecondBiasPBP(PBPRegressor(4, random_state=0), ones=[1]).fit(X, y)
    >>> model.predict(X).shape
    (3,)
    """

    def __init__(self, estimator: PBPRegressor, ones: Sequence[int]) -> None:
        self.estimator = estimator
        self.ones = ones

    @property
    def random_state(self) -> object:
        """The random state of the estimator."""
        return self.estimator.random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Standardize, set the features that are 1, and fit the estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        data = training_data(self, X, y)
        self.standardizer_ = data.standardizer
        estimator = clone(self.estimator).set_params(standardize=False)
        self.estimator_: PBPRegressor = estimator.fit(self._with_ones(data.Xs), data.ys)
        self.posterior_ = self.estimator_.posterior_
        scale = scalar(data.standardizer.y_scale)
        self.history_ = self.estimator_.history_
        self.noise_variance_ = scalar(self.estimator_.noise_variance_) * scale**2
        self.prior_variance_ = self.estimator_.prior_variance_
        # A density of standardized targets, divided by their scale, is one of the targets.
        first = self.history_[0]
        self.log_evidence_ = (first.mean_log_Z - float(np.log(scale))) * first.n_points
        return self

    def predict_distribution(self, X: ArrayLike) -> Mixture:
        """Return the predictive distribution of the target for every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Mixture
            In target units.
        """
        check_is_fitted(self)
        Xs = self._with_ones(standardized(self.standardizer_, check_inputs(self, X)))
        found = self.estimator_.predict_distribution(Xs)
        scale = scalar(self.standardizer_.y_scale)
        return gaussian(
            in_target_units(self.standardizer_, found.mean),
            found.epistemic_std * scale,
            float(np.max(found.aleatoric_std)) * scale,  # the same in every row
        )

    def _with_ones(self, Xs: FloatArray) -> Array:
        Xs[:, list(self.ones)] = 1.0
        return Xs
