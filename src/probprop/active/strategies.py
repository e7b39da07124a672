"""Which samples of a pool to label next: one function per strategy. A batch is chosen greedily.

**Variance reduction**, the default. A Gaussian process approximates the model, with ::

    k(x, x') = exp(-(|x - x'|^2 / 2D + (f(x) - f(x'))^2 / 2V) / 2),

where the D features that vary have unit variance and V is the variance of the predictions f, both
over the rows told and the pool. Features that the model does not use still count, because with few
rows it may be wrong about them. Once the rows O are known, with noise of variance s, ::

    c(x, x') = k(x, x') - k(x, O) (k(O, O) + s I)^-1 k(O, x'),

and a label at x reduces the summed variance of the rows r of the pool by ::

    sum_r c(r, x)^2 / (c(x, x) + s).

The row with the largest reduction is chosen and joins O. A row far from all others has a large
variance, but little influence on theirs. Only predictions are used, so any regressor will do. For a
classifier, f are the probabilities of all classes. Before any row is told there is no f, and the
same sum over the features alone chooses rows that are spread over the pool.

**Variance.** After the rows B have been chosen, a candidate x counts with its epistemic variance,
or with the entropy of its class, times the share of it that B would leave,

    left(x) = 1 - k(x, B) k(B, B)^-1 k(B, x),      k(x, x') = exp(-d(x, x') / length).

The estimator has no correlations between rows, so k replaces them: d is the distance over
features of unit variance in the pool, and at the average distance the correlation is exp(-2). The
rows of B are taken to be known without noise: with it, ten neighbors would each look worth
measuring wherever noise is large, and the noise of a model with few rows is its most uncertain
part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import pdist, squareform
from scipy.special import entr
from sklearn.base import is_classifier

from probprop._types import FloatArray
from probprop.inference.standardize import fit_standardizer

IntArray = NDArray[np.intp]

_TIE = 1e-10  # scores that differ by less, relative to the best, are equal: the rest is rounding


def unit_variance(X: FloatArray) -> FloatArray:
    """Return the columns of X that vary, (n, n_varying), with mean 0 and variance 1; NaN is 0."""
    scale = fit_standardizer(X, None)
    scaled: FloatArray = np.nan_to_num((X - scale.x_mean) / scale.x_scale)
    return scaled[:, scaled.min(axis=0) < scaled.max(axis=0)]


def highest(score: FloatArray, chosen: list[int], random_state: RandomState) -> int:
    """Return the index of the highest score not chosen yet; ties are broken at random."""
    free = np.delete(np.arange(len(score)), chosen)
    best = score[free].max()
    tied = free[score[free] >= best - _TIE * abs(best)]
    return int(tied[random_state.randint(len(tied))])


# ---- Variance reduction


NOISE = 0.1  # the variance s of a measurement's noise, where a target's prior variance is 1
MOST_ROWS = 1000  # drawn at random from a larger pool, and from more rows told: the matrices' size
_AT_ONCE = 100  # rows of a batch from one draw; the next ones are chosen from another


def by_variance_reduction(
    estimator: Any, told: FloatArray, X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose the n rows that reduce the variance of the whole pool most.

    `estimator` is fitted, or None if no row was measured yet. `told`, (n_told, n_features), are the
    rows measured before, X, (n_pool, n_features), the pool. `random_state` draws from pools of more
    than 1,000 rows and breaks ties. Returned are n indices of rows of X, the first choice first.
    """
    chosen = np.empty(0, np.intp)
    while len(chosen) < n:
        known = _some(np.vstack([told, X[chosen]]), random_state)
        free = _some(np.delete(np.arange(len(X)), chosen), random_state)
        rows = np.vstack([known, X[free]])
        left = given_first(likeness(rows, _predicted(estimator, rows)), len(known), NOISE)
        part = min(n - len(chosen), len(free), _AT_ONCE)
        chosen = np.append(chosen, free[greedy_reduction(left, part, NOISE, random_state)])
    return chosen


def by_features(told: FloatArray, X: FloatArray, n: int, random_state: RandomState) -> IntArray:
    """Choose n rows without a model, spread over the pool; parameters as above.

    A row with missing values would count as typical, so complete rows come first, if there are n.
    """
    complete = np.flatnonzero(~np.isnan(X).any(axis=1))
    among = complete if len(complete) >= n else np.arange(len(X))
    return among[by_variance_reduction(None, told, X[among], n, random_state)]


def likeness(X: FloatArray, f: FloatArray) -> FloatArray:
    """Return how much each two rows tell about each other, k of variance reduction, (n, n).

    X, (n, n_features), has NaN for missing values, which count as the mean of their feature; f,
    (n,) or (n, K), are predictions in any unit.
    """
    largest = np.abs(f).max()  # squares of targets near 1e-200 would vanish
    f = (f / largest if largest > 0.0 else f).reshape(len(f), -1)
    each = [unit_variance(columns) for columns in (X, f)]
    d2 = sum(pdist(Z, "sqeuclidean") / max(1, 2 * Z.shape[1]) for Z in each)
    k: FloatArray = squareform(np.exp(-0.5 * d2))
    np.fill_diagonal(k, 1.0)
    return k


