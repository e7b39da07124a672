"""From out-of-fold predictions to calibrated ones: a variance scaling factor, or a temperature.

Regression. Trained to convergence, networks are over-confident. With r the residual of an out-of-
fold sample, v and kappa the variances of model and noise there,

    a^2 = (weighted) mean of r^2 / (v + kappa)

is the factor under which N(r | 0, a^2 (v + kappa)) is most likely. If every sample is predicted out
of fold by one network of each of several stacked trials, with weights w, r the residual of the
weighted mean of their predictions, d the variance between these and k = 1 / sum of w^2 their
effective number, then in units of v + kappa

    E r^2 = s + d / k,    of M networks    s + d / M,

with s what networks have in common. The mixture of M has the variance (1 - 1/M) d between its
members, so that this much less is left for each of them.

Heteroscedastic noise. The noise variance of a sample is a^2 kappa exp(h(x)). A small network
predicts h ~ N(m_h, v_h), trained on the residuals with the likelihood `Scale`:

    p(r) = integral of N(r | 0, a^2 v + a^2 kappa e^h) N(h | m_h, v_h) dh.

The shape of the distribution, beyond its mean and variance, is learned from the same samples, and
the support of the target enforced: `probprop.distributions.recalibrated`.

With d_j the distance of feature j from the range of the training samples, in standard deviations of
the feature, the model has the additional variance slope^2 sum_j d_j^2.

Classification. The temperature T multiplies the variances of outputs f ~ N(m, v) and of their unit
noise, as a^2 does: for two classes p = Phi(m / sqrt(T (1 + v))). In the tails log p is divided by
T, hence the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.distributions.base import Moments, root_mean_square, short_repr
from probprop.distributions.classes import ClassMixture
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture, box_cox_of
from probprop.distributions.recalibrated import Recalibrated, Recalibration, recalibrated
from probprop.encoding.missing import Completed
from probprop.encoding.piecewise import PiecewiseLinear, encoded, feature_ends
from probprop.estimators.cv import policy
from probprop.estimators.cv.folds import Encodings, HeldOut
from probprop.estimators.cv.policy import Candidate, Noise
from probprop.inference import training
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian, LabelLikelihood, Scale
from probprop.inference.noise import PASSES, LogScale, start_noise_network
from probprop.inference.plan import Plan
from probprop.inference.posterior import Posterior
from probprop.inference.prediction import predictive
from probprop.inference.standardize import Standardizer, fit_standardizer, identity_standardizer
from probprop.inference.training import Fitted

_SLOPE = 0.3  # standard deviations of the target, for one of a feature; 1/sqrt(D) explains it all
# On the data of `benchmarks.guide.far_values`, 0.2 makes far samples too certain (log-likelihood of
# recording errors −12.2, with 0.3 −9.1); just beyond the range 0.4 costs more (0.62 against 0.72).

# The noise network.
_N_BINS = 16  # its inputs are encoded rows, whatever the inputs of the other networks
_HIDDEN = (20,)
_N_EPOCHS = 20  # in which it gets the evidence of `PASSES` passes
_N_PARTS = 5  # of the rows of a single fold, to evaluate the noise network
_N_SEEN = 5  # of 400 rows or more, the bounds are the fifth smallest and largest levels

# Known errors of targets.
_N_EM = 1_000  # steps of expectation maximization, at most
_SETTLED = 1e-6  # relative change of the factor in its last step

# The temperature.
_WIDTH = 0.5  # of log T before any row: labels that are all right would let T go to 0
_STEP = 0.05  # of log T, in the differences for the curvature
_REACH = 3.0  # farthest change of log T
_TOLERANCE = 0.002  # of log T
_MOST_TERMS = 250_000  # rows times squared outputs, which bounds the rows of a look
_FEWEST_ROWS = 1_000  # half a nat in all is the cost of a parameter that is learned from rows

Weights = FloatArray | None  # how much each row counts, (n,); None: all the same


class FoldOutputs(NamedTuple):
    """Out-of-fold outputs of the network of a fold."""

    fitted: Fitted
    mean: FloatArray  # of its outputs, (n,) or (n, K), standardized
    variance: FloatArray


class Calibrated(NamedTuple):
    """A calibration and the calibrated out-of-fold predictions."""

    calibration: Any  # Calibration or ClassCalibration
    predictive: Any  # of the out-of-fold samples
    further: tuple[Calibration, ...] = ()  # of the second of several targets and of later ones


def weighted_mean(values: FloatArray, weights: Weights) -> float:
    """Return the mean over rows."""
    return float(np.mean(values) if weights is None else np.average(values, weights=weights))


def standard_error(values: FloatArray, weights: Weights = None) -> float:
    """Return the standard error of the mean over rows."""
    share = np.full(len(values), 1.0 / len(values)) if weights is None else weights / weights.sum()
    return float(np.sqrt(np.sum((share * (values - np.sum(share * values))) ** 2)))


# ---- Regression


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Out-of-fold predictions, (n,) each, in units of the target as the networks predict it."""

    mean: FloatArray
    residual: FloatArray  # target minus mean
    epistemic_std: FloatArray  # of the network output, not calibrated
    aleatoric_std: FloatArray  # of the noise, not calibrated
    unit: float  # standard deviation of the targets, in whose square no variance overflows
    weights: Weights = None
    between: FloatArray | None = None  # std between the predictions that were pooled; None: one
    n_pooled: float = 1.0  # effective number of predictions of each row
    log_jacobian: FloatArray | None = None  # log derivative of what is predicted by the target
    y_std: FloatArray | None = None  # known errors of the targets; None: there are none

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the target, not calibrated."""
        std: FloatArray = np.hypot(self.epistemic_std, self.aleatoric_std)
        return std

    @property
    def factor(self) -> float:
        """The factor a^2 of all variances; 1 if every residual is 0."""
        return self._error() or 1.0

    def _error(self, factor: float | None = None) -> float:
        """Return the mean square of the residuals in units of the variances.

        Known errors e are removed by expectation maximization: given its residual, the expected
        square of a sample without its error is (b r)^2 + b e^2 with b = a^2 s^2 / (a^2 s^2 + e^2).
        This is one step from a^2 = `factor`, or, if it is None, the a^2 of largest likelihood.
        """
        if self.y_std is None:
            return self._mean_square(self.residual)
        z, e = self.residual / self.std, self.y_std / self.std
        after = 1.0 if factor is None else factor
        for _ in range(_N_EM if factor is None else 1):
            before, b = after, after / (after + e**2)
            after = weighted_mean((b * z) ** 2 + b * e**2, self.weights)
            if abs(after - before) <= _SETTLED * before:
                break
        return after

    def _mean_square(self, r: FloatArray) -> float:
        return weighted_mean((r / self.std) ** 2, self.weights)

    def squares(self, n_folds: int, factor: float | None = None) -> Squares:
        """Return the mean squares that calibrate the networks of that many folds."""
        between = 0.0 if self.between is None else self._mean_square(self.between)
        n_rows = float(len(self.mean) if self.weights is None else self.weights.sum())
        error, n_members = self._error(factor), n_folds * self.n_pooled
        return Squares(error, between, n_rows, self.n_pooled, n_members)

    def of_ensemble(self, squares: Squares) -> OutOfFold:
        """Return the rows with residuals as large as the whole ensemble has."""
        if not squares.error:
            return self
        a = np.sqrt(squares.total / squares.error)
        y_std = None if self.y_std is None else self.y_std * a
        return replace(self, residual=self.residual * a, y_std=y_std)

    def log_p(self, factor: float = 1.0) -> FloatArray:
        """Return log N(residual | 0, factor (v + kappa) + e^2) of every row, in target units."""
        std = self.std
        if self.y_std is not None:
            std, factor = np.hypot(np.sqrt(factor) * std, self.y_std), 1.0
        z = self.residual / std
        log_p: FloatArray = -0.5 * (np.log(2.0 * np.pi * factor) + z**2 / factor) - np.log(std)
        return log_p if self.log_jacobian is None else log_p + self.log_jacobian

    def with_noise(self, factor: FloatArray) -> OutOfFold:
        """Return the rows with standard deviations of the noise multiplied by factors, (n,)."""
        return replace(self, aleatoric_std=self.aleatoric_std * factor)

    def targets(self, g: BoxCox | None) -> FloatArray:
        """Return the targets, in target units; g is what they were transformed by."""
        y = self.mean + self.residual
        return y if g is None else g.inverse(y)


@dataclass(frozen=True, eq=False)
class SeveralOutOfFold:
    """Out-of-fold predictions of several targets, each with its own factor."""

    each: tuple[OutOfFold, ...]

    @property
    def weights(self) -> Weights:
        """Weights of the rows."""
        return self.each[0].weights

    @property
    def factor(self) -> FloatArray:
        """The factor of each target, (K,)."""
        return np.array([own.factor for own in self.each])

    def log_p(self, factor: FloatArray) -> FloatArray:
        """Return the log density of every row: the sum over its targets."""
        pairs = zip(self.each, factor.tolist(), strict=True)
        total: FloatArray = np.sum([own.log_p(a2) for own, a2 in pairs], axis=0)
        return total

    def with_noise(self, factor: FloatArray) -> SeveralOutOfFold:
        """Return the rows with standard deviations of the noise multiplied by factors, (n, K)."""
        pairs = zip(self.each, factor.T, strict=True)
        return SeveralOutOfFold(tuple(own.with_noise(a) for own, a in pairs))


def by_target(parts: Sequence[Any]) -> list[Sequence[Any]]:
    """Return predictions of the same rows target by target; one entry if there is one target."""
    if not isinstance(parts[0], SeveralOutOfFold):
        return [parts]
    return list(zip(*(part.each for part in parts), strict=True))


def pooled(parts: Sequence[OutOfFold], weights: FloatArray) -> OutOfFold:
    """Return the weighted mean of several predictions of the same rows."""
    first, unit = parts[0], max(part.unit for part in parts)
    if len(parts) == 1:
        return first
    means, y = np.stack([part.mean for part in parts]), first.mean + first.residual
    mean, q = weights @ means, float((weights**2).sum())
    epistemic_std, aleatoric_std = (
        root_mean_square([np.stack([getattr(part, k) for part in parts])], weights)
        for k in ("epistemic_std", "aleatoric_std")
    )
    between = np.sqrt(weights @ ((means - mean) / unit) ** 2 / (1.0 - q)) * unit
    return replace(
        first,
        mean=mean,
        residual=y - mean,
        epistemic_std=epistemic_std,
        aleatoric_std=aleatoric_std,
        unit=unit,
        between=between,
        n_pooled=1.0 / q,
    )


@dataclass(frozen=True)
class Squares:
    """Mean squares over out-of-fold samples, in units of the predicted variances."""

    error: float  # of the residuals of the mean of `n_pooled` networks
    between: float  # variance between single networks; 0 where each row has one prediction only
    n_rows: float  # number of rows averaged, or the sum of their weights
    n_pooled: float = 1.0  # effective number, as is the next
    n_members: float = 1.0  # of the ensemble that is to be calibrated

    @property
    def total(self) -> float:
        """Expected square of the whole ensemble; 1 if there is no scale at all."""
        shared = self.error - self.between / self.n_pooled
        return max(shared, 0.0) + self.between / self.n_members or 1.0

    @property
    def factor(self) -> float:
        """a^2, of the variances of each member; the rest of the total is between them.

        At least half of it is left to the members: the variance between few of them is uncertain.
        """
        between = (1.0 - 1.0 / self.n_members) * self.between
        return max(self.total - between, 0.5 * self.total)

    def after(self, more: Squares) -> Squares:
        """Return the means over these rows and more."""
        n_rows = self.n_rows + more.n_rows
        share = more.n_rows / n_rows
        error = self.error + share * (more.error - self.error)
        between = self.between + share * (more.between - self.between)
        return replace(self, error=error, between=between, n_rows=n_rows)


@dataclass(frozen=True, eq=False)
class Range:
    """Bounding box of the training samples."""

    low: FloatArray  # (n_features,): the smallest value of each feature
    high: FloatArray
    scale: FloatArray  # its std; infinite, so that it is ignored, if it is constant or has no value
    slope: float  # in target units, for one standard deviation of a feature

    def grown(self, X: Array) -> Range:
        """Return the range extended to the rows of X."""
        low, high = feature_ends(X)
        return replace(self, low=np.fmin(self.low, low), high=np.fmax(self.high, high))

    def nearest(self, X: Array) -> Array:
        """Return the nearest rows inside; missing values stay missing."""
        low, high = self.low.astype(X.dtype), self.high.astype(X.dtype)
        nearest: Array = np.minimum(np.maximum(X, low), high)
        return nearest

    def outside(self, X: Array) -> FloatArray:
        """Return how far features lie outside, in standard deviations, with the sign."""
        distance: FloatArray = (X - self.nearest(X)).astype(np.float64) / self.scale
        return distance

    def std(self, X: Array) -> FloatArray:
        """Return the std of rows by their distance outside, (n,); missing values are inside."""
        known = np.fmax(np.abs(self.outside(X)), 0.0)  # 0 for NaN
        std: FloatArray = self.slope * np.sqrt((known**2).sum(axis=1))
        return std


def range_of(X: Array, unit: float) -> Range:
    """Measure the range of rows; `unit` is the standard deviation of their targets."""
    spreads = fit_standardizer(X, None).spreads
    return Range(*feature_ends(X), np.where(spreads > 0.0, spreads, np.inf), _SLOPE * unit)


class Levels(NamedTuple):
    """Bounds on the moments of h(x): for unseen combinations of features, the predicted noise could
    otherwise exceed any residual.
    """

    low: float  # the least mean of h
    high: float  # the largest mean of h
    variance: float  # the largest variance of h


def levels_of(h: LogScale) -> Levels:
    """Return the levels of rows; of hundreds, single extreme ones are ignored."""
    within = h.bounded()
    k = min(_N_SEEN, 1 + len(within.mean) // 100)
    mean, variance = np.sort(within.mean), np.sort(within.variance)
    return Levels(float(mean[k - 1]), float(mean[-k]), float(variance[-k]))


@dataclass(frozen=True, eq=False)
class NoiseNetwork:
    """The network of h(x), the logarithm of the noise variance relative to its level."""

    encoding: PiecewiseLinear  # of its inputs
    posterior: Posterior
    standardizer: Standardizer  # of encoded rows
    levels: Levels  # of the rows whose residuals it was trained on

    def log_scale(self, X: Array) -> LogScale:
        """Return the distribution of h for every row of X, not encoded, within `levels`."""
        rows = Inputs(encoded(X, self.encoding))
        plan = _plan(self.posterior.dtype)
        h: LogScale = predictive(plan, self.posterior, self.standardizer, rows)
        return h.bounded(*self.levels)

    def after(self, seen: Completed, oof: OutOfFold, factor: float) -> NoiseNetwork:
        """Return the network after a pass over the residuals of more rows, and its levels."""
        plan, rng = _plan(self.posterior.dtype), RandomState(0)
        rows = seen.inputs(self.encoding)
        y = Scale().encode(_targets(oof, factor))
        before = training.start(plan, rows, y, rng, self.standardizer)
        before = replace(before, posterior=self.posterior)
        (run,), interrupt = training.advance([training.begin(plan, before, rows, y, rng)], 1)
        if interrupt is not None:
            raise interrupt
        posterior = run.fitted.posterior
        more = levels_of(predictive(plan, posterior, self.standardizer, Inputs(rows.X)))
        levels = Levels(min(self.levels.low, more.low), *map(max, self.levels[1:], more[1:]))
        return replace(self, posterior=posterior, levels=levels)


class LearnedNoise(NamedTuple):
    """A noise network, and its gain on rows that it was not trained on."""

    network: NoiseNetwork  # trained on all rows
    held_out: LogScale  # h of every row, by networks not trained on its fold, within the levels
    gain: FloatArray  # (n,): log density of each row minus its log density without a noise network


def learn_noise(
    encodings: Encodings,
    held_out: HeldOut,
    oof: OutOfFold,
    factor: float,
    seed: int,
    n_threads: int,
) -> LearnedNoise:
    """Train the network on out-of-fold residuals; evaluate it by networks without one fold each.

    `factor` is the a^2 of the variances in `oof`, which are not calibrated.
    """
    bins, likelihood = (encodings.bins_that_fit(_N_BINS), False), Scale()
    rows, plan = encodings.inputs(bins)[held_out.rows], _plan(encodings.dtype)
    y, parts = likelihood.encode(_targets(oof, factor)), held_out.fold
    if len(np.unique(parts)) == 1:
        parts = np.arange(len(y)) % _N_PARTS
    runs = []
    for own in (np.arange(len(y)), *(np.flatnonzero(parts != k) for k in np.unique(parts))):
        rng = RandomState(seed)
        scales = identity_standardizer(rows.shape[1])
        before = training.start(plan, rows[own], y[own], rng, scales)
        network = start_noise_network((rows.shape[1], *plan.hidden, 1), rng, plan.dtype)
        before = replace(before, posterior=network)
        given = (plan, before, rows[own], y[own], rng)
        runs.append(training.begin(*given, n_epochs=_N_EPOCHS, power=PASSES / _N_EPOCHS))
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
    h = LogScale(m_h, v_h).bounded(*levels)
    plain = replace(oof, log_jacobian=None)
    gain = likelihood.log_p(h, y) - (plain.log_p(factor) + np.log(oof.unit))
    encoding: Any = encodings.of(bins)
    learned = NoiseNetwork(encoding, whole.posterior, whole.standardizer, levels)
    return LearnedNoise(learned, h, gain)


def _targets(oof: OutOfFold, factor: float) -> FloatArray:
    """Return residuals, variances of their means and noise levels, in units of the target."""
    v, kappa = (factor * (s / oof.unit) ** 2 for s in (oof.epistemic_std, oof.aleatoric_std))
    if oof.y_std is not None:  # as uncertain as the mean
        v = v + (oof.y_std / oof.unit) ** 2
    return np.stack([oof.residual / oof.unit, v, kappa], axis=1)


def _plan(dtype: np.dtype[np.floating]) -> Plan:
    # If its prior were refined, the prior variance of a noise network would diverge.
    return Plan(Scale(), hidden=_HIDDEN, refine=False, marginalize=True, dtype=dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How the variances of the networks were corrected on out-of-fold samples.

    Parameters
    ----------
    squares : Squares
        Mean squares of the out-of-fold errors, from which `factor` follows.
    range : Range
        Range of the training samples. Beyond it the model is less certain, and the noise level of
        the nearest point inside is used.
    noise : NoiseNetwork or None, default=None
        Heteroscedastic noise, or None if the noise is the same everywhere.
    gain, gain_error : float, default=nan
        Gain of the noise network in log density per sample that it had not seen, and its standard
        error; NaN if none was tried. `partial_fit` leaves them as they were.
    transformation : BoxCox or None, default=None
        Transformation of the targets of the networks.
    recalibration : Recalibration or None, default=None
        Shape and support of the distribution, or None where neither gains. `partial_fit` leaves the
        shape as it was; if a target lies outside of the support, that end is given up.
    """

    squares: Squares
    range: Range
    noise: NoiseNetwork | None = None
    gain: float = np.nan
    gain_error: float = np.nan
    transformation: BoxCox | None = None
    recalibration: Recalibration | None = None

    @property
    def factor(self) -> float:
        """a^2, of the variances of model and noise of every network."""
        return self.squares.factor

    @property
    def n_rows(self) -> float:
        """Number of out-of-fold samples, or the sum of their weights."""
        return self.squares.n_rows

    @property
    def out_of_fold(self) -> Calibration:
        """The calibration of predictions by one network of each stacked trial."""
        return replace(self, squares=replace(self.squares, n_members=self.squares.n_pooled))

    def __repr__(self) -> str:
        noise = "the same noise everywhere" if self.noise is None else "a noise network"
        gain = "" if np.isnan(self.gain) else f" (gain {self.gain:.3g} ± {self.gain_error:.2g})"
        power = [] if self.transformation is None else [f"power {self.transformation.power:.3g}"]
        shape = [] if self.recalibration is None else [self.recalibration.in_words]
        factor, n_rows = f"factor={self.factor:.3g}", f"n={self.n_rows:.6g}"
        return short_repr(self, factor, noise + gain, *power, *shape, n_rows)

    def after(
        self, parts: Sequence[OutOfFold], weights: FloatArray, rows: Completed
    ) -> Calibration:
        """Return the calibration after more rows, which each stacked trial has predicted."""
        oof = pooled(parts, weights)
        squares = self.squares.after(oof.squares(1, self.squares.error))
        noise = self.noise
        if noise is not None:
            noise = noise.after(rows, oof.of_ensemble(squares), squares.total)
        shape, range_ = self.recalibration, self.range.grown(rows.X)
        if shape is not None:
            shape = shape.containing(oof.targets(self.transformation))
        return replace(self, squares=squares, range=range_, noise=noise, recalibration=shape)

    def mixture(
        self,
        members: Moments,
        X: Array | None = None,
        h: LogScale | None = None,
        noise_factor: FloatArray | None = None,
        weights: FloatArray | None = None,
    ) -> Mixture | TransformedMixture | Recalibrated:
        """Return the calibrated mixture of the predictions of S members, (S, n), for rows of X.

        X is None for rows inside the range. The noise of each member is (S, 1), and multiplied by
        `noise_factor`, (n,). h is the output of the noise network for these rows, computed here if
        None; then X has no missing values. If `weights` is None, members have equal weights.
        """
        a, tail = np.sqrt(self.factor), None
        epistemic_stds, aleatoric_stds = a * members.epistemic_std, a * members.aleatoric_std
        if X is not None:
            epistemic_stds = np.hypot(epistemic_stds, self.range.std(X))
        if noise_factor is not None:
            aleatoric_stds = aleatoric_stds * noise_factor
        if self.noise is not None:
            h = self.noise.log_scale(self.range.nearest(X)) if X is not None and h is None else h
            assert h is not None
            aleatoric_stds, tail = aleatoric_stds * np.sqrt(h.factor), h.variance[np.newaxis]
        return self.law(Mixture(members.mean, epistemic_stds, aleatoric_stds, weights, tail))

    def law(self, mixture: Mixture) -> Mixture | TransformedMixture | Recalibrated:
        """Return the distribution of targets, given the mixture of what the networks predict."""
        g, shape = self.transformation, self.recalibration
        base = mixture if g is None else TransformedMixture(mixture, g)
        return base if shape is None else shape.apply(base)

    def log_scale(self, rows: Completed) -> LogScale | None:
        """Return the output of the noise network for rows; None if there is no such network."""
        if (noise := self.noise) is None:
            return None

        def of(X: Array) -> tuple[FloatArray, FloatArray]:
            h = noise.log_scale(self.range.nearest(X))
            return h.mean, h.variance

        return LogScale(*rows.moments(None, of)).bounded()


