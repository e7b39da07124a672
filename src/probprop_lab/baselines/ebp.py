"""EBPRegressor: expectation backpropagation, which is PBP without its variance update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from probprop.estimators.validation import (
    check_above,
    check_inputs,
    check_int,
    check_layer_sizes,
    check_training_data,
)
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Epoch, initial_posterior
from probprop.inference.training import summarize, warn_of_counts
from probprop.predictive.gaussian import Predictive
from probprop_lab.baselines.base import Baseline, standardised, standardised_data

_ENGINE = ENGINES["native"]
_NOISE = 6.0  # shape and rate of the Gamma prior of the noise precision, as in PBP
_FLOAT = np.dtype(np.float64)


class EBPRegressor(Baseline):
    """Regression by expectation backpropagation [EBP14], as section 4 of [PBP15] has it.

    The forward and backward passes are those of PBP. Of the update of a weight only the mean's
    is made, [PBP15] Eq. (6); its variance and the variance of the prior stay at
    `prior_variance`, and so the error bars know nothing of the data. The comparison with
    `PBPRegressor` shows what Eq. (7) and the refinement of the prior bring.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer. An empty sequence is a linear model.
    n_epochs : int, default=40
        Passes over the data.
    prior_variance : float, default=1.2
        Variance of every weight, before and after training. The paper says "a large initial
        value"; the default is the one PBP starts from, so that the two differ in what is
        updated and in nothing else.
    random_state : int, RandomState instance or None, default=None
        Draws the initial means of the weights, then the order of the points in each epoch.

    Attributes
    ----------
    posterior_ : Posterior
        The weights' means, and their variances as they were, in standardised units.
    standardizer_ : Standardizer
        Means and scales of the training data.
    noise_variance_ : float
        Posterior mean of the variance of the noise, in target units squared.
    history_ : list of Epoch
        One entry per pass.

    Notes
    -----
    [EBP14] is for binary targets and sign activations. This has the ReLU network and the
    continuous targets of PBP. What the paper says is fixed is fixed, the variances of the
    weights and of their prior; it does not speak of the noise, which is learned as in PBP.

    The variance is the step length of Eq. (6), so that `prior_variance` is a learning rate as
    well. On five benchmark sets (boston_housing, concrete, energy, wine_red, yacht; five
    splits each, values from 0.001 to 100) 0.1 was about the best, with errors at most 30 %
    above PBP's and a lower log-likelihood on all five; from 0.3 on, the larger it was, the
    larger was the error on every set.

    References
    ----------
    .. [EBP14] D. Soudry, I. Hubara and R. Meir, "Expectation Backpropagation: Parameter-Free
       Training of Multilayer Neural Networks with Continuous or Discrete Weights", NIPS 2014.
    .. [PBP15] J. M. Hernández-Lobato and R. P. Adams, "Probabilistic Backpropagation for
       Scalable Learning of Bayesian Neural Networks", ICML 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from probprop_lab.baselines import EBPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = EBPRegressor(random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> set(model.posterior_.v_w[0].ravel().tolist())
    {1.2}
    """

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (50,),
        *,
        n_epochs: int = 40,
        prior_variance: float = 1.2,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_epochs = n_epochs
        self.prior_variance = prior_variance
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Start afresh and make `n_epochs` passes over the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        hidden = check_layer_sizes(self.hidden_layer_sizes)
        check_int("n_epochs", self.n_epochs, 1)
        check_above("prior_variance", self.prior_variance, 0.0)
        rows, targets = check_training_data(self, X, y, reset=True)
        random_state = check_random_state(self.random_state)
        standardizer, Xs, ys = standardised_data(rows, targets)
        posterior = initial_posterior(
            [rows.shape[1], *hidden, 1],
            noise_shape=_NOISE,
            noise_rate=_NOISE,
            prior_shape=2.0,  # so that E[1/lambda] is the rate
            prior_rate=self.prior_variance,
            random_state=random_state,
            dtype=_FLOAT,
        )
        history: list[Epoch] = []
        for n_iter in range(1, self.n_epochs + 1):
            order = random_state.permutation(len(ys))
            posterior, info = _ENGINE.adf_pass(posterior, Xs, ys, order, update_variance=False)
            history.append(summarize(n_iter, posterior, standardizer, [info], sweeps=[]))
        self.posterior_, self.standardizer_, self.history_ = posterior, standardizer, history
        self.noise_variance_ = history[-1].noise_variance
        warn_of_counts(history)
        return self

    def predict_distribution(self, X: ArrayLike) -> Predictive:
        """Return the predictive distribution of the target for every row, [PBP15] Eq. (12).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Predictive
            In target units.
        """
        check_is_fitted(self)
        posterior, standardizer = self.posterior_, self.standardizer_
        Xs = standardised(standardizer, check_inputs(self, X))
        mean, variance = _ENGINE.predict_moments(posterior, Xs)
        return Predictive(
            mean=mean * standardizer.y_scale + standardizer.y_mean,
            std_model=np.sqrt(variance) * standardizer.y_scale,
            std_noise=float(np.sqrt(posterior.noise_variance)) * standardizer.y_scale,
            alpha_noise=posterior.alpha_noise,
        )
