"""Piecewise-linear encoding: each column, and ramps between its quantiles, all 0 at the median.

Column j of X has knots k_0 < k_1 < ... at quantiles of its training values, of which k_a is the
nearest to the median. Its ramps are

    r_b(x) = clip((x - k_b) / (k_{b+1} - k_b), 0, 1),

and it is encoded as x - k_a, divided by the standard deviation of the column, and as
r_b(x) - r_b(k_a), each divided by its root mean square over the training samples. With independent
weights a sum of ramps is a random walk over the knots that starts at the median. The only ramps
that are not 0 lie between the median and x. Ramps are constant outside of the training values, so
the column alone extrapolates. A missing value is NaN in its column and in all ramps of it.

A column of codes, such as the number of a patient or of a shop, is a whole number whose order says
nothing. It may have an indicator of each of its levels instead of ramps: a "ramp" that is 1 between
its ends and 0 elsewhere, also for levels that did not occur.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_scalar, validate_data

from probprop._types import Array, FloatArray
from probprop.inference import inputs
from probprop.inference.inputs import MEAN, Basis, Coded, ColumnBasis, Encoded, Samples, sets_of
from probprop.inference.standardize import TINY, fit_standardizer

Result = TypeVar("Result")

MAX_SAMPLE = 200_000  # maximum number of samples, drawn with a fixed seed, for the knots
_BLOCK_ENTRIES = 1 << 18  # entries of a block of encoded rows: its temporaries stay at 2 MB
FEW_LEVELS = 32  # columns of a one-hot set that are not worth a code
_LEVELS_OF_CODES = 3, 64  # of a column of whole numbers that may be codes
_ROWS_OF_A_CODE = 5  # on average, at least
_TIED = 1e-12  # knots nearer to each other than this share of their size are rounding


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """The encoding that was fitted to the training samples."""

    mean: FloatArray  # of each column, in its units, (n_features,)
    scale: FloatArray  # its standard deviation; infinite if it is constant: it is encoded as 0
    center: FloatArray  # where it is encoded as 0 if it varies: the knot nearest to its median
    column: Array  # of each ramp, ascending, of int, (n_ramps,)
    start: FloatArray  # where each ramp begins to rise from 0, in the units of its column
    end: FloatArray  # where it is 1
    ramp_center: FloatArray  # what is subtracted: its value, 0 or 1, at the center of the column
    ramp_scale: FloatArray  # its root mean square after that
    # For each column, the first one of its one-hot set, or -1; None without such sets.
    one_hot: Array | None = None
    coded: Array | None = None  # of each column: whether it has indicators; None if none has

    @property
    def n_outputs(self) -> int:
        """Columns of an encoded row: X, then the ramps."""
        return len(self.scale) + len(self.column)

    @property
    def knots(self) -> list[FloatArray]:
        """The knots of each column, ascending; empty where a column has no ramps."""
        of = (self.column == j for j in range(len(self.center)))
        return [np.union1d(self.start[j], self.end[j]) for j in of]

    @cached_property
    def flat(self) -> Array:
        """Whether each ramp is an indicator, (n_ramps,)."""
        none = np.zeros(len(self.column), bool)
        return none if self.coded is None else self.coded[self.column]

    @cached_property
    def basis(self) -> Basis:
        """The encoding as functions of the columns, of which few are not 0 at any value."""
        return self._basis(np.arange(len(self.center)))

    @cached_property
    def basis_of_codes(self) -> Basis:
        """The encoding as functions of `codes`: at any level one of a set, if all are rare."""
        return self._basis(self._others, self.sets)

    @cached_property
    def sets(self) -> list[Array]:
        """The columns of each one-hot set."""
        return sets_of(self.one_hot)

    @cached_property
    def _others(self) -> Array:
        """The columns that are in no set."""
        n = len(self.center)
        return np.arange(n) if self.one_hot is None else np.flatnonzero(self.one_hot < 0)

    def codes(self, X: Array | Coded) -> Array | None:
        """Return the other columns, then the place of the 1 in each one-hot set, as in `Coded`.

        None if a row has anything else in a set.
        """
        if isinstance(X, Coded):
            known = np.array_equal(X.first, self.one_hot)  # type: ignore[arg-type]
            return X.codes if known and not np.isnan(X.codes[:, len(X.others) :]).any() else None
        found = [X[:, self._others]]
        for own in self.sets:
            x, code = X[:, own[0] : own[-1] + 1], np.full((len(X), 1), len(own), X.dtype)
            row, place = np.nonzero(x)
            if (x[row, place] != 1.0).any() or (np.diff(row) == 0).any():
                return None
            code[row, 0] = place
            found.append(code)
        return np.concatenate(found, axis=1)

    def _basis(self, each: Array, sets: Sequence[Array] = ()) -> Basis:
        n, columns, places, all_knots = len(self.center), [], [], self.knots
        for j in each:
            knots = all_knots[j]
            ramp = np.flatnonzero(self.column == j)
            own = knots if len(knots) else self.center[j : j + 1]
            origin = np.concatenate([own[:1], own])
            # Interval i has knot i - 1 on its left, where the ramps that end there or before are 1.
            left, b = np.arange(len(origin))[:, np.newaxis] - 1, np.arange(len(ramp))
            risen = np.where(b < left, 1.0, 0.0) - self.ramp_center[ramp]
            if self.coded is not None and self.coded[j]:
                risen, rises = self.start[ramp] == origin[:, np.newaxis], np.zeros(risen.shape)
                risen[0] = False  # before the first level
            else:
                rises = np.where(b == left, 1.0 / (self.ramp_scale[ramp] * np.diff(own)), 0.0)
            of_column = (origin - self.center[j]) / self.scale[j]
            at_origin = np.column_stack([of_column, risen / self.ramp_scale[ramp]])
            slope = np.column_stack([np.full(len(origin), 1.0 / self.scale[j]), rises])
            columns.append(ColumnBasis(own, at_origin, slope))
            places.append(np.append(j, n + ramp))
        for own in sets:
            at_level = np.eye(len(own) + 1, len(own)) - self.center[own]
            at_level /= self.scale[own]
            between = np.arange(0.5, len(own))
            flat: FloatArray = np.zeros(at_level.shape)
            columns.append(ColumnBasis(between, at_level, flat))
            places.append(own)
        basis = inputs.basis_of(columns)
        inputs_of = np.concatenate(places)[basis.input].astype(np.int32)
        return replace(basis, input=inputs_of, n_inputs=self.n_outputs)


def one_hot_sets(X: Array | Coded) -> Array | None:
    """Return the first column of each column's one-hot set, or -1; None if there is no set.

    A set is more than 32 adjacent columns with at most a single 1 per row and 0 elsewhere.
    """
    if isinstance(X, Coded):
        return X.first
    first, (low, high) = np.full(X.shape[1], -1), feature_ends(X)
    start, taken = 0, np.zeros(len(X), bool)
    for j in range(X.shape[1] + 1):
        row = None
        if j < X.shape[1] and low[j] == 0.0 and high[j] == 1.0:
            row = np.flatnonzero(X[:, j])
            row = row if (X[row, j] == 1.0).all() else None
        if row is None or taken[row].any():
            if j - start > FEW_LEVELS:
                first[start:j] = start
            start, taken = j + (row is None), np.zeros(len(X), bool)
        if row is not None:
            taken[row] = True
    return first if (first >= 0).any() else None


def code_columns(X: Array | Coded) -> Array:
    """Return which columns may be codes: 3 to 64 different whole numbers, 5 rows each on average.

    Columns of one-hot sets have two values.
    """
    found = np.zeros(X.shape[1], bool)
    others, numbers = (X.others, X.numbers) if isinstance(X, Coded) else (range(X.shape[1]), X)
    least, most = _LEVELS_OF_CODES
    for j, x in zip(others, map(present, numbers.T), strict=True):
        # A few values decide for most columns.
        if all((own == np.rint(own)).all() and len(np.unique(own)) <= most for own in (x[:999], x)):
            found[j] = least <= len(np.unique(x)) <= len(x) / _ROWS_OF_A_CODE
    return found


def fit_piecewise(
    X: Array | Coded,
    n_bins: int,
    *,
    centered: bool = False,
    one_hot: Array | None = None,
    coded: Array | None = None,
) -> PiecewiseLinear:
    """Place the knots of each column, for at most `n_bins` ramps, and measure the scales.

    If `centered`, columns and ramps are 0 at their means, and the scales are standard deviations.
    Columns of the sets in `one_hot`, none if it is None, have no ramps, and are 0 at the median.
    Samples with codes have their own sets. Columns of `coded` have an indicator of each level; if
    it is None, mean targets are ignored.
    """
    one_hot = X.first if isinstance(X, Coded) else one_hot
    _check_range(X)
    raw = fit_standardizer(X, None)
    varies = raw.spreads > 0.0
    scale, center = np.where(varies, raw.x_scale, np.inf), raw.x_mean.copy()
    sample = sample_rows(len(X))
    in_set = np.zeros(X.shape[1], bool) if one_hot is None else one_hot >= 0
    center[in_set] = raw.x_mean[in_set] >= 0.5
    ramps: list[tuple[FloatArray, ...]] = []
    others, numbers = (X.others, X.numbers) if isinstance(X, Coded) else (range(len(scale)), X)
    for j, column in zip(others, numbers.T, strict=True):
        if one_hot is not None and one_hot[j] == MEAN and coded is None:
            scale[j] = np.inf
            continue
        if in_set[j] or not varies[j]:
            continue
        x = present(column)
        if coded is not None and coded[j]:
            levels, counts = np.unique(x, return_counts=True)
            center[j] = np.median(x)
            zero = np.zeros(len(levels))
            ends = levels - 0.5, levels + 0.5
            ramps.append((np.full(len(levels), float(j)), *ends, zero, np.sqrt(counts / len(x))))
            continue
        drawn = x
        if len(X) > MAX_SAMPLE:
            drawn = np.concatenate([present(column[sample]), [x.min(), x.max()]])
        knots = place_knots(drawn, n_bins)
        middle = np.partition(drawn, len(drawn) // 2)[len(drawn) // 2]
        at = np.argmin(np.abs(knots - middle))
        if not centered:
            center[j] = knots[at]
        if len(knots) > 2:  # a ramp over the whole range would equal the column
            mean, std = ramp_moments(x, knots)
            zero = mean if centered else np.where(np.arange(len(mean)) < at, 1.0, 0.0)
            parts = knots[:-1], knots[1:], zero, np.hypot(std, mean - zero)
            ramps.append((np.full(len(mean), float(j)), *parts))
    column, *rest = map(np.concatenate, zip(*ramps, strict=True)) if ramps else np.empty((5, 0))
    parts = raw.x_mean, scale, center, column.astype(np.intp)
    return replace(PiecewiseLinear(*parts, *rest), one_hot=one_hot, coded=coded)


def place_knots(values: FloatArray, n_bins: int) -> FloatArray:
    """Return at most n_bins + 1 of the values: all distinct ones, or the nearest to quantiles.

    Knots are values that occur, so no two ramps are equal on the training samples.
    """
    knots = np.unique(values)
    if len(knots) > n_bins + 1:
        at = np.rint(np.linspace(0, len(values) - 1, n_bins + 1)).astype(np.intp)
        knots = np.unique(np.sort(values)[at])
    kept = list(knots[:1])
    for knot in knots[1:]:
        if knot - kept[-1] > max(TINY, _TIED * max(abs(knot), abs(kept[-1]))):
            kept.append(knot)
    return np.array(kept) + 0.0  # -0.0 becomes 0.0


def ramp_moments(x: FloatArray, knots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the ramps between knots over the values x.

    A value is inside one ramp, at 1 of those below it and at 0 of those above it: each value
    is looked at once, however many ramps there are, and no difference of squares is taken.
    """
    start, n_ramps = knots[:-1], len(knots) - 1
    inside = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, n_ramps - 1)
    r = (np.clip(x, knots[0], knots[-1]) - start[inside]) / np.diff(knots)[inside]
    count = np.bincount(inside, minlength=n_ramps)
    n_at_0 = np.cumsum(count) - count
    n_at_1 = len(x) - n_at_0 - count
    mean = (np.bincount(inside, r, n_ramps) + n_at_1) / len(x)
    squares_inside = np.bincount(inside, (r - mean[inside]) ** 2, n_ramps)
    squares = squares_inside + n_at_0 * mean**2 + n_at_1 * (1.0 - mean) ** 2
    return mean, np.sqrt(squares / len(x))


