"""BackpropRegressor: stochastic gradient descent on the squared error, the BP of [PBP15]."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, check_scalar

from probprop._types import Array
from probprop.distributions.functions import SampledNetwork
from probprop.distributions.mixture import Mixture
from probprop.estimators.validation import check_above, check_inputs, check_int, check_layer_sizes
from probprop_lab.baselines.base import Baseline, gaussian, scalar, training_data
from probprop_lab.baselines.jax_setup import double_precision
from probprop_lab.baselines.network import Weights, initial_weights, output

_UNROLL = 4  # steps per turn of the compiled loop: 1.3 to 2 times as fast as one
_LEAST_NOISE_VARIANCE = 1e-12  # standardized: a network may fit every training target
_DIVERGED = 1e6  # mean squared residual, standardized: no longer a fit of anything


class BackpropRegressor(Baseline):
    """Neural network regression by backpropagation, the BP of [PBP15].

    The weights of a ReLU network are found by stochastic gradient descent, one point at a
    time in random order, on

        1/2 (f(x_n; W) - y_n)^2 + weight_decay/2 sum of W^2

    with momentum: step = momentum * step - learning_rate * gradient; W = W + step. The decay
    acts on all weights, biases included, as the prior of [PBP15] does.

    A point prediction has no distribution. To have a log-likelihood all the same, the noise is
    taken as Gaussian with the mean squared residual of the training data as its variance. The
    network was fitted to these residuals, so this variance is too small, and the log-likelihood
    suffers; [PBP15] prints none for BP.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer. An empty sequence is a linear model.
    learning_rate : float, default=0.01
        Above 0. [PBP15] finds this one and the next two with `tuned`.
    momentum : float, default=0.5
        At least 0 and below 1.
    weight_decay : float, default=1e-5
        At least 0.
    n_epochs : int, default=40
        Epochs: passes over the data.
    random_state : int, RandomState instance or None, default=None
        Draws the initial weights, then the order of the points in each epoch.

    Attributes
    ----------
    network_ : SampledNetwork
        The trained network: a function from rows to outputs in target units.
    standardizer_ : Standardizer
        Means and scales of the training data.
    noise_variance_ : float
        Mean squared residual of the training data, hence too small; target units squared. At
        least 1e-12 of the target's variance, even if the network fits every target.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had string column names.

    References
    ----------
    .. [PBP15] J. M. Hernández-Lobato and R. P. Adams, "Probabilistic Backpropagation for
       Scalable Learning of Bayesian Neural Networks", ICML 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from probprop_lab.baselines import BackpropRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BackpropRegressor(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.5)
    True
    """

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (50,),
        *,
        learning_rate: float = 0.01,
        momentum: float = 0.5,
        weight_decay: float = 1e-5,
        n_epochs: int = 40,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.n_epochs = n_epochs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train for `n_epochs` epochs from new initial weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self

        Raises
        ------
        FloatingPointError
            Training diverged: the steps were too long.
        """
        check_descent(self.learning_rate, self.momentum, self.n_epochs)
        _check_at_least_0("weight_decay", self.weight_decay, np.inf)
        data = training_data(self, X, y)
        sizes = [data.rows.shape[1], *check_layer_sizes(self.hidden_layer_sizes), 1]
        start = initial_weights(sizes, data.random_state)
        order = epoch_orders(len(data.ys), self.n_epochs, data.random_state).ravel()
        steps = self.learning_rate, self.momentum, self.weight_decay
        with double_precision():
            found = descend(start, data.Xs, data.ys, order, *map(float, steps))
        network = SampledNetwork(tuple(np.asarray(w) for w in found), data.standardizer)
        scale = scalar(data.standardizer.y_scale)
        with np.errstate(over="ignore", invalid="ignore"):  # `check_error` raises then
            residuals = (network(data.rows) - data.targets) / scale
            mean_square = float(np.mean(residuals**2))
        check_error(self, mean_square)
        self.network_ = network
        self.standardizer_ = data.standardizer
        self.noise_variance_ = max(mean_square, _LEAST_NOISE_VARIANCE) * scale**2
        return self

    def predict_distribution(self, X: ArrayLike) -> Mixture:
        """Return a Gaussian around the network's output, with the variance `noise_variance_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Mixture
            In target units. The epistemic standard deviation is 0, and the noise variance is
            taken as known.
        """
        check_is_fitted(self)
        mean = self.network_(check_inputs(self, X))
        return gaussian(mean, np.zeros_like(mean), self.noise_variance_**0.5)


def check_descent(learning_rate: float, momentum: float, n_epochs: int) -> None:
    """Raise unless the steps of stochastic gradient descent make sense."""
    check_above("learning_rate", learning_rate, 0.0)
    _check_at_least_0("momentum", momentum, 1.0)
    check_int("n_epochs", n_epochs, 1)


def _check_at_least_0(name: str, value: float, end: float) -> None:
    check_scalar(value, name, Real)
    if not 0.0 <= value < end:
        raise ValueError(f"{name} == {value}, must be in the range [0.0, {end}).")


def epoch_orders(n: int, n_epochs: int, random_state: RandomState) -> Array:
    """Return the points in the order of each epoch, shape (n_epochs, n)."""
    return np.stack([random_state.permutation(n) for _ in range(n_epochs)])


def check_error(estimator: Baseline, mean_square: float) -> None:
    """Raise if the error, in standardized units, shows that training diverged."""
    if not mean_square < _DIVERGED:
        raise FloatingPointError(
            f"Training diverged with learning_rate={estimator.learning_rate:.3g} and "
            f"momentum={estimator.momentum:.3g}: choose a smaller learning_rate or momentum, or "
            "find them with probprop_lab.baselines.tuned."
        )


@jax.jit
def descend(
    weights: Weights,
    X: jax.Array,
    y: jax.Array,
    order: jax.Array,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
) -> Weights:
    """Descend the loss one point at a time, and return the weights after the last.

    All epochs are one call, compiled once per shape: the hyperparameters are traced.

    Parameters
    ----------
    weights : tuple of array of shape (n_out, n_in + 1)
    X : array of shape (n, n_features)
        Standardized.
    y : array of shape (n,)
        Standardized.
    order : array of int of shape (n_steps,)
        The points in the order of the steps.
    learning_rate, momentum, weight_decay : float
    """

    def step(state: tuple[Weights, Weights], n: jax.Array) -> tuple[tuple[Weights, Weights], None]:
        weights, steps = state
        gradient = jax.grad(squared_error)(weights, X[n], y[n])
        steps = jax.tree.map(
            lambda w, g, s: momentum * s - learning_rate * (g + weight_decay * w),
            weights,
            gradient,
            steps,
        )
        return (jax.tree.map(jnp.add, weights, steps), steps), None

    state = weights, jax.tree.map(jnp.zeros_like, weights)
    (weights, _), _ = jax.lax.scan(step, state, order, unroll=_UNROLL)
    return weights


def squared_error(weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return 1/2 (f(x; W) - y)^2 of one point, x of shape (n_features,)."""
    return 0.5 * (output(weights, x) - y) ** 2
