"""Moments in a network with one hidden layer and Gaussian weights: under q, and tilted.

The notation follows `ep_sites`; K hidden units, d inputs with the bias unit, n points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, owens_t

from probprop._types import FloatArray

BoolArray = NDArray[np.bool_]

_T = np.linspace(-7.0, 7.0, 81)  # quadrature nodes, in standard deviations of the cavity
_V_CAV_MAX = 1e6  # beyond it the cavity is rounding


@dataclass(frozen=True, eq=False)
class Gaussians:
    """The Gaussian part of q.

    Parameters
    ----------
    m_in : ndarray of shape (K, d)
    cov_in : ndarray of shape (K, d, d)
    m_out : ndarray of shape (K + 1,)
    cov_out : ndarray of shape (K + 1, K + 1)
    """

    m_in: FloatArray
    cov_in: FloatArray
    m_out: FloatArray
    cov_out: FloatArray

    @property
    def v_in(self) -> FloatArray:
        """Variances of the input weights, shape (K, d)."""
        v_in: FloatArray = np.einsum("kjj->kj", self.cov_in)
        return v_in

    @property
    def v_out(self) -> FloatArray:
        """Variances of the output weights, shape (K + 1,)."""
        v_out: FloatArray = np.diag(self.cov_out)
        return v_out


def phi_moments(m: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of Phi(h) for h ~ N(m, v).

    E[Phi^2] is the probability of a quadrant under two correlated normals, hence Owen's T.
    """
    t = m / np.sqrt(1.0 + v)
    variance = ndtr(t) * ndtr(-t) - 2.0 * owens_t(t, 1.0 / np.sqrt(1.0 + 2.0 * v))
    return ndtr(t), np.maximum(variance, 0.0)  # the rounding of a difference


def hidden_moments(q: Gaussians, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of every h under q, shapes (n, K)."""
    v_h = np.einsum("ni,kij,nj->nk", inputs, q.cov_in, inputs, optimize=True)
    return inputs @ q.m_in.T, v_h


def hidden_outputs(m_h: FloatArray, v_h: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of every g, bias unit included, shapes (n, K + 1)."""
    m_phi, v_phi = phi_moments(m_h, v_h)
    n, K = m_h.shape
    m_g = np.hstack([m_phi, np.ones((n, 1))]) / np.sqrt(K + 1)
    return m_g, np.hstack([v_phi, np.zeros((n, 1))]) / (K + 1)


def output_moments(q: Gaussians, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of f under q, shapes (n,); the units are independent under q."""
    m_g, v_g = hidden_outputs(*hidden_moments(q, inputs))
    v_f = np.einsum("ni,ij,nj->n", m_g, q.cov_out, m_g, optimize=True)
    return m_g @ q.m_out, v_f + v_g @ (q.m_out**2 + q.v_out)


def remove_site(
    m: FloatArray, v: FloatArray, precision: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Divide N(m, v) by sites, elementwise.

    Returns
    -------
    m_cav, v_cav : ndarray
        m and v where the cavity is rejected.
    accepted : ndarray of bool
        Where the precision of the cavity is above 0.
    """
    left = 1.0 - precision * v
    accepted = left > v / _V_CAV_MAX  # v_cav = v/left below the limit
    left = np.where(accepted, left, 1.0)
    m_cav: FloatArray = np.where(accepted, (m - v * shift) / left, m)
    return m_cav, v / left, accepted


@dataclass(frozen=True, eq=False)
class OutputCavity:
    """q(u) without the site of each point, as far as it is needed; rows are points.

    Parameters
    ----------
    m_out, v_out : ndarray of shape (n, K + 1)
        Means and variances of the output weights.
    cov_out_g : ndarray of shape (n, K + 1)
        Covariance of the output weights times m_g.
    accepted : ndarray of bool, shape (n,)
        Whether the cavity is proper; where it is not, q itself is given.
    """

    m_out: FloatArray
    v_out: FloatArray
    cov_out_g: FloatArray
    accepted: BoolArray


def tilted_hidden(
    y: FloatArray,
    noise_variance: FloatArray,
    m_cav: FloatArray,
    v_cav: FloatArray,
    cavity: OutputCavity,
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of every h under its cavity times the likelihood of its point.

    Given h_k, the output f is taken as the Gaussian with the moments that u and the other
    units give it, which is exact for one unit; h_k itself is integrated by the trapezoidal
    rule, whose error vanishes faster than any power for such integrands.

    Parameters
    ----------
    y, noise_variance : ndarray of shape (n,)
    m_cav, v_cav : ndarray of shape (n, K)
        Cavity moments of h.
    cavity : OutputCavity

    Returns
    -------
    m_tilted, v_tilted : ndarray of shape (n, K)
    """
    K = m_cav.shape[1]
    m_g, v_g = hidden_outputs(m_cav, v_cav)
    m_f = np.sum(m_g * cavity.m_out, axis=1)
    v_f_units = v_g * (cavity.m_out**2 + cavity.v_out)
    # What is left of Var[f] when g_k is at its mean, (n, K).
    v_rest = np.sum(m_g * cavity.cov_out_g + v_f_units, axis=1) + noise_variance
    v_rest = v_rest[:, None] - v_f_units[:, :K]

    h = m_cav[..., None] + np.sqrt(v_cav)[..., None] * _T  # (n, K, nodes)
    shift = ndtr(h) / np.sqrt(K + 1) - m_g[:, :K, None]  # g_k(h_k) - E[g_k]
    m_y = m_f[:, None, None] + shift * cavity.m_out[:, :K, None]
    v_y = v_rest[..., None] + shift * (
        2.0 * cavity.cov_out_g[:, :K, None] + shift * cavity.v_out[:, :K, None]
    )
    log_p = -0.5 * (_T**2 + np.log(v_y) + (y[:, None, None] - m_y) ** 2 / v_y)
    p = np.exp(log_p - log_p.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    # In units of the cavity, so that far means cost no digits of the variance.
    t = p @ _T
    m_tilted = m_cav + np.sqrt(v_cav) * t
    return m_tilted, v_cav * np.sum(p * (_T - t[..., None]) ** 2, axis=-1)
