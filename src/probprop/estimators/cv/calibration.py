"""From rows that were held out to calibrated predictions: a factor, and perhaps a noise network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from probprop._types import Array, FloatArray
from probprop.distributions.base import Moments, short_repr
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture, box_cox_of
from probprop.estimators.cv.beyond import Range, range_of
from probprop.estimators.cv.candidates import OF_VALUES, Candidate, Noise
from probprop.estimators.cv.folds import Encodings, HeldOut
from probprop.estimators.cv.joint import Completed
from probprop.estimators.cv.judge import Calibrated, FoldOutputs, standard_error, weighted_mean
from probprop.estimators.cv.noise import MIN_ROWS, N_BINS, NoiseNetwork, learn_noise, work_of_noise
from probprop.estimators.cv.out_of_fold import OutOfFold, Squares, pooled
from probprop.inference.likelihoods import Gaussian
from probprop.inference.noise import LogScale


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How the variances of the networks were corrected on rows held out.

    Parameters
    ----------
    squares : Squares
        Of the errors on rows held out. `factor`, a^2, follows: by it the variances of model and
        noise of every network are multiplied.
    range : Range
        Of the training rows; beyond it the model is less certain, and the noise that of the
        nearest row inside.
    noise : NoiseNetwork or None
        Says where the noise is larger and where smaller; None: the same everywhere.
    gain, gain_error : float
        What the noise network gains in log density per row, on rows that it had not seen, and
        the standard error; NaN where none was tried. It is kept where the gain is above 0, or
        the candidate asked for it. `partial_fit` leaves them as they were.
    transformation : BoxCox or None
        Of the targets, before the networks see them; None: as they are. Factor, range and noise
        are those of transformed targets.
    """

    squares: Squares
    range: Range
    noise: NoiseNetwork | None = None
    gain: float = np.nan
    gain_error: float = np.nan
    transformation: BoxCox | None = None

    @property
    def factor(self) -> float:
        """a^2, of the variances of model and noise of every network."""
        return self.squares.factor

    @property
    def n_rows(self) -> float:
        """How many rows were held out, or the sum of their weights."""
        return self.squares.n_rows

    def __repr__(self) -> str:
        noise = "the same noise everywhere" if self.noise is None else "a noise network"
        gain = "" if np.isnan(self.gain) else f" (gain {self.gain:.3g} ± {self.gain_error:.2g})"
        power = [] if self.transformation is None else [f"power {self.transformation.power:.3g}"]
        factor, n_rows = f"factor={self.factor:.3g}", f"n={self.n_rows:.6g}"
        return short_repr(self, factor, noise + gain, *power, n_rows)

    def after(self, oof: OutOfFold, rows: Completed) -> Calibration:
        """Return the calibration after more rows, which `oof` has predictions of.

        The squares are running means, in which all rows count that were ever held out.
        """
        squares = self.squares.after(oof.squares(self.squares.n_members))
        noise = self.noise
        if noise is not None:
            noise = noise.after(rows, oof.of_ensemble(squares), squares.total)
        return replace(self, squares=squares, range=self.range.grown(rows.X), noise=noise)

    def mixture(
        self,
        members: Moments,
        X: Array,
        h: LogScale | None = None,
        noise_factor: FloatArray | None = None,
    ) -> Mixture | TransformedMixture:
        """Return the calibrated mixture of what the members predict for the rows of X.

        Parameters
        ----------
        members : Moments
            Moments of the S members, (S, n); the noise of each is (S, 1).
        X : ndarray of shape (n, n_features)
        h : LogScale or None, default=None
            Output of the noise network for these rows, which is computed here if it is None; then
            no value of X may be missing.
        noise_factor : ndarray of shape (n,), default=None
            What the standard deviation of the noise is multiplied by; None is 1.
        """
        a, tail = np.sqrt(self.factor), None
        epistemic_stds = np.hypot(a * members.epistemic_std, self.range.std(X))
        aleatoric_stds = a * members.aleatoric_std
        if noise_factor is not None:
            aleatoric_stds = aleatoric_stds * noise_factor
        if self.noise is not None:
            h = self.noise.log_scale(self.range.nearest(X)) if h is None else h
            aleatoric_stds, tail = aleatoric_stds * np.sqrt(h.factor), h.variance[np.newaxis]
        mixture = Mixture(members.mean, epistemic_stds, aleatoric_stds, tail=tail)
        g = self.transformation
        return mixture if g is None else TransformedMixture(mixture, g)

    def log_scale(self, rows: Completed) -> LogScale | None:
        """Return the output of the noise network for rows; None if there is no such network."""
        if (noise := self.noise) is None:
            return None

        def of(X: Array) -> tuple[FloatArray, FloatArray]:
            h = noise.log_scale(self.range.nearest(X))
            return h.mean, h.variance

        return LogScale(*rows.moments(rows.X, np.asarray, of)).bounded()


