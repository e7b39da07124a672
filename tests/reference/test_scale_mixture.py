"""The integral over a log-normal noise variance: mpmath, differences, invariants, both engines."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

from probprop import _kernel
from probprop.reference.scale_mixture import D_MAX, ScaleMixture, scale_mixture


def native(d: float, v: float, mu: float, var: float) -> ScaleMixture:
    rows = _kernel.scale_mixture(*(np.array([float(x)]) for x in (d, v, mu, var)))
    return ScaleMixture(*rows[:, 0].tolist())


Mixture = Callable[[float, float, float, float], ScaleMixture]
BOTH: dict[str, Mixture] = {"reference": scale_mixture, "native": native}


@pytest.fixture(params=BOTH)
def mixture(request: pytest.FixtureRequest) -> Mixture:
    return BOTH[request.param]


def assert_mixture(got: ScaleMixture, exact: ScaleMixture, unit: float, rtol: float) -> None:
    """Compare on scales: 1 for log Z, mu and var, 1/unit for m and 1/unit^2 for v."""
    scales = (1.0, 1.0, 1.0, 1.0 / unit, 1.0 / unit**2)
    for name, a, b, scale in zip(ScaleMixture._fields, got, exact, scales, strict=True):
        assert a == pytest.approx(b, rel=rtol, abs=1e-3 * rtol * scale), name


def by_mpmath(d: float, v: float, mu: float, var: float) -> ScaleMixture:
    """The integral by panels in u, and its derivatives by definition: under the integral sign."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    with mpmath.workdps(25):
        d_, v_, mu_, var_ = (mpmath.mpf(float(x)) for x in (d, v, mu, var))
        sigma = mpmath.sqrt(var_)
        end = max(0.0, (2.0 * math.log(abs(d) + 1e-300) - mu) / float(sigma)) + 12.0
        begin = -12.0 - 1.5 * float(sigma)
        # An outlier's mode is narrow: the panels are about two of its widths.
        n = math.ceil((end - begin) * max(0.5, 0.5 * math.sqrt(1.0 + float(sigma) * end)))
        half = mpmath.mpf(end - begin) / (2 * n)
        sums = [mpmath.mpf(0)] * 5
        for i in range(n):
            for x, w in zip(nodes, weights, strict=True):
                u = begin + half * (2 * i + 1 + mpmath.mpf(float(x)))
                s = v_ + mpmath.exp(mu_ + sigma * u)
                D = d_ * d_ / s
                f = mpmath.exp(-(D + u * u) / 2) / mpmath.sqrt(s) * float(w)
                by = (1, u / sigma, (u * u - 1) / (2 * var_), d_ / s, (D - 1) / (2 * s))
                sums = [total + f * factor for total, factor in zip(sums, by, strict=True)]
        log_Z = mpmath.log(sums[0] * half / (2 * mpmath.pi))
        return ScaleMixture(float(log_Z), *(float(x / sums[0]) for x in sums[1:]))


# d in standard deviations, the share of v in the variance, mu, var.
CASES = [
    (0.0, 0.0, 0.0, 0.3),
    (0.0, 0.0, -1.0, 10.0),
    (0.0, 0.9, 2.0, 1.0),
    (1.0, 0.1, 0.0, 0.3),
    (-1.0, 0.5, -3.0, 1e-4),
    (2.0, 0.01, 0.0, 2.0),
    (3.0, 0.99, 1.0, 0.5),
    (-3.0, 0.0, 4.0, 10.0),
    (6.0, 0.999, -6.0, 4.0),
    (8.0, 0.9, 0.0, 0.1),
    (12.0, 0.998, 0.2, 0.9),  # two modes, of which both matter
    (12.0, 0.9999, -5.0, 10.0),
    (40.0, 0.99987, -2.0, 0.1),
    (150.0, 0.1, 0.0, 0.3),
    (-150.0, 0.0, 2.0, 2.0),
    (150.0, 0.999, 0.0, 10.0),
]


