"""How a network is trained: all that is decided before the first row is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from probprop.inference.likelihoods import Likelihood
from probprop.inference.posterior import Memory

QUIET_EPOCHS = 20
"""The usual number of epochs before the tails of the noise are learned."""

_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True)
class Plan:
    """The settings of a training.

    Parameters
    ----------
    likelihood : Likelihood
        What the targets are to the outputs.
    hidden : tuple of int, default=(50,)
        Units in each hidden layer.
    noise_hidden : tuple of int or None, default=None
        The same of the network of the noise; None: the noise does not depend on the inputs.
    prior_shape, prior_rate : float, default=6.0
        Gamma hyperprior of the precision of the weights.
    refine : bool, default=True
        Whether the prior factors are refined at the end of each epoch.
    memory : float or None, default=None
        The most evidence the posterior holds, in passes over the data.
    standardize : bool, default=True
        Whether features, and targets whose likelihood wants it, are standardised.
    marginalize : bool, default=False
        Whether NaN in X is an entry that is missing.
    dtype : numpy.dtype, default=float64
        Of the weights.
    engine : str, default="native"
        A key of `probprop.inference.engine.ENGINES`.
    quiet_epochs : int, default=20
        Epochs of a training before the tails of the noise are learned: the first residuals are
        those of a network that knows nothing. At most half of those planned.
    """

    likelihood: Likelihood
    hidden: tuple[int, ...] = (50,)
    noise_hidden: tuple[int, ...] | None = None
    prior_shape: float = 6.0
    prior_rate: float = 6.0
    refine: bool = True
    memory: float | None = None
    standardize: bool = True
    marginalize: bool = False
    dtype: np.dtype[Any] = _FLOAT64
    engine: str = "native"
    quiet_epochs: int = QUIET_EPOCHS

    def quiet(self, n_epochs: int | None) -> int | None:
        """Return after how many of the epochs planned the tails of the noise begin; None: never."""
        if not self.likelihood.learns_tail:
            return None
        return self.quiet_epochs if n_epochs is None else min(self.quiet_epochs, n_epochs // 2)

    def bound(self, n: int) -> Memory | None:
        """Return the bound on the evidence, that of `memory` passes over n points."""
        if self.memory is None:
            return None
        return Memory(self.memory * n, *self.likelihood.noise_prior)
