"""From rows that were held out to calibrated predictions: a factor, and perhaps a noise network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from probprop._types import Array, FloatArray
from probprop.estimators.cv.beyond import Range, range_of
from probprop.estimators.cv.candidates import OF_VALUES
from probprop.estimators.cv.folds import Encodings, HeldOut
from probprop.estimators.cv.judge import Calibrated, FoldOutputs, standard_error, weighted_mean
from probprop.estimators.cv.noise import MIN_ROWS, N_BINS, NoiseNetwork, learn_noise
from probprop.estimators.cv.out_of_fold import OutOfFold
from probprop.inference.likelihoods import Gaussian
from probprop.inference.noise import LogScale
from probprop.predictive.gaussian import Predictive
from probprop.predictive.heavy import HeavyMixture, HeavyPredictive
from probprop.predictive.mixture import Mixture
from probprop.predictive.words import short_repr


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How the variances of the networks were corrected on rows held out.

    Parameters
    ----------
    factor : float
        a^2, of the variances of model and noise.
    range : Range
        Of the training rows; beyond it the model is less certain, and the noise that of the
        nearest row inside.
    noise : NoiseNetwork or None
        Says where the noise is larger and where smaller; None: the same everywhere.
    gain, gain_error : float
        What the noise network gains in log density per row, on rows that it had not seen, and
        the standard error; NaN where there were too few rows to try. It is kept where the gain
        is above 0. `partial_fit` leaves them as they were.
    n_rows : float
        How many rows the factor is a mean of, or the sum of their weights.
    """

    factor: float
    range: Range
    noise: NoiseNetwork | None = None
    gain: float = np.nan
    gain_error: float = np.nan
    n_rows: float = 0.0

    def __repr__(self) -> str:
        noise = "the same noise everywhere" if self.noise is None else "a noise network"
        gain = "" if np.isnan(self.gain) else f" (gain {self.gain:.3g} ± {self.gain_error:.2g})"
        return short_repr(self, f"factor={self.factor:.3g}", noise + gain, f"n={self.n_rows:.6g}")

    def after(self, oof: OutOfFold, X: Array) -> Calibration:
        """Return the calibration after more rows, X, which `oof` has predictions of.

        The factor is a running mean, in which all rows count that were ever held out.
        """
        n_rows = self.n_rows + oof.n_rows
        factor = self.factor + (oof.mean_square - self.factor) * oof.n_rows / n_rows
        noise = None if self.noise is None else self.noise.after(X, oof, factor)
        box = self.range.grown(X)
        return replace(self, factor=factor, range=box, noise=noise, n_rows=n_rows)

    def mixture(self, members: Sequence[Predictive], X: Array) -> Mixture | HeavyMixture:
        """Return the calibrated mixture of what the members predict for the rows of X."""
        a, beyond = np.sqrt(self.factor), self.range.std(X)
        scaled = [
            replace(p, std_model=np.hypot(a * p.std_model, beyond), std_noise=a * p.std_noise)
            for p in members
        ]
        if self.noise is None:
            return Mixture.of(scaled)
        h = self.noise.log_scale(self.range.nearest(X))
        return HeavyMixture(tuple(_heavy(p.mean, p.std_model, p.std_noise, h) for p in scaled))


def _heavy(
    mean: FloatArray, std_model: FloatArray, std_noise: FloatArray, h: LogScale
) -> HeavyPredictive:
    """Return the distribution with the noise variance std_noise^2 exp(h), h a Gaussian."""
    return HeavyPredictive(mean, std_model, std_noise * np.sqrt(h.factor), h.variance)


@dataclass(frozen=True)
class ValuesJudge:
    """Judges predictions of values, by residuals and variances.

    Parameters
    ----------
    likelihood : Gaussian
    """

    likelihood: Gaussian
    usual = OF_VALUES

    def out_of_fold(
        self,
        outputs: Sequence[FoldOutputs],
        y: Array,
        weights: FloatArray | None,
        held_out: HeldOut,
    ) -> OutOfFold:
        """Return predictions and residuals of the rows held out; see `Judge`."""
        each = [_in_target_units(output) for output in outputs]
        mean, std_model, std_noise = map(held_out.in_order, zip(*each, strict=True))
        if weights is not None:  # as in training
            std_noise = std_noise / np.sqrt(weights)
        unit = max(float(output.fitted.standardizer.y_scale[0]) for output in outputs)
        return OutOfFold(mean, y - mean, std_model, std_noise, unit, weights)

    def calibrate(
        self, oof: OutOfFold, held_out: HeldOut, encodings: Encodings, seed: int, n_threads: int
    ) -> Calibrated:
        """Find the factor, and learn and judge a noise network."""
        return calibrate(oof, held_out, encodings, seed, n_threads)


def _in_target_units(output: FoldOutputs) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, and standard deviations of model and noise: each (n,)."""
    standardizer, posterior = output.fitted.standardizer, output.fitted.posterior
    y_mean, y_scale = float(standardizer.y_mean[0]), float(standardizer.y_scale[0])
    std_noise = float(np.sqrt(posterior.noise_variance[0])) * y_scale
    std_model = np.sqrt(output.variance.astype(np.float64)) * y_scale
    mean = output.mean.astype(np.float64) * y_scale + y_mean
    return mean, std_model, np.full(len(mean), std_noise)


def calibrate(
    oof: OutOfFold, held_out: HeldOut, encodings: Encodings, seed: int, n_threads: int
) -> Calibrated:
    """Find the factor, and learn and judge a noise network.

    Parameters
    ----------
    oof : OutOfFold
        Predictions of the rows held out.
    held_out : HeldOut
        Which rows these are.
    encodings : Encodings
        Of all rows.
    seed : int
        Of the noise network.
    n_threads : int
        They do not change the result.
    """
    factor, box = oof.factor, range_of(encodings.X, oof.unit)
    a = np.sqrt(factor)
    std_model, std_noise = a * oof.std_model, a * oof.std_noise
    constant = Mixture(oof.mean[np.newaxis], std_model[np.newaxis], std_noise[np.newaxis])
    if len(oof.mean) < MIN_ROWS:
        return Calibrated(Calibration(factor, box, n_rows=oof.n_rows), constant)
    judged = learn_noise(
        encodings.rows(N_BINS)[held_out.rows],
        encodings.state(N_BINS),
        oof,
        factor,
        held_out.fold,
        seed,
        n_threads,
        encodings.dtype,
    )
    gain = weighted_mean(judged.gain, oof.weights)
    gain_error = standard_error(judged.gain, oof.weights)
    # Any gain will do. A gain of one standard error was too much to ask: it refused networks that
    # helped on test rows seven times in nine, and the other two would have cost 0.01.
    if not gain > 0.0:
        without = Calibration(factor, box, None, gain, gain_error, oof.n_rows)
        return Calibrated(without, constant)
    calibration = Calibration(factor, box, judged.network, gain, gain_error, oof.n_rows)
    return Calibrated(calibration, _heavy(oof.mean, std_model, std_noise, judged.held_out))
