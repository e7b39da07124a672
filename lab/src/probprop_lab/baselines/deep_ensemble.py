"""A deep ensemble (Lakshminarayanan, Pritzel and Blundell, 2017), in NumPy.

Several networks, each with two outputs, the mean and the noise variance of the target, and each
trained by Adam from its own initial weights on the negative Gaussian log-likelihood. All members
are trained together: k, the first axis of every array of weights and outputs, counts them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.special import expit

from probprop._types import FloatArray
from probprop.distributions.mixture import Mixture
from probprop_lab.baselines.base import (
    Baseline,
    in_target_units,
    scalar,
    standardized,
    training_data,
)
from probprop_lab.baselines.with_std import Random

_LEAST_VARIANCE = 1e-6  # of the standardized target, as in the paper
_DECAY_MEAN, _DECAY_SQUARE, _TINY = 0.9, 0.999, 1e-8  # of Adam, its usual values

Weights = tuple[FloatArray, ...]
"""One array per layer, (k, n_in + 1, n_out), with the biases in the last row."""


class DeepEnsemble(Baseline):
    """Networks with a mean and a variance as outputs, averaged.

    The protocol follows the literature: five networks with a hidden layer of 50 rectified
    units, 40 epochs of Adam on batches of 100 rows, features and target standardized. The
    predictive distribution is the Gaussian with the mean and variance of the members' mixture.
    Two things differ from the paper: there are no adversarial rows, and the learning rate falls
    linearly from 0.01 to 0. With 0.1 throughout, as in the paper, small sets fail here; with 0.01
    throughout naval has a log-likelihood of 3.6, where 5.6 is printed and this gives 6.2.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int, default=(50,)
    n_members : int, default=5
    n_epochs : int, default=40
    batch_size : int, default=100
    learning_rate : float, default=0.01
        Learning rate of the first step.
    random_state : int, RandomState instance or None, default=None

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> mean, std = DeepEnsemble(random_state=0).fit(X, y).predict(X[:3], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((3,), True)
    """

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (50,),
        *,
        n_members: int = 5,
        n_epochs: int = 40,
        batch_size: int = 100,
        learning_rate: float = 0.01,
        random_state: Random = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_members = n_members
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to X, (n, d), and y, (n,)."""
        data = training_data(self, X, y)
        n, d = data.Xs.shape
        random, members = data.random_state, range(self.n_members)
        n_steps = self.n_epochs * math.ceil(n / self.batch_size)
        adam = start(initial_weights(self.n_members, [d, *self.hidden_layer_sizes, 2], random))
        for _ in range(self.n_epochs):
            order = np.array([random.permutation(n) for _ in members])  # each has its own
            for first in range(0, n, self.batch_size):
                rows = order[:, first : first + self.batch_size]
                slopes = gradient(adam.weights, data.Xs[rows], data.ys[rows])
                left = 1.0 - adam.n_steps / n_steps
                adam = step(adam, slopes, self.learning_rate * left)
        self.weights_, self.standardizer_ = adam.weights, data.standardizer
        return self

    def predict_distribution(self, X: ArrayLike) -> Mixture:
        """Return a Gaussian per row; the epistemic std is the spread of the members' means."""
        Xs = standardized(self.standardizer_, np.asarray(X))
        mean, variance = moments(layers(self.weights_, Xs)[-1])
        scale = scalar(self.standardizer_.y_scale)
        return Mixture.of_one(
            in_target_units(self.standardizer_, mean.mean(axis=0)),
            scale * mean.std(axis=0),
            scale * np.sqrt(variance.mean(axis=0)),
        )


# ---- The networks


def initial_weights(k: int, sizes: Sequence[int], random: RandomState) -> Weights:
    """Draw weights and biases uniformly within 1/sqrt(n_in) of 0, for each of k members.

    Examples
    --------
    >>> [w.shape for w in initial_weights(5, [13, 50, 2], RandomState(0))]
    [(5, 14, 50), (5, 51, 2)]
    """
    return tuple(
        random.uniform(-1.0, 1.0, (k, n_in + 1, n_out)) / np.sqrt(n_in)
        for n_in, n_out in pairwise(sizes)
    )


def layers(weights: Weights, X: FloatArray) -> list[FloatArray]:
    """Return the input, the hidden units and the outputs; (n, d) or (k, n, d), then (k, n, ·)."""
    z = [X]
    for w in weights:
        a = z[-1] @ w[:, :-1] + w[:, -1:]
        z.append(np.maximum(a, 0.0) if len(z) < len(weights) else a)
    return z


def moments(outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means and noise variances, (k, n) each, of outputs of shape (k, n, 2)."""
    return outputs[..., 0], np.logaddexp(0.0, outputs[..., 1]) + _LEAST_VARIANCE


def loss(weights: Weights, X: FloatArray, y: FloatArray) -> FloatArray:
    """Return each member's mean negative log-likelihood, (k,), less a constant."""
    mean, variance = moments(layers(weights, X)[-1])
    found: FloatArray = np.mean(0.5 * np.log(variance) + 0.5 * (y - mean) ** 2 / variance, axis=-1)
    return found


def gradient(weights: Weights, X: FloatArray, y: FloatArray) -> Weights:
    """Return the derivatives of each member's `loss` by its weights.

    Parameters
    ----------
    weights : tuple of ndarray of shape (k, n_in + 1, n_out)
    X : ndarray of shape (k, n, d)
    y : ndarray of shape (k, n)
    """
    z = layers(weights, X)
    mean, variance = moments(z[-1])
    by_mean = (mean - y) / variance
    by_variance = 0.5 / variance - 0.5 * by_mean**2
    # The derivative of log(1 + exp(a)) is the logistic function of a.
    by_output = np.stack([by_mean, by_variance * expit(z[-1][..., 1])], axis=-1) / y.shape[-1]
    slopes: list[FloatArray] = []
    for w, inputs in zip(reversed(weights), reversed(z[:-1]), strict=True):
        by_weight = np.swapaxes(inputs, -1, -2) @ by_output
        slopes.append(np.concatenate([by_weight, by_output.sum(axis=-2, keepdims=True)], axis=-2))
        by_output = (by_output @ np.swapaxes(w[:, :-1], -1, -2)) * (inputs > 0.0)
    return tuple(reversed(slopes))


# ---- Adam


class Adam(NamedTuple):
    """Weights, and the decayed means of their gradients and squared gradients."""

    weights: Weights
    means: Weights
    squares: Weights
    n_steps: int


def start(weights: Weights) -> Adam:
    """Return the state before the first step."""
    zeros = tuple(np.zeros_like(w) for w in weights)
    return Adam(weights, zeros, zeros, 0)


def step(state: Adam, slopes: Weights, learning_rate: float) -> Adam:
    """Return the state after one more gradient (Kingma and Ba, 2015, algorithm 1)."""
    t = state.n_steps + 1
    means = tuple(
        m + (1.0 - _DECAY_MEAN) * (g - m) for m, g in zip(state.means, slopes, strict=True)
    )
    squares = tuple(
        s + (1.0 - _DECAY_SQUARE) * (g**2 - s) for s, g in zip(state.squares, slopes, strict=True)
    )
    rate, share = learning_rate / (1.0 - _DECAY_MEAN**t), 1.0 - _DECAY_SQUARE**t
    weights = tuple(
        w - rate * m / (np.sqrt(s / share) + _TINY)
        for w, m, s in zip(state.weights, means, squares, strict=True)
    )
    return Adam(weights, means, squares, t)
