"""Which rows of a pool to measure next: one function per strategy.

The default is in `probprop.active.variance_reduction`. In the others a batch is chosen greedily
too. After some rows B have been chosen, a candidate x counts with the share of its model variance
that B would leave it,

    left(x) = 1 - k(x, B) k(B, B)^-1 k(B, x),      k(x, x') = exp(-d(x, x') / length),

the variance that a Gaussian process of correlation k keeps at x once it is known at B. It is 0
at the rows of B, small near them and about 1 far away. The scores of a candidate are then

    variance:          noise(x) + left(x) model(x)
    information gain:  1/2 log(1 + left(x) model(x) / noise(x))

with the epistemic variance model(x) and the aleatoric variance noise(x).

Where the noise is constant both put the candidates in the same order. The estimator gives
variances row by row and no correlations between rows, so k stands in for them; d is the
distance over features scaled to unit variance in the pool, and `length` is such that two rows
at the average distance have correlation exp(-2). The rows of B are taken to be known without
noise. With it, ten neighbours would each look worth measuring wherever noise is large, and the
noise of a model with few rows is its most uncertain part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import FloatArray
from probprop.active.picking import IntArray, highest, unit_variance
from probprop.active.variance_reduction import by_variance_reduction

Strategy = Callable[[Any, FloatArray, FloatArray, int, RandomState], IntArray]

_KNOWN = 1e-12  # a row with a smaller share of its variance left is a copy of one chosen


class Variances(NamedTuple):
    """Predictive variances of n rows, in the square of some unit of the target."""

    model: FloatArray  # (n,)
    noise: FloatArray  # (n,)


def predict_variances(estimator: Any, X: FloatArray) -> Variances:
    """Return the variances that an estimator predicts, divided by the largest of their sums.

    An estimator with `predict_distribution` tells model and noise apart. With
    ``predict(X, return_std=True)`` alone, all of the variance is taken to be the model's.

    Parameters
    ----------
    estimator : fitted estimator
    X : ndarray of shape (n, n_features)

    Returns
    -------
    Variances
    """
    if hasattr(estimator, "predict_distribution"):
        predicted = estimator.predict_distribution(X)
        epistemic_std, aleatoric_std = predicted.epistemic_std, predicted.aleatoric_std
    else:
        _, epistemic_std = estimator.predict(X, return_std=True)
        aleatoric_std = np.zeros(len(X))
    largest = np.hypot(epistemic_std, aleatoric_std).max()
    if not np.isfinite(largest):
        raise ValueError(
            f"{type(estimator).__name__} predicts standard deviations for X_pool that are not "
            "finite: nothing can be chosen by them."
        )
    unit = largest if largest > 0.0 else 1.0  # squares of targets near 1e-200 would vanish
    return Variances((epistemic_std / unit) ** 2, (aleatoric_std / unit) ** 2)


def variance(var: Variances, left: FloatArray) -> FloatArray:
    """Return the variance of the model at each row once the rows chosen are known, (n,).

    Where the noise is the same everywhere, the order is that of the variance of the target. Where
    it is not, a row that is merely noisy teaches nothing.
    """
    return left * var.model


def information_gain(var: Variances, left: FloatArray) -> FloatArray:
    """Return the mutual information of each target and the weights, (n,), in nats.

    It is the entropy of the target less that of its noise, both taken to be Gaussian.
    """
    of_model = left * var.model
    # Without either there is nothing to learn: a target that is certainly 0.
    ratio = np.divide(of_model, var.noise, out=np.zeros_like(of_model), where=of_model > 0.0)
    gain: FloatArray = 0.5 * np.log1p(ratio)
    return gain


def by_variance(
    estimator: Any, told: FloatArray, X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose the n rows with the highest predictive variance, [PBP15] section 5.4.

    It is the variance of the model, without that of the noise, where the estimator tells them
    apart.

    Parameters
    ----------
    estimator : fitted estimator with ``predict(X, return_std=True)``
    told : ndarray of shape (n_told, n_features)
        Rows measured before; the estimator knows of them.
    X : ndarray of shape (n_pool, n_features)
    n : int
        From 1 to n_pool.
    random_state : RandomState
        Breaks ties.

    Returns
    -------
    ndarray of shape (n,)
        Indices of rows of X, the first choice first.
    """
    var = predict_variances(estimator, X)
    return greedy_batch(lambda left: variance(var, left), X, n, random_state)


def by_information_gain(
    estimator: Any, told: FloatArray, X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose the n rows whose targets tell most about the weights.

    Parameters are those of `by_variance`; the estimator must have `predict_distribution`.
    """
    var = predict_variances(estimator, X)
    return greedy_batch(lambda left: information_gain(var, left), X, n, random_state)


def by_thompson(
    estimator: Any, told: FloatArray, X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose the row where each of n networks drawn from the posterior is highest.

    A row that an earlier network has chosen is left out. The networks differ where the model
    is unsure, so a batch needs no diversity term. Parameters are those of `by_variance`; the
    estimator must have `sample_functions`.
    """
    chosen: list[int] = []
    for f in estimator.sample_functions(n, random_state=random_state):
        chosen.append(highest(f(X), chosen, random_state))
    return np.array(chosen, np.intp)


def at_random(
    estimator: Any, told: FloatArray, X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose n rows, each with the same probability. Parameters are those of `by_variance`."""
    return random_state.permutation(len(X))[:n]


STRATEGIES: dict[str, Strategy] = {
    "variance_reduction": by_variance_reduction,
    "variance": by_variance,
    "information_gain": by_information_gain,
    "thompson": by_thompson,
    "random": at_random,
}
NEEDS = {"information_gain": "predict_distribution", "thompson": "sample_functions"}


def greedy_batch(
    score: Callable[[FloatArray], FloatArray], X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose n rows one after the other, each given those before.

    A Cholesky factorisation of k(X, X), whose pivots are the rows chosen, gives the share of
    variance left: a batch costs n^2 n_pool operations, and no matrix is inverted.

    Parameters
    ----------
    score : callable
        From `left`, the share of model variance left at each row, (n_pool,), to scores.
    X : ndarray of shape (n_pool, n_features)
    n : int
        From 1 to n_pool.
    random_state : RandomState
        Breaks ties.

    Returns
    -------
    ndarray of shape (n,)
        Indices of rows of X, the first choice first.

    Examples
    --------
    Four rows of nearly the same variance, three of them neighbours:

    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [0.2], [9.0]])
    >>> model = np.array([1.0, 1.1, 1.2, 0.9])
    >>> greedy_batch(lambda left: left * model, X, 2, np.random.RandomState(0))
    array([2, 3])
    """
    Xs = _scaled(X)
    left = np.ones(len(X))
    factor = np.zeros((n, len(X)))  # one row of the Cholesky factor per choice
    chosen: list[int] = []
    for i in range(n):
        pick = highest(score(left), chosen, random_state)
        chosen.append(pick)
        if left[pick] > _KNOWN:
            correlation = np.exp(-np.linalg.norm(Xs - Xs[pick], axis=1))
            factor[i] = (correlation - factor[:i, pick] @ factor[:i]) / np.sqrt(left[pick])
            left = np.maximum(left - factor[i] ** 2, 0.0)
    return np.array(chosen, np.intp)


def _scaled(X: FloatArray) -> FloatArray:
    """Return the rows in units of the correlation length, (n_pool, n_varying).

    Over D features of unit variance the mean squared distance of two rows is 2 D.
    """
    Z = unit_variance(X)
    scaled: FloatArray = Z / (np.sqrt(2.0 * max(1, Z.shape[1])) / 2.0)
    return scaled
