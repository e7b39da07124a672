"""PBP pass by pass: where training starts, and what a posterior predicts.

For what looks at the posterior between passes, or makes passes of its own; `PBPRegressor` trains
to the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import RandomState

from probprop._types import FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Memory, Posterior, initial_posterior
from probprop.inference.standardize import Standardizer
from probprop.predictive.gaussian import Predictive
from probprop_lab.baselines.base import gaussian, in_target_units, scalar

SHAPE_AND_RATE = 6.0
"""Shape and rate of both Gammas of [PBP15], and the defaults of `PBPRegressor`."""

ENGINE = ENGINES["native"]


def start(
    n_features: int,
    hidden: Sequence[int],
    random_state: RandomState,
    *,
    prior_shape: float = SHAPE_AND_RATE,
    prior_rate: float = SHAPE_AND_RATE,
) -> Posterior:
    """Return the posterior before any point, as `PBPRegressor.fit` has it.

    Parameters
    ----------
    n_features : int
    hidden : sequence of int
        Units of each hidden layer.
    random_state : RandomState
        Draws the means of the weights.
    prior_shape, prior_rate : float, default=6.0
        Of the Gamma of the weights' precision.
    """
    return initial_posterior(
        [n_features, *hidden, 1],
        noise_shape=SHAPE_AND_RATE,
        noise_rate=SHAPE_AND_RATE,
        prior_shape=prior_shape,
        prior_rate=prior_rate,
        random_state=random_state,
        dtype=np.dtype(np.float64),
    )


def memory(n_passes: float, n: int) -> Memory:
    """Return the bound on the evidence: that of so many passes over n points."""
    return Memory(n_passes * n, SHAPE_AND_RATE, SHAPE_AND_RATE)


def predictive(posterior: Posterior, standardizer: Standardizer, Xs: FloatArray) -> Predictive:
    """Return the predictive distribution of the target, [PBP15] Eq. (12), in target units.

    Parameters
    ----------
    posterior : Posterior
    standardizer : Standardizer
    Xs : ndarray of shape (n, n_features)
        Standardised.
    """
    mean, variance = ENGINE.predict_moments(posterior, Xs)
    scale = scalar(standardizer.y_scale)
    return gaussian(
        in_target_units(standardizer, mean),
        np.sqrt(variance) * scale,
        float(np.sqrt(scalar(posterior.noise_variance))) * scale,
        scalar(posterior.alpha_noise),
    )
