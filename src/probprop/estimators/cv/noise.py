"""Noise that depends on the inputs, learned from residuals of rows that were held out.

The noise variance of a row is a^2 kappa exp(h(x)). A small network gives h ~ N(m_h, v_h), and
learns it from the residuals r with the likelihood `probprop.inference.likelihoods.Scale`, which
knows the variance a^2 v of the mean:

    p(r) = integral of N(r | 0, a^2 v + a^2 kappa e^h) N(h | m_h, v_h) dh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.cv.clock import work_of_a_row
from probprop.estimators.cv.folds import Encodings, encoded
from probprop.estimators.cv.joint import Completed
from probprop.estimators.cv.out_of_fold import OutOfFold
from probprop.inference import training
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods.scale import Scale
from probprop.inference.noise import PASSES, LogScale, start_noise_network
from probprop.inference.plan import Plan
from probprop.inference.posterior import Posterior
from probprop.inference.prediction import predictive
from probprop.inference.standardize import Standardizer, with_usual_scales

N_BINS = 32
"""The noise network sees encoded rows, whatever the networks of the mean see."""
MIN_ROWS = 20
"""With fewer rows held out nothing is said about where the noise is larger."""

_HIDDEN = (20,)
_N_EPOCHS = 20  # in which it gets the evidence of `PASSES` passes
_OF_QUADRATURE = 2.2  # times the work of a pass over values, as measured
_N_PARTS = 5  # of the rows of a single fold, to judge the noise network
_N_SEEN = 5  # rows, of 400 or more, that must have a level of the noise for it to be seen


class Levels(NamedTuple):
    """Levels of the noise that were seen in training: bounds on the moments of h(x).

    Where features are combined as in no training sample, the network adds up what it has learned
    about each, and the noise could exceed any residual.

    Parameters
    ----------
    low, high : float
        The least and the largest mean of h.
    variance : float
        The largest variance of h.
    """

    low: float
    high: float
    variance: float

    def after(self, more: Levels) -> Levels:
        """Return the levels of these and of more rows."""
        low, high = min(self.low, more.low), max(self.high, more.high)
        return Levels(low, high, max(self.variance, more.variance))


def levels_of(h: LogScale) -> Levels:
    """Return the levels of rows; single ones do not count where there are hundreds.

    Examples
    --------
    >>> rows = LogScale(np.array([0.0, 3.0, 1.0]), np.array([0.1, 0.2, 0.3]))
    >>> levels_of(rows)
    Levels(low=0.0, high=3.0, variance=0.3)
    """
    within = h.bounded()
    k = min(_N_SEEN, 1 + len(within.mean) // 100)
    mean, variance = np.sort(within.mean), np.sort(within.variance)
    return Levels(float(mean[k - 1]), float(mean[-k]), float(variance[-k]))


@dataclass(frozen=True, eq=False)
class NoiseNetwork:
    """The network of h(x), the logarithm of the noise variance relative to its level.

    Parameters
    ----------
    encoding : PiecewiseLinear
        Of the rows it sees.
    posterior : Posterior
    standardizer : Standardizer
        Of encoded rows.
    levels : Levels
        Of the rows whose residuals it has learned from.
    """

    encoding: PiecewiseLinear
    posterior: Posterior
    standardizer: Standardizer
    levels: Levels

    def log_scale(self, X: Array) -> LogScale:
        """Return the distribution of h for every row of X, not encoded, within `levels`."""
        plan = _plan(self.posterior.dtype)
        rows = Inputs(encoded(X, self.encoding, plan.dtype))
        h: LogScale = predictive(plan, self.posterior, self.standardizer, rows)
        return h.bounded(*self.levels)

    def after(self, seen: Completed, oof: OutOfFold, factor: float) -> NoiseNetwork:
        """Return the network after one pass over the residuals of more rows, not encoded.

        Their levels are seen too.
        """
        plan, rng = _plan(self.posterior.dtype), RandomState(0)
        encode = partial(encoded, state=self.encoding, dtype=plan.dtype)
        rows = seen.inputs(encode(seen.X), encode)
        y = Scale().encode(_targets(oof, factor))
        before = training.start(plan, rows, y, rng, self.standardizer)
        before = replace(before, posterior=self.posterior)
        (run,), interrupt = training.advance([training.begin(plan, before, rows, y, rng)], 1)
        if interrupt is not None:
            raise interrupt
        posterior = run.fitted.posterior
        levels = levels_of(predictive(plan, posterior, self.standardizer, Inputs(rows.X)))
        return replace(self, posterior=posterior, levels=self.levels.after(levels))


class Judged(NamedTuple):
    """A noise network, and what it is worth on rows that it had not seen.

    Parameters
    ----------
    network : NoiseNetwork
        Learned from all rows.
    held_out : LogScale
        h of every row, by networks that had not seen its fold, within the levels of `network`.
    gain : ndarray of shape (n,)
        Log density of each row minus that without a noise network.
    """

    network: NoiseNetwork
    held_out: LogScale
    gain: FloatArray


def learn_noise(
    rows: Inputs,
    encoding: PiecewiseLinear,
    oof: OutOfFold,
    factor: float,
    fold: Array,
    seed: int,
    n_threads: int,
    dtype: np.dtype[np.floating],
) -> Judged:
    """Learn the network from all rows, and judge it by networks that saw all folds but one.

    Parameters
    ----------
    rows : Inputs of shape (n, n_encoded)
        Encoded; as many as there are residuals.
    encoding : PiecewiseLinear
    oof : OutOfFold
        Residuals, and the variances of their means and of the noise, not calibrated.
    factor : float
        The factor a^2 of both.
    fold : ndarray of shape (n,)
        The fold of each row.
    seed : int
    n_threads : int
    dtype : numpy.dtype
        Of the weights.
    """
    likelihood = Scale()
    y = likelihood.encode(_targets(oof, factor))
    parts = _parts(fold)
    everything = np.arange(len(y))
    plan = _plan(dtype)
    learns = [everything, *(np.flatnonzero(parts != part) for part in np.unique(parts))]
    usual = encoding.spreads
    runs = [_begin(plan, rows[own], y[own], usual, RandomState(seed)) for own in learns]
    runs, interrupt = training.advance(runs, _N_EPOCHS, n_threads)
    if interrupt is not None:
        raise interrupt
    whole, *others = (run.fitted for run in runs)
    m_h, v_h = np.empty(len(y)), np.empty(len(y))
    for part, fitted in zip(np.unique(parts), others, strict=True):
        at = parts == part
        h = predictive(plan, fitted.posterior, fitted.standardizer, Inputs(rows.X[at]))
        m_h[at], v_h[at] = h.mean, h.variance
    levels = levels_of(predictive(plan, whole.posterior, whole.standardizer, Inputs(rows.X)))
    held_out = LogScale(m_h, v_h).bounded(*levels)
    constant = oof.residual_log_p(factor) + np.log(oof.unit)
    gain = likelihood.log_p(held_out, y) - constant
    network = NoiseNetwork(encoding, whole.posterior, whole.standardizer, levels)
    return Judged(network, held_out, gain)


def work_of_noise(encodings: Encodings, n_rows: int, n_folds: int) -> float:
    """Return what `learn_noise` takes of so many rows, in the units of `clock.work_of_a_row`."""
    n_bins = encodings.bins_that_fit(N_BINS)
    sizes = (encodings.state(n_bins).n_outputs, *_HIDDEN, 1)
    n_parts = n_folds if n_folds > 1 else _N_PARTS
    n_learned = n_parts * n_rows  # once all, and for each part all but that
    return _OF_QUADRATURE * _N_EPOCHS * n_learned * work_of_a_row(sizes)


def _targets(oof: OutOfFold, factor: float) -> FloatArray:
    """Return residuals, variances of their means and noise levels, in units of the target."""
    stds = (oof.epistemic_std / oof.unit, oof.aleatoric_std / oof.unit)
    return np.stack([oof.residual / oof.unit, *(factor * std**2 for std in stds)], axis=1)


def _parts(fold: Array) -> Array:
    """Return the folds; of a single one, parts of it."""
    return fold if len(np.unique(fold)) > 1 else np.arange(len(fold)) % _N_PARTS


def _plan(dtype: np.dtype[np.floating]) -> Plan:
    # If its prior were refined, the prior variance of a noise network would diverge.
    return Plan(Scale(), hidden=_HIDDEN, refine=False, marginalize=True, dtype=dtype)


def _begin(
    plan: Plan, X: Inputs, y: FloatArray, usual: FloatArray, rng: RandomState
) -> training.Run:
    before = training.start(plan, X, y, rng)
    network = start_noise_network(X.shape[1], plan.hidden, 1, rng, plan.dtype)
    scales = with_usual_scales(before.standardizer, usual)
    before = replace(before, posterior=network, standardizer=scales)
    return training.begin(plan, before, X, y, rng, n_epochs=_N_EPOCHS, power=PASSES / _N_EPOCHS)
