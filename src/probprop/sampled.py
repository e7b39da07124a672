"""Networks drawn from the posterior: weights sampled, forward deterministic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from probprop.posterior import Array, FloatArray, Posterior
from probprop.standardize import Standardizer


@dataclass(frozen=True, eq=False)
class SampledNetwork:
    """One ordinary neural network with weights drawn from q, a function of X.

    Parameters
    ----------
    weights : tuple of ndarray, each (n_out, n_in + 1)
        Bias in the last column.
    standardizer : Standardizer
    """

    weights: tuple[FloatArray, ...]
    standardizer: Standardizer

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return f(X) of shape (n,) in target units, without noise.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        """
        rows: Array = check_array(X)
        n_features = self.weights[0].shape[1] - 1
        if rows.shape[1] != n_features:
            raise ValueError(
                f"X has {rows.shape[1]} features, but SampledNetwork is expecting {n_features} "
                "features as input."
            )
        z, _ = self.standardizer.transform_X(rows, np.dtype(np.float64))
        for layer, w in enumerate(self.weights):
            a = (z @ w[:, :-1].T + w[:, -1]) / np.sqrt(w.shape[1])  # [PBP15] section 2
            z = np.maximum(a, 0.0) if layer < len(self.weights) - 1 else a
        f: FloatArray = z[:, 0] * self.standardizer.y_scale + self.standardizer.y_mean
        return f


def sample_network(
    posterior: Posterior, standardizer: Standardizer, random_state: RandomState
) -> SampledNetwork:
    """Draw every weight from its Gaussian, [PBP15] Eq. (8)."""
    weights = tuple(
        np.asarray(m + np.sqrt(v) * random_state.standard_normal(m.shape), np.float64)
        for m, v in zip(posterior.m_w, posterior.v_w, strict=True)
    )
    return SampledNetwork(weights, standardizer)
