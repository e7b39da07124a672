"""Training data as users pass them, checked once: rows, targets and the likelihood of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.estimators.validation import (
    check_columns,
    check_input_std,
    check_inputs,
    check_labelled_data,
    check_regression_data,
    check_sample_weight,
    check_target_std,
)
from probprop.inference import training
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
from probprop.inference.plan import Plan
from probprop.inference.training import Fitted, Run


class Given(NamedTuple):
    """What `fit` and `partial_fit` are given, not yet checked; `PBPRegressor.fit` describes it."""

    X: ArrayLike
    y: ArrayLike
    sample_weight: ArrayLike | None = None
    X_std: ArrayLike | None = None
    y_std: ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows and targets that a network can be trained on.

    Indexing takes rows, as that of an array does.

    Parameters
    ----------
    X : Inputs of shape (n, n_features)
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    likelihood : Likelihood
    weights : ndarray of shape (n,), default=None
        Above 0; None: each is 1.
    y_std : ndarray of the shape of y, default=None
        Known errors of the targets, in their units; None: there are none.
    """

    X: Inputs
    y: Array
    likelihood: Likelihood
    weights: FloatArray | None = None
    y_std: FloatArray | None = None

    def __getitem__(self, rows: Array) -> TrainingData:
        weights, y_std = (None if a is None else a[rows] for a in (self.weights, self.y_std))
        return TrainingData(self.X[rows], self.y[rows], self.likelihood, weights, y_std)


def begin_from(
    plan: Plan,
    before: Fitted,
    data: TrainingData,
    random_state: RandomState | None = None,
    n_epochs: int | None = None,
) -> Run:
    """Return the training that goes on from a state with these data; see `training.begin`."""
    return training.begin(
        plan,
        before,
        data.X,
        data.y,
        random_state,
        n_epochs=n_epochs,
        weights=data.weights,
        y_std=data.y_std,
    )


class _Rows(NamedTuple):
    """Rows that count, checked."""

    X: Inputs
    y: Array
    weights: FloatArray | None
    y_std: FloatArray | None


def _rows_that_count(given: Given, X: Array, y: Array, *, first: bool) -> _Rows:
    """Check what belongs to the rows; leave those of weight 0 out, as if they were not there."""
    X_std, y_std = check_input_std(given.X_std, X), check_target_std(given.y_std, y)
    weights = check_sample_weight(given.sample_weight, X)
    if weights is None or weights.all():
        return _Rows(Inputs(X, X_std), y, weights, y_std)
    counts = np.flatnonzero(weights)
    if first:
        check_columns(X[counts])
    inputs = Inputs(X, X_std)[counts]
    return _Rows(inputs, y[counts], weights[counts], None if y_std is None else y_std[counts])


def read_values(
    model: Any,
    given: Given,
    known: Gaussian | None,
    noise_prior: tuple[float, float],
    noise_tail: str = "gaussian",
) -> TrainingData:
    """Check the rows and the values of a regression.

    Parameters
    ----------
    model : estimator
        Remembers the features, if this is the first call.
    given : Given
    known : Gaussian or None
        The likelihood of earlier calls; None in the first.
    noise_prior : (float, float)
        Shape and rate of the Gamma of the noise precision, for the first call.
    noise_tail : str
        A key of `NOISE_TAILS`, for the first call.
    """
    first = known is None
    checked = check_regression_data(model, given.X, given.y, reset=first)
    rows = _rows_that_count(given, *checked, first=first)
    if known is None:
        known = NOISE_TAILS[noise_tail](count_targets(rows.y), *noise_prior)
    return TrainingData(rows.X, known.encode(rows.y), known, rows.weights, rows.y_std)


def read_labels(
    model: Any,
    given: Given,
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
    given : Given
    known : Probit, Multinomial or None
        The likelihood of earlier calls; None in the first.
    classes : array-like or None
        All classes there will be. The first call of a stream needs them.
    stream : bool
        Whether more rows may come; otherwise the classes are those of `y`.
    """
    if given.y_std is not None:
        raise ValueError(
            "y_std is for regressors: classes have no measurement error. Leave it out."
        )
    first = known is None
    checked = check_labelled_data(model, given.X, given.y, reset=first)
    rows = _rows_that_count(given, *checked, first=first)
    if known is None:
        known = of_labels(rows.y, classes if stream else rows.y)
    else:
        check_same_classes(classes, known.classes)
    return TrainingData(rows.X, known.encode(rows.y), known, rows.weights)


def read_inputs(model: Any, X: ArrayLike, X_std: ArrayLike | None) -> Inputs:
    """Check rows to predict, which have the features that the model was fitted on."""
    rows = check_inputs(model, X)
    return Inputs(rows, check_input_std(X_std, rows))
