"""Box-Cox transformations and the targets behind them: SciPy, quadrature, and draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad

from probprop.distributions.base import Moments
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture, box_cox_of, moments

POWERS = [0.0, 0.01, 0.25, 0.5, 1.0]
units = st.floats(1e-50, 1e50)


TWO = Mixture([[0.2, -0.5], [0.8, 0.1]], [[0.1, 0.4], [0.2, 0.0]], [[0.3], [0.5]])
SCALED: dict[str, Mixture] = {
    "Gaussian": Mixture.of_one([0.2, -0.5], [0.1, 0.4], 0.3),
    "Student-t": Mixture.of_one([0.2, -0.5], [0.1, 0.4], 0.3, dof=12.0),
    "mixture": TWO,
    "weighted": Mixture(TWO.means, TWO.epistemic_stds, TWO.aleatoric_stds, [0.8, 0.2]),
    "heavy": Mixture.of_one([0.2, 0.5], [0.1, 0.4], 0.3, tail=1.0),
    "heavy mixture": Mixture([[0.2, 0.5], [0.6, 0.5]], [[0.1, 0.4]] * 2, 0.3, tail=[[1.0], [2.0]]),
}
units = st.floats(1e-50, 1e50)
of_scaled = pytest.mark.parametrize("z", SCALED.values(), ids=list(SCALED))


class TestBoxCox:
    @settings(max_examples=60, deadline=None)
    @given(power=st.floats(0.0, 1.0), unit=st.floats(1e-100, 1e100), log_ratio=st.floats(-5.0, 5.0))
    def test_the_inverse_inverts_and_the_jacobian_is_the_slope(
        self, power: float, unit: float, log_ratio: float
    ) -> None:
        g, y = BoxCox(power, unit), unit * np.exp(log_ratio)
        assert_allclose(g.inverse(g.forward(y)), y, rtol=1e-10)
        step = 1e-5 * y
        slope = (g.forward(y + step) - g.forward(y - step)) / (2.0 * step)
        assert_allclose(np.log(slope), g.log_jacobian(y), rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("power", POWERS)
    def test_the_slope_matches_the_inverse(self, power: float) -> None:
        g, z, step = BoxCox(power, 3.0), np.linspace(-3.0, 3.0, 8), 1e-6
        expected = (g.inverse(z + step) - g.inverse(z - step)) / (2.0 * step)
        assert_allclose(g.slope(z), expected, rtol=1e-8)
        assert (g.slope(z)[:2] > 0.0).all() == (power < 0.3)  # else these lie below a target of 0

    def test_a_target_of_zero_and_what_lies_below(self) -> None:
        assert BoxCox(0.25).lowest == BoxCox(0.25).forward(0.0) == -4.0
        assert BoxCox(0.0).lowest == BoxCox(0.0).forward(0.0) == -np.inf
        assert_array_equal(BoxCox(0.25).inverse([-4.0, -9.0]), [0.0, 0.0])

    def test_the_geometric_mean_becomes_zero(self) -> None:
        y = 1e100 * np.array([1.0, 2.0, 7.0])
        g = box_cox_of(y, 0.0)
        assert_allclose(g.unit, stats.gmean(y))
        assert_allclose(g.forward(y).mean(), 0.0, atol=1e-13)

    @pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
    def test_targets_must_be_positive(self, bad: float) -> None:
        with pytest.raises(ValueError, match=f"targets above 0. Got {bad}, and 1 of 2"):
            box_cox_of(np.array([1.0, bad]), 0.5)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"power": -0.1}, r"'power' parameter of BoxCox .* \[0.0, 1.0\]. Got -0.1"),
            ({"power": np.nan}, "Got nan"),
            ({"power": 0.5, "unit": 0.0}, r"'unit' parameter of BoxCox .* Got 0.0"),
        ],
    )
    def test_what_it_refuses(self, given: dict[str, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            BoxCox(**given)


def by_quadrature(
    m: float, epistemic_std: float, aleatoric_std: float, g: BoxCox
) -> np.ndarray[Any, Any]:
    """Mean and standard deviations by two fine sums, one inside the other."""
    u, step = np.linspace(-9.0, 12.0, 400, retstep=True)
    v, fine = np.linspace(-9.0, 12.0, 4000, retstep=True)
    w, w_noise = step * stats.norm.pdf(u), fine * stats.norm.pdf(v)
    y = g.inverse(m + epistemic_std * u[:, np.newaxis] + aleatoric_std * v)
    first, second = y @ w_noise, y**2 @ w_noise
    mean = w @ first
    return np.array([mean, np.sqrt(w @ (first - mean) ** 2), np.sqrt(w @ (second - first**2))])


class TestMoments:
    @pytest.mark.parametrize("power", POWERS)
    @pytest.mark.parametrize(
        ("m", "epistemic_std", "aleatoric_std"),
        [(0.3, 0.2, 0.5), (-1.0, 0.7, 0.2), (-1.5, 0.5, 0.6)],
    )
    def test_against_nested_quadrature(
        self, power: float, m: float, epistemic_std: float, aleatoric_std: float
    ) -> None:
        g = BoxCox(power, 3.0)
        found = moments(Moments(*(np.array([a]) for a in (m, epistemic_std, aleatoric_std))), g)
        expected = by_quadrature(m, epistemic_std, aleatoric_std, g)
        # With much mass at 0 there is a kink, which costs digits.
        kinked = (g.lowest - m) / np.hypot(epistemic_std, aleatoric_std) > -4.0
        rtol = 1e-3 if kinked else 1e-7
        assert_allclose(np.ravel(found), expected, rtol=rtol)

    def test_of_the_log_normal_in_closed_form(self) -> None:
        m, a, b = np.array([[0.0, 5.0, -300.0], [0.2, 1.5, 3.0], [1e-4, 1.0, 2.0]])
        mean, epistemic_std, aleatoric_std = moments(Moments(m, a, b), BoxCox(0.0, 7.0))
        s2 = a**2 + b**2
        assert_allclose(mean, 7.0 * np.exp(m + s2 / 2), rtol=1e-9)
        assert_allclose(epistemic_std, mean * np.sqrt(np.expm1(a**2)), rtol=1e-5)
        assert_allclose(epistemic_std**2 + aleatoric_std**2, mean**2 * np.expm1(s2), rtol=1e-7)

    def test_what_is_beyond_floats_is_infinite_and_what_is_below_zero_is_zero(self) -> None:
        one = np.ones(2)
        for m, s in ((0.0, 30.0), (700.0, 10.0)):
            of = moments(Moments(m * one, s * one, one), BoxCox(0.0))
            assert_array_equal(of, np.full((3, 2), np.inf))
        below = moments(Moments(-50.0 * one, one, one), BoxCox(0.5))
        assert_allclose(below, np.zeros((3, 2)), atol=1e-100)

    def test_many_rows_are_rows_alone(self) -> None:
        rng = np.random.RandomState(0)
        m, a, b = rng.uniform(0.01, 2.0, (3, 2, 1500))
        of_all = moments(Moments(m, a, b), BoxCox(0.2))
        few = np.s_[:, ::300]
        for i, j in np.ndindex(m[few].shape):
            alone = moments(Moments(*(x[few][i : i + 1, j] for x in (m, a, b))), BoxCox(0.2))
            assert_allclose(np.ravel(alone), [x[few][i, j] for x in of_all], rtol=1e-6)


def spread(kind: str, m: float, s: float, share: float, tail: float) -> Mixture:
    """Components whose z has means near m and standard deviations of s or less."""
    means, stds = np.array([[m], [m - 0.3 * s], [m + 1.0]]), s * np.array([[1.0], [0.5], [0.1]])
    model, noise = np.sqrt(share) * stds, np.sqrt(1.0 - share) * stds
    if kind in ("Gaussian", "Student-t", "heavy"):
        means, model, noise = means[:1], model[:1], noise[:1]
    heavy, dof = (tail if "heavy" in kind else None), (12.0 if kind == "Student-t" else None)
    weights = [0.001, 0.5, 0.499] if kind == "weighted" else None
    return Mixture(means, model, noise, weights, heavy, dof)


class TestCap:
    """Mean and standard deviation are of the scale of the 99.99 % interval."""

    @of_scaled
    @settings(max_examples=25, deadline=None)
    @given(data=st.data())
    def test_moments_are_finite_and_within_the_interval(self, z: Mixture, data: Any) -> None:
        kind = next(name for name, one in SCALED.items() if one is z)
        m, s = data.draw(st.floats(-50.0, 50.0)), data.draw(st.floats(1e-3, 60.0))
        share, tail = data.draw(st.floats(0.0, 0.99)), data.draw(st.floats(0.0, 8.0))
        g = BoxCox(data.draw(st.sampled_from([*POWERS, 0.001, 0.1])), data.draw(units))
        p = TransformedMixture(spread(kind, m, s, share, tail), g)
        lower, upper = p.interval(0.9999)
        assert np.isfinite([p.mean, p.std, p.epistemic_std, p.aleatoric_std]).all()
        assert (p.mean * (1.0 - 1e-9) <= upper).all()
        assert (p.mean >= lower * (1.0 - 1e-6)).all()
        assert (p.std * (1.0 - 1e-9) <= upper - lower).all()
        assert_allclose(np.hypot(p.epistemic_std, p.aleatoric_std), p.std, rtol=1e-12)

    @pytest.mark.parametrize("s", [4.5, 8.5, 9.5, 30.0])
    def test_the_cap_of_a_log_normal_in_closed_form(self, s: float) -> None:
        a, b = 0.6 * s, 0.8 * s
        p = TransformedMixture(Mixture.of_one([1.0], [a], b), BoxCox(0.0, 7.0))
        c = stats.norm.isf(5e-5)
        low, high = 7.0 * np.exp(1.0 - c * s), 7.0 * np.exp(1.0 + c * s)
        assert_allclose(p.interval(0.9999), [[low], [high]], rtol=1e-9)
        assert_allclose(p.mean, min(high, 7.0 * np.exp(1.0 + 0.5 * s * s)), rtol=1e-9)
        assert_allclose(p.std, high - low, rtol=1e-12)
        exact = np.sqrt(np.expm1(a * a) / np.expm1(s * s)) if 38.0 * s < 330.0 else 0.6
        assert_allclose(p.epistemic_std / p.std, exact, rtol=1e-4, atol=1e-6)

    def test_of_a_mixture_the_widest_component_gives_the_ends(self) -> None:
        z = Mixture([[0.0], [0.0]], [[30.0], [0.1]], 0.1)
        p = TransformedMixture(z, BoxCox(0.0, 5.0))
        s, c = np.hypot(30.0, 0.1), stats.norm.isf(1e-4)
        assert_allclose(p.mean, 5.0 * np.exp(c * s), rtol=1e-9)
        assert_allclose(p.std, 5.0 * np.exp(c * s), rtol=1e-9)
        assert (p.mean < p.interval(0.9999)[1]).all()

    @pytest.mark.parametrize("n", [1, 3, 100, 101, 3_000])
    def test_any_number_of_components(self, n: int) -> None:
        rng = np.random.RandomState(0)
        z = Mixture(rng.standard_normal((n, 1)), np.zeros((n, 1)), rng.uniform(5.0, 9.0, (n, 1)))
        p = TransformedMixture(z, BoxCox(0.0))
        lower, upper = p.interval(0.9999)
        assert p.std <= upper - lower
        assert p.std > 1e-5 * upper

    def test_what_is_beyond_floats_has_large_moments(self) -> None:
        p = TransformedMixture(Mixture.of_one([800.0], [3.0], 4.0), BoxCox(0.0))
        assert np.isfinite([p.mean, p.std, p.epistemic_std, p.aleatoric_std]).all()
        assert (p.mean > 1e307).all()

    def test_a_component_of_weight_zero_counts_for_nothing(self) -> None:
        g, means, stds = BoxCox(0.0, 5.0), [[1.0], [0.0]], [[0.3], [40.0]]
        alone = TransformedMixture(Mixture(means[:1], stds[:1], 0.1), g)
        p = TransformedMixture(Mixture(means, stds, 0.1, [1.0, 0.0]), g)
        for name in ("mean", "epistemic_std", "aleatoric_std"):
            assert_allclose(getattr(p, name), getattr(alone, name), rtol=1e-12)

    def test_components_of_any_size(self) -> None:
        """One has infinite moments, another moments whose squares are beyond floats."""
        z = Mixture([[31.0], [15.8], [32.0]], np.zeros((3, 1)), [[50.75], [25.4], [5.1]])
        p = TransformedMixture(z, BoxCox(0.001, 107.0))
        lower, upper = p.interval(0.9999)
        assert (p.std <= upper - lower).all()
        assert (p.std > 1e-5 * upper).all()

    def test_a_row_has_the_moments_of_the_row_alone(self) -> None:
        m, s = np.repeat([-20.0, 0.0, 30.0], 4), np.tile([0.1, 3.0, 8.0, 20.0], 3)
        p = TransformedMixture(Mixture.of_one(m, 0.5 * s, s), BoxCox(0.0))
        for i in range(len(p)):
            for name in ("mean", "epistemic_std", "aleatoric_std"):
                assert_allclose(getattr(p[[i]], name), getattr(p, name)[[i]], rtol=1e-6)

    def test_unequal_weights(self) -> None:
        """A wide component of a small weight gives the ends as far as it is seen."""
        for weight in (0.3, 0.01, 1e-3, 1e-6):
            z = Mixture([[0.0], [0.0]], [[9.0], [0.1]], 0.1, [weight, 1.0 - weight])
            p = TransformedMixture(z, BoxCox(0.0))
            lower, upper = p.interval(0.9999)
            assert np.isfinite([p.mean, p.std]).all()
            assert p.mean <= upper * (1.0 + 1e-9)
            assert p.std <= (upper - lower) * (1.0 + 1e-9)

    def test_where_the_target_is_almost_surely_zero(self) -> None:
        p = TransformedMixture(Mixture.of_one([-9.0], [0.6], 0.8), BoxCox(0.5))
        assert_array_equal(p.interval(0.9999), [[0.0], [0.0]])
        assert_array_equal([p.mean, p.std, p.epistemic_std, p.aleatoric_std], np.zeros((4, 1)))


class TestDistribution:
    @of_scaled
    @pytest.mark.parametrize("power", [0.0, 0.4])
    def test_the_density_integrates_to_the_probability(self, z: Mixture, power: float) -> None:
        p = TransformedMixture(z, BoxCox(power, 2.0))
        for a, b in ((0.5, 1.0), (1.0, 6.0)):
            between = [
                quad(lambda y, i=i: np.exp(p.logpdf(y)[i]), a, b, epsabs=1e-9)[0] for i in (0, 1)
            ]
            assert_allclose(p.cdf(b) - p.cdf(a), between, rtol=1e-6)

    @of_scaled
    def test_quantiles_invert_the_distribution(self, z: Mixture) -> None:
        p = TransformedMixture(z, BoxCox(0.3, 2.0))
        q = np.array([0.01, 0.5, 0.9])
        assert_allclose(p.cdf(p.ppf(q)), np.broadcast_to(q[:, np.newaxis], (3, 2)), rtol=1e-8)
        assert_allclose(p.interval(0.8)[1], p.ppf(0.9))
        assert (p.interval(0.999999)[0] >= 0.0).all()

    @of_scaled
    @pytest.mark.parametrize("power", [0.0, 0.4])
    def test_draws(self, z: Mixture, power: float) -> None:
        p = TransformedMixture(z, BoxCox(power, 2.0))
        draws = p.rvs(200_000, random_state=0)
        assert_allclose((draws < p.ppf(0.2)).mean(axis=0), 0.2, atol=0.005)
        # With heavy tails the moments equal a Gaussian's, to the second order.
        is_heavy = z.tail is not None
        assert_allclose(draws.mean(axis=0), p.mean, rtol=0.03 if is_heavy else 0.005)
        if not is_heavy:
            assert_allclose(draws.std(axis=0), p.std, rtol=0.08)

    def test_the_parts_of_a_mixture_are_its_components_and_their_spread(self) -> None:
        z, g = SCALED["mixture"], BoxCox(0.0, 2.0)
        p = TransformedMixture(z, g)
        rng, shape = np.random.RandomState(0), (400_000, 2)
        which = rng.randint(2, size=shape), np.arange(2)
        f = z.means[which] + z.epistemic_stds[which] * rng.standard_normal(shape)
        given_f = 2.0 * np.exp(f + 0.5 * z.aleatoric_stds[which] ** 2)
        assert_allclose(p.epistemic_std, given_f.std(axis=0), rtol=0.01)
        assert_allclose(p.mean, given_f.mean(axis=0), rtol=0.01)

    def test_probability_below_the_support_is_at_zero(self) -> None:
        p = TransformedMixture(Mixture.of_one([-2.0], [0.6], 0.8), BoxCox(0.5))
        assert_allclose(p.cdf([-1.0, 0.0]), [0.0, 0.5])
        above = quad(lambda y: np.exp(p.logpdf(y)[0]), 0.0, 60.0, limit=200)[0]
        assert_allclose(above + p.cdf(0.0)[0], 1.0, rtol=1e-6)
        assert_array_equal(p.ppf([0.1, 0.45]), [[0.0], [0.0]])
        assert_array_equal(p.logpdf([-1.0, 0.0]), [-np.inf, -np.inf])
        assert_allclose((p.rvs(20_000, 0) == 0.0).mean(), 0.5, atol=0.02)
        log_normal = TransformedMixture(p.transformed, BoxCox(0.0))
        assert_array_equal(log_normal.cdf([-1.0, 0.0]), [0.0, 0.0])

    def test_missing_targets_have_no_density(self) -> None:
        p = TransformedMixture(SCALED["Gaussian"], BoxCox(0.5))
        assert np.isnan(p.logpdf(np.nan)).all()
        assert np.isnan(p.cdf(np.nan)).all()

    def test_with_power_one_nothing_changes(self) -> None:
        z = Mixture.of_one([5.0, 7.0], [0.1, 0.4], 0.3)
        p = TransformedMixture(z, BoxCox(1.0))
        for name in ("mean", "epistemic_std", "aleatoric_std"):
            shift = 1.0 if name == "mean" else 0.0
            assert_allclose(getattr(p, name), getattr(z, name) + shift, rtol=1e-7)
        assert_allclose(p.logpdf([6.1, 7.0]), z.logpdf([5.1, 6.0]))

    def test_words(self) -> None:
        p = TransformedMixture(SCALED["heavy"], BoxCox(1 / 3, 2.0))
        assert repr(p).startswith("TransformedMixture(n=2, mean from ")
        assert repr(p).endswith(", power=0.333)")
        assert repr(p[:0]) == "TransformedMixture(n=0, power=0.333)"
