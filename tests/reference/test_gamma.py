"""The Gamma update against mpmath: closed form and quadrature, for every implementation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache

import mpmath
import numpy as np
import pytest

from probprop import _kernel
from probprop.reference.gamma import (
    gamma_increments,
    gamma_moments_by_quadrature,
    gamma_update,
    is_sound_update,
    is_valid_gamma,
)

Update = Callable[[float, float, float, float], tuple[float, float]]
INCREMENTS: dict[str, Update] = {
    "reference": gamma_increments,
    "native": _kernel.gamma_increments,
}
QUADRATURE: dict[str, Update] = {
    "reference": gamma_moments_by_quadrature,
    "native": _kernel.gamma_moments_by_quadrature,
}

ALPHAS = (2.0, 2.7, 6.0, 32.0, 64.0, 100.0, 1e4, 1e6, 1e9, 1e12)
# d2 and v in units of beta/alpha.
ORDINARY = tuple(itertools.product((0.0, 0.3, 1.0, 4.0, 25.0), (0.0, 1e-3, 0.3, 2.0, 1e3)))


@pytest.fixture(params=INCREMENTS)
def increments(request: pytest.FixtureRequest) -> Update:
    return INCREMENTS[request.param]


@pytest.fixture(params=QUADRATURE)
def quadrature(request: pytest.FixtureRequest) -> Update:
    return QUADRATURE[request.param]


def exact_increments(alpha: float, beta: float, d2: float, v: float) -> tuple[mpmath.mpf, ...]:
    """[PBP15] Eqs. (9) and (10) as they are written, with the Z of Eq. (12), to 80 digits."""
    with mpmath.workdps(80):
        a, b = mpmath.mpf(alpha), mpmath.mpf(beta)

        def Z(shape: mpmath.mpf) -> mpmath.mpf:
            return mpmath.npdf(mpmath.sqrt(d2), 0, mpmath.sqrt(v + b / (shape - 1)))

        Z0, Z1, Z2 = Z(a), Z(a + 1), Z(a + 2)
        alpha_new = 1 / (Z0 * Z2 / Z1**2 * (a + 1) / a - 1)
        beta_new = 1 / (Z2 / Z1 * (a + 1) / b - Z1 / Z0 * a / b)
        return alpha_new - a, beta_new - b


@pytest.mark.parametrize("alpha", ALPHAS)
def test_increments(increments: Update, alpha: float) -> None:
    beta = 0.37 * alpha
    for d2_units, v_units in ORDINARY:
        d2, v = d2_units * beta / alpha, v_units * beta / alpha
        delta_alpha, delta_beta = increments(alpha, beta, d2, v)
        exact_alpha, exact_beta = exact_increments(alpha, beta, d2, v)
        # An observation adds about 1 to alpha and beta/alpha to beta; d2 = 0 adds to beta
        # only a rounding of that.
        assert abs(delta_alpha - exact_alpha) < 1e-9 * abs(exact_alpha)
        assert abs(delta_beta - exact_beta) < 1e-9 * abs(exact_beta) + 1e-14 * beta / alpha


def test_known_noise_and_known_output_add_half_an_observation(increments: Update) -> None:
    # v = 0 is conjugate: exactly alpha + 1/2, beta + d2/2, which Eq. (12) approaches.
    delta_alpha, delta_beta = increments(1e9, 2e9, 3.0, 0.0)
    assert delta_alpha == pytest.approx(0.5, rel=1e-8)
    assert delta_beta == pytest.approx(1.5, rel=1e-8)


@pytest.mark.parametrize("d2", [1e4, 1e9, 1e100, 1e300])
@pytest.mark.parametrize("v", [0.0, 1.0, 1e6])
def test_an_outlier_is_quiet_and_guarded(increments: Update, d2: float, v: float) -> None:
    delta_alpha, delta_beta = increments(6.0, 6.0, d2, v)
    sound = is_sound_update(6.0, 6.0, d2, 6.0 + delta_alpha, 6.0 + delta_beta)
    alpha_new, beta_new, guarded = gamma_update(6.0, 6.0, d2, v)
    assert guarded != sound
    assert is_valid_gamma(alpha_new, beta_new)
    assert guarded == (d2 > 1e3 * v)


# alpha, then d2 and v in units of beta/alpha: the closed form is a Gamma with a noise variance
# that is 1e2 to 1e34 times the true one.
EXPLODING = [(6.0, 100.0, 0.01), (6.0, 400.0, 0.01), (50.0, 2500.0, 0.1), (50.0, 1e4, 0.1)]


@pytest.mark.parametrize(("alpha", "d2", "v"), EXPLODING)
def test_a_valid_but_exploding_update_is_guarded(alpha: float, d2: float, v: float) -> None:
    delta_alpha, delta_beta = gamma_increments(alpha, alpha, d2, v)
    assert is_valid_gamma(alpha + delta_alpha, alpha + delta_beta)
    alpha_new, beta_new, guarded = gamma_update(alpha, alpha, d2, v)
    assert guarded
    mean, _, mean_inverse = exact_moments(alpha, alpha, d2, v)
    assert beta_new / (alpha_new - 1.0) == pytest.approx(float(mean_inverse), rel=0.1)
    assert (alpha + delta_alpha) / (alpha + delta_beta) < 0.1 * float(mean)


@pytest.mark.parametrize("alpha", [3.0, 6.0, 1e3, 1e6])
@pytest.mark.parametrize("v", [0.0, 0.1, 3.0])
def test_residuals_up_to_four_deviations_take_the_closed_form(alpha: float, v: float) -> None:
    for d in np.linspace(0.0, 4.0, 9):
        assert not gamma_update(alpha, alpha, float(d * d) * (1.0 + v), v)[2]


@pytest.mark.parametrize(
    ("alpha_new", "beta_new", "valid"),
    [
        (1.5, 0.1, True),
        (1.0, 0.1, False),
        (-3.0, 0.1, False),
        (1.5, 0.0, False),
        (math.nan, 0.1, False),
        (1.5, math.nan, False),
        (math.inf, 0.1, False),
        (1.5, math.inf, False),
    ],
)
def test_is_valid_gamma(alpha_new: float, beta_new: float, valid: bool) -> None:
    assert is_valid_gamma(alpha_new, beta_new) is valid


@cache  # both engines meet the same cases
def exact_moments(
    alpha: float, beta: float, d2: float, v: float
) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """E[gamma], Var[gamma] and E[1/gamma] by quadrature in log gamma, to 40 digits."""
    with mpmath.workdps(40):
        a, b, d2, v = (mpmath.mpf(value) for value in (alpha, beta, d2, v))
        half = mpmath.mpf("0.5")

        def log_integrand(u: mpmath.mpf) -> mpmath.mpf:
            x = mpmath.exp(u)
            w = 1 + v * x
            return (a + half) * u - b * x - half * mpmath.log(w) - half * d2 * x / w

        # (1 + v x)^2 times the derivative, a cubic whose positive roots are the extrema.
        cubic = [
            a + half,
            2 * v * (a + half) - b - half * v - half * d2,
            a * v * v - 2 * b * v,
            -b * v * v,
        ]
        while cubic[-1] == 0:
            cubic.pop()
        roots = mpmath.polyroots(cubic, maxsteps=500, extraprec=500, asc=True)
        extrema = sorted(
            mpmath.log(r.real)
            for r in roots
            if r.real > 0 and abs(r.imag) < abs(r.real) * mpmath.mpf(10) ** -30
        )
        top = max(map(log_integrand, extrema))

        points = set(extrema)
        for u in extrema:
            x = mpmath.exp(u)
            for sign in (-1, 1):
                h = half / mpmath.sqrt(b * x + d2 * x / (1 + v * x) ** 2 + 1)
                inside = True
                while inside:
                    points.add(u + sign * h)
                    # of gamma^2 times the integrand above, of it over gamma below
                    fallen = log_integrand(u + sign * h) - log_integrand(u) + h * (2, 1)[sign < 0]
                    if u == (extrema[-1] if sign > 0 else extrema[0]):
                        inside = fallen > -45
                    else:
                        inside = extrema[0] < u + sign * h < extrema[-1]
                    h += min(h, half)

        nodes, weights = np.polynomial.legendre.leggauss(24)
        terms = []  # of the integrals of 1, gamma, 1/gamma
        for lo, hi in itertools.pairwise(sorted(points)):
            for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
                u = lo + (hi - lo) * (1 + node) / 2
                x = mpmath.exp(u)
                terms.append(((hi - lo) * weight * mpmath.exp(log_integrand(u) - top), x))
        total = mpmath.fsum(p for p, _ in terms)
        mean = mpmath.fsum(p * x for p, x in terms) / total
        var = mpmath.fsum(p * (x - mean) ** 2 for p, x in terms) / total
        return mean, var, mpmath.fsum(p / x for p, x in terms) / total


# alpha, then d2 and v in units of beta/alpha. One mode holds all the mass, or nearly all.
ONE_MODE = [
    (1.05, 0.0, 0.0),
    (1.05, 1e12, 0.0),
    (1.1, 0.2, 1e6),
    (2.0, 1e5, 3.0),
    (6.0, 144.0, 1.0),
    (6.0, 1e12, 1e6),
    (1e3, 1e6, 0.5),
    (1e9, 0.0, 0.0),
    (1e9, 1e12, 1e6),
    (1e9, 1e12, 1.0),
    (1e6, 54000024.00000048, 8.000001333333163),  # all three extrema coincide
]
# Two modes share it so that matching Var[gamma] would give alpha_new < 1, or one that is barely
# above 1 and has several times the true noise variance.
BALANCED = [
    (1.05, 687.0, 37.8),
    (1.6, 203.0, 5.8),
    (2.0, 1122.0, 31.6),
    (6.0, 500.0, 10.0),
    (1e3, 177214.9, 20.0),  # narrow and far apart
]


@pytest.mark.parametrize(("alpha", "d2_units", "v_units"), ONE_MODE)
def test_quadrature_matches_mean_and_variance(
    quadrature: Update, alpha: float, d2_units: float, v_units: float
) -> None:
    beta = 0.37 * alpha
    d2, v = d2_units * beta / alpha, v_units * beta / alpha
    mean, var, mean_inverse = exact_moments(alpha, beta, d2, v)
    alpha_new, beta_new = quadrature(alpha, beta, d2, v)
    assert alpha_new == pytest.approx(float(mean * mean / var), rel=1e-10)
    assert beta_new == pytest.approx(float(mean / var), rel=1e-10)
    assert beta_new / (alpha_new - 1.0) < 2.0 * float(mean_inverse)


@pytest.mark.parametrize(("alpha", "d2_units", "v_units"), BALANCED)
def test_quadrature_matches_mean_and_mean_inverse_where_the_variance_is_too_large(
    quadrature: Update, alpha: float, d2_units: float, v_units: float
) -> None:
    beta = 0.37 * alpha
    d2, v = d2_units * beta / alpha, v_units * beta / alpha
    mean, var, mean_inverse = exact_moments(alpha, beta, d2, v)
    assert mean * mean / var < 1
    alpha_new, beta_new = quadrature(alpha, beta, d2, v)
    assert is_valid_gamma(alpha_new, beta_new)
    assert alpha_new / beta_new == pytest.approx(float(mean), rel=1e-10)
    assert beta_new / (alpha_new - 1.0) == pytest.approx(float(mean_inverse), rel=1e-10)


@pytest.mark.parametrize("alpha", [1.05, 3.0, 20.0])
@pytest.mark.parametrize("v_units", [0.0, 40.0])
def test_quadrature_never_doubles_the_noise_variance(
    quadrature: Update, alpha: float, v_units: float
) -> None:
    for d2_units in np.geomspace(1.0, 1e5, 6):
        alpha_new, beta_new = quadrature(alpha, alpha, float(d2_units), v_units)
        mean, _, mean_inverse = exact_moments(alpha, alpha, float(d2_units), v_units)
        assert alpha_new / beta_new == pytest.approx(float(mean), rel=1e-9)
        assert 0.0 < beta_new / (alpha_new - 1.0) < 2.0001 * float(mean_inverse)


def test_quadrature_is_conjugate_without_v(quadrature: Update) -> None:
    alpha_new, beta_new = quadrature(3.0, 2.0, 1000.0, 0.0)
    assert alpha_new == pytest.approx(3.5, rel=1e-12)
    assert beta_new == pytest.approx(502.0, rel=1e-12)
