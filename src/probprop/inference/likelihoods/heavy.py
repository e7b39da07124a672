"""Values with noise that has heavy tails: a Gaussian whose variance is log-normal."""

from __future__ import annotations

from dataclasses import dataclass

from probprop._types import FloatArray
from probprop.inference.likelihoods.gaussian import Gaussian
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
