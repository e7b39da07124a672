"""Derivatives by finite differences, and how far from them a gradient may be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from probprop._types import FloatArray


def differences(
    f: Callable[[FloatArray], FloatArray], X: FloatArray, steps: FloatArray
) -> FloatArray:
    """Central differences of f, (n,), by each column of X, extrapolated: (n, D)."""

    def slope(step: FloatArray) -> FloatArray:
        return (f(X + step) - f(X - step)) / (2.0 * step.sum())

    columns = np.diag(steps)
    return np.stack([(4.0 * slope(0.5 * c) - slope(c)) / 3.0 for c in columns], axis=1)


def assert_gradient(got: FloatArray, expected: FloatArray, rtol: float) -> None:
    """An entry may cross zero: the largest of its column is the scale."""
    assert (np.abs(got - expected) <= rtol * np.abs(expected).max(axis=0)).all(), (got, expected)