@pytest.mark.parametrize(("ratio", "share", "mu", "var"), CASES)
def test_against_mpmath(ratio: float, share: float, mu: float, var: float) -> None:
    unit = math.exp(0.5 * mu) / math.sqrt(1.0 - share)
    exact = by_mpmath(ratio * unit, share * unit**2, mu, var)
    for mixture in BOTH.values():
        assert_mixture(mixture(ratio * unit, share * unit**2, mu, var), exact, unit, 1e-10)


RATIOS = st.one_of(st.floats(-5.0, 5.0), st.floats(-150.0, 150.0), st.floats(-1e8, 1e8))
WIDE = {
    "ratio": RATIOS,
    "log_odds": st.floats(-30.0, 15.0),  # of v to e^mu
    "mu": st.floats(-50.0, 50.0),
    "log_var": st.floats(-40.0, 5.0),
}


@settings(max_examples=300, deadline=None)
@given(**WIDE)
def test_parity(ratio: float, log_odds: float, mu: float, log_var: float) -> None:
    v, var = math.exp(mu + log_odds), math.exp(log_var)
    unit = math.sqrt(v + math.exp(mu))
    expected = scale_mixture(ratio * unit, v, mu, var)
    assert np.isfinite(expected).all()
    assert_mixture(native(ratio * unit, v, mu, var), expected, unit, 1e-10)


# L'' var is about 1 somewhere: one mode splits into two, on either side of the bend.
@settings(max_examples=100, deadline=None)
@given(log_var=st.floats(-12.0, 2.0), log_odds=st.floats(0.0, 12.0), log_ratio=st.floats(0.0, 6.0))
def test_parity_where_modes_split(log_var: float, log_odds: float, log_ratio: float) -> None:
    d, mu, var = math.exp(0.5 * (log_ratio - log_var)), -log_odds, math.exp(log_var)
    expected = scale_mixture(d, 1.0, mu, var)
    assert np.isfinite(expected).all()
    assert_mixture(native(d, 1.0, mu, var), expected, 1.0, 1e-10)


@pytest.mark.parametrize("ratio", [20.0, 35.0, 60.0])
def test_modes_that_split_against_mpmath(mixture: Mixture, ratio: float) -> None:
    d, mu, var = math.sqrt(ratio / 0.2), -5.0, 0.2
    assert_mixture(mixture(d, 1.0, mu, var), by_mpmath(d, 1.0, mu, var), 1.0, 1e-10)


