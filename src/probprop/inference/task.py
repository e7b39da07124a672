"""Input and output of an engine that trains a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.inference.inputs import Samples
from probprop.inference.posterior import Memory, Posterior, Records
from probprop.inference.standardize import Standardizer
from probprop.reference.likelihoods import PointLikelihood

INFORMATIVE_RATIO = 8.0
"""A prior factor is refined only if v_cav is below this many times beta_cav/(alpha_cav - 1)."""

ONCE_INFORMATIVE_RATIO = 1.0
"""The same if every row is used once: the data must be as informative as the prior."""


class NoiseSchedule(NamedTuple):
    """How the noise network learns from the residuals of the network of the mean."""

    power: FloatArray  # (n_epochs,), powers of its likelihood, at most 1; 0: not trained
    memory: Memory | None  # the bound on its evidence


@dataclass(frozen=True, eq=False)
class Task:
    """Epochs to make over the same rows."""

    posterior: Posterior  # where they begin
    X: Samples  # (n, n_features), in the units of the features; finite
    X_var: Any  # (n, n_features), of the standardized entries, as `Inputs.std`; None: all are 0
    y: Array  # (n,) or (n, K), as the likelihood encodes them
    standardizer: Standardizer  # of X and y
    likelihood: PointLikelihood
    memory: Memory | None  # the bound on the evidence; it counts rows, whatever their weights
    refine: Array  # (n_epochs,), bool: whether each epoch refines the prior factors
    # (n_epochs, n_features), bool: of the first layer only the weights of these inputs, and of the
    # bias, are refined; None: all are
    due: Array | None = None
    groups: Array | None = None  # (n_features,), int32, as in `refine_prior`; None: one for all
    random_state: RandomState | None = None  # shuffles before each epoch; None: the order given
    noise_schedule: NoiseSchedule | None = None  # if the posterior has a noise network
    # (n,), above 0. They divide the noise variance of their rows, or are the powers of their
    # likelihoods, as the likelihood says. None: each is 1.
    weights: FloatArray | None = None
    y_var: FloatArray | None = None  # (n, K), known, of the standardized targets; adds to the noise
    power: float = 1.0  # multiplies the weights that are powers; if they divide the noise, it is 1
    tail_rate: FloatArray | None = None  # (n_epochs,), step of the tails, 0 to 1; None: they stay
    informative_ratio: float = INFORMATIVE_RATIO  # which prior factors `refine_prior` refines

    def order(self) -> Array:
        """Return the order of the next epoch, (n,)."""
        n = len(self.y)
        return np.arange(n) if self.random_state is None else self.random_state.permutation(n)


class Trained(NamedTuple):
    """The result of a task."""

    posterior: Posterior  # after the last whole epoch
    records: Records  # of the whole epochs
