"""How a prediction changes with the features, in target units per feature unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import FloatArray
from probprop.inference.standardize import Standardizer
from probprop.predictive.words import moments_in_words, short_repr


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """The predictive mean and standard deviation of n rows, and their gradients.

    The names are those of `Predictive`. Noise that does not depend on the inputs has no gradient;
    it only damps that of `std`.

    Parameters
    ----------
    mean : ndarray of shape (n,)
        Mean of the target, in target units.
    std_model : ndarray of shape (n,)
        Standard deviation of the network output under q, in target units.
    std_noise : ndarray of shape (n,)
        Standard deviation of the noise, in target units; 0 only where the target is certainly 0.
    dmean_dX : ndarray of shape (n, n_features)
        Derivatives of `mean`, in target units per unit of each feature.
    dstd_model_dX : ndarray of shape (n, n_features)
        Derivatives of `std_model`, in target units per unit of each feature.
    dstd_noise_dX : ndarray of shape (n, n_features)
        Derivatives of `std_noise`, likewise; 0 where the noise is the same everywhere.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressor
    >>> metres = np.linspace(0.0, 9.0, 100).reshape(-1, 1)
    >>> euros = 20.0 * metres[:, 0] + 5.0
    >>> model = PBPRegressor(hidden_layer_sizes=(), random_state=0).fit(metres, euros)
    >>> at = model.predict_gradient([[3.0], [30.0]])
    >>> at.dmean_dX.round(1)  # euros per metre
    array([[20.],
           [20.]])
    >>> bool(at.dstd_dX[1, 0] > 0.0)  # beyond the data, the further the less is known
    True
    """

    mean: FloatArray
    std_model: FloatArray
    std_noise: FloatArray
    dmean_dX: FloatArray
    dstd_model_dX: FloatArray
    dstd_noise_dX: FloatArray

    def __repr__(self) -> str:
        n_features = f"n_features={self.dmean_dX.shape[1]}"
        return short_repr(self, *moments_in_words(self.mean, self.std), n_features)

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the target, noise included, in target units; shape (n,)."""
        std: FloatArray = np.hypot(self.std_model, self.std_noise)
        return std

    @property
    def dstd_dX(self) -> FloatArray:
        """Derivatives of `std`, in target units per unit of each feature; (n, n_features)."""
        std, along = self.std, np.s_[:, np.newaxis]
        std = np.where(std > 0.0, std, 1.0)  # both parts are 0 where it is
        of_model = self.dstd_model_dX * (self.std_model / std)[along]
        of_noise = self.dstd_noise_dX * (self.std_noise / std)[along]
        return of_model + of_noise


def sensitivity(
    mean: FloatArray,
    variance: FloatArray,
    dmean_dX: FloatArray,
    dvariance_dX: FloatArray,
    noise_variance: ArrayLike,
    dlog_noise_variance_dX: ArrayLike,
    standardizer: Standardizer,
) -> Sensitivity:
    """Bring moments and gradients from standardised units to those of the user.

    Parameters
    ----------
    mean, variance : ndarray of shape (n,)
        Of the network output, without the noise.
    dmean_dX, dvariance_dX : ndarray of shape (n, n_features)
    noise_variance : array-like that broadcasts to (n,)
    dlog_noise_variance_dX : array-like that broadcasts to (n, n_features)
        Derivatives of its logarithm.
    standardizer : Standardizer

    Returns
    -------
    Sensitivity
    """
    std = np.sqrt(variance)
    dstd_dX = dvariance_dX / (2.0 * std)[:, np.newaxis]
    y_scale, x_scale = np.asarray(standardizer.y_scale).item(), standardizer.x_scale
    std_noise = np.broadcast_to(np.sqrt(noise_variance) * y_scale, mean.shape)
    dlog_std_noise_dX = np.broadcast_to(0.5 * np.asarray(dlog_noise_variance_dX), dmean_dX.shape)
    return Sensitivity(
        mean=mean * y_scale + standardizer.y_mean,
        std_model=std * y_scale,
        std_noise=std_noise,
        dmean_dX=dmean_dX / x_scale * y_scale,
        dstd_model_dX=dstd_dX / x_scale * y_scale,
        dstd_noise_dX=dlog_std_noise_dX / x_scale * std_noise[:, np.newaxis],
    )