@dataclass(frozen=True)
class ValuesJudge:
    """Judges predictions of values, by residuals and variances.

    Parameters
    ----------
    likelihood : Gaussian
    transformation : BoxCox or None, default=None
        Of the targets that the networks were given.
    noise : {"auto", "constant", "input"}, default="auto"
        What the noise depends on.
    """

    likelihood: Gaussian
    transformation: BoxCox | None = None
    noise: Noise = "auto"
    usual = OF_VALUES

    def stratified(self, y: Array) -> bool:
        """Return False: values are many; see `Judge`."""
        return False

    def out_of_fold(
        self,
        outputs: Sequence[FoldOutputs],
        y: Array,
        weights: FloatArray | None,
        held_out: HeldOut,
    ) -> OutOfFold:
        """Return predictions and residuals of the rows held out; see `Judge`."""
        each = [_in_target_units(output) for output in outputs]
        mean, epistemic_std, aleatoric_std = map(held_out.in_order, zip(*each, strict=True))
        if weights is not None:  # as in training
            aleatoric_std = aleatoric_std / np.sqrt(weights)
        unit = max(float(output.fitted.standardizer.y_scale[0]) for output in outputs)
        g, log_jacobian = self.transformation, None
        if g is not None:
            log_jacobian = g.log_jacobian(g.inverse(y))
        return OutOfFold(
            mean, y - mean, epistemic_std, aleatoric_std, unit, weights, log_jacobian=log_jacobian
        )

    def seen_by(self, candidate: Candidate, y: Array) -> tuple[Array, ValuesJudge]:
        """Return targets on the scale of a candidate, and what judges predictions of them."""
        judge = replace(self, noise=candidate.noise)
        if candidate.power is None:
            return y, judge
        g = box_cox_of(y, candidate.power)
        return g.forward(y), replace(judge, transformation=g)

    def pooled(self, parts: Sequence[OutOfFold]) -> OutOfFold:
        """Return the mean prediction of every row; see `Judge`."""
        return pooled(parts)

    def work_after(self, encodings: Encodings, n_rows: int, n_folds: int) -> float:
        """Return the work of the noise networks; see `Judge`."""
        return 0.0 if self.noise == "constant" else work_of_noise(encodings, n_rows, n_folds)

    def calibrate(
        self,
        oof: OutOfFold,
        held_out: HeldOut,
        encodings: Encodings,
        n_members: int,
        seed: int,
        n_threads: int,
    ) -> Calibrated:
        """Find the factor, and learn and judge a noise network."""
        found = calibrate(oof, held_out, encodings, n_members, seed, n_threads, self.noise)
        if (g := self.transformation) is None:
            return found
        predictive = TransformedMixture(found.predictive, g)
        return Calibrated(replace(found.calibration, transformation=g), predictive)


def _in_target_units(output: FoldOutputs) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, and standard deviations of model and noise: each (n,)."""
    standardizer, posterior = output.fitted.standardizer, output.fitted.posterior
    y_mean, y_scale = float(standardizer.y_mean[0]), float(standardizer.y_scale[0])
    aleatoric_std = float(np.sqrt(posterior.noise_variance[0])) * y_scale
    epistemic_std = np.sqrt(output.variance.astype(np.float64)) * y_scale
    mean = output.mean.astype(np.float64) * y_scale + y_mean
    return mean, epistemic_std, np.full(len(mean), aleatoric_std)


def calibrate(
    oof: OutOfFold,
    held_out: HeldOut,
    encodings: Encodings,
    n_members: int,
    seed: int,
    n_threads: int,
    noise: Noise = "auto",
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
    n_members : int
        Of the ensemble that is calibrated.
    seed : int
        Of the noise network.
    n_threads : int
        They do not change the result.
    noise : {"auto", "constant", "input"}, default="auto"
        Whether a noise network is kept: if it gains anything, never, or always.
    """
    squares, box = oof.squares(n_members), range_of(encodings.X, oof.unit)
    a = np.sqrt(oof.factor)  # of these rows, each predicted by few networks
    epistemic_std, aleatoric_std = a * oof.epistemic_std, a * oof.aleatoric_std
    constant = Mixture.of_one(oof.mean, epistemic_std, aleatoric_std)
    if noise == "constant" or (noise == "auto" and len(oof.mean) < MIN_ROWS):
        return Calibrated(Calibration(squares, box), constant)
    n_bins = encodings.bins_that_fit(N_BINS)
    judged = learn_noise(
        encodings.inputs(n_bins)[held_out.rows],
        encodings.state(n_bins),
        oof.of_ensemble(squares),
        squares.total,
        held_out.fold,
        seed,
        n_threads,
        encodings.dtype,
    )
    gain = weighted_mean(judged.gain, oof.weights)
    gain_error = standard_error(judged.gain, oof.weights)
    # Any gain will do. A gain of one standard error was too much to ask: it refused networks that
    # helped on test rows seven times in nine, and the other two would have cost 0.01.
    if noise == "auto" and not gain > 0.0:
        return Calibrated(Calibration(squares, box, None, gain, gain_error), constant)
    calibration = Calibration(squares, box, judged.network, gain, gain_error)
    h = judged.held_out
    heavy = Mixture.of_one(
        oof.mean, epistemic_std, aleatoric_std * np.sqrt(h.factor), tail=h.variance
    )
    return Calibrated(calibration, heavy)
