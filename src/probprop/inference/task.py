"""What an engine is given to train a network, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.inference.posterior import Memory, Posterior, Records
from probprop.inference.standardize import Standardizer
from probprop.reference.likelihoods import PointLikelihood

INFORMATIVE_RATIO = 8.0
"""A prior factor is refined only if v_cav is below this many times beta_cav/(alpha_cav - 1)."""

ONCE_INFORMATIVE_RATIO = 1.0
"""The same where every row is absorbed once: the data must say as much of a weight as its prior."""


class Watch(NamedTuple):
    """How the network of the noise learns from the residuals of that of the mean.

    Parameters
    ----------
    power : ndarray of shape (n_epochs,)
        Of its likelihood, at most 1; where it is 0 the network is left alone.
    memory : Memory or None
        The bound on its evidence.
    """

    power: FloatArray
    memory: Memory | None


@dataclass(frozen=True, eq=False)
class Task:
    """Epochs to make over the same rows.

    Parameters
    ----------
    posterior : Posterior
        Where they begin.
    X : ndarray of shape (n, n_features)
        In the units of the features; finite.
    X_var : ndarray of shape (n, n_features), or None
        Variances of the standardised entries; None where all are 0.
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    standardizer : Standardizer
        Of X and y.
    likelihood : PointLikelihood
    memory : Memory or None
        The bound on the evidence.
    refine : ndarray of bool, shape (n_epochs,)
        Whether the prior factors are refined in each epoch.
    n_blocks : int
        Parts that an epoch is cut into; with refinement, each is followed by one.
    random_state : RandomState or None
        Shuffles the rows before each epoch; None: they come in the order given.
    watch : Watch or None
        If the posterior has a network of the noise.
    weights : ndarray of shape (n,), or None
        Above 0. They divide the noise variance of their rows, or are the powers of their
        likelihoods, as the likelihood says. None: each is 1. The capacity of `memory` counts rows,
        whatever they weigh.
    y_var : ndarray of shape (n, K), or None
        Known variances of the standardised targets, which add to the noise.
    tail_rate : ndarray of shape (n_epochs,), or None
        How far each epoch moves the tails of the noise, from 0 to 1; None: they stay.
    power : float
        Multiplies the weights that are powers; a likelihood whose weights divide the noise has 1.
    informative_ratio : float
        Which prior factors are refined, as in `refine_prior`.
    """

    posterior: Posterior
    X: Array
    X_var: Array | None
    y: Array
    standardizer: Standardizer
    likelihood: PointLikelihood
    memory: Memory | None
    refine: Array
    n_blocks: int = 1
    random_state: RandomState | None = None
    watch: Watch | None = None
    weights: FloatArray | None = None
    y_var: FloatArray | None = None
    power: float = 1.0
    tail_rate: FloatArray | None = None
    informative_ratio: float = INFORMATIVE_RATIO

    def order(self) -> Array:
        """Return the order of the next epoch, (n,)."""
        n = len(self.y)
        return np.arange(n) if self.random_state is None else self.random_state.permutation(n)


class Trained(NamedTuple):
    """What a task has become.

    Parameters
    ----------
    posterior : Posterior
        After the last whole epoch.
    records : Records
        Of the whole epochs.
    """

    posterior: Posterior
    records: Records
