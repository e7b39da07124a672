"""Posteriors before and after some training, and data of a sine for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import RandomState

from probprop.inference.posterior import Posterior, initial_posterior


def start(
    sizes: Sequence[int],
    seed: int | RandomState = 0,
    dtype: Any = "float64",
    n_noise: int | None = None,
    **gammas: Any,
) -> Posterior:
    """Return an untrained posterior: precisions are Gamma(6, 6) unless `gammas` differ.

    `n_noise` makes an array of the noise precision, one for each output.
    """
    noise = 6.0 if n_noise is None else np.full(n_noise, 6.0)
    usual = {"noise_shape": noise, "noise_rate": noise, "prior_shape": 6.0, "prior_rate": 6.0}
    random_state = RandomState(seed) if isinstance(seed, int) else seed
    given: dict[str, Any] = usual | gammas
    return initial_posterior(sizes, random_state=random_state, dtype=np.dtype(dtype), **given)


def trained(sizes: Sequence[int], seed: int, dtype: Any = "float64", **gammas: Any) -> Posterior:
    """Return a posterior as after some training: unequal variances."""
    random = RandomState(seed)
    q = start(sizes, random, dtype, **gammas)
    return replace(q, v_w=tuple(random.uniform(0.1, 1.5, v.shape).astype(dtype) for v in q.v_w))


def sine(n: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return samples of a sine of the sum of the features."""
    random = RandomState(seed)
    X = random.standard_normal((n, n_features))
    return X, np.sin(X.sum(axis=1)) + 0.1 * random.standard_normal(n)
