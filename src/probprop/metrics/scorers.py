"""Scorers for scikit-learn's ``scoring=``, of the distribution that an estimator predicts.

For example ``GridSearchCV(PBPRegressor(), {"n_epochs": [10, 40]}, scoring=log_likelihood_scorer)``.
A scorer is a function of a fitted estimator, X and y that returns a float; higher is better. For
regressors, the predictive distribution is found through `Pipeline`, `GridSearchCV`,
`RandomizedSearchCV` and `TransformedTargetRegressor`; for classifiers, `predict_proba` is used,
which these have. `sample_weight` weights the mean over the samples and does not change predictions.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from sklearn.utils.validation import check_array, check_is_fitted

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.mixture import Mixture
from probprop.metrics.classes import (
    average_precision,
    brier_score,
    calibration_error,
    log_loss,
    roc_auc,
    weighted_mean,
)

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
_PROBE = 8.0  # standard deviations from the mean within which a transformation is examined
_AFFINE = 1e-9  # largest deviation from an affine function, relative to the range of its values

_GAUSSIAN = (
    "The score uses a Gaussian with the predicted mean and standard deviation: {why}. "
    "An estimator with predict_distribution is scored by the distribution that it predicts."
)


# ---- Regression


def log_likelihood_scorer(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Score a regressor by the mean log density of the targets, in nats per sample.

    The score is exact for the predictive distribution. It uses a Gaussian, with a warning, if
    the estimator only has ``predict(X, return_std=True)`` or transforms the target by a function
    that is not affine. A target with density 0, such as a target of 0 or less under a Box-Cox
    transformation, makes the score -inf. (`summary` leaves it out, with a warning.)

    Parameters
    ----------
    estimator : object
        Fitted regressor with ``predict_distribution(X)``, or a `Pipeline`, a search such as
        `GridSearchCV`, or a `TransformedTargetRegressor` around one.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,) or (n, K)
        Log densities of K targets are added.
    sample_weight : array-like of shape (n,), default=None
        Weights in the mean over the samples, 0 or more; None stands for equal weights.

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
    log_p = predicted.distribution.logpdf(predicted.inverse(y)) - np.log(np.abs(predicted.scale))
    return weighted_mean(log_p if log_p.ndim == 1 else log_p.sum(axis=1), sample_weight)


def crps_scorer(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Score a regressor by its negated mean CRPS, in target units, exact for what it predicts.

    Parameters and warning are as in `log_likelihood_scorer`. K targets are averaged.
    """
    predicted, y = _predicted_and_observed(estimator, X, y)
    crps = np.abs(predicted.scale) * predicted.distribution.crps(predicted.inverse(y))
    return -weighted_mean(crps if crps.ndim == 1 else crps.mean(axis=1), sample_weight)


class _Predicted(NamedTuple):
    """Targets ``scale * z + shift`` of n samples, and the distribution of z."""

    distribution: TargetDistribution
    scale: FloatArray | float = 1.0  # or (K,)
    shift: FloatArray | float = 0.0
    gaussian_because: str = ""  # why it is a Gaussian with predicted mean and std; empty if exact

    def inverse(self, y: FloatArray) -> FloatArray:
        return (y - self.shift) / self.scale


def _predicted_and_observed(estimator: Any, X: Any, y: ArrayLike) -> tuple[_Predicted, FloatArray]:
    """Return the predictions and the targets in their shape; warn if the score is not exact."""
    predicted = _predicted(estimator, X)
    shape = predicted.distribution.mean.shape
    observed: FloatArray = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
    if len(observed) != shape[0] or observed.size != np.prod(shape):
        raise ValueError(
            f"y must have the shape of the predictions, {shape}. Got the shape {observed.shape} "
            "instead."
        )
    if predicted.gaussian_because:
        warnings.warn(_GAUSSIAN.format(why=predicted.gaussian_because), stacklevel=3)
    return predicted, observed.reshape(shape)


