"""Bayesian optimization: what to measure next to find the largest, or the smallest, target.

An acquisition function scores rows X, (n, n_features), in target units; higher is better for either
goal. All three use the epistemic uncertainty without the noise of a measurement: with it, a point
measured a hundred times would still look as if it might improve.

With f(x) ~ N(mean, epistemic_std^2) under the posterior, and s = 1 to maximize, -1 to minimize:

    expected improvement      E[max(s (f - best), 0)]
    upper confidence bound    s mean + kappa epistemic_std
    Thompson                  s f, for one network f drawn from the posterior
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Literal

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.special import ndtr
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_scalar

from probprop._types import FloatArray
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_above, check_option

Regressor = PBPRegressor | PBPRegressorCV
Goal = Literal["maximize", "minimize"]
Acquisition = Callable[[ArrayLike], FloatArray]


def expected_improvement(model: Regressor, *, best: float, goal: Goal) -> Acquisition:
    """Score by the expected gain over the best value so far, which is 0 or more.

    It is exactly 0 where an improvement is more than 38 standard deviations away.

    `model` is a fitted PBPRegressor or PBPRegressorCV; each call of the acquisition uses it as it
    then is. `best` is the best value so far, in target units: without noise, ``y.max()`` or
    ``y.min()`` of the measured targets; with noise rather the best of ``model.predict(X)`` over
    their rows. `goal`, "maximize" or "minimize", says whether an improvement is above or below it.

    >>> import numpy as np
    >>> from probprop import PBPRegressor
    >>> from probprop.active import best_in_pool, expected_improvement
    >>> X = np.linspace(0.0, 10.0, 21).reshape(-1, 1)
    >>> y = (X[:, 0] - 3.8) ** 2
    >>> model = PBPRegressor(random_state=0).fit(X, y)
    >>> acquisition = expected_improvement(model, best=y.min(), goal="minimize")
    >>> pool = np.array([[0.25], [3.8], [6.2], [9.7]])
    >>> best_in_pool(acquisition, pool, random_state=0)
    1
    """
    check_above("best", best, -np.inf)

    sign = _sign(goal)

    def improvement(X: ArrayLike) -> FloatArray:
        at = model.predict_distribution(X)
        gain, std = sign * (at.mean - best), at.epistemic_std
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            t = np.where(gain == 0.0, 0.0, gain / std)  # also the limit of std = 0
            phi = np.exp(-0.5 * t * t) / np.sqrt(2.0 * np.pi)
            return np.asarray(gain * ndtr(t) + std * phi)

    return improvement


def upper_confidence_bound(model: Regressor, *, kappa: float = 2.0, goal: Goal) -> Acquisition:
    """Score by the optimistic end of an interval around the predicted function.

    The bound is `kappa` epistemic standard deviations, at least 0, from the mean; a larger kappa
    explores more. To minimize, the score is minus the lower bound. `model` and `goal` are as for
    `expected_improvement`.
    """
    check_scalar(kappa, "kappa", Real, min_val=0.0)

    sign = _sign(goal)

    def bound(X: ArrayLike) -> FloatArray:
        at = model.predict_distribution(X)
        return np.asarray(sign * at.mean + kappa * at.epistemic_std)

    return bound


def thompson(
    model: Regressor, *, goal: Goal, random_state: int | RandomState | None = None
) -> Acquisition:
    """Score by one function drawn from the posterior: a point is chosen as often as it is best.

    The acquisition is the same function at every call; to minimize, minus the function.
    `random_state` draws the network: draw another one for every point that is to be measured.
    """
    sign, f = _sign(goal), model.sample_functions(1, random_state)[0]
    return lambda X: np.asarray(sign * f(X))


def best_in_pool(
    acquisition: Acquisition, X: ArrayLike, *, random_state: int | RandomState | None = None
) -> int:
    """Return the index of the row of X, (n, n_features), with the highest score.

    `random_state` decides between rows of the same score.
    """
    scores = acquisition(X)
    return int(check_random_state(random_state).choice(np.flatnonzero(scores == scores.max())))


def _sign(goal: Goal) -> float:
    check_option("goal", goal, ["maximize", "minimize"])
    return 1.0 if goal == "maximize" else -1.0
