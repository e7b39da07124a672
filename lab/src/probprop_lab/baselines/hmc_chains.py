"""Plain Hamiltonian Monte Carlo on the model of `hmc_sampler`, for small networks and few rows.

The noise precision gamma is integrated out; given the weights it is Gamma, and is drawn after. The
chains move in u = sqrt(lambda) w and log lambda by a compiled leapfrog: with 29 rows and ten units
a gradient takes one to two microseconds, where a jax program for four chains takes eighty. They
share one step size and one diagonal mass, to which all of them contribute, so that a few hundred
steps of warm-up are enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from scipy.special import ndtr

from probprop._types import Array, FloatArray
from probprop_lab.baselines import _leapfrog
from probprop_lab.baselines.hmc_sampler import Draws, Hyperprior

# A quarter of the period of the prior's oscillator, N(0, I): its end does not depend on
# its start. After the whole period, 2 pi, it is back at the start.
_TRAJECTORY_LENGTH = np.pi / 2.0
_MAX_LEAPFROGS = 2000  # of a trajectory: where steps are tiny it is shorter, and as valid
_MAX_ENERGY_ERROR = 1000.0  # beyond it a trajectory has diverged
_FIRST_STEP = 0.1
_BLOCK_ENTRIES = 1 << 17  # activations of one layer held at a time, so that they stay in the cache


class Model(NamedTuple):
    """The arguments of the density."""

    X: FloatArray  # (n_features, n), standardized
    y: FloatArray  # (n,)
    hidden_layer_sizes: tuple[int, ...]
    hyperprior: tuple[float, float, float, float]  # in the order of `Hyperprior`
    activation: str

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shapes of the weights per layer, (n_out, n_in + 1)."""
        sizes = (len(self.X), *self.hidden_layer_sizes, 1)
        return [(n_out, n_in + 1) for n_in, n_out in pairwise(sizes)]


@dataclass(frozen=True, eq=False)
class Chains:
    """Where the chains are.

    Parameters
    ----------
    position : ndarray of shape (n_chains, n_parameters)
        u layer by layer, then log lambda.
    gradient : ndarray of shape (n_chains, n_parameters)
        Gradient of the potential.
    potential : ndarray of shape (n_chains,)
        -log p(y, u, log lambda), constants included.
    """

    position: FloatArray
    gradient: FloatArray
    potential: FloatArray


@dataclass(frozen=True)
class StepSize:
    """Dual averaging of the logarithm of the step size (Hoffman and Gelman, 2014, section 3.2).

    Parameters
    ----------
    start : float
        The step size that the search begins at; it is drawn to ten times that.
    n : int, default=0
        Steps made.
    error : float, default=0.0
        Running mean of target minus acceptance.
    log_mean : float, default=0.0
        Logarithm of the step size, averaged over the steps.
    """

    start: float
    n: int = 0
    error: float = 0.0
    log_mean: float = 0.0

    @property
    def current(self) -> float:
        """The step size to try next."""
        return self.start if self.n == 0 else float(np.exp(self._log_current))

    @property
    def mean(self) -> float:
        """The step size to keep."""
        return float(np.exp(self.log_mean))

    @property
    def _log_current(self) -> float:
        return float(np.log(10.0 * self.start) - np.sqrt(self.n) / 0.05 * self.error)

    def after(self, missing: float) -> StepSize:
        """Return the state after a step that accepted by `missing` less than the target."""
        n = self.n + 1
        new = replace(self, n=n, error=self.error + (missing - self.error) / (n + 10))
        log_mean = self.log_mean + n**-0.75 * (new._log_current - self.log_mean)
        return replace(new, log_mean=log_mean)