def factor_of(calibrations: Sequence[Any]) -> Any:
    """Return the factor of the variances: a float, or (K,) for several targets."""
    factors = [float(own.factor) for own in calibrations]
    return factors[0] if len(factors) == 1 else np.array(factors)


def support_of(given: Any, y: FloatArray) -> tuple[float, float]:
    """Return the ends of the support that targets have for the parameter `support`.

    With "auto", targets of 0 or more have no mass below 0; if none is above 1, none above 1.
    """
    if given == "auto":
        given = (0.0, 1.0 if y.max() <= 1.0 else None) if y.min() >= 0.0 else None
    low, high = (None, None) if given is None else given
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    if (bad := y[(y < low) | (y > high)]).size:
        raise ValueError(
            f"y must lie in the support, from {low} to {high}. Got {float(bad[0])}, and "
            f"{bad.size} of {y.size} targets are outside."
        )
    return float(low), float(high)


@dataclass(frozen=True)
class RegressionScorer:
    """Evaluates predictions of values, by residuals and variances."""

    likelihood: Gaussian
    transformation: BoxCox | None = None  # of the targets of the networks
    noise: Noise = "auto"
    supports: Sequence[tuple[float, float]] = ((-np.inf, np.inf),)  # of each target as given
    support_is_given: bool = False  # else it is inferred

    def seen_by(self, candidate: Candidate, y: Array) -> tuple[Array, RegressionScorer]:
        """Return targets on the scale of a candidate, and the scorer of their predictions."""
        scorer = replace(self, noise=candidate.noise)
        if candidate.power is None:
            return y, scorer
        g = box_cox_of(y, candidate.power)
        return g.forward(y), replace(scorer, transformation=g)

    def out_of_fold(
        self,
        outputs: Sequence[FoldOutputs],
        y: Array,
        weights: Weights,
        held_out: HeldOut,
        y_std: FloatArray | None = None,
        k: int = 0,
    ) -> OutOfFold | SeveralOutOfFold:
        """Return predictions and residuals in the order of ``held_out.rows``, as y and weights.

        A y of shape (n,) is target k of the networks.
        """
        if y.ndim > 1:
            targets = []
            for j in range(y.shape[1]):
                own = [FoldOutputs(f, m[:, j], v[:, j]) for f, m, v in outputs]
                e = None if y_std is None else y_std[:, j]
                targets.append(self.out_of_fold(own, y[:, j], weights, held_out, e, j))
            return SeveralOutOfFold(tuple(targets))  # type: ignore[arg-type]
        each = []
        for fitted, m, v in outputs:
            scales = fitted.standardizer.y_mean, fitted.standardizer.y_scale
            y_mean, y_scale = (float(scale[k]) for scale in scales)
            noise_std = float(np.sqrt(fitted.posterior.noise_variance[k])) * y_scale
            stds = np.sqrt(v.astype(np.float64)) * y_scale, np.full(len(m), noise_std)
            each.append((m.astype(np.float64) * y_scale + y_mean, *stds))
        mean, epistemic_std, aleatoric_std = map(held_out.in_order, zip(*each, strict=True))
        if weights is not None:  # as in training
            aleatoric_std = aleatoric_std / np.sqrt(weights)
        unit = max(float(output.fitted.standardizer.y_scale[k]) for output in outputs)
        oof = OutOfFold(mean, y - mean, epistemic_std, aleatoric_std, unit, weights, y_std=y_std)
        g = self.transformation
        return oof if g is None else replace(oof, log_jacobian=g.log_jacobian(g.inverse(y)))

    def calibrate(
        self,
        parts: Sequence[OutOfFold],
        weights: FloatArray,
        held_out: HeldOut,
        encodings: Encodings,
        seed: int,
        n_threads: int,
        k: int,
    ) -> Calibrated:
        """Calibrate target k: find the factor, and train and evaluate a noise network."""
        oof, g = pooled(parts, weights), self.transformation
        squares = oof.squares(len(held_out.folds))
        found = Calibration(squares, range_of(encodings.X, oof.unit), transformation=g)
        h, many = None, len(oof.mean) >= policy.MIN_ROWS_FOR_NOISE
        if self.noise == "input" or (self.noise == "auto" and many):
            ours = oof.of_ensemble(squares)
            learned = learn_noise(encodings, held_out, ours, squares.total, seed, n_threads)
            gain = weighted_mean(learned.gain, oof.weights)
            found = replace(found, gain=gain, gain_error=standard_error(learned.gain, oof.weights))
            # Any gain is accepted: a threshold of one standard error rejected nine networks, of
            # which seven improved the log-likelihood of test rows.
            if self.noise == "input" or gain > 0.0:
                found, h = replace(found, noise=learned.network), learned.held_out
        names = ("mean", "epistemic_std", "aleatoric_std")
        members = Moments(*(np.stack([getattr(part, k) for part in parts]) for k in names))
        # Each of these rows is predicted by one network of each stacked trial.
        base: Any = found.out_of_fold.mixture(members, h=h, weights=weights)
        y = np.clip(oof.targets(g), *self.supports[k])  # the rounding of residuals
        given = (self.supports[k], self.support_is_given)
        # With known errors, the shape of the residuals is not the one of the targets.
        plain = oof.y_std is not None
        shaped = None if plain else recalibrated(base, y, held_out.fold, oof.weights, *given)
        if shaped is None:
            return Calibrated(found, base)
        return Calibrated(replace(found, recalibration=shaped.recalibration), shaped)


