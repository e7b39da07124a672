"""Training data as users pass them, checked once: rows, targets and the likelihood of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from probprop._types import Array
from probprop.estimators.validation import (
    check_input_std,
    check_inputs,
    check_labelled_data,
    check_regression_data,
)
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import (
    NOISE_TAILS,
    Gaussian,
    LabelLikelihood,
    Likelihood,
    check_same_classes,
    of_labels,
)
from probprop.inference.likelihoods.gaussian import count_targets


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows and targets that a network can be trained on.

    Parameters
    ----------
    X : Inputs of shape (n, n_features)
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    likelihood : Likelihood
    """

    X: Inputs
    y: Array
    likelihood: Likelihood


def read_values(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    X_std: ArrayLike | None,
    known: Gaussian | None,
    noise_prior: tuple[float, float],
    noise_tail: str = "gaussian",
) -> TrainingData:
    """Check the rows and the values of a regression.

    Parameters
    ----------
    model : estimator
        Remembers the features, if this is the first call.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,) or (n, K)
    X_std : array-like that broadcasts to the shape of X, or None
    known : Gaussian or None
        The likelihood of earlier calls; None in the first.
    noise_prior : (float, float)
        Shape and rate of the Gamma of the noise precision, for the first call.
    noise_tail : str
        A key of `NOISE_TAILS`, for the first call.
    """
    rows, targets = check_regression_data(model, X, y, reset=known is None)
    if known is None:
        known = NOISE_TAILS[noise_tail](count_targets(targets), *noise_prior)
    inputs = Inputs(rows, check_input_std(X_std, rows))
    return TrainingData(inputs, known.encode(targets), known)


def read_labels(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    X_std: ArrayLike | None,
    known: LabelLikelihood | None,
    *,
    stream: bool,
    classes: ArrayLike | None,
) -> TrainingData:
    """Check the rows and the labels of a classification.

    Parameters
    ----------
    model : estimator
        Remembers the features, if this is the first call.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,) or (n, n_labels)
    X_std : array-like that broadcasts to the shape of X, or None
    known : Probit, Multinomial or None
        The likelihood of earlier calls; None in the first.
    classes : array-like or None
        All classes there will be. The first call of a stream needs them.
    stream : bool
        Whether more rows may come; otherwise the classes are those of `y`.
    """
    rows, labels = check_labelled_data(model, X, y, reset=known is None)
    if known is None:
        known = of_labels(labels, classes if stream else labels)
    else:
        check_same_classes(classes, known.classes)
    inputs = Inputs(rows, check_input_std(X_std, rows))
    return TrainingData(inputs, known.encode(labels), known)


def read_inputs(model: Any, X: ArrayLike, X_std: ArrayLike | None) -> Inputs:
    """Check rows to predict, which have the features that the model was fitted on."""
    rows = check_inputs(model, X)
    return Inputs(rows, check_input_std(X_std, rows))