def sample_chains(
    X: FloatArray,
    y: FloatArray,
    random_state: RandomState,
    hyperprior: Hyperprior,
    target_accept: float,
    *,
    hidden_layer_sizes: tuple[int, ...],
    activation: str,
    n_warmup: int,
    n_draws: int,
    n_chains: int,
) -> Draws:
    """Draw from the posterior by trajectories of length pi/2.

    Parameters
    ----------
    X, y : ndarray of shape (n, n_features) and (n,)
        Standardized data.
    random_state : RandomState
    hyperprior : Hyperprior
    target_accept : float
        Acceptance probability, over the chains, that the step size is adapted to, in (0, 1).
    hidden_layer_sizes : tuple of int
    activation : {"relu", "probit"}
    n_warmup, n_draws : int
        Steps of each chain that adapt step size and mass, and draws kept after them.
    n_chains : int

    Returns
    -------
    Draws
        Its log density does not include the noise precision.
    """
    a, b, c, d = (float(value) for value in hyperprior)
    model = Model(np.ascontiguousarray(X.T), y, hidden_layer_sizes, (a, b, c, d), activation)
    chains = at(model, draw_starts(model, n_chains, random_state))
    chains, inverse_mass, step = _warm_up(model, chains, n_warmup, target_accept, random_state)
    positions, potentials, divergent = [], [], []
    for _ in range(n_draws):
        chains, error = advance(model, chains, inverse_mass, step, random_state)
        positions.append(chains.position)
        potentials.append(chains.potential)
        divergent.append(error > _MAX_ENERGY_ERROR)
    position = np.stack(positions, axis=1)  # (n_chains, n_draws, n_parameters)
    prior_precision = np.exp(position[..., -1])
    weights = layers(model, position[..., :-1] / np.sqrt(prior_precision)[..., np.newaxis])
    return Draws(
        weights,
        prior_precision,
        _draw_noise_precision(model, weights, random_state),
        log_density=-np.stack(potentials, axis=1),
        divergent=np.stack(divergent, axis=1),
    )


def at(model: Model, position: FloatArray) -> Chains:
    """Return chains at these positions, (n_chains, n_parameters)."""
    gradient, still = np.empty_like(position), np.zeros_like(position)
    potential = _move(model, position, still, gradient, still[0], 0.0, 0)
    return Chains(position, gradient, potential)


def advance(
    model: Model, chains: Chains, inverse_mass: FloatArray, step: float, random_state: RandomState
) -> tuple[Chains, FloatArray]:
    """Move every chain along a trajectory with a new momentum, or leave it where it is.

    Returns
    -------
    chains : Chains
    error : ndarray of shape (n_chains,)
        How much the energy grew: a trajectory is taken with probability exp(-error), or 1.
    """
    n_steps = int(min(np.ceil(_TRAJECTORY_LENGTH / step), _MAX_LEAPFROGS))
    shape = chains.position.shape
    momentum = random_state.standard_normal(shape) / np.sqrt(inverse_mass)
    energy = chains.potential + 0.5 * (momentum**2 @ inverse_mass)
    position, gradient = chains.position.copy(), chains.gradient.copy()
    potential = _move(model, position, momentum, gradient, inverse_mass, step, n_steps)
    with np.errstate(over="ignore", invalid="ignore"):  # a trajectory that diverged
        error = potential + 0.5 * (momentum**2 @ inverse_mass) - energy
    error = np.where(np.isfinite(error), error, np.inf)
    taken = random_state.uniform(size=shape[0]) < _acceptance(error)
    return Chains(
        np.where(taken[:, np.newaxis], position, chains.position),
        np.where(taken[:, np.newaxis], gradient, chains.gradient),
        np.where(taken, potential, chains.potential),
    ), error


def draw_starts(model: Model, n_chains: int, random_state: RandomState) -> FloatArray:
    """Draw positions: u from its prior, log lambda from the Gaussian at the mode of its prior."""
    n_weights = sum(n_out * n_in for n_out, n_in in model.shapes)
    position = random_state.standard_normal((n_chains, n_weights + 1))
    shape, rate, _, _ = model.hyperprior
    position[:, -1] = np.log(shape / rate) + position[:, -1] / np.sqrt(shape)
    return position


def layers(model: Model, weights: FloatArray) -> tuple[FloatArray, ...]:
    """Return the weights per layer, (..., n_out, n_in + 1), from (..., n_weights)."""
    ends = np.cumsum([n_out * n_in for n_out, n_in in model.shapes])[:-1]
    parts = np.split(weights, ends, axis=-1)
    return tuple(
        part.reshape(*part.shape[:-1], *shape)
        for part, shape in zip(parts, model.shapes, strict=True)
    )


