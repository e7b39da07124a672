"""Bayesian optimisation: what to measure next to find the largest, or the smallest, target.

An acquisition function scores a point x; higher is better for either goal. All three use the
uncertainty of the function, `epistemic_std`, without that of a noisy measurement: noise is no gain,
and with it a point measured a hundred times would still look as if it might improve.

With f(x) ~ N(mean, epistemic_std^2) under the posterior, and s = 1 to maximise, -1 to minimise:

    expected improvement      E[max(s (f - best), 0)]
    upper confidence bound    s mean + kappa epistemic_std
    Thompson                  s f, for one network f drawn from the posterior
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Literal, Protocol

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import ndtr
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_scalar

from probprop._types import FloatArray
from probprop.distributions.functions import SampledNetwork
from probprop.estimators.cv.regressor import PBPRegressorCV, SampledFunction
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_above, check_int, check_option

Regressor = PBPRegressor | PBPRegressorCV
Goal = Literal["maximize", "minimize"]

# A score as a function of s mean, (n,), and epistemic_std, (n,), with the derivatives by both.
Formula = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray, FloatArray]]


class Acquisition(Protocol):
    """A score of every row of X, in target units, the higher the better."""

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the scores, shape (n,)."""

    def gradient(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the scores, (n,), and their gradients, (n, n_features)."""


def expected_improvement(model: Regressor, *, best: float, goal: Goal) -> Acquisition:
    """Score by the expected gain over the best value so far, which is 0 or more.

    It is exactly 0 where an improvement is more than 38 standard deviations away.

    Parameters
    ----------
    model : PBPRegressor or PBPRegressorCV
        A fitted model; each call of the acquisition uses it as it then is.
    best : float
        The best value so far, in target units: without noise, ``y.max()`` or ``y.min()`` of the
        measured targets; with noise rather the best of ``model.predict(X)`` over their rows.
    goal : {"maximize", "minimize"}
        Whether an improvement is above or below `best`.

    Examples
    --------
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

    def improvement(mean: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        gain = mean - _sign(goal) * best
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            t = np.where(gain == 0.0, 0.0, gain / std)  # also the limit of std = 0
            Phi, phi = ndtr(t), np.exp(-0.5 * t * t) / np.sqrt(2.0 * np.pi)
        return gain * Phi + std * phi, Phi, phi

    return _OfMoments(model, _sign(goal), improvement)


def upper_confidence_bound(model: Regressor, *, kappa: float = 2.0, goal: Goal) -> Acquisition:
    """Score by the optimistic end of an interval around the predicted function.

    Parameters
    ----------
    model : PBPRegressor or PBPRegressorCV
        A fitted model; each call of the acquisition uses it as it then is.
    kappa : float, default=2.0
        Standard deviations of the function between the mean and the bound, at least 0. A larger
        kappa explores more.
    goal : {"maximize", "minimize"}
        To minimize, the score is minus the lower bound.
    """
    check_scalar(kappa, "kappa", Real, min_val=0.0)

    def bound(mean: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return mean + kappa * std, np.ones_like(mean), np.full_like(std, kappa)

    return _OfMoments(model, _sign(goal), bound)


def thompson(
    model: Regressor, *, goal: Goal, random_state: int | RandomState | None = None
) -> Acquisition:
    """Score by one function drawn from the posterior: a point is chosen as often as it is best.

    The acquisition is the same function at every call.

    Parameters
    ----------
    model : PBPRegressor or PBPRegressorCV
        A fitted model.
    goal : {"maximize", "minimize"}
        To minimize, the score is minus the function.
    random_state : int, RandomState instance or None, default=None
        Draws the network. Draw another one for every point that is to be measured.
    """
    sign = _sign(goal)
    return _OfFunction(model.sample_functions(1, random_state)[0], sign)


def best_in_pool(
    acquisition: Acquisition, X: ArrayLike, *, random_state: int | RandomState | None = None
) -> int:
    """Return the index of the candidate with the highest score.

    Parameters
    ----------
    acquisition : Acquisition
    X : array-like of shape (n, n_features)
        The candidates.
    random_state : int, RandomState instance or None, default=None
        Decides between candidates of the same score.
    """
    scores = acquisition(X)
    return int(check_random_state(random_state).choice(np.flatnonzero(scores == scores.max())))


# ---- The two kinds: a formula in the predictive moments, and a sampled function.


@dataclass(frozen=True, eq=False)
class _OfMoments:
    model: Regressor
    sign: float
    formula: Formula

    def __call__(self, X: ArrayLike) -> FloatArray:
        at = self.model.predict_distribution(X)
        return self.formula(self.sign * at.mean, at.epistemic_std)[0]

    def gradient(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        at = self.model.predict_gradient(X)
        scores, by_mean, by_std = self.formula(self.sign * at.mean, at.epistemic_std)
        of_mean = self.sign * by_mean[:, np.newaxis] * at.dmean_dX
        return scores, of_mean + by_std[:, np.newaxis] * at.depistemic_std_dX


@dataclass(frozen=True, eq=False)
class _OfFunction:
    f: SampledNetwork | SampledFunction
    sign: float

    def __call__(self, X: ArrayLike) -> FloatArray:
        return self.sign * self.f(X)

    def gradient(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        f, df_dX = self.f.gradient(X)
        return self.sign * f, self.sign * df_dX


def _sign(goal: Goal) -> float:
    check_option("goal", goal, ["maximize", "minimize"])
    return 1.0 if goal == "maximize" else -1.0


# ---- The best point of a box: L-BFGS-B climbs an acquisition function from many starts


_TRIES = 100  # random points per start, which is the best of them


def best_in_box(
    acquisition: Acquisition,
    bounds: ArrayLike,
    *,
    n_starts: int = 10,
    random_state: int | RandomState | None = None,
) -> tuple[FloatArray, float]:
    """Return the point of a box with the highest score that the search found.

    L-BFGS-B climbs from `n_starts` points, each the best of a hundred random ones, to local maxima
    within the bounds. The search is the same in any units of the target and of the features.
    Nothing keeps the point away from those measured before: without noise, draw a pool of random
    points in the box instead, and choose with `best_in_pool` among those not measured yet.

    Parameters
    ----------
    acquisition : Acquisition
        What `expected_improvement`, `upper_confidence_bound` or `thompson` return.
    bounds : array-like of shape (n_features, 2)
        Lowest and highest value of each feature, in the order of the columns the model was
        fitted on. A feature stays fixed where the two are equal.
    n_starts : int, default=10
    random_state : int, RandomState instance or None, default=None
        Draws the random points.

    Returns
    -------
    x : ndarray of shape (n_features,)
    score : float
        The acquisition at x, in target units.
    """
    lower, upper = _check_bounds(bounds)
    check_int("n_starts", n_starts, 1)
    rng = check_random_state(random_state)

    def in_box(u: FloatArray) -> FloatArray:
        """Take points of the unit cube, (n, n_features), to the box."""
        return np.minimum(lower + u * (upper - lower), upper)

    with warnings.catch_warnings():
        # `bounds` has the columns in the order of the frame that the model was fitted on.
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        tries = rng.uniform(size=(n_starts, _TRIES, len(lower)))
        scores = acquisition(in_box(tries.reshape(-1, len(lower)))).reshape(n_starts, _TRIES)
        starts = tries[np.arange(n_starts), scores.argmax(axis=1)]
        # Scores in units of their spread over the box suit the tolerances of the search.
        top, spread = scores.max(), np.ptp(scores)
        if spread == 0.0:  # nothing to climb
            return in_box(starts)[0], float(top)

        def descent(u: FloatArray) -> tuple[float, FloatArray]:
            score, gradient = acquisition.gradient(in_box(u[np.newaxis]))
            return (top - score[0]) / spread, -gradient[0] * (upper - lower) / spread

        found = [
            minimize(descent, u, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(lower))
            for u in starts
        ]
        x = in_box(min(found, key=lambda result: float(result.fun)).x)
        return x, float(acquisition(x[np.newaxis])[0])


def _check_bounds(bounds: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the lower and the upper bounds, (n_features,) each."""
    pairs = check_array(bounds, dtype=np.float64, input_name="bounds")
    if pairs.shape[1] != 2:
        raise ValueError(
            "bounds must have shape (n_features, 2): lowest and highest value of each feature. "
            f"Got shape {pairs.shape} instead."
        )
    lower, upper = pairs.T
    if (lower > upper).any():
        j = int(np.argmax(lower > upper))
        raise ValueError(
            f"The lowest value of a feature must not be above its highest. Got {lower[j]} and "
            f"{upper[j]} for feature {j} in bounds."
        )
    return lower, upper