def encode(X: Array, state: PiecewiseLinear, dtype: np.dtype[Any] | None = None) -> Array:
    """Return the scaled columns of X, then the scaled ramps, (n, n_outputs).

    Values are rounded to the dtype of X first, then to `dtype`. ValueError if a scaled value is
    larger than the dtype of X can hold.
    """
    n_raw = len(state.center)
    width, flat = state.end - state.start, state.flat
    out = np.empty((len(X), state.n_outputs), X.dtype if dtype is None else dtype)
    step = max(1, _BLOCK_ENTRIES // max(1, state.n_outputs))
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        block = X[rows].astype(np.float64)
        with np.errstate(over="ignore"):  # refused below
            raw = ((block - state.center) / state.scale).astype(X.dtype, copy=False)
        _check_finite(raw)
        out[rows, :n_raw] = raw
        # Within its ends, x - start keeps every digit, and no ratio overflows.
        ramps = np.clip(block[:, state.column], state.start, state.end)
        ramps -= state.start
        ramps /= width
        level = block[:, state.column[flat]]
        inside = (state.start[flat] <= level) & (level < state.end[flat])
        ramps[:, flat] = np.where(np.isnan(level), np.nan, inside)
        ramps -= state.ramp_center
        ramps /= state.ramp_scale
        out[rows, n_raw:] = ramps.astype(X.dtype, copy=False)
    return out


def encoded(
    X: Array | Coded, state: PiecewiseLinear | None, *, by_columns: bool = False
) -> Samples:
    """Return rows that the kernel encodes as it reads them; None leaves them as they are.

    One-hot sets become codes, unless derivatives are `by_columns` of X.
    """
    if state is None:
        return np.asarray(X)
    codes = None if by_columns or not len(state.sets) else state.codes(X)
    if codes is None:
        return Encoded(np.asarray(X), state.basis)
    return Encoded(codes, state.basis_of_codes)


def encode_sparse(X: Array, state: PiecewiseLinear) -> csr_array:
    """Return `encode` of X, which has no missing values, without the outputs that are 0."""
    with np.errstate(over="ignore"):  # refused below
        found = Encoded(X, state.basis).tocsr().astype(X.dtype, copy=False)
    _check_finite(found[:, : X.shape[1]].toarray())
    return found


def _check_finite(scaled: Array) -> None:
    if (far := np.isinf(scaled).any(axis=0)).any():
        raise ValueError(
            f"X contains a value in column {np.argmax(far)} that is too large for dtype "
            f"{scaled.dtype} when it is scaled. Check the units of that row, or fit on data that "
            "include such values."
        )


def present(x: Array) -> FloatArray:
    """Return the values that are not missing, of double precision."""
    return x[~np.isnan(x)].astype(np.float64)


def by_column(
    of: Callable[[FloatArray], Result], X: Array | Coded, ends: Array | None = None
) -> list[Result]:
    """Return a function of the values that are present in each column, in any order.

    If there are `ends`, (2, n_features), they are two more rows. Many one-hot columns have the same
    counts of 0 and 1, and so the same result.
    """
    of_counts = cache(lambda n, ones: of(np.repeat([0.0, 1.0], [n - ones, ones])))
    found, numbers = list[Result](), iter((X.numbers if isinstance(X, Coded) else X).T)
    for j in range(X.shape[1]):
        x = np.empty(0) if ends is None else present(ends[:, j])
        n, ones = (a[j] for a in X.counts) if isinstance(X, Coded) else (0, 0)
        if not isinstance(X, Coded) or X.first[j] < 0:
            own = present(next(numbers))
            x = own if ends is None else np.append(own, x)
        n_ones = int(np.count_nonzero(x == 1.0))
        if n_ones + np.count_nonzero(x == 0.0) < len(x):
            found.append(of(x))
        else:
            found.append(of_counts(int(n) + len(x), int(ones) + n_ones))
    return found


def sample_rows(n: int) -> Array:
    """Return the rows that knots are taken from, ascending."""
    return np.sort(RandomState(0).choice(n, MAX_SAMPLE, replace=False) if n > MAX_SAMPLE else [])


def feature_ends(X: Array | Coded) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest value of each feature; NaN where it has none."""
    if isinstance(X, Coded):
        n, ones = X.counts
        ends = np.where(n > 0, np.stack([ones == n, ones > 0]), np.nan)
        ends[:, X.others] = feature_ends(X.numbers)
        return ends[0], ends[1]
    low, high = (f.reduce(X, axis=0).astype(np.float64) for f in (np.fmin, np.fmax))
    return low, high


def _check_range(X: Array | Coded) -> None:
    """Reject a column whose range exceeds the range of floats."""
    low, high = feature_ends(X)
    with np.errstate(over="ignore"):
        wide = np.isinf(high - low)
    if wide.any():
        j = np.argmax(wide)
        raise ValueError(
            f"Column {j} of X has values from {low[j]:.3g} to {high[j]:.3g}, whose difference is "
            "too large for dtype float64. Divide the column by a constant first."
        )


class PiecewiseLinearEncoder(
    OneToOneFeatureMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Piecewise-linear encoding: each column, and ramps between its quantiles, 0 at its median.

    Bin b of a column, with the ends k_b and k_{b+1}, becomes the ramp
    r_b(x) = clip((x - k_b) / (k_{b+1} - k_b), 0, 1). A linear function of the ramps is a
    piecewise-linear function of the column. Column and ramps are shifted to 0 at the knot k_a that
    is nearest to the median, so that the only ramps of a value that are not 0 lie between k_a and
    the value: a quarter of them on average. The column is then divided by its standard deviation,
    and each ramp by its root mean square over the training samples. Outside of the training range
    ramps are constant.

    Parameters
    ----------
    n_bins : int, default=32
        Maximum number of ramps per column, at least 2. The knots are the training values nearest
        to the n_bins + 1 evenly spaced quantiles, or all distinct values if they are fewer.
    sparse_output : bool, default=False
        Whether `transform` returns a `scipy.sparse.csr_array`, for which X must not have missing
        values.

    Attributes
    ----------
    state_ : PiecewiseLinear
        Knots, centers and scales as plain arrays.
    knots_ : list of ndarray
        The knots of each column, in its units; empty if it has no ramps.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if all of them are strings.

    Notes
    -----
    Columns with at most two distinct knots have no ramps, and a column that is constant in `fit`
    becomes 0. NaN is a missing value: it is ignored in `fit`, and NaN in the column and in all its
    ramps in `transform`. Infinities are refused.

    Examples
    --------
    >>> from probprop import PiecewiseLinearEncoder
    >>> encoder = PiecewiseLinearEncoder().fit([[1.0], [1.5], [4.0]])
    >>> encoder.transform([[1.25], [1.5], [10.0]]).round(2)
    array([[-0.19, -0.87,  0.  ],
           [ 0.  ,  0.  ,  0.  ],
           [ 6.48,  0.  ,  1.73]])
    >>> encoder.get_feature_names_out()
    array(['x0', 'x0 from 1 to 1.5', 'x0 from 1.5 to 4'], dtype=object)
    """

    def __init__(self, n_bins: int = 32, *, sparse_output: bool = False) -> None:
        self.n_bins = n_bins
        self.sparse_output = sparse_output

    def fit(self, X: ArrayLike, y: Any = None) -> PiecewiseLinearEncoder:
        """Place the knots and measure the scales; NaN in X is a missing value."""
        if isinstance(self.n_bins, bool | np.bool_):
            raise TypeError("n_bins must be an instance of int, not bool.")
        check_scalar(self.n_bins, "n_bins", Integral, min_val=2)
        self.state_: PiecewiseLinear = fit_piecewise(self._checked(X, reset=True), int(self.n_bins))
        return self

    def transform(self, X: ArrayLike) -> Array | csr_array:
        """Return the scaled columns, then the scaled ramps of each column in turn.

        The dtype is float32 if X is of float32, else float64.
        """
        check_is_fitted(self)
        checked = self._checked(X, reset=False)
        return (encode_sparse if self.sparse_output else encode)(checked, self.state_)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Return names such as "age" and "age from 20 to 25", given the names of X or None."""
        check_is_fitted(self)
        names = super().get_feature_names_out(input_features)  # checked, one per column of X
        ramps = [
            f"{name} from {start} to {end}"
            for name, knots in zip(names, map(_texts, self.knots_), strict=True)
            for start, end in pairwise(knots)
        ]
        return np.array([*names, *ramps], dtype=object)

    @property
    def knots_(self) -> list[FloatArray]:
        """The knots of each column, in its units; empty where it has no ramps."""
        check_is_fitted(self)
        return self.state_.knots

    def _checked(self, X: ArrayLike, *, reset: bool) -> Array:
        finite = True if self.sparse_output and not reset else "allow-nan"
        options = {"dtype": [np.float64, np.float32], "ensure_all_finite": finite}
        checked: Array = validate_data(self, X, reset=reset, **options)
        return checked

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _texts(knots: FloatArray) -> list[str]:
    """Write numbers with the fewest digits, at least four, that keep them distinct."""
    of_digits = ([f"{knot:.{digits}g}" for knot in knots] for digits in range(4, 18))
    return next(texts for texts in of_digits if len({*texts}) == len(texts))
