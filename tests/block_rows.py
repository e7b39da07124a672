"""Rows in blocks, and networks small enough to be fitted on them often."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState

from probprop import Candidate, PBPRegressor, PBPRegressorCV
from probprop._types import Array
from probprop.data.scratch import Scratch
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


def interrupt(patch: pytest.MonkeyPatch, n: int, *, again: bool = False) -> None:
    """Press Ctrl-C when rows on disk are read for the nth time, and again after as many."""
    part, calls = Scratch.part, count(1)

    def interrupted(file: Scratch, *where: int) -> Any:
        call = next(calls)
        if call == n or (again and call % n == 0):
            raise KeyboardInterrupt
        return part(file, *where)

    patch.setattr(Scratch, "part", interrupted)


def small_cv(kind: Any = PBPRegressorCV, **changed: object) -> Any:
    """Return a cross-validation of two candidates."""
    both = [
        Candidate(hidden_layer_sizes=(8,), evidence_cap=10),
        Candidate(n_bins=8, hidden_layer_sizes=(8,), evidence_cap=10),
    ]
    return kind(**{"cv": 2, "candidates": both, "budget": "fast", "random_state": 0} | changed)


def weights(model: Any) -> list[bytes]:
    """Return the means of the weights of each network."""
    return [flat(member.posterior_.m_w).tobytes() for member in model.estimators_]


def same(q: Posterior, other: Posterior) -> bool:
    names = ("m_w", "v_w", "v_hat_nat")
    pairs = [(flat(getattr(q, k)), flat(getattr(other, k))) for k in names]
    pairs += [(q.alpha_noise, other.alpha_noise), (q.beta_noise, other.beta_noise)]
    return all(np.array_equal(a, b) for a, b in pairs)
