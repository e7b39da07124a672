"""Missing values, completed from the features that are present.

Column j has normal scores u_j = Phi^-1(F_j(x_j)), with F_j interpolated between quantiles. Scores,
and their piecewise-linear encoding (ramps), are standardized; a Gaussian N(0, S) over all of these
inputs is the model of the joint distribution of the features. Given the inputs o of the features
that are present, the missing ones have the mean S_mo S_oo^-1 a_o and the covariance S_mm - S_mo
S_oo^-1 S_om.

The scores of a sample's missing features are then placed at quasi-random nodes of that Gaussian.
Each node is a completed sample, whose values occur in the training samples or are interpolated
between two of them. The scores determine the ramps. Nodes are weighted by the density of their
ramps: a value that never occurs together with the present values has almost no weight, unlike
under a Gaussian alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array
from scipy.special import ndtri

from probprop._types import Array, FloatArray
from probprop.encoding.piecewise import (
    PiecewiseLinear,
    by_column,
    encode,
    encoded,
    fit_piecewise,
    place_knots,
)
from probprop.inference.inputs import Coded, Encoded, Inputs, Samples, normal_nodes, stored

N_NODES = 32  # completed samples of a sample with missing values
# Maximum number of scores and ramps. Columns get fewer ramps, or none; if there are more columns
# than this, they are treated as independent.
MOST_INPUTS = 512
LARGEST_FACTOR = 100.0  # the largest variance scaling factor that is tried
_MOST_ROWS = 10_000  # samples that the distribution is learned from, drawn with a fixed seed
_N_QUANTILES = 32  # intervals between which a score is interpolated
_N_BINS = 32
_LEAST_SHRINKAGE = 1e-3  # of the correlations: keeps the covariance positive definite
_MOST_DIMENSIONS = 1_024  # of quasi-random nodes
_MOST_USED = 0.25  # share of the degrees of freedom above which there are fewer ramps
_UNIFORM = 0.1  # share of the weight that is equal for all nodes, so that no node has all of it
_BLOCK = 1 << 13  # samples, completed or to be completed, at a time
_EVERY = 4  # every fourth masked sample lacks a quarter of the features, the rest one each
_SHARE = 0.25
_N_PATTERNS = 16  # different sets of features that are a quarter

Moments = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Joint:
    """The joint distribution of the features, for completing missing values."""

    column: Array  # (n_quantiles,): the feature of each quantile, ascending; each has at least one
    value: FloatArray  # (n_quantiles,): in the units of the feature, ascending in each
    score: FloatArray  # (n_quantiles,): normal score of the quantile, ascending in each
    discrete: Array  # (n_features,): whether the quantiles of a feature are all of its values
    encoding: PiecewiseLinear  # of the scores: they are the columns
    # Covariance of the encoded scores, (n_inputs, n_inputs), float32, positive definite. None if
    # the features are taken as independent.
    covariance: Array | None
    # Factor of the standard deviations of missing scores, above 1: the covariance explains the few
    # samples that it was learned from better than new ones.
    spread: float
    factor: FloatArray  # (n_features + 1,): scales the variance between nodes; the last if several

    def complete(self, X: Array | Coded) -> Completed:
        """Complete samples, (n, n_features), each in `N_NODES` ways."""
        gaps = np.flatnonzero(np.isnan(stored(X)).any(axis=1))
        blocks = [slice(i, i + _BLOCK) for i in range(0, len(gaps), _BLOCK)]
        missing = np.concatenate([np.isnan(np.asarray(X[gaps[own]])) for own in blocks])
        found = [self._completed(np.asarray(X[gaps[own]]), missing[own]) for own in blocks]
        values, weights = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
        return Completed(X, gaps, missing, values, weights, self.factor[_which(missing)])

    def _completed(self, X: Array, missing: Array) -> tuple[FloatArray, FloatArray]:
        """Return the values and the weights of `Completed` for samples with missing values."""
        ends = np.cumsum(missing.sum(axis=1))
        values, weights = np.empty((N_NODES, ends[-1])), np.empty((N_NODES, len(X)))
        A = np.empty((len(X), 0))
        if self.covariance is not None:
            u = _scores(X, self._tables)
            A = np.nan_to_num(encode(u, self.encoding, np.dtype(np.float64)))
        patterns, which = np.unique(missing, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        starts = np.searchsorted(which.ravel()[order], np.arange(len(patterns) + 1))
        for pattern, (start, end) in zip(patterns, pairwise(starts), strict=True):
            own = order[start:end]
            found, weights[:, own] = self._nodes(pattern, A[own])
            n_missing = found.shape[2]
            values[:, (ends[own] - n_missing)[:, np.newaxis] + np.arange(n_missing)] = found
        return values, weights

    def _nodes(self, pattern: Array, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values, (N_NODES, n, n_missing), and weights, (N_NODES, n), of the nodes.

        The samples all miss the features of the pattern, (n_features,). A, (n, n_inputs), are their
        encoded scores, 0 where they are missing.
        """
        j = np.flatnonzero(pattern)
        nodes, state = nodes_of(len(pattern))[:, : len(j)], _of_columns(self.encoding, j)
        mean, root = np.zeros((len(A), len(j))), np.eye(0)
        if self.covariance is not None:
            mean, root = self.given_present(pattern, A)
            nodes = self.spread * nodes @ root[: len(j), : len(j)].T
        u = (mean[:, : len(j)] + nodes[:, np.newaxis]) * state.scale + state.center
        values = np.empty(u.shape)
        for k, table in enumerate(self._tables[i] for i in j):
            values[..., k], u[..., k] = _nearest(u[..., k], *table, discrete=self.discrete[j[k]])
        if len(root) <= len(j):  # there are no ramps
            return values, np.full(u.shape[:2], 1.0 / N_NODES)
        inputs = encode(u.reshape(-1, len(j)), state, np.dtype(np.float64))
        given = inputs - np.tile(mean, (N_NODES, 1))
        # Given the scores alone, all nodes are equally likely.
        m = np.flatnonzero(pattern[self._column_of_input])
        own_root = np.linalg.cholesky(np.asarray(self.covariance, float)[np.ix_(m, m)])
        ratio = _surprise(given, root, len(j)) - _surprise(inputs, own_root, len(j))
        surprise = ratio.reshape(u.shape[:2])
        likely = np.exp(surprise.min(axis=0) - surprise)
        weights = (1.0 - _UNIFORM) * likely / likely.sum(axis=0) + _UNIFORM / N_NODES
        return values, weights

    def given_present(self, pattern: Array, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean of the missing inputs, (n, k), and a root of their covariance, (k, k)."""
        m, P = np.flatnonzero(pattern[self._column_of_input]), self._precision
        # In terms of the precision: then a few missing features take little time. A is 0 at m.
        covariance = np.linalg.inv(P[np.ix_(m, m)])
        return -A @ P[:, m] @ covariance, np.linalg.cholesky(covariance)

    @cached_property
    def _precision(self) -> FloatArray:
        return np.linalg.inv(np.asarray(self.covariance, np.float64))

    @cached_property
    def _column_of_input(self) -> Array:
        return np.concatenate([np.arange(len(self.discrete)), self.encoding.column])

    @cached_property
    def _tables(self) -> list[tuple[FloatArray, FloatArray]]:
        """Values and scores of the quantiles of each feature."""
        ends = np.searchsorted(self.column, np.arange(len(self.discrete) + 1))
        return [(self.value[a:b], self.score[a:b]) for a, b in pairwise(ends)]


def _surprise(off: FloatArray, root: FloatArray, n_scores: int) -> FloatArray:
    """Return minus the log density of ramps given the scores before them, per ramp, (n,)."""
    ramps = solve_triangular(root, off.T, lower=True)[n_scores:]
    return 0.5 * np.mean(ramps**2, axis=0)  # type: ignore[no-any-return]


def nodes_of(n_features: int) -> FloatArray:
    """Return the nodes of a standard Gaussian, (N_NODES, n_features).

    The first columns are used for the missing features, whichever these are.
    """
    nodes = normal_nodes(min(n_features, _MOST_DIMENSIONS), N_NODES)
    return nodes[:, np.arange(n_features) % _MOST_DIMENSIONS]


def _scores(X: Array, tables: Sequence[tuple[FloatArray, FloatArray]]) -> FloatArray:
    u = np.empty(X.shape, order="F")
    for j, (value, score) in enumerate(tables):
        u[:, j] = np.interp(X[:, j], value, score)  # NaN where X is NaN
    return u


def _nearest(
    u: FloatArray, value: FloatArray, score: FloatArray, *, discrete: bool
) -> tuple[FloatArray, FloatArray]:
    """Return values that a feature may have, and their scores, nearest to given scores."""
    if not discrete:
        return np.interp(u, score, value), np.clip(u, score[0], score[-1])
    at = np.searchsorted(0.5 * (score[1:] + score[:-1]), u)
    return value[at], score[at]


def _of_columns(state: PiecewiseLinear, columns: Array) -> PiecewiseLinear:
    """Return the encoding of some of the columns, ascending."""
    ramps = np.isin(state.column, columns)
    of_ramps = (state.start, state.end, state.ramp_center, state.ramp_scale)
    column = np.searchsorted(columns, state.column[ramps])
    own = state.mean[columns], state.scale[columns], state.center[columns], column
    return PiecewiseLinear(*own, *(values[ramps] for values in of_ramps))  # no codes


def learn_joint(X: Array | Coded, *, ramps: bool = True) -> Joint:
    """Learn the joint distribution of the features from samples, NaN where a value is missing.

    Without ramps it is a Gaussian of the scores, which is fast.
    """
    if len(X) > _MOST_ROWS:
        X = X[np.sort(RandomState(0).choice(len(X), _MOST_ROWS, replace=False))]
    tables = by_column(_quantiles, X)
    value, score = (np.concatenate([t[i] for t in tables]) for i in (0, 1))
    column = np.repeat(np.arange(X.shape[1]), [len(t[0]) for t in tables])
    discrete, factor = np.array([t[2] for t in tables]), np.ones(X.shape[1] + 1)
    wide = X.shape[1] > MOST_INPUTS
    if wide and isinstance(X, Coded):  # their columns are never made
        return Joint(column, value, score, discrete, _of_codes(X, tables), None, 1.0, factor)
    scores = _scores(np.asarray(X), [table[:2] for table in tables])
    n_bins, covariance, used = _N_BINS if ramps and not wide else 1, None, np.inf
    while True:
        encoding = fit_piecewise(scores, n_bins, centered=True)
        known = np.isfinite(encoding.scale)  # the scale of a feature without any value is infinite
        encoding = replace(encoding, scale=np.where(known, encoding.scale, 1.0))
        if encoding.n_outputs <= MOST_INPUTS:
            A = encode(scores, encoding, np.dtype(np.float64))
            covariance, used = _covariance(A)
        if used <= _MOST_USED or n_bins == 1:
            break
        n_bins //= 2
    # Generalized cross-validation: training residuals are smaller than the errors to expect.
    spread = 1.0 / (1.0 - min(used, 0.5)) if covariance is not None else 1.0
    return Joint(column, value, score, discrete, encoding, covariance, spread, factor)


def _of_codes(X: Coded, tables: Sequence[tuple[FloatArray, FloatArray, bool]]) -> PiecewiseLinear:
    """Return the scales of the scores of samples with codes, as an encoding without ramps."""
    n, ones = X.counts
    share, ends = ones / np.maximum(n, 1.0), np.array([t[1][[0, -1]] for t in tables])
    rise = ends[:, 1] - ends[:, 0]
    center, scale = ends[:, 0] + share * rise, np.sqrt(share * (1.0 - share)) * rise
    of_numbers = [tables[j][:2] for j in X.others]
    numbers = fit_piecewise(_scores(X.numbers, of_numbers), 1, centered=True)
    center[X.others], scale[X.others] = numbers.center, numbers.scale
    scale[(scale == 0.0) | np.isinf(scale)] = 1.0  # of constant features
    return replace(numbers, mean=center, scale=scale, center=center)


def _quantiles(x: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
    """Return quantiles of values, their normal scores, and whether these are all values."""
    if not len(x):
        return np.zeros(1), np.zeros(1), True
    value, ordered = place_knots(x, _N_QUANTILES), np.sort(x)
    rank = sum(np.searchsorted(ordered, value, side) for side in ("left", "right"))
    n_values = 1 + int(np.count_nonzero(np.diff(ordered)))
    return value, ndtri(0.5 * rank / len(x)), n_values == len(value)


def _covariance(A: FloatArray) -> tuple[Array, float]:
    """Return the covariance of standardized inputs, NaN where missing, shrunk by Ledoit and Wolf.

    Each entry is the mean over the samples that have both inputs. The second is the share of the
    degrees of freedom of the samples that a regression on all inputs uses: the trace of its hat
    matrix over their number.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage  # slow to import, and not to predict

    there = (~np.isnan(A)).astype(np.float64)
    A = np.nan_to_num(A)
    n = np.maximum(there.T @ there, 1.0)
    S = A.T @ A / n
    if not there.all():  # then it may have negative eigenvalues
        values, vectors = np.linalg.eigh(S)
        S = (vectors * np.maximum(values, 0.0)) @ vectors.T
    shrinkage = max(float(ledoit_wolf_shrinkage(A, assume_centered=True)), _LEAST_SHRINKAGE)
    shrunk = (1.0 - shrinkage) * S + shrinkage * np.eye(len(S))
    used = float(np.trace(np.linalg.solve(shrunk, (1.0 - shrinkage) * S))) / float(n.mean())
    return (0.5 * (shrunk + shrunk.T)).astype(np.float32), used


@dataclass(frozen=True, eq=False)
class Completed:
    """Samples, those with missing values completed in several ways. Indexing takes samples."""

    X: Any  # (n, n_features), NaN where a value is missing: an array or `Coded`
    gaps: Array  # (n_gaps,): the samples with missing values, ascending
    missing: Array  # (n_gaps, n_features)
    values: FloatArray  # (n_nodes, n_missing): of the missing values, sample by sample
    weights: FloatArray  # (n_nodes, n_gaps), which sum to 1 over the nodes of a sample
    factor: FloatArray  # (n_gaps,): scaling factor of the variance of predictions between nodes

    def __getitem__(self, rows: Array) -> Completed:
        place = np.full(len(self.X), -1)
        place[self.gaps] = np.arange(len(self.gaps))
        own, n_missing = place[rows], self.missing.sum(axis=1)
        gaps = np.flatnonzero(own >= 0)
        own, before = own[gaps], np.cumsum(n_missing) - n_missing
        n_own = n_missing[own]
        at = np.repeat(before[own] - np.cumsum(n_own) + n_own, n_own) + np.arange(n_own.sum())
        parts = self.missing[own], self.values[:, at], self.weights[:, own], self.factor[own]
        return Completed(self.X[rows], gaps, *parts)

    def parts(
        self, encoding: PiecewiseLinear | None, of: Callable[[Samples], Moments]
    ) -> tuple[FloatArray, FloatArray, FloatArray | float]:
        """Return mean, variance within and variance between the nodes of outputs of samples.

        `of` takes encoded samples, and returns means and variances of outputs, (n,) or (n, K).
        """
        if not len(self.gaps):
            return *of(encoded(self.X, encoding)), 0.0
        known = np.ones(len(self.X), bool)
        known[self.gaps] = False
        n_nodes, found = len(self.weights), list[FloatArray]()
        for own, nodes in self._blocks(encoding):
            each = (a.reshape(n_nodes, -1, *a.shape[1:]) for a in of(nodes))
            mean, variance = (a.astype(np.float64, copy=False) for a in each)
            w = self.weights[:, own].reshape(n_nodes, -1, *[1] * (mean.ndim - 2))
            center, between = _over_nodes(mean, w)
            found.append(np.stack([center, (w * variance).sum(axis=0), between]))
        completed = np.concatenate(found, axis=1)
        whole = np.zeros((3, len(self.X), *completed.shape[2:]))
        whole[:, self.gaps] = completed
        if known.any():
            whole[0, known], whole[1, known] = of(encoded(self.X[known], encoding))
        return whole[0], whole[1], whole[2]

    def moments(
        self,
        encoding: PiecewiseLinear | None,
        of: Callable[[Samples], Moments],
        a2: Any = None,
    ) -> Moments:
        """Return means and variances of outputs for every sample; see `parts`.

        With a2, by which all variances will be multiplied, a number or one for each output, the
        variance between the nodes has its scaling factor, which a2 does not change.
        """
        mean, within, between = self.parts(encoding, of)
        if a2 is not None and len(self.gaps):
            factor = np.zeros(len(mean))
            factor[self.gaps] = self.factor
            between = between * (factor.reshape(-1, *[1] * (mean.ndim - 1)) / a2)
        return mean, within + between

    def inputs(self, encoding: PiecewiseLinear | None) -> Inputs:
        """Return encoded samples with mean and standard deviation over the nodes of each input.

        The inputs of missing values are `filled`. Without an encoding samples are an array.
        """
        rows = encoded(self.X, encoding)
        if not len(self.gaps):
            return Inputs(rows)
        row, feature = np.nonzero(self.missing)
        w = self.weights[:, row]
        if encoding is None:
            filled, std = np.array(rows), np.zeros(rows.shape)
            at = self.gaps[row], feature
            filled[at], variance = _over_nodes(self.values, w)
            std[at] = np.sqrt(variance)
            return Inputs(filled, std)
        parts = list[tuple[Array, ...]]()
        for j in np.unique(feature):
            cells = np.flatnonzero(feature == j)
            state = _of_columns(encoding, np.array([j]))
            nodes = encode(self.values[:, cells].reshape(-1, 1), state)
            mean, variance = _over_nodes(
                nodes.reshape(N_NODES, len(cells), -1), w[:, cells, np.newaxis]
            )
            own = np.append(j, len(encoding.center) + np.flatnonzero(encoding.column == j))
            places = np.broadcast_arrays(self.gaps[row[cells], np.newaxis], own)
            parts.append((*places, mean, np.sqrt(variance)))
        at_row, at_input, *moments = (
            np.concatenate([part[k].ravel() for part in parts]) for k in range(4)
        )
        order = np.lexsort((at_input, at_row))
        indptr = np.searchsorted(at_row[order], np.arange(len(self.X) + 1))
        mean, std = (
            csr_array((values[order], at_input[order], indptr), shape=rows.shape)
            for values in moments
        )
        return Inputs(replace(rows, filled=mean), std)

    def _blocks(self, encoding: PiecewiseLinear | None) -> Iterator[tuple[slice, Samples]]:
        """Yield some of the samples with missing values: all their nodes, node after node."""
        n_nodes, ends = len(self.weights), np.cumsum(np.r_[0, self.missing.sum(axis=1)])
        step = max(1, _BLOCK // n_nodes)
        for start in range(0, len(self.gaps), step):
            own = slice(start, min(start + step, len(self.gaps)))
            rows = encoded(self.X[self.gaps[own]], encoding)
            X = rows.X if isinstance(rows, Encoded) else rows
            nodes = np.repeat(X[np.newaxis], n_nodes, axis=0)
            nodes[:, np.isnan(X)] = self.values[:, ends[own.start] : ends[own.stop]]
            nodes = nodes.reshape(-1, X.shape[1])
            yield own, Encoded(nodes, rows.basis) if isinstance(rows, Encoded) else nodes


def _over_nodes(a: FloatArray, w: FloatArray) -> Moments:
    """Return mean and variance over the nodes, the first axis, with weights w."""
    mean = (w * a).sum(axis=0)
    return mean, (w * (a - mean) ** 2).sum(axis=0)


def complete(X: Array | Coded, joint: Joint | None) -> Completed:
    """Complete samples; without a joint distribution they are taken to have no missing values."""
    if joint is not None and np.isnan(stored(X)).any():
        return joint.complete(X)
    gaps, missing, nothing = np.empty(0, np.intp), np.empty((0, X.shape[1]), bool), np.empty(0)
    nodes = nothing.reshape(N_NODES, 0)
    return Completed(X, gaps, missing, nodes, nodes, nothing)


def masked(X: Array) -> tuple[Array, Array]:
    """Return samples with one feature masked in turn, or a random quarter, and which, (n,)."""
    n, n_features = X.shape
    missing, rng = np.isnan(X), RandomState(0)
    several = np.arange(n) % _EVERY == _EVERY - 1
    one = np.flatnonzero(~several)
    missing[one, np.arange(len(one)) % n_features] = True
    for k in range(_N_PATTERNS):
        some = rng.permutation(n_features)[: max(1, round(_SHARE * n_features))]
        missing[np.ix_(np.flatnonzero(several)[k::_N_PATTERNS], some)] = True
    return np.where(missing, np.nan, X).astype(X.dtype), _which(missing)


def _which(missing: Array) -> Array:
    """Return which feature is missing, (n,); the number of features if several are."""
    which: Array = np.where(missing.sum(axis=1) > 1, missing.shape[1], missing.argmax(axis=1))
    return which