def _predicted(estimator: Any, X: Any) -> _Predicted:
    # Imported here, because they take longer to load than the metrics themselves.
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import Pipeline

    if hasattr(estimator, "predict_distribution"):
        distribution = estimator.predict_distribution(X)
        if not isinstance(distribution, TargetDistribution):
            raise TypeError(
                "predict_distribution must return a distribution of targets. "
                f"{type(estimator).__name__} returned a {type(distribution).__name__}; score "
                "classifiers with log_loss_scorer or brier_scorer."
            )
        return _Predicted(distribution)
    if isinstance(estimator, Pipeline):
        features = estimator[:-1].transform(X) if len(estimator) > 1 else X
        return _predicted(estimator[-1], features)
    if hasattr(estimator, "best_estimator_"):
        return _predicted(estimator.best_estimator_, X)
    if hasattr(estimator, "fit"):
        check_is_fitted(estimator)
    if isinstance(estimator, TransformedTargetRegressor):
        return _transformed(_predicted(estimator.regressor_, X), estimator.transformer_)
    name = type(estimator).__name__
    try:
        mean, std = estimator.predict(X, return_std=True)
    except (AttributeError, TypeError) as error:
        raise TypeError(
            f"{name} predicts neither a distribution nor a standard deviation. Give an estimator "
            "with predict_distribution(X) or predict(X, return_std=True), such as PBPRegressor."
        ) from error
    return _gaussian(mean, std, f"{name} has no predict_distribution")


def _gaussian(mean: FloatArray, std: FloatArray, because: str) -> _Predicted:
    return _Predicted(Mixture.of_one(mean, np.zeros_like(mean), std), gaussian_because=because)


# ---- Regression: transformed targets


def _transformed(predicted: _Predicted, transformer: Any) -> _Predicted:
    """Return what is predicted after the inverse of a transformer of the targets."""
    affine = _affine(predicted, transformer)
    if affine is not None:
        a, b = affine
        return predicted._replace(scale=a * predicted.scale, shift=a * predicted.shift + b)
    # Gauss-Hermite quadrature over quantiles: exact moments of polynomials of a Gaussian.
    quantiles = predicted.scale * predicted.distribution.ppf(ndtr(_NODES)) + predicted.shift
    y = _inverse_transform(transformer, quantiles)
    usable = np.isfinite(y)  # the inverse of a power of a number below 0 is NaN
    y = np.where(usable, y, 0.0)
    weights = _WEIGHTS.reshape(-1, *[1] * (y.ndim - 1)) * usable
    weights /= weights.sum(axis=0)
    mean = (weights * y).sum(axis=0)
    std = np.sqrt((weights * (y - mean) ** 2).sum(axis=0))
    because = f"the inverse of {type(transformer).__name__}, which transforms y, is not affine"
    return _gaussian(mean, std, because)


def _affine(
    predicted: _Predicted, transformer: Any
) -> tuple[FloatArray | float, FloatArray | float] | None:
    """Return scale and shift of the inverse of a transformer, or None if it is not affine.

    It is examined where the predictions are, each target on its own.
    """
    mean = predicted.scale * predicted.distribution.mean + predicted.shift
    std = np.abs(predicted.scale) * predicted.distribution.std
    n_targets = 1 if mean.ndim == 1 else mean.shape[1]
    steps = np.linspace(-_PROBE, _PROBE, n_targets + 4)
    # Each target has the steps in another order: a transformer that mixes targets is found out.
    step = np.stack([np.roll(steps, k) for k in range(n_targets)], axis=1)
    step = step.reshape(-1, 1, n_targets) if mean.ndim > 1 else step
    z = mean + step * std
    y = _inverse_transform(transformer, z)
    if y.shape != z.shape or not np.isfinite(y).all():
        return None
    z, y = z.reshape(-1, n_targets), y.reshape(-1, n_targets)
    low, high = z.argmin(axis=0), z.argmax(axis=0)
    k = np.arange(n_targets)
    scale = (y[high, k] - y[low, k]) / (z[high, k] - z[low, k])
    shift = y[low, k] - scale * z[low, k]
    tolerance = _AFFINE * np.ptp(y, axis=0) + 1e-12 * np.abs(y).max(axis=0)
    if not (scale != 0.0).all() or not (np.abs(scale * z + shift - y) <= tolerance).all():
        return None
    return (scale, shift) if mean.ndim > 1 else (scale[0], shift[0])


