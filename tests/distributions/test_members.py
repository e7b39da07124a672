"""Mixtures of several members against scipy, mpmath, Monte Carlo, and a single member."""

from __future__ import annotations

import tracemalloc

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from probprop.distributions.mixture import Mixture

Q = np.array([1e-12, 0.025, 0.3, 0.5, 0.8, 1 - 1e-9])


def make(n_components: int = 7, n: int = 4, scale: float = 1.0, seed: int = 0) -> Mixture:
    """Components that are apart in some rows and alike in others; some have a model part."""
    rng = np.random.RandomState(seed)
    spread = np.array([0.0, 0.3, 3.0, 40.0])[:n]
    means = 5.0 + spread * rng.standard_normal((n_components, n))
    epistemic_stds = rng.uniform(0.0, 2.0, (n_components, n)) * (rng.uniform(size=n) < 0.7)
    aleatoric_stds = rng.uniform(0.2, 2.0, (n_components, 1))
    return Mixture(scale * means, scale * epistemic_stds, scale * aleatoric_stds)


def components(p: Mixture) -> stats.norm:
    """Return every component as scipy has it, shape (S, 1, n)."""
    std = np.sqrt(p.epistemic_stds**2 + p.aleatoric_stds**2)
    return stats.norm(p.means[:, np.newaxis], std[:, np.newaxis])


def targets(p: Mixture) -> np.ndarray:
    return p.mean + p.std * np.array([-20.0, -2.0, 0.0, 0.4, 5.0])[:, np.newaxis]


class TestMoments:
    def test_the_variances_of_the_components_and_of_their_means_add(self) -> None:
        p = make()
        assert_allclose(p.mean, p.means.mean(axis=0), rtol=1e-15)
        model = (p.epistemic_stds**2).mean(axis=0) + p.means.var(axis=0)
        assert_allclose(p.epistemic_std**2, model)
        assert_allclose(p.aleatoric_std**2, np.full(4, np.mean(p.aleatoric_stds**2)))
        assert p.aleatoric_std.shape == (4,)
        assert_allclose(p.std**2, p.var)
        assert_allclose(p.var, p.epistemic_std**2 + p.aleatoric_std**2)

    def test_samples_have_the_moments_and_follow_the_cdf(self) -> None:
        p = make()
        draws = p.rvs(40_000, random_state=0)
        assert draws.shape == (40_000, 4)
        error = p.std / np.sqrt(40_000)
        assert np.all(np.abs(draws.mean(axis=0) - p.mean) < 4 * error)
        assert_allclose(draws.std(axis=0), p.std, rtol=0.02)
        assert_allclose(np.corrcoef(draws.T), np.eye(4), atol=0.02)
        for row in p.cdf(draws[:5_000]).T:
            assert stats.kstest(row, "uniform").pvalue > 1e-3

    def test_the_same_seed_gives_the_same_draws(self) -> None:
        p = make()
        assert_array_equal(p.rvs(5, 3), p.rvs(5, np.random.RandomState(3)))
        assert np.all(p.rvs(5, 3) != p.rvs(5, 4))


