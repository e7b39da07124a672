"""Rows in blocks, and networks small enough to be fitted on them often."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import RandomState

from probprop import PBPRegressor
from probprop._types import Array
from probprop.inference.posterior import Posterior, flat

Blocks = list[tuple[Array, Array]]


def made(n: int = 400, seed: int = 0) -> tuple[Array, Array]:
    random = RandomState(seed)
    X = random.standard_normal((n, 3))
    return X, X[:, 0] - 2.0 * np.abs(X[:, 1]) + 0.1 * random.standard_normal(n)


def cut(X: Any, y: Any, ends: list[int]) -> Blocks:
    begins, ends = [0, *ends], [*ends, len(y)]
    return [(X[a:b], y[a:b]) for a, b in zip(begins, ends, strict=True) if a < b]


def network(**parameters: Any) -> PBPRegressor:
    return PBPRegressor((10,), **({"n_epochs": 4, "random_state": 0} | parameters))


def same(q: Posterior, other: Posterior) -> bool:
    names = ("m_w", "v_w", "v_hat_nat")
    pairs = [(flat(getattr(q, k)), flat(getattr(other, k))) for k in names]
    pairs += [(q.alpha_noise, other.alpha_noise), (q.beta_noise, other.beta_noise)]
    return all(np.array_equal(a, b) for a, b in pairs)
