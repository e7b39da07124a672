"""What a likelihood gives for one point, and what the algorithm asks of a likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from probprop._types import FloatArray


class Evidence(NamedTuple):
    """log Z of one point, with its derivatives by the moments of the outputs.

    Where the noise has a tail, also those by the logarithm of its level and by the tail.
    """

    log_Z: float
    dlogZ_dm: FloatArray  # (K,)
    dlogZ_dv: FloatArray  # (K,)
    dlogZ_dlevel: FloatArray | None = None  # (K,)
    dlogZ_dtail: FloatArray | None = None  # (K,)


LogZ = Callable[..., Evidence]


class PointLikelihood(Protocol):
    """What an ADF pass must know about a likelihood."""

    @property
    def name(self) -> str:
        """Its name in the kernel."""

    @property
    def learns_noise(self) -> bool:
        """Whether points update the Gammas of the noise precisions."""

    @property
    def weights_divide_noise(self) -> bool:
        """Whether a point of weight w has the noise variance over w; else w is its power."""

    @property
    def log_Z(self) -> LogZ:
        """Evaluate log Z of one point with its derivatives, of m, v, y, noise_variance and tail.

        m and v, (K,), are the moments of the outputs; y is (K,), or (1,) for the index of a class,
        or (3 K,) for residuals; `noise_variance` is (K,), or (1,) where the noise is fixed; `tail`,
        (K,), are variances of the logarithm of the noise variance, None is 0.
        """


class Policy(NamedTuple):
    """A likelihood as a `PointLikelihood`."""

    name: str
    learns_noise: bool
    weights_divide_noise: bool
    log_Z: LogZ