class TestWeights:
    def test_against_a_brute_force_mixture_of_scipy(self) -> None:
        equal, w = make(), np.array([0.3, 0.05, 0.0, 0.2, 0.25, 0.1, 0.1])
        p = Mixture(equal.means, equal.epistemic_stds, equal.aleatoric_stds, 7.0 * w)
        y, members = targets(p), components(p)
        assert_allclose(p.weights, w)
        assert_allclose(p.mean, w @ p.means)
        assert_allclose(p.aleatoric_std**2, w @ p.aleatoric_stds**2)
        assert_allclose(p.var, w @ (members.std()[:, 0] ** 2 + (p.means - p.mean) ** 2))
        assert_allclose(p.cdf(y), np.tensordot(w, members.cdf(y), 1), rtol=1e-12)
        assert_allclose(p.pdf(y), np.tensordot(w, members.pdf(y), 1), rtol=1e-12)
        assert_allclose(p.cdf(p.ppf(Q)), np.broadcast_to(Q[:, np.newaxis], (6, 4)), rtol=1e-9)
        lower, upper = p.interval(0.8)
        assert_allclose(p.cdf(upper) - p.cdf(lower), 0.8)
        grid = p.mean + p.std * np.linspace(-30.0, 30.0, 400_001)[:, np.newaxis]
        error = (np.tensordot(w, members.cdf(grid), 1) - (grid >= y[3])) ** 2
        assert_allclose(p.crps(y[3]), np.trapezoid(error, grid, axis=0), rtol=1e-3)
        draws = p.rvs(40_000, random_state=0)
        assert np.all(np.abs(draws.mean(axis=0) - p.mean) < 4 * p.std / 200.0)

    def test_a_member_twice_has_twice_the_weight(self) -> None:
        once = make(3)
        at = [0, 0, 1, 2, 2, 2]
        p = Mixture(once.means, once.epistemic_stds, once.aleatoric_stds, [2.0, 1.0, 3.0])
        twice = Mixture(once.means[at], once.epistemic_stds[at], once.aleatoric_stds[at])
        y = targets(p)
        for name in ("mean", "std", "epistemic_std", "aleatoric_std", "median"):
            assert_allclose(getattr(p, name), getattr(twice, name), rtol=1e-13)
        for name in ("logpdf", "cdf", "crps"):
            assert_allclose(getattr(p, name)(y), getattr(twice, name)(y), rtol=1e-12)


class TestDistribution:
    def test_density_and_cdf_are_the_averages_of_scipy(self) -> None:
        p = make()
        y = targets(p)
        assert_allclose(p.cdf(y), components(p).cdf(y).mean(axis=0), rtol=1e-12)
        assert_allclose(np.exp(p.logpdf(y)), components(p).pdf(y).mean(axis=0), rtol=1e-12)

    def test_the_log_density_of_an_outlier(self) -> None:
        """Where the density itself is below all floats; mpmath has more exponents."""
        p = Mixture(
            np.array([[0.0], [1.0], [-3.0]]), np.zeros((3, 1)), np.array([[1.0], [0.5], [1.01]])
        )
        mpmath.mp.dps = 40
        for y in (-80.0, 60.0, 1e4):
            exact = mpmath.log(
                mpmath.fsum(
                    mpmath.npdf(y, float(m), float(s))
                    for m, s in zip(p.means[:, 0], p.aleatoric_stds[:, 0], strict=True)
                )
                / 3
            )
            assert_allclose(p.logpdf(y), [float(exact)], rtol=1e-14)

    def test_one_component_is_the_gaussian(self) -> None:
        p = make(n_components=1)
        gaussian = stats.norm(p.means[0], np.hypot(p.epistemic_stds[0], p.aleatoric_stds[0]))
        y = targets(p)
        assert_allclose(p.logpdf(y), gaussian.logpdf(y), rtol=1e-13)
        assert_allclose(p.cdf(y), gaussian.cdf(y), rtol=1e-13)
        assert_allclose(p.ppf(Q), gaussian.ppf(Q[:, np.newaxis]), rtol=1e-12)
        assert_allclose(p.interval(0.8), gaussian.interval(0.8), rtol=1e-12)

    @pytest.mark.parametrize("y", [3.0, [3.0], [1.0, 2.0, 3.0, 4.0], [[1.0], [2.0]]])
    def test_shapes_broadcast(self, y: object) -> None:
        p = make()
        shape = np.broadcast_shapes(np.shape(y), (4,))
        assert p.logpdf(y).shape == p.cdf(y).shape == shape

    def test_many_components_need_little_memory(self) -> None:
        rng = np.random.RandomState(0)
        means = rng.standard_normal((3_000, 1_000))  # 24 MB
        p = Mixture(means, np.broadcast_to(0.0, means.shape), rng.uniform(0.1, 1.0, (3_000, 1)))
        tracemalloc.start()
        p.logpdf(means[0])
        p.cdf(means[0])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < means.nbytes

    @pytest.mark.parametrize("scale", [1e-200, 1e200])
    def test_targets_whose_squares_are_not_floats(self, scale: float) -> None:
        p, unit = make(scale=scale), make()
        y = targets(unit)
        assert_allclose(p.std / scale, unit.std, rtol=1e-13)
        assert_allclose(p.logpdf(scale * y), unit.logpdf(y) - np.log(scale), rtol=1e-12)
        assert_allclose(p.ppf(Q) / scale, unit.ppf(Q), rtol=1e-11)

    def test_an_outlier_beyond_all_floats_has_density_zero(self) -> None:
        assert_array_equal(make().logpdf(1e200), np.full(4, -np.inf))
        assert_array_equal(make().cdf([[-1e200], [np.inf]]), [[0.0] * 4, [1.0] * 4])


