"""From rows that were held out to calibrated probabilities: one temperature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.estimators.cv.candidates import OF_LABELS, Candidate
from probprop.estimators.cv.folds import Encodings, HeldOut
from probprop.estimators.cv.joint import Completed
from probprop.estimators.cv.judge import Calibrated, FoldOutputs, weighted_mean
from probprop.estimators.cv.temperature import LabelsOutOfFold, LogTemperature, tempered
from probprop.inference.likelihoods import LabelLikelihood


@dataclass(frozen=True)
class ClassCalibration:
    """How the probabilities of the networks were corrected on rows held out.

    Parameters
    ----------
    temperature : float
        Above 1 where the networks were too sure, below where they were not sure enough.
    precision : float
        One over the variance of what is known about its logarithm.
    log_loss, raw_log_loss : float
        Mean of -log p of the labels held out, in nats, with this temperature and without.
        `partial_fit` counts new rows with the temperature that was known before them.
    n_rows : float
        How many rows that is, or the sum of their weights.
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

    def after(self, oof: LabelsOutOfFold, rows: Completed) -> ClassCalibration:
        """Return the calibration after more rows, which `oof` has the outputs of.

        What was known about log T, a Gaussian, is the prior of what the new rows say: as for the
        weights of a network, two numbers stand for all rows before.
        """
        known = replace(oof, before=LogTemperature(float(np.log(self.temperature)), self.precision))
        n_rows = self.n_rows + oof.n_rows
        share = oof.n_rows / n_rows

        def running(loss: float, temperature: float) -> float:
            new = -weighted_mean(oof.log_p(temperature), oof.weights)
            return loss + share * (new - loss)

        return ClassCalibration(
            temperature=known.factor,
            precision=known.belief.precision,
            log_loss=running(self.log_loss, self.temperature),
            raw_log_loss=running(self.raw_log_loss, 1.0),
            n_rows=n_rows,
        )

    def mixture(
        self, mean: FloatArray, variance: FloatArray, likelihood: LabelLikelihood
    ) -> ClassMixture:
        """Return the mixture of what the members predict, each at the temperature.

        The moments of their outputs are (S, n) or (S, n, n_outputs).
        """
        each = zip(mean, variance, strict=True)
        return ClassMixture.of([tempered(likelihood, m, v, self.temperature) for m, v in each])


@dataclass(frozen=True)
class LabelsJudge:
    """Judges predictions of labels, by their log probabilities.

    Parameters
    ----------
    likelihood : Probit or Multinomial
    """

    likelihood: LabelLikelihood
    usual = OF_LABELS

    def stratified(self, y: Array) -> bool:
        """Return True, but of several labels, whose combinations may be many; see `Judge`."""
        return y.ndim == 1

    def out_of_fold(
        self,
        outputs: Sequence[FoldOutputs],
        y: Array,
        weights: FloatArray | None,
        held_out: HeldOut,
    ) -> LabelsOutOfFold:
        """Return outputs and labels of the rows held out; see `Judge`."""
        mean, variance = (
            held_out.in_order([a.astype(np.float64) for a in arrays])
            for arrays in zip(*((o.mean, o.variance) for o in outputs), strict=True)
        )
        return LabelsOutOfFold(self.likelihood, mean, variance, y, weights)

    def pooled(self, parts: Sequence[LabelsOutOfFold]) -> LabelsOutOfFold:
        """Return the rows with the mean of all probabilities that each has; see `Judge`."""
        return replace(parts[0], beside=tuple(parts[1:]))

    def seen_by(self, candidate: Candidate, y: Array) -> tuple[Array, LabelsJudge]:
        """Return the labels as they are: they have no scale, and no noise of a size."""
        for name, usual in (("power", None), ("noise", "auto")):
            if (value := getattr(candidate, name)) != usual:
                raise ValueError(
                    f"{name} of a candidate is for the targets of a regression. "
                    f"Got {value!r} for labels."
                )
        return y, self

    def work_after(self, encodings: Encodings, n_rows: int, n_folds: int) -> float:
        """Return 0: one temperature is found at once."""
        return 0.0

    def calibrate(
        self,
        oof: LabelsOutOfFold,
        held_out: HeldOut,
        encodings: Encodings,
        n_members: int,
        seed: int,
        n_threads: int,
    ) -> Calibrated:
        """Find the temperature."""
        predictive = oof.predictive(oof.factor)
        log_p = self.likelihood.log_p(predictive, oof.y)
        calibration = ClassCalibration(
            temperature=oof.factor,
            precision=oof.belief.precision,
            log_loss=-weighted_mean(log_p, oof.weights),
            raw_log_loss=-weighted_mean(oof.log_p(), oof.weights),
            n_rows=oof.n_rows,
        )
        return Calibrated(calibration, predictive)
