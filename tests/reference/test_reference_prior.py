"""The reference's prior refinement against the literal equations, and its rules."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import oracle
from probprop._types import Array
from probprop.inference.posterior import Posterior, SweepInfo
from probprop.reference.prior import Factor, Outcome, refine_factor, refine_prior

FACTORS = [
    # m, v, v_hat_nat, a_hat_nat, b_hat_nat, alpha_prior, beta_prior
    (0.3, 0.5, 0.8, 0.0, 0.0, 6.0, 6.0),
    (-1.1, 0.9, 0.7, -0.8, 0.4, 5.5, 6.1),
    (0.02, 0.01, 1.3, 0.3, -0.1, 40.0, 30.0),
    (0.4, 1.1, 0.85, 0.06, -0.03, 7.0, 6.5),
    (0.4, 0.8, -0.1, 0.06, -0.03, 400.0, 650.0),
]


def literal(
    factor: Factor, alpha_prior: float, beta_prior: float
) -> tuple[list[mpmath.mpf], mpmath.mpf, mpmath.mpf]:
    """S(36) to S(39) with [PBP15] Eqs. (6), (7), (9), (10) and (11), to 50 digits.

    Returns the fields of the new Factor, then the new alpha_prior and beta_prior.
    """
    with mpmath.workdps(60):
        m, v, v_hat_nat, a_hat_nat, b_hat_nat = (mpmath.mpf(f) for f in factor)
        # A Factor's natural parameters: 1/v_hat, a_hat - 1, -b_hat; the mean is zero.
        v_hat, a_hat, b_hat = 1 / v_hat_nat, a_hat_nat + 1, -b_hat_nat

        v_cav = 1 / (1 / v - 1 / v_hat)  # S(36)
        m_cav = v_cav * (m / v - 0 / v_hat)
        a_cav = alpha_prior - a_hat + 1  # S(37)
        b_cav = beta_prior - b_hat

        def log_Z(m: mpmath.mpf, v: mpmath.mpf, alpha: mpmath.mpf) -> mpmath.mpf:  # Eq. (11)
            return mpmath.log(mpmath.npdf(m, 0, mpmath.sqrt(b_cav / (alpha - 1) + v)))

        d_m = mpmath.diff(lambda value: log_Z(value, v_cav, a_cav), m_cav)
        d_v = mpmath.diff(lambda value: log_Z(m_cav, value, a_cav), v_cav)
        m_new = m_cav + v_cav * d_m  # Eq. (6)
        v_new = v_cav - v_cav**2 * (d_m**2 - 2 * d_v)  # Eq. (7)
        Z, Z1, Z2 = (mpmath.exp(log_Z(m_cav, v_cav, a_cav + k)) for k in range(3))
        a_new = 1 / (Z * Z2 / Z1**2 * (a_cav + 1) / a_cav - 1)  # Eq. (9)
        b_new = 1 / (Z2 / Z1 * (a_cav + 1) / b_cav - Z1 / Z * a_cav / b_cav)  # Eq. (10)

        v_hat_new = 1 / (1 / v_new - 1 / v_cav)  # S(38)
        m_hat_new = v_hat_new * (m_new / v_new - m_cav / v_cav)
        assert abs(m_hat_new) < mpmath.mpf(10) ** -20
        a_hat_new = a_new - a_cav + 1  # S(39)
        b_hat_new = b_new - b_cav
        return [m_new, v_new, 1 / v_hat_new, a_hat_new - 1, -b_hat_new], a_new, b_new


@pytest.mark.parametrize("values", FACTORS)
def test_a_factor_follows_the_literal_equations(values: tuple[float, ...]) -> None:
    factor, alpha_prior, beta_prior = Factor(*values[:5]), values[5], values[6]
    expected, alpha_new, beta_new = literal(factor, alpha_prior, beta_prior)
    got, alpha_got, beta_got, outcome = refine_factor(factor, alpha_prior, beta_prior, math.inf)
    assert outcome is Outcome.REFINED
    assert list(got) == [pytest.approx(float(e), rel=1e-11) for e in expected]
    assert alpha_got == pytest.approx(float(alpha_new), rel=1e-12)
    assert beta_got == pytest.approx(float(beta_new), rel=1e-12)


def test_the_posterior_stays_the_product_of_cavity_and_factor() -> None:
    factor, alpha_prior, beta_prior = Factor(*FACTORS[1][:5]), *FACTORS[1][5:]
    got, alpha_new, beta_new, _ = refine_factor(factor, alpha_prior, beta_prior, math.inf)
    assert 1 / got.v - got.v_hat_nat == pytest.approx(1 / factor.v - factor.v_hat_nat, rel=1e-13)
    assert got.m / got.v == pytest.approx(factor.m / factor.v, rel=1e-13)
    assert alpha_new - got.a_hat_nat == pytest.approx(alpha_prior - factor.a_hat_nat, rel=1e-13)
    assert beta_new + got.b_hat_nat == pytest.approx(beta_prior + factor.b_hat_nat, rel=1e-13)


def test_only_a_factor_with_an_informative_cavity_is_refined() -> None:
    # Cavity precision 0.25, so v_cav = 4; beta_cav/(alpha_cav - 1) = 1.
    factor = Factor(m=0.3, v=1 / 1.25, v_hat_nat=1.0, a_hat_nat=0.5, b_hat_nat=-0.25)
    alpha_prior, beta_prior = 6.5, 5.25
    refined, alpha_new, beta_new, outcome = refine_factor(factor, alpha_prior, beta_prior, 4.001)
    assert outcome is Outcome.REFINED
    assert (alpha_new, beta_new) != (alpha_prior, beta_prior)
    assert refined != factor

    for ratio in (3.999, 0.0):
        left, alpha_left, beta_left, outcome = refine_factor(factor, alpha_prior, beta_prior, ratio)
        assert outcome is Outcome.UNINFORMATIVE
        assert (alpha_left, beta_left) == (alpha_prior, beta_prior)
        assert left is factor


def test_a_gamma_update_that_is_not_valid_leaves_the_factor_alone() -> None:
    # A weight fifty prior standard deviations from zero, and known to be there.
    factor = Factor(m=50.0, v=0.5, v_hat_nat=1.0, a_hat_nat=0.0, b_hat_nat=0.0)
    got, alpha_new, beta_new, outcome = refine_factor(factor, 6.0, 5.0, math.inf)
    assert outcome is Outcome.UNINFORMATIVE
    assert (alpha_new, beta_new) == (6.0, 5.0)
    assert got is factor


@pytest.mark.parametrize(
    "factor",
    [
        Factor(0.3, 1.0, 1.0, 0.0, 0.0),  # cavity precision zero
        Factor(0.3, 1.0, 1.5, 0.0, 0.0),  # and negative
        Factor(0.3, 1.0, 1.0 - 0.9e-6, 0.0, 0.0),  # cavity variance above 1e6
        Factor(0.3, math.nan, 0.5, 0.0, 0.0),
        Factor(0.3, 1.0, 0.5, 5.0, 0.0),  # alpha_cav = 1
        Factor(0.3, 1.0, 0.5, 0.0, -6.0),  # beta_cav = 0
    ],
)
def test_a_cavity_that_is_no_distribution_is_skipped(factor: Factor) -> None:
    got, alpha_new, beta_new, outcome = refine_factor(factor, 6.0, 6.0, math.inf)
    assert outcome is Outcome.SKIPPED
    assert got is factor
    assert (alpha_new, beta_new) == (6.0, 6.0)


def trained() -> Posterior:
    """The authors' state after three epochs."""
    authors = oracle.load("oracle_H43")
    return authors.posterior(authors.epochs[-1])


