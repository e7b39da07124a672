"""Small cross-validated estimators, and what the tests of their files share."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator

from probprop import Candidate, PBPClassifierCV, PBPRegressorCV

X = RandomState(0).standard_normal((150, 3)) * [1.0, 20.0, 0.1] + [0.0, 5.0, -3.0]
Y = 3.0 * X[:, 0] + np.exp(X[:, 0]) * RandomState(1).standard_normal(150)
PRICES = np.exp(2.0 + X[:, 0] + 0.2 * RandomState(2).standard_normal(150))
LABELS = np.array(["high", "low", "middle"])[np.digitize(X[:, 0], [-0.5, 0.5])]
ENCODED, RAW = Candidate(4, (4,)), Candidate(None, (3, 2), 10.0)
SQUARE_ROOT = Candidate(4, (4,), power=0.5)
NOT_STORED = {"background_", "oof_predictive_", "oof_rows_", "oof_members_"}


def small(**parameters: Any) -> PBPRegressorCV:
    usual = {"cv": 2, "candidates": [ENCODED, RAW], "budget": "fast", "random_state": 0}
    return PBPRegressorCV(**{**usual, **parameters})


def small_classifier(**parameters: Any) -> PBPClassifierCV:
    shared = small(**parameters).get_params()
    del shared["support"]
    return PBPClassifierCV(**shared)


def fit_small(kind: str, **parameters: Any) -> Any:
    """Return a fitted estimator of "values", of "prices", by a power, or of "labels"."""
    if kind == "values":
        return small(**parameters).fit(X, Y)
    if kind == "prices":
        return small(**{"candidates": [SQUARE_ROOT], **parameters}).fit(X, PRICES)
    return small_classifier(**parameters).fit(X, LABELS)


def answers(model: Any) -> np.ndarray:
    """Return all that a model predicts, as one array."""
    predicted = model.predict_distribution(np.concatenate([X, 9.0 * X]))
    names = (
        ("proba",) if hasattr(predicted, "proba") else ("mean", "epistemic_std", "aleatoric_std")
    )
    return np.array([getattr(predicted, name) for name in names])


def assert_equal(a: Any, b: Any, name: str = "") -> None:
    """Two trees of dataclasses, estimators, sequences and arrays are the same to the last bit."""
    assert type(a) is type(b), name
    if isinstance(a, BaseEstimator):
        assert vars(a).keys() - NOT_STORED == vars(b).keys() - NOT_STORED
        for key in vars(b).keys() - NOT_STORED:
            assert_equal(vars(a)[key], vars(b)[key], key)
    elif is_dataclass(a):
        for each in fields(a):
            assert_equal(getattr(a, each.name), getattr(b, each.name), each.name)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), name
        for one, other in zip(a, b, strict=True):
            assert_equal(one, other, name)
    elif isinstance(a, np.ndarray):
        assert_array_equal(a, b, name, strict=True)
    else:
        assert a == b or (a != a and b != b), name
