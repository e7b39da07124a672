"""The CRPS against its definition by quadrature, closed forms, and draws."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad

from probprop.distributions.base import TargetDistribution
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture

NOISE: dict[str, dict[str, Any]] = {
    "Gaussian": {},
    "almost Gaussian": {"tail": 0.04},
    "heavy": {"tail": 1.0},
    "very heavy": {"tail": 6.0},
    "Student-t, 2.4": {"dof": 2.4},
    "Student-t, 12": {"dof": 12.0},
}
of_noise = pytest.mark.parametrize("noise", NOISE.values(), ids=list(NOISE))


def mixture(spread: float = 0.5, **noise: Any) -> Mixture:
    """One row of three members, one of them certain but for its noise."""
    rng = np.random.RandomState(0)
    means = spread * rng.standard_normal((3, 1))
    model = np.array([[0.0], [0.2], [0.5]])
    return Mixture(means, model, [[0.3], [0.5], [0.4]], [0.5, 0.2, 0.3], **noise)


def mirrored(p: Mixture) -> Mixture:
    return Mixture(-p.means, p.epistemic_stds, p.aleatoric_stds, p.weights, p.tail, p.dof)


def by_quadrature(p: Mixture, z: float, g: BoxCox | None = None) -> float:
    """The integral of F^2 below and (1 - F)^2 above, on panels around the members' means.

    Behind g the integral over the target, in units of g, ends at the quantile 1 - 5e-5 where the
    noise has heavy tails.
    """
    upper = mirrored(p)
    cut = g is not None and (p.tail is not None or p.dof is not None)
    low = float(p.ppf(1e-12)[0])
    high = float(p.ppf(1.0 - 5e-5)[0]) if cut else -float(upper.ppf(1e-12)[0])
    if g is not None and g.power > 0.0:
        low, high, z = (max(a, g.lowest) for a in (low, high, z))

    def target(x: float) -> float:
        return x if g is None else float(g.inverse(x))

    def slope(x: float) -> float:
        return 1.0 if g is None else float(g.slope(x))

    inside = min(max(z, low), high)
    grid = p.means + p.aleatoric_stds * np.outer([1, 1, 1], np.sinh(np.linspace(-9.0, 9.0, 73)))
    edges = np.unique(np.concatenate([[low, high, inside], grid.ravel()]))
    total = abs(target(z) - target(inside))
    for a, b in pairwise(edges[(edges >= low) & (edges <= high)]):
        of, sign = (p, 1.0) if b <= inside else (upper, -1.0)

        def square(x: float, of: Mixture = of, sign: float = sign) -> float:
            return float(of.cdf(sign * x)[0]) ** 2 * slope(x)

        total += quad(square, a, b, epsabs=1e-13, epsrel=1e-9)[0]
    return total


@of_noise
@pytest.mark.parametrize("y", [-0.2, 0.9, 30.0])
def test_against_quadrature(noise: dict[str, Any], y: float) -> None:
    p = mixture(**noise)
    assert_allclose(p.crps(y), by_quadrature(p, y), rtol=1e-7)


@of_noise
@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_behind_a_transformation_against_quadrature(noise: dict[str, Any], power: float) -> None:
    z, g = mixture(**noise), BoxCox(power, 3.0)
    p = TransformedMixture(z, g)
    for at in (-0.4, 1.2):
        expected = by_quadrature(z, at, BoxCox(power))
        assert_allclose(p.crps(g.inverse(at)), 3.0 * expected, rtol=1e-6)


def test_members_far_apart() -> None:
    p = Mixture([[0.0], [1e6]], np.zeros((2, 1)), [[1e-3], [1.0]], [0.25, 0.75])
    # F is 0.25 from 0 to 1e6, but for the members' own widths.
    assert_allclose(p.crps(0.0), 0.75**2 * 1e6, rtol=1e-5)
    heavy = Mixture(p.means, p.epistemic_stds, p.aleatoric_stds, p.weights, tail=1.0)
    assert_allclose(heavy.crps(0.0), 0.75**2 * 1e6, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(
    y=st.floats(-1e3, 1e3), std=st.floats(1e-3, 1e3), scale=st.sampled_from([1e-200, 1.0, 1e200])
)
def test_of_one_gaussian_in_closed_form(y: float, std: float, scale: float) -> None:
    p = Mixture.of_one([0.0], [0.6 * std * scale], 0.8 * std * scale)
    z = y / std
    expected = z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)
    assert_allclose(p.crps(y * scale) / scale, std * expected, rtol=1e-12, atol=1e-12 * std)


@pytest.mark.parametrize("s", [0.1, 0.5, 1.5])
def test_of_the_log_normal_in_closed_form(s: float) -> None:
    p = TransformedMixture(Mixture.of_one([0.3], [0.6 * s], 0.8 * s), BoxCox(0.0, 7.0))
    y = np.array([[0.0], [1.0], [9.0], [400.0]])
    with np.errstate(divide="ignore"):
        w = (np.log(y / 7.0) - 0.3) / s
    mean = 7.0 * np.exp(0.3 + 0.5 * s * s)
    cdf = stats.norm.cdf
    expected = y * (2 * cdf(w) - 1) - 2 * mean * (cdf(w - s) + cdf(s / np.sqrt(2)) - 1)
    assert_allclose(p.crps(y), expected, rtol=1e-8)


@pytest.mark.parametrize(
    "p",
    [
        Mixture.of_one([1.0], [0.5], 1.0, dof=5.0),
        mixture(tail=0.5),
        TransformedMixture(mixture(), BoxCox(0.2, 2.0)),
    ],
    ids=["Student-t", "heavy", "transformed"],
)
def test_it_is_the_mean_distance_of_draws_to_the_target_and_to_each_other(
    p: TargetDistribution,
) -> None:
    x, other = p.rvs(200_000, 0), p.rvs(200_000, 1)
    y = 1.7
    expected = np.abs(x - y).mean() - 0.5 * np.abs(x - other).mean()
    assert_allclose(p.crps(y), expected, rtol=0.02)


def test_a_distribution_that_is_a_point_has_the_absolute_error() -> None:
    p = Mixture.of_one([1.0, 2.0], [0.0, 0.0], 1e-12)
    assert_allclose(p.crps([4.0, -1.0]), [3.0, 3.0], rtol=1e-9)


def test_missing_infinite_and_impossible_targets() -> None:
    for p in (mixture(), mixture(tail=1.0), TransformedMixture(mixture(tail=1.0), BoxCox(0.2))):
        assert_array_equal(np.isnan(p.crps([[np.nan], [1.0]])), [[True], [False]])
        assert_array_equal(p.crps(np.inf), [np.inf])
    positive = TransformedMixture(mixture(), BoxCox(0.0))
    assert_allclose(positive.crps(-5.0), 5.0 + positive.crps(0.0), rtol=1e-12)


def test_shapes_and_several_targets() -> None:
    p = Mixture(np.zeros((2, 5, 3)), np.ones((2, 5, 3)), 1.0, tail=0.5)
    y = np.arange(30.0).reshape(2, 5, 3)
    assert p.crps(y).shape == (2, 5, 3)
    assert_array_equal(p.crps(y)[..., 1], p.targets()[1].crps(y[..., 1]))
    assert p[:0].crps(0.0).shape == (0, 3)


@pytest.mark.parametrize("wrong", [{"tail": 2.0}, {"dof": 2.2}, {}])
def test_it_is_proper(wrong: dict[str, float]) -> None:
    """On average the distribution that made the targets has a lower score than another one."""
    truth = Mixture.of_one(np.zeros(4000), np.full(4000, 0.3), 1.0, tail=0.5)
    shift = 0.0 if wrong else 0.3
    other = Mixture.of_one(np.full(4000, shift), np.full(4000, 0.3), 1.0, **wrong)
    gain = other.crps(y := truth.rvs(1, 0)[0]) - truth.crps(y)
    assert gain.mean() > 2.0 * gain.std() / np.sqrt(4000)
