"""HMCRegressor: Hamiltonian Monte Carlo, the ground truth for the other baselines."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal, Self

import jax
import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, check_scalar

from probprop._types import Array, FloatArray
from probprop.distributions.mixture import Mixture
from probprop.estimators.validation import (
    check_above,
    check_inputs,
    check_int,
    check_layer_sizes,
    check_option,
)
from probprop_lab.baselines.base import (
    Baseline,
    in_target_units,
    mixture,
    scalar,
    standardized,
    training_data,
)
from probprop_lab.baselines.hmc_chains import network_outputs, sample_chains
from probprop_lab.baselines.hmc_sampler import ACTIVATIONS, Draws, Hyperprior, sample_posterior
from probprop_lab.baselines.jax_setup import double_precision

_ROWS_CHECKED = 100  # training rows whose predictions are diagnosed
_R_HAT_MAX = 1.05
_N_EFFECTIVE_MIN = 100
_DIVERGENT_MAX = 0.01  # share of the draws

WEAK_NOISE = {"noise_shape": 0.25, "noise_rate": 0.25 * 0.05**2}
"""A prior of the noise that a few points can leave, as parameters of `HMCRegressor`.

The noise variance has a scaled inverse chi-square prior with scale 0.05² and half a degree of
freedom, as in the regression demonstration of the MCMCstuff toolbox, which the HMC of [PBP15]
was made from.
"""


class HMCRegressor(Baseline):
    """Bayesian neural network regression by Hamiltonian Monte Carlo.

    It samples the exact posterior of the model that `PBPRegressor` approximates. It is slow,
    for small networks and data, and the ground truth for approximations. Features and target are
    standardized. The predictive distribution is a mixture over the draws.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer. An empty sequence is a linear model.
    kernel : {"nuts", "hmc"}, default="nuts"
        The no-U-turn sampler of numpyro, or plain HMC with trajectories of length pi/2, which is
        compiled for small networks and few rows, and far faster there.
    n_samples : int, default=4000
        Draws kept, all chains together, rounded up to a multiple of `n_chains`.
    n_warmup : int, default=1000
        Steps of each chain before the first draw, which adapt the step size and the mass.
    n_chains : int, default=4
        Chains, run side by side from starts about the prior.
    activation : {"relu", "probit"}, default="relu"
        Hidden units; "probit" is the distribution function of the standard Gaussian.
    prior_shape, prior_rate : float, default=6.0
        Gamma hyperprior of the precision of the weights.
    noise_shape, noise_rate : float, default=6.0
        Gamma prior of the precision of the noise, in units of the standardized target. Shapes of
        1 and less, which PBP cannot have, are allowed: see `WEAK_NOISE`.
    target_accept : float, default=0.9
        Acceptance probability that the step size is adapted to. Closer to 1, steps are
        smaller and divergences fewer.
    random_state : int, RandomState instance or None, default=None
        Draws the key of the sampler.
    verbose : int, default=0
        1 prints the diagnostics on the standard error after sampling.

    Attributes
    ----------
    draws_ : Draws
        Weights and precisions, in standardized units, with axes (chain, draw).
    r_hat_, n_effective_ : dict of str to float
        Split R-hat (1 when the chains agree) and effective sample size of: "prediction", the
        worst over the network outputs at the training inputs (100 of them at most);
        "log_density"; "prior_precision"; "noise_precision". The weights themselves are not
        diagnosed. Hidden units can be permuted without any change of the network, so chains
        that sit in different copies of the same posterior have different weights and the same
        predictions.
    n_divergent_ : int
        Draws whose trajectory diverged; there the sampler may have missed part of the posterior.
    noise_variance_ : float
        Posterior mean of the variance of the noise, in target units squared.
    prior_variance_ : float
        Posterior mean of the variance of the weights' prior.
    standardizer_ : Standardizer
        Means and scales of the training data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had string column names.

    Examples
    --------
    >>> from probprop_lab.baselines import HMCRegressor
    >>> from probprop_lab.datasets import toy_cubic
    >>> X, y = toy_cubic(20, random_state=4)
    >>> model = HMCRegressor((10,), kernel="hmc", n_warmup=500, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[0.0], [6.0]], return_std=True)
    >>> bool(std[1] > std[0])  # more epistemic uncertainty outside the data
    True
    >>> max(model.r_hat_.values()) < 1.05
    True
    """

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (50,),
        *,
        kernel: Literal["nuts", "hmc"] = "nuts",
        n_samples: int = 4000,
        n_warmup: int = 1000,
        n_chains: int = 4,
        activation: Literal["relu", "probit"] = "relu",
        prior_shape: float = 6.0,
        prior_rate: float = 6.0,
        noise_shape: float = 6.0,
        noise_rate: float = 6.0,
        target_accept: float = 0.9,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.kernel = kernel
        self.n_samples = n_samples
        self.n_warmup = n_warmup
        self.n_chains = n_chains
        self.activation = activation
        self.prior_shape = prior_shape
        self.prior_rate = prior_rate
        self.noise_shape = noise_shape
        self.noise_rate = noise_rate
        self.target_accept = target_accept
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Draw from the posterior of the network given the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self

        Warns
        -----
        ConvergenceWarning
            Where an R-hat is above 1.05, an effective sample size below 100, or more than 1 %
            of the draws diverged.
        """
        layer_sizes = self._check_parameters()
        data = training_data(self, X, y)
        Xs, standardizer = data.Xs, data.standardizer
        self.draws_ = self._sample(Xs, data.ys, data.random_state, layer_sizes)
        self.standardizer_ = standardizer
        self.noise_variance_ = float(np.mean(1.0 / self.draws_.noise_precision))
        self.noise_variance_ *= scalar(standardizer.y_scale) ** 2
        self.prior_variance_ = float(np.mean(1.0 / self.draws_.prior_precision))
        self._diagnose(Xs[:: -(-len(Xs) // _ROWS_CHECKED)])
        return self

    def predict_distribution(self, X: ArrayLike) -> Mixture:
        """Return the predictive distribution of the target for every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Mixture
            A mixture of one Gaussian per draw, in target units.
        """
        check_is_fitted(self)
        Xs = standardized(self.standardizer_, check_inputs(self, X))
        scale = scalar(self.standardizer_.y_scale)
        aleatoric_stds = self.draws_.noise_precision.ravel() ** -0.5 * scale
        return mixture(in_target_units(self.standardizer_, self._outputs(Xs)), aleatoric_stds)

    def _hyperprior(self) -> Hyperprior:
        return Hyperprior(
            prior_shape=float(self.prior_shape),
            prior_rate=float(self.prior_rate),
            noise_shape=float(self.noise_shape),
            noise_rate=float(self.noise_rate),
        )

    def _sample(
        self, Xs: FloatArray, ys: FloatArray, random_state: RandomState, sizes: tuple[int, ...]
    ) -> Draws:
        model = self._hyperprior(), float(self.target_accept)
        settings: dict[str, Any] = {
            "hidden_layer_sizes": sizes,
            "activation": self.activation,
            "n_warmup": int(self.n_warmup),
            "n_draws": -(-int(self.n_samples) // int(self.n_chains)),
            "n_chains": int(self.n_chains),
        }
        if self.kernel == "hmc":
            return sample_chains(Xs, ys, random_state, *model, **settings)
        with double_precision():
            key = jax.random.key(random_state.randint(np.iinfo(np.int32).max))
            draws = sample_posterior(Xs, ys, np.ones(len(Xs)), key, *model, **settings)
        found: Draws = jax.device_get(draws)
        return found

    def _outputs(self, Xs: Array) -> FloatArray:
        """Outputs of all drawn networks at standardized inputs, (n_chains * n_draws, n)."""
        weights = tuple(w.reshape(-1, *w.shape[2:]) for w in self.draws_.weights)
        return network_outputs(weights, Xs, self.activation)

    def _diagnose(self, Xs: Array) -> None:
        """Set the diagnostics, and warn where they are bad."""
        chains = self.draws_.log_density.shape
        diagnosed = {
            "prediction": self._outputs(Xs).reshape(*chains, -1),
            "log_density": self.draws_.log_density,
            "prior_precision": self.draws_.prior_precision,
            "noise_precision": self.draws_.noise_precision,
        }
        with np.errstate(invalid="ignore", divide="ignore"):  # chains that never moved: NaN
            self.r_hat_ = {k: float(split_gelman_rubin(v).max()) for k, v in diagnosed.items()}
            self.n_effective_ = {
                k: float(effective_sample_size(v).min()) for k, v in diagnosed.items()
            }
        self.n_divergent_ = int(self.draws_.divergent.sum())

        r_hat = np.max(list(self.r_hat_.values()))
        n_effective = np.min(list(self.n_effective_.values()))
        share_divergent = self.draws_.divergent.mean()
        found = (
            f"R-hat up to {r_hat:.3f}, effective sample size down to {n_effective:.0f}, "
            f"{self.n_divergent_} of {self.draws_.divergent.size} draws divergent"
        )
        if self.verbose:
            print(f"{self.kernel}: {found}", file=sys.stderr)
        mixed = r_hat <= _R_HAT_MAX and n_effective >= _N_EFFECTIVE_MIN  # False where NaN
        if not mixed or share_divergent > _DIVERGENT_MAX:
            warnings.warn(
                f"The draws may not represent the posterior: {found}. Increase n_warmup and "
                "n_samples, and target_accept where draws are divergent.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _check_parameters(self) -> tuple[int, ...]:
        layer_sizes = check_layer_sizes(self.hidden_layer_sizes)
        check_option("kernel", self.kernel, ["nuts", "hmc"])
        check_option("activation", self.activation, list(ACTIVATIONS))
        check_int("n_chains", self.n_chains, 1)
        check_int("n_samples", self.n_samples, 4 * self.n_chains)  # what R-hat needs
        check_int("n_warmup", self.n_warmup, 1)
        check_above("prior_shape", self.prior_shape, 0.0)
        check_above("prior_rate", self.prior_rate, 0.0)
        check_above("noise_shape", self.noise_shape, 0.0)
        check_above("noise_rate", self.noise_rate, 0.0)
        check_scalar(
            self.target_accept,
            "target_accept",
            Real,
            min_val=0.0,
            max_val=1.0,
            include_boundaries="neither",
        )
        check_int("verbose", self.verbose, 0)
        return tuple(layer_sizes)
