"""A network whose weights were drawn from q: its output, and the derivatives by its features.

Nothing is uncertain here, so this is the network of [PBP15] section 2 itself. `cpp/sampled.hpp`
computes the same, in units of the data.
"""

from __future__ import annotations

import numpy as np

from probprop._types import Array, FloatArray

Weights = tuple[FloatArray, ...]
"""One array per layer, (n_out, n_in + 1), bias in the last column."""


def output(weights: Weights, X: FloatArray) -> FloatArray:
    """Return f at every row of X, both standardized; shape (n,)."""
    return _forward(weights, X)[0]


def output_and_gradient(weights: Weights, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return f, (n,), and its derivatives by the features, (n, D), all standardized.

    Where an activation is 0 exactly, its unit counts as off.
    """
    f, on = _forward(weights, X)
    d_a = np.ones((len(f), 1))
    for w, units_on in zip(weights[:0:-1], on[::-1], strict=True):
        d_a = _to_inputs(w, d_a) * units_on
    return f, _to_inputs(weights[0], d_a)


def _forward(weights: Weights, X: FloatArray) -> tuple[FloatArray, list[Array]]:
    """Return f(X), and of every hidden layer which units are on, (n, n_out)."""
    z, on = X, []
    for w in weights[:-1]:
        a = _linear(w, z)
        on.append(a > 0.0)
        z = np.maximum(a, 0.0)
    return _linear(weights[-1], z)[:, 0], on


def _linear(w: FloatArray, z: FloatArray) -> FloatArray:
    """Return the activations of a layer, [PBP15] section 2; shape (n, n_out)."""
    a: FloatArray = (z @ w[:, :-1].T + w[:, -1]) / np.sqrt(w.shape[1])
    return a


def _to_inputs(w: FloatArray, d_a: FloatArray) -> FloatArray:
    """Take derivatives by the activations of a layer, (n, n_out), to its inputs, (n, n_in)."""
    d_z: FloatArray = d_a @ w[:, :-1] / np.sqrt(w.shape[1])
    return d_z