def _inverse_transform(transformer: Any, z: FloatArray) -> FloatArray:
    """Return targets of z, (m, n) or (m, n, K); not finite where there are none."""
    n_targets = 1 if z.ndim == 2 else z.shape[2]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that no prediction needs to have
        y = np.asarray(transformer.inverse_transform(z.reshape(-1, n_targets)), np.float64)
    return y.reshape(z.shape) if y.size == z.size else y


# ---- Classification


def log_loss_scorer(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Score a classifier by its negated log-loss, in nats per sample.

    A class with probability 0 that is observed makes the score -inf: probabilities are not clipped.
    Where the estimator has `predict_log_proba`, the smallest probabilities are exact.

    Parameters
    ----------
    estimator : object
        Fitted classifier with ``predict_proba(X)`` and ``classes_``, such as `PBPClassifier`, or a
        `Pipeline` or a search such as `GridSearchCV` around one.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,)
        Class labels, each of them one of ``estimator.classes_``.
    sample_weight : array-like of shape (n,), default=None
        Weights in the mean over the samples, 0 or more; None stands for equal weights.
    """
    index = _observed(estimator, y)
    return -log_loss(index, log_probabilities(estimator, X), sample_weight)


def log_probabilities(estimator: Any, X: Any) -> FloatArray:
    """Return log p of every class, (n, n_classes); -inf where a probability is rounded to 0."""
    with np.errstate(divide="ignore"):
        if hasattr(estimator, "predict_log_proba"):
            return np.asarray(estimator.predict_log_proba(X), np.float64)
        return np.log(np.asarray(estimator.predict_proba(X), np.float64))


def brier_scorer(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Score a classifier by its negated Brier score, the sum over all classes, from -2 to 0.

    Parameters are as in `log_loss_scorer`. For two classes the score is twice the value of
    scikit-learn's ``"neg_brier_score"``.
    """
    return -brier_score(*_proba(estimator, X, y), sample_weight)


def calibration_error_scorer(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Score a classifier by its negated expected calibration error (ECE), from -1 to 0.

    Parameters are as in `log_loss_scorer`. It is not a proper score: predicting the class shares
    for all samples is calibrated. Select models by `log_loss_scorer` or `brier_scorer`.
    """
    return -calibration_error(*_proba(estimator, X, y), sample_weight)


def roc_auc_scorer(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Score a classifier by the area under its ROC curve, from 0 to 1.

    Parameters are as in `log_loss_scorer`; `probprop.metrics.classes.roc_auc` is the score.
    """
    return roc_auc(*_proba(estimator, X, y), sample_weight)


def average_precision_scorer(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Score a classifier by its average precision, the area under the precision-recall curve.

    Parameters are as in `log_loss_scorer`. Classes are averaged as in `roc_auc_scorer`.
    """
    return average_precision(*_proba(estimator, X, y), sample_weight)


def _proba(estimator: Any, X: Any, y: ArrayLike) -> tuple[Array, FloatArray]:
    return _observed(estimator, y), np.asarray(estimator.predict_proba(X))


def _observed(estimator: Any, y: ArrayLike) -> Array:
    """Return class indices, (n,)."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"{type(estimator).__name__} has no predict_proba. Give a fitted classifier that "
            "predicts probabilities, such as PBPClassifier."
        )
    labels, classes = np.asarray(y), np.asarray(estimator.classes_)
    if labels.ndim != 1 or getattr(estimator, "multilabel_", False):
        raise ValueError(
            "y must have the shape (n,), with one class label per sample. Got the shape "
            f"{labels.shape} instead; several labels per sample have no such score."
        )
    if (unknown := labels[~np.isin(labels, classes)]).size:
        raise ValueError(
            f"y must hold labels of classes_, on which the model was fitted. Got {unknown[0]!r} "
            "instead."
        )
    return np.searchsorted(classes, labels)
