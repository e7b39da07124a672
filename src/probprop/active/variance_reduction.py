"""Which rows to measure so that the whole pool is known better: the default strategy.

A Gaussian process stands in for the model. Two rows are alike where their features are, and where
the model predicts the same for both::

    k(x, x') = exp(-(|x - x'|^2 / 2D + (f(x) - f(x'))^2 / 2V) / 2).

The D features that vary have unit variance, V is the variance of the predictions f, both over the
rows told and the pool; so each of the two terms is 1 on average over pairs of rows. Features
that the model does not use still count, because with few rows it may be wrong about them; the
predictions bring rows together, or set them apart, along the directions that matter. Once the
rows O are known, with noise of variance s,

    c(x, x') = k(x, x') - k(x, O) (k(O, O) + s I)^-1 k(O, x'),

and a measurement at x takes from the variance of all rows r of the pool together

    sum_r c(r, x)^2 / (c(x, x) + s).

The row that takes most is chosen, joins O, and so on. A row far from all others has a large
variance, but knowing it tells little about them: it is not chosen. Only the predictions of
the estimator are used, so any regressor will do. Variances of a network that has seen 20 to 60 rows
tell less about where it is wrong than these distances do: the guide has the figures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import pdist, squareform

from probprop._types import FloatArray
from probprop.active.picking import IntArray, highest, unit_variance

NOISE = 0.1
"""The variance s of a measurement's noise, where that of a target before it is known is 1."""

MOST_ROWS = 1000
"""Of a larger pool, and of more rows told, so many are drawn at random: matrices of their size
are computed with."""

_AT_ONCE = 100  # rows of a batch from one draw; the next ones are chosen from another


def by_variance_reduction(
    estimator: Any, told: FloatArray, X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose the n rows that take most from the variance of the whole pool.

    Parameters
    ----------
    estimator : fitted estimator with ``predict(X)``
    told : ndarray of shape (n_told, n_features)
        Rows measured before.
    X : ndarray of shape (n_pool, n_features)
    n : int
        From 1 to n_pool.
    random_state : RandomState
        Draws from pools of more than 1,000 rows, and breaks ties.

    Returns
    -------
    ndarray of shape (n,)
        Indices of rows of X, the first choice first.
    """
    chosen = np.empty(0, np.intp)
    while len(chosen) < n:
        known = _some(np.vstack([told, X[chosen]]), random_state)
        free = _some(np.delete(np.arange(len(X)), chosen), random_state)
        rows = np.vstack([known, X[free]])
        k = likeness(rows, _predicted(estimator, rows))
        left = given_first(k, len(known), NOISE)
        part = min(n - len(chosen), len(free), _AT_ONCE)
        chosen = np.append(chosen, free[greedy_reduction(left, part, NOISE, random_state)])
    return chosen


def likeness(X: FloatArray, f: FloatArray) -> FloatArray:
    """Return how much each two rows tell about each other, k of this module.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Gaps, NaN, count as the mean of their feature.
    f : ndarray of shape (n,)
        Predictions, in any unit.

    Returns
    -------
    ndarray of shape (n, n)

    Examples
    --------
    >>> import numpy as np
    >>> likeness(np.array([[0.0], [1.0], [2.0]]), np.array([5.0, 5.0, 9.0])).round(2)
    array([[1.  , 0.69, 0.07],
           [0.69, 1.  , 0.22],
           [0.07, 0.22, 1.  ]])
    """
    Z = unit_variance(X)
    largest = np.abs(f).max()  # squares of targets near 1e-200 would vanish
    g = unit_variance((f / largest if largest > 0.0 else f)[:, np.newaxis])
    d2 = pdist(Z, "sqeuclidean") / max(1, 2 * Z.shape[1]) + pdist(g, "sqeuclidean") / 2.0
    k: FloatArray = squareform(np.exp(-0.5 * d2))
    np.fill_diagonal(k, 1.0)
    return k


def given_first(k: FloatArray, n_known: int, noise: float) -> FloatArray:
    """Return the covariances of the other rows once the first ones were measured.

    Parameters
    ----------
    k : ndarray of shape (n, n)
        Covariances of all.
    n_known : int
        From 0 to n.
    noise : float
        Variance of the noise of a measurement.

    Returns
    -------
    ndarray of shape (n - n_known, n - n_known)
    """
    known, other = k[:n_known, :n_known] + noise * np.eye(n_known), k[:n_known, n_known:]
    left: FloatArray = k[n_known:, n_known:] - other.T @ cho_solve(cho_factor(known), other)
    return left


def greedy_reduction(c: FloatArray, n: int, noise: float, random_state: RandomState) -> IntArray:
    """Choose n rows one after the other, each the one that takes most from the sum of variances.

    Parameters
    ----------
    c : ndarray of shape (n_pool, n_pool)
        Covariances of the rows.
    n : int
        From 1 to n_pool.
    noise : float
        Variance of the noise of a measurement.
    random_state : RandomState
        Breaks ties.

    Returns
    -------
    ndarray of shape (n,)
        Indices, the first choice first.

    Examples
    --------
    The first row is the least certain, but the other three are known together:

    >>> import numpy as np
    >>> c = np.eye(4) + np.pad(np.ones((3, 3)), ((1, 0), (1, 0)))
    >>> c[0, 0] = 2.5
    >>> int(greedy_reduction(c, 2, 0.1, np.random.RandomState(0))[1])
    0
    """
    chosen: list[int] = []
    for _ in range(n):
        noisy = c.diagonal() + noise
        pick = highest(np.square(c).sum(axis=0) / noisy, chosen, random_state)
        chosen.append(pick)
        c = c - np.outer(c[pick], c[pick]) / noisy[pick]
    return np.array(chosen, np.intp)


def _predicted(estimator: Any, X: FloatArray) -> FloatArray:
    """Return the predictions of an estimator, (n,), if they are finite."""
    f = np.asarray(estimator.predict(X), np.float64).reshape(len(X))
    if not np.isfinite(f).all():
        raise ValueError(
            f"{type(estimator).__name__} predicts values for X_pool that are not finite: nothing "
            "can be chosen by them."
        )
    return f


def _some(rows: Any, random_state: RandomState) -> Any:
    """Return all of the rows, or `MOST_ROWS` of them at random."""
    if len(rows) <= MOST_ROWS:
        return rows
    return rows[np.sort(random_state.permutation(len(rows))[:MOST_ROWS])]
