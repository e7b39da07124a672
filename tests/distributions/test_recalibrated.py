"""Recalibrated distributions against brute force: their own integrals, draws, relearned ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import ndtri

from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture
from probprop.distributions.recalibrated import (
    PRIOR,
    SCORES,
    Recalibrated,
    location_of,
    recalibrated,
)

N = 400
FOLD = np.arange(N) % 5
KINDS = ["identity", "bounded", "root"]


def two_modes(
    kind: str = "identity", seed: int = 0
) -> tuple[Mixture | TransformedMixture, np.ndarray]:
    """Predictions that have the right moments, of targets with two modes."""
    rng = RandomState(seed)
    mean, std = rng.uniform(3.0, 9.0, N), rng.uniform(1.0, 1.5, N)
    p = Mixture.of_one(mean, 0.3 * std, np.sqrt(1.0 - 0.09) * std)
    y = mean + std * (np.where(rng.rand(N) < 0.5, 0.95, -0.95) + 0.3 * rng.standard_normal(N))
    if kind == "bounded":
        return p, np.maximum(y, 4.0)
    g = BoxCox(0.5, 2.0)
    return (p, y) if kind == "identity" else (TransformedMixture(p, g), g.inverse(y))


def learned(kind: str) -> tuple[Recalibrated, np.ndarray]:
    base, y = two_modes(kind)
    support = (4.0, np.inf) if kind == "bounded" else (-np.inf, np.inf)
    p = recalibrated(base, y, FOLD, support=support)
    assert p is not None
    return p.recalibration.apply(base[:5]), y


def grid(p: Recalibrated) -> np.ndarray:
    return np.linspace(p.ppf(1e-8).min(), p.ppf(1.0 - 1e-8).max(), 400_001)[:, np.newaxis]


@pytest.mark.parametrize("kind", KINDS)
class TestDistribution:
    def test_the_density_integrates_to_the_distribution_function(self, kind: str) -> None:
        p, _ = learned(kind)
        y = grid(p)
        mass = np.concatenate([np.zeros((1, 5)), stats_cumulative(p.pdf(y), y)])
        assert_allclose(p.cdf(y[0]) + mass, p.cdf(y), atol=2e-4)

    def test_quantiles_invert_it(self, kind: str) -> None:
        p, _ = learned(kind)
        q = np.array([1e-12, 1e-7, 0.01, 0.3, 0.5, 0.9, 1 - 1e-7])
        found, y = p.cdf(p.ppf(q)), p.ppf(q)
        inside = y > (0.0 if kind == "root" else p.recalibration.low)
        expected = np.broadcast_to(q[:, np.newaxis], found.shape)
        assert_allclose(found[inside], expected[inside], rtol=1e-9)
        assert (found >= expected * (1 - 1e-9)).all()  # a point has more
        lower, upper = p.interval([0.5, 0.9])
        assert_allclose(lower, p.ppf([0.25, 0.05]))
        assert_allclose(upper, p.ppf([0.75, 0.95]))

    def test_moments_and_crps_are_integrals(self, kind: str) -> None:
        p, y = learned(kind)
        t = grid(p)
        F, dt = p.cdf(t), float(t[1, 0] - t[0, 0])
        top = t[-1, 0]
        inside = F
        if kind == "root":  # moments of transformed targets end at normal scores of 3
            low, high = at_scores_of_3(p)
            inside = np.where(t < low, 0.0, np.where(t >= high, 1.0, F))
        mean = top - inside.sum(axis=0) * dt
        assert_allclose(p.mean, mean, rtol=1e-4)
        square = top**2 - 2.0 * (t * inside).sum(axis=0) * dt
        assert_allclose(p.std, np.sqrt(square - mean**2), rtol=2e-3)
        for at in (y[0], float(p.mean[1]), float(t[0, 0]) - 1.0, top + 1.0):
            direct = ((F - (t >= at)) ** 2).sum(axis=0) * dt
            beyond = max(t[0, 0] - at, 0.0) + max(at - top, 0.0)
            assert_allclose(p.crps(at), direct + beyond, rtol=1e-3)

    def test_draws_follow_it(self, kind: str) -> None:
        p, _ = learned(kind)
        draws = p.rvs(4_000, random_state=0)
        assert draws.shape == (4_000, 5)
        assert np.all(np.abs(draws.mean(axis=0) - p.mean) < 5.0 * p.std / np.sqrt(4_000))
        for row, one in zip(draws.T, range(5), strict=True):
            own = row[row > p.recalibration.low]
            u = p[one].cdf(own[:, np.newaxis])[:, 0]
            low = float(p[one].cdf(p.recalibration.low)[0])
            assert stats.kstest(u, "uniform", args=(low, 1.0 - low)).pvalue > 1e-4

    def test_it_has_two_modes_and_gains(self, kind: str) -> None:
        p, _ = learned(kind)
        base, new = two_modes(kind, seed=1)
        fresh = p.recalibration.apply(base)
        gain = np.mean(fresh.logpdf(new) - base.logpdf(new))
        assert gain > 0.2
        assert gain == pytest.approx(p.recalibration.gain, abs=0.1)
        assert np.mean(fresh.crps(new)) < np.mean(base.crps(new))
        shares = fresh.epistemic_std / fresh.std, fresh.aleatoric_std / fresh.std
        assert_allclose(np.hypot(*shares), 1.0)


def at_scores_of_3(p: Recalibrated) -> list[np.ndarray]:
    """Targets with normal scores of -3 and 3, from the definition of a score."""
    assert isinstance(p.base, TransformedMixture)
    dof = p.recalibration.dof
    e = stats.t.ppf(stats.norm.cdf(3.0), dof) * np.sqrt((dof - 2.0) / dof)
    m, log_s = location_of(p.base).T
    return [p.base.transformation.inverse(m + sign * e * np.exp(log_s)) for sign in (-1.0, 1.0)]


def test_moments_of_strongly_transformed_targets_weigh_likely_values() -> None:
    """A tail beyond the samples, under the sixth power, once gave a mean of 20 times the 97.5 %."""
    rng = RandomState(0)
    z, g = rng.normal(10.0, 1.0, 2_000), BoxCox(0.15, 10.0)
    y = g.inverse(z + 0.5 * stats.t.rvs(2.5, size=2_000, random_state=rng))
    base = TransformedMixture(Mixture.of_one(z, np.full(2_000, 0.1), np.full(2_000, 0.9)), g)
    p = recalibrated(base, y, np.arange(2_000) % 5)
    assert p is not None
    assert p.recalibration.dof == 3.0
    fresh = p.recalibration.apply(base)
    assert np.all(fresh.mean < fresh.ppf(0.9))
    assert np.all(fresh.std < fresh.ppf(0.999) - fresh.median)
    assert np.sqrt(np.mean((fresh.mean - y) ** 2)) < 1.2 * np.std(y)


def stats_cumulative(density: np.ndarray, y: np.ndarray) -> np.ndarray:
    steps = np.diff(y, axis=0)
    return np.cumsum(0.5 * (density[1:] + density[:-1]) * steps, axis=0)


def test_the_masses_match_the_kernel_density() -> None:
    """Without cells and bins, as the equation has it."""
    base, y = two_modes()
    p = recalibrated(base, y, FOLD)
    assert p is not None
    shape = p.recalibration
    t = stats.t(shape.dof, scale=np.sqrt((shape.dof - 2.0) / shape.dof))
    z = ndtri(t.cdf((y - base.mean) / base.std))
    x = (location_of(base) - shape.center) / shape.scale
    found = shape.masses(location_of(base)[:20])
    distance = ((x[:20, np.newaxis] - x) ** 2).sum(axis=2)
    w = np.exp(-0.5 * distance / shape.width**2)
    below = stats.norm.cdf((SCORES[:, np.newaxis] - z) / shape.bandwidth)
    G = (w @ below.T + PRIOR * stats.norm.cdf(SCORES)) / (w.sum(axis=1) + PRIOR)[:, np.newaxis]
    assert_allclose(np.cumsum(found, axis=1)[:, :-1], G, atol=0.02)


def test_the_fold_of_a_sample_is_left_out_of_its_distribution() -> None:
    base, y = two_modes()
    p = recalibrated(base, y, FOLD)
    assert p is not None
    shape, other = p.recalibration, FOLD[7] != FOLD
    t = stats.t(shape.dof, scale=np.sqrt((shape.dof - 2.0) / shape.dof))
    bins = np.searchsorted(SCORES, ndtri(t.cdf((y - base.mean) / base.std)))
    x = (location_of(base) - shape.center) / shape.scale
    cell = ((x[:, np.newaxis] - shape.cells) ** 2).sum(axis=2).argmin(axis=1)
    ones = np.ones(other.sum())
    without = replace(shape, cell=cell[other], bin=bins[other], count=ones).apply(base[7])
    assert_allclose(p[7].logpdf(y[7]), without.logpdf(y[7]), rtol=1e-9)


def test_copies_in_a_fold_do_not_teach_one_another() -> None:
    base, _ = two_modes()
    y, copies = base.rvs(1, random_state=0)[0], np.repeat(np.arange(N), 3)
    assert recalibrated(base[copies], y[copies], FOLD[copies]) is None


def test_what_has_its_shape_already_is_left_alone() -> None:
    base, _ = two_modes()
    assert recalibrated(base, base.rvs(1, random_state=0)[0], FOLD) is None
    few, y = two_modes()
    assert recalibrated(few[:50], y[:50], FOLD[:50]) is None


def test_weights_count_like_copies() -> None:
    base, y = two_modes()
    w = np.where(np.arange(N) < 100, 3.0, 1.0)
    rows = np.repeat(np.arange(N), w.astype(int))
    one, copies = recalibrated(base, y, FOLD, w), recalibrated(base[rows], y[rows], FOLD[rows])
    assert one is not None
    assert copies is not None
    assert one.recalibration.dof == copies.recalibration.dof


class TestSupport:
    def test_mass_outside_moves_to_the_ends(self) -> None:
        rng = RandomState(0)
        mean = rng.uniform(-1.0, 1.0, 300)
        base = Mixture.of_one(mean, np.zeros(300), np.ones(300))
        y = np.clip(mean + rng.standard_normal(300), 0.0, 1.0)
        p = recalibrated(base, y, FOLD[:300], support=(0.0, 1.0))
        assert p is not None
        assert (p.ppf(0.01) == 0.0).any()
        assert (p.cdf(-1e-9) == 0.0).all()
        assert (p.cdf(1.0) == 1.0).all()
        assert (p.cdf(0.0) > 0.0).all()
        assert_array_equal(p.logpdf(-0.1), np.full(300, -np.inf))
        assert np.isfinite(p.logpdf(y)).all()
        assert ((p.mean >= 0.0) & (p.mean <= 1.0)).all()
        assert np.mean(p.crps(y)) < np.mean(base.crps(y))
        draws = p.rvs(100, random_state=0)
        assert ((draws >= 0.0) & (draws <= 1.0)).all()

    @pytest.mark.parametrize("learned", [True, False])
    def test_far_below_the_end_intervals_keep_their_width(self, learned: bool) -> None:
        n = 400 if learned else 60
        rng = RandomState(0)
        mean = rng.uniform(-1.0, 3.0, n)
        base = Mixture.of_one(mean, np.zeros(n), np.ones(n))
        y = np.maximum(mean + rng.standard_normal(n), 0.0)
        p = recalibrated(base, y, FOLD[: len(y)], support=(0.0, np.inf), enforce=True)
        assert p is not None
        assert (len(p.recalibration.cells) > 0) == learned
        far = p.recalibration.apply(Mixture.of_one([-1.0, -5.0, -1e3], np.zeros(3), np.ones(3)))
        lower, upper = far.interval(0.95)
        assert (lower == 0.0).all()
        assert (upper > 0.5).all()
        assert (far.std > 0.1).all()
        for each in (far.mean, far.std, upper):  # whatever the distance
            assert_allclose(each[1:], each[0])

    def test_without_a_learned_shape(self) -> None:
        rng = RandomState(0)
        base = Mixture.of_one(rng.uniform(0.0, 3.0, 60), np.zeros(60), 1.0)
        y = np.abs(base.rvs(1, random_state=1)[0])
        p = recalibrated(base, y, FOLD[: len(y)], support=(0.0, np.inf), enforce=True)
        assert p is not None
        assert len(p.recalibration.cells) == 0
        assert "support [0, inf)" in repr(p)
        far = replace(p.recalibration, low=-np.inf).apply(base)
        assert_allclose(far.mean, base.mean, rtol=1e-6)
        assert_allclose(far.std, base.std, rtol=5e-3)

    def test_a_support_that_costs_nothing_changes_nothing(self) -> None:
        base, _ = two_modes()
        assert recalibrated(base, base.rvs(1, 0)[0], FOLD, support=(-50.0, np.inf)) is None