def network_outputs(weights: tuple[FloatArray, ...], X: Array, activation: str) -> FloatArray:
    """Outputs of S networks, (S, n); weights are (S, n_out, n_in + 1) per layer."""
    widest = max(w.shape[-2] for w in weights)
    size = max(1, _BLOCK_ENTRIES // (widest * len(X)))
    blocks = [
        _outputs_of_block(tuple(w[i : i + size] for w in weights), X, activation)
        for i in range(0, len(weights[0]), size)
    ]
    return np.concatenate(blocks)


def _outputs_of_block(weights: tuple[FloatArray, ...], X: Array, activation: str) -> FloatArray:
    z: FloatArray = np.asarray(X, np.float64).T
    for layer, w in enumerate(weights):
        scaled = w / np.sqrt(w.shape[-1])  # [PBP15] section 2
        a = scaled[..., :-1] @ z
        a += scaled[..., -1:]
        if layer < len(weights) - 1:
            z = np.maximum(a, 0.0, out=a) if activation == "relu" else ndtr(a, out=a)
    outputs: FloatArray = a[:, 0]
    return outputs


def mass_windows(n_warmup: int) -> list[tuple[int, int]]:
    """Return the first step and the last, exclusive, of each window that gives a mass.

    The first tenth is the way to the posterior, the last fifth is for the step size alone. In
    between, every window is twice as long as the one before.

    Examples
    --------
    >>> mass_windows(500)
    [(50, 100), (100, 200), (200, 400)]
    >>> mass_windows(20)
    []
    """
    first, last = n_warmup // 10, n_warmup - n_warmup // 5
    length = (last - first) // 7
    if length < 5:  # too few steps to estimate a variance
        return []
    return list(pairwise([first, first + length, first + 3 * length, last]))


def _warm_up(
    model: Model, chains: Chains, n_warmup: int, target_accept: float, random_state: RandomState
) -> tuple[Chains, FloatArray, float]:
    """Adapt; return the chains, the diagonal of the inverse mass, and the step size."""
    inverse_mass = np.ones(chains.position.shape[1])
    step = StepSize(_FIRST_STEP)
    begins = {last: first for first, last in mass_windows(n_warmup)}
    visited = []
    for n in range(1, n_warmup + 1):
        chains, error = advance(model, chains, inverse_mass, step.current, random_state)
        step = step.after(target_accept - float(_acceptance(error).mean()))
        visited.append(chains.position)
        if n in begins:
            inverse_mass = _variances(np.array(visited[begins[n] :]))
            step = StepSize(step.mean)
    return chains, inverse_mass, step.mean


def _variances(positions: FloatArray) -> FloatArray:
    """Variances within the chains, (n_steps, n_chains, n_parameters), drawn to 0.001 as in Stan."""
    n = positions.shape[0] * positions.shape[1]
    variances: FloatArray = positions.var(axis=0, ddof=1).mean(axis=0)
    shrunk: FloatArray = (n * variances + 5.0 * 1e-3) / (n + 5.0)
    return shrunk


def _draw_noise_precision(
    model: Model, weights: tuple[FloatArray, ...], random_state: RandomState
) -> FloatArray:
    """Draw gamma given the weights, (n_chains, n_draws)."""
    chains = weights[0].shape[:2]
    flat = tuple(w.reshape(-1, *w.shape[2:]) for w in weights)
    outputs = network_outputs(flat, model.X.T, model.activation)
    _, _, shape, rate = model.hyperprior
    square = np.sum((outputs - model.y) ** 2, axis=1)
    drawn = random_state.gamma(shape + 0.5 * len(model.y), 1.0 / (rate + 0.5 * square))
    return np.asarray(drawn).reshape(chains)


def _acceptance(error: FloatArray) -> FloatArray:
    return np.exp(-np.maximum(error, 0.0))


def _move(
    model: Model,
    position: FloatArray,
    momentum: FloatArray,
    gradient: FloatArray,
    inverse_mass: FloatArray,
    step: float,
    n_steps: int,
) -> FloatArray:
    """Move chains in place, and return their potentials; without steps set the gradient only."""
    return _leapfrog.move(
        position,
        momentum,
        gradient,
        inverse_mass,
        step,
        n_steps,
        model.X,
        model.y,
        model.hidden_layer_sizes,
        model.hyperprior,
        model.activation != "relu",
    )
