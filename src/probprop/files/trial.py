"""A trial of what was rebuilt: numbers of a file may fit together and still be of no use.

A weight of 1e200 is a finite number, and so is a noise of 5e-324, but no prediction follows from
them. Whether one does is a question to the arithmetic, so it is asked: once, of three rows.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from probprop._types import Array, FloatArray
from probprop.estimators.kind import first_network, members
from probprop.inference.engine import ENGINES

_FURTHEST = 1e13  # the standardiser has no scale below 1e-12 of the size of a column


def check_scales(name: str, mean: FloatArray, scale: FloatArray) -> None:
    """Refuse means so far from 0, in units of their scales, that no data could have them."""
    if not (np.abs(mean) <= _FURTHEST * scale).all():
        raise ValueError(f"the mean and the scale of {name} are none that data have")


def check_answers(model: Any) -> None:
    """Refuse an estimator that predicts nothing finite, or whose training could not go on."""
    nameless = copy(model)  # its rows have no names, which would be warned of
    vars(nameless).pop("feature_names_in_", None)
    with np.errstate(all="ignore"):
        try:
            predicted = nameless.predict_distribution(_rows(model))
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            raise ValueError(f"it has numbers that no prediction follows from: {error}") from error
        if is_classifier(model):
            answers = [np.exp(predicted.log_proba)]
        else:
            std = np.sqrt(predicted.epistemic_std**2 + np.asarray(predicted.aleatoric_std) ** 2)
            answers = [predicted.mean, 1.0 / std]
        if not all(np.isfinite(answer).all() for answer in answers):
            raise ValueError("it has numbers that no prediction follows from")
        for network in members(model) or [model]:
            _check_refinement(network)


def _rows(model: Any) -> Array:
    """Return the mean of the features, and a standard deviation to either side, (n, n_features).

    If missing values are completed there are also two rows that miss every second feature.
    """
    state = getattr(model, "encoding_", None)
    standardizer = first_network(model).standardizer_
    mean = standardizer.x_mean if state is None else state.mean
    scale = standardizer.x_scale if state is None else state.scale
    rows = mean + np.array([[0.0], [1.0], [-1.0]]) * np.where(np.isfinite(scale), scale, 0.0)
    finite: Array = np.where(np.isfinite(rows), rows, mean)
    if getattr(model, "joint_", None) is None:
        return finite
    every_second = np.arange(len(mean)) % 2 == 0
    return np.vstack(
        [finite, *(np.where(gone, np.nan, mean) for gone in (every_second, ~every_second))]
    )


def _check_refinement(network: Any) -> None:
    """Refuse a prior whose next refinement, which `partial_fit` makes, leaves no weights."""
    refined, _ = ENGINES["native"].refine_prior(network.posterior_)
    layers = [*refined.m_w, *refined.v_w, np.array([refined.prior_variance])]
    positive = all((layer > 0.0).all() for layer in refined.v_w)
    if not positive or not all(np.isfinite(layer).all() for layer in layers):
        raise ValueError("it has a prior that no training can go on with")
