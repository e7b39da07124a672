"""VariationalRegressor: the stochastic variational method of [G11], the VI of [PBP15].

The posterior of the weights is approximated by q(W) = product of N(m_w, std_w^2), which
maximizes a lower bound of the log evidence,

    bound = sum_n E_q[log N(y_n | f(x_n; W), v_noise)] - KL(q || product of N(0, v_prior)).

A step takes one point and one sample W = m_w + std_w eps, eps ~ N(0, 1), and follows the
gradient of the point's share of the bound, `sampled_bound`, with respect to m_w and log std_w.
Its expectation over points and samples is the gradient of the bound divided by n.

Differs from [G11]: its gradient for std_w^2 takes half the squared gradient with respect to the
sampled weight instead of half the second derivative, which is biased. Here the sampled bound
itself is differentiated, as [PBP15] section 4 describes VI. The gradient for m_w is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from probprop.distributions.functions import SampledNetwork
from probprop.distributions.mixture import Mixture
from probprop.estimators.validation import check_above, check_inputs, check_layer_sizes
from probprop_lab.baselines.backprop import check_descent, check_error, epoch_orders
from probprop_lab.baselines.base import Baseline, mixture, scalar, training_data
from probprop_lab.baselines.jax_setup import double_precision
from probprop_lab.baselines.network import Weights, initial_weights, output

_N_SAMPLES = 100  # networks in the predictive mixture
_LEAST_NOISE_VARIANCE = 1e-12  # standardized; reached when the target is constant
_BLOCK = 200  # steps whose samples are drawn together, which is faster than one by one


State = TypeVar("State")


class Q(NamedTuple):
    """The factorized Gaussian over all weights, layer after layer, (n_weights,).

    Flat, because a step is then a few operations over one array: with an array per layer it takes
    half as long again.
    """

    m_w: jax.Array
    log_std_w: jax.Array


class Variances(NamedTuple):
    """The two variances that are fitted with q, in standardized units."""

    noise: jax.Array
    prior: jax.Array


class VariationalRegressor(Baseline):
    """Bayesian neural network regression by stochastic variational inference.

    The method is by [G11]_. The weights of a ReLU network have a factorized Gaussian posterior,
    found by stochastic gradient ascent on the variational bound, one point and one sample of the
    weights at a time, with momentum. It starts at means as small as in PBP.

    After each epoch the two variances are set to maximize the bound. For the prior of the
    weights, N(0, v_prior), that is the mean of m_w^2 + std_w^2, in closed form. For the noise it
    is the expected squared residual, estimated by the residuals of the samples of that epoch.
    [PBP15] has Gamma distributions instead.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer. An empty sequence is a linear model.
    learning_rate : float, default=0.01
        Above 0; it multiplies the gradient of the bound per point. [PBP15] finds this one and
        the next by a search, as `tuned` does.
    momentum : float, default=0.5
        At least 0 and below 1.
    initial_std : float, default=0.5
        Standard deviation of every weight at the start; above 0. From a small one, such as 0.1,
        the prior variance of a few hundred rows can collapse to 0 before the means have grown:
        the network then predicts a constant. From a large one, 40 epochs of a few thousand rows
        leave q wider than it would become. [PBP15] does not print its own; `tuned` finds it.
    n_epochs : int, default=40
        Epochs: passes over the data.
    random_state : int, RandomState instance or None, default=None
        Draws the initial means, the order of the points in each epoch, the samples of training
        and, at the end of it, the 100 networks that predict.

    Attributes
    ----------
    networks_ : tuple of SampledNetwork
        Functions drawn from q; their mixture is the predictive distribution.
    m_w_, std_w_ : tuple of ndarray of shape (n_out, n_in + 1)
        Means and standard deviations of the weights under q.
    standardizer_ : Standardizer
        Means and scales of the training data.
    noise_variance_ : float
        Variance of the noise, in target units squared; at least 1e-12 of the target's.
    prior_variance_ : float
        Variance of the weights' prior.
    bound_ : ndarray of shape (n_epochs,)
        The bound in each epoch, in target units: an estimate from one sample per point, drawn
        from q as it was then, and the KL divergence of q at the end of the epoch.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had string column names.

    References
    ----------
    .. [G11] A. Graves, "Practical Variational Inference for Neural Networks", NIPS 2011.
    .. [PBP15] J. M. Hernández-Lobato and R. P. Adams, "Probabilistic Backpropagation for
       Scalable Learning of Bayesian Neural Networks", ICML 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from probprop_lab.baselines import VariationalRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = VariationalRegressor(10, n_epochs=20, random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    >>> bool(model.bound_[-1] > model.bound_[0])
    True
    """

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (50,),
        *,
        learning_rate: float = 0.01,
        momentum: float = 0.5,
        initial_std: float = 0.5,
        n_epochs: int = 40,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.initial_std = initial_std
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
        check_above("initial_std", self.initial_std, 0.0)
        data = training_data(self, X, y)
        random_state = data.random_state
        sizes = [data.rows.shape[1], *check_layer_sizes(self.hidden_layer_sizes), 1]
        # The means start as PBP's do, smaller than a network without variances could use.
        start = tuple(w / np.sqrt(w.shape[1]) for w in initial_weights(sizes, random_state))
        orders = epoch_orders(len(data.ys), self.n_epochs, random_state)
        with double_precision():
            key = jax.random.key(random_state.randint(2**31))
            steps = float(self.learning_rate), float(self.momentum), float(self.initial_std)
            found = ascend(start, data.Xs, data.ys, orders, key, *steps)
            m_w, std_w, variances, bounds = jax.tree.map(np.asarray, found)
        # A bound is finite only if all of q is.
        check_error(self, variances.noise if np.isfinite(bounds[-1]) else np.inf)
        self.networks_ = tuple(
            SampledNetwork(
                tuple(
                    m + std * random_state.standard_normal(m.shape)
                    for m, std in zip(m_w, std_w, strict=True)
                ),
                data.standardizer,
            )
            for _ in range(_N_SAMPLES)
        )
        self.m_w_, self.std_w_ = m_w, std_w
        self.standardizer_ = data.standardizer
        scale = scalar(data.standardizer.y_scale)
        self.noise_variance_ = float(variances.noise) * scale**2
        self.prior_variance_ = float(variances.prior)
        self.bound_ = bounds - len(data.ys) * np.log(scale)
        return self

    def predict_distribution(self, X: ArrayLike) -> Mixture:
        """Return the mixture, over networks drawn from q, of Gaussians around their outputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Mixture
            In target units.
        """
        check_is_fitted(self)
        rows = check_inputs(self, X)
        means = np.stack([network(rows) for network in self.networks_])
        return mixture(means, self.noise_variance_**0.5)


# ---- The bound


def kl_divergence(q: Q, v_prior: jax.Array) -> jax.Array:
    """Return KL(q || product of N(0, v_prior))."""
    squares = jnp.exp(q.log_std_w) ** 2 + q.m_w**2
    return jnp.sum(0.5 * (squares / v_prior - 1.0 + jnp.log(v_prior)) - q.log_std_w)


def log_normal(squared_residual: jax.Array, v_noise: jax.Array) -> jax.Array:
    """Return log N(y | f, v_noise) from (y - f)^2."""
    return -0.5 * (squared_residual / v_noise + jnp.log(2.0 * jnp.pi * v_noise))


def sampled_bound(
    q: Q,
    eps: jax.Array,
    x: jax.Array,
    y: jax.Array,
    variances: Variances,
    n: int,
    layers: Callable[[jax.Array], Weights],
) -> tuple[jax.Array, jax.Array]:
    """Return one point's share of the bound with one sample, and its squared residual.

    Parameters
    ----------
    q : Q
    eps : array of shape (n_weights,)
        Drawn from N(0, 1).
    x : array of shape (n_features,)
    y : array of shape ()
    variances : Variances
    n : int
        Number of points, among which the KL divergence is shared.
    layers : callable
        From all weights, (n_weights,), to one array per layer.
    """
    w = q.m_w + jnp.exp(q.log_std_w) * eps
    squared_residual = (y - output(layers(w), x)) ** 2
    share = kl_divergence(q, variances.prior) / n
    return log_normal(squared_residual, variances.noise) - share, squared_residual


def best_prior_variance(q: Q) -> jax.Array:
    """Return the v_prior that maximizes the bound: the mean of E_q[w^2]."""
    return jnp.mean(jnp.exp(q.log_std_w) ** 2 + q.m_w**2)


# ---- Training


@jax.jit
def ascend(
    weights: Weights,
    X: jax.Array,
    y: jax.Array,
    orders: jax.Array,
    key: jax.Array,
    learning_rate: float,
    momentum: float,
    initial_std: float,
) -> tuple[Weights, Weights, Variances, jax.Array]:
    """Ascend the bound one point at a time; all epochs in one call, compiled once per shape.

    Parameters
    ----------
    weights : tuple of array of shape (n_out, n_in + 1)
        Initial means.
    X : array of shape (n, n_features)
        Standardized.
    y : array of shape (n,)
        Standardized.
    orders : array of int of shape (n_epochs, n)
        The points in the order of each epoch.
    key : jax.random.key
    learning_rate, momentum, initial_std : float

    Returns
    -------
    m_w, std_w : tuple of array of shape (n_out, n_in + 1)
        Means and standard deviations of the weights under q.
    variances : Variances
    bounds : array of shape (n_epochs,)
        The estimate of the bound in each epoch, before the variances move.
    """
    n = len(y)
    start, layers = ravel_pytree(weights)
    gradient = jax.grad(sampled_bound, has_aux=True)

    def epoch(
        state: tuple[Q, Q, Variances], draws: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[Q, Q, Variances], jax.Array]:
        q, steps, variances = state
        order, key = draws

        def point(
            state: tuple[Q, Q], draw: tuple[jax.Array, jax.Array]
        ) -> tuple[tuple[Q, Q], jax.Array]:
            q, steps = state
            i, eps = draw
            ascent, squared_residual = gradient(q, eps, X[i], y[i], variances, n, layers)
            steps = jax.tree.map(lambda s, g: momentum * s + learning_rate * g, steps, ascent)
            return (jax.tree.map(jnp.add, q, steps), steps), squared_residual

        def block(
            state: tuple[Q, Q], draws: tuple[jax.Array, jax.Array]
        ) -> tuple[tuple[Q, Q], jax.Array]:
            order, keys = draws
            return jax.lax.scan(point, state, (order, draw_samples(keys, start)))

        (q, steps), squared = scan_blocks(block, (q, steps), (order, jax.random.split(key, n)))
        log_likelihood = jnp.sum(log_normal(squared, variances.noise))
        bound = log_likelihood - kl_divergence(q, variances.prior)
        v_noise = jnp.maximum(jnp.mean(squared), _LEAST_NOISE_VARIANCE)
        return (q, steps, Variances(v_noise, best_prior_variance(q))), bound

    q = Q(start, jnp.broadcast_to(jnp.log(initial_std), start.shape))
    at_rest = jax.tree.map(jnp.zeros_like, q)
    keys = jax.random.split(key, len(orders))
    begin = q, at_rest, Variances(jnp.ones(()), jnp.ones(()))
    (q, _, variances), bounds = jax.lax.scan(epoch, begin, (orders, keys))
    return layers(q.m_w), layers(jnp.exp(q.log_std_w)), variances, bounds


def draw_samples(keys: jax.Array, like: jax.Array) -> jax.Array:
    """Draw N(0, 1) for each of the keys, in the shape and the type of an array.

    In single precision, which is twice as fast: the samples need no more.
    """
    eps = jax.vmap(lambda key: jax.random.normal(key, like.shape, jnp.float32))(keys)
    return eps.astype(like.dtype)


def scan_blocks(
    block: Callable[..., tuple[State, jax.Array]], state: State, rows: tuple[jax.Array, jax.Array]
) -> tuple[State, jax.Array]:
    """Go through rows in blocks of `_BLOCK`, and the rest as one more.

    Parameters
    ----------
    block : callable
        From the state and a block of rows to the next state and one number per row.
    state : State
    rows : tuple of array
        Arrays of the same length.

    Returns
    -------
    state : State
    found : array of shape (n,)
    """
    n_blocks, rest = divmod(len(rows[0]), _BLOCK)
    end = n_blocks * _BLOCK
    whole = jax.tree.map(lambda a: a[:end].reshape(n_blocks, _BLOCK, *a.shape[1:]), rows)
    state, found = jax.lax.scan(block, state, whole)
    found = found.ravel()
    if rest:
        state, last = block(state, jax.tree.map(lambda a: a[end:], rows))
        found = jnp.concatenate([found, last])
    return state, found
