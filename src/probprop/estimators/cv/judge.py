"""What judges candidates on the rows held out: one kind for values, one for labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from probprop._types import Array, FloatArray
from probprop.estimators.cv.candidates import Candidate, Usual
from probprop.estimators.cv.folds import Encodings, HeldOut
from probprop.inference.likelihoods import Likelihood
from probprop.inference.training import Fitted


class FoldOutputs(NamedTuple):
    """What the network of a fold says about the rows that it had not seen.

    Parameters
    ----------
    fitted : Fitted
    mean, variance : ndarray of shape (n,) or (n, K)
        Moments of its outputs, standardised.
    """

    fitted: Fitted
    mean: FloatArray
    variance: FloatArray


class OutOfFoldRows(Protocol):
    """Predictions of rows by networks that had not seen them, and how wrong they are."""

    @property
    def weights(self) -> FloatArray | None:
        """How much each row counts, (n,); None: all the same."""

    @property
    def factor(self) -> float:
        """The factor of all variances under which the rows are most likely."""

    def log_p(self, factor: float = 1.0) -> FloatArray:
        """Return the log density, or probability, of every row with that factor, (n,)."""


class Calibrated(NamedTuple):
    """What calibration made of the rows held out.

    Parameters
    ----------
    calibration : Calibration or ClassCalibration
    predictive : distribution
        Of those rows, by networks that had not seen them.
    """

    calibration: Any
    predictive: Any


class Judge(Protocol):
    """What a race asks about the rows held out, whatever their targets are."""

    @property
    def likelihood(self) -> Likelihood:
        """What the targets are to the outputs."""

    @property
    def usual(self) -> Usual:
        """What is compared if the user does not say."""

    def stratified(self, y: Array) -> bool:
        """Return whether the values of y are few, and the folds should share each of them alike."""

    def out_of_fold(
        self,
        outputs: Sequence[FoldOutputs],
        y: Array,
        weights: FloatArray | None,
        held_out: HeldOut,
    ) -> Any:
        """Return `OutOfFoldRows`, in the order of ``held_out.rows``; y and weights have it too."""

    def pooled(self, parts: Sequence[Any]) -> Any:
        """Return one `OutOfFoldRows` of several, which have the same rows in the same order."""

    def seen_by(self, candidate: Candidate, y: Array) -> tuple[Array, Judge]:
        """Return targets as a candidate sees them, and what judges its predictions of them."""

    def work_after(self, encodings: Encodings, n_rows: int, n_folds: int) -> float:
        """Return the work of `calibrate` on rows held out, in units of `clock.work_of_a_row`."""

    def calibrate(
        self,
        oof: Any,
        held_out: HeldOut,
        encodings: Encodings,
        n_members: int,
        seed: int,
        n_threads: int,
    ) -> Calibrated:
        """Learn from the rows held out how to correct what so many networks say."""


def weighted_mean(values: FloatArray, weights: FloatArray | None) -> float:
    """Return the mean over rows.

    >>> values = np.array([1.0, 4.0])
    >>> weighted_mean(values, None), weighted_mean(values, np.array([2.0, 1.0]))
    (2.5, 2.0)
    """
    return float(np.mean(values) if weights is None else np.average(values, weights=weights))


def total_weight(values: FloatArray, weights: FloatArray | None) -> float:
    """Return the number of rows, or the sum of their weights.

    >>> total_weight(np.zeros(3), None), total_weight(np.zeros(2), np.array([0.5, 2.0]))
    (3.0, 2.5)
    """
    return float(len(values) if weights is None else weights.sum())


def standard_error(values: FloatArray, weights: FloatArray | None = None) -> float:
    """Return the standard error of the mean over rows.

    >>> standard_error(np.array([1.0, 3.0, 1.0, 3.0]))
    0.5
    """
    share = np.full(len(values), 1.0 / len(values)) if weights is None else weights / weights.sum()
    return float(np.sqrt(np.sum((share * (values - np.sum(share * values))) ** 2)))
