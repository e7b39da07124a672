"""The features of samples: dense, sparse or encoded, with their uncertainty.

Sparse rows (CSR) and encoded rows are *listed*: the kernel looks only at inputs that are not 0.
They are scaled and not centered, so that 0 stays 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from probprop import _kernel
from probprop._types import Array, FloatArray

N_NODES = 128
"""Points to integrate at: standard deviations of trained networks are right to a few percent."""


class ColumnBasis(NamedTuple):
    """Functions of one column, linear on each interval between its knots; see `basis_of`."""

    knots: FloatArray  # (K,), ascending; a value at a knot belongs to the interval right of it
    at_origin: FloatArray  # (K + 1, n_functions), at the knot left of each interval; of the first
    # interval at the first knot, and without any knot at 0
    slope: FloatArray  # (K + 1, n_functions), in each interval


@dataclass(frozen=True, eq=False)
class Basis:
    """Functions of all columns, as ``cpp/kernel.hpp`` has them: the inputs of a network."""

    first_knot: Array  # (n_columns + 1,)
    knots: FloatArray
    origin: FloatArray  # (n_intervals,)
    first_term: Array  # (n_intervals + 1,)
    input: Array  # of each term, that is of each function that is not 0 in an interval
    at_origin: FloatArray
    slope: FloatArray
    n_inputs: int

    @cached_property
    def columns(self) -> Array:
        """The column of each input, int32; inputs that are always 0 have one of their own."""
        column = np.full(self.n_inputs, len(self.first_knot) - 1, np.int32)
        for c, (first, last) in enumerate(pairwise(self.first_knot)):
            terms = slice(self.first_term[first + c], self.first_term[last + c + 1])
            column[self.input[terms]] = c
        return column

    @cached_property
    def in_kernel(self) -> Any:
        """The same as an object of the kernel, which checks it."""
        return _kernel.Basis(**self.__getstate__())

    def __getstate__(self) -> dict[str, Any]:  # without `in_kernel`, which cannot be copied
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def basis_of(columns: Sequence[ColumnBasis]) -> Basis:
    """Return the basis whose inputs are the functions of each column in turn."""
    n_functions = [column.slope.shape[1] for column in columns]
    begins = np.concatenate([[0], np.cumsum(n_functions)])
    origins, counts, inputs, values, slopes = [], [], [], [], []
    for begin, (knots, at_origin, slope) in zip(begins, columns, strict=False):
        interval, function = np.nonzero((at_origin != 0.0) | (slope != 0.0))
        origins.append(np.concatenate([knots[:1], knots]) if len(knots) else np.zeros(1))
        counts.append(np.bincount(interval, minlength=len(slope)))
        inputs.append(begin + function)
        values.append(at_origin[interval, function])
        slopes.append(slope[interval, function])
    return Basis(
        np.cumsum([0, *(len(column.knots) for column in columns)], dtype=np.int64),
        np.concatenate([column.knots for column in columns]).astype(np.float64),
        np.concatenate(origins).astype(np.float64),
        np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64),
        np.concatenate(inputs).astype(np.int32),
        np.concatenate(values).astype(np.float64),
        np.concatenate(slopes).astype(np.float64),
        int(begins[-1]),
    )


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows whose inputs to a network are the functions of a basis, which are not stored.

    Where a value is missing the inputs of its column are `filled`: their means. If they have
    variances, these are an array with the same entries, in addition to the rows.
    """

    X: Array  # (n, n_columns), finite, or NaN where inputs are filled
    basis: Basis
    filled: sparse.csr_array | None = None  # (n, n_inputs), of double precision

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and inputs."""
        return len(self.X), self.basis.n_inputs

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of X."""
        return self.X.dtype

    def __getitem__(self, rows: slice | Array) -> Encoded:
        filled = None if self.filled is None else self.filled[rows]
        return Encoded(self.X[rows], self.basis, filled)

    def _terms(self) -> Iterator[tuple[int, Array, Array, FloatArray]]:
        """Yield each column with the rows and terms of its inputs, and x - origin."""
        b = self.basis
        for c, (first, last) in enumerate(pairwise(b.first_knot)):
            x = self.X[:, c].astype(np.float64)
            interval = first + c + np.searchsorted(b.knots[first:last], x, side="right")
            n = b.first_term[interval + 1] - b.first_term[interval]
            if self.filled is not None:
                n = np.where(np.isnan(x), 0, n)
            row = np.repeat(np.arange(len(x)), n)
            of_row = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
            yield c, row, b.first_term[interval][row] + of_row, (x - b.origin[interval])[row]

    def counts(self) -> Array:
        """Count the rows in which each input of a column of levels is not 0; all rows of others."""
        b = self.basis
        counts = np.full(b.n_inputs, len(self.X))
        for c, (first, last) in enumerate(pairwise(b.first_knot)):
            ends = b.first_term[first + c : last + c + 2]
            own = slice(ends[0], ends[-1])
            if not b.slope[own].any():
                x = self.X[:, c]
                interval = np.searchsorted(b.knots[first:last], x[~np.isnan(x)], side="right")
                n = np.bincount(interval, minlength=len(ends) - 1)
                counts[b.input[own]] = 0
                np.add.at(counts, b.input[own], np.repeat(n, np.diff(ends)))
        if self.filled is not None:
            counts += np.bincount(self.filled.indices, minlength=len(counts))
        return np.asarray(np.minimum(counts, len(self.X)))

    def tocsr(self) -> Any:
        """Return the inputs as a sparse array, of double precision."""
        b = self.basis
        _, rows, terms, along = zip(*self._terms(), strict=True)
        term = np.concatenate(terms)
        values = b.at_origin[term] + b.slope[term] * np.concatenate(along)
        known = sparse.csr_array((values, (np.concatenate(rows), b.input[term])), shape=self.shape)
        return known if self.filled is None else known + self.filled

    def by_columns(self, by_inputs: FloatArray) -> FloatArray:
        """Return derivatives by the columns, (n, n_columns), from those by the inputs."""
        made = np.zeros(self.X.shape)
        for c, row, term, _ in self._terms():
            along = self.basis.slope[term] * by_inputs[row, self.basis.input[term]]
            made[:, c] = np.bincount(row, along, len(made))
        return made

    def toarray(self) -> FloatArray:
        """Return the inputs as an array."""
        return np.asarray(self.tocsr().toarray())


