"""The likelihoods: log Z and its derivatives against closed forms, mpmath and panels."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import erfcx, log_ndtr
from scipy.stats import norm

from probprop import _kernel
from probprop._types import FloatArray
from probprop.inference.engine import ENGINES
from probprop.reference.likelihoods import (
    Evidence,
    class_log_probabilities,
    log_Z_gaussian,
    log_Z_multinomial,
    log_Z_probit,
)

ONE = np.ones(1)  # alpha and beta of a noise that is not learned: not read


def native_gaussian(
    m: FloatArray, v: FloatArray, y: FloatArray, noise_variance: FloatArray
) -> Evidence:
    # E[1/gamma] of Gam(2, beta) is beta.
    return Evidence(*_kernel.log_Z("gaussian", m, v, y, np.full(len(y), 2.0), noise_variance))


def native_probit(m: FloatArray, v: FloatArray, y: FloatArray) -> Evidence:
    return Evidence(*_kernel.log_Z("probit", m, v, y, ONE, ONE))


def native_multinomial(m: FloatArray, v: FloatArray, c: int) -> Evidence:
    return Evidence(*_kernel.log_Z("multinomial", m, v, np.array([float(c)]), ONE, ONE))


Multinomial = Callable[[FloatArray, FloatArray, int], Evidence]
MULTINOMIAL: dict[str, Multinomial] = {
    "reference": log_Z_multinomial,
    "native": native_multinomial,
}
Probit = Callable[[FloatArray, FloatArray, FloatArray], Evidence]
PROBIT: dict[str, Probit] = {
    "reference": log_Z_probit,
    "native": native_probit,
}
Gaussian = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], Evidence]
GAUSSIAN: dict[str, Gaussian] = {
    "reference": log_Z_gaussian,
    "native": native_gaussian,
}
LogProbabilities = Callable[[FloatArray, FloatArray], FloatArray]
LOG_PROBABILITIES: dict[str, LogProbabilities] = {
    "reference": class_log_probabilities,
    "native": _kernel.class_log_probabilities,
}

TOLERANCE = 1e-10
# Outputs over the whole range in which the likelihoods must hold: (m, v) of each.
OUTPUTS = st.tuples(st.floats(-50.0, 50.0), st.floats(-8.0, 4.0).map(lambda e: 10.0**e))
CLASSES = st.lists(OUTPUTS, min_size=2, max_size=20).map(lambda rows: np.array(rows).T.copy())


def random_outputs(n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """m and v, (n,): means of one random size, variances of two."""
    rng = np.random.RandomState(seed)
    m = rng.standard_normal(n) * 10.0 ** rng.uniform(-1.0, 1.5)
    return m, 10.0 ** (rng.choice([rng.uniform(-8.0, 0.0), rng.uniform(-1.0, 4.0)], n))


def assert_evidence(got: Evidence, expected: Evidence, v: FloatArray, rtol: float) -> None:
    """Compare log Z absolutely, that is Z relatively, and derivatives on their natural scale.

    log Z varies with m over a distance s, and a derivative beyond 1/s is its own scale; the
    same for v over s^2, where the square of the derivative by m is a scale as well.
    """
    s = np.sqrt(1.0 + v)
    slope = np.maximum(np.abs(expected.dlogZ_dm) * s, 1.0)
    assert got.log_Z == pytest.approx(expected.log_Z, rel=1e-13, abs=rtol)
    assert_allclose(got.dlogZ_dm * s / slope, expected.dlogZ_dm * s / slope, rtol=0.0, atol=rtol)
    scale = s**2 / np.maximum(slope**2, np.abs(expected.dlogZ_dv) * s**2)
    assert_allclose(got.dlogZ_dv * scale, expected.dlogZ_dv * scale, rtol=0.0, atol=rtol)


def differences(log_Z: Callable[[FloatArray, FloatArray], float], m: Any, v: Any) -> Evidence:
    """Derivatives of log_Z by central differences, extrapolated."""
    units, s2 = np.eye(len(m)), 1.0 + v

    def slope(f: Callable[[float], float], h: float) -> float:
        wide, narrow = ((f(x) - f(-x)) / (2.0 * x) for x in (h, 0.5 * h))
        return (4.0 * narrow - wide) / 3.0

    by_m = [slope(lambda h, e=e: log_Z(m + h * e, v), 0.01 * e @ np.sqrt(s2)) for e in units]
    # v + h may be below 0: the likelihoods are functions of 1 + v.
    by_v = [slope(lambda h, e=e: log_Z(m, v + h * e), 0.01 * e @ s2) for e in units]
    return Evidence(log_Z(m, v), np.array(by_m), np.array(by_v))


# ---- Gaussian


@pytest.mark.parametrize("name", GAUSSIAN)
def test_gaussian_is_a_product_of_densities(name: str) -> None:
    rng = np.random.RandomState(0)
    m, y = rng.standard_normal((2, 5))
    v, noise = rng.uniform(0.01, 3.0, (2, 5))
    got = GAUSSIAN[name](m, v, y, noise)
    assert got.log_Z == pytest.approx(norm.logpdf(y, m, np.sqrt(v + noise)).sum(), rel=1e-13)
    by_differences = differences(lambda m, v: GAUSSIAN[name](m, v, y, noise).log_Z, m, v)
    assert_evidence(got, by_differences, v, 1e-8)


# ---- Probit


@pytest.fixture(params=PROBIT)
def probit(request: pytest.FixtureRequest) -> Probit:
    return PROBIT[request.param]


@pytest.mark.parametrize("v", [0.0, 1e-8, 1.0, 1e4])
def test_probit_in_both_tails(probit: Probit, v: float) -> None:
    for m in np.concatenate([np.linspace(-50.0, 50.0, 41), [-300.0, -1e-9, 1e-9, 8.3, 300.0]]):
        for y in (-1.0, 1.0):
            with mpmath.workdps(60):
                s = mpmath.sqrt(1 + mpmath.mpf(v))
                z = y * mpmath.mpf(float(m)) / s
                Phi = mpmath.erfc(-z / mpmath.sqrt(2)) / 2
                ratio = mpmath.npdf(z) / Phi
                exact = [mpmath.log(Phi), y * ratio / s, -z * ratio / (2 * s * s)]
            log_Z, (d_m,), (d_v,) = probit(np.array([m]), np.array([v]), np.array([y]))[:3]
            assert log_Z == pytest.approx(float(exact[0]), rel=1e-13, abs=1e-15)
            assert d_m == pytest.approx(float(exact[1]), rel=1e-12, abs=1e-300)
            assert d_v == pytest.approx(float(exact[2]), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("K", [1, 2, 3, 7, 8, 9, 20])
def test_probits_are_independent(probit: Probit, K: int) -> None:
    m, v = random_outputs(K, K)
    y = np.where(np.arange(K) % 3 == 0, -1.0, 1.0)
    whole = probit(m, v, y)
    parts = [probit(m[k : k + 1], v[k : k + 1], y[k : k + 1]) for k in range(K)]
    assert whole.log_Z == pytest.approx(sum(part.log_Z for part in parts), rel=1e-13)
    assert_allclose(whole.dlogZ_dm, [part.dlogZ_dm[0] for part in parts], rtol=1e-13)
    assert_allclose(whole.dlogZ_dv, [part.dlogZ_dv[0] for part in parts], rtol=1e-13)


@settings(max_examples=100, deadline=None)
@given(outputs=CLASSES, signs=st.integers(0, 2**20 - 1))
def test_probit_parity(outputs: FloatArray, signs: int) -> None:
    m, v = outputs
    y = np.array([1.0 if signs >> k & 1 else -1.0 for k in range(len(m))])
    native, expected = PROBIT["native"](m, v, y), PROBIT["reference"](m, v, y)
    assert native.log_Z == pytest.approx(expected.log_Z, rel=1e-12, abs=1e-14)
    assert_allclose(native.dlogZ_dm, expected.dlogZ_dm, rtol=1e-11, atol=1e-300)
    assert_allclose(native.dlogZ_dv, expected.dlogZ_dv, rtol=1e-11, atol=1e-300)


def test_probit_by_finite_differences(probit: Probit) -> None:
    m, v, y = np.array([0.3, -2.0, 5.0]), np.array([1e-8, 2.0, 1e4]), np.array([1.0, 1.0, -1.0])
    by_differences = differences(lambda m, v: probit(m, v, y).log_Z, m, v)
    assert_evidence(probit(m, v, y), by_differences, v, 1e-8)


# ---- Multinomial


@pytest.fixture(params=MULTINOMIAL)
def multinomial(request: pytest.FixtureRequest) -> Multinomial:
    return MULTINOMIAL[request.param]


def two_classes(m: FloatArray, v: FloatArray, c: int) -> Evidence:
    """The closed form of K = 2: Phi((m_c - m_other)/sqrt(2 + v_1 + v_2))."""
    sign = np.where(np.arange(2) == c, 1.0, -1.0)
    s = math.sqrt(2.0 + v.sum())
    z = float(sign @ m) / s
    ratio = math.sqrt(2.0 / math.pi) / erfcx(-z / math.sqrt(2.0))
    return Evidence(log_ndtr(z), sign * ratio / s, np.full(2, -0.5 * z * ratio / s**2))


def by_panels(m: FloatArray, v: FloatArray, c: int) -> Evidence:
    """By Gauss-Legendre on panels no wider than any s_k near its m_k, by definition.

    The derivatives by m_c and v_c equal the derivatives of the density of class c; only rounding
    limits them, which the cancellation makes 1e-13 or so.
    """
    s = np.sqrt(1.0 + v)
    ends = np.unique(m + s * np.arange(-60.0, 61.0)[:, np.newaxis])
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half, middle = 0.5 * np.diff(ends), 0.5 * (ends[1:] + ends[:-1])
    t = (middle[:, np.newaxis] + half[:, np.newaxis] * nodes).ravel()
    z = (t[:, np.newaxis] - m) / s
    log_Phi, log_phi = log_ndtr(z), norm.logpdf(z)
    log_f = np.delete(log_Phi, c, axis=1).sum(axis=1) + log_phi[:, c] - math.log(s[c])
    top = log_f.max()
    f = (half[:, np.newaxis] * weights).ravel() * np.exp(log_f - top)
    p = f / f.sum()
    ratio = np.exp(log_phi - log_Phi)
    dlogZ_dm, dlogZ_dv = -(p @ ratio) / s, -0.5 * (p @ (z * ratio)) / s**2
    dlogZ_dm[c] = (p @ z[:, c]) / s[c]
    dlogZ_dv[c] = 0.5 * (p @ z[:, c] ** 2 - 1.0) / s[c] ** 2
    return Evidence(top + math.log(f.sum()), dlogZ_dm, dlogZ_dv)


def by_mpmath(m: FloatArray, v: FloatArray, c: int) -> Evidence:
    """The integral and, under it, its first and half its second derivatives, to 30 digits."""
    with mpmath.workdps(30):
        K = len(m)
        means = [mpmath.mpf(float(x)) for x in m]
        s = [mpmath.sqrt(1 + mpmath.mpf(float(x))) for x in v]
        unit = mpmath.exp(by_panels(m, v, c).log_Z)  # quad's error is an absolute one
        ends = sorted({means[k] + i * s[k] for k in range(K) for i in range(-40, 41, 4)})

        @cache
        def terms(t: mpmath.mpf) -> list[mpmath.mpf]:
            """The integrands of Z, of its derivatives by m and of those by v."""
            z = [(t - means[k]) / s[k] for k in range(K)]
            Phi = [mpmath.erfc(-x / mpmath.sqrt(2)) / 2 for x in z]
            ratio = [mpmath.npdf(x) / P for x, P in zip(z, Phi, strict=True)]
            by_m = [(z[c] if k == c else -ratio[k]) / s[k] for k in range(K)]
            by_v = [
                (z[c] ** 2 - 1 if k == c else -z[k] * ratio[k]) / s[k] ** 2 / 2 for k in range(K)
            ]
            others = mpmath.fprod(Phi[k] for k in range(K) if k != c)
            f = mpmath.npdf(z[c]) / s[c] * others / unit
            return [f * factor for factor in (1, *by_m, *by_v)]

        def integral(i: int) -> mpmath.mpf:
            # The integrands are smooth: this rule takes a third of the nodes of the usual one.
            return mpmath.quad(lambda t: terms(t)[i], ends, method="gauss-legendre")

        Z, *by_moments = map(integral, range(2 * K + 1))
        dlogZ = np.array([float(x / Z) for x in by_moments])
        return Evidence(float(mpmath.log(Z * unit)), dlogZ[:K], dlogZ[K:])


# Equal; confident; hopeless; a narrow step inside a wide density, one in its far tail, and one
# that is dead, for the integrand has long ended when it begins.
CASES = [
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], 1),
    ([6.0, 0.0, -1.0], [0.5, 1e-8, 2.0], 0),
    ([-20.0, 15.0, 10.0], [0.5, 1e-8, 2.0], 0),
    ([5.0, 0.0, -30.0], [1e4, 1e-8, 100.0], 0),
    ([0.0, -250.0, 80.0], [1e4, 1e-8, 100.0], 0),
    ([0.0, -46.0, 0.0], [5.0, 0.1, 1000.0], 2),
]


@pytest.mark.parametrize(("m", "v", "c"), CASES)
def test_multinomial_against_mpmath(m: list[float], v: list[float], c: int) -> None:
    exact = by_mpmath(np.array(m), np.array(v), c)
    for multinomial in (*MULTINOMIAL.values(), by_panels):
        got = multinomial(np.array(m), np.array(v), c)
        assert_evidence(got, exact, np.array(v), 1e-11)


@settings(max_examples=150, deadline=None)
@given(outputs=CLASSES, c=st.integers(0, 19))
def test_multinomial_against_panels(outputs: FloatArray, c: int) -> None:
    m, v = outputs
    exact = by_panels(m, v, c % len(m))
    for multinomial in MULTINOMIAL.values():
        assert_evidence(multinomial(m, v, c % len(m)), exact, v, TOLERANCE)


@pytest.mark.parametrize("K", [*range(2, 21), 33, 300])
def test_multinomial_parity(K: int) -> None:
    for seed in range(20):
        m, v = random_outputs(K, seed)
        for c in {int(m.argmax()), int(m.argmin()), seed % K}:
            native, expected = MULTINOMIAL["native"](m, v, c), MULTINOMIAL["reference"](m, v, c)
            assert_evidence(native, expected, v, TOLERANCE)


@settings(max_examples=100, deadline=None)
@given(outputs=st.lists(OUTPUTS, min_size=2, max_size=2), c=st.integers(0, 1))
def test_two_classes_have_a_closed_form(outputs: list[tuple[float, float]], c: int) -> None:
    m, v = np.array(outputs).T.copy()
    for multinomial in MULTINOMIAL.values():
        assert_evidence(multinomial(m, v, c), two_classes(m, v, c), v, TOLERANCE)


@pytest.mark.parametrize("K", [2, 3, 10, 20])
def test_multinomial_by_finite_differences(multinomial: Multinomial, K: int) -> None:
    for seed in range(5):
        m, v = random_outputs(K, seed)
        c = seed % K
        by_differences = differences(lambda m, v, c=c: multinomial(m, v, c).log_Z, m, v)
        assert_evidence(multinomial(m, v, c), by_differences, v, 2e-7)


@pytest.mark.parametrize("name", LOG_PROBABILITIES)
@pytest.mark.parametrize("K", [2, 3, 10, 20, 40])
def test_probabilities_sum_to_one(name: str, K: int) -> None:
    rng = np.random.RandomState(K)
    m = rng.uniform(-50.0, 50.0, (50, K)) * 10.0 ** rng.uniform(-2.0, 0.0, (50, 1))
    v = 10.0 ** rng.uniform(-8.0, 4.0, (50, K))
    log_p = LOG_PROBABILITIES[name](m, v)
    assert log_p.shape == (50, K)
    assert (log_p <= 0.0).all()
    assert_allclose(np.exp(log_p).sum(axis=1), 1.0, rtol=0.0, atol=TOLERANCE)
    for i in range(10):
        expected = [MULTINOMIAL[name](m[i], v[i], c).log_Z for c in range(K)]
        assert_allclose(log_p[i], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 100.0, 1e4, 1e9])
@pytest.mark.parametrize("n_orders", [0.0, 2.0, 6.0])
def test_one_grid_serves_many_classes(spread: float, n_orders: float) -> None:
    # Each class by its own quadrature is the oracle. From 33 classes on there is one grid, unless
    # classes lie too far apart for one.
    for K in (33, 35, 100, 250):
        rng = np.random.RandomState(K)
        m = spread * rng.standard_normal((2, K))
        v = 10.0 ** (n_orders * rng.uniform(-0.5, 1.0, (2, K)))
        log_p = _kernel.class_log_probabilities(m, v)
        rows, c = np.divmod(np.arange(2 * K), K)
        expected = _kernel.class_log_probability(m[rows], v[rows], c).reshape(2, K)
        assert_allclose(log_p, expected, rtol=2e-12, atol=2e-12)
        assert_allclose(np.exp(log_p).sum(axis=1), 1.0, rtol=0.0, atol=TOLERANCE)


@pytest.mark.parametrize("K", [3, 20, 32])
def test_one_class_per_row_has_the_bits_that_it_has_among_all(K: int) -> None:
    rng = np.random.RandomState(K)
    m, v, c = 3.0 * rng.standard_normal((9, K)), rng.gamma(1.0, 1.0, (9, K)), rng.randint(K, size=9)
    for engine in ENGINES.values():
        alone, among_all = (
            engine.class_log_probability(m, v, c),
            engine.class_log_probabilities(m, v),
        )
        assert_array_equal(alone, among_all[np.arange(9), c])


def test_probabilities_are_the_exponential() -> None:
    m, v = np.array([[0.0, 1.0], [-20.0, 20.0]]), np.ones((2, 2))
    p = np.exp(class_log_probabilities(m, v))
    assert_allclose(np.log(p), LOG_PROBABILITIES["native"](m, v), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("K", [2, 5, 20])
def test_classes_have_no_order_and_no_origin(multinomial: Multinomial, K: int) -> None:
    m, v = random_outputs(K, K)
    order = np.random.RandomState(0).permutation(K)
    for c in range(0, K, 3):
        expected = multinomial(m, v, c)
        got = multinomial(m[order], v[order], int(np.flatnonzero(order == c)[0]))
        back = np.argsort(order)
        permuted = Evidence(got.log_Z, got.dlogZ_dm[back], got.dlogZ_dv[back])
        assert_evidence(permuted, expected, v, 1e-12)
        assert_evidence(multinomial(m + 1234.5, v, c), expected, v, 1e-11)
        # So the derivatives along a common shift, and along a common scale, are these.
        assert expected.dlogZ_dm.sum() == pytest.approx(0.0, abs=1e-13)
        along_scale = m @ expected.dlogZ_dm + 2.0 * (1.0 + v) @ expected.dlogZ_dv
        assert along_scale == pytest.approx(0.0, abs=1e-9 * max(1.0, -expected.log_Z))


def test_equal_outputs_are_equally_likely(multinomial: Multinomial) -> None:
    for K in (2, 3, 20, 100):
        got = multinomial(np.full(K, 7.0), np.full(K, 3.0), K // 2)
        assert got.log_Z == pytest.approx(-math.log(K), rel=1e-12)


def test_a_huge_margin_leaves_nothing_to_learn(multinomial: Multinomial) -> None:
    for v in (1e-8, 1.0, 30.0):
        m = np.array([-10.0, 300.0, 0.0, 10.0])
        log_Z, d_m, d_v = multinomial(m, np.full(4, v), 1)[:3]
        assert log_Z == pytest.approx(0.0, abs=1e-11)
        assert_allclose(np.stack([d_m, d_v]), 0.0, rtol=0.0, atol=1e-100)


@pytest.mark.parametrize("d", [10.0, 50.0, 100.0, 1000.0])
def test_a_hopeless_class_is_finite_and_quadratic(multinomial: Multinomial, d: float) -> None:
    # The other two are far below the first: only it matters, as if K were 2.
    m, v = np.array([d, 0.0, -3.0 * d, -3.0 * d]), np.array([0.5, 1.5, 1.0, 1.0])
    got, exact = multinomial(m, v, 1), two_classes(m[:2], v[:2], 1)
    assert got.log_Z == pytest.approx(-0.5 * d**2 / 4.0, rel=0.3)
    assert got.log_Z == pytest.approx(exact.log_Z, rel=1e-12)
    assert_allclose(got.dlogZ_dm[:2], exact.dlogZ_dm, rtol=1e-10)
    assert_allclose(got.dlogZ_dv[:2], exact.dlogZ_dv, rtol=1e-10)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_what_is_not_finite_ends_and_shows(bad: float) -> None:
    for at in (0, 1):
        m = np.array([0.0, 0.0, 1.0])
        m[at] = bad
        with np.errstate(all="ignore"):
            for multinomial in MULTINOMIAL.values():
                log_Z, d_m, d_v = multinomial(m, np.ones(3), 0)[:3]
                if math.isfinite(log_Z):
                    assert np.isfinite([d_m, d_v]).all()


def test_the_kernel_refuses_arrays_that_do_not_fit() -> None:
    two, three = np.ones(2), np.ones(3)
    with pytest.raises(ValueError, match="length"):
        native_probit(two, two, three)
    with pytest.raises(ValueError, match="length"):
        native_probit(two, three, two)
    with pytest.raises(ValueError, match="length"):
        native_gaussian(two, two, two, three)
    for c in (-1, 2):
        with pytest.raises(ValueError, match="index of a class"):
            native_multinomial(two, two, c)
    with pytest.raises(ValueError, match="shape"):
        _kernel.class_log_probabilities(np.ones((4, 2)), np.ones((4, 3)))
    ones = np.ones((4, 3))
    with pytest.raises(ValueError, match="one class per row"):
        _kernel.class_log_probability(ones, ones, np.zeros(3, np.int64))
    for bad in (-1, 3):
        with pytest.raises(ValueError, match="not one of the outputs"):
            _kernel.class_log_probability(ones, ones, np.array([0, 1, 2, bad]))
