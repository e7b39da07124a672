"""The update of the noise Gamma and of the tail where the noise has heavy tails."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from probprop import _kernel
from probprop.reference.gamma import is_valid_gamma
from probprop.reference.likelihoods import (
    EXPAND_ABOVE,
    HEAVY,
    LARGEST_TAIL,
    heavy_gamma_update,
    learned_tail,
)
from probprop.reference.scale_mixture import scale_mixture


def updated(alpha: float, beta: float, d: float, v: float, tail: float) -> tuple[float, ...]:
    z = scale_mixture(d, v, math.log(beta / (alpha - 1.0)), tail)
    return heavy_gamma_update(alpha, beta, d, v, tail, z.dlogZ_dmu, z.dlogZ_dvar)


def exact_log_Z(d: float, v: float, level: float, tail: float) -> mpmath.mpf:
    """A fine sum over the logarithm of the noise variance."""
    step, sigma, total = mpmath.mpf(1) / 8, mpmath.sqrt(tail), mpmath.mpf(0)
    for i in range(-120, 160):
        s = v + level * mpmath.exp(sigma * step * i)
        total += mpmath.npdf(step * i) * mpmath.npdf(d, 0, mpmath.sqrt(s))
    return mpmath.log(step * total)


@pytest.mark.parametrize("alpha", [3.0, EXPAND_ABOVE, 41.0, 400.0])
@pytest.mark.parametrize(("d", "v"), [(0.1, 0.2), (2.5, 0.05), (12.0, 0.3)])
def test_gamma_update_against_mpmath(alpha: float, d: float, v: float) -> None:
    beta, tail = 0.7 * alpha, 1.2
    with mpmath.workdps(30):  # [PBP15] Eqs. (9) and (10)
        a, b = mpmath.mpf(alpha), mpmath.mpf(beta)
        Z, Z1, Z2 = (mpmath.exp(exact_log_Z(d, v, b / (a - 1 + j), tail)) for j in range(3))
        alpha_new = 1 / (Z * Z2 / Z1**2 * (a + 1) / a - 1)
        beta_new = 1 / (Z2 / Z1 * (a + 1) / b - Z1 / Z * a / b)
    found = updated(alpha, beta, d, v, tail)
    # By expansion the contribution of a point has an error of the order 1/alpha.
    error = 1e-8 if alpha <= EXPAND_ABOVE else 3.0 / alpha
    assert found[0] - alpha == pytest.approx(float(alpha_new) - alpha, rel=error, abs=error)
    assert found[1] - beta == pytest.approx(float(beta_new) - beta, rel=error, abs=error)
    assert not found[2]


@settings(max_examples=100, deadline=None)
@given(
    log_alpha=st.floats(0.05, 15.0),
    log_d=st.floats(-10.0, 300.0),
    log_v=st.floats(-20.0, 20.0),
    tail=st.floats(1e-12, 10.0),
)
def test_gamma_update_is_a_gamma_whatever_the_point(
    log_alpha: float, log_d: float, log_v: float, tail: float
) -> None:
    alpha = math.exp(log_alpha)
    alpha_new, beta_new, _ = updated(alpha, 2.0 * alpha, math.exp(log_d), math.exp(log_v), tail)
    assert is_valid_gamma(alpha_new, beta_new)


def test_an_outlier_moves_the_level_less_the_heavier_the_tail() -> None:
    moved = [updated(100.0, 99.0, 30.0, 0.1, tail)[1] - 99.0 for tail in (1.0, 2.0, 4.0)]
    assert 0.0 < moved[2] < moved[1] < moved[0] < 0.05 * 0.5 * 30.0**2


def test_an_outlier_that_the_tail_cannot_explain_is_guarded() -> None:
    _, beta_new, guarded = updated(10.0, 9.0, 1e3, 1e-3, 1e-9)
    assert guarded
    assert beta_new > 9.0


@pytest.mark.parametrize("tail", [0.0, 0.3, 4.0])
def test_gradients_match_log_Z(tail: float) -> None:
    m, v, y = np.array([0.2, -1.0]), np.array([0.3, 0.1]), np.array([2.0, -1.1])
    level, tails = np.array([0.2, 1.5]), np.full(2, tail)
    found = HEAVY.log_Z(m, v, y, level, tails)

    def slopes(f: object, at: np.ndarray) -> list[float]:
        h = 1e-5
        return [(f(at + e) - f(at - e)) / (2.0 * h) for e in h * np.eye(2)]  # type: ignore[operator]

    assert_allclose(
        found.dlogZ_dm, slopes(lambda x: HEAVY.log_Z(x, v, y, level, tails).log_Z, m), rtol=1e-6
    )
    assert_allclose(
        found.dlogZ_dv, slopes(lambda x: HEAVY.log_Z(m, x, y, level, tails).log_Z, v), rtol=1e-6
    )
    by_level = slopes(lambda x: HEAVY.log_Z(m, v, y, np.exp(x), tails).log_Z, np.log(level))
    assert_allclose(found.dlogZ_dlevel, by_level, rtol=1e-6)
    if tail > 0.0:
        by_tail = slopes(lambda x: HEAVY.log_Z(m, v, y, level, x).log_Z, tails)
        assert_allclose(found.dlogZ_dtail, by_tail, rtol=1e-6)
    # And the kernel's, whose noise is beta/(alpha - 1) with alpha = 2.
    log_Z, d_m, d_v = _kernel.log_Z("heavy", m, v, y, np.full(2, 2.0), level, tails)
    assert log_Z == pytest.approx(found.log_Z, rel=1e-11)
    assert_allclose(d_m, found.dlogZ_dm, rtol=1e-10)
    assert_allclose(d_v, found.dlogZ_dv, rtol=1e-10)


def test_steps_find_the_tail_of_synthetic_noise() -> None:
    random = np.random.RandomState(0)
    for true in (0.0, 1.0, 2.5):
        g = math.sqrt(true) * random.standard_normal(4000)
        noise = np.exp(0.5 * g) * random.standard_normal(4000)
        zero, tail = np.zeros(4000), np.zeros(1)
        for _ in range(25):
            slopes = _kernel.scale_mixture(noise, zero, zero, zero + tail)[2]
            tail = learned_tail(tail, np.array([slopes.mean()]), 1.0)
        assert tail[0] == pytest.approx(true, abs=0.1 + 0.1 * true)


def test_steps_stay_in_range() -> None:
    tails = learned_tail(np.array([0.1, 1.0, 3.9]), np.array([-1.0, 0.0, 1.0]), 1.0)
    assert tails.tolist() == [0.0, 1.0, LARGEST_TAIL]
    assert learned_tail(np.ones(1), np.ones(1), 0.0).tolist() == [1.0]
