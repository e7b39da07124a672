"""Networks drawn from the posterior: weights sampled, forward deterministic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from probprop._types import Array, FloatArray
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer
from probprop.predictive.words import short_repr


@dataclass(frozen=True, eq=False, repr=False)
class SampledNetwork:
    """One ordinary neural network with weights drawn from q, a function of X.

    Parameters
    ----------
    weights : tuple of ndarray, each (n_out, n_in + 1)
        Bias in the last column.
    standardizer : Standardizer

    Examples
    --------
    >>> from probprop import PBPRegressor
    >>> model = PBPRegressor((5,), n_epochs=2, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 5])
    >>> [f] = model.sample_functions(1, random_state=0)
    >>> f, f([[0.5], [1.5]]).shape
    (SampledNetwork(1-5-1), (2,))
    """

    weights: tuple[FloatArray, ...]
    standardizer: Standardizer

    def __repr__(self) -> str:
        sizes = [self.weights[0].shape[1] - 1, *(w.shape[0] for w in self.weights)]
        return short_repr(self, "-".join(map(str, sizes)))

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return f(X) of shape (n,) in target units, without noise.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        """
        return self._forward(X)[0]

    def gradient(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return f(X) and its gradients with respect to the features.

        f is linear in pieces; on the edge between two pieces, a null set, the derivative is that
        of the side where the unit is off.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        f : ndarray of shape (n,)
            In target units.
        df_dX : ndarray of shape (n, n_features)
            In target units per unit of each feature.
        """
        f, on = self._forward(X)
        d_a = np.ones((len(f), 1))
        for w, units_on in zip(self.weights[:0:-1], on[::-1], strict=True):
            d_a = _to_inputs(w, d_a) * units_on
        df_dX = _to_inputs(self.weights[0], d_a)  # in standardised units
        return f, df_dX / self.standardizer.x_scale * self.standardizer.y_scale

    def _forward(self, X: ArrayLike) -> tuple[FloatArray, list[Array]]:
        """Return f(X), and which units of every hidden layer are on, (n, n_out)."""
        rows: Array = check_array(X)
        n_features = self.weights[0].shape[1] - 1
        if rows.shape[1] != n_features:
            raise ValueError(
                f"X has {rows.shape[1]} features, but SampledNetwork is expecting {n_features} "
                "features as input."
            )
        z, _ = self.standardizer.transform_X(rows, np.dtype(np.float64))
        on = []
        for w in self.weights[:-1]:
            a = _linear(w, z)
            on.append(a > 0.0)
            z = np.maximum(a, 0.0)
        f = _linear(self.weights[-1], z)[:, 0]
        return f * self.standardizer.y_scale + self.standardizer.y_mean, on


def _linear(w: FloatArray, z: FloatArray) -> FloatArray:
    """Return the activations of a layer, [PBP15] section 2; shape (n, n_out)."""
    a: FloatArray = (z @ w[:, :-1].T + w[:, -1]) / np.sqrt(w.shape[1])
    return a


def _to_inputs(w: FloatArray, d_a: FloatArray) -> FloatArray:
    """Take derivatives by the activations of a layer, (n, n_out), to its inputs, (n, n_in)."""
    d_z: FloatArray = d_a @ w[:, :-1] / np.sqrt(w.shape[1])
    return d_z


def sample_network(
    posterior: Posterior, standardizer: Standardizer, random_state: RandomState
) -> SampledNetwork:
    """Draw every weight from its Gaussian, [PBP15] Eq. (8)."""
    weights = tuple(
        np.asarray(m + np.sqrt(v) * random_state.standard_normal(m.shape), np.float64)
        for m, v in zip(posterior.m_w, posterior.v_w, strict=True)
    )
    return SampledNetwork(weights, standardizer)
