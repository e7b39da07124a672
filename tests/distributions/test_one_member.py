"""The predictive distribution against scipy, mpmath and its own definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy import integrate, stats
from scipy.special import log_ndtr

from probprop.distributions.mixture import Mixture

ALPHAS = [1.05, 2.0, 6.0, 300.0, 1e5, 1e9]
MEAN = np.array([-2.0, 0.0, 5.0, 1.0])
EPISTEMIC_STD = np.array([0.0, 0.5, 3.0, 40.0])


def one(
    mean: Any, epistemic_std: Any, aleatoric_std: Any, alpha: float, student_t: bool = False
) -> Mixture:
    """A member with Gaussian noise, or the Student-t of a precision whose Gamma has shape alpha."""
    dof = 2.0 * alpha if student_t else None
    return Mixture.of_one(mean, epistemic_std, aleatoric_std, dof=dof)


def predictive(alpha: float = 6.0, *, student_t: bool = True, scale: float = 1.0) -> Mixture:
    """Four rows whose epistemic variance is 0 to 700 times the aleatoric one."""
    return one(scale * MEAN, scale * EPISTEMIC_STD, scale * 1.5, alpha, student_t)


def noise_only(alpha: float, residuals: NDArray[np.float64]) -> tuple[Mixture, stats.t]:
    """No model variance, and the Student-t that scipy has for it."""
    p = one(np.full(len(residuals), 2.0), np.zeros(len(residuals)), 1.5, alpha, True)
    return p, stats.t(2 * alpha, loc=2.0, scale=1.5 * np.sqrt((alpha - 1) / alpha))


def quad_integral(
    y: float, epistemic_std: float, aleatoric_std: float, alpha: float
) -> tuple[float, float]:
    """Log density and log upper tail at residual y > 0 by scipy's quad, in u = log gamma.

    An oracle of its own: adaptive Gauss-Kronrod on panels of the width of the Gamma over the
    whole range from the outlier's gamma to the prior's, scaled by the largest value seen.
    """
    beta = (alpha - 1) * aleatoric_std**2
    log_c = alpha * math.log(beta) - math.lgamma(alpha)

    def log_prior(u: float) -> float:
        return log_c + alpha * u - beta * math.exp(u)

    def log_pdf(u: float) -> float:
        var = epistemic_std**2 + math.exp(-u)
        return log_prior(u) - 0.5 * y**2 / var - 0.5 * math.log(2 * math.pi * var)

    def log_tail(u: float) -> float:
        return log_prior(u) + float(log_ndtr(-y / math.sqrt(epistemic_std**2 + math.exp(-u))))

    mode = math.log(alpha / beta)
    low = math.log((2 * alpha + 1) / (2 * beta + y**2)) - 50 / alpha - 12 / math.sqrt(alpha)
    n_panels = math.ceil((mode + 5 - low) * max(1.0, 0.5 * math.sqrt(alpha)))
    panels = np.linspace(low, mode + 5, n_panels + 1)

    def log_integral(log_f: Callable[[float], float]) -> float:
        top = max(log_f(u) for u in np.linspace(low, mode + 5, 10 * n_panels))
        total = sum(
            integrate.quad(lambda u: math.exp(log_f(u) - top), a, b, epsabs=1e-17, epsrel=1e-12)[0]
            for a, b in pairwise(panels)
        )
        return top + math.log(total)

    return log_integral(log_pdf), log_integral(log_tail)


class TestMoments:
    def test_variances_add_and_have_one_value_per_row(self) -> None:
        p = predictive()
        assert_array_equal(p.epistemic_std, EPISTEMIC_STD)
        assert_array_equal(p.aleatoric_std, np.full(4, 1.5))
        assert_allclose(p.var, EPISTEMIC_STD**2 + 2.25, rtol=1e-15)
        assert_allclose(p.std, np.sqrt(p.var), rtol=1e-15)

    @pytest.mark.parametrize("student_t", [False, True])
    def test_samples_have_the_mean_and_the_variance(self, student_t: bool) -> None:
        p = predictive(6.0, student_t=student_t)
        draws = p.rvs(40_000, random_state=0)
        assert draws.shape == (40_000, 4)
        assert_allclose(draws.mean(axis=0), p.mean, atol=4 / np.sqrt(40_000) * p.std.max())
        assert_allclose(draws.std(axis=0), p.std, rtol=0.02)
        assert_allclose(np.corrcoef(draws.T), np.eye(4), atol=0.02)

    @pytest.mark.parametrize("student_t", [False, True])
    def test_samples_follow_the_cdf(self, student_t: bool) -> None:
        p = predictive(1.2, student_t=student_t)
        u = p.cdf(p.rvs(5_000, random_state=1))
        for row in u.T:
            assert stats.kstest(row, "uniform").pvalue > 1e-3

    def test_the_same_seed_gives_the_same_draws(self) -> None:
        p = predictive()
        assert_array_equal(p.rvs(5, 3), p.rvs(5, np.random.RandomState(3)))
        assert np.all(p.rvs(5, 3) != p.rvs(5, 4))


class TestGaussian:
    def test_equals_scipy(self) -> None:
        p = predictive(student_t=False)
        norm = stats.norm(p.mean, p.std)
        y = p.mean + p.std * np.array([-30.0, -1.0, 0.0, 0.3, 6.0])[:, np.newaxis]
        assert_allclose(p.logpdf(y), norm.logpdf(y), rtol=1e-13)
        assert_allclose(p.cdf(y), norm.cdf(y), rtol=1e-13)
        q = np.array([1e-12, 0.025, 0.5, 0.9])
        assert_allclose(p.ppf(q), norm.ppf(q[:, np.newaxis]), rtol=1e-13, atol=1e-14)
        assert_allclose(p.interval(0.8), norm.interval(0.8), rtol=1e-13)

    def test_an_outlier_beyond_all_floats_has_density_zero(self) -> None:
        p = predictive(student_t=False)
        assert_array_equal(p.logpdf(1e200), np.full(4, -np.inf))


class TestStudentT:
    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_without_model_variance_it_equals_scipy_t(self, alpha: float) -> None:
        residuals = np.array([0.0, 1e-9, 0.4, -3.0, 8.0, -20.0, 1e3, -1e6])
        p, t = noise_only(alpha, residuals)
        y = 2.0 + 1.5 * residuals
        # The log-Gamma functions of scipy's t cancel: they are the limit at large alpha.
        assert_allclose(p.logpdf(y), t.logpdf(y), rtol=1e-12 + 1e-15 * alpha)
        assert_allclose(p.cdf(y), t.cdf(y), rtol=1e-11, atol=1e-300)

    @pytest.mark.parametrize("alpha", [1.05, 2.0, 6.0, 300.0])
    def test_without_model_variance_quantiles_equal_scipy_t(self, alpha: float) -> None:
        q = np.array([1e-20, 1e-3, 0.2, 0.5, 0.97])
        p, t = noise_only(alpha, np.zeros(1))
        assert_allclose(p.ppf(q)[:, 0], t.ppf(q), rtol=1e-12, atol=1e-14)

    @pytest.mark.parametrize("alpha", [1.05, 2.0, 6.0, 300.0])
    @pytest.mark.parametrize("epistemic_std", [0.3, 2.0, 50.0])
    @pytest.mark.parametrize("sigmas", [0.5, 12.0, 1000.0])
    def test_equals_quad(self, alpha: float, epistemic_std: float, sigmas: float) -> None:
        p = one(np.zeros(1), np.array([epistemic_std]), 0.7, alpha, True)
        y = sigmas * p.std[0]
        log_pdf, log_tail = quad_integral(y, epistemic_std, 0.7, alpha)
        assert_allclose(p.logpdf(y), log_pdf, rtol=1e-12, atol=1e-12)
        assert_allclose(p.cdf(-y), np.exp(log_tail), rtol=1e-11)

    @pytest.mark.parametrize("alpha", [1e5, 1e9])
    @pytest.mark.parametrize("sigmas", [0.5, 30.0, 1000.0])
    def test_equals_mpmath_where_the_integrand_is_narrow(self, alpha: float, sigmas: float) -> None:
        """Laplace's expansion is exact to 1e-12 here: the mode from mpmath, to second order."""
        epistemic_std, aleatoric_std = 0.6, 0.8
        with mpmath.workdps(40):
            a, v, x = mpmath.mpf(alpha), mpmath.mpf(epistemic_std) ** 2, mpmath.mpf(sigmas)
            beta = (a - 1) * mpmath.mpf(aleatoric_std) ** 2

            def log_f(u: mpmath.mpf) -> mpmath.mpf:
                var = v + mpmath.exp(-u)
                prior = a * mpmath.log(beta) - mpmath.loggamma(a) + a * u - beta * mpmath.exp(u)
                return prior - x * x / (2 * var) - mpmath.log(2 * mpmath.pi * var) / 2

            start = mpmath.log(a / beta) - x * x / (4 * a + x * x)
            mode = mpmath.findroot(lambda u: mpmath.diff(log_f, u), start)
            d2, d3, d4 = (mpmath.diff(log_f, mode, k) for k in (2, 3, 4))
            second = d4 / (8 * d2**2) - 5 * d3**2 / (24 * d2**3)
            exact = log_f(mode) + mpmath.log(2 * mpmath.pi / -d2) / 2 + second
        p = one(np.zeros(1), np.array([epistemic_std]), aleatoric_std, alpha, True)
        assert_allclose(p.logpdf(sigmas), float(exact), rtol=1e-11, atol=20 / alpha**2)

    @pytest.mark.parametrize("alpha", [1.5, 30.0, 1e4])
    @pytest.mark.parametrize("kappa", [7.9, 8.1, 20.0, 1e4, 1e12])
    def test_equals_a_plain_sum_where_the_integrand_has_two_modes(
        self, alpha: float, kappa: float
    ) -> None:
        """One grid over everything, without windows: residuals through both modes' balance."""
        log_ratio = 0.5 * np.log(kappa * (alpha - 1) / alpha)
        balance = np.sqrt(2 * alpha * np.log1p(kappa))
        z = balance * np.array([0.3, 0.7, 0.9, 1.0, 1.1, 1.3, 3.0])
        h = min(0.05, 0.3 / np.sqrt(alpha))
        s = h * np.arange(-60 / h, 4 / h)[:, np.newaxis]
        log_prior = -alpha * (np.expm1(s) - s)
        var = np.exp(-s) * (alpha - 1) / alpha + np.exp(2 * log_ratio)  # in noise variances
        var /= 1 + np.exp(2 * log_ratio)
        log_norm = np.logaddexp.reduce(log_prior, axis=0)
        std = np.hypot(1.0, np.exp(log_ratio))
        p = one(np.zeros(1), np.exp([log_ratio]) / std, 1.0 / std, alpha, True)
        log_pdf, log_tail = (
            np.logaddexp.reduce(log_prior + f(z, scale=np.sqrt(var)), axis=0) - log_norm
            for f in (stats.norm.logpdf, stats.norm.logsf)
        )
        assert_allclose(p.logpdf(z), log_pdf, rtol=1e-12)
        assert_allclose(p.cdf(-z), np.exp(log_tail), rtol=1e-12 * 700, atol=1e-300)

    @pytest.mark.parametrize("alpha", [1.05, 6.0, 1e9])
    def test_density_integrates_to_one_and_to_the_cdf(self, alpha: float) -> None:
        p = predictive(alpha)
        # y = mean + std sinh(x) turns the heavy tails into exponential ones.
        x = np.linspace(-25.0, 25.0, 5001)
        y = p.mean + p.std * np.sinh(x)[:, np.newaxis]
        density = np.exp(p.logpdf(y) + np.log(p.std * np.cosh(x)[:, np.newaxis]))
        assert_allclose(integrate.trapezoid(density, x, axis=0), 1.0, rtol=1e-12)
        cumulative = integrate.cumulative_simpson(density, x=x, axis=0, initial=0.0)
        inside = slice(2000, 3000, 50)
        assert_allclose(cumulative[inside], p.cdf(y[inside]), atol=1e-9)

    @pytest.mark.parametrize("alpha", [1e7, 1e9, 1e15, 1e30, 1e100])
    def test_tends_to_the_gaussian(self, alpha: float) -> None:
        t, gauss = predictive(alpha), predictive(alpha, student_t=False)
        alpha = min(alpha, 1e12)  # more degrees of freedom count as 2e12
        y = t.mean + t.std * np.array([-6.0, -0.5, 0.0, 2.0])[:, np.newaxis]
        assert_allclose(t.logpdf(y), gauss.logpdf(y), rtol=300 / alpha + 1e-14)
        assert_allclose(t.cdf(y), gauss.cdf(y), rtol=700 / alpha + 1e-13)
        q = np.array([1e-6, 0.3, 0.99])
        assert_allclose(t.ppf(q), gauss.ppf(q), rtol=100 / alpha + 1e-13)

    def test_outliers_of_any_size_stay_finite_and_follow_the_power_law(self) -> None:
        p = predictive(3.0)
        y = np.array([1e20, 1e100, 1e250])[:, np.newaxis]
        slope = np.diff(p.logpdf(y), axis=0) / np.diff(np.log(y), axis=0)
        assert_allclose(slope, -7.0, rtol=1e-12)

    def test_infinite_and_missing_targets(self) -> None:
        p = predictive()
        assert_array_equal(p.logpdf(np.inf), np.full(4, -np.inf))
        assert_array_equal(p.cdf([[-np.inf], [np.inf]]), [[0.0] * 4, [1.0] * 4])
        assert_array_equal(np.isnan(p.logpdf([np.nan, 0, 0, 0])), [True, False, False, False])


