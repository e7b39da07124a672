"""Functions of the features: networks sampled from the posterior, and gradients of predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from probprop import _kernel
from probprop._types import FloatArray
from probprop.distributions.base import moments_in_words, short_repr
from probprop.inference.inputs import Encoded, Samples, canonical, dense, is_listed, readable
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer

_PRODUCTS = 1 << 30  # of weights and rows in a block, some 100 ms; Ctrl-C is heard between blocks
_LEAST_ROWS = 256


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
        """Return f(X) of shape (n,) in target units, without noise; X has shape (n, n_features)."""
        return self._outputs(X, with_gradient=False)[0]

    def gradient(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return f(X) and its gradients with respect to the features.

        f, (n,), is in target units, its gradients, (n, n_features), per unit of each feature. f is
        piecewise linear; on the edge between two pieces the derivative is taken on the side where
        the unit is off.
        """
        return self._outputs(X, with_gradient=True)

    def _outputs(self, X: Samples, *, with_gradient: bool) -> tuple[FloatArray, FloatArray]:
        """Check X, which may be `Encoded`, and evaluate it in blocks of rows."""
        rows: Samples = X
        if not isinstance(X, Encoded):
            rows = check_array(X, accept_sparse="csr")
            rows = canonical(rows) if is_listed(rows) else rows
        n_features = self.weights[0].shape[1] - 1
        if rows.shape[1] != n_features:
            raise ValueError(
                f"X has {rows.shape[1]} features, but SampledNetwork is expecting {n_features} "
                "features as input."
            )
        step = max(_LEAST_ROWS, _PRODUCTS // sum(w.size for w in self.weights))
        blocks = (rows[start : start + step] for start in range(0, rows.shape[0], step))
        f, df_dX = zip(*(self._block(block, with_gradient) for block in blocks), strict=True)
        return np.concatenate(f), np.concatenate(df_dX)

    def _block(self, rows: Samples, with_gradient: bool) -> tuple[FloatArray, FloatArray]:
        """Return f and df_dX of rows, without a copy; df_dX is (0, 0) without derivatives."""
        scales = self.standardizer
        if is_listed(rows) and scales.x_mean.any():  # they have to be centered
            f, df_dX = self._block(dense(rows), with_gradient)
            encoded = with_gradient and isinstance(rows, Encoded)
            return f, rows.by_columns(df_dX) if encoded else df_dX
        weights = [np.ascontiguousarray(w, np.float64) for w in self.weights]
        of_target = float(scales.y_mean[0]), float(scales.y_scale[0])
        scaling = (scales.x_mean, scales.x_scale, *of_target)
        return _kernel.sampled_outputs(weights, readable(rows), *scaling, with_gradient)


def sample_network(
    posterior: Posterior, standardizer: Standardizer, random_state: RandomState
) -> SampledNetwork:
    """Draw every weight from its Gaussian, [PBP15] Eq. (8)."""
    weights = tuple(
        np.asarray(m + np.sqrt(v) * random_state.standard_normal(m.shape), np.float64)
        for m, v in zip(posterior.m_w, posterior.v_w, strict=True)
    )
    return SampledNetwork(weights, standardizer)


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """Mean and standard deviation of the targets of n samples, and their gradients.

    Noise that does not depend on the features has no gradient; it only damps the gradient of `std`.

    Parameters
    ----------
    mean, epistemic_std, aleatoric_std : ndarray of shape (n,)
        As in `Mixture`, in target units; the noise is 0 only where the target is certainly 0.
    dmean_dX, depistemic_std_dX, daleatoric_std_dX : ndarray of shape (n, n_features)
        Their derivatives, in target units per unit of each feature.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressor
    >>> meters = np.linspace(0.0, 9.0, 100).reshape(-1, 1)
    >>> euros = 20.0 * meters[:, 0] + 5.0
    >>> model = PBPRegressor(hidden_layer_sizes=(), random_state=0).fit(meters, euros)
    >>> at = model.predict_gradient([[3.0], [30.0]])
    >>> at.dmean_dX.round(1)  # euros per meter
    array([[20.],
           [20.]])
    >>> bool(at.dstd_dX[1, 0] > 0.0)  # less is known farther outside the data
    True
    """

    mean: FloatArray
    epistemic_std: FloatArray
    aleatoric_std: FloatArray
    dmean_dX: FloatArray
    depistemic_std_dX: FloatArray
    daleatoric_std_dX: FloatArray

    def __repr__(self) -> str:
        n_features = f"n_features={self.dmean_dX.shape[1]}"
        return short_repr(self, *moments_in_words(self.mean, self.std), n_features)

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the target, noise included, in target units; shape (n,)."""
        return np.asarray(np.hypot(self.epistemic_std, self.aleatoric_std))

    @property
    def dstd_dX(self) -> FloatArray:
        """Derivatives of `std`, in target units per unit of each feature; (n, n_features)."""
        std, along = self.std, np.s_[:, np.newaxis]
        std = np.where(std > 0.0, std, 1.0)  # both parts are 0 where it is
        of_model = self.depistemic_std_dX * (self.epistemic_std / std)[along]
        of_noise = self.daleatoric_std_dX * (self.aleatoric_std / std)[along]
        return of_model + of_noise
