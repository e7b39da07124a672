"""The metrics against closed forms, scipy, quadrature of their definitions; their properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, stats
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from probprop import BoxCox, TransformedMixture, metrics
from probprop.distributions.mixture import Mixture

RNG = np.random.RandomState(7)
Y, MEAN = RNG.standard_normal((2, 200)) * 10.0
STD = RNG.uniform(0.1, 20.0, 200)
LEVELS = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5]
LEVELS += [0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]

finite = st.floats(-1e6, 1e6)
positive = st.floats(1e-3, 1e6)
columns = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        arrays(float, n, elements=finite),
        arrays(float, n, elements=finite),
        arrays(float, n, elements=positive),
    )
)
Columns = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def predictive(student_t: bool = False, n: int = 300) -> Mixture:
    rng = np.random.RandomState(1)
    mean, epistemic_std = rng.standard_normal(n), rng.uniform(0.0, 1.0, n)
    return Mixture.of_one(mean, epistemic_std, 0.8, dof=5.0 if student_t else None)


def mixture(n: int = 300) -> Mixture:
    """Two components that are apart: nothing like a Gaussian."""
    means = np.random.RandomState(1).standard_normal(n) + np.array([[-3.0], [1.0]])
    return Mixture(means, np.zeros((2, n)), np.array([[0.5], [1.5]]))


def gaussian(mean: ArrayLike, std: ArrayLike) -> Mixture:
    return Mixture.of_one(mean, np.zeros_like(mean), std)


DISTRIBUTIONS = [predictive(), predictive(student_t=True), mixture()]


class TestAccuracy:
    def test_against_scikit_learn(self) -> None:
        assert metrics.rmse(Y, MEAN) == pytest.approx(root_mean_squared_error(Y, MEAN), rel=1e-14)
        found = metrics.summary(Y, gaussian(MEAN, STD))
        assert found["rmse"] == pytest.approx(root_mean_squared_error(Y, MEAN), rel=1e-14)
        assert found["mae"] == pytest.approx(mean_absolute_error(Y, MEAN), rel=1e-14)
        assert found["r2"] == pytest.approx(r2_score(Y, MEAN), rel=1e-12)

    def test_of_perfect_predictions_is_zero(self) -> None:
        assert metrics.rmse(Y, Y) == 0.0
        found = metrics.summary(Y, gaussian(Y, STD))
        assert (found["rmse"], found["mae"], found["r2"]) == (0.0, 0.0, 1.0)

    def test_r2_of_equal_targets_is_nan(self) -> None:
        assert math.isnan(metrics.summary(np.ones(200), gaussian(MEAN, STD))["r2"])

    @pytest.mark.parametrize("scale", [1e-200, 1e200])
    def test_rmse_where_squares_are_no_floats(self, scale: float) -> None:
        assert metrics.rmse([3 * scale, 0.0], [0.0, 4 * scale]) == pytest.approx(
            scale * math.sqrt(12.5), rel=1e-14
        )


class TestGaussians:
    """Means and standard deviations of any model are scored as a mixture of one."""

    def test_log_likelihood_against_scipy(self) -> None:
        expected = stats.norm.logpdf(Y, MEAN, STD).mean()
        found = metrics.summary(Y, gaussian(MEAN, STD))["log_likelihood"]
        assert found == pytest.approx(expected, rel=1e-13)

    @given(columns)
    def test_crps_lies_between_zero_and_the_absolute_error_plus_std(self, c: Columns) -> None:
        y, mean, std = c
        found = metrics.summary(y, gaussian(mean, std))
        assert 0.0 < found["crps"] <= (found["mae"] + 0.24 * std.mean()) * (1 + 1e-9)
        assert found["rmse"] >= found["mae"] * (1 - 1e-12)
        assert 0.0 <= found["calibration_error"] <= 0.5 + 1e-12

    @pytest.mark.parametrize("y", [-30.0, -1.0, 0.3, 2.0, 9.0])
    @pytest.mark.parametrize("std", [0.2, 1.0, 7.0])
    def test_crps_against_its_definition(self, y: float, std: float) -> None:
        found = metrics.summary([y], gaussian([2.0], [std]))["crps"]
        assert found == pytest.approx(crps_by_quadrature(y, 2.0, std), rel=1e-7)


def crps_by_quadrature(y: float, mean: float, std: float) -> float:
    """The definition: the integral of (F(t) - 1[t >= y])^2 over t, left and right of y."""
    normal = stats.norm(mean, std)
    low, high = min(y, mean) - 12 * std, max(y, mean) + 12 * std
    left = integrate.quad(lambda t: normal.cdf(t) ** 2, low, y, points=[mean], limit=200)[0]
    right = integrate.quad(lambda t: normal.sf(t) ** 2, y, high, points=[mean], limit=200)[0]
    return float(left + right)


class TestCoverage:
    def test_counts_the_ends(self) -> None:
        assert metrics.interval_coverage([0.0, 1.0, 1.5, -0.1], np.zeros(4), np.ones(4)) == 0.5

    def test_of_all_and_none(self) -> None:
        assert metrics.interval_coverage(Y, Y - 1, Y + 1) == 1.0
        assert metrics.interval_coverage(Y, Y + 1, Y + 2) == 0.0

    def test_refuses_crossed_ends(self) -> None:
        with pytest.raises(
            ValueError, match=r"lower must not be above upper. Got 5.0 and 1.0 in row 1"
        ):
            metrics.interval_coverage([0.0, 2.0], [0.0, 5.0], [1.0, 1.0])


class TestCalibration:
    def test_curve_against_the_intervals_of_scipy(self) -> None:
        expected, observed = metrics.predictive_coverage(Y, gaussian(MEAN, STD))
        assert_array_equal(expected, LEVELS)
        for level, share in zip(expected, observed, strict=True):
            assert share == metrics.interval_coverage(Y, *stats.norm.interval(level, MEAN, STD))

    def test_is_small_when_calibrated_and_large_when_not(self) -> None:
        rng = np.random.RandomState(0)
        std = rng.uniform(0.5, 3.0, 20_000)
        y = std * rng.standard_normal(20_000)
        assert metrics.summary(y, gaussian(np.zeros(20_000), std))["calibration_error"] < 0.01
        narrow = gaussian(np.zeros(20_000), std / 3)
        expected, observed = metrics.predictive_coverage(y, narrow)
        assert (observed < expected).all()
        assert metrics.summary(y, narrow)["calibration_error"] > 0.2

    def test_level_of_chance_is_as_documented(self) -> None:
        rng, standard = np.random.RandomState(0), gaussian(np.zeros(100), np.ones(100))
        errors = [
            metrics.summary(rng.standard_normal(100), standard)["calibration_error"]
            for _ in range(300)
        ]
        assert np.mean(errors) == pytest.approx(0.3 / math.sqrt(100), rel=0.2)

    @given(columns)
    def test_curve_never_falls(self, c: Columns) -> None:
        y, mean, std = c
        assert (np.diff(metrics.predictive_coverage(y, gaussian(mean, std))[1]) >= 0).all()

    @pytest.mark.parametrize("p", DISTRIBUTIONS)
    def test_of_a_predictive_against_its_own_intervals(self, p: Mixture) -> None:
        y = 1.3 * p.rvs(1, random_state=3)[0]
        expected, observed = metrics.predictive_coverage(y, p)
        assert_array_equal(expected, LEVELS)
        for level, share in zip(expected, observed, strict=True):
            assert share == metrics.interval_coverage(y, *p.interval(level))

    def test_the_default_levels_can_not_be_changed_by_a_caller(self) -> None:
        metrics.predictive_coverage([0.0] * 300, predictive())[0][:] = 0.5
        assert_array_equal(metrics.LEVELS, LEVELS)


class TestSummary:
    @pytest.mark.parametrize("p", DISTRIBUTIONS)
    def test_has_every_metric_of_the_distribution_itself(self, p: Mixture) -> None:
        y = p.rvs(1, random_state=3)[0]
        summary = metrics.summary(y, p)
        assert list(summary) == [
            *("rmse", "mae", "r2", "log_likelihood", "crps", "coverage_50", "coverage_80"),
            *("coverage_90", "coverage_95", "calibration_error", "sharpness"),
        ]
        assert all(type(value) is float for value in summary.values())
        assert summary["rmse"] == metrics.rmse(y, p.mean)
        assert summary["mae"] == pytest.approx(np.abs(y - p.mean).mean(), rel=1e-13)
        assert summary["r2"] == pytest.approx(r2_score(y, p.mean))
        assert summary["log_likelihood"] == pytest.approx(p.logpdf(y).mean())
        assert summary["crps"] == pytest.approx(p.crps(y).mean(), rel=1e-13)
        assert summary["sharpness"] == pytest.approx(p.std.mean())
        for percent in (50, 80, 90, 95):
            expected = metrics.interval_coverage(y, *p.interval(percent / 100))
            assert summary[f"coverage_{percent}"] == expected
        _, observed = metrics.predictive_coverage(y, p)
        assert summary["calibration_error"] == pytest.approx(np.abs(observed - LEVELS).mean())

    def test_crps_of_a_mixture_against_draws(self) -> None:
        p = mixture(3)
        y = p.mean + 2.0
        a, b = p.rvs(200_000, random_state=0), p.rvs(200_000, random_state=1)
        sampled = (np.abs(a - y).mean(axis=0) - 0.5 * np.abs(a - b).mean(axis=0)).mean()
        assert metrics.summary(y, p)["crps"] == pytest.approx(sampled, abs=0.01)
        assert abs(gaussian(p.mean, p.std).crps(y).mean() - sampled) > 0.05

    def test_targets_without_density_are_named_and_left_out_of_the_log_likelihood(self) -> None:
        p = TransformedMixture(predictive(), BoxCox(0.5, 2.0))
        y = p.rvs(1, random_state=0)[0]
        y[[3, 7]] = 0.0, -1.0
        rest = np.delete(np.arange(300), [3, 7])
        rest = rest[y[rest] > 0.0]
        some = 300 - len(rest)
        with pytest.warns(UserWarning, match=f"leaves out {some} rows .* density 0: "):
            found = metrics.summary(y, p)
        assert found["log_likelihood"] == pytest.approx(p.logpdf(y)[rest].mean())
        assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - p.mean) ** 2)))
        assert found["coverage_95"] == metrics.interval_coverage(y, *p.interval(0.95))
        assert np.isfinite(list(found.values())).all()
        with pytest.warns(UserWarning, match="leaves out 300 rows .*0, 1, 2, 3, 4 and 295 more"):
            assert np.isnan(metrics.summary(np.zeros(300), p)["log_likelihood"])

    def test_a_standard_deviation_of_zero_and_huge_moments_have_scores(self) -> None:
        z = Mixture.of_one([-9.0, 500.0, 500.0], [0.1, 9.0, 9.0], 0.8)
        p = TransformedMixture(z, BoxCox(0.5))
        assert p.std[0] == 0.0
        found = metrics.summary([0.5, 1.0, 2.0], p)
        assert np.isfinite(list(found.values())).all()
        huge = TransformedMixture(Mixture.of_one([900.0] * 3, [9.0] * 3, 1.0), BoxCox(0.0))
        found = metrics.summary([0.5, 1.0, 2.0], huge)
        assert np.isfinite([found[k] for k in ("rmse", "mae", "sharpness")]).all()
        assert found["crps"] == math.inf  # about e^900, beyond the largest float

    def test_refuses_targets_of_other_rows(self) -> None:
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[2, 300\]"):
            metrics.summary([1.0, 2.0], predictive())


class TestBadInput:
    """In scikit-learn's words."""

    def test_lengths(self) -> None:
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[3, 2\]"):
            metrics.rmse([1, 2, 3], [1, 2])
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[3, 3, 2\]"):
            metrics.interval_coverage([1, 2, 3], [1, 2, 3], [1, 2])

    def test_a_matrix_does_not_broadcast(self) -> None:
        assert metrics.rmse([[1], [2], [3]], [1, 2, 3]) == 0.0
        with pytest.raises(ValueError, match=r"1d array, got an array of shape \(3, 2\)"):
            metrics.rmse(np.ones((3, 2)), [1, 2, 3])

    def test_nothing_at_all(self) -> None:
        with pytest.raises(ValueError, match=r"Found array with 0 sample"):
            metrics.rmse([], [])

    @pytest.mark.parametrize(("bad", "word"), [(math.nan, "NaN"), (math.inf, "infinity")])
    def test_values_that_are_not_finite(self, bad: float, word: str) -> None:
        with pytest.raises(ValueError, match=f"Input mean contains {word}"):
            metrics.rmse([1, 2, 3], [1, bad, bad])

    def test_text(self) -> None:
        with pytest.raises(ValueError, match=r"could not convert .*'two'"):
            metrics.rmse(["1", "two"], [1, 2])
