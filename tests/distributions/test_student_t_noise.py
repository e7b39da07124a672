"""Quantiles of a Gaussian plus Student-t noise: they invert the distribution over all ranges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from probprop._types import FloatArray
from probprop.distributions.mixture import Mixture


def unit_std(log_ratio: FloatArray, alpha: float) -> Mixture:
    """Rows of standard deviation 1, log(epistemic_std/aleatoric_std) as given."""
    with np.errstate(over="ignore"):
        model = 1.0 / np.hypot(1.0, np.exp(-log_ratio))
        noise = 1.0 / np.hypot(1.0, np.exp(log_ratio))
    return Mixture.of_one(np.zeros(len(model)), model, noise, dof=2.0 * alpha)


@settings(max_examples=25, deadline=None)
@given(
    alpha=st.floats(1.01, 1e9),
    start=st.floats(-45.0, 20.0),
    spread=st.floats(1e-9, 3.0),
    tail=st.floats(1e-30, 0.499),
)
def test_quantiles_invert(alpha: float, start: float, spread: float, tail: float) -> None:
    p = unit_std(start + spread * np.linspace(0.0, 1.0, 20), alpha)
    z = p.ppf(tail)
    assert_allclose(np.log(p.cdf(z)), np.log(tail), rtol=1e-13, atol=1e-12)
    lower, upper = p.interval(0.9)
    assert_array_equal(upper, -lower)


@pytest.mark.parametrize("alpha", [1.01, 6.0, 1e4])
def test_where_the_heavy_tail_takes_over(alpha: float) -> None:
    """At a tail of 1e-12 z bends sharply in log_ratio."""
    p = unit_std(np.random.default_rng(0).uniform(-2.0, 16.0, 300), alpha)
    assert_allclose(p.cdf(p.ppf(1e-12)), 1e-12, rtol=1e-10)


def test_rows_with_a_certain_model_are_among_the_others() -> None:
    p = unit_std(np.where(np.arange(200) % 2 == 0, -np.inf, 0.3), 3.0)
    z = p.ppf(0.01)
    assert_array_equal(z, np.tile(z[:2], 100))
    assert_allclose(p.cdf(z), 0.01, rtol=1e-12)


def test_a_mixture_of_student_t() -> None:
    rng = np.random.RandomState(0)
    means, model = rng.standard_normal((3, 5)), rng.uniform(0.0, 1.0, (3, 5))
    dof, weights = np.array([[3.0], [8.0], [1e6]]), [0.2, 0.5, 0.3]
    p = Mixture(means, model, 0.5, weights, dof=dof)
    members = [
        Mixture.of_one(m, a, 0.5, dof=float(d))
        for m, a, d in zip(means, model, dof[:, 0], strict=True)
    ]
    y = np.array([[0.3], [-40.0]])
    for name in ("pdf", "cdf"):
        expected = sum(w * getattr(q, name)(y) for w, q in zip(weights, members, strict=True))
        assert_allclose(getattr(p, name)(y), expected, rtol=1e-12)
    assert_allclose(p.cdf(p.ppf([0.001, 0.6])), [[0.001] * 5, [0.6] * 5], rtol=1e-11)
