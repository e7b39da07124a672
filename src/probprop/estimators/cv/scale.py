"""Targets on another scale: which one, and whether it is clearly better.

Prices, times and the like have errors that grow with their size. A power of such targets, or
their logarithm, has errors that do not, and predictions of it never are below 0. Which power that
is can be read off the residuals of the rows held out, without training anything: with means m,

    sum of log N(g(y) - g(m) | 0, s^2) + log g'(y),    s^2 the mean of (g(y) - g(m))^2.

The networks of the best candidate are then trained once more on that scale. They are taken where
they are better by two standard errors on the rows held out, with a noise network on either side:
it too learns that errors grow, and without it the gain looks larger than it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from probprop._types import Array, FloatArray
from probprop.distributions.power import BoxCox, box_cox_of
from probprop.estimators.cv.candidates import Candidate
from probprop.estimators.cv.judge import Calibrated, standard_error, weighted_mean
from probprop.estimators.cv.out_of_fold import OutOfFold
from probprop.estimators.cv.race import Race
from probprop.estimators.cv.runners import CandidateCurve, CVChoice

_POWERS = np.arange(21) / 20.0  # linspace would have 0.6000000000000001
_N_ERRORS = 2.0  # standard errors of a gain that is clear
MIN_ROWS = 100
"""With fewer no power is tried: a line that is hardly known, as an exponential, goes anywhere."""


def power_of_residuals(y: Array, oof: OutOfFold) -> float | None:
    """Return the power of the targets whose errors are most likely to be of one size.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets that were held out.
    oof : OutOfFold
        Predictions of them; they count as the smallest of the targets where they are below it.

    Returns
    -------
    float or None
        None where targets are not all above 0, or all equal, or no power is clearly better than
        none.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.RandomState(0)
    >>> m, e, std = rng.uniform(1.0, 50.0, 300), 0.1 * rng.standard_normal(300), np.ones(300)
    >>> oof = OutOfFold(m, e, std, std, unit=1.0)
    >>> power_of_residuals(m * np.exp(e), oof), power_of_residuals(m + e, oof)
    (0.05, None)
    """
    if len(y) < MIN_ROWS or not (y > 0.0).all() or y.min() == y.max():
        return None
    mean, weights = np.maximum(oof.mean, y.min()), oof.weights
    with np.errstate(divide="ignore", invalid="ignore"):  # without errors there is no scale
        log_p = [_log_p(box_cox_of(y, power), y, mean, weights) for power in _POWERS]
        best = int(np.argmax([weighted_mean(each, weights) for each in log_p]))
        return float(_POWERS[best]) if is_clear(log_p[best] - log_p[-1], weights) else None


def _log_p(g: BoxCox, y: Array, mean: FloatArray, weights: FloatArray | None) -> FloatArray:
    square = (g.forward(y) - g.forward(mean)) ** 2
    variance = weighted_mean(square, weights)
    log_p: FloatArray = -0.5 * (np.log(variance) + square / variance) + g.log_jacobian(y)
    return log_p


def is_clear(gain: FloatArray, weights: FloatArray | None) -> bool:
    """Return whether the mean gain of rows is above two of its standard errors."""
    return weighted_mean(gain, weights) > _N_ERRORS * standard_error(gain, weights)


class Attempt(NamedTuple):
    """A race, and what calibration made of its winner."""

    race: Race
    calibrated: Calibrated


def with_a_power(
    first: Attempt, power: float, y: Array, attempt: Callable[[Candidate], Attempt]
) -> Attempt:
    """Train the winner again to predict a power of the targets; return the better of both.

    The choice of either has the curve of the second, with what came of it.

    Parameters
    ----------
    first : Attempt
        With targets as they are.
    power : float
    y : ndarray of shape (n,)
        The targets held out.
    attempt : callable
        Trains a candidate.
    """
    candidate = replace(first.race.choice.candidate, power=power)
    try:
        second = attempt(candidate)
    except KeyboardInterrupt:
        kept = _beside(first, CandidateCurve(candidate, outcome="interrupted"))
        return Attempt(replace(kept.race, interrupted=True), kept.calibrated)
    except FloatingPointError:
        return _beside(first, CandidateCurve(candidate, outcome="predictions were not finite"))
    curve, interrupted = second.race.choice.curves[0], second.race.interrupted
    if len(second.race.partitions[0]) < len(first.race.partitions[0]):  # some rows are not held out
        kept = _beside(first, replace(curve, outcome="interrupted"))
        return Attempt(replace(kept.race, interrupted=interrupted), kept.calibrated)
    log_p, log_p_first = (each.calibrated.predictive.logpdf(y) for each in (second, first))
    if is_clear(log_p - log_p_first, first.race.checks[0].oof.weights):
        curves = (*first.race.choice.curves, curve)
        choice = CVChoice(curves, len(curves) - 1, second.race.choice.n_epochs)
        return Attempt(replace(second.race, choice=choice), second.calibrated)
    kept = _beside(first, replace(curve, outcome="no clear gain from the power"))
    return Attempt(replace(kept.race, interrupted=interrupted), kept.calibrated)


def _beside(first: Attempt, curve: CandidateCurve) -> Attempt:
    """Return an attempt with one more curve."""
    choice = first.race.choice
    choice = replace(choice, curves=(*choice.curves, curve))
    return Attempt(replace(first.race, choice=choice), first.calibrated)