MEAN = -2
"""Marks a column that is the mean target of a category."""


@dataclass(frozen=True, eq=False)
class Coded:
    """Samples of which every one-hot set of columns is stored as one column of codes.

    It stands for the array of all columns, which `np.asarray` makes; indexing takes samples.
    """

    # (n, n_codes): the columns in no set, then the place of the 1 in each set. The place is NaN if
    # the whole set is missing, and the number of its columns if all are 0.
    codes: Array
    # (n_features,): the first column of the set of each column, or -1; `MEAN` for the mean target
    # of a category, which only candidates with codes use.
    first: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and columns."""
        return len(self.codes), len(self.first)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the array."""
        return self.codes.dtype

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | Array) -> Coded:
        return Coded(self.codes[rows], self.first)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        out: Array = np.zeros(self.shape, self.dtype if dtype is None else dtype)
        out[:, self.others] = self.numbers
        for own, code in self.sets:
            known = np.flatnonzero(code < len(own))
            out[known, own[code[known].astype(np.intp)]] = 1.0
            out[np.ix_(np.isnan(code), own)] = np.nan
        return out

    @cached_property
    def others(self) -> Array:
        """The columns in no set."""
        return np.flatnonzero(self.first < 0)

    @property
    def numbers(self) -> Array:
        """Their values."""
        return np.asarray(self.codes[:, : len(self.others)])

    @property
    def sets(self) -> list[tuple[Array, Array]]:
        """The columns of each set, and its codes, (n,)."""
        return list(zip(sets_of(self.first), self.codes.T[len(self.others) :], strict=True))

    def tocsr(self) -> Any:
        """Return the array of all columns as a sparse array."""
        row, other = np.nonzero(self.numbers)
        found = [(row, self.others[other], self.numbers[row, other])]
        for own, code in self.sets:
            known, missing = np.flatnonzero(code < len(own)), np.flatnonzero(np.isnan(code))
            found += [(known, own[code[known].astype(np.intp)], np.ones(len(known)))]
            at = np.repeat(missing, len(own)), np.tile(own, len(missing))
            found += [(*at, np.full(len(at[0]), np.nan))]
        rows, columns, values = map(np.concatenate, zip(*found, strict=True))
        return sparse.csr_array((values, (rows, columns)), self.shape, self.dtype)

    def without_means(self) -> Coded:
        """Return the same samples with constant mean targets, which no network uses."""
        codes = self.codes.copy()
        codes[:, np.flatnonzero(self.first[self.others] == MEAN)] = 0.0
        return Coded(codes, self.first)

    @cached_property
    def counts(self) -> tuple[Array, Array]:
        """The samples in which each column has a value, and in which it is 1, if it is in a set."""
        n, ones = np.zeros((2, len(self.first)))
        for own, code in self.sets:
            known = code[~np.isnan(code)].astype(np.intp)
            n[own], ones[own] = len(known), np.bincount(known, minlength=len(own) + 1)[:-1]
        return n, ones


def sets_of(first: Array | None) -> list[Array]:
    """Return the columns of each set, as `Coded.first` says; None: there is no set."""
    return [] if first is None else [np.flatnonzero(first == j) for j in np.unique(first) if j >= 0]


def stored(X: Any) -> Array:
    """Return the array in which samples are stored."""
    array: Array = X.codes if isinstance(X, Coded) else X
    return array


def concatenated(parts: Sequence[Any]) -> Any:
    """Return parts one after the other: arrays, or samples with codes of the same sets."""
    whole = np.concatenate([stored(part) for part in parts])
    return Coded(whole, parts[0].first) if isinstance(parts[0], Coded) else whole


Samples = Any
"""Rows as an array, as a `scipy.sparse` array in CSR format, or `Encoded`."""