def given_first(k: FloatArray, n_known: int, noise: float) -> FloatArray:
    """Return the covariances of the other rows, (n - n_known, n - n_known), given the first ones.

    k, (n, n), has the covariances of all rows; `noise` is the variance of a measurement's noise.
    """
    known, other = k[:n_known, :n_known] + noise * np.eye(n_known), k[:n_known, n_known:]
    return np.asarray(k[n_known:, n_known:] - other.T @ cho_solve(cho_factor(known), other))


def greedy_reduction(c: FloatArray, n: int, noise: float, random_state: RandomState) -> IntArray:
    """Choose n rows one after the other, each reducing the sum of variances most.

    c, (n_pool, n_pool), has the covariances of the rows; `noise` is the variance of a measurement's
    noise.
    """
    chosen: list[int] = []
    for _ in range(n):
        noisy = c.diagonal() + noise
        pick = highest(np.square(c).sum(axis=0) / noisy, chosen, random_state)
        chosen.append(pick)
        c = c - np.outer(c[pick], c[pick]) / noisy[pick]
    return np.array(chosen, np.intp)


def _predicted(estimator: Any, X: FloatArray) -> FloatArray:
    """Return the predictions of an estimator, (n,), or (n, K) of classes, if they are finite."""
    if estimator is None:
        return np.zeros(len(X))
    predict = estimator.predict_proba if is_classifier(estimator) else estimator.predict
    f = np.asarray(predict(X), np.float64)
    _check_finite(estimator, "values", f)
    return f


def _check_finite(estimator: Any, what: str, predicted: FloatArray) -> None:
    if not np.isfinite(predicted).all():
        raise ValueError(
            f"The {what} that {type(estimator).__name__} predicts for X_pool are not finite, so "
            "no sample can be selected."
        )


def _some(rows: Any, random_state: RandomState) -> Any:
    """Return all of the rows, or `MOST_ROWS` of them at random."""
    if len(rows) <= MOST_ROWS:
        return rows
    return rows[np.sort(random_state.permutation(len(rows))[:MOST_ROWS])]


# ---- The other strategies


Strategy = Callable[[Any, FloatArray, FloatArray, int, RandomState], IntArray]

_KNOWN = 1e-12  # a row with a smaller share of its variance left is a copy of one chosen


def by_variance(
    estimator: Any, told: FloatArray, X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose the n rows with the highest predictive variance, [PBP15] section 5.4.

    It is the epistemic variance alone if the estimator separates it from the noise, because a
    noisy label carries little information. For a classifier, it is the entropy of the class.
    Parameters are as for `by_variance_reduction`.
    """
    if is_classifier(estimator):
        score = entr(np.asarray(estimator.predict_proba(X), np.float64)).sum(axis=1)
        _check_finite(estimator, "probabilities", score)
        return greedy_batch(score, X, n, random_state)
    if hasattr(estimator, "predict_distribution"):
        std = estimator.predict_distribution(X).epistemic_std
    else:
        _, std = estimator.predict(X, return_std=True)
    _check_finite(estimator, "standard deviations", std)
    unit = std.max() or 1.0  # squares of targets near 1e-200 would vanish
    return greedy_batch((std / unit) ** 2, X, n, random_state)


def by_thompson(
    estimator: Any, told: FloatArray, X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose the row where each of n networks drawn by `sample_functions` is highest.

    A row that an earlier network has chosen is left out. The networks differ where the model
    is unsure, so a batch needs no diversity term.
    """
    chosen: list[int] = []
    for f in estimator.sample_functions(n, random_state=random_state):
        chosen.append(highest(f(X), chosen, random_state))
    return np.array(chosen, np.intp)


def at_random(
    estimator: Any, told: FloatArray, X: FloatArray, n: int, random_state: RandomState
) -> IntArray:
    """Choose n rows, each with the same probability."""
    return random_state.permutation(len(X))[:n]


STRATEGIES: dict[str, Strategy] = {
    "variance_reduction": by_variance_reduction,
    "variance": by_variance,
    "thompson": by_thompson,
    "random": at_random,
}


def greedy_batch(score: FloatArray, X: FloatArray, n: int, random_state: RandomState) -> IntArray:
    """Choose n rows one after the other, each given those before.

    `score`, (n_pool,), counts with the share of variance left at each row. A Cholesky factorization
    of k(X, X), whose pivots are the rows chosen, gives that share: a batch costs n^2 n_pool
    operations, and no matrix is inverted.
    """
    Z = unit_variance(X)
    # Over D features of unit variance the mean squared distance of two rows is 2 D.
    Xs = Z / (np.sqrt(2.0 * max(1, Z.shape[1])) / 2.0)
    left = np.ones(len(X))
    factor = np.zeros((n, len(X)))  # one row of the Cholesky factor per choice
    chosen: list[int] = []
    for i in range(n):
        pick = highest(left * score, chosen, random_state)
        chosen.append(pick)
        if left[pick] > _KNOWN:
            correlation = np.exp(-np.linalg.norm(Xs - Xs[pick], axis=1))
            factor[i] = (correlation - factor[:i, pick] @ factor[:i]) / np.sqrt(left[pick])
            left = np.maximum(left - factor[i] ** 2, 0.0)
    return np.array(chosen, np.intp)
