"""Values with noise that has heavy tails: a Gaussian whose variance is log-normal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from probprop._types import FloatArray
from probprop.inference.engine import Engine
from probprop.inference.likelihoods.gaussian import Gaussian
from probprop.inference.noise import Noise
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer
from probprop.predictive.heavy import HeavyMixture, HeavyPredictive
from probprop.reference.likelihoods import HEAVY, Evidence


@dataclass(frozen=True)
class Heavy(Gaussian):
    """The likelihood of a regression whose noise has tails that are learned, one per target.

    The parameters are those of `Gaussian`. The Gamma of the noise precision is that of the level,
    around which the variance of the noise is log-normal.

    Examples
    --------
    >>> Heavy(n_targets=2).learns_tail
    True
    """

    name = HEAVY.name
    learns_tail = True

    def log_Z(
        self,
        m: FloatArray,
        v: FloatArray,
        y: FloatArray,
        noise_variance: FloatArray,
        tail: FloatArray | None = None,
    ) -> Evidence:
        """Evaluate log Z of one point by its integral over the logarithm of the noise variance."""
        return HEAVY.log_Z(m, v, y, noise_variance, tail)

    def predictive(
        self,
        mean: FloatArray,
        variance: FloatArray,
        noise: Noise,
        posterior: Posterior,
        standardizer: Standardizer,
        engine: Engine,
    ) -> HeavyPredictive:
        """Return the Gaussian plus heavy-tailed noise of every row, in target units."""
        gaussian = super().predictive(mean, variance, noise, posterior, standardizer, engine)
        return HeavyPredictive(gaussian.mean, gaussian.std_model, gaussian.std_noise, noise.v_log)

    def mixture(self, predictives: Sequence[HeavyPredictive]) -> HeavyMixture:
        """Return the equal mixture of several networks."""
        return HeavyMixture(tuple(predictives))
