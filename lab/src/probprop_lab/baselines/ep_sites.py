"""Expectation propagation in a network with one hidden layer: the sites and their updates.

The network of the posterior, with inputs x that are scaled and hold the bias unit:

    h_k = w_k . x,   g = [Phi(h_1), ..., Phi(h_K), 1] / sqrt(K + 1),   f = u . g,
    y = f + noise,   noise precision gamma, prior precision lambda of all weights w and u.

Its approximation is q(w_1) ... q(w_K) q(u) q(gamma) q(lambda): a Gaussian with a full
covariance for the input weights of each unit, one for the output weights, two Gammas. It is
the prior times one site per factor of the model. For data point i these are

    exp(-precision_h[i, k] h_k^2/2 + shift_h[i, k] h_k)       for each unit, h_k = w_k . x_i,
    exp(-precision_f[i] s^2/2 + shift_f[i] s)                 with s = u . direction[i],
    gamma^alpha_hat[i] exp(-beta_hat[i] gamma),

and for weight j exp(-precision w_j^2/2) and lambda^alpha_hat[j] exp(-beta_hat[j] lambda).
All sites are refined at once from the same q (parallel EP), each by a damped step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import RandomState

from probprop import _kernel
from probprop._types import FloatArray
from probprop.reference.gamma import is_sound_update
from probprop_lab.baselines.ep_moments import (
    BoolArray,
    Gaussians,
    OutputCavity,
    hidden_moments,
    hidden_outputs,
    remove_site,
    tilted_hidden,
)

ALPHA_0, BETA_0 = 6.0, 6.0  # of the Gamma of the prior precision, [PBP15] section 2
_INITIAL_PRECISION = 10.0  # of the initial sites of h
_INITIAL_SQUARE = 0.1  # mean squared residual of the initial noise sites
_N_INITIAL = 10  # sweeps over the sites of u alone


@dataclass(frozen=True, eq=False)
class GammaSites:
    """Sites alpha_hat, beta_hat of one Gamma(alpha_0 + sum alpha_hat, beta_0 + sum beta_hat)."""

    alpha_hat: FloatArray
    beta_hat: FloatArray
    alpha_0: float = ALPHA_0
    beta_0: float = BETA_0

    @property
    def alpha(self) -> float:
        """Shape, all sites included."""
        return float(self.alpha_0 + self.alpha_hat.sum())

    @property
    def beta(self) -> float:
        """Rate, all sites included."""
        return float(self.beta_0 + self.beta_hat.sum())

    @property
    def is_sound(self) -> bool:
        """Whether E[1/gamma] is finite, with all sites and without any one of them."""
        return bool(
            np.all(self.alpha - np.append(self.alpha_hat, 0.0) > 1.0)
            and np.all(self.beta - np.append(self.beta_hat, 0.0) > 0.0)
        )

    @property
    def inverse_mean_cav(self) -> FloatArray:
        """E[1/gamma] without each site: the variance its factor has."""
        return (self.beta - self.beta_hat) / (self.alpha - self.alpha_hat - 1.0)


@dataclass(frozen=True, eq=False)
class Sites:
    """Every approximate factor; n points, K hidden units, d inputs with the bias unit.

    Parameters
    ----------
    precision_h, shift_h : ndarray of shape (n, K)
    direction : ndarray of shape (n, K + 1)
    precision_f, shift_f : ndarray of shape (n,)
    precision_in : ndarray of shape (K, d)
        Precision of the prior sites of the input weights.
    precision_out : ndarray of shape (K + 1,)
        Precision of the prior sites of the output weights.
    noise : GammaSites
        One per data point.
    prior : GammaSites
        One per weight, input weights row by row, then output weights.
    """

    precision_h: FloatArray
    shift_h: FloatArray
    direction: FloatArray
    precision_f: FloatArray
    shift_f: FloatArray
    precision_in: FloatArray
    precision_out: FloatArray
    noise: GammaSites
    prior: GammaSites


def initial_sites(
    inputs: FloatArray,
    y: FloatArray,
    n_hidden: int,
    random_state: RandomState,
    noise_shape: float,
    noise_rate: float,
) -> Sites:
    """Return sites that break the symmetry of the hidden units and fit the output weights.

    Where all units have the same q they get the same updates for ever. So the sites of h
    start as observations of the activations of weights drawn from N(0, 1), and are held while
    the sites of u adapt to them. The noise starts low, else the first updates of h from a vague
    q(u) would wash the difference out.
    """
    (n, d), K = inputs.shape, n_hidden
    h = inputs @ random_state.standard_normal((K, d)).T
    n_weights = K * d + K + 1
    precision = (ALPHA_0 - 1.0) / BETA_0
    sites = Sites(
        precision_h=np.full((n, K), _INITIAL_PRECISION),
        shift_h=_INITIAL_PRECISION * h,
        direction=np.zeros((n, K + 1)),
        precision_f=np.zeros(n),
        shift_f=np.zeros(n),
        precision_in=np.full((K, d), precision),
        precision_out=np.full(K + 1, precision),
        noise=GammaSites(
            np.full(n, 0.5), np.full(n, 0.5 * _INITIAL_SQUARE), noise_shape, noise_rate
        ),
        prior=GammaSites(np.full(n_weights, 0.5), np.full(n_weights, 0.5)),
    )
    for _ in range(_N_INITIAL):
        new, _ = refine_likelihood(sites, combine(sites, inputs), inputs, y, 0.5)
        sites = replace(
            sites,
            direction=new.direction,
            precision_f=new.precision_f,
            shift_f=new.shift_f,
        )
    return sites


def combine(sites: Sites, inputs: FloatArray) -> Gaussians:
    """Multiply the Gaussian sites; their precisions are 0 or more, so q is always proper."""
    nat_in = np.einsum("nk,ni,nj->kij", sites.precision_h, inputs, inputs, optimize=True)
    diagonal = np.arange(inputs.shape[1])
    nat_in[:, diagonal, diagonal] += sites.precision_in
    cov_in = np.linalg.inv(nat_in)
    m_in = np.einsum("kij,kj->ki", cov_in, sites.shift_h.T @ inputs)
    nat_out = (sites.direction.T * sites.precision_f) @ sites.direction
    cov_out = np.asarray(np.linalg.inv(nat_out + np.diag(sites.precision_out)), np.float64)
    return Gaussians(m_in, cov_in, cov_out @ (sites.direction.T @ sites.shift_f), cov_out)


def remove_output_site(sites: Sites, q: Gaussians, m_g: FloatArray) -> OutputCavity:
    """Divide q(u) by each rank-one site: Sherman and Morrison, without the (K + 1)^2 matrices."""
    cov_d = sites.direction @ q.cov_out
    left = 1.0 - sites.precision_f * np.sum(cov_d * sites.direction, axis=1)
    accepted = left > 0.0
    left = np.where(accepted, left, np.inf)  # changes nothing
    gain = sites.precision_f / left
    residual = (sites.precision_f * (sites.direction @ q.m_out) - sites.shift_f) / left
    return OutputCavity(
        m_out=q.m_out + residual[:, None] * cov_d,
        v_out=q.v_out + gain[:, None] * cov_d**2,
        cov_out_g=m_g @ q.cov_out + (gain * np.sum(cov_d * m_g, axis=1))[:, None] * cov_d,
        accepted=accepted,
    )


def refine_likelihood(
    sites: Sites, q: Gaussians, inputs: FloatArray, y: FloatArray, damping: float
) -> tuple[Sites, int]:
    """Refine the sites of h, of u and of gamma for every data point.

    Returns
    -------
    sites_new : Sites
    n_rejected : int
        Sites left alone, because their cavity is not proper.
    """
    m_h, v_h = hidden_moments(q, inputs)
    m_cav, v_cav, accepted = remove_site(m_h, v_h, sites.precision_h, sites.shift_h)
    m_g, v_g = hidden_outputs(m_cav, v_cav)
    cavity = remove_output_site(sites, q, m_g)
    noise_variance = sites.noise.inverse_mean_cav

    m_tilted, v_tilted = tilted_hidden(y, noise_variance, m_cav, v_cav, cavity)
    # A site that would widen q gets precision 0 and moves its mean only: then no cavity
    # and no q can be improper.
    v_tilted = np.minimum(v_tilted, v_cav)
    precision_h = 1.0 / v_tilted - 1.0 / v_cav
    shift_h = m_tilted / v_tilted - m_cav / v_cav

    # u and f are taken as jointly Gaussian: y observes u . m_g, and the spread of g is noise.
    v_spread = np.sum(v_g * (cavity.m_out**2 + cavity.v_out), axis=1)
    precision_f = 1.0 / (noise_variance + v_spread)

    m_f = np.sum(m_g * cavity.m_out, axis=1)
    v_f = v_spread + np.sum(m_g * cavity.cov_out_g, axis=1)
    noise, n_rejected = refine_gamma(sites.noise, (y - m_f) ** 2, v_f, cavity.accepted, damping)
    ok = cavity.accepted
    new = replace(
        sites,
        precision_h=_step(sites.precision_h, precision_h, accepted & ok[:, None], damping),
        shift_h=_step(sites.shift_h, shift_h, accepted & ok[:, None], damping),
        # The direction is not damped: two directions do not add to a rank-one site.
        direction=np.where(ok[:, None], m_g, sites.direction),
        precision_f=_step(sites.precision_f, precision_f, ok, damping),
        shift_f=_step(sites.shift_f, y * precision_f, ok, damping),
        noise=noise,
    )
    return new, n_rejected + int(np.sum(~accepted)) + int(np.sum(~ok))


def refine_prior(sites: Sites, q: Gaussians, damping: float) -> tuple[Sites, int]:
    """Refine the prior site of every weight, as PBP does (supplement section 6), but at once.

    The tilted weight is its cavity times N(0, beta_cav/(alpha_cav - 1)), which is the site.
    """
    precision = np.append(sites.precision_in, sites.precision_out)
    m_cav, v_cav, accepted = remove_site(
        np.append(q.m_in, q.m_out), np.append(q.v_in, q.v_out), precision, np.zeros(1)
    )
    precision_new = _step(precision, 1.0 / sites.prior.inverse_mean_cav, accepted, damping)
    prior, n_rejected = refine_gamma(sites.prior, m_cav**2, v_cav, accepted, damping)
    n_in = sites.precision_in.size
    new = replace(
        sites,
        precision_in=precision_new[:n_in].reshape(sites.precision_in.shape),
        precision_out=precision_new[n_in:],
        prior=prior,
    )
    return new, n_rejected


def refine_gamma(
    sites: GammaSites, d2: FloatArray, v: FloatArray, accepted: BoolArray, damping: float
) -> tuple[GammaSites, int]:
    """Match the Gamma to its cavity times N(d | 0, v + 1/gamma), [PBP15] Eqs. (9) and (10).

    Each update is a Gamma. Their sum need not be one, since they all change at once and the
    sites of outliers are negative; then the step of all of them is halved until it is.

    Returns
    -------
    sites_new : GammaSites
        Sound if the old ones are.
    n_rejected : int
    """
    alpha_hat, beta_hat = sites.alpha_hat.copy(), sites.beta_hat.copy()
    alpha, beta = sites.alpha, sites.beta
    for i in np.flatnonzero(accepted):
        alpha_cav, beta_cav = alpha - sites.alpha_hat[i], beta - sites.beta_hat[i]
        alpha_hat[i], beta_hat[i] = gamma_site(alpha_cav, beta_cav, float(d2[i]), float(v[i]))
    step = damping
    while not (new := _toward(sites, alpha_hat, beta_hat, step)).is_sound:
        step *= 0.5
    return new, int(np.sum(~accepted))


def gamma_site(alpha: float, beta: float, d2: float, v: float) -> tuple[float, float]:
    """Return what `gamma_update` adds to a cavity; by the kernel, as there are many in a sweep."""
    delta_alpha, delta_beta = _kernel.gamma_increments(alpha, beta, d2, v)
    if is_sound_update(alpha, beta, d2, alpha + delta_alpha, beta + delta_beta):
        return delta_alpha, delta_beta
    alpha_new, beta_new = _kernel.gamma_moments_by_quadrature(alpha, beta, d2, v)
    return alpha_new - alpha, beta_new - beta


def _toward(
    sites: GammaSites, alpha_hat: FloatArray, beta_hat: FloatArray, step: float
) -> GammaSites:
    return replace(
        sites,
        alpha_hat=sites.alpha_hat + step * (alpha_hat - sites.alpha_hat),
        beta_hat=sites.beta_hat + step * (beta_hat - sites.beta_hat),
    )


def _step(old: FloatArray, new: FloatArray, accepted: BoolArray, damping: float) -> FloatArray:
    return np.where(accepted, old + damping * (new - old), old)
