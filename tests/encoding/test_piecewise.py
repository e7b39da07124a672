"""The encoding over arrays: against a loop over rows and ramps, and what holds for all columns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import SplineTransformer

from probprop._types import FloatArray
from probprop.encoding import piecewise
from probprop.encoding.piecewise import (
    code_columns,
    encode,
    encode_sparse,
    fit_piecewise,
    place_knots,
    ramp_moments,
)
from probprop.inference import native
from probprop.inference.inputs import Encoded
from probprop.inference.posterior import initial_posterior

# Whole numbers, so that ties are common and an affine map moves no two values into one.
columns = arrays(np.float64, st.integers(1, 60), elements=st.integers(-50, 50))


def mixed(n: int = 300) -> FloatArray:
    """Columns of all kinds: continuous, skewed, counts, binary, constant, far from 0."""
    rng = np.random.default_rng(0)
    return np.column_stack(
        [
            rng.standard_normal(n),
            np.exp(3.0 * rng.standard_normal(n)),
            rng.poisson(2.0, n),
            rng.integers(0, 2, n),
            np.full(n, 7.0),
            1e6 + rng.uniform(size=n),
        ]
    )


def slow_knots(x: FloatArray, n_bins: int) -> list[float]:
    distinct = sorted(set(x.tolist()))
    if len(distinct) > n_bins + 1:
        ordered = sorted(x.tolist())
        places = [round(b * (len(x) - 1) / n_bins) for b in range(n_bins + 1)]
        distinct = sorted({ordered[place] for place in places})
    return distinct if len(distinct) > 2 else []


def slow_encoding(
    train: FloatArray, X: FloatArray, n_bins: int, *, centered: bool = False
) -> FloatArray:
    """The definition, one value and one ramp at a time."""

    def ramp(x: float, start: float, end: float) -> float:
        return min(1.0, max(0.0, (x - start) / (end - start)))

    raw, ramps = [], []
    for t, x in zip(train.T, X.T, strict=True):
        knots, ordered = slow_knots(t, n_bins), sorted(t.tolist())
        middle = ordered[len(ordered) // 2]
        ends = knots or [v for v in (ordered[0], ordered[-1])]
        zero = np.mean(t) if centered else min(ends, key=lambda k: (abs(k - middle), k))
        scale = np.std(t) if np.ptp(t) > 0.0 else np.inf
        raw.append([(v - zero) / scale for v in x])
        for start, end in pairwise(knots):
            of_train, of_X = ([ramp(v, start, end) for v in c] for c in (t, x))
            at_zero = np.mean(of_train) if centered else ramp(zero, start, end)
            size = np.sqrt(np.mean([(r - at_zero) ** 2 for r in of_train]))
            ramps.append([(r - at_zero) / size for r in of_X])
    return np.array(raw + ramps).T


@pytest.mark.parametrize("n_bins", [2, 5, 32, 1000])
@pytest.mark.parametrize("centered", [False, True])
def test_it_is_the_definition(n_bins: int, centered: bool) -> None:
    train = mixed()
    X = np.vstack([train[:50], 3.0 * train[:20], -train[:5]])
    found = encode(X, fit_piecewise(train, n_bins, centered=centered))
    expected = slow_encoding(train, X, n_bins, centered=centered)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@given(x=columns, n_bins=st.integers(2, 8))
def test_it_is_the_definition_for_any_column(x: FloatArray, n_bins: int) -> None:
    train = x[:, None]
    found = encode(train, fit_piecewise(train, n_bins))
    assert_allclose(found, slow_encoding(train, train, n_bins), atol=1e-12)


def test_codes_have_an_indicator_of_each_level() -> None:
    train, rng = mixed(), np.random.default_rng(1)
    codes = rng.choice([1.0, 5.0, 6.0, 9.0, -2.0], len(train))
    train = np.column_stack([codes, train])
    coded = code_columns(train)
    assert_array_equal(coded, [True, False, False, True, False, False, False])  # and the counts
    state = fit_piecewise(train, 8, coded=coded)
    X = np.vstack([train, train[:6]])
    X[-6:, 0] = 7.0, 100.0, -1e9, 5.4, np.nan, 0.5  # the fourth is nearest to a level
    found, n = encode(X, state), train.shape[1]
    share = [np.mean(codes == level) for level in (-2.0, 1.0, 5.0, 6.0, 9.0)]
    for column, (level, own) in enumerate(zip((-2.0, 1.0, 5.0, 6.0, 9.0), share, strict=True)):
        is_level = np.rint(X[:, 0]) == level
        is_level[-1] = level == 1.0  # half a unit belongs to the level above it
        expected = np.where(np.isnan(X[:, 0]), np.nan, is_level / np.sqrt(own))
        assert_allclose(found[:, n + column], expected)
    assert_allclose(found[:300, 0].std(), 1.0)
    assert_array_equal(found[:, 1:n], encode(X, fit_piecewise(train, 8))[:, 1:n])
    whole = ~np.isnan(X[:, 0])
    listed = Encoded(X[whole], state.basis).tocsr()
    assert_allclose(listed.toarray(), found[whole], atol=1e-14)
    assert (np.diff(listed[:, n : n + 5].tocsr().indptr) <= 1).all()


def test_which_columns_may_be_codes() -> None:
    rng = np.random.default_rng(0)
    levels = {"two": 2, "three": 3, "most": 64, "too many": 65, "few rows of each": 61}
    columns = [rng.permutation(np.arange(300) % n) for n in levels.values()]
    columns += [columns[1] + 0.5, np.where(np.arange(300) < 20, np.nan, columns[1])]
    found = code_columns(np.column_stack(columns).astype(float))
    assert_array_equal(found, [False, True, False, False, False, False, True])
    more = np.column_stack([rng.permutation(np.arange(650) % n) for n in (64, 65)]).astype(float)
    assert_array_equal(code_columns(more), [True, False])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_centered_columns_and_ramps_have_zero_mean_and_unit_variance(dtype: Any) -> None:
    X = mixed().astype(dtype)
    Z = encode(X, fit_piecewise(X, 32, centered=True))
    assert Z.dtype == dtype
    assert Z.shape[1] > 90
    constant = np.ptp(X, axis=0) == 0.0
    assert constant.sum() == 1
    assert (Z[:, : X.shape[1]][:, constant] == 0.0).all()
    Z = Z[:, np.concatenate([~constant, np.ones(Z.shape[1] - X.shape[1], bool)])]
    tol = 1e-6 if dtype == np.float32 else 1e-8  # of 1e6, ten digits after the point are left
    assert_allclose(Z.mean(axis=0, dtype=np.float64), 0.0, atol=tol)
    assert_allclose(Z.std(axis=0, dtype=np.float64), 1.0, atol=tol)


def test_ramps_have_a_mean_square_of_1() -> None:
    X = mixed()
    Z = encode(X, fit_piecewise(X, 32))
    assert_allclose((Z[:, X.shape[1] :] ** 2).mean(axis=0), 1.0)
    varies = np.ptp(X, axis=0) > 0.0
    assert_allclose(Z[:, : X.shape[1]][:, varies].std(axis=0), 1.0)


@pytest.mark.parametrize("n_bins", [8, 16, 32])
def test_three_quarters_of_the_ramps_are_0(n_bins: int) -> None:
    X = np.random.default_rng(0).permutation(np.linspace(-1.0, 1.0, 3201))[:, None]
    Z = encode(X, fit_piecewise(X, n_bins))
    n_listed = np.count_nonzero(Z[:, 1:], axis=1)
    assert n_listed.max() == n_bins // 2
    assert_allclose(n_listed.mean(), n_bins / 4 + 0.5, atol=0.05)


@pytest.mark.parametrize("share", [0.1, 0.45])
def test_a_column_is_0_where_most_of_its_values_are(share: float) -> None:
    rng = np.random.default_rng(0)
    rare = rng.uniform(size=400) < share
    X = np.column_stack([rare, ~rare, np.where(rare, rng.exponential(size=400), 0.0)]).astype(float)
    Z = encode(X, fit_piecewise(X, 16))
    assert_array_equal(Z[~rare], 0.0)
    assert (Z[rare, :3] != 0.0).all()


@given(x=columns, new=columns, n_bins=st.integers(2, 9))
def test_pieces_list_what_is_not_0(x: FloatArray, new: FloatArray, n_bins: int) -> None:
    """Every value by a loop over the terms of its interval."""
    train = np.column_stack([x, -(x**2), np.full(len(x), 3.0), x > 0.0])
    X = np.column_stack([new / 2.0, -new, new, new > 0.0])
    state = fit_piecewise(train, n_bins)
    pieces, found = state.basis, np.zeros((len(X), state.n_outputs))
    for row, z in zip(X, found, strict=True):
        for c, value in enumerate(row):
            knots = pieces.knots[pieces.first_knot[c] : pieces.first_knot[c + 1]]
            i = pieces.first_knot[c] + c + sum(knot <= value for knot in knots)
            for t in range(pieces.first_term[i], pieces.first_term[i + 1]):
                z[pieces.input[t]] += pieces.at_origin[t] + pieces.slope[t] * (
                    value - pieces.origin[i]
                )
    assert_allclose(found, encode(X, state), rtol=1e-12, atol=1e-12)
    assert_allclose(encode_sparse(X, state).toarray(), found, rtol=1e-12, atol=1e-12)
    assert len(pieces.origin) == len(pieces.knots) + X.shape[1] == len(pieces.first_term) - 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_rows_are_the_dense_ones(dtype: Any) -> None:
    X = mixed().astype(dtype)
    state = fit_piecewise(X, 16)
    found, dense = encode_sparse(X, state), encode(X, state)
    assert found.dtype == dtype
    assert found.has_canonical_format
    assert found.nnz < 0.45 * dense.size
    assert_allclose(found.toarray(), dense, rtol=1e-6 if dtype == np.float32 else 1e-9, atol=1e-9)


def test_the_kernel_encodes_rows_itself() -> None:
    X = mixed()
    state = fit_piecewise(X, 8)
    q = initial_posterior(
        [state.n_outputs, 10, 1],
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=np.random.RandomState(0),
        dtype=np.dtype(float),
    )
    rows, y, order = Encoded(X, state.basis), X[:, 0] / X[:, 0].std(), np.arange(len(X))
    got, expected = (native.adf_pass(q, each, y, order)[0] for each in (rows, encode(X, state)))
    assert_allclose(got.m_w[0], expected.m_w[0], rtol=0, atol=1e-9)
    assert_allclose(got.v_w[0], expected.v_w[0], rtol=1e-9)


@pytest.mark.parametrize("given_as", [np.float64, np.float32])
@pytest.mark.parametrize("wanted", [np.float64, np.float32])
def test_rows_are_written_in_the_dtype_that_is_wanted(given_as: Any, wanted: Any) -> None:
    X = mixed().astype(given_as)
    state = fit_piecewise(X, 8)
    rounded_after = encode(X, state).astype(wanted)
    assert_array_equal(encode(X, state, np.dtype(wanted)), rounded_after)
    assert encode(X, state, np.dtype(wanted)).dtype == wanted


def test_the_moments_of_ramps_match_their_values() -> None:
    x = np.concatenate([mixed()[:, 1], np.zeros(10_000)])
    knots = np.array([0.0, 1e-3, 1.0, 50.0, x.max()])
    ramps = np.clip((x[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
    mean, std = ramp_moments(x, knots)
    assert_allclose(mean, ramps.mean(axis=0), rtol=1e-12)
    assert_allclose(std, ramps.std(axis=0), rtol=1e-12)


# ---- What holds for every column


@given(x=columns, new=columns)
def test_every_output_rises_with_x(x: FloatArray, new: FloatArray) -> None:
    Z = encode(np.sort(new)[:, None], fit_piecewise(x[:, None], 4))
    assert (np.diff(Z, axis=0) >= 0.0).all()


@given(x=columns, factor=st.sampled_from([0.25, 3.0, 1e-200, 1e200]), shift=st.integers(-9, 9))
def test_units_do_not_matter(x: FloatArray, factor: float, shift: int) -> None:
    train = x[:, None]
    moved = (train + shift) * factor
    found, expected = (encode(X, fit_piecewise(X, 4)) for X in (moved, train))
    assert_allclose(found, expected, atol=1e-10)


@given(x=columns, seed=st.integers(0, 99))
def test_the_order_of_the_rows_does_not_matter(x: FloatArray, seed: int) -> None:
    X = x[:, None]
    shuffled = np.random.default_rng(seed).permutation(X)
    states = fit_piecewise(X, 4), fit_piecewise(shuffled, 4)
    for name in states[0].__dataclass_fields__:
        a, b = (getattr(state, name) for state in states)
        if a is not None or b is not None:  # neither has one-hot sets, nor codes
            assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@given(x=columns)
def test_only_the_column_itself_extrapolates(x: FloatArray) -> None:
    state = fit_piecewise(x[:, None], 4)
    ends = encode(np.array([[x.min()], [x.max()]]), state)
    beyond = encode(np.array([[x.min() - 100.0], [x.max() + 100.0]]), state)
    assert_array_equal(beyond[:, 1:], ends[:, 1:])
    if np.isfinite(state.scale[0]):
        assert (np.abs(beyond[:, 0]) > np.abs(ends[:, 0])).all()
    else:
        assert_array_equal(beyond[:, 0], 0.0)  # a constant column says nothing


def test_hats_at_the_same_knots_span_the_same_functions() -> None:
    x = np.sort(mixed()[:, :1], axis=0)
    state = fit_piecewise(x, 8)
    grid = np.linspace(x.min(), x.max(), 500)[:, None]
    hats = SplineTransformer(
        degree=1, knots=state.knots[0][:, None], extrapolation="constant"
    ).fit_transform(grid)
    ramps = np.column_stack([np.ones(len(grid)), encode(grid, state)[:, 1:]])
    assert hats.shape == ramps.shape == (500, 9)
    rank = np.linalg.matrix_rank
    assert rank(hats) == rank(ramps) == rank(np.hstack([hats, ramps])) == 9


# ---- Knots


def test_distinct_values_are_the_knots_where_there_are_few() -> None:
    assert_array_equal(place_knots(np.array([5.0, 1.0, 2.0, 1.0]), 3), [1.0, 2.0, 5.0])
    assert_array_equal(place_knots(np.arange(5.0), 4), np.arange(5.0))
    assert_array_equal(place_knots(np.arange(5.0), 2), [0.0, 2.0, 4.0])


def test_equal_quantiles_are_merged() -> None:
    x = np.concatenate([np.zeros(70), np.arange(1.0, 31.0)])
    assert_array_equal(place_knots(x, 10), [0.0, 10.0, 20.0, 30.0])
    rare = np.concatenate([np.zeros(1000), np.arange(1.0, 31.0)])
    assert_array_equal(fit_piecewise(rare[:, None], 10).column, [])  # [0, 30] is the column


@pytest.mark.parametrize(
    "values",
    [
        [0.1 + 0.2, 0.3, 1.0],  # the first two differ by rounding
        [0.0, 5e-324, 1e-310],
        [1.0, 1.0, 2.0],
        [-0.0, 0.0, 1.0],
    ],
)
def test_values_that_rounding_parts_are_one(values: list[float]) -> None:
    state = fit_piecewise(np.array(values)[:, None], 32)
    assert len(state.column) == 0
    assert np.isfinite(encode(np.array(values)[:, None], state)).all()


def test_an_outlier_leaves_the_other_knots_alone() -> None:
    x = np.append(np.linspace(0.0, 1.0, 99), 1e300)[:, None]
    state = fit_piecewise(x, 9)
    assert_allclose(state.knots[0], [*x[:99:11, 0], 1e300])
    assert_allclose((encode(x, state)[:, 1:] ** 2).mean(axis=0), 1.0)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-306, 1e-298, 1e-160, 1e160, 5e307])
def test_any_size_of_values(size: float) -> None:
    x = (np.arange(20.0) / 19.0 * size)[:, None]
    Z = encode(x, fit_piecewise(x, 5))
    assert np.isfinite(Z).all()
    varies = size >= 1e-298  # below, the column is treated as constant
    assert Z.shape[1] == (6 if varies else 1)
    assert_allclose(Z[:, 0].std(), 1.0 if varies else 0.0, atol=1e-7)
    assert_allclose((Z[:, 1:] ** 2).mean(axis=0), 1.0, atol=1e-7)


def test_one_row_and_a_constant_column_become_zero() -> None:
    state = fit_piecewise(np.array([[3.0, -1.0]]), 32)
    assert_array_equal(encode(np.array([[3.0, -1.0]]), state), [[0.0, 0.0]])
    assert state.n_outputs == 2


def test_a_missing_value_is_missing_in_all_its_ramps() -> None:
    X = mixed()
    holed = X.copy()
    holed[::3, 0] = np.nan
    state, known = fit_piecewise(holed, 4), fit_piecewise(np.delete(X, np.s_[::3], axis=0), 4)
    of_0 = np.concatenate([np.arange(6) == 0, state.column == 0])
    assert_allclose(state.start[state.column == 0], known.start[known.column == 0])
    assert_allclose(state.ramp_scale[state.column == 0], known.ramp_scale[known.column == 0])
    Z = encode(holed, state)
    assert np.isnan(Z[::3, of_0]).all()
    assert np.isfinite(Z[:, ~of_0]).all()
    assert np.isfinite(np.delete(Z, np.s_[::3], axis=0)).all()


def test_a_column_without_values_says_nothing() -> None:
    state = fit_piecewise(np.column_stack([np.full(5, np.nan), np.arange(5.0)]), 2)
    Z = encode(np.array([[np.nan, 1.0], [8.0, 1.0]]), state)
    assert np.isnan(Z[0, 0])
    assert Z[1, 0] == 0.0
    assert np.isfinite(state.mean).all()


def test_many_rows_lend_their_quantiles_to_a_sample() -> None:
    X = np.random.default_rng(0).uniform(size=(piecewise.MAX_SAMPLE + 20_000, 2))
    X[0, 1] = 5.0
    state, again = fit_piecewise(X, 8), fit_piecewise(X, 8)
    for a, b in zip(vars(state).values(), vars(again).values(), strict=True):
        assert_array_equal(a, b)
    assert_allclose(state.knots[0], np.linspace(0.0, 1.0, 9), atol=0.08)
    assert state.knots[1][-1] == 5.0  # the ends are taken over all rows
    Z = encode(X, state)
    assert_allclose([*Z[:, :2].std(axis=0), *(Z[:, 2:] ** 2).mean(axis=0)], 1.0)  # and the scales


def test_blocks_of_rows_make_no_difference() -> None:
    X = mixed()
    state, n = fit_piecewise(X, 8), 100  # of them fill more than a block
    assert n * len(X) * state.n_outputs > 2 * (1 << 18)
    many = encode(np.asfortranarray(np.tile(X, (n, 1))), state)
    assert_array_equal(many, np.tile(encode(X, state), (n, 1)))


# ---- Refusals


def test_a_range_that_no_float_holds_is_refused() -> None:
    X = np.array([[0.0, -1.5e308], [1.0, 0.0], [2.0, 1.5e308]])
    with pytest.raises(ValueError, match=r"Column 1 of X has values from -1\.5e\+308 .* Divide"):
        fit_piecewise(X, 2)


@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e300), (np.float32, 1e38)])
def test_a_value_too_large_when_standardized_is_refused(dtype: Any, size: float) -> None:
    state = fit_piecewise(1e-20 * np.arange(5.0)[:, None], 2)
    with pytest.raises(ValueError, match=r"column 0 that is too large for dtype float"):
        encode(np.array([[size]], dtype), state)
