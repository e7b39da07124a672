"""What all predictive distributions do alike: rows, targets, frames, and noise of every row."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr

from probprop.distributions.base import FRAME_COLUMNS, TargetDistribution
from probprop.distributions.classes import ClassMixture
from probprop.distributions.functions import SampledNetwork, Sensitivity
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture
from probprop.distributions.recalibrated import Recalibrated, Recalibration, location_of
from probprop.inference.standardize import Standardizer

N, K, S = 6, 3, 4
Q = np.array([0.01, 0.5, 0.8])


def gaussian(*targets: int, student_t: bool = False, seed: int = 0) -> Mixture:
    """Noise, and the degrees of freedom, that differ in every row and target."""
    rng, shape = np.random.RandomState(seed), (N, *targets)
    alpha = rng.choice([2.5, 7.0, 300.0], shape)
    noise = rng.uniform(0.2, 3.0, shape)
    mean = 5.0 * rng.standard_normal(shape)
    dof = 2.0 * alpha if student_t else None
    return Mixture.of_one(mean, rng.uniform(0.0, 2.0, shape), noise, dof=dof)


def mixture(*targets: int, **noise: Any) -> Mixture:
    rng, shape = np.random.RandomState(1), (S, N, *targets)
    means = 5.0 * rng.standard_normal(shape)
    stds = rng.uniform(0.0, 2.0, shape), rng.uniform(0.2, 3.0, shape)
    return Mixture(means, *stds, **noise)


def transformed(*targets: int) -> TransformedMixture:
    of = mixture(*targets)
    small = Mixture(of.means / 20.0, of.epistemic_stds / 20.0, of.aleatoric_stds / 20.0)
    return TransformedMixture(small, BoxCox(0.3, 2.0))


def shaped() -> Recalibrated:
    p, rng = transformed(), np.random.RandomState(0)
    cells = location_of(p).mean(axis=0) + 0.1 * rng.standard_normal((3, 2))
    counts = rng.randint(0, 3, 40), rng.randint(60, 140, 40), np.ones(40)
    shape = Recalibration(np.zeros(2), np.ones(2), cells, *counts, 0.3, 0.2, 6.0, high=4.0)
    return shape.apply(p)


OF_TARGETS = [
    pytest.param(make, id=f"{name}, {label}")
    for label, targets in (("one target", ()), ("several", (K,)))
    for name, make in (
        ("Gaussian", gaussian(*targets)),
        ("Student-t", gaussian(*targets, student_t=True)),
        ("mixture", mixture(*targets)),
        ("weighted", mixture(*targets, weights=[0.1, 0.6, 0.3, 0.0])),
        ("heavy", mixture(*targets, tail=0.5)),
        ("transformed", transformed(*targets)),
    )
] + [pytest.param(shaped(), id="recalibrated")]


def classes(n_classes: int, seeds: tuple[int, ...] = (0,)) -> ClassMixture:
    """Rows of two classes, by one output, or of more."""
    members = []
    for seed in seeds:
        rng = np.random.RandomState(seed)
        shape = (1, N) if n_classes == 2 else (1, N, n_classes)
        mean, std = rng.standard_normal(shape), rng.uniform(0.1, 2.0, shape)
        z = mean / np.hypot(1.0, std)
        log_p = np.log(rng.dirichlet(np.ones(n_classes), (1, N)))
        if n_classes == 2:
            log_p = log_ndtr(np.stack([-z, z], axis=-1))
        members.append(ClassMixture(mean, std, log_p))
    return ClassMixture.of(members)


def labels(seeds: tuple[int, ...] = (0,)) -> ClassMixture:
    members = []
    for seed in seeds:
        rng = np.random.RandomState(seed)
        mean, std = rng.standard_normal((1, N, K)), rng.uniform(0.1, 2.0, (1, N, K))
        log_p = log_ndtr(mean / np.hypot(1.0, std))
        members.append(ClassMixture(mean, std, log_p, multilabel=True))
    return ClassMixture.of(members)


OF_CLASSES = [
    pytest.param(p, id=name)
    for name, p in (
        ("two", classes(2)),
        ("five", classes(5)),
        ("labels", labels()),
        ("mixture of two", classes(2, (0, 1))),
        ("mixture of five", classes(5, (0, 1))),
        ("mixture of labels", labels((0, 1))),
    )
]


def answers(p: TargetDistribution) -> dict[str, Any]:
    """Every array of a distribution that has its shape: moments, densities, quantiles."""
    y = np.full(p.mean.shape, 1.5)
    moments = ("mean", "std", "epistemic_std", "aleatoric_std", "var", "median")
    return {
        **{name: getattr(p, name) for name in moments},
        "pdf": p.pdf(y),
        "logpdf": p.logpdf(y),
        "cdf": p.cdf(y),
        "crps": p.crps(y),
        "ppf": p.ppf(Q)[2],
        "lower": p.interval(0.9)[0],
        "upper": p.interval([0.5, 0.9])[1][1],
    }


CHOICES = [
    slice(1, 4),
    slice(None, None, -2),
    np.array([True, False, True, True, False, False]),
    np.array([4, 0, 0]),
    [2, -1],
    [],
    3,
    np.int64(-1),
]


class TestRows:
    @pytest.mark.parametrize("rows", CHOICES, ids=str)
    @pytest.mark.parametrize("p", OF_TARGETS)
    def test_a_part_says_of_its_rows_what_the_whole_says(
        self, p: TargetDistribution, rows: Any
    ) -> None:
        part, kept = p[rows], np.atleast_1d(np.arange(N)[rows])
        assert type(part) is type(p)
        assert len(part) == len(kept)
        whole = answers(p)
        for name, found in answers(part).items():
            assert found.shape == part.mean.shape
            assert_allclose(found, whole[name][kept], rtol=1e-12, atol=1e-12, err_msg=name)

    @pytest.mark.parametrize("rows", CHOICES, ids=str)
    @pytest.mark.parametrize("p", OF_CLASSES)
    def test_so_does_one_of_classes(self, p: ClassMixture, rows: Any) -> None:
        part, kept = p[rows], np.atleast_1d(np.arange(N)[rows])
        assert type(part) is type(p)
        assert (len(part), part.multilabel) == (len(kept), p.multilabel)
        for name in ("mean", "std", "log_proba", "proba", "entropy", "entropy_model"):
            found, whole = getattr(part, name), getattr(p, name)
            assert_allclose(found, whole[kept], rtol=1e-12, atol=1e-15, err_msg=name)

    @pytest.mark.parametrize("p", [gaussian(), mixture(), classes(2)], ids=lambda p: type(p))
    def test_what_chooses_no_rows_is_refused(self, p: Any) -> None:
        for rows in (N, [0, -N - 1], np.ones(N - 1, bool), np.zeros((2, 2), int), 1.5):
            with pytest.raises(IndexError):
                p[rows]

    def test_rows_one_by_one(self) -> None:
        p = gaussian()
        assert [float(one.mean[0]) for one in p] == p.mean.tolist()  # type: ignore[attr-defined]

    def test_a_slice_is_a_view(self) -> None:
        p = gaussian(K)
        assert np.shares_memory(p[1:3].aleatoric_std, p.aleatoric_std)


class TestNoiseOfEveryRow:
    @pytest.mark.parametrize("p", OF_TARGETS)
    def test_the_shape_matches_the_mean(self, p: TargetDistribution) -> None:
        assert p.aleatoric_std.shape == p.epistemic_std.shape == p.mean.shape
        assert_allclose(p.var, p.epistemic_std**2 + p.aleatoric_std**2)
        assert_allclose(p.std**2, p.var)

    @pytest.mark.parametrize("student_t", [False, True])
    def test_every_row_is_the_distribution_of_its_own_numbers(self, student_t: bool) -> None:
        p = gaussian(student_t=student_t)
        for i in range(N):
            row = slice(i, i + 1)
            dof = None if p.dof is None else float(p.dof[0, i])
            noise = float(p.aleatoric_std[i])
            alone = Mixture.of_one(p.mean[row], p.epistemic_std[row], noise, dof=dof)
            for name, found in answers(p).items():
                assert_allclose(found[i], answers(alone)[name][0], rtol=1e-12, err_msg=name)

    def test_every_row_of_a_mixture_is_a_mixture_of_its_own_numbers(self) -> None:
        p = mixture()
        for i in range(N):
            row = slice(i, i + 1)
            alone = Mixture(p.means[:, row], p.epistemic_stds[:, row], p.aleatoric_stds[:, row])
            for name, found in answers(p).items():
                assert_allclose(found[i], answers(alone)[name][0], rtol=1e-12, err_msg=name)

    @pytest.mark.parametrize("p", OF_TARGETS)
    def test_samples_have_the_standard_deviation_of_their_row(self, p: TargetDistribution) -> None:
        draws = p.rvs(40_000, random_state=0)
        assert draws.shape == (40_000, *p.mean.shape)
        assert_allclose(draws.std(axis=0), p.std, rtol=0.06)  # alpha of 2.5: fourth moment large

    @pytest.mark.parametrize("shape", [(N,), (N, K)])
    def test_draws_do_not_depend_on_how_the_noise_is_given(self, shape: tuple[int, ...]) -> None:
        mean, std = np.zeros(shape), np.ones(shape)
        one = Mixture.of_one(mean, std, 2.0, dof=6.0)
        full = Mixture.of_one(mean, std, np.full(shape, 2.0), dof=np.full(shape, 6.0))
        assert_array_equal(one.rvs(7, 5), full.rvs(7, 5))
        rng = np.random.RandomState(5)
        noise = np.sqrt(2.0 / 3.0) * rng.standard_t(6.0, (7, *shape))
        assert_array_equal(one.rvs(7, 5), rng.standard_normal((7, *shape)) + 2.0 * noise)

    @pytest.mark.parametrize("noise", [2.0, [2.0], [2.0, 3.0, 4.0], np.full((N, 1), 2.0)])
    def test_what_broadcasts_is_held_without_a_copy(self, noise: Any) -> None:
        p = Mixture.of_one(np.zeros((N, K)), np.ones((N, K)), noise, dof=12.0)
        assert_array_equal(p.aleatoric_std, np.broadcast_to(noise, (N, K)))
        assert 0 in p.aleatoric_std.strides
        assert p.dof is not None
        assert p.dof.strides[1:] == (0, 0)
        given = np.full((N, K), 2.0)
        assert np.shares_memory(Mixture.of_one(p.mean, p.std, given).aleatoric_std, given)

    @pytest.mark.parametrize("shape", [(N,), (N, 1, 1), (K + 1,), (2, K)])
    def test_what_does_not_broadcast_is_refused(self, shape: tuple[int, ...]) -> None:
        zeros = np.zeros((N, K))
        with pytest.raises(ValueError, match=r"'aleatoric_stds' must be .* \(1, 6, 3\). Got"):
            Mixture.of_one(zeros, zeros, np.ones(shape))
        with pytest.raises(ValueError, match=r"'dof' must be .* \(1, 6, 3\). Got"):
            Mixture.of_one(zeros, zeros, 1.0, dof=np.full(shape, 6.0))

    @pytest.mark.parametrize("shape", [(), (S, 1, 1), (S, 1, K), (1, N, 1), (S, N, K)])
    def test_the_noise_of_components(self, shape: tuple[int, ...]) -> None:
        means = np.zeros((S, N, K))
        noise = np.random.RandomState(0).uniform(1.0, 2.0, shape)
        p = Mixture(means, means, noise)
        assert_array_equal(p.aleatoric_stds, np.broadcast_to(noise, means.shape))
        assert_allclose(p.aleatoric_std**2, (p.aleatoric_stds**2).mean(axis=0))

    @pytest.mark.parametrize("shape", [(S,), (K,), (S, K), (N, K), (S, 2, K), (2, 1, 1)])
    def test_the_noise_of_components_is_not_guessed(self, shape: tuple[int, ...]) -> None:
        means = np.zeros((S, N, K))
        with pytest.raises(ValueError, match=r"'aleatoric_stds' must be a float, .* instead"):
            Mixture(means, means, np.ones(shape))

    def test_members_are_mixed(self) -> None:
        members = [gaussian(K, seed=seed) for seed in range(S)]
        names = ("mean", "epistemic_std", "aleatoric_std")
        moments = [np.stack([getattr(one, k) for one in members]) for k in names]
        for weights in ([0.25] * S, [0.1, 0.2, 0.3, 0.4]):
            p = Mixture(*moments, weights)
            for k in ("pdf", "cdf"):
                each = [getattr(one, k)(1.0) for one in members]
                assert_allclose(getattr(p, k)(1.0), np.tensordot(weights, each, axes=1))

    @pytest.mark.parametrize("weights", [[1.0] * 3, [1.0, -1.0, 1.0, 1.0], [0.0] * S, [np.nan] * S])
    def test_weights_are_checked(self, weights: list[float]) -> None:
        with pytest.raises(ValueError, match=r"'weights' must have one value .* per member, 4"):
            mixture(weights=weights)


class TestTargets:
    @pytest.mark.parametrize(
        "p", [gaussian(K), gaussian(K, student_t=True), mixture(K), transformed(K)]
    )
    def test_each_is_a_distribution_of_its_own(self, p: TargetDistribution) -> None:
        each, whole = p.targets(), answers(p)
        assert [type(one) for one in each] == [type(p)] * K
        for k, one in enumerate(each):
            assert one.targets() == [one]
            for name, found in answers(one).items():
                assert_allclose(found, whole[name][:, k], rtol=1e-12, err_msg=name)


class TestFrames:
    @pytest.mark.parametrize("p", [gaussian(), mixture(), transformed()])
    def test_one_target(self, p: TargetDistribution) -> None:
        frame = p.to_frame(coverage=0.8)
        assert tuple(frame.columns) == FRAME_COLUMNS
        for name in FRAME_COLUMNS[:4]:
            assert_array_equal(frame[name], getattr(p, name))
        assert_array_equal(frame[["lower", "upper"]].to_numpy().T, p.interval(0.8))
        assert p.to_frame(["price"]).columns.equals(frame.columns)

    @pytest.mark.parametrize("p", [gaussian(K), mixture(K)])
    def test_several_targets(self, p: TargetDistribution) -> None:
        counted, named = p.to_frame(), p.to_frame(["a", "b", "c"])
        assert list(counted.columns[:7]) == [*(f"0_{k}" for k in FRAME_COLUMNS), "1_mean"]
        for k, name in enumerate("abc"):
            # A column alone may be summed in another order than all columns together.
            assert_allclose(named[f"{name}_aleatoric_std"], p.aleatoric_std[:, k], rtol=1e-15)
            assert_allclose(named[f"{name}_upper"], p.interval()[1][:, k], rtol=1e-14)
        with pytest.raises(ValueError, match=r"names must have one per target, 3. Got \['a'\]"):
            p.to_frame(["a"])

    @pytest.mark.parametrize("p", [classes(5), classes(5, (0, 1))])
    def test_classes(self, p: ClassMixture) -> None:
        names = np.array(["v", "w", "x", "y", "z"])
        frame = p.to_frame(names)
        assert list(frame.columns[:3]) == ["predicted_class", "p_v", "p_w"]
        assert_array_equal(frame["predicted_class"], names[p.proba.argmax(axis=1)])
        assert_array_equal(frame[[f"p_{name}" for name in names]], p.proba)
        for part in ("entropy", "entropy_model", "entropy_noise"):
            assert_array_equal(frame[part], getattr(p, part))
        assert_array_equal(p.to_frame()["predicted_class"], p.most_probable())
        assert "p_4" in p.to_frame()

    def test_labels(self) -> None:
        p = labels()
        frame = p.to_frame(["a", "b", "c"])
        assert len(frame.columns) == 4 * K
        assert_array_equal(frame[["p_a", "p_b", "p_c"]], p.proba)
        assert_array_equal(frame["entropy_model_b"], p.entropy_model[:, 1])
        assert_array_equal(p.most_probable(["a", "b", "c"]), p.proba > 0.5)


class TestRepr:
    def test_ranges_and_no_arrays(self) -> None:
        p = Mixture.of_one(np.linspace(51.2, 290.04, 42), np.full(42, 30.0), 40.0)
        words = "Mixture(n=42, mean from 51.2 to 290, std from 50 to 50, n_components="
        assert repr(p) == f"{words}1)"
        assert repr(replace(p, dof=12.0)) == f"{words}1, dof from 12 to 12)"
        two = Mixture(np.tile(p.mean, (2, 1)), np.full((2, 42), 30.0), 40.0)
        assert repr(two) == f"{words}2)"
        assert repr(gaussian(K)) == "Mixture(n=6, n_targets=3, n_components=1)"
        assert repr(p[:0]) == "Mixture(n=0, n_components=1)"

    def test_of_classes(self) -> None:
        half = np.log(np.full((1, 2, 2), 0.5))
        even = ClassMixture(np.zeros((1, 2)), np.ones((1, 2)), half)
        words = "n_classes=2, entropy from 0.693 to 0.693, n_components=1)"
        assert repr(even) == f"ClassMixture(n=2, {words}"
        assert repr(labels()).startswith("ClassMixture(n=6, n_labels=3, entropy from ")
        assert repr(even[:0]) == "ClassMixture(n=0, n_classes=2, n_components=1)"

    def test_of_networks_and_gradients(self) -> None:
        weights = tuple(np.ones(shape) for shape in ((7, 3), (3, 8), (1, 4)))
        scale = Standardizer(np.zeros(2), np.ones(2), np.zeros(1), np.ones(1))
        assert repr(SampledNetwork(weights, scale)) == "SampledNetwork(2-7-3-1)"
        moments, gradients = [np.ones(5)] * 3, [np.ones((5, 2))] * 3
        at = Sensitivity(*moments, *gradients)
        assert repr(at) == "Sensitivity(n=5, mean from 1 to 1, std from 1.41 to 1.41, n_features=2)"
        assert_allclose(at.dstd_dX, np.sqrt(2.0))


@pytest.mark.parametrize("p", [gaussian(K, student_t=True), mixture(), transformed(K)])
def test_pickles_and_copies_say_the_same(p: TargetDistribution) -> None:
    for again in (pickle.loads(pickle.dumps(p)), replace(p)):  # type: ignore[type-var]
        for name, found in answers(again).items():
            assert_array_equal(found, answers(p)[name], err_msg=name)
