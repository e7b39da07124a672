"""The best point of a box: L-BFGS-B climbs an acquisition function from many starts."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from sklearn.utils import check_array, check_random_state

from probprop._types import FloatArray
from probprop.active.acquisition import Acquisition
from probprop.estimators.validation import check_int

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

    Notes
    -----
    Nothing keeps x away from points measured before: the network need not pass through them, and
    with few points it may name the same spot again and again. With noise a second measurement
    there is worth something. Without, draw a pool of random points in the box, and choose with
    `best_in_pool` among those not measured yet.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressor
    >>> from probprop.active import best_in_box, expected_improvement
    >>> X = np.linspace(0.0, 10.0, 21).reshape(-1, 1)
    >>> y = (X[:, 0] - 3.8) ** 2
    >>> model = PBPRegressor(random_state=0).fit(X, y)
    >>> acquisition = expected_improvement(model, best=y.min(), goal="minimize")
    >>> x, score = best_in_box(acquisition, [(0.0, 10.0)], random_state=0)
    >>> bool(3.0 < x[0] < 4.0)
    True
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
