"""ClassMixture: the entropy of a label and its two parts, against draws and brute force."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import entr, log_ndtr
from scipy.stats import norm

from probprop.distributions.classes import (
    ClassMixture,
    binary_entropy,
    drawn_information,
    expected_binary_entropy,
    known_probabilities,
)
from probprop.inference.engine import ENGINES


def probit(mean: np.ndarray, std: np.ndarray, **options: bool) -> ClassMixture:
    z = mean / np.hypot(1.0, std)
    log_proba = log_ndtr(z if options else np.stack([-z, z], axis=1))
    return ClassMixture(mean[np.newaxis], std[np.newaxis], log_proba[np.newaxis], **options)


def multinomial(mean: np.ndarray, std: np.ndarray) -> ClassMixture:
    log_proba = ENGINES["native"].class_log_probabilities(mean, std**2)
    return ClassMixture(mean[np.newaxis], std[np.newaxis], log_proba[np.newaxis])


@pytest.mark.parametrize("std", [1e-6, 0.01, 0.3, 1.0, 7.0, 1e3, 1e5])
@pytest.mark.parametrize("mean", [0.0, 0.7, -4.0, 25.0, -300.0])
def test_expected_binary_entropy_against_a_fine_grid(mean: float, std: float) -> None:
    # A grid over where both factors are: the density within 12 std, the entropy within 40.
    low, high = max(mean - 12.0 * std, -40.0), min(mean + 12.0 * std, 40.0)
    f = np.linspace(low, max(low, high), 400_001)
    expected = np.trapezoid(binary_entropy(f) * norm.pdf(f, mean, std), f)
    got = expected_binary_entropy(np.array([mean]), np.array([std]))
    assert_allclose(got, expected, rtol=1e-8, atol=1e-14)


def test_entropy_in_the_tails() -> None:
    z = np.array([0.0, 3.0, -3.0, 30.0])
    q = norm.sf(np.abs(z))
    assert_allclose(binary_entropy(z)[:3], (entr(q) + entr(1.0 - q))[:3], rtol=1e-12)
    assert_allclose(binary_entropy(z)[3], q[3] * (1.0 - np.log(q[3])), rtol=1e-9)
    assert binary_entropy(np.array([1e10]))[0] == 0.0


def test_the_parts_of_a_probit() -> None:
    mean, std = np.array([0.0, 0.0, 0.0, 50.0]), np.array([1e-6, 1.0, 1e6, 0.1])
    predicted = probit(mean, std)
    assert_allclose(predicted.entropy[:3], np.log(2.0))
    assert_allclose(predicted.entropy_model + predicted.entropy_noise, predicted.entropy)
    # Known outputs: all is random. Unknown: nothing is. Far from 0: nothing is left to know.
    assert_allclose(predicted.entropy_model, [0.0, np.log(2.0) - 0.5, np.log(2.0), 0.0], atol=1e-5)
    assert (predicted.entropy_model >= 0.0).all()


def test_labels_are_probits_each() -> None:
    random = RandomState(0)
    mean, std = random.standard_normal((6, 4)), random.uniform(0.1, 3.0, (6, 4))
    labels = probit(mean, std, multilabel=True)
    assert labels.proba.shape == labels.entropy.shape == labels.entropy_noise.shape == (6, 4)
    for k in range(4):
        alone = probit(mean[:, k], std[:, k])
        assert_allclose(labels.proba[:, k], alone.proba[:, 1])
        assert_allclose(labels.entropy_model[:, k], alone.entropy_model)


def test_known_probabilities_are_those_without_variance() -> None:
    f = 3.0 * RandomState(0).standard_normal((50, 7))
    exact = np.exp(ENGINES["native"].class_log_probabilities(f, np.zeros_like(f)))
    assert_allclose(known_probabilities(f), exact, atol=1e-6)
    far = known_probabilities(np.array([1e8, 0.0, -1e8]))
    assert_array_equal(far, [1.0, 0.0, 0.0])


@pytest.mark.parametrize("K", [3, 6, 20])
@pytest.mark.parametrize("scale", [0.01, 0.5, 3.0, 100.0])
def test_information_against_many_draws(K: int, scale: float) -> None:
    random = RandomState(K)
    mean, std = 2.0 * random.standard_normal((1, K)), scale * random.uniform(0.5, 2.0, (1, K))
    f = mean + std * random.standard_normal((20_000, K))
    p = np.exp(ENGINES["native"].class_log_probabilities(f, np.zeros_like(f)))
    expected = entr(p.mean(axis=0)).sum() - entr(p).sum(axis=1).mean()
    assert_allclose(drawn_information(mean, std), expected, rtol=0.08)


def test_two_classes_as_a_multinomial_have_the_epistemic_uncertainty_of_the_probit() -> None:
    # The difference of two outputs with unit noise each is a probit scaled by sqrt(2).
    mean, std = np.array([[0.3, -0.5], [2.0, 0.0]]), np.array([[1.0, 2.0], [0.2, 0.1]])
    two = multinomial(mean, std)
    gap = (mean[:, 1] - mean[:, 0]) / np.sqrt(2.0)
    one = probit(gap, np.hypot(std[:, 0], std[:, 1]) / np.sqrt(2.0))
    assert_allclose(two.proba, one.proba, rtol=1e-9)
    assert_allclose(two.entropy, one.entropy, rtol=1e-9)
    assert_allclose(two.entropy_model, one.entropy_model, rtol=0.05)


def test_the_parts_of_a_multinomial() -> None:
    mean = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [90.0, 0.0, 0.0]])
    predicted = multinomial(mean, np.array([[1e-6] * 3, [1e4] * 3, [1.0] * 3]))
    assert_allclose(predicted.entropy, [np.log(3.0), np.log(3.0), 0.0], atol=1e-9)
    assert_allclose(predicted.entropy_model, [0.0, np.log(3.0), 0.0], atol=0.02)
    assert (predicted.entropy_model >= 0.0).all()
    assert (predicted.entropy_noise >= 0.0).all()


def test_a_row_does_not_depend_on_its_block() -> None:
    random = RandomState(1)
    mean, std = random.standard_normal((9, 4)), random.uniform(0.1, 3.0, (9, 4))
    n = 30  # of them fill more than a block
    many = drawn_information(np.tile(mean, (n, 1)), np.tile(std, (n, 1)))
    assert_allclose(many, np.tile(drawn_information(mean, std), n), rtol=1e-12)


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("multilabel", [False, True])
def test_impossible_classes_add_no_entropy(n_components: int, multilabel: bool) -> None:
    # Probabilities 0 and 1, and a network that is undecided between two of three classes.
    means = np.tile([[-1e100, 0.0, 0.0]], (n_components, 1, 1))
    log_p = np.array([-np.inf, math.log(0.5), math.log(0.5)])
    p = ClassMixture(
        means, np.full_like(means, 1e-9), np.tile(log_p, (n_components, 1, 1)), multilabel
    )
    expected = np.log([[1.0, 2.0, 2.0]]) if multilabel else np.log([2.0])
    assert_allclose(p.entropy, expected, atol=1e-12)
    assert_allclose(p.entropy_noise, expected, atol=1e-6)
    assert_allclose(p.entropy_model, np.zeros_like(expected), atol=1e-6)


@pytest.mark.parametrize("kind", ["two classes", "five classes", "labels"])
def test_a_network_twice_has_twice_the_weight(kind: str) -> None:
    random = RandomState(0)
    shape = (6,) if kind == "two classes" else (6, 5)
    options = {"multilabel": True} if kind == "labels" else {}
    of_one = multinomial if kind == "five classes" else partial(probit, **options)
    means, stds = random.standard_normal((3, *shape)), random.uniform(0.1, 2.0, (3, *shape))
    a, b, c = (of_one(mean, std) for mean, std in zip(means, stds, strict=True))
    p, twice = ClassMixture.of([a, b, c], [2.0, 1.0, 3.0]), ClassMixture.of([a, a, b, c, c, c])
    for name in ("mean", "std", "proba", "entropy", "entropy_noise", "entropy_model"):
        assert_allclose(getattr(p, name), getattr(twice, name), rtol=1e-10, atol=1e-13)
    nested = ClassMixture.of([ClassMixture.of([a, b], [2.0, 1.0]), c])
    assert_allclose(nested.weights, p.weights)
    assert_allclose(p[2:4].proba, p.proba[2:4])
    with pytest.raises(ValueError, match=r"'weights' must have one value .* per member, 3"):
        ClassMixture.of([a, b, c], [1.0, 1.0])
