"""The quantiles of a Gaussian plus Student-t noise, of many rows at once.

In units of its standard deviation the z of a probability depends on alpha, the probability and
x = log(std_model / std_noise) only, and on x smoothly: nothing is singular while |Im x| < pi/2,
where kappa = e^(2x) alpha / (alpha - 1) turns negative. Rows that share alpha and the probability
therefore share a Chebyshev series in x on every unit interval; 24 points of it are solved for, and
the rest are read off. An interval whose series has not converged is halved, and one with fewer
rows than points has its rows solved for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.typing import ArrayLike
from scipy.optimize import elementwise
from scipy.special import ndtri

from probprop._types import Array, FloatArray
from probprop.predictive.student_t import LARGEST_ALPHA, log_sf

Solve = Callable[[FloatArray, FloatArray], FloatArray]
N_NODES = 24
CONVERGED = 2e-15
"""What the last three coefficients may be, beside the largest of the series or beside 1: near
tail = 1/2, where z is small, it is no better known than that."""
_CHUNK = 1 << 14  # rows read off at a time: their coefficients take 3 MB
_LOWEST = -40.0  # below, the model has less than 1e-34 of the variance

# Chebyshev points of the first kind on [-1, 1], and the matrix from values there to coefficients.
_ANGLES = np.pi * (np.arange(N_NODES) + 0.5) / N_NODES
_NODES: FloatArray = np.cos(_ANGLES)
_TO_COEFFICIENTS: FloatArray = np.cos(np.outer(np.arange(N_NODES), _ANGLES)) * 2.0 / N_NODES
_TO_COEFFICIENTS[0] *= 0.5


def isf(tail: ArrayLike, log_ratio: ArrayLike, alpha: float) -> FloatArray:
    """The z with probability `tail` above it, 0 < tail <= 1/2; see `student_t.logpdf`.

    Examples
    --------
    >>> isf([0.5, 0.025], 0.0, 3.0).round(4)
    array([0.    , 1.9658])
    """
    if alpha > LARGEST_ALPHA:
        tail, _ = np.broadcast_arrays(tail, log_ratio)
        return np.asarray(-ndtri(tail))
    return isf_by_series(tail, log_ratio, lambda t, x: solve(t, x, alpha))


def isf_by_series(
    tail: ArrayLike, log_ratio: ArrayLike, solve: Solve, converged: float = CONVERGED
) -> FloatArray:
    """The same for any symmetric distribution of z whose quantiles depend on x like these.

    Parameters
    ----------
    tail, log_ratio : array-like that broadcast
    solve : callable
        Finds z of tails and log ratios, (n,) each.
    converged : float
        What the last coefficients of a series may be.
    """
    tails, ratios = np.broadcast_arrays(
        np.asarray(tail, np.float64), np.asarray(log_ratio, np.float64)
    )
    t, x = tails.ravel(), np.maximum(ratios.ravel(), _LOWEST)
    z = np.zeros(t.shape)
    left: Array = np.flatnonzero(t < 0.5)
    width = 1.0
    while len(left) >= N_NODES:
        left = _in_pieces(t, x, left, width, solve, converged, z)
        width *= 0.5
    z[left] = solve(t[left], x[left])
    return z.reshape(tails.shape)


def solve(tail: FloatArray, log_ratio: FloatArray, alpha: float) -> FloatArray:
    """The same for 0 < tail < 1/2, both (n,), each row by root finding: slow and sure."""
    if len(tail) == 0:
        return np.zeros(0)

    # z = sinh(x): linear in the middle, logarithmic in the heavy tail. The variance of z is 1,
    # so Chebyshev's inequality (tail <= 1 / (2 z^2) by symmetry) bounds the root from above.
    def excess(x: FloatArray, log_tail: FloatArray, log_ratio: FloatArray) -> FloatArray:
        return log_sf(np.sinh(x), log_ratio, alpha) - log_tail

    bracket = (np.full(tail.shape, -1.0), np.arcsinh(1.0 / np.sqrt(2.0 * tail)))
    # Near tail = 1/2 the root is 0, and a tolerance that is only relative is never met.
    root = elementwise.find_root(
        excess, bracket, args=(np.log(tail), log_ratio), tolerances={"xatol": 1e-16}
    )
    z: FloatArray = np.sinh(root.x)
    return z


def _in_pieces(
    tail: FloatArray,
    x: FloatArray,
    rows: Array,
    width: float,
    solve: Solve,
    converged: float,
    z: FloatArray,
) -> Array:
    """Read z of these rows off series on intervals of this width, where the series converge.

    Rows that share an interval with few others are solved for, together with the points of the
    series: a search for many roots costs little more than one for few.

    Returns
    -------
    ndarray of int
        The rows whose interval must be halved.
    """
    middle = (np.floor(x[rows] / width) + 0.5) * width
    piece, first, n_rows = _groups(tail[rows], middle)
    shared = n_rows >= N_NODES
    sharing = shared[piece]
    alone = rows[~sharing]
    tails, middle = tail[rows][first[shared]], middle[first[shared]]  # of the shared pieces
    rows, piece = rows[sharing], (np.cumsum(shared) - 1)[piece[sharing]]

    nodes = middle + 0.5 * width * _NODES[:, np.newaxis]  # (nodes, pieces)
    solved = solve(
        np.concatenate([np.tile(tails, N_NODES), tail[alone]]),
        np.concatenate([nodes.ravel(), x[alone]]),
    )
    values, z[alone] = solved[: nodes.size].reshape(nodes.shape), solved[nodes.size :]
    if not nodes.size:
        return rows
    # Of the differences to one of them: these are small, and so is their rounding.
    series = _TO_COEFFICIENTS @ (values - values[0])  # (coefficients, pieces)
    series[0] += values[0]
    size = np.maximum(1.0, np.abs(series).max(axis=0))
    done = (np.abs(series[-3:]).max(axis=0) <= converged * size)[piece]
    for start in range(0, len(rows), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        at, of = rows[chunk][done[chunk]], piece[chunk][done[chunk]]
        local = (x[at] - middle[of]) * (2.0 / width)
        z[at] = chebval(local, series[:, of], tensor=False)
    left: Array = rows[~done]
    return left


def _groups(a: FloatArray, b: FloatArray) -> tuple[Array, Array, Array]:
    """Group equal pairs: the group of each, and of each group the place of one and the size."""
    _, of_a = np.unique(a, return_inverse=True)
    values, of_b = np.unique(b, return_inverse=True)
    _, first, group, n = np.unique(
        of_a * len(values) + of_b, return_index=True, return_inverse=True, return_counts=True
    )
    return group, first, n
