"""Boosted trees with a standard deviation per sample, with default parameters, on one thread.

LightGBM predicts means only: its noise is constant, the error of a cross-validation on the
training set. CatBoost and NGBoost can learn heteroscedastic noise. Each package is imported by the
first fit.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.cli.methods import LARGEST_SEED, ConstantNoise
from probprop_lab.baselines.with_std import Random, WithStd

ONE_THREAD = {"thread_count": 1, "logging_level": "Silent", "allow_writing_files": False}
"""Parameters of CatBoost that do not change the fitted model."""


def light_gbm(random_state: Random = None) -> ConstantNoise:
    """Return LightGBM with constant noise; it needs the package lightgbm."""
    from lightgbm import LGBMRegressor

    return ConstantNoise(LGBMRegressor(n_jobs=1, verbose=-1), random_state)


def cat_boost(random_state: Random = None) -> ConstantNoise:
    """Return CatBoost with constant noise; it needs the package catboost."""
    from catboost import CatBoostRegressor

    return ConstantNoise(CatBoostRegressor(**ONE_THREAD), random_state)


def cat_boost_classifier(random_state: int | None = None) -> Any:
    """Return CatBoost for classification, with its own probabilities; it needs catboost."""
    from catboost import CatBoostClassifier

    return CatBoostClassifier(random_state=random_state, **ONE_THREAD)


class CatBoostUncertainty(WithStd):
    """CatBoost with its own uncertainty: trees boosted for both mean and noise variance.

    Its loss function ``RMSEWithUncertainty`` is the negative Gaussian log-likelihood. All other
    parameters have their defaults; nothing is written to the disk. It needs the package catboost.

    Parameters
    ----------
    n_estimators : int, default=1000
    random_state : int, RandomState instance or None, default=None
    """

    def __init__(self, n_estimators: int = 1000, random_state: Random = None) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> Self:
        """Fit to X, (n, d), and y, (n,)."""
        from catboost import CatBoostRegressor

        model = CatBoostRegressor(
            loss_function="RMSEWithUncertainty",
            n_estimators=self.n_estimators,
            random_state=check_random_state(self.random_state).randint(LARGEST_SEED),
            **ONE_THREAD,
        )
        self.model_ = model.fit(X, y)
        return self

    def moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        """Return the means and standard deviations, (n,) each, in target units."""
        # (n, 2): the mean, and the variance.
        found = self.model_.predict(X, prediction_type="RMSEWithUncertainty", thread_count=1)
        return found[:, 0], np.sqrt(found[:, 1])


class NaturalBoosting(WithStd):
    """NGBoost (Duan and others, 2020): trees boosted for both mean and standard deviation.

    Its noise is heteroscedastic. It needs the package ngboost. All parameters have their defaults;
    the seed reaches the trees as well, which break ties at random.

    Parameters
    ----------
    n_estimators : int, default=500
    random_state : int, RandomState instance or None, default=None
    """

    def __init__(self, n_estimators: int = 500, random_state: Random = None) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> Self:
        """Fit to X, (n, d), and y, (n,)."""
        from ngboost import NGBRegressor
        from ngboost.learners import default_tree_learner

        model = NGBRegressor(
            Base=clone(default_tree_learner).set_params(random_state=self.random_state),
            n_estimators=self.n_estimators,
            random_state=self.random_state,
            verbose=False,
        )
        self.model_ = model.fit(X, y)
        return self

    def moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        """Return the means and standard deviations, (n,) each, in target units."""
        normal = self.model_.pred_dist(X).params
        return normal["loc"], normal["scale"]