class TestQuantiles:
    @settings(max_examples=60, deadline=None)
    @given(
        alpha=st.floats(1.05, 1e9),
        log_ratio=st.floats(-20.0, 20.0),
        q=st.floats(1e-12, 1 - 1e-12),
        student_t=st.booleans(),
    )
    def test_quantile_inverts_cdf(
        self, alpha: float, log_ratio: float, q: float, student_t: bool
    ) -> None:
        p = one(np.zeros(1), np.array([np.exp(log_ratio)]), 1.0, alpha, student_t)
        assert_allclose(p.cdf(p.ppf(q)), q, rtol=1e-11)

    @pytest.mark.parametrize("q", [1e-300, 1e-100, 1e-30])
    @pytest.mark.parametrize("alpha", [1.05, 6.0, 1e9])
    def test_the_far_tail(self, q: float, alpha: float) -> None:
        p = predictive(alpha)
        assert_allclose(p.cdf(p.ppf(q)), q, rtol=1e-10)

    @pytest.mark.parametrize("student_t", [False, True])
    def test_shapes_and_symmetry(self, student_t: bool) -> None:
        p = predictive(student_t=student_t)
        assert p.ppf(0.3).shape == (4,)
        assert p.ppf(np.full((2, 3), 0.3)).shape == (2, 3, 4)
        assert_array_equal(p.ppf(0.5), p.mean)
        assert_allclose(p.ppf(0.25) + p.ppf(0.75), 2 * p.mean, atol=1e-13)
        assert np.all(np.diff(p.ppf([0.1, 0.2, 0.5, 0.500001, 0.9]), axis=0) > 0)

    @pytest.mark.parametrize("student_t", [False, True])
    @pytest.mark.parametrize("level", [0.5, 0.95])
    def test_interval_covers(self, student_t: bool, level: float) -> None:
        p = predictive(1.5, student_t=student_t)
        lower, upper = p.interval(level)
        assert_allclose(p.cdf(upper) - p.cdf(lower), level, rtol=1e-12)
        draws = p.rvs(20_000, random_state=2)
        inside = np.mean((draws > lower) & (draws < upper), axis=0)
        assert_allclose(inside, level, atol=4 * np.sqrt(level * (1 - level) / 20_000))

    def test_no_rows(self) -> None:
        p = one(np.zeros(0), np.zeros(0), 1.0, 6.0, True)
        assert p.logpdf([]).shape == p.cdf([]).shape == p.ppf(0.5).shape == (0,)


