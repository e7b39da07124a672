"""The gradient of the network's output moments with respect to its features.

[PBP15] sends the gradient of log Z back to the weights, S(15) to S(22). The same steps,
started from the output's mean or its variance instead of log Z, and taken one layer further,
end at the features.
"""

from __future__ import annotations

import numpy as np

from probprop._types import Array
from probprop.inference.posterior import Posterior
from probprop.reference.adf import Forward, forward, to_activations, to_inputs


def predict_gradient(posterior: Posterior, X: Array) -> tuple[Array, Array, Array, Array]:
    """Mean and variance, (n,), without the noise, and their gradients by the features, (n, D)."""
    passed = forward(posterior.m_w, posterior.v_w, np.asarray(X, posterior.dtype))
    one = np.ones_like(passed.m_out)  # (n, 1): the output layer has one unit
    dmean_dX = to_features(posterior, passed, d_m_a=one, d_v_a=0.0 * one)
    dvariance_dX = to_features(posterior, passed, d_m_a=0.0 * one, d_v_a=one)
    return passed.m_out[:, 0], passed.v_out[:, 0], dmean_dX, dvariance_dX


def to_features(posterior: Posterior, passed: Forward, d_m_a: Array, d_v_a: Array) -> Array:
    """Take a gradient from the output, where it is d_m_a and d_v_a, (n, 1), to the features."""
    layers = list(zip(posterior.m_w, posterior.v_w, passed.m_z, strict=True))
    d_m_z, d_v_z = to_inputs(*layers[-1], d_m_a, d_v_a)
    for layer, relu in zip(reversed(layers[:-1]), reversed(passed.relu), strict=True):
        d_m_z, d_v_z = to_inputs(*layer, *to_activations(relu, d_m_z, d_v_z))
    return d_m_z  # the features have no variance, so d_v_z ends here
