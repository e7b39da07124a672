"""Bounds of the features: what they leave alone, how values grow beyond, what is an outlier."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from probprop.encoding.bounds import fit_bounds

RNG = np.random.RandomState(0)
NORMAL = RNG.standard_normal((400, 1))
FAR = (5.0, 40.0, 1e3, 1e9, 1e300)


def spread_of(column: np.ndarray) -> tuple[float, float]:
    bounds = fit_bounds(column)
    return float(bounds.low[0]), float(bounds.high[0])


def test_training_values_without_outliers_are_left_as_they_are() -> None:
    columns = [
        NORMAL[:, 0],
        np.exp(2.0 * NORMAL[:, 0]),  # heavy tails alone make no outliers
        RNG.exponential(size=400),
        RNG.rand(400) < 0.01,
        np.where(RNG.rand(400) < 0.9, 0.0, RNG.lognormal(3.0, 1.0, 400)),  # mostly 0
        RNG.choice([-5.0, -2.4, -2.3, -2.1], 400, p=[0.1, 0.3, 0.3, 0.3]),
        np.full(400, 7.0),
        RNG.choice([0.3, 0.1 + 0.2], 400),
        1.7e9 + 1e7 * RNG.rand(400),
        1e-310 * NORMAL[:, 0],
    ]
    X = np.stack([column.astype(float) for column in columns], axis=1)
    assert fit_bounds(X).apply(X) is X
    single = X.astype(np.float32)
    assert fit_bounds(single).apply(single) is single


@pytest.mark.parametrize("far", [x for size in FAR[1:] for x in (size, -size)])
def test_an_isolated_value_is_an_outlier(far: float) -> None:
    X = NORMAL.copy()
    X[17] = far
    others = np.delete(X, 17)
    assert spread_of(X) == (others.min(), others.max())
    bounded = fit_bounds(X).apply(X)
    assert_array_equal(np.delete(bounded, 17), others)
    end = np.sign(far) * np.abs(others[np.sign(others) == np.sign(far)]).max()
    assert 0.0 < (bounded[17, 0] - end) * np.sign(far) < 0.5


def test_the_margin_follows_the_tail() -> None:
    light, heavy = np.sort(NORMAL, axis=0), np.sort(np.exp(2.0 * NORMAL), axis=0)
    for x, gap, isolated in ((light, 5.0, True), (heavy, 5.0, False), (heavy, 12.0, True)):
        X = x.copy()
        X[-1] = gap * X[-2]  # for light tails about 12 standard deviations
        assert (spread_of(X)[1] == X[-2]) == isolated


def test_heavy_tails_may_be_exceeded_by_more() -> None:
    z = norm.ppf((np.arange(400.0) + 0.5) / 400.0)[:, np.newaxis]
    light, heavy = (fit_bounds(x) for x in (z, np.exp(z)))
    assert_allclose(light.growth, 0.25 * (light.high - light.low))
    assert_allclose(heavy.growth, heavy.high - np.quantile(np.exp(z), 0.99))
    assert heavy.growth > 0.4 * (heavy.high - heavy.low)
    one_far = np.append(np.zeros(999), 1.0)[:, np.newaxis]
    assert_allclose(fit_bounds(one_far).growth, 6.0 * np.std(one_far))


def test_a_group_of_values_is_no_outlier() -> None:
    X = NORMAL.copy()
    X[:8] = 1e3 + RNG.rand(8, 1)  # 2 %
    assert spread_of(X) == (X.min(), X.max())
    X[4:8] = NORMAL[4:8]
    assert spread_of(X)[1] < 10.0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_beyond_the_range(dtype: str) -> None:
    X = np.linspace(10.0, 14.0, 9, dtype=dtype)[:, np.newaxis]
    bounds = fit_bounds(X)
    most = np.finfo(dtype).max
    steps = np.array([1e-3, 0.1, 1.0, 4.0, 100.0, 1e30, most], dtype)
    above, below = (
        bounds.apply((end + s * steps)[:, np.newaxis]) for end, s in ((14, 1), (10, -1))
    )
    assert above.dtype == below.dtype == dtype
    assert (np.diff(above[:, 0]) >= 0.0).all()
    assert_allclose(above[:, 0] - 14.0, 10.0 - below[:, 0], rtol=1e-5)
    limited = 0.1 / 1.001 ** (1 / 3), 0.5 ** (1 / 3), 4.0 / 65.0 ** (1 / 3), 1.0
    assert_allclose(above[[1, 2, 3, -1], 0], 14.0 + np.array(limited), rtol=1e-6)
    missing = bounds.apply(np.array([[np.nan], [99.0]], dtype))
    assert np.isnan(missing[0, 0])


def test_the_slope_by_differences() -> None:
    X = np.append(RNG.standard_normal((200, 2)), [[0.0, 90.0]], axis=0)
    bounds = fit_bounds(X)
    at = np.linspace(-9.0, 9.0, 37)[:, np.newaxis] * np.ones(2)
    h = 1e-6
    expected = (bounds.apply(at + h) - bounds.apply(at - h)) / (2.0 * h)
    assert_allclose(bounds.slope(at), expected, atol=1e-5)
    assert_array_equal(bounds.slope(np.array([[np.nan, 1e308]])), [[1.0, 0.0]])


def test_a_constant_column_stays_constant() -> None:
    bounds = fit_bounds(np.full((5, 1), 7.0))
    assert_array_equal(bounds.apply(np.array([[7.0], [9.0], [-1e300]])), np.full((3, 1), 7.0))
    assert bounds.slope(np.array([[9.0]])) == 0.0
    wider = bounds.grown(np.array([[9.0], [6.0]]))
    assert (wider.low, wider.high, wider.growth) == (6.0, 9.0, 0.75)


def test_new_samples_widen_the_range() -> None:
    bounds = fit_bounds(np.array([[0.0], [1.0], [2.0]]))
    near = bounds.grown(np.array([[3.0], [np.nan], [-0.5]]))
    assert (near.low, near.high) == (-0.5, 3.0)
    far = bounds.grown(np.array([[1e9]]))
    assert (far.low, far.high) == (0.0, 4.0)  # by at most one range
    assert_array_equal(far.apply(np.array([[3.9]])), [[3.9]])


@pytest.mark.parametrize(("a", "b"), [(1e6, 1e3), (-1e-8, 0.0), (0.3048, -40.0)])
def test_units_do_not_matter(a: float, b: float) -> None:
    X = np.append(NORMAL, [[40.0]], axis=0)
    at = np.array([[-1e5], [-4.0], [0.1], [3.1], [40.0], [50.0]])
    other = (fit_bounds(a * X + b).apply(a * at + b) - b) / a
    assert_allclose(other, fit_bounds(X).apply(at), rtol=1e-9)


@pytest.mark.parametrize("column", [[5.0], [-1.7e308, 1.7e308], [0.0, 5e-324], [np.nan, 1.0]])
def test_extreme_columns(column: list[float]) -> None:
    bounds = fit_bounds(np.array(column)[:, np.newaxis])
    most = np.finfo(np.float64).max
    at = np.array([[-most], [-5e-324], [0.0], [5e-324], [most], [np.nan]])
    bounded = bounds.apply(at)
    assert np.isfinite(bounded[:-1]).all()
    assert (np.diff(bounded[:-1, 0] / 4.0) >= 0.0).all()
    assert np.isfinite(bounds.slope(at)).all()
    assert np.isfinite(bounds.grown(at).high).all()


def test_ends_of_samples_that_are_not_there() -> None:
    whole = np.append(NORMAL, [[4.5], [-300.0]], axis=0)
    ends = np.array([whole.min(axis=0), whole.max(axis=0)])
    assert_array_equal(fit_bounds(NORMAL, ends).high, [4.5])
    assert_array_equal(fit_bounds(NORMAL, ends).low, NORMAL.min(axis=0))
    empty = fit_bounds(np.full((3, 1), np.nan), np.full((2, 1), np.nan))
    assert_array_equal(empty.apply(np.array([[5.0]])), [[5.0]])
    assert_array_equal(empty.grown(np.array([[5.0]])).low, [5.0])