class TestUnits:
    @pytest.mark.parametrize("student_t", [False, True])
    @pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e150])
    def test_a_change_of_unit_changes_nothing_else(self, scale: float, student_t: bool) -> None:
        p = predictive(2.0, student_t=student_t)
        scaled = predictive(2.0, student_t=student_t, scale=scale)
        y = np.array([-1e3, -3.0, 0.1, 20.0])[:, np.newaxis]
        assert_allclose(scaled.logpdf(scale * y) + np.log(scale), p.logpdf(y), rtol=1e-11)
        assert_allclose(scaled.cdf(scale * y), p.cdf(y), rtol=1e-11)
        assert_allclose(scaled.std / scale, p.std, rtol=1e-13)
        assert_allclose(scaled.ppf([0.01, 0.8]) / scale, p.ppf([0.01, 0.8]), rtol=1e-11)
        assert_allclose(np.array(scaled.interval()) / scale, p.interval(), rtol=1e-11)
        assert_allclose(scaled.rvs(3, 0) / scale, p.rvs(3, 0), rtol=1e-12)

    @pytest.mark.parametrize("student_t", [False, True])
    def test_a_shift_of_the_target_shifts(self, student_t: bool) -> None:
        p = predictive(student_t=student_t)
        shifted = one(MEAN + 64.0, EPISTEMIC_STD, 1.5, 6.0, student_t)
        y = np.array([-4.0, 0.25, 20.0])[:, np.newaxis]
        assert_array_equal(shifted.logpdf(y + 64.0), p.logpdf(y))
        assert_array_equal(shifted.cdf(y + 64.0), p.cdf(y))
        assert_allclose(shifted.ppf(0.1), p.ppf(0.1) + 64.0, rtol=1e-14)

    @pytest.mark.parametrize("ratio", [1e-300, 1e160, 1e300])
    def test_model_and_noise_of_very_different_size(self, ratio: float) -> None:
        p = one(np.zeros(1), np.array([ratio]), 1.0, 6.0, True)
        alone = stats.t(12, scale=np.sqrt(5 / 6)) if ratio < 1 else stats.norm(scale=ratio)
        y = p.std * np.array([-3.0, 1.0])
        assert_allclose(p.logpdf(y), alone.logpdf(y), rtol=1e-12)
        assert_allclose(p.cdf(y), alone.cdf(y), rtol=1e-11)
        assert_allclose(np.ravel(p.interval()), alone.interval(0.95), rtol=1e-11)


