"""The compiled leapfrog against jax, and the parts of plain HMC that surround it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

jax = pytest.importorskip("jax", reason="needs the extra 'baselines'")
pytest.importorskip("numpyro", reason="needs the extra 'baselines'")

import numpyro.distributions  # noqa: E402

from probprop_lab.baselines import _leapfrog, hmc_chains, hmc_sampler  # noqa: E402
from probprop_lab.baselines.hmc_sampler import Hyperprior, Position  # noqa: E402
from probprop_lab.baselines.jax_setup import double_precision  # noqa: E402


def model_of(hidden: tuple[int, ...], activation: str, n: int = 11) -> hmc_chains.Model:
    rng = np.random.RandomState(2)
    X, y = rng.standard_normal((3, n)), rng.standard_normal(n)
    return hmc_chains.Model(X, y, hidden, Hyperprior(3.0, 2.0, 0.7, 1.5), activation)


@pytest.mark.parametrize("activation", ["relu", "probit"])
@pytest.mark.parametrize("hidden", [(), (4,), (3, 2)])
def test_potential_and_gradient_against_jax(hidden: tuple[int, ...], activation: str) -> None:
    """For any gamma, p(y, u, lambda) = p(y, u, lambda, gamma) / p(gamma | y, u)."""
    model = model_of(hidden, activation)
    X, y, ones = model.X.T, model.y, np.ones(len(model.y))
    _, _, c, d = model.hyperprior

    def log_density(flat: Any, log_gamma: Any) -> Any:
        layers = hmc_chains.layers(model, flat[:-1])
        position = Position(layers, flat[-1], log_gamma)
        joint = hmc_sampler.log_density(position, X, y, ones, model.hyperprior, activation)
        f = hmc_sampler.forward(position.weights, X, activation)
        conditional = numpyro.distributions.Gamma(c + 0.5 * len(y), d + 0.5 * ((f - y) ** 2).sum())
        return joint - conditional.log_prob(jax.numpy.exp(log_gamma)) - log_gamma

    chains = hmc_chains.at(model, hmc_chains.draw_starts(model, 3, np.random.RandomState(0)))
    value_and_slope = jax.jit(jax.value_and_grad(log_density))  # compiled once, not op by op
    for chain in range(3):
        with double_precision():
            flat = jax.numpy.asarray(chains.position[chain])
            expected, slope = value_and_slope(flat, 0.7 * chain)
        assert_allclose(chains.potential[chain], -expected, rtol=1e-13)
        assert_allclose(chains.gradient[chain], -slope, rtol=1e-10, atol=1e-12)


def test_a_leapfrog_is_reversible_and_its_error_is_of_second_order() -> None:
    model = model_of((4,), "probit")
    starts = hmc_chains.draw_starts(model, 2, np.random.RandomState(0))
    start = hmc_chains.at(model, starts)
    first = np.random.RandomState(1).standard_normal(starts.shape)
    inverse_mass = np.linspace(0.5, 2.0, starts.shape[1])
    arguments = (model.X, model.y, model.hidden_layer_sizes, model.hyperprior, True)
    errors = []
    for n_steps in (16, 32):
        position, momentum = start.position.copy(), first.copy()
        gradient = start.gradient.copy()
        chains = position, momentum, gradient, inverse_mass, 0.8 / n_steps, n_steps
        potential = _leapfrog.move(*chains, *arguments)
        kinetic = 0.5 * (momentum**2 - first**2) @ inverse_mass
        errors.append(np.abs(potential + kinetic - start.potential))
        momentum *= -1.0
        _leapfrog.move(*chains, *arguments)
        assert_allclose(position, start.position, atol=1e-12)
        assert_allclose(momentum, -first, atol=1e-12)
    assert_allclose(errors[0] / errors[1], 4.0, rtol=0.1)


def test_a_trajectory_that_runs_away_is_not_taken() -> None:
    model = model_of((4,), "relu")
    start = hmc_chains.at(model, hmc_chains.draw_starts(model, 2, np.random.RandomState(0)))
    mass = np.ones(start.position.shape[1])
    end, error = hmc_chains.advance(model, start, mass, 1e3, np.random.RandomState(0))
    assert_array_equal(end.position, start.position)
    assert_array_equal(end.gradient, start.gradient)
    assert np.all(error > 1e3)


def test_the_starts_are_about_the_prior() -> None:
    model = model_of((4,), "relu")
    starts = hmc_chains.draw_starts(model, 2_000, np.random.RandomState(0))
    assert starts.shape == (2_000, 4 * 4 + 5 + 1)
    assert stats.kstest(starts[:, :-1].ravel(), stats.norm.cdf).pvalue > 1e-3
    gamma = stats.gamma(3.0, scale=1 / 2.0)
    assert_allclose(np.median(np.exp(starts[:, -1])), gamma.median(), rtol=0.2)


def test_the_step_size_finds_the_target() -> None:
    """Where steps of size e are accepted with probability exp(-e), 0.8 is at -log 0.8."""
    step = hmc_chains.StepSize(3.0)
    for _ in range(2_000):
        step = step.after(0.8 - np.exp(-step.current))
    assert step.mean == pytest.approx(-np.log(0.8), rel=0.05)


def test_shapes_that_do_not_fit_are_refused() -> None:
    model = model_of((4,), "relu")
    with pytest.raises(ValueError, match="the positions do not fit the network"):
        hmc_chains.at(model, np.zeros((2, 5)))
