"""The methods that `probprop compare` can run: ours, scikit-learn's, and other packages' methods.

A regressor has ``fit(X, y)`` and, to predict, either ``predict_distribution(X)`` or scikit-learn's
``predict(X, return_std=True)``, with standard deviations that include the noise. A classifier has
``predict_proba(X)``. Other packages add methods by the entry point group ``probprop.methods``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.regressor import PBPRegressor
from probprop.table.target import Task

LARGEST_SEED = 2**31 - 1
"""Upper bound of the seeds that a method draws for its parts."""

_GP_ROWS = 2000.0  # time grows with their cube, memory with their square


@dataclass(frozen=True)
class Method:
    """A way to make an estimator."""

    name: str
    make: Callable[[Any], Any]  # from a job, which has a `seed`, to an estimator
    cost: float = 1.0  # rough duration of a fit relative to PBP, for a progress bar
    max_rows: float = field(default=math.inf, kw_only=True)  # for which a fit is feasible


Methods = Mapping[str, Method]
"""Methods by name, in the order in which tables show them."""


class ConstantNoise(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor with the root mean squared error of a 5-fold cross-validation as its std.

    A clone of `estimator` is fitted on all samples.
    """

    def __init__(self, estimator: Any, random_state: Any = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> Self:
        """Fit to X, (n, d), and y, (n,)."""
        random = check_random_state(self.random_state)
        model, seed = clone(self.estimator), random.randint(LARGEST_SEED)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        folds = KFold(5, shuffle=True, random_state=random.randint(LARGEST_SEED))
        errors = y - cross_val_predict(clone(model), X, y, cv=folds)
        self.noise_variance_ = float(np.mean(errors**2))
        self.model_ = model.fit(X, y)
        return self

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Return the means, (n,), and with `return_std` the standard deviations, (n,)."""
        mean = self.model_.predict(X)
        return (mean, np.full(len(mean), np.sqrt(self.noise_variance_))) if return_std else mean


def gaussian_process(length_scale: float | FloatArray, random_state: Any) -> Pipeline:
    """Return a Gaussian process on standardized features: RBF kernel and white noise.

    Its parameters are at the maximum of the marginal likelihood that one ascent finds.
    """
    kernel = ConstantKernel(1.0) * RBF(length_scale) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=random_state)
    return make_pipeline(StandardScaler(), process)


def _gp_classifier(job: Any) -> Pipeline:
    # The default is the same kernel with its parameters fixed at 1, whatever the data.
    kernel = ConstantKernel(1.0) * RBF(1.0)
    return make_pipeline(StandardScaler(), GaussianProcessClassifier(kernel, random_state=job.seed))


def _named(*methods: Method) -> dict[str, Method]:
    return {method.name: method for method in methods}


KNOWN: dict[Task, dict[str, Method]] = {
    "regression": _named(
        Method("PBP", lambda job: PBPRegressor(random_state=job.seed), 1.0),
        Method("PBPRegressorCV", lambda job: PBPRegressorCV(random_state=job.seed), 60.0),
        Method("BayesianRidge", lambda _: make_pipeline(StandardScaler(), BayesianRidge()), 0.2),
        Method("GP", lambda job: gaussian_process(1.0, job.seed), 30.0, max_rows=_GP_ROWS),
        Method(
            "HistGB", lambda job: ConstantNoise(HistGradientBoostingRegressor(), job.seed), 20.0
        ),
        Method("RandomForest", lambda job: ConstantNoise(RandomForestRegressor(), job.seed), 30.0),
    ),
    "classification": _named(
        Method("PBP", lambda job: PBPClassifier(random_state=job.seed), 1.0),
        Method("PBPClassifierCV", lambda job: PBPClassifierCV(random_state=job.seed), 200.0),
        Method(
            "LogisticRegression",
            lambda _: make_pipeline(StandardScaler(), LogisticRegression()),
            0.02,
        ),
        Method("GP", _gp_classifier, 200.0, max_rows=_GP_ROWS),
        Method("HistGB", lambda job: HistGradientBoostingClassifier(random_state=job.seed), 1.0),
        Method("RandomForest", lambda job: RandomForestClassifier(random_state=job.seed), 1.0),
    ),
}
"""Methods that need scikit-learn only. Hyperparameters are the libraries' own."""


def methods_for(task: Task) -> dict[str, Method]:
    """Return all methods for a task: `KNOWN`, then methods that other packages add.

    An entry point of the group ``probprop.methods`` is a function from a `Task` to `Methods`.
    """
    found = dict(KNOWN[task])
    for entry_point in entry_points(group="probprop.methods"):
        added: Methods = entry_point.load()(task)
        found |= {name: method for name, method in added.items() if name not in found}
    return found


def baseline_for(task: Task) -> Any:
    """Return the baseline without features: mean and standard deviation, or class shares."""
    return DummyClassifier() if task == "classification" else ConstantNoise(DummyRegressor(), 0)