class TestQuantiles:
    def test_they_invert_the_cdf_in_both_tails(self) -> None:
        p = make()
        y = p.ppf(Q)
        assert y.shape == (len(Q), 4)
        assert_allclose(p.cdf(y)[:3], np.tile(Q[:3, np.newaxis], 4), rtol=1e-10)
        above = components(p).sf(y).mean(axis=0)
        assert_allclose(above[3:], np.tile(1.0 - Q[3:, np.newaxis], 4), rtol=1e-10)

    @settings(max_examples=30, deadline=None)
    @given(
        n_components=st.integers(1, 12),
        seed=st.integers(0, 1000),
        q=st.floats(1e-9, 1 - 1e-9),
    )
    def test_any_mixture(self, n_components: int, seed: int, q: float) -> None:
        p = make(n_components, seed=seed)
        assert_allclose(p.cdf(p.ppf(q)), np.full(4, q), rtol=1e-9)

    def test_components_that_hardly_overlap(self) -> None:
        p = Mixture(np.array([[0.0], [1e6]]), np.zeros((2, 1)), np.array([[1e-3], [1.0]]))
        # Half the probability is at each: the quantiles are either one's.
        assert_allclose(p.ppf(0.25), [0.0], atol=1e-7)
        assert_allclose(p.ppf(0.75), [1e6], rtol=1e-12)

    def test_an_interval_is_two_quantiles(self) -> None:
        p = make()
        lower, upper = p.interval(0.8)
        assert_allclose([lower, upper], p.ppf([0.1, 0.9]), rtol=1e-12)
        assert p.ppf([[0.1, 0.2, 0.3]]).shape == (1, 3, 4)


class TestValidation:
    @pytest.mark.parametrize(
        ("means", "epistemic_stds", "aleatoric_stds", "match"),
        [
            (np.zeros(3), np.zeros(3), np.ones(3), r"same shape, .* shapes \(3,\) and \(3,\)"),
            (np.zeros((2, 3)), np.zeros((3, 2)), np.ones(2), r"\(2, 3\) and \(3, 2\) instead"),
            (
                np.zeros((2, 3)),
                np.zeros((2, 3)),
                np.ones(3),
                r"one per member and target, \(.*\). Got",
            ),
            (np.zeros((0, 3)), np.zeros((0, 3)), np.ones(0), "with one member or more"),
            (
                np.zeros((1, 1)),
                -np.ones((1, 1)),
                np.ones((1, 1)),
                r"\[0.0, inf\). Got -1.0 instead",
            ),
            (
                np.zeros((1, 1)),
                np.zeros((1, 1)),
                np.zeros((1, 1)),
                r"\(0.0, inf\). Got 0.0 instead",
            ),
            (np.zeros((1, 1)), np.zeros((1, 1)), np.array([[np.nan]]), "Got nan instead"),
        ],
    )
    def test_shapes_and_ranges(
        self, means: np.ndarray, epistemic_stds: np.ndarray, aleatoric_stds: np.ndarray, match: str
    ) -> None:
        with pytest.raises(ValueError, match=match):
            Mixture(means, epistemic_stds, aleatoric_stds)

    @pytest.mark.parametrize("bad", [0.0, 1.0, np.nan])
    def test_probabilities(self, bad: float) -> None:
        with pytest.raises(ValueError, match=r"'q' parameter of Mixture.ppf must be"):
            make().ppf([0.5, bad])
        with pytest.raises(ValueError, match=r"'coverage' parameter of Mixture.interval must be"):
            make().interval(bad)
