"""What a likelihood has to say, so that one loop trains them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from probprop._types import Array, FloatArray
from probprop.inference.engine import Engine
from probprop.inference.noise import Noise
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer
from probprop.reference.likelihoods import Evidence


class Likelihood(Protocol):
    """What a target is to the outputs of the network.

    One file each beside this one. The compiled kernel has a policy of the same name in
    ``cpp/likelihoods``.
    """

    @property
    def name(self) -> str:
        """The name that the kernel knows it by."""

    @property
    def task(self) -> str:
        """What a network with it does: ``"regression"`` or ``"classification"``."""

    @property
    def learns_noise(self) -> bool:
        """Whether points update a Gamma of the noise precision of each output."""

    @property
    def weights_divide_noise(self) -> bool:
        """Whether a point of weight w has the noise variance over w; else w is its power."""

    @property
    def learns_tail(self) -> bool:
        """Whether epochs learn how heavy the tails of the noise of each output are."""

    @property
    def standardises_target(self) -> bool:
        """Whether the targets are brought to zero mean and unit variance."""

    @property
    def n_outputs(self) -> int:
        """Units of the last layer."""

    @property
    def n_classes(self) -> int:
        """Number of outputs of which a label is the largest; 1 where each has its own target."""

    @property
    def noise_prior(self) -> tuple[float, float]:
        """Shape and rate of the Gamma prior of the noise precision."""

    def encode(self, y: Array) -> Array:
        """Check targets and return them as numbers, (n,) or (n, K), not yet standardised."""

    def log_Z(
        self,
        m: FloatArray,
        v: FloatArray,
        y: FloatArray,
        noise_variance: FloatArray,
        tail: FloatArray | None = None,
    ) -> Evidence:
        """Evaluate log Z of one point and its derivatives, for the reference engine.

        m and v are the moments of the outputs, (K,).
        """

    def predictive(
        self,
        mean: FloatArray,
        variance: FloatArray,
        noise: Noise,
        posterior: Posterior,
        standardizer: Standardizer,
        engine: Engine,
    ) -> Any:
        """Return the predictive distribution of rows, given the moments of their outputs.

        mean and variance are (n,), or (n, K) for several outputs, and standardised; the noise is
        that of the same rows.
        """

    def log_p(self, predictive: Any, y: Array) -> FloatArray:
        """Return log p of encoded targets under their predictive distribution, (n,)."""

    def mixture(self, predictives: Sequence[Any]) -> Any:
        """Return the equal mixture of the predictive distributions of several networks."""

    def point(self, predictive: Any) -> Array:
        """Return what `predict` returns: the mean, the most probable class, or the labels."""
