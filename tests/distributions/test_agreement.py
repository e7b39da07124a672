"""The distributions say what those of `probprop.predictive` say, while both exist."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from probprop.predictive import box_cox, classes, gaussian, heavy, mixture, transformed

from probprop.distributions.base import TargetDistribution
from probprop.distributions.classes import ClassMixture
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture

N, S = 40, 5
Q = np.array([1e-6, 0.025, 0.4, 0.9, 1.0 - 1e-6])


def members(scale: float = 1.0) -> tuple[np.ndarray, ...]:
    """Means and standard deviations, (S, N): members that agree in some rows, and not in others."""
    rng = np.random.RandomState(0)
    apart = np.repeat([0.0, 0.3, 1.0, 3.0], N // 4)
    means = scale * (5.0 + apart * rng.standard_normal((S, N)))
    return means, scale * rng.uniform(0.0, 2.0, (S, N)), scale * rng.uniform(0.2, 2.0, (S, N))


def pairs() -> dict[str, tuple[TargetDistribution, Any]]:
    """New and old distributions."""
    m, a, b = members()
    tails = np.array([0.0, 0.1, 1.0, 4.0, 8.0])
    heavies = tuple(heavy.Mixture(*x, t) for *x, t in zip(m, a, b, tails, strict=True))
    found: dict[str, tuple[TargetDistribution, Any]] = {
        "Gaussian": (Mixture.of_one(m[0], a[0], b[0]), gaussian.Mixture(m[0], a[0], b[0], 6.0)),
        "mixture": (Mixture(m, a, b), mixture.Mixture(m, a, b)),
        "heavy": (Mixture(m, a, b, tail=tails[:, np.newaxis]), heavy.Mixture(heavies)),
    }
    for alpha in (1.2, 6.0, 1e7):
        new = Mixture.of_one(m[0], a[0], b[0], dof=2.0 * alpha)
        found[f"alpha {alpha:g}"] = new, gaussian.Mixture(m[0], a[0], b[0], alpha, True)
    small = members(0.1)
    behind = Mixture(*small), mixture.Mixture(*small)
    for power in (0.0, 0.3):
        g = BoxCox(power, 3.0), box_cox.BoxCox(power, 3.0)
        old = transformed.TransformedMixture(behind[1], g[1])
        found[f"power {power:g}"] = TransformedMixture(behind[0], g[0]), old
    return found


@pytest.mark.parametrize("name", pairs())
def test_targets(name: str) -> None:
    new, old = pairs()[name]
    assert_allclose(new.mean, old.mean, rtol=1e-12)
    assert_allclose(new.epistemic_std, old.epistemic_std, rtol=1e-11)
    assert_allclose(new.aleatoric_std, old.aleatoric_std, rtol=1e-11)
    assert_allclose(new.std, old.std, rtol=1e-12)
    y = np.abs(old.mean + old.std * np.array([-30.0, -3.0, 0.1, 0.5, 12.0])[:, np.newaxis])
    assert_allclose(new.logpdf(y), old.logpdf(y), rtol=6e-11, atol=6e-11)
    assert_allclose(new.cdf(y), old.cdf(y), rtol=2e-12, atol=1e-300)
    assert_allclose(new.ppf(Q), old.quantile(Q), rtol=1e-9)
    assert_allclose(new.interval(0.9), old.interval(0.9), rtol=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("n_members", [1, 3])
def test_classes(n_outputs: int, n_members: int) -> None:
    rng = np.random.RandomState(0)
    shape = (n_members, N) if n_outputs == 1 else (n_members, N, n_outputs)
    mean, std = rng.standard_normal(shape), rng.uniform(0.1, 2.0, shape)
    log_p = np.log(rng.dirichlet(np.ones(max(2, n_outputs)), (n_members, N)))
    if n_outputs == 1:
        z = mean / np.hypot(1.0, std)
        log_p = np.log(0.5 * (1.0 + np.stack([-np.tanh(z), np.tanh(z)], axis=-1)))
    each = [classes.ClassMixture(*one) for one in zip(mean, std, log_p, strict=True)]
    old = each[0] if n_members == 1 else classes.ClassMixture(tuple(each))
    new = ClassMixture(mean, std, log_p)
    for name in ("mean", "std", "log_proba", "proba"):
        assert_allclose(getattr(new, name), getattr(old, name), rtol=1e-12)
    if n_outputs > 1:
        for name in ("entropy", "entropy_model", "entropy_noise"):
            assert_allclose(getattr(new, name), getattr(old, name), rtol=1e-10, atol=1e-14)
