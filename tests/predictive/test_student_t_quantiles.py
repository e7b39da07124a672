"""Quantiles read off series against quantiles that are solved for, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from probprop.predictive import student_t_quantiles as quantiles
from probprop.predictive.student_t import log_sf
from probprop.predictive.student_t_quantiles import N_NODES, isf, solve

from probprop._types import FloatArray


def assert_solves(z: FloatArray, tail: FloatArray, log_ratio: FloatArray, alpha: float) -> None:
    tail = np.broadcast_to(tail, log_ratio.shape)
    assert_allclose(z, solve(tail, log_ratio, alpha), rtol=1e-13, atol=1e-14)
    assert_allclose(log_sf(z, log_ratio, alpha), np.log(tail), rtol=1e-13, atol=1e-13)


@settings(max_examples=25, deadline=None)
@given(
    alpha=st.floats(1.01, 1e9),
    start=st.floats(-45.0, 20.0),
    spread=st.floats(1e-9, 3.0),
    tail=st.floats(1e-30, 0.499),
)
def test_series_equal_root_finding(alpha: float, start: float, spread: float, tail: float) -> None:
    log_ratio = start + spread * np.linspace(0.0, 1.0, 5 * N_NODES)
    assert_solves(isf(tail, log_ratio, alpha), np.array(tail), log_ratio, alpha)


@pytest.mark.parametrize("alpha", [1.01, 6.0, 1e4])
def test_where_the_heavy_tail_takes_over(alpha: float) -> None:
    """At tail = 1e-12 z bends sharply in log_ratio, so that intervals must be halved."""
    log_ratio = np.random.default_rng(0).uniform(-2.0, 16.0, 3000)
    z = isf(1e-12, log_ratio, alpha)
    some = np.arange(0, 3000, 20)
    assert_allclose(z[some], solve(np.full(150, 1e-12), log_ratio[some], alpha), rtol=1e-13)


def test_rows_with_a_certain_model_are_among_the_others() -> None:
    log_ratio = np.where(np.arange(200) % 2 == 0, -np.inf, 0.3)
    z = isf(0.01, log_ratio, 3.0)
    assert_allclose(z[:2], solve(np.full(2, 0.01), log_ratio[:2], 3.0), rtol=1e-14)
    assert_array_equal(z, np.tile(z[:2], 100))


def test_many_tails_beside_many_rows() -> None:
    tail = np.array([0.5, 0.4999999, 0.2, 0.2, 1e-5])[:, np.newaxis]
    log_ratio = np.random.default_rng(1).uniform(-1.0, 1.0, 300)
    z = isf(tail, log_ratio, 4.0)
    assert z.shape == (5, 300)
    assert_array_equal(z[0], np.zeros(300))
    assert_array_equal(z[2], z[3])
    for row, level in zip(z[1:], tail[1:], strict=True):
        assert_solves(row, level, log_ratio, 4.0)


def test_few_rows_are_solved_for_and_no_more_points_than_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved = []

    def counted(tail: FloatArray, log_ratio: FloatArray, alpha: float) -> FloatArray:
        solved.append(len(tail))
        return solve(tail, log_ratio, alpha)

    monkeypatch.setattr(quantiles, "solve", counted)
    random = np.random.default_rng(2)
    isf(random.uniform(0.0, 0.5, 500), random.uniform(-1.0, 1.0, 500), 5.0)  # all different
    assert sum(solved) == 500
    solved.clear()
    isf(0.1, random.uniform(-2.0, 2.0, 50_000), 5.0)
    assert sum(solved) == 4 * N_NODES


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    log_ratio = np.random.default_rng(3).uniform(-2.0, 1.0, 1000)
    whole = isf(0.025, log_ratio, 6.0)
    monkeypatch.setattr(quantiles, "_CHUNK", 7)
    assert_array_equal(isf(0.025, log_ratio, 6.0), whole)


@pytest.mark.parametrize("n", [0, 1, N_NODES, 100])
def test_shapes(n: int) -> None:
    assert isf(0.1, np.zeros(n), 2.0).shape == (n,)
    assert isf(np.full((3, 1), 0.1), np.zeros(n), 2.0).shape == (3, n)
    assert isf(0.1, 0.0, 2.0).shape == ()