def is_listed(X: Samples) -> bool:
    """Whether only inputs that are not 0 are used."""
    return not isinstance(X, np.ndarray | Coded)


def dense(X: Samples) -> Array:
    """Return rows as an array."""
    made: Array = X.toarray() if is_listed(X) else X
    return made


def columns_of(X: Samples) -> Array:
    """Return the column that each input comes from, int32."""
    return X.basis.columns if isinstance(X, Encoded) else np.arange(X.shape[1], dtype=np.int32)


def canonical(X: Any) -> Any:
    """Return sparse rows with every entry once, in the order of the columns."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def stacked(parts: Sequence[Samples]) -> Samples:
    """Return the rows of several parts, one after the other: an array if one part is an array."""
    if not all(map(is_listed, parts)):
        return np.concatenate([dense(part) for part in parts])
    if isinstance(parts[0], Encoded):
        if any(part.basis is not parts[0].basis for part in parts):  # some may have codes
            return sparse.vstack([part.tocsr() for part in parts], format="csr")
        filled = [part.filled for part in parts]
        shapes = [part.shape for part in parts]
        made = None if all(each is None for each in filled) else stacked_entries(filled, shapes)
        return Encoded(np.concatenate([part.X for part in parts]), parts[0].basis, made)
    return sparse.vstack(parts, format="csr")


def stacked_entries(parts: Sequence[Any], shapes: Sequence[tuple[int, int]]) -> Any:
    """Return entries of several parts of these shapes; None has none, an array has all."""
    each = [sparse.csr_array(s if a is None else a) for a, s in zip(parts, shapes, strict=True)]
    return sparse.vstack(each, format="csr")


_FLOATS = np.dtype(np.float64), np.dtype(np.float32)


def readable(X: Samples, X_var: Any = None, *, exactly: bool = False) -> Any:
    """Return rows as the kernel reads them: without a copy if possible.

    `X_var` are standardized variances of inputs that are filled, or None. `exactly`: in double
    precision where rows are listed, since in the units of their features numbers of single
    precision may be smaller than the kernel tells from 0.
    """
    if is_listed(X):
        if isinstance(X, Encoded):
            entries, filled = X.X.astype(np.float64) if exactly else readable(X.X), None
            if (means := X.filled) is not None:
                variances = np.zeros(means.nnz) if X_var is None else X_var.data.astype(np.float64)
                lists = means.indptr.astype(np.int64), means.indices.astype(np.int32, copy=False)
                filled = *lists, means.data, variances
            return _kernel.ListedRows(entries, X.basis.in_kernel, filled)
        values = X.data.astype(np.float64, copy=False) if exactly else readable(X.data)
        indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False)
        return _kernel.ListedRows(indptr, indices, np.ascontiguousarray(values), X.shape[1])
    if X.dtype not in _FLOATS:
        return X.astype(np.float64)
    flags = X.flags
    regular = flags.c_contiguous or not any(stride % X.itemsize for stride in X.strides)
    return X if regular and flags.aligned else X.copy()


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows of features, each entry a Gaussian. Indexing selects rows, as for an array."""

    X: Samples  # (n, n_features), means in the units of each feature; NaN: missing
    # (n, n_features), in the same units, 0 or more; of encoded rows a sparse array with the entries
    # that are filled; None: all are 0
    std: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        n, n_features = self.X.shape
        return n, n_features

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Array) -> Inputs:
        return Inputs(self.X[rows], None if self.std is None else self.std[rows])

    def at(self, nodes: FloatArray) -> Inputs:
        """Return the exact rows with X at every node: node after node, (n_nodes n, n_features).

        The nodes, (n_nodes, n_features), are in standard deviations from the mean.
        """
        std = 0.0 if self.std is None else self.std
        moved = self.X + nodes[:, np.newaxis] * std
        return Inputs(moved.reshape(-1, self.X.shape[1]))

    def missing(self) -> Array | None:
        """Return where entries are missing, (n, n_features), or None if none is."""
        missing = None if is_listed(self.X) else np.isnan(self.X)
        return missing if missing is not None and missing.any() else None


@cache
def normal_nodes(n_features: int, n_nodes: int = N_NODES) -> FloatArray:
    """Return (n_nodes, n_features) quasi-random points of a standard Gaussian, with opposites.

    Their moments up to the third equal the Gaussian's: what is linear in the inputs is
    integrated exactly. With many features only the variances are, not the covariances.

    >>> nodes = normal_nodes(3)
    >>> bool(np.allclose(nodes.T @ nodes / len(nodes), np.eye(3)))
    True
    """
    from scipy.stats import qmc  # slow to import

    half = qmc.MultivariateNormalQMC(np.zeros(n_features), seed=0).random(n_nodes // 2)
    if 4 * n_features <= n_nodes:
        factor = np.linalg.cholesky(half.T @ half / len(half))
        half = np.linalg.solve(factor, half.T).T
    else:
        half /= np.sqrt((half**2).mean(axis=0))
    return np.concatenate([half, -half])
