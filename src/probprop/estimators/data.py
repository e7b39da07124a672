"""Training data as users pass them, checked once: rows, targets and the likelihood of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.estimators import validation
from probprop.inference import likelihoods
from probprop.inference.inputs import Inputs, Samples
from probprop.inference.likelihoods import Gaussian, LabelLikelihood, Likelihood, count_targets

_BITS = 2.0**24  # of relative sample weights


class Given(NamedTuple):
    """What `fit` and `partial_fit` are given, not yet checked; `PBPRegressor.fit` describes it."""

    X: ArrayLike
    y: ArrayLike
    sample_weight: ArrayLike | None = None
    X_std: ArrayLike | None = None
    y_std: ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Samples and targets that a network can be trained on; indexing selects samples."""

    X: Inputs  # (n, n_features)
    y: Array  # (n,) or (n, K), as the likelihood encodes them
    likelihood: Likelihood
    weights: FloatArray | None = None  # (n,), above 0, in units of `mean_weight`; None: each is 1
    y_std: FloatArray | None = None  # known errors of the targets, of the shape and units of y
    mean_weight: float = 1.0  # in the first call of `fit` or `partial_fit`

    def __getitem__(self, rows: Array) -> TrainingData:
        weights, y_std = (None if a is None else a[rows] for a in (self.weights, self.y_std))
        return replace(self, X=self.X[rows], y=self.y[rows], weights=weights, y_std=y_std)


def _read(
    model: Any,
    given: Given,
    X: Samples,
    y: Array,
    likelihood: Callable[[Array], Any],
    *,
    first: bool,
) -> TrainingData:
    """Check what belongs to the samples and drop samples of weight 0; `likelihood` takes y."""
    inputs = Inputs(X, validation.check_input_std(given.X_std, X))
    y_std = validation.check_target_std(given.y_std, y)
    weights = validation.check_sample_weight(given.sample_weight, X)
    mean = 1.0 if first else model.mean_sample_weight_
    if weights is not None:
        if not weights.all():
            counts = np.flatnonzero(weights)
            if first:
                validation.check_columns(X[counts])
            inputs, y, weights = inputs[counts], y[counts], weights[counts]
            y_std = None if y_std is None else y_std[counts]
        mean = mean_weight_of(weights) if first else mean
        weights = relative_weights(weights, mean)
    known = likelihood(y)
    return TrainingData(inputs, known.encode(y), known, weights, y_std, mean)


def mean_weight_of(weights: FloatArray) -> float:
    """Return the mean of sample weights, all above 0; no sum overflows."""
    largest = weights.max()
    return float(largest * (weights / largest).mean())


def relative_weights(weights: FloatArray, mean: float) -> FloatArray | None:
    """Return sample weights, (n,) and above 0, in units of the mean weight, or None if each is 1.

    They are rounded to 24 bits. A constant factor changes the quotients by the rounding of
    doubles, and would otherwise change the last bits of all that is learned from them.
    """
    with np.errstate(over="ignore", under="ignore"):  # refused below
        fraction, exponent = np.frexp(weights / mean)
        relative: FloatArray = np.ldexp(np.rint(fraction * _BITS) / _BITS, exponent)
    if len(bad := weights[~((relative > 0.0) & (relative < np.inf))]):
        raise ValueError(
            f"sample_weight has the value {bad[0]:.3g}, but the mean weight in the first fit was "
            f"{mean:.3g}: their quotient is outside the range of floats. Give weights in the units "
            "of the first fit."
        )
    return None if (relative == 1.0).all() else relative


def noise_factor(model: Any, sample_weight: ArrayLike | None, X: Samples) -> FloatArray | None:
    """Return what sample weights, (n,), multiply the noise std by, (n,); None: by 1."""
    if sample_weight is None:
        return None
    weights = validation.check_sample_weight(sample_weight, X)
    if weights is None or not weights.all():
        raise ValueError(
            "sample_weight must be above 0 in predictions: a sample of weight 0 has infinite "
            "noise. Got 0.0."
        )
    relative = relative_weights(weights, model.mean_sample_weight_)
    return None if relative is None else 1.0 / np.sqrt(relative)


def read_values(
    model: Any,
    given: Given,
    known: Gaussian | None,
    noise_prior: tuple[float, float],
    noise_tail: str = "gaussian",
) -> TrainingData:
    """Check the samples and the values of a regression.

    In the first call `known` is None: the model remembers its features, and the likelihood has this
    prior (shape and rate of the Gamma of the noise precision) and tail (a key of `NOISE_TAILS`).
    """
    first = known is None
    X, y = validation.check_regression_data(model, given.X, given.y, reset=first)

    def likelihood(y: Array) -> Gaussian:
        return known or likelihoods.NOISE_TAILS[noise_tail](count_targets(y), *noise_prior)

    return _read(model, given, X, y, likelihood, first=first)


def read_labels(
    model: Any,
    given: Given,
    known: LabelLikelihood | None,
    *,
    stream: bool,
    classes: ArrayLike | None,
) -> TrainingData:
    """Check the samples and the labels of a classification.

    In the first call `known` is None: the model remembers its features, and in a `stream` it needs
    all `classes` there will be. Otherwise the classes are the distinct labels of `y`.
    """
    if given.y_std is not None:
        raise ValueError(
            "y_std is for regressors: classes have no measurement error. Leave it out."
        )
    first = known is None
    X, y = validation.check_labelled_data(model, given.X, given.y, reset=first)

    def likelihood(y: Array) -> LabelLikelihood:
        if known is None:
            return likelihoods.of_labels(y, classes if stream else y)
        likelihoods.check_same_classes(classes, known.classes)
        return known

    return _read(model, given, X, y, likelihood, first=first)


def read_inputs(model: Any, X: ArrayLike, X_std: ArrayLike | None) -> Inputs:
    """Check rows to predict, which have the features that the model was fitted on."""
    rows = validation.check_inputs(model, X)
    return Inputs(rows, validation.check_input_std(X_std, rows))
