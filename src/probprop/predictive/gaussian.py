"""The predictive distribution of new targets, in target units.

[PBP15] Eq. (12): the network output is Gaussian under q, the noise Student-t; the paper takes
the Gaussian that has the variance of their sum. Section 3 of the supplement looks at the error
of that step, which is small once the noise precision is well known; `student_t=True` leaves
the step out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state

from probprop._types import FloatArray
from probprop.predictive import student_t as gauss_t
from probprop.predictive import symmetric
from probprop.predictive.checks import Rows, as_rows, broadcast, check_moments, check_open_range
from probprop.predictive.protocol import TargetDistribution
from probprop.predictive.student_t_quantiles import isf
from probprop.predictive.words import moments_in_words, short_repr


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Predictive(TargetDistribution):
    """The predictive distribution of the targets of n rows, each row on its own.

    It holds standard deviations, because variances of targets near 1e-200 or 1e200 are
    outside the range of floats. Only the `var` properties square a quantity in target units.
    ``p[10:20]`` is the distribution of some rows, chosen by a slice, a mask or integers.

    Parameters
    ----------
    mean : array-like of shape (n,) or (n, K)
        Mean of the target, in target units. Where there are K targets, each target of each row
        has its own distribution, and their joint log density is the sum over the targets.
    std_model : array-like of shape (n,) or (n, K)
        Standard deviation of the network output under q, in target units; 0 or more.
    std_noise : array-like that broadcasts to the shape of mean
        sqrt(E[1/gamma]) = sqrt(beta/(alpha - 1)), in target units; above 0. A float is for
        all rows and targets, (K,) has one per target. The attribute has the shape of mean.
    alpha_noise : array-like that broadcasts to the shape of mean
        Shape alpha of the Gamma of the noise precision gamma; above 1. The attribute has the
        shape of mean.
    student_t : bool, default=False
        False: the Gaussian of [PBP15] Eq. (12), with variance std_model^2 + std_noise^2.
        True: the exact sum of N(mean, std_model^2) and Student-t noise with 2 alpha_noise
        degrees of freedom. Mean and variance are the same; the tails are heavier. It takes a
        quadrature for every distinct value of alpha_noise. Values above 1e12 count as 1e12,
        where the noise is Gaussian: at four standard deviations the density differs by 3e-11.

    Examples
    --------
    >>> from probprop import Predictive
    >>> p = Predictive([0.0, 10.0], [3.0, 0.0], std_noise=4.0, alpha_noise=6.0)
    >>> p
    Predictive(n=2, mean from 0 to 10, std from 4 to 5)
    >>> p.std, p.std_noise
    (array([5., 4.]), array([4., 4.]))
    >>> p.logpdf([0.0, 100.0]).round(2)
    array([  -2.53, -255.43])
    >>> t = Predictive(p.mean, p.std_model, p.std_noise, p.alpha_noise, student_t=True)
    >>> t.logpdf([0.0, 100.0]).round(2)
    array([ -2.5 , -27.87])
    >>> lower, upper = t[1:].interval(0.9)
    >>> upper.round(2)
    array([16.51])
    """

    mean: FloatArray
    std_model: FloatArray
    std_noise: FloatArray
    alpha_noise: FloatArray
    student_t: bool

    def __init__(
        self,
        mean: ArrayLike,
        std_model: ArrayLike,
        std_noise: ArrayLike,
        alpha_noise: ArrayLike,
        student_t: bool = False,
    ) -> None:
        mean, std_model = check_moments(("mean", "std_model"), mean, std_model, n_axes=1)
        noise: dict[str, FloatArray] = {}
        for name, value, low in (("std_noise", std_noise, 0.0), ("alpha_noise", alpha_noise, 1.0)):
            check_open_range(name, "Predictive", value, low, np.inf)
            noise[name] = broadcast(name, value, mean)
        vars(self).update(mean=mean, std_model=std_model, **noise, student_t=student_t)

    def __repr__(self) -> str:
        how = ["student_t=True"] if self.student_t else []
        return short_repr(self, *moments_in_words(self.mean, self.std), *how)

    def __getitem__(self, rows: Rows) -> Self:
        return self._at(as_rows(rows))

    def targets(self) -> list[Self]:
        if self.mean.ndim == 1:
            return [self]
        return [self._at(np.s_[:, k]) for k in range(self.mean.shape[1])]

    def logpdf(self, y: ArrayLike) -> FloatArray:
        z = self._standardise(y)
        if self.student_t:
            log_p = self._of_each_alpha(gauss_t.logpdf, z)
        else:
            with np.errstate(over="ignore"):  # -inf is right beyond 1e154 standard deviations
                log_p = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi)
        return log_p - np.log(self.std)

    def cdf(self, y: ArrayLike) -> FloatArray:
        z = self._standardise(y)
        if self.student_t:
            cdf: FloatArray = np.exp(self._of_each_alpha(gauss_t.log_sf, -z))
        else:
            cdf = ndtr(z)
        return cdf

    def quantile(self, q: ArrayLike) -> FloatArray:
        return symmetric.quantile("Predictive", self.mean, self._half_width, q)

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        return symmetric.interval("Predictive", self.mean, self._half_width, level)

    def sample(self, n_samples: int, random_state: int | RandomState | None = None) -> FloatArray:
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

    def _at(self, index: Any) -> Self:
        """The distribution of some of the entries of (n,) or (n, K)."""
        return type(self)(
            self.mean[index],
            self.std_model[index],
            self.std_noise[index],
            self.alpha_noise[index],
            self.student_t,
        )

    def _standardise(self, y: ArrayLike) -> FloatArray:
        """Residuals in units of the standard deviation, in the shape of y against (n,)."""
        with np.errstate(over="ignore"):
            return (np.asarray(y, dtype=np.float64) - self.mean) / self.std

    def _log_ratio(self) -> FloatArray:
        """log(std_model / std_noise), shape (n,); -inf where the model is certain."""
        with np.errstate(divide="ignore"):
            log_ratio: FloatArray = np.log(self.std_model) - np.log(self.std_noise)
        return log_ratio

    def _of_each_alpha(
        self, function: Callable[[FloatArray, FloatArray, float], FloatArray], z: FloatArray
    ) -> FloatArray:
        """Apply a function of `student_t`, which takes one alpha, to z.

        z broadcasts against (n,) or (n, K).
        """
        log_ratio, alpha = self._log_ratio(), np.minimum(self.alpha_noise, gauss_t.LARGEST_ALPHA)
        alphas = np.unique(alpha)
        if len(alphas) == 1:
            return function(z, log_ratio, float(alphas[0]))
        z, log_ratio, alpha = np.broadcast_arrays(z, log_ratio, alpha)
        found = np.empty(z.shape)
        for value in alphas:
            own = alpha == value
            found[own] = function(z[own], log_ratio[own], float(value))
        return found

    def _half_width(self, tail: FloatArray) -> FloatArray:
        """Distance from the mean with probability `tail` beyond it, in target units.

        `tail` is at most 1/2 and broadcasts against (n,).
        """
        z = self._of_each_alpha(isf, tail) if self.student_t else -ndtri(tail)
        return self.std * z
