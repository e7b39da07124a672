"""ReLU moments and derivatives against mpmath, for every implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from probprop import _kernel
from probprop._types import FloatArray
from probprop.reference.relu import ReluMoments, relu_moments

Implementation = Callable[[Any, Any], ReluMoments]
IMPLEMENTATIONS: dict[str, Implementation] = {
    "reference": relu_moments,
    "native": lambda m_a, v_a: ReluMoments(*_kernel.relu_moments(m_a, v_a)),
}

# Both sides of 0, of the switch at |t| = 2 and of the end of the normal range of phi.
T = np.unique(
    np.concatenate(
        [
            np.linspace(-60.0, 60.0, 97),
            np.linspace(-3.0, 3.0, 61),
            np.array([-40.0001, -39.9999, -38.7, -38.5, -30.01, -2.0000001, -1.9999999, -1e-8]),
            np.array([1e-300, 1e-8, 1.9999999, 2.0000001, 8.3, 30.01, 38.5, 38.7]),
        ]
    )
)
# In double precision, where the true value is above 1e-300.
TOLERANCE = 1e-12


def exact_moments(m_a: float, v_a: float) -> list[mpmath.mpf]:
    """The fields of ReluMoments by their definitions, to 50 digits."""
    with mpmath.workdps(60):
        m, v = mpmath.mpf(m_a), mpmath.mpf(v_a)
        s = mpmath.sqrt(v)
        t = m / s
        phi, Phi = mpmath.npdf(t), mpmath.erfc(-t / mpmath.sqrt(2)) / 2
        Phi_minus = mpmath.erfc(t / mpmath.sqrt(2)) / 2
        m_z = m * Phi + s * phi
        v_z = (m * m + v) * Phi + m * s * phi - m_z * m_z
        return [m_z, v_z, Phi, phi / (2 * s), 2 * m_z * Phi_minus, Phi - m_z * phi / s]


def relative_errors(got: ReluMoments, m_a: FloatArray, v_a: FloatArray, tiny: float) -> FloatArray:
    """Shape (n, 6); zero where the exact value is below `tiny`."""
    exact = [exact_moments(float(m), float(v)) for m, v in zip(m_a, v_a, strict=True)]
    return np.array(
        [
            [
                0.0 if abs(e) < tiny else float(abs(mpmath.mpf(float(g)) / e - 1))
                for g, e in zip(row_got, row_exact, strict=True)
            ]
            for row_got, row_exact in zip(np.transpose(got), exact, strict=True)
        ]
    )


@pytest.fixture(params=IMPLEMENTATIONS)
def moments(request: pytest.FixtureRequest) -> Implementation:
    return IMPLEMENTATIONS[request.param]


@pytest.mark.parametrize("v", [1.0, 0.37, 1e-20, 1e12])
def test_double_precision(moments: Implementation, v: float) -> None:
    v_a = np.full(T.shape, v)
    m_a = T * np.sqrt(v)
    worst = relative_errors(moments(m_a, v_a), m_a, v_a, tiny=1e-300).max(axis=0)
    assert dict(zip(ReluMoments._fields, worst, strict=True)) == {
        name: pytest.approx(0.0, abs=TOLERANCE) for name in ReluMoments._fields
    }


def test_single_precision_is_kept_and_accurate(moments: Implementation) -> None:
    t = T[np.abs(T) < 9.0]  # beyond, phi^2 leaves the range of float32
    v_a = np.full(t.shape, 0.37, np.float32)
    m_a = (t * np.sqrt(0.37)).astype(np.float32)
    got = moments(m_a, v_a)
    assert {field.dtype for field in got} == {np.dtype(np.float32)}
    assert relative_errors(got, m_a, v_a, tiny=1e-30).max() < 1e-5


def test_variance_is_never_negative_and_nothing_warns(moments: Implementation) -> None:
    rng = np.random.RandomState(0)
    m_a = rng.standard_normal(20_000) * 10.0 ** rng.uniform(-30, 30, 20_000)
    v_a = 10.0 ** rng.uniform(-60, 60, 20_000)
    with np.errstate(all="raise"):
        got = moments(m_a, v_a)
    assert all(np.isfinite(field).all() for field in got)
    assert (got.v_z >= 0.0).all()
    assert (got.m_z >= np.maximum(m_a, 0.0)).all()


def test_far_from_zero_the_unit_is_linear_or_dead(moments: Implementation) -> None:
    linear = moments(np.array([1e3]), np.array([2.0]))
    dead = moments(np.array([-1e3]), np.array([2.0]))
    assert [float(f[0]) for f in linear] == [1e3, 2.0, 1.0, 0.0, 0.0, 1.0]
    assert [float(f[0]) for f in dead] == [0.0] * 6