def per_weight(posterior: Posterior) -> list[tuple[Array, ...]]:
    """The arrays of a Posterior in the order of the fields of a Factor."""
    p = posterior
    return [p.m_w, p.v_w, p.v_hat_nat, p.a_hat_nat, p.b_hat_nat]


def test_the_sweep_is_sequential_in_flat_order() -> None:
    posterior = trained()
    got, _ = refine_prior(posterior, math.inf)
    alpha, beta = posterior.alpha_prior, posterior.beta_prior
    for layer, shape in enumerate(m.shape for m in posterior.m_w):
        for i, j in np.ndindex(shape):
            factor = Factor(*(float(a[layer][i, j]) for a in per_weight(posterior)))
            expected, alpha, beta, _ = refine_factor(factor, alpha, beta, math.inf)
            assert [float(a[layer][i, j]) for a in per_weight(got)] == list(expected)
    assert (got.alpha_prior, got.beta_prior) == (alpha, beta)


def test_the_sweep_counts_and_leaves_the_noise_alone() -> None:
    posterior = trained()
    v_hat_nat = tuple(v.copy() for v in posterior.v_hat_nat)
    v_hat_nat[0][0, 0] = 2.0 / posterior.v_w[0][0, 0]  # no cavity
    v_hat_nat[1][1, 2] = (1.0 - 1e-4) / posterior.v_w[1][1, 2]  # a wide cavity
    posterior = replace(posterior, v_hat_nat=v_hat_nat)
    _, info = refine_prior(posterior, informative_ratio=1e3)
    assert info == SweepInfo(n_skipped=1, n_uninformative=1)
    got, info = refine_prior(posterior, informative_ratio=0.0)
    assert info == SweepInfo(n_skipped=1, n_uninformative=sum(m.size for m in got.m_w) - 1)
    assert (got.alpha_prior, got.beta_prior) == (posterior.alpha_prior, posterior.beta_prior)
    assert (got.alpha_noise, got.beta_noise) == (posterior.alpha_noise, posterior.beta_noise)


def test_the_informative_ratio_is_eight_by_default() -> None:
    posterior = trained()
    by_default, eight = refine_prior(posterior), refine_prior(posterior, 8.0)
    assert by_default[1] == eight[1]
    assert by_default[0].alpha_prior == eight[0].alpha_prior
    assert eight[1].n_uninformative > 0


def test_inputs_are_not_modified_and_single_precision_stays_single() -> None:
    posterior = trained()
    single = replace(
        posterior,
        m_w=tuple(m.astype(np.float32) for m in posterior.m_w),
        v_w=tuple(v.astype(np.float32) for v in posterior.v_w),
    )
    before = copy.deepcopy(single)
    got, _ = refine_prior(single, math.inf)
    for arrays in zip(per_weight(before), per_weight(single), per_weight(got), strict=True):
        for old, kept, new in zip(*arrays, strict=True):
            assert_array_equal(old, kept)
            assert new.dtype == old.dtype
    assert isinstance(got.alpha_prior, float)
    double, _ = refine_prior(posterior, math.inf)
    assert got.alpha_prior == pytest.approx(double.alpha_prior, rel=1e-5)
