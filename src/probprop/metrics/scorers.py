"""Scorers for scikit-learn's ``scoring=``, of the distribution that an estimator predicts.

For example ``GridSearchCV(PBPRegressor(), {"n_epochs": [10, 40]}, scoring=log_likelihood_scorer)``.
A scorer is a function of a fitted regressor, X and y that returns a float; higher is better. The
predictive distribution is found through `Pipeline`, `GridSearchCV` and `RandomizedSearchCV`. The
scores of classifiers are scikit-learn's, such as ``"neg_log_loss"`` and ``"roc_auc_ovr"``.
`sample_weight` weights the mean over the samples and does not change predictions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from probprop._types import FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.mixture import Mixture
from probprop.metrics.classes import weighted_mean


def log_likelihood_scorer(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Score a regressor by the mean log density of the targets, in nats per sample.

    The score is exact for the predictive distribution, which is a Gaussian if the estimator only
    has ``predict(X, return_std=True)``. A target with density 0, such as a target of 0 or less
    under a Box-Cox transformation, makes the score -inf; `summary` leaves it out, with a warning.

    Parameters
    ----------
    estimator : object
        Fitted regressor with ``predict_distribution(X)``, or a `Pipeline` or a search such as
        `GridSearchCV` around one.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,) or (n, K)
        Log densities of K targets are added.
    sample_weight : array-like of shape (n,), default=None
        Weights in the mean over the samples, 0 or more; None means equal weights.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import cross_val_score
    >>> from probprop import PBPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scores = cross_val_score(PBPRegressor(random_state=0), X, y, scoring=log_likelihood_scorer)
    >>> round(scores.mean())
    -5
    """
    predicted, y = _predicted_and_observed(estimator, X, y)
    log_p = predicted.logpdf(y)
    return weighted_mean(log_p if log_p.ndim == 1 else log_p.sum(axis=1), sample_weight)


def crps_scorer(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Score a regressor by its negated mean CRPS, in target units, exact for what it predicts.

    Parameters are as in `log_likelihood_scorer`. K targets are averaged.
    """
    predicted, y = _predicted_and_observed(estimator, X, y)
    crps = predicted.crps(y)
    return -weighted_mean(crps if crps.ndim == 1 else crps.mean(axis=1), sample_weight)


def _predicted_and_observed(
    estimator: Any, X: Any, y: ArrayLike
) -> tuple[TargetDistribution, FloatArray]:
    """Return the predictions and the targets in their shape."""
    predicted = predictive(estimator, X)
    shape = predicted.mean.shape
    observed: FloatArray = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
    if len(observed) != shape[0] or observed.size != np.prod(shape):
        raise ValueError(
            f"y must have the shape of the predictions, {shape}. Got the shape {observed.shape} "
            "instead."
        )
    return predicted, observed.reshape(shape)


def predictive(estimator: Any, X: Any) -> TargetDistribution:
    """Return the predictive distribution of a fitted regressor, pipeline or search.

    An estimator that only has ``predict(X, return_std=True)`` is taken as Gaussian; its standard
    deviations must include the noise.
    """
    from sklearn.pipeline import Pipeline  # here, because it takes long to load

    name = type(estimator).__name__
    if hasattr(estimator, "predict_distribution"):
        distribution = estimator.predict_distribution(X)
        if not isinstance(distribution, TargetDistribution):
            raise TypeError(
                "predict_distribution must return a distribution of targets. "
                f"{name} returned a {type(distribution).__name__}; score classifiers with "
                "scikit-learn's 'neg_log_loss'."
            )
        return distribution
    if isinstance(estimator, Pipeline):
        return predictive(estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X)
    if hasattr(estimator, "best_estimator_"):
        return predictive(estimator.best_estimator_, X)
    if isinstance(estimator, BaseEstimator):  # others have no tags
        check_is_fitted(estimator)
    try:
        mean, std = (np.asarray(a, np.float64) for a in estimator.predict(X, return_std=True))
    except (AttributeError, TypeError) as error:
        raise TypeError(
            f"{name} predicts neither a distribution nor a standard deviation. Give an estimator "
            "with predict_distribution(X) or predict(X, return_std=True), such as PBPRegressor."
        ) from error
    if not np.all(std > 0.0):
        raise ValueError(
            f"{name} predicts a standard deviation of {np.min(std)}; it must be above 0 in every "
            "row: the noise is part of it"
        )
    return Mixture.of_one(mean, np.zeros_like(mean), std)


def log_probabilities(estimator: Any, X: Any) -> FloatArray:
    """Return log p of every class, (n, n_classes); -inf where a probability is rounded to 0."""
    with np.errstate(divide="ignore"):
        if hasattr(estimator, "predict_log_proba"):
            return np.asarray(estimator.predict_log_proba(X), np.float64)
        return np.log(np.asarray(estimator.predict_proba(X), np.float64))