@pytest.mark.parametrize(
    ("d", "v", "mu", "var"), [(1.0, 0.5, 0.3, 0.4), (9.0, 2.0, -1.0, 1.5), (0.1, 3.0, -2.0, 0.05)]
)
def test_derivatives_are_differences(
    mixture: Mixture, d: float, v: float, mu: float, var: float
) -> None:
    def slope(f: Callable[[float], float], h: float) -> float:
        wide, narrow = ((f(x) - f(-x)) / (2.0 * x) for x in (h, 0.5 * h))
        return (4.0 * narrow - wide) / 3.0

    by_differences = [
        slope(lambda h: mixture(d, v, mu + h, var).log_Z, 0.01),
        slope(lambda h: mixture(d, v, mu, var + h).log_Z, 0.01 * var),
        slope(lambda h: mixture(d - h, v, mu, var).log_Z, 0.01),
        slope(lambda h: mixture(d, v + h, mu, var).log_Z, 0.01 * v),
    ]
    assert_allclose(mixture(d, v, mu, var)[1:], by_differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("var", [0.0, 1e-300, 1e-20])
def test_no_variance_is_a_gaussian(mixture: Mixture, var: float) -> None:
    for d, v, mu in [(0.0, 0.0, 1.0), (1.3, 0.7, -0.5), (-150.0, 0.2, 0.0)]:
        s = v + math.exp(mu)
        got = mixture(d, v, mu, var)
        assert got.log_Z == pytest.approx(norm.logpdf(d, 0.0, math.sqrt(s)), rel=1e-13)
        assert got.dlogZ_dm == pytest.approx(d / s, rel=1e-12)
        assert got.dlogZ_dv == pytest.approx(0.5 * (d * d / s - 1.0) / s, rel=1e-12)
        assert got.dlogZ_dmu == pytest.approx(math.exp(mu) * got.dlogZ_dv, rel=1e-12)


@settings(max_examples=50, deadline=None)
@given(**WIDE, log_c=st.floats(-20.0, 20.0))
def test_units_do_not_matter(
    ratio: float, log_odds: float, mu: float, log_var: float, log_c: float
) -> None:
    v, var, c = math.exp(mu + log_odds), math.exp(log_var), math.exp(log_c)
    unit = math.sqrt(v + math.exp(mu))
    for mixture in BOTH.values():
        one = mixture(ratio * unit, v, mu, var)
        other = mixture(c * ratio * unit, c * c * v, mu + 2.0 * log_c, var)
        scaled = ScaleMixture(
            other.log_Z + log_c, *other[1:3], c * other.dlogZ_dm, c * c * other.dlogZ_dv
        )
        # mu + 2 log c is rounded, which the derivatives of an outlier multiply.
        assert_mixture(scaled, one, unit, 1e-9)


def test_the_density_integrates_to_one() -> None:
    for v, mu, var in [(0.3, 0.0, 0.5), (2.0, -1.0, 3.0), (1e-3, 0.0, 1e-3)]:
        t = np.linspace(-40.0, 40.0, 20_001)  # d = sinh t: the tail is long
        d = np.sinh(t)
        same = (np.full(len(d), x) for x in (v, mu, var))
        density = np.exp(_kernel.scale_mixture(d, *same)[0]) * np.cosh(t)
        assert density.sum() * (t[1] - t[0]) == pytest.approx(1.0, abs=1e-9)


def test_draws_of_the_variance() -> None:
    d, v, mu, var = 2.5, 0.4, -0.3, 0.8
    g = mu + math.sqrt(var) * np.random.default_rng(0).standard_normal(400_000)
    density = norm.pdf(d, 0.0, np.sqrt(v + np.exp(g)))
    error = density.std() / math.sqrt(len(g))
    for mixture in BOTH.values():
        assert abs(math.exp(mixture(d, v, mu, var).log_Z) - density.mean()) < 4.0 * error


@pytest.mark.parametrize("d", [1e10, 1e100, D_MAX, -D_MAX])
@pytest.mark.parametrize("var", [1e-8, 1e-3, 0.5, 10.0, 900.0])
@pytest.mark.parametrize("v", [0.0, 1e-3, 1e5])
def test_outliers_are_finite_and_agree(d: float, var: float, v: float) -> None:
    got, expected = native(d, v, -1.0, var), scale_mixture(d, v, -1.0, var)
    assert np.isfinite(expected).all()
    assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize(
    "arguments",
    [
        (1.1e150, 1.0, 0.0, 1.0),
        (math.nan, 1.0, 0.0, 1.0),
        (math.inf, 1.0, 0.0, 1.0),
        (1.0, math.nan, 0.0, 1.0),
        (1.0, -1.0, 0.0, 1.0),
        (1.0, 1.0, math.nan, 1.0),
        (1.0, 1.0, 701.0, 1.0),
        (1.0, 1.0, 0.0, -1e-9),
        (1.0, 1.0, 0.0, math.inf),
        (1.0, 1.0, 0.0, 1500.0),
    ],
)
def test_what_is_out_of_range_is_refused(
    mixture: Mixture, arguments: tuple[float, float, float, float]
) -> None:
    assert np.isnan(mixture(*arguments)).all()


def test_the_kernel_refuses_arrays_of_different_lengths() -> None:
    one, two = np.ones(1), np.ones(2)
    with pytest.raises(ValueError, match="length"):
        _kernel.scale_mixture(one, one, two, one)
