"""The predictive distribution of new targets, in target units.

[PBP15] Eq. (12): the network output is Gaussian under q, the noise Student-t; the paper takes
the Gaussian that has the variance of their sum. Section 3 of the supplement looks at the error
of that step, which is small once the noise precision is well known; `student_t=True` leaves
the step out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state

from probprop._types import FloatArray
from probprop.inference.posterior import PerTarget
from probprop.predictive import student_t as gauss_t


@dataclass(frozen=True, eq=False)
class Predictive:
    """The predictive distribution of the targets of n rows, each row on its own.

    It holds standard deviations, because variances of targets near 1e-200 or 1e200 are
    outside the range of floats. Only the `var` properties square a quantity in target units.

    Parameters
    ----------
    mean : ndarray of shape (n,) or (n, K)
        Mean of the target, in target units. Where there are K targets, all shapes below end
        with K: each target of each row has its own distribution, and their joint log density
        is the sum over the targets.
    std_model : ndarray of shape (n,) or (n, K)
        Standard deviation of the network output under q, in target units; 0 or more.
    std_noise : float, or ndarray of shape (K,)
        sqrt(E[1/gamma]) = sqrt(beta/(alpha - 1)), in target units; above 0.
    alpha_noise : float, or ndarray of shape (K,)
        Shape alpha of the Gamma of the noise precision gamma; above 1.
    student_t : bool, default=False
        False: the Gaussian of [PBP15] Eq. (12), with variance std_model^2 + std_noise^2.
        True: the exact sum of N(mean, std_model^2) and Student-t noise with 2 alpha_noise
        degrees of freedom. Mean and variance are the same; the tails are heavier.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop.predictive.gaussian import Predictive
    >>> p = Predictive(np.array([0.0, 10.0]), np.array([3.0, 0.0]), 4.0, 6.0)
    >>> p.std
    array([5., 4.])
    >>> p.logpdf([0.0, 100.0]).round(2)
    array([  -2.53, -255.43])
    >>> t = Predictive(p.mean, p.std_model, p.std_noise, p.alpha_noise, student_t=True)
    >>> t.logpdf([0.0, 100.0]).round(2)
    array([ -2.5 , -27.87])
    >>> lower, upper = t.interval(0.9)
    >>> upper.round(2)
    array([ 8.18, 16.51])
    """

    mean: FloatArray
    std_model: FloatArray
    std_noise: PerTarget
    alpha_noise: PerTarget
    student_t: bool = False

    def __post_init__(self) -> None:
        if self.mean.ndim not in (1, 2) or self.std_model.shape != self.mean.shape:
            raise ValueError(
                "'mean' and 'std_model' must be arrays of the same shape, (n,) or (n, K). "
                f"Got shapes {self.mean.shape} and {self.std_model.shape} instead."
            )
        for name in ("std_noise", "alpha_noise"):
            if (shape := np.shape(getattr(self, name))) != self.mean.shape[1:]:
                raise ValueError(
                    f"{name!r} must have a value per target, the shape {self.mean.shape[1:]}. "
                    f"Got {shape} instead."
                )
        bad = self.std_model[~((self.std_model >= 0.0) & (self.std_model < np.inf))]
        if bad.size:
            raise ValueError(
                "'std_model' must be an array with values in the range [0.0, inf). "
                f"Got {float(bad[0])} instead."
            )
        check_open_range("std_noise", "", self.std_noise, 0.0, np.inf)
        check_open_range("alpha_noise", "", self.alpha_noise, 1.0, np.inf)

    @property
    def var_model(self) -> FloatArray:
        """Variance of the network output under q, in target units squared; shape (n,)."""
        return self.std_model**2

    @property
    def var_noise(self) -> FloatArray:
        """Variance of the noise, in target units squared; shape (n,), the same in every row."""
        return np.full(self.mean.shape, np.square(self.std_noise))

    @property
    def var(self) -> FloatArray:
        """Variance of the target: var_model + var_noise; shape (n,)."""
        return self.var_model + self.var_noise

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the target, noise included, in target units; shape (n,)."""
        std: FloatArray = np.hypot(self.std_model, self.std_noise)
        return std

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Log density of targets.

        Parameters
        ----------
        y : array_like, broadcasts against (n,)
            Targets, in target units.

        Returns
        -------
        ndarray
            Log density, per target unit, in the broadcast shape.

        Examples
        --------
        >>> import numpy as np
        >>> p = Predictive(np.array([1.0]), np.array([0.0]), 2.0, 6.0)
        >>> p.logpdf([[1.0], [3.0]]).round(4)
        array([[-1.6121],
               [-2.1121]])
        """
        z = self._standardise(y)
        if self.student_t:
            log_p = self._per_target(gauss_t.logpdf, z)
        else:
            with np.errstate(over="ignore"):  # -inf is right beyond 1e154 standard deviations
                log_p = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi)
        return log_p - np.log(self.std)

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Probability of a target at or below y; accurate in the lower tail too.

        Parameters
        ----------
        y : array_like, broadcasts against (n,)
            Targets, in target units.

        Returns
        -------
        ndarray
            Probabilities, in the broadcast shape.

        Examples
        --------
        >>> import numpy as np
        >>> p = Predictive(np.array([1.0]), np.array([0.0]), 2.0, 6.0, student_t=True)
        >>> p.cdf([[1.0], [5.0]]).round(4)
        array([[0.5   ],
               [0.9755]])
        """
        z = self._standardise(y)
        if self.student_t:
            cdf: FloatArray = np.exp(self._per_target(gauss_t.log_sf, -z))
        else:
            cdf = ndtr(z)
        return cdf

    def quantile(self, q: ArrayLike) -> FloatArray:
        """The targets below which there is probability q.

        Parameters
        ----------
        q : float or array_like
            Probabilities, strictly between 0 and 1.

        Returns
        -------
        ndarray of shape q.shape + (n,)
            Quantiles, in target units.

        Examples
        --------
        >>> import numpy as np
        >>> p = Predictive(np.array([0.0, 10.0]), np.array([3.0, 0.0]), 4.0, 6.0)
        >>> p.quantile([0.1, 0.5]).round(2)
        array([[-6.41,  4.87],
               [ 0.  , 10.  ]])
        """
        q = np.asarray(q, dtype=np.float64)
        check_open_range("q", " of Predictive.quantile", q, 0.0, 1.0)
        q = q.reshape(q.shape + (1,) * self.mean.ndim)
        half_width = self._half_width(np.minimum(q, 1.0 - q))
        return self.mean + np.where(q < 0.5, -half_width, half_width)

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """The central interval that holds a target with probability `level`.

        Parameters
        ----------
        level : float, default=0.95
            Probability inside, strictly between 0 and 1.

        Returns
        -------
        lower, upper : ndarray of shape (n,)
            Ends of the interval, in target units.

        Examples
        --------
        >>> import numpy as np
        >>> p = Predictive(np.array([0.0, 10.0]), np.array([3.0, 0.0]), 4.0, 6.0)
        >>> lower, upper = p.interval(0.9)
        >>> lower.round(2), upper.round(2)
        (array([-8.22,  3.42]), array([ 8.22, 16.58]))
        """
        check_open_range("level", " of Predictive.interval", level, 0.0, 1.0)
        half_width = self._half_width(np.asarray(0.5 * (1.0 - level)))
        return self.mean - half_width, self.mean + half_width

    def sample(self, n_samples: int, random_state: int | RandomState | None = None) -> FloatArray:
        """Draw targets. Rows are drawn independently of each other.

        Parameters
        ----------
        n_samples : int
            Draws per row.
        random_state : int, RandomState instance or None, default=None
            Pass an int for the same draws in every call.

        Returns
        -------
        ndarray of shape (n_samples, n)
            Draws, in target units.

        Examples
        --------
        >>> import numpy as np
        >>> p = Predictive(np.array([0.0, 10.0]), np.array([3.0, 0.0]), 4.0, 6.0)
        >>> p.sample(3, random_state=0).shape
        (3, 2)
        """
        rng = check_random_state(random_state)
        shape = (n_samples, *self.mean.shape)
        if self.student_t:
            # Student-t with 2 alpha degrees of freedom has variance alpha/(alpha - 1).
            alpha = self.alpha_noise
            noise = np.sqrt((alpha - 1.0) / alpha) * rng.standard_t(2.0 * alpha, shape)
            model = rng.standard_normal(shape)
            draws: FloatArray = self.mean + self.std_model * model + self.std_noise * noise
        else:
            draws = self.mean + self.std * rng.standard_normal(shape)
        return draws

    def _standardise(self, y: ArrayLike) -> FloatArray:
        """Residuals in units of the standard deviation, in the shape of y against (n,)."""
        with np.errstate(over="ignore"):
            return (np.asarray(y, dtype=np.float64) - self.mean) / self.std

    def _log_ratio(self) -> FloatArray:
        """log(std_model / std_noise), shape (n,); -inf where the model is certain."""
        with np.errstate(divide="ignore"):
            log_ratio: FloatArray = np.log(self.std_model) - np.log(self.std_noise)
        return log_ratio

    def _per_target(
        self, function: Callable[[FloatArray, FloatArray, float], FloatArray], z: FloatArray
    ) -> FloatArray:
        """Apply a function of `student_t` to z, which broadcasts against (n,) or (n, K).

        The functions take one alpha.
        """
        log_ratio = self._log_ratio()
        if isinstance(self.alpha_noise, float):
            return function(z, log_ratio, self.alpha_noise)
        z = np.broadcast_to(z, np.broadcast_shapes(z.shape, self.mean.shape))
        each = [
            function(z[..., k], log_ratio[:, k], float(alpha))
            for k, alpha in enumerate(self.alpha_noise)
        ]
        return np.stack(each, axis=-1)

    def _half_width(self, tail: FloatArray) -> FloatArray:
        """Distance from the mean with probability `tail` beyond it, in target units.

        `tail` is at most 1/2 and broadcasts against (n,).
        """
        z = self._per_target(gauss_t.isf, tail) if self.student_t else -ndtri(tail)
        return self.std * z


def check_open_range(name: str, of: str, value: ArrayLike, low: float, high: float) -> None:
    """Raise a ValueError in scikit-learn's words unless low < value < high everywhere."""
    values = np.asarray(value, dtype=np.float64)
    bad = values[~((values > low) & (values < high))]
    if bad.size:
        raise ValueError(
            f"The {name!r} parameter{of or ' of Predictive'} must be a float in the range "
            f"({low}, {high}). Got {float(bad[0])} instead."
        )
