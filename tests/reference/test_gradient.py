"""The gradient of a prediction by the features: finite differences, exact cases, both engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from finite_differences import assert_gradient, differences
from posteriors import trained
from probprop import PBPRegressor, _kernel
from probprop._types import FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Posterior

HIDDEN = [(), (7,), (6, 5), (5, 4, 3)]


def random_posterior(sizes: list[int], seed: int, dtype: str = "float64") -> Posterior:
    """A posterior as after some training: unequal variances, means of their size."""
    q, rng = trained(sizes, seed, dtype), np.random.RandomState(seed + 1)
    return replace(q, m_w=tuple(rng.standard_normal(m.shape).astype(dtype) for m in q.m_w))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_moments_by_finite_differences(engine: str, hidden: tuple[int, ...]) -> None:
    posterior = random_posterior([3, *hidden, 1], seed=len(hidden))
    X = np.random.RandomState(0).standard_normal((20, 3))
    moments = ENGINES[engine].predict_moments
    got = ENGINES[engine].predict_gradient(posterior, X)
    for k in (0, 1):  # mean, variance
        assert_allclose(got[k], moments(posterior, X)[k], rtol=1e-14)
        expected = differences(lambda X, k=k: moments(posterior, X)[k], X, np.full(3, 1e-3))
        assert_gradient(got[2 + k], expected, 1e-8)


@settings(max_examples=40, deadline=None)
@given(
    n_features=st.integers(1, 40),
    hidden=st.lists(st.integers(1, 70), max_size=4),
    n=st.integers(1, 5),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_parity(n_features: int, hidden: list[int], n: int, seed: int, dtype: str) -> None:
    posterior = random_posterior([n_features, *hidden, 1], seed, dtype)
    X = np.random.RandomState(seed).standard_normal((n, n_features)).astype(dtype)
    native, expected = (e.predict_gradient(posterior, X) for e in ENGINES.values())
    for got, wanted in zip(native, expected, strict=True):
        assert got.shape == wanted.shape
        assert got.dtype == np.float64
        scale = np.abs(wanted).max()
        assert_allclose(got, wanted, rtol=0.0, atol=scale * (1e-10 if dtype == "float64" else 1e-3))


# Every width around the vector and block lengths: padding and remainders, of inputs and of units.
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130])
def test_every_width(width: int) -> None:
    posterior = random_posterior([width, width, width, 1], width)
    X = np.random.RandomState(width).standard_normal((3, width))
    native, expected = (e.predict_gradient(posterior, X) for e in ENGINES.values())
    for got, wanted in zip(native, expected, strict=True):
        assert_allclose(got, wanted, rtol=0.0, atol=1e-10 * np.abs(wanted).max())


def test_the_weights_are_not_changed() -> None:
    posterior = random_posterior([3, 5, 4, 1], 0)
    X = np.random.RandomState(0).standard_normal((10, 3))
    copies = [a.copy() for a in (*posterior.m_w, *posterior.v_w)]
    native = ENGINES["native"].predict_gradient
    whole = native(posterior, X)
    for i in range(10):  # nor inside the kernel: no row sees the rows before it
        for all_rows, one_row in zip(whole, native(posterior, X[i : i + 1]), strict=True):
            assert_array_equal(all_rows[i], one_row[0])
    for a, b in zip((*posterior.m_w, *posterior.v_w), copies, strict=True):
        assert_array_equal(a, b)


def test_the_kernel_refuses_arrays_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="weights do not fit"):
        _kernel.predict_gradient([3, 5, 1], np.zeros(7), np.ones(7), np.zeros((4, 3)))
    with pytest.raises(ValueError, match="columns"):
        _kernel.predict_gradient([3, 5, 1], np.zeros(26), np.ones(26), np.zeros((4, 2)))


# ---- The public method: through standardization, in the user's units.


def curve(n: int = 80) -> tuple[FloatArray, FloatArray]:
    """Features and target in units that are far from 1 and from each other."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, 3)) * [1e-3, 20.0, 1e5] + [0.0, 500.0, -1e6]
    z = (X - [0.0, 500.0, -1e6]) / [1e-3, 20.0, 1e5]
    return X, 1e4 * (np.sin(2.0 * z[:, 0]) + 0.5 * z[:, 1] ** 2) + 3e5


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_target_units_per_feature_unit(engine: str, hidden: tuple[int, ...]) -> None:
    X, y = curve()
    model = PBPRegressor(hidden, n_epochs=2, engine=engine, random_state=0).fit(X, y)
    at = model.predict_gradient(X[:20])
    mean, std = model.predict(X[:20], return_std=True)
    assert_allclose(at.mean, mean, rtol=1e-13)
    assert_allclose(at.std, std, rtol=1e-13)
    assert_allclose(at.epistemic_std, model.predict_distribution(X[:20]).epistemic_std, rtol=1e-13)
    steps = 1e-2 * X.std(axis=0)
    for name, got in (
        ("mean", at.dmean_dX),
        ("std", at.dstd_dX),
        ("epistemic_std", at.depistemic_std_dX),
    ):
        expected = differences(
            lambda X, name=name: getattr(model.predict_distribution(X), name), X[:20], steps
        )
        assert_gradient(got, expected, 1e-6)


