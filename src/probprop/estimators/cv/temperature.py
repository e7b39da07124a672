"""One temperature for the probabilities, from rows that were held out.

A label is what the outputs f ~ N(m, v) say once each has unit noise. A network trained to the end
is too sure of itself. The temperature T multiplies the variances of outputs and noise alike, as
the factor a^2 of a regression does: for two classes

    p = Phi(m / sqrt(T (1 + v))),

and so on for more. Far out in the tails log p is divided by T, whence the name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.estimators.cv.judge import total_weight, weighted_mean
from probprop.inference.engine import ENGINES
from probprop.inference.likelihoods import LabelLikelihood

_WIDTH = 0.5  # of log T before any row: labels that are all right would let T go to 0
_STEP = 0.05  # of log T, between differences
_LARGEST_STEP = 1.0  # of Newton's method
_TOLERANCE = 0.005  # of log T
_MOST_STEPS = 30
_MOST_TERMS = 250_000  # rows times squared outputs, which bounds the rows of a look
_FEWEST_ROWS = 1_000  # half a nat in all is what a parameter costs that is learned from rows


@dataclass(frozen=True)
class LogTemperature:
    """What is known about log T: a Gaussian.

    Parameters
    ----------
    mean : float, default=0.0
    precision : float, default=4.0
        One over its variance.

    Examples
    --------
    >>> belief = LogTemperature().after(lambda log_T: 50.0 * (log_T - 0.7) ** 2)
    >>> round(belief.mean, 3), round(belief.precision, 3)  # (0.7 * 100 + 0 * 4) / (100 + 4)
    (0.673, 104.0)
    """

    mean: float = 0.0
    precision: float = 1.0 / _WIDTH**2

    @property
    def temperature(self) -> float:
        """T itself."""
        return float(np.exp(self.mean))

    def after(self, surprise: Callable[[float], float]) -> LogTemperature:
        """Return what is known after more rows: the mode, and the curvature there.

        Parameters
        ----------
        surprise : callable
            Minus the log-likelihood of the rows as a function of log T.
        """

        def objective(log_T: float) -> float:
            return surprise(log_T) + 0.5 * self.precision * (log_T - self.mean) ** 2

        at, curvature = self.mean, self.precision
        for _ in range(_MOST_STEPS):
            below, here, above = (objective(at + d) for d in (-_STEP, 0.0, _STEP))
            # The rows say something, or nothing; where they seem to say less the mode is far.
            curvature = max(self.precision, (above - 2.0 * here + below) / _STEP**2)
            step = -(above - below) / (2.0 * _STEP) / curvature
            at += float(np.clip(step, -_LARGEST_STEP, _LARGEST_STEP))
            if not abs(step) > _TOLERANCE:
                break
        return LogTemperature(float(at), float(curvature))


@dataclass(frozen=True, eq=False)
class LabelsOutOfFold:
    """Outputs for rows by networks that had not seen them, and the labels of these rows.

    Parameters
    ----------
    likelihood : Probit or Multinomial
    mean, variance : ndarray of shape (n,) or (n, K)
        Moments of the outputs in units of their noise, not calibrated.
    y : ndarray of shape (n,) or (n, K)
        Labels, as the likelihood encodes them.
    weights : ndarray of shape (n,), default=None
        How much each row counts; None: all the same.
    before : LogTemperature
        What is known without these rows.
    beside : tuple of LabelsOutOfFold, default=()
        Predictions of the same rows by other networks: probabilities are the mean of all.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop.inference.likelihoods import of_classes
    >>> two = of_classes(np.array(["no", "yes"]), multilabel=False)
    >>> too_sure = np.full(100, 2.0)  # right in 8 rows of 10, where Phi(2) is 0.98
    >>> rows = LabelsOutOfFold(two, too_sure, np.zeros(100), np.where(np.arange(100) < 80, 1, -1))
    >>> round(rows.factor, 1), round(float(np.exp(rows.predictive(rows.factor).log_proba[0, 1])), 2)
    (3.6, 0.85)
    """

    likelihood: LabelLikelihood
    mean: FloatArray
    variance: FloatArray
    y: Array
    weights: FloatArray | None = None
    before: LogTemperature = LogTemperature()
    beside: tuple[LabelsOutOfFold, ...] = ()

    @property
    def factor(self) -> float:
        """The temperature, the most probable one."""
        return self.belief.temperature

    @cached_property
    def belief(self) -> LogTemperature:
        """What is known about the temperature after these rows.

        Of many rows some are looked at, evenly spaced, which stand for all.
        """
        total, some = self.n_rows, self._some

        def surprise(log_T: float) -> float:
            return -total * weighted_mean(some.log_p(float(np.exp(log_T))), some.weights)

        return self.before.after(surprise)

    @property
    def n_rows(self) -> float:
        """How many rows there are, or the sum of their weights."""
        return total_weight(self.y, self.weights)

    def predictive(self, temperature: float = 1.0) -> ClassMixture:
        """Return the probabilities of the labels of every row at that temperature."""
        own, *others = (
            tempered(self.likelihood, part.mean, part.variance, temperature)
            for part in (self, *self.beside)
        )
        return self.likelihood.mixture([own, *others]) if others else own

    def log_p(self, factor: float = 1.0) -> FloatArray:
        """Return the log probability of the labels of every row at that temperature, (n,)."""
        parts = (self, *self.beside)
        outputs = [(part.mean / np.sqrt(factor), part.variance) for part in parts]
        return self.likelihood.log_p_of_outputs(outputs, self.y, ENGINES["native"])

    @property
    def _some(self) -> LabelsOutOfFold:
        n_outputs = self.likelihood.n_outputs
        n_rows = max(_FEWEST_ROWS, _MOST_TERMS // n_outputs**2)
        if self.mean.ndim == 1 or len(self.y) <= n_rows:
            return self
        return self._at(np.linspace(0, len(self.y) - 1, n_rows).astype(int))

    def _at(self, rows: Array) -> LabelsOutOfFold:
        return replace(
            self,
            mean=self.mean[rows],
            variance=self.variance[rows],
            y=self.y[rows],
            weights=None if self.weights is None else self.weights[rows],
            beside=tuple(part._at(rows) for part in self.beside),
        )


def tempered(
    likelihood: LabelLikelihood, mean: FloatArray, variance: FloatArray, temperature: float
) -> ClassMixture:
    """Return the probabilities that outputs give labels at a temperature.

    In units of the noise, whose variance is T, the variance of the outputs is what it was.
    """
    return likelihood.of_outputs(mean / np.sqrt(temperature), variance, ENGINES["native"])
