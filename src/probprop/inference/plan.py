"""How a network is trained: all that is decided before the first update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from probprop._types import Array
from probprop.inference.inputs import Samples, columns_of
from probprop.inference.likelihoods import Likelihood
from probprop.inference.posterior import Memory

_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True)
class Plan:
    """The hyperparameters of a training."""

    likelihood: Likelihood  # of the targets, given the outputs
    hidden: tuple[int, ...] = (50,)  # units in each hidden layer
    noise_hidden: tuple[int, ...] | None = None  # of the noise network; None: there is none
    prior_shape: float = 6.0  # Gamma hyperprior of the precision of the weights
    prior_rate: float = 6.0
    prior: str = "shared"  # or "per_column": one precision per column and later layer
    refine: bool = True  # whether the prior factors are refined at the end of each epoch
    output_layer: str = "mean_field"  # or "full": see `probprop.inference.output_layer`
    evidence_cap: float | None = None  # the evidence cap
    standardize: bool = True  # whether features, and the targets of a regression, are standardized
    marginalize: bool = False  # whether NaN in X is a missing value
    dtype: np.dtype[Any] = _FLOAT64  # of the weights
    engine: str = "native"  # a key of `probprop.inference.engine.ENGINES`
    # Epochs before the tails of the noise are learned, at most half of those planned: the first
    # residuals come from a network that has learned little.
    tail_burn_in: int = 20

    @property
    def hyperprior(self) -> tuple[float, float]:
        """Shape and rate of the Gamma hyperprior of each precision.

        The precision of a column has fewer weights: its hyperprior counts half.
        """
        share = 0.5 if self.prior == "per_column" else 1.0
        return share * self.prior_shape, share * self.prior_rate

    def groups(self, X: Samples) -> Array | None:
        """Return the group of each input as `refine_prior` takes it; None: there is one."""
        return None if self.prior == "shared" else columns_of(X)

    def burn_in(self, n_epochs: int | None) -> int:
        """Return the number of planned epochs before the tails of the noise are learned."""
        return self.tail_burn_in if n_epochs is None else min(self.tail_burn_in, n_epochs // 2)

    def bound(self, n: int) -> Memory | None:
        """Return the bound on the evidence: `evidence_cap` passes over n points."""
        if self.evidence_cap is None:
            return None
        return Memory(self.evidence_cap * n, *self.likelihood.noise_prior)
