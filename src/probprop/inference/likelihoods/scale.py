"""Residuals whose noise variance is a level times the exponential of an output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probprop._types import Array, FloatArray
from probprop.inference.engine import Engine
from probprop.inference.native import scale_mixture
from probprop.inference.noise import LogScale, Noise
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer
from probprop.reference.likelihoods import SCALE, Evidence


@dataclass(frozen=True)
class Scale:
    """The likelihood of a network that says how large residuals are.

    Parameters
    ----------
    n_outputs : int, default=1
        One per residual of a row.
    learns_tail : bool, default=False
        Whether a variance that no output explains is learned for each, which adds to theirs.

    Examples
    --------
    >>> import numpy as np
    >>> residual, variance, level = [0.3, -2.0], [0.1, 0.1], [1.0, 1.0]
    >>> Scale().encode(np.array([residual, variance, level]).T).shape
    (2, 3)
    """

    n_outputs: int = 1
    learns_tail: bool = False

    name = SCALE.name
    task = "regression"
    learns_noise = False
    weights_divide_noise = False
    standardises_target = False
    n_classes = 1
    noise_prior = (2.0, 1.0)  # not used; as of a fixed noise

    def encode(self, y: Array) -> FloatArray:
        """Check residuals, variances of their means and levels: (n, 3 K), K columns of each."""
        K = self.n_outputs
        if y.ndim != 2 or y.shape[1] != 3 * K:
            raise ValueError(
                f"y must have shape (n_samples, {3 * K}): residuals, variances of their means and "
                f"levels of the noise variance, {K} column(s) each. Got shape {y.shape}."
            )
        numbers = np.asarray(y, np.float64)
        _, variance, level = np.split(numbers, 3, axis=1)
        if not np.isfinite(numbers).all() or (variance < 0.0).any() or (level <= 0.0).any():
            raise ValueError(
                "y must hold finite residuals, variances of 0 or more and levels above 0. Got a "
                f"smallest variance of {variance.min()} and a smallest level of {level.min()}."
            )
        return numbers

    def log_Z(
        self,
        m: FloatArray,
        v: FloatArray,
        y: FloatArray,
        noise_variance: FloatArray,
        tail: FloatArray | None = None,
    ) -> Evidence:
        """Evaluate the integral over the noise variance of one point."""
        return SCALE.log_Z(m, v, y, noise_variance, tail)

    def predictive(
        self,
        mean: FloatArray,
        variance: FloatArray,
        noise: Noise,
        posterior: Posterior,
        standardizer: Standardizer,
        engine: Engine,
    ) -> LogScale:
        """Return the distribution of the logarithm of the noise variance for every row."""
        return LogScale(mean.astype(np.float64), variance.astype(np.float64) + posterior.tail)

    def log_p(self, predictive: LogScale, y: Array) -> FloatArray:
        """Return the log density of the residuals of each row together, (n,)."""
        residual, variance, level = (a.ravel() for a in np.split(y, 3, axis=1))
        mu = np.log(level) + predictive.mean.ravel()
        log_Z = scale_mixture(residual, variance, mu, predictive.variance.ravel())[0]
        log_p: FloatArray = log_Z.reshape(len(y), -1).sum(axis=1)
        return log_p

    def mixture(self, predictives: Sequence[LogScale]) -> LogScale:
        """Return the Gaussian with the moments of the equal mixture of several networks."""
        means = np.stack([p.mean for p in predictives])
        within = np.mean([p.variance for p in predictives], axis=0)
        return LogScale(means.mean(axis=0), within + means.var(axis=0))

    def point(self, predictive: LogScale) -> FloatArray:
        """Return the mean of the logarithm."""
        return predictive.mean
