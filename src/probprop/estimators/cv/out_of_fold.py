"""One factor for the variances, from rows that were held out.

A network trained to the end is too sure of itself, in its posterior and in its noise. With
r the residual of a row that was held out, v and kappa the variances of model and noise there,

    a^2 = mean of r^2 / (v + kappa)

is the factor under which N(r | 0, a^2 (v + kappa)) is most likely. Where rows have weights the
mean is weighted.

The mean of M networks errs less than each. Where every row was held out in k partitions, with
r the residual of the mean of its k predictions and d their variance, and in units of v + kappa,

    E r^2 = s + d / k,    of M networks    s + d / M,

with s what networks have in common. The mixture of M has the variance (1 - 1/M) d between its
members, so that this much less is left for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    epistemic_std, aleatoric_std : ndarray of shape (n,)
        Standard deviations of the network output and of the noise, not calibrated.
    unit : float
        Standard deviation of the targets, in whose square no variance overflows.
    weights : ndarray of shape (n,), default=None
        How much each row counts; None: all the same.
    between : ndarray of shape (n,), default=None
        Standard deviation between the predictions that were pooled; None: there is only one.
    n_pooled : int, default=1
        How many predictions of each row were pooled.
    log_jacobian : ndarray of shape (n,), default=None
        Log of the derivative of what is predicted by the target; None: it is the target.
    """

    mean: FloatArray
    residual: FloatArray
    epistemic_std: FloatArray
    aleatoric_std: FloatArray
    unit: float
    weights: FloatArray | None = None
    between: FloatArray | None = None
    n_pooled: int = 1
    log_jacobian: FloatArray | None = None

    @property
    def factor(self) -> float:
        """The factor a^2 of all variances; 1 where every residual is 0 and there is no scale."""
        return self.mean_square or 1.0

    @property
    def mean_square(self) -> float:
        """The mean of r^2 / (v + kappa)."""
        z = self.residual / np.hypot(self.epistemic_std, self.aleatoric_std)
        return weighted_mean(z**2, self.weights)

    def squares(self, n_members: int) -> Squares:
        """Return the mean squares that calibrate so many networks."""
        between = 0.0
        if self.between is not None:
            z = self.between / np.hypot(self.epistemic_std, self.aleatoric_std)
            between = weighted_mean(z**2, self.weights)
        return Squares(self.mean_square, between, self.n_rows, self.n_pooled, n_members)

    def of_ensemble(self, squares: Squares) -> OutOfFold:
        """Return the rows with residuals as large as those of the whole ensemble."""
        if not squares.error:
            return self
        return replace(self, residual=self.residual * np.sqrt(squares.total / squares.error))

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
        std = np.hypot(self.epistemic_std, self.aleatoric_std)
        z = self.residual / std
        log_p: FloatArray = -0.5 * (np.log(2.0 * np.pi * factor) + z**2 / factor) - np.log(std)
        return log_p


def pooled(parts: Sequence[OutOfFold]) -> OutOfFold:
    """Return the rows with the mean of all predictions that each of them has."""
    if len(parts) == 1:
        return parts[0]
    means = np.stack([part.mean for part in parts])
    y = parts[0].mean + parts[0].residual
    mean = means.mean(axis=0)
    rms = {
        k: np.hypot.reduce([getattr(part, k) for part in parts]) / np.sqrt(len(parts))
        for k in ("epistemic_std", "aleatoric_std")
    }
    unit = max(part.unit for part in parts)
    between = np.std(means / unit, axis=0, ddof=1) * unit
    return OutOfFold(
        mean,
        y - mean,
        **rms,
        unit=unit,
        weights=parts[0].weights,
        between=between,
        n_pooled=len(parts),
        log_jacobian=parts[0].log_jacobian,
    )


@dataclass(frozen=True)
class Squares:
    """Mean squares over rows held out, in units of the variances that the networks expected.

    Parameters
    ----------
    error : float
        Of the residuals of the mean of `n_pooled` networks.
    between : float
        Variance between single networks; 0 where each row has one prediction only.
    n_rows : float
        How many rows these are means of, or the sum of their weights.
    n_pooled : int, default=1
    n_members : int, default=1
        Of the ensemble that is to be calibrated.

    Examples
    --------
    >>> squares = Squares(error=1.0, between=0.2, n_rows=100, n_pooled=2, n_members=10)
    >>> round(squares.total, 3), round(squares.factor, 3)
    (0.92, 0.74)
    """

    error: float
    between: float
    n_rows: float
    n_pooled: int = 1
    n_members: int = 1

    @property
    def total(self) -> float:
        """What the square will be for the whole ensemble; 1 where there is no scale at all."""
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
        return replace(
            self,
            error=self.error + share * (more.error - self.error),
            between=self.between + share * (more.between - self.between),
            n_rows=n_rows,
        )