def test_a_linear_model_has_the_gradient_of_its_formula() -> None:
    # mean = b + sum m_j z_j/sqrt(n), variance = sum v_j z_j^2/n with the bias's z = 1, n = 4.
    X, y = curve()
    model = PBPRegressor((), random_state=0).fit(X, y)
    s, (m,), (v,) = model.standardizer_, model.posterior_.m_w, model.posterior_.v_w
    Z = (X - s.x_mean) / s.x_scale
    variance = (Z**2 @ v[0, :-1] + v[0, -1]) / 4.0
    at = model.predict_gradient(X)
    slope = m[0, :-1] / 2.0 * s.y_scale / s.x_scale
    assert_allclose(at.dmean_dX, np.tile(slope, (len(X), 1)), rtol=1e-10)
    dstd = Z * v[0, :-1] / 4.0 / np.sqrt(variance)[:, np.newaxis] * s.y_scale / s.x_scale
    assert_allclose(at.depistemic_std_dX, dstd, rtol=1e-9)


def test_float32_predicts_the_same_gradient() -> None:
    X, y = curve()
    model = PBPRegressor((6, 5), random_state=0).fit(X, y)
    exact = model.predict_gradient(X)
    p = model.posterior_
    model.posterior_ = replace(
        p,
        m_w=tuple(m.astype(np.float32) for m in p.m_w),
        v_w=tuple(v.astype(np.float32) for v in p.v_w),
    )
    model.dtype = "float32"
    rounded = model.predict_gradient(X)
    assert_gradient(rounded.dmean_dX, exact.dmean_dX, 1e-4)
    assert_gradient(rounded.dstd_dX, exact.dstd_dX, 1e-4)


def test_a_constant_feature_moves_the_prediction_in_its_own_unit() -> None:
    X, y = curve()
    X[:, 2] = 7.0  # its scale is 1
    model = PBPRegressor((6,), random_state=0).fit(X, y)
    at = model.predict_gradient(X[:3])
    expected = differences(model.predict, X[:3], np.array([1e-5, 0.2, 1e-2]))
    assert_gradient(at.dmean_dX, expected, 1e-6)


def test_what_predict_refuses_is_refused() -> None:
    X, y = curve()
    with pytest.raises(NotFittedError):
        PBPRegressor().predict_gradient(X)
    model = PBPRegressor((3,), n_epochs=1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict_gradient(X[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        model.predict_gradient(np.full((1, 3), np.nan))


# ---- Sampled networks.


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_sampled_network_by_finite_differences(hidden: tuple[int, ...]) -> None:
    X, y = curve()
    model = PBPRegressor(hidden, n_epochs=2, random_state=0).fit(X, y)
    f = model.sample_functions(random_state=0)[0]
    value, df_dX = f.gradient(X)
    assert_array_equal(value, f(X))
    # Linear in pieces, so exact up to rounding but where a step crosses an edge.
    expected = differences(f, X, 1e-5 * X.std(axis=0))
    error = np.abs(df_dX - expected) / np.abs(expected).max(axis=0)
    crossed = error.max(axis=1) > 1e-6
    assert crossed.sum() <= 1
