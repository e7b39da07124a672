"""One factor for the variances, from rows that were held out.

A network trained to the end is too sure of itself, in its posterior and in its noise. With
r the residual of a row that was held out, v and kappa the variances of model and noise there,

    a^2 = mean of r^2 / (v + kappa)

is the factor under which N(r | 0, a^2 (v + kappa)) is most likely. Where rows have weights the
mean is weighted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probprop._types import FloatArray
from probprop.estimators.cv.judge import total_weight, weighted_mean


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions of rows by networks that had not seen them, in units of the target.

    Where the networks predict a transformed target, these are its units.

    Parameters
    ----------
    mean : ndarray of shape (n,)
    residual : ndarray of shape (n,)
        Target minus mean.
    std_model, std_noise : ndarray of shape (n,)
        Standard deviations of the network output and of the noise, not calibrated.
    unit : float
        Standard deviation of the targets, in whose square no variance overflows.
    weights : ndarray of shape (n,), default=None
        How much each row counts; None: all the same.
    log_jacobian : ndarray of shape (n,), default=None
        Log of the derivative of what is predicted by the target; None: it is the target.
    """

    mean: FloatArray
    residual: FloatArray
    std_model: FloatArray
    std_noise: FloatArray
    unit: float
    weights: FloatArray | None = None
    log_jacobian: FloatArray | None = None

    @property
    def factor(self) -> float:
        """The factor a^2 of all variances; 1 where every residual is 0 and there is no scale."""
        return self.mean_square or 1.0

    @property
    def mean_square(self) -> float:
        """The mean of r^2 / (v + kappa)."""
        z = self.residual / np.hypot(self.std_model, self.std_noise)
        return weighted_mean(z**2, self.weights)

    @property
    def n_rows(self) -> float:
        """How many rows there are, or the sum of their weights."""
        return total_weight(self.mean, self.weights)

    def log_p(self, factor: float = 1.0) -> FloatArray:
        """Return log N(residual | 0, factor (v + kappa)) of every row, in target units.

        Examples
        --------
        >>> import numpy as np
        >>> zero, one = np.zeros(2), np.ones(2)
        >>> rows = OutOfFold(zero, np.array([2.0, -4.0]), zero, one, unit=1.0)
        >>> rows.factor, rows.log_p(rows.factor).mean().round(3), rows.log_p().mean().round(3)
        (10.0, np.float64(-2.57), np.float64(-5.919))
        """
        log_p = self.residual_log_p(factor)
        return log_p if self.log_jacobian is None else log_p + self.log_jacobian

    def residual_log_p(self, factor: float) -> FloatArray:
        """Return the same in units of what is predicted."""
        std = np.hypot(self.std_model, self.std_noise)
        z = self.residual / std
        log_p: FloatArray = -0.5 * (np.log(2.0 * np.pi * factor) + z**2 / factor) - np.log(std)
        return log_p
