"""Pooled predictions and their mean squares: against simulations with variances that are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal

from probprop.distributions.base import Moments
from probprop.estimators.cv import calibration
from probprop.estimators.cv.calibration import Calibration, OutOfFold, Squares, range_of

N = 20_000
STD = RandomState(9).uniform(0.5, 2.0, size=N)  # what the networks expect, row by row
EXPECTED = np.sqrt([0.36, 0.64])[:, np.newaxis] * STD  # of model and noise


def pooled(parts: list[OutOfFold], weights: Any = None) -> OutOfFold:
    equal = np.full(len(parts), 1.0 / len(parts))
    return calibration.pooled(parts, equal if weights is None else weights)


def made(n_networks: int, shared: float, own: float, seed: int = 0) -> tuple[Any, Any]:
    """Return targets, and means of networks with a shared error and one of their own each.

    The variances of the errors are in units of STD**2.
    """
    rng = RandomState(seed)
    y = 10.0 * rng.standard_normal(N)
    common = np.sqrt(shared) * rng.standard_normal(N)
    each = np.sqrt(own) * rng.standard_normal((n_networks, N))
    return y, y + STD * (common + each)


def out_of_fold(y: Any, means: Any) -> OutOfFold:
    return pooled([OutOfFold(mean, y - mean, *EXPECTED, unit=10.0) for mean in means])


# ---- Pooling


def test_a_single_prediction_stays_as_it_is() -> None:
    y, means = made(1, 1.0, 0.5)
    part = OutOfFold(means[0], y - means[0], *EXPECTED, unit=10.0)
    assert pooled([part]) is part
    squares = part.squares(5)
    assert squares == Squares(part.factor, 0.0, N, 1.0, 5.0)
    assert squares.total == squares.factor == part.factor


def test_predictions_are_pooled_row_by_row() -> None:
    rng = RandomState(0)
    y, means, v, kappa = (rng.uniform(1.0, 2.0, size=(3, 4)) for _ in range(4))
    weights = np.arange(1.0, 5.0)
    parts = [
        OutOfFold(m, y[0] - m, np.sqrt(a), np.sqrt(b), unit, weights)
        for m, a, b, unit in zip(means, v, kappa, (1.0, 3.0, 2.0), strict=True)
    ]
    whole = pooled(parts)
    assert_allclose(whole.mean, means.mean(axis=0))
    assert_allclose(whole.residual, y[0] - means.mean(axis=0))
    assert_allclose(whole.epistemic_std**2, v.mean(axis=0))
    assert_allclose(whole.aleatoric_std**2, kappa.mean(axis=0))
    assert whole.between is not None
    assert_allclose(whole.between, means.std(axis=0, ddof=1))
    assert (whole.unit, whole.squares(2).n_rows) == (3.0, 10.0)
    assert_allclose([whole.n_pooled, whole.squares(2).n_members], [3.0, 6.0])
    squares, variance = whole.squares(2), (v + kappa).mean(axis=0)
    expected = [whole.residual**2 / variance, means.var(axis=0, ddof=1) / variance]
    for found, each in zip((squares.error, squares.between), expected, strict=True):
        assert_allclose(found, np.average(each, weights=weights))


def test_predictions_of_weight_0_do_not_count() -> None:
    y, means = made(3, 1.0, 0.5)
    parts = [OutOfFold(mean, y - mean, *EXPECTED, unit=10.0) for mean in means]
    two, three = pooled(parts[:2]), pooled(parts, np.array([0.5, 0.5, 0.0]))
    for name in ("mean", "residual", "epistemic_std", "aleatoric_std", "between", "n_pooled"):
        assert_allclose(getattr(three, name), getattr(two, name))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_whose_squares_are_no_floats(unit: float) -> None:
    y, means = made(2, 1.0, 0.5)
    usual = out_of_fold(y, means).squares(5)
    parts = [OutOfFold(unit * m, unit * (y - m), *(unit * EXPECTED), 10.0 * unit) for m in means]
    scaled = pooled(parts).squares(5)
    assert_allclose([scaled.error, scaled.between], [usual.error, usual.between], rtol=1e-9)


# ---- What the squares say about a whole ensemble


@pytest.mark.parametrize(("shared", "own"), [(1.0, 0.5), (0.2, 1.0), (2.0, 0.0)])
@pytest.mark.parametrize("n_pooled", [2, 3])
@pytest.mark.parametrize("n_members", [4, 10])
def test_the_square_of_the_mean_of_all(
    shared: float, own: float, n_pooled: int, n_members: int
) -> None:
    rows = out_of_fold(*made(n_pooled, shared, own))
    squares = replace(rows.squares(1), n_members=n_members)
    y, means = made(n_members, shared, own, seed=1)
    truth = np.mean(((y - means.mean(axis=0)) / STD) ** 2)
    assert_allclose(truth, shared + own / n_members, rtol=0.05)
    assert_allclose(squares.total, truth, rtol=0.06)
    assert_allclose(squares.between, own, atol=0.03)


def test_residuals_as_large_as_the_ensembles() -> None:
    rows = out_of_fold(*made(2, 1.0, 0.5))
    squares = rows.squares(5)
    smaller = rows.of_ensemble(squares)
    assert smaller.factor < rows.factor
    assert_allclose(smaller.factor, squares.total)
    assert_array_equal(np.sign(smaller.residual), np.sign(rows.residual))
    exact = replace(rows, residual=0.0 * rows.residual)
    assert exact.of_ensemble(exact.squares(10)) is exact


def covered(squares: Squares, y: Any, means: Any) -> tuple[float, float]:
    """Return the mean square, and the share within the 95 % interval, of the mixture."""
    n = N // 4  # are enough
    X, y = np.zeros((n, 1)), y[:n]
    found = Calibration(squares, range_of(X, 10.0))
    stds = np.broadcast_to(EXPECTED[:, np.newaxis, :n], (2, len(means), n))
    members = Moments(means[:, :n], *stds)
    p = found.mixture(members, X)
    low, high = p.interval(0.95)
    return float(np.mean((y - p.mean) ** 2 / p.var)), float(np.mean((low < y) & (y < high)))


@pytest.mark.parametrize(("shared", "own"), [(1.0, 0.4), (1.5, 0.5)])
def test_intervals_of_the_ensemble_hold_what_they_say(shared: float, own: float) -> None:
    y, means = made(2, shared, own)
    parts = [OutOfFold(mean, y - mean, *EXPECTED, unit=10.0) for mean in means]
    test = made(10, shared, own, seed=1)
    square, share = covered(pooled(parts).squares(5), *test)
    assert_allclose(square, 1.0, rtol=0.05)
    assert abs(share - 0.95) < 0.01
    of_single, too_many = covered(parts[0].squares(10), *test)  # the factor of one network
    assert of_single < 0.75
    assert too_many - 0.95 > 3.0 * abs(share - 0.95)


# ---- Bounds, and more rows

squares_of_any_rows = st.builds(
    Squares,
    error=st.just(0.0) | st.floats(1e-200, 1e200),
    between=st.just(0.0) | st.floats(1e-200, 1e200),
    n_rows=st.floats(1e-3, 1e9),
    n_pooled=st.integers(1, 3),
    n_members=st.integers(3, 50),
)


@given(squares_of_any_rows)
def test_no_factor_is_0(squares: Squares) -> None:
    assert 0.0 < 0.5 * squares.total <= squares.factor <= squares.total < np.inf
    if squares.error:
        assert squares.total <= max(squares.error, squares.between) * (1.0 + 1e-12)


@given(squares_of_any_rows, squares_of_any_rows)
def test_more_rows_are_means_of_all(first: Squares, more: Squares) -> None:
    after, n = first.after(more), first.n_rows + more.n_rows
    assert after.n_rows == n
    assert (after.n_pooled, after.n_members) == (first.n_pooled, first.n_members)
    for name in ("error", "between"):
        each = [getattr(first, name), getattr(more, name)]
        expected = np.average(each, weights=[first.n_rows, more.n_rows])
        assert_allclose(getattr(after, name), expected, rtol=1e-9, atol=1e-9 * max(each))
        assert getattr(after, name) >= 0.0


def test_where_networks_disagree_more_than_they_err() -> None:
    squares = Squares(error=0.1, between=1.0, n_rows=50, n_pooled=2, n_members=10)
    assert squares.total == 0.1  # nothing is shared, and the mean of ten has a tenth left
    assert squares.factor == 0.05  # half of it, though there is more between the members