class TestErrors:
    @pytest.mark.parametrize("q", [0.0, 1.0, -0.5, 1.5, np.nan])
    def test_q_out_of_range(self, q: float) -> None:
        message = rf"The 'q' parameter of Mixture.ppf must be .* \(0.0, 1.0\). Got {q} inst"
        with pytest.raises(ValueError, match=message):
            predictive().ppf(q)
        with pytest.raises(ValueError, match=message):
            predictive().ppf([0.5, q])

    @pytest.mark.parametrize("coverage", [0.0, 1.0, 95.0])
    def test_coverage_out_of_range(self, coverage: float) -> None:
        message = rf"The 'coverage' parameter of Mixture.interval must .* Got {coverage} instead"
        with pytest.raises(ValueError, match=message):
            predictive().interval(coverage)
        with pytest.raises(ValueError, match=message):
            predictive().interval([0.5, coverage])

    @pytest.mark.parametrize(
        ("name", "value", "of"),
        [
            ("dof", 2.0, "dof"),
            ("dof", np.nan, "dof"),
            ("aleatoric_std", 0.0, "aleatoric_stds"),
            ("aleatoric_std", np.inf, "aleatoric_stds"),
        ],
    )
    def test_noise_out_of_range(self, name: str, value: float, of: str) -> None:
        noise: dict[str, Any] = {"aleatoric_std": 1.0, "dof": 12.0, name: value}
        with pytest.raises(ValueError, match=f"The '{of}' parameter of Mixture must .* Got "):
            Mixture.of_one(MEAN, EPISTEMIC_STD, **noise)

    def test_rows_do_not_fit(self) -> None:
        with pytest.raises(
            ValueError, match=r"same shape, .* Got shapes \(1, 4\) and \(1, 3\) instead"
        ):
            Mixture.of_one(MEAN, EPISTEMIC_STD[:3], 1.0)
        with pytest.raises(ValueError, match=r"'epistemic_stds' .* Got -3.0 instead"):
            Mixture.of_one(MEAN, np.array([0.0, -3.0, np.nan, 1.0]), 1.0)
