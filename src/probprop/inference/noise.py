"""The noise network: initialization, training schedule, and the noise of samples.

Heteroscedastic noise has the variance exp(h(x))/gamma. A second, small network predicts
h; it is trained on the residuals of the network of the mean, which is trained as with constant
noise. The likelihood of a residual is `probprop.reference.likelihoods.SCALE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.inference.posterior import Memory, Posterior, initial_posterior
from probprop.inference.task import NoiseSchedule

_PRIOR = {"prior_shape": 6.0, "prior_rate": 3.0}  # variance 0.6; refined, it diverged
_NOISE = {"noise_shape": 2.0, "noise_rate": 1.0}  # a scale has no noise of its own
PASSES = 4.0
"""Evidence cap of the network of the noise in `fit`."""
FEW_ROWS = 100
"""With fewer rows than this per feature, of which three or more count as three, it is less, by the
square of their share: training residuals are too small to estimate the noise if
rows are few."""
_LEFT_ALONE = 1 / 8  # of the epochs of `fit`: the first residuals say little about the noise
FIRST_TAIL = 1.0
"""The tails of heavy noise, where they begin."""
LARGEST_LOG, LARGEST_VARIANCE = 20.0, 4.0
"""Bounds on the moments of h(x) in predictions. They limit extrapolation far from the data."""


def start_noise_network(
    sizes: Sequence[int], random_state: RandomState, dtype: np.dtype[Any]
) -> Posterior:
    """Return the noise network before any point: its head is zero, and so is h(x).

    The sizes of its layers begin with the features. The generator is left as it is, so that the
    network of the mean is the same without this one.
    """
    drawn = RandomState(deepcopy(random_state).randint(2**31))
    network = initial_posterior(sizes, **_NOISE, **_PRIOR, random_state=drawn, dtype=dtype)
    return replace(network, m_w=(*network.m_w[:-1], np.zeros_like(network.m_w[-1])))


def noise_schedule(
    n_iters: range, n_planned: int | None, evidence_cap: float | None, n_seen: int, n_features: int
) -> NoiseSchedule:
    """Return the schedule of the noise network for some epochs, counted from 1.

    If no number of epochs is planned, every residual counts in full, as in a stream, where a row is
    predicted before the update on it. `evidence_cap` is in passes over `n_seen` rows.
    """
    if n_planned is None:
        power = np.ones(len(n_iters))
    else:
        left_alone = int(_LEFT_ALONE * n_planned)
        passes = PASSES * min(1.0, n_seen / (FEW_ROWS * min(n_features, 3))) ** 2
        each = min(1.0, passes / (n_planned - left_alone))
        power = np.where(np.array(n_iters) > left_alone, each, 0.0)
    if evidence_cap is None or not power.any():
        return NoiseSchedule(power, None)
    # A point with power p is p points of evidence.
    capacity = evidence_cap * n_seen / float(power.max())
    return NoiseSchedule(power, Memory(capacity, **_NOISE))


def with_first_tails(posterior: Posterior, noise_prior: tuple[float, float]) -> Posterior:
    """Initialize the tails of the noise, and reset its level to the Gamma prior.

    With Gaussian noise, the level was learned from the outliers.
    """
    network, (shape, rate) = posterior.noise_network, noise_prior
    if network is not None:
        network = replace(network, tail=np.full_like(network.tail, FIRST_TAIL))
    return replace(
        posterior,
        alpha_noise=np.full_like(posterior.alpha_noise, shape),
        beta_noise=np.full_like(posterior.beta_noise, rate),
        tail=np.full_like(posterior.tail, FIRST_TAIL),
        noise_network=network,
    )


@dataclass(frozen=True, eq=False)
class LogScale:
    """h(x) of every row, a Gaussian: the noise variance is level * exp(h)."""

    mean: FloatArray  # (n,) or (n, K), moments of h
    variance: FloatArray

    @property
    def factor(self) -> FloatArray:
        """E[exp(h)]: the noise variance in units of the level, of the shape of the mean."""
        return np.exp(self.mean + 0.5 * self.variance)

    def bounded(
        self, low: float = -LARGEST_LOG, high: float = LARGEST_LOG, most: float = LARGEST_VARIANCE
    ) -> Self:
        """Return it with the mean from low to high, and the variance at most the largest."""
        mean = np.clip(np.asarray(self.mean, np.float64), low, high)
        variance = np.minimum(np.asarray(self.variance, np.float64), most)
        return type(self)(mean, variance)


class Noise(NamedTuple):
    """The noise of samples, standardized."""

    level: FloatArray  # (K,), E[1/gamma] of each target
    log_scale: LogScale  # of the noise network, with the tail
    varies: bool  # whether there is a noise network

    @classmethod
    def everywhere(cls, posterior: Posterior) -> Self:
        """Return homoscedastic noise."""
        return cls(posterior.noise_variance, LogScale(np.zeros(1), posterior.tail), varies=False)

    @classmethod
    def of_rows(cls, posterior: Posterior, m_log: Array, v_log: Array) -> Self:
        """Return the noise of rows by the moments, bounded, of the outputs of the noise network."""
        assert posterior.noise_network is not None
        h = LogScale(m_log, v_log).bounded()
        wider = LogScale(h.mean, h.variance + posterior.noise_network.tail)
        return cls(posterior.noise_variance, wider, varies=True)

    @property
    def variance(self) -> FloatArray:
        """E[exp(h)] times the level, that broadcasts to (n,) or (n, K)."""
        return self.level * self.log_scale.factor
