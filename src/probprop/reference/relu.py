"""Moments of a rectified Gaussian and their derivatives.

With a ~ N(m_a, v_a), s = sqrt(v_a) and t = m_a/s, [PBP15] Eqs. (15) and (16) are the
mean and the variance of z = max(a, 0). Written with Phi they lose all their digits in
the tails, so they are written here with three positive integrals of x = abs(t),

    I_n(x) = integral over u > 0 of u^n exp(-u^2/2 - x u),   n = 0, 1, 2,

of which I_0 is the Mills ratio Phi(-x)/phi(x). Only phi carries the exponential decay.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx

from probprop._types import Array

# Below this x the closed forms lose little (relative error of I_2 9e-15); above it so
# many levels of the continued fraction are as good (6e-15 at x = 2; 3e-12 with 40).
_X_FRACTION = 2.0
_N_LEVELS = 60

# phi(x) is zero in double precision beyond 38.6, so larger x need no tail functions.
_X_MAX = 40.0


class ReluMoments(NamedTuple):
    """Moments of z = max(a, 0), a ~ N(m_a, v_a), and their derivatives.

    Every field has the shape and the dtype of m_a.
    """

    m_z: Array
    v_z: Array
    dm_z_dm: Array
    dm_z_dv: Array
    dv_z_dm: Array
    dv_z_dv: Array


def relu_moments(m_a: Array, v_a: Array) -> ReluMoments:
    """Mean and variance of a rectified Gaussian, [PBP15] Eqs. (15) and (16), with v_a > 0.

    The four derivatives are what S(11) to S(14) reduce to.
    """
    with np.errstate(under="ignore"):
        s = np.sqrt(v_a)
        t = m_a / s
        x = np.minimum(np.abs(t), _X_MAX)
        I_0, I_1, I_2 = _tail_integrals(x)
        phi = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        active = t > 0.0

        tail = phi * I_0  # Phi(-|t|)
        Phi = np.where(active, 1.0 - tail, tail)
        Phi_minus = np.where(active, tail, 1.0 - tail)

        # Differs from [PBP15] Eqs. (15), (16): the same functions, but without phi/Phi,
        # which needs a separate branch for t < -30, and without cancellation.
        excess = phi * I_1  # E[max(0, -|t| - u)], u ~ N(0, 1)
        m_z = np.maximum(m_a, 0.0) + s * excess
        v_z = v_a * np.where(
            active,
            1.0 - phi * I_2 - 2.0 * x * excess - excess * excess,
            phi * I_2 - excess * excess,
        )

        return ReluMoments(
            m_z=m_z,
            v_z=v_z,
            dm_z_dm=Phi,
            dm_z_dv=0.5 * phi / s,
            dv_z_dm=2.0 * m_z * Phi_minus,
            dv_z_dv=Phi - m_z * phi / s,
        )


def _tail_integrals(x: Array) -> tuple[Array, Array, Array]:
    """I_0, I_1 and I_2 of the module's docstring, for 0 <= x <= 40."""
    near = _tail_integrals_near(x)
    far = _tail_integrals_far(x)
    I_0, I_1, I_2 = (np.where(x < _X_FRACTION, a, b) for a, b in zip(near, far, strict=True))
    return I_0, I_1, I_2


def _tail_integrals_near(x: Array) -> tuple[Array, Array, Array]:
    """By the scaled complementary error function; loses digits as x grows."""
    I_0 = math.sqrt(math.pi / 2.0) * erfcx(x / math.sqrt(2.0))
    return I_0, 1.0 - x * I_0, (x * x + 1.0) * I_0 - x


def _tail_integrals_far(x: Array) -> tuple[Array, Array, Array]:
    """By a continued fraction; converges the faster the larger x.

    Integration by parts gives n I_{n-1} = I_{n+1} + x I_n, so the ratios
    rho_n = I_n/I_{n-1} satisfy rho_n = n/(x + rho_{n+1}). The recurrence is run
    backwards from a large n, where rho_n is near (sqrt(x^2 + 4n - 2) - x)/2.
    """
    rho = 0.5 * (np.sqrt(x * x + 4.0 * _N_LEVELS + 2.0) - x)
    for n in range(_N_LEVELS, 2, -1):
        rho = n / (x + rho)
    rho_2 = 2.0 / (x + rho)
    rho_1 = 1.0 / (x + rho_2)
    I_0 = 1.0 / (x + rho_1)
    I_1 = rho_1 * I_0
    return I_0, I_1, rho_2 * I_1
