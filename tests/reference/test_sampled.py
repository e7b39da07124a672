"""Networks with drawn weights: the kernel against NumPy, in every layout of X."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from probprop import _kernel
from probprop._types import Array
from probprop.distributions.functions import SampledNetwork
from probprop.inference.standardize import Standardizer
from probprop.reference import sampled as oracle


def draw(sizes: list[int], seed: int) -> SampledNetwork:
    rng = np.random.RandomState(seed)
    weights = tuple(rng.standard_normal((n_out, n_in + 1)) for n_in, n_out in pairwise(sizes))
    mean, scale = rng.standard_normal(sizes[0]), rng.uniform(0.5, 2.0, sizes[0])
    return SampledNetwork(weights, Standardizer(mean, scale, np.full(1, 3.0), np.full(1, 0.7)))


def expected(network: SampledNetwork, X: Array) -> tuple[Array, Array]:
    """f and its gradient in the units of the data, by NumPy."""
    s = network.standardizer
    Xs = (X.astype(np.float64) - s.x_mean) / s.x_scale
    f, df_dX = oracle.output_and_gradient(network.weights, Xs)
    assert_array_equal(f, oracle.output(network.weights, Xs))
    return f * s.y_scale + s.y_mean, df_dX / s.x_scale * s.y_scale


def assert_equals_numpy(network: SampledNetwork, X: Array) -> None:
    f, df_dX = network.gradient(X)
    f_expected, df_dX_expected = expected(network, X)
    # Sums of terms of both signs have the error of the terms.
    assert_allclose(f, f_expected, rtol=1e-11, atol=1e-11 * np.abs(f_expected).max())
    assert_allclose(df_dX, df_dX_expected, rtol=1e-11, atol=1e-11 * np.abs(df_dX_expected).max())
    assert_array_equal(network(X), f)


@settings(max_examples=60, deadline=None)
@given(
    n_features=st.integers(1, 20),
    hidden=st.lists(st.integers(1, 40), max_size=4),
    n=st.integers(1, 80),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_the_kernel_equals_numpy(
    n_features: int, hidden: list[int], n: int, seed: int, dtype: str
) -> None:
    X = np.random.RandomState(seed).standard_normal((n, n_features)).astype(dtype)
    assert_equals_numpy(draw([n_features, *hidden, 1], seed), X)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "Fortran order": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "part of a wider array": lambda X: np.hstack([X, X])[:, : X.shape[1]],
    "other byte order": lambda X: X.astype(">f8"),
    "integers": lambda X: X.astype(int),
    "read-only": lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
    "a field of records": lambda X: packed(X)["value"],
}


def packed(X: Array) -> Array:
    """Records of a byte and a number, so that the numbers are not aligned."""
    records = np.zeros(X.shape, np.dtype([("flag", "u1"), ("value", "f8")]))
    records["value"] = X
    return records


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_X_gives_the_same_bits(layout: str) -> None:
    X = 3.0 * np.random.RandomState(0).standard_normal((70, 5))
    X = X.round() if layout == "integers" else X
    network = draw([5, 9, 1], 1)
    assert_array_equal(network(LAYOUTS[layout](X)), network(X))
    for laid, plain in zip(network.gradient(LAYOUTS[layout](X)), network.gradient(X), strict=True):
        assert_array_equal(laid, plain)


def test_a_row_gives_the_same_alone_and_in_any_block() -> None:
    X = np.random.RandomState(0).standard_normal((600, 5))
    network = draw([5, 11, 6, 1], 2)
    f, df_dX = network.gradient(X)
    assert_array_equal(network(X), f)
    for i in (0, 31, 577, 599):
        alone = network.gradient(X[i : i + 1])
        assert_array_equal(alone[0], f[[i]])
        assert_array_equal(alone[1], df_dX[[i]])
    large = draw([5, 2_000, 2_000, 1], 2)  # of 4 million weights: blocks of 267 rows
    f, df_dX = large.gradient(X)
    assert_array_equal(large(X), f)
    for rows in (slice(0, 100), slice(260, 270), slice(500, 600)):
        alone = large.gradient(X[rows])
        assert_array_equal(alone[0], f[rows])
        assert_array_equal(alone[1], df_dX[rows])


def test_features_in_the_smallest_units() -> None:
    """Subnormal features of a subnormal scale are numbers like any other."""
    network = draw([2, 7, 1], 3)
    mean, scale = network.standardizer.x_mean, network.standardizer.x_scale
    X = np.random.RandomState(0).standard_normal((5, 2))
    s = network.standardizer
    tiny = Standardizer(mean * 1e-310, scale * 1e-310, s.y_mean, s.y_scale)
    small = SampledNetwork(network.weights, tiny)
    assert_allclose(small(X * 1e-310), network(X), rtol=1e-9)


def test_what_does_not_fit_is_refused() -> None:
    X, one, layers = np.zeros((3, 2)), np.ones(2), [np.zeros((4, 3)), np.zeros((1, 5))]
    good = (layers, X, one, one, 0.0, 1.0)
    assert_array_equal(_kernel.sampled_outputs(*good)[0], np.zeros(3))
    for at, wrong, message in (
        (0, [], "the last layer needs one unit"),
        (0, [np.zeros((2, 3))], "the last layer needs one unit"),
        (0, [np.zeros((0, 3)), np.zeros((1, 1))], "every layer needs a unit"),
        (0, [np.zeros((3, 3)), np.zeros((1, 5))], "the layers do not fit each other"),
        (1, np.zeros((3, 3)), "does not have a column for every feature"),
        (2, np.ones(3), "means and scales"),
    ):
        with pytest.raises(ValueError, match=message):
            _kernel.sampled_outputs(*good[:at], wrong, *good[at + 1 :])
