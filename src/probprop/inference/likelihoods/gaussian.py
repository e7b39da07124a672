"""Values with Gaussian noise, whose precision is learned for each target: [PBP15] Eq. (1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.mixture import Mixture
from probprop.inference.engine import Engine
from probprop.inference.noise import Noise
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer
from probprop.reference.likelihoods import GAUSSIAN, Evidence


@dataclass(frozen=True)
class Gaussian:
    """The likelihood of a regression with one target or several.

    Parameters
    ----------
    n_targets : int, default=1
    noise_shape, noise_rate : float, default=6.0
        Gamma prior of the noise precision, in units of the standardised target.

    Examples
    --------
    >>> import numpy as np
    >>> Gaussian(n_targets=2).encode(np.array([[1.0, 2.0]])).shape
    (1, 2)
    """

    n_targets: int = 1
    noise_shape: float = 6.0
    noise_rate: float = 6.0

    name = GAUSSIAN.name
    task = "regression"
    learns_noise = True
    learns_tail = False
    n_classes = 1
    weights_divide_noise = True
    standardises_target = True

    @property
    def n_outputs(self) -> int:
        """One per target."""
        return self.n_targets

    @property
    def noise_prior(self) -> tuple[float, float]:
        """Shape and rate of the Gamma of [PBP15] Eq. (1)."""
        return float(self.noise_shape), float(self.noise_rate)

    def encode(self, y: Array) -> Array:
        """Return the targets, floats; refuse more or fewer of them in each row than before."""
        if count_targets(y) != self.n_targets:
            raise ValueError(
                f"y has {count_targets(y)} target(s) in each row, but the model was fitted on "
                f"{self.n_targets}."
            )
        return y

    def log_Z(
        self,
        m: FloatArray,
        v: FloatArray,
        y: FloatArray,
        noise_variance: FloatArray,
        tail: FloatArray | None = None,
    ) -> Evidence:
        """Evaluate [PBP15] Eq. (12) of one point."""
        return GAUSSIAN.log_Z(m, v, y, noise_variance, tail)

    def predictive(
        self,
        mean: FloatArray,
        variance: FloatArray,
        noise: Noise,
        posterior: Posterior,
        standardizer: Standardizer,
        engine: Engine,
    ) -> Mixture:
        """Return the Gaussian of [PBP15] Eq. (12) for every row, in target units.

        Where the variance of the noise is not certain, the mixture over what it may be.
        """
        location, scale = standardizer.y_mean, standardizer.y_scale
        # The reference engine has moments of its dtype. They keep it, but for several targets.
        several = self.n_targets > 1 and not standardizer.leaves_targets
        dtype = scale.dtype if several else mean.dtype
        in_dtype = scale.astype(dtype)
        # In place: with many rows every copy takes its time.
        in_units = mean * in_dtype
        in_units += location.astype(dtype)
        epistemic_std = np.sqrt(variance).astype(dtype, copy=False)
        epistemic_std *= in_dtype
        aleatoric_std = np.sqrt(noise.variance) * scale
        if posterior.noise_network is None and not self.learns_tail:
            return Mixture.of_one(in_units, epistemic_std, aleatoric_std)
        return Mixture.of_one(in_units, epistemic_std, aleatoric_std, tail=noise.log_scale.variance)

    def log_p(self, predictive: TargetDistribution, y: Array) -> FloatArray:
        """Return the log density of the targets of each row together, (n,)."""
        log_p = predictive.logpdf(y)
        return log_p if log_p.ndim == 1 else log_p.sum(axis=1)

    def mixture(self, predictives: Sequence[Mixture]) -> Mixture:
        """Return the equal mixture of several networks."""
        return Mixture.of(predictives)

    def point(self, predictive: TargetDistribution) -> FloatArray:
        """Return the mean."""
        return predictive.mean


def count_targets(y: Array) -> int:
    """Return K for targets of shape (n, K), 1 for (n,)."""
    return 1 if y.ndim == 1 else int(y.shape[1])