# ---- Classification


@dataclass(frozen=True)
class LogTemperature:
    """Gaussian posterior of log T."""

    mean: float = 0.0
    precision: float = 1.0 / _WIDTH**2  # one over its variance

    def after(self, surprise: Callable[[float], float]) -> LogTemperature:
        """Return mode and curvature after more rows; `surprise` is minus their log-likelihood."""
        from scipy.optimize import minimize_scalar  # slow to import, and not needed to predict

        def objective(log_T: float) -> float:
            return surprise(log_T) + 0.5 * self.precision * (log_T - self.mean) ** 2

        ends = (self.mean - _REACH, self.mean + _REACH)
        options = {"xatol": _TOLERANCE}
        at = float(minimize_scalar(objective, bounds=ends, method="bounded", options=options).x)
        below, here, above = (objective(at + d) for d in (-_STEP, 0.0, _STEP))
        curvature = max(self.precision, (above - 2.0 * here + below) / _STEP**2)
        return LogTemperature(at, float(curvature))


@dataclass(frozen=True, eq=False)
class LabelsOutOfFold:
    """Out-of-fold outputs and labels."""

    likelihood: LabelLikelihood
    # Moments of the outputs by each stacked trial, (n,) or (n, K), in units of their noise and not
    # calibrated.
    outputs: tuple[tuple[FloatArray, FloatArray], ...]
    y: Array  # labels, as the likelihood encodes them, (n,) or (n, K)
    weights: Weights = None
    before: LogTemperature = LogTemperature()  # prior, without these rows
    shares: FloatArray | None = None  # stacking weights of the trials

    @property
    def factor(self) -> float:
        """The temperature, the most probable one."""
        return float(np.exp(self.belief.mean))

    @cached_property
    def belief(self) -> LogTemperature:
        """Posterior of the temperature after these rows; if there are many, by some of them."""
        total, some = self.n_rows, self._some

        def surprise(log_T: float) -> float:
            return -total * weighted_mean(some.log_p(float(np.exp(log_T))), some.weights)

        return self.before.after(surprise)

    @property
    def n_rows(self) -> float:
        """Number of rows, or the sum of their weights."""
        return float(len(self.y) if self.weights is None else self.weights.sum())

    def log_p(self, factor: float = 1.0) -> FloatArray:
        """Return the log probability of the labels of every row at that temperature, (n,)."""
        outputs = [(mean / np.sqrt(factor), v) for mean, v in self.outputs]
        return self.likelihood.log_p_of_outputs(outputs, self.y, ENGINES["native"], self.shares)

    @property
    def _some(self) -> LabelsOutOfFold:
        n_rows = max(_FEWEST_ROWS, _MOST_TERMS // self.likelihood.n_outputs**2)
        if self.outputs[0][0].ndim == 1 or len(self.y) <= n_rows:
            return self
        at = np.linspace(0, len(self.y) - 1, n_rows).astype(int)
        weights = None if self.weights is None else self.weights[at]
        outputs = tuple((mean[at], variance[at]) for mean, variance in self.outputs)
        return replace(self, outputs=outputs, y=self.y[at], weights=weights)


def _together(parts: Sequence[LabelsOutOfFold], weights: FloatArray) -> LabelsOutOfFold:
    """Return predictions of the same rows by several stacked trials."""
    outputs = tuple(output for part in parts for output in part.outputs)
    return replace(parts[0], outputs=outputs, shares=weights)


@dataclass(frozen=True)
class ClassCalibration:
    """How the probabilities of the networks were calibrated on out-of-fold samples.

    Parameters
    ----------
    temperature : float
        Above 1 if the networks were overconfident, below 1 if they were underconfident.
    precision : float
        One over the posterior variance of its logarithm.
    log_loss, raw_log_loss : float
        Out-of-fold log-loss in nats per sample, with this temperature and without. `partial_fit`
        adds new samples at the temperature before them.
    n_rows : float
        Number of out-of-fold samples, or the sum of their weights.
    """

    temperature: float
    precision: float
    log_loss: float
    raw_log_loss: float
    n_rows: float

    @property
    def factor(self) -> float:
        """The temperature: the variances of all outputs are multiplied by it."""
        return self.temperature

    def log_scale(self, rows: Completed) -> None:
        """Return None: class labels have no noise network."""

    def after(
        self, parts: Sequence[LabelsOutOfFold], weights: FloatArray, rows: Completed
    ) -> ClassCalibration:
        """Return the calibration after more rows; the posterior of log T is their prior."""
        before = LogTemperature(float(np.log(self.temperature)), self.precision)
        oof = replace(_together(parts, weights), before=before)
        n_rows = self.n_rows + oof.n_rows
        share = oof.n_rows / n_rows

        def running(loss: float, temperature: float) -> float:
            new = -weighted_mean(oof.log_p(temperature), oof.weights)
            return loss + share * (new - loss)

        losses = running(self.log_loss, self.temperature), running(self.raw_log_loss, 1.0)
        return ClassCalibration(oof.factor, oof.belief.precision, *losses, n_rows)

    def mixture(
        self,
        mean: Iterable[FloatArray],
        variance: Iterable[FloatArray],
        likelihood: LabelLikelihood,
        weights: FloatArray | None = None,
    ) -> ClassMixture:
        """Return the mixture of S members at the temperature, with outputs (S, n) or (S, n, K).

        If `weights`, (S,), is None, the members have equal weights. In units of the noise, whose
        variance is the temperature, the variance of the outputs is unchanged.
        """
        a, engine = np.sqrt(self.temperature), ENGINES["native"]
        pairs = zip(mean, variance, strict=True)
        return ClassMixture.of([likelihood.of_outputs(m / a, v, engine) for m, v in pairs], weights)


@dataclass(frozen=True)
class ClassificationScorer:
    """Evaluates predictions of labels, by their log probabilities; see `RegressionScorer`."""

    likelihood: LabelLikelihood

    def out_of_fold(
        self, outputs: Sequence[FoldOutputs], y: Array, weights: Weights, held_out: HeldOut, *_: Any
    ) -> LabelsOutOfFold:
        """Return out-of-fold outputs and labels."""
        mean = held_out.in_order([own.mean.astype(np.float64) for own in outputs])
        variance = held_out.in_order([own.variance.astype(np.float64) for own in outputs])
        return LabelsOutOfFold(self.likelihood, ((mean, variance),), y, weights)

    def seen_by(self, candidate: Candidate, y: Array) -> tuple[Array, ClassificationScorer]:
        """Return the labels unchanged: they have no scale."""
        for name, usual in policy.OF_REGRESSION.items():
            if (value := getattr(candidate, name)) != usual:
                asked = f"{name} of a candidate is for the targets of a regression."
                raise ValueError(f"{asked} Got {value!r} for labels.")
        return y, self

    def calibrate(
        self, parts: Sequence[LabelsOutOfFold], weights: FloatArray, *_: Any
    ) -> Calibrated:
        """Find the temperature of stacked networks."""
        oof = _together(parts, weights)
        raw = -weighted_mean(oof.log_p(), oof.weights)
        found = ClassCalibration(oof.factor, oof.belief.precision, raw, raw, oof.n_rows)
        means, variances = zip(*oof.outputs, strict=True)
        predictive = found.mixture(means, variances, self.likelihood, weights)
        loss = -weighted_mean(self.likelihood.log_p(predictive, oof.y), oof.weights)
        return Calibrated(replace(found, log_loss=loss), predictive)


Scorer = RegressionScorer | ClassificationScorer
