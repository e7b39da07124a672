"""The network of [PBP15] section 2 with one value per weight, in jax.

a = W [z; 1] / sqrt(n_in + 1), ReLU in the hidden layers, one linear output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from numpy.random import RandomState

from probprop._types import FloatArray

Weights = tuple[jax.Array, ...]
"""One array per layer, (n_out, n_in + 1), with the bias in the last column."""


def initial_weights(
    layer_sizes: Sequence[int], random_state: RandomState
) -> tuple[FloatArray, ...]:
    """Draw weights N(0, 1) to start training at.

    The activations are divided by sqrt(n_in + 1), so that with these a signal has much the same
    size in every layer; with smaller ones it fades, and from four layers on nothing is learned.

    Parameters
    ----------
    layer_sizes : sequence of int
        Units per layer from the input (bias excluded) to the output.
    random_state : RandomState

    Returns
    -------
    tuple of ndarray of shape (n_out, n_in + 1)

    Examples
    --------
    >>> from numpy.random import RandomState
    >>> [w.shape for w in initial_weights([13, 50, 1], RandomState(0))]
    [(50, 14), (1, 51)]
    """
    return tuple(
        random_state.standard_normal((n_out, n_in + 1)) for n_in, n_out in pairwise(layer_sizes)
    )


def output(weights: Weights, x: jax.Array) -> jax.Array:
    """Return the output, a scalar, for one standardized row of shape (n_features,)."""
    z = x
    for layer, w in enumerate(weights):
        a = w @ jnp.append(z, 1.0) / np.sqrt(w.shape[1])
        z = jnp.maximum(a, 0.0) if layer < len(weights) - 1 else a
    return z[0]
