"""One pass of assumed density filtering (ADF): update q on one point after another.

Arrays of a layer have its n_out units last; a leading axis of rows is carried along, so
the forward functions serve one point, shape (n_in,), and many, shape (n, n_in).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from probprop._types import Array, FloatArray
from probprop.inference.posterior import Memory, PassInfo, Posterior
from probprop.reference.likelihoods import (
    GAUSSIAN,
    Evidence,
    PointLikelihood,
    heavy_noise_update,
    noise_update,
)
from probprop.reference.relu import ReluMoments, relu_moments
from probprop.reference.weighting import rescaled, weighted_evidence

_V_MIN = 1e-100  # a new weight variance must be above this


class Forward(NamedTuple):
    """What a forward pass computes and the backward pass needs."""

    m_z: tuple[Array, ...]  # mean of every layer's input, bias unit last: (..., n_in + 1)
    v_z: tuple[Array, ...]  # its variance
    relu: tuple[ReluMoments, ...]  # of every hidden layer: (..., n_out)
    m_out: Array  # means of the network's outputs: (..., K)
    v_out: Array  # their variances, without the noise


def linear_moments(m_w: Array, v_w: Array, m_z: Array, v_z: Array) -> tuple[Array, Array]:
    """Moments of a = W z/sqrt(n_in + 1), [PBP15] Eqs. (13) and (14)."""
    n = m_w.shape[1]
    # A BLAS may raise the flag for lanes of a register that hold no element.
    with np.errstate(invalid="ignore"):
        m_a = m_z @ m_w.T / math.sqrt(n)
        v_a = (v_z @ (m_w * m_w).T + (m_z * m_z) @ v_w.T + v_z @ v_w.T) / n
    return m_a, v_a


def with_bias_unit(m_b: Array, v_b: Array) -> tuple[Array, Array]:
    """Append the constant 1, [PBP15] Eq. (17)."""
    one = np.ones_like(m_b[..., :1])
    return np.concatenate([m_b, one], axis=-1), np.concatenate([v_b, 0.0 * one], axis=-1)


def forward(
    m_w: Sequence[Array], v_w: Sequence[Array], x: Array, x_var: Array | None = None
) -> Forward:
    """Propagate moments through the network, [PBP15] Eqs. (13) to (17).

    m_w and v_w have (n_out, n_in + 1) weights per layer; x, (..., D), are standardized features of
    the same dtype, and `x_var` their variances, None if they are known exactly.
    """
    m_z, v_z = with_bias_unit(x, np.zeros_like(x) if x_var is None else x_var)
    inputs, relu = [(m_z, v_z)], []
    for m, v in zip(m_w[:-1], v_w[:-1], strict=True):
        relu.append(relu_moments(*linear_moments(m, v, m_z, v_z)))
        m_z, v_z = with_bias_unit(relu[-1].m_z, relu[-1].v_z)
        inputs.append((m_z, v_z))
    m_out, v_out = linear_moments(m_w[-1], v_w[-1], m_z, v_z)
    means, variances = zip(*inputs, strict=True)
    return Forward(means, variances, tuple(relu), m_out, v_out)


def to_inputs(
    m_w: Array, v_w: Array, m_z: Array, d_m_a: Array, d_v_a: Array
) -> tuple[Array, Array]:
    """Take a gradient from the activations of a layer to its inputs, S(5) and S(6).

    d_m_a and d_v_a, (..., n_out), are derivatives by the moments of the activations, and those by
    the moments of the inputs, (..., n_in), come back: the bias unit, last in m_z, sends nothing.
    """
    n = m_w.shape[1]
    d_m_z = d_m_a @ m_w / math.sqrt(n) + 2.0 * m_z * (d_v_a @ v_w) / n
    d_v_z = d_v_a @ (m_w * m_w + v_w) / n
    return d_m_z[..., :-1], d_v_z[..., :-1]


def to_activations(relu: ReluMoments, d_m_z: Array, d_v_z: Array) -> tuple[Array, Array]:
    """Take a gradient from the outputs of a hidden layer to its activations, S(17) to S(20)."""
    d_m_a = d_m_z * relu.dm_z_dm + d_v_z * relu.dv_z_dm
    d_v_a = d_m_z * relu.dm_z_dv + d_v_z * relu.dv_z_dv
    return d_m_a, d_v_a


def backward(
    m_w: Sequence[Array], v_w: Sequence[Array], passed: Forward, evidence: Evidence
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Propagate the gradient of log Z back to the weights of every layer, S(15) to S(22)."""
    dlogZ_dm_w: list[Array] = []
    dlogZ_dv_w: list[Array] = []
    # delta^m and delta^v of S(15) and S(16), at the output.
    d_m_a = np.asarray(evidence.dlogZ_dm, m_w[0].dtype)
    d_v_a = np.asarray(evidence.dlogZ_dv, m_w[0].dtype)
    for layer in reversed(range(len(m_w))):
        m, v, m_z, v_z = m_w[layer], v_w[layer], passed.m_z[layer], passed.v_z[layer]
        n = m.shape[1]
        # S(21) and S(22) with S(7) and S(8). Differs from S(21), S(22) as printed: the
        # deltas belong to the unit the weight leads to (i there), not j.
        dlogZ_dm_w.append(np.outer(d_m_a, m_z) / math.sqrt(n) + 2.0 * np.outer(d_v_a, v_z) * m / n)
        dlogZ_dv_w.append(np.outer(d_v_a, m_z * m_z + v_z) / n)
        if layer > 0:
            d_m_z, d_v_z = to_inputs(m, v, m_z, d_m_a, d_v_a)
            d_m_a, d_v_a = to_activations(passed.relu[layer - 1], d_m_z, d_v_z)
    return tuple(reversed(dlogZ_dm_w)), tuple(reversed(dlogZ_dv_w))


def gradients(
    posterior: Posterior,
    x: Array,
    y: float | Array,
    likelihood: PointLikelihood = GAUSSIAN,
    x_var: Array | None = None,
    *,
    weight: float = 1.0,
    y_var: Array | None = None,
    power: float = 1.0,
) -> tuple[float, tuple[Array, ...], tuple[Array, ...]]:
    """Give log Z of one point and its gradient by the means and variances of the weights.

    Parameters as in `adf_step`.
    """
    m_w, v_w = posterior.m_w, posterior.v_w
    passed = forward(m_w, v_w, *_as_dtype(posterior.dtype, x, x_var))
    point = rescaled(likelihood, passed.m_out, passed.v_out, y, weight, y_var)
    noise = posterior.noise_variance
    evidence = weighted_evidence(likelihood, point, noise, weight, power, posterior.tail)
    return evidence.log_Z, *backward(m_w, v_w, passed, evidence)


def mean_update(m_w: Array, v_w: Array, dlogZ_dm_w: Array) -> Array:
    """Match the mean of each weight, [PBP15] Eq. (6): all that expectation backpropagation does."""
    m_w_new: Array = m_w + v_w * dlogZ_dm_w
    return m_w_new


def gaussian_update(
    m_w: Array, v_w: Array, dlogZ_dm_w: Array, dlogZ_dv_w: Array
) -> tuple[Array, Array, int]:
    """Match the moments of each weight, [PBP15] Eqs. (6) and (7), and count unchanged ones."""
    m_w_new = mean_update(m_w, v_w, dlogZ_dm_w)
    v_w_new = v_w - v_w * v_w * (dlogZ_dm_w * dlogZ_dm_w - 2.0 * dlogZ_dv_w)
    # Differs from [PBP15] Eq. (7): an update that leaves no valid variance is undone.
    valid = (v_w_new > _V_MIN) & np.isfinite(v_w_new)
    return (
        np.where(valid, m_w_new, m_w),
        np.where(valid, v_w_new, v_w),
        int(np.count_nonzero(~valid)),
    )


def adf_step(
    posterior: Posterior,
    x: Array,
    y: float | Array,
    *,
    likelihood: PointLikelihood = GAUSSIAN,
    x_var: Array | None = None,
    weight: float = 1.0,
    y_var: Array | None = None,
    power: float = 1.0,
) -> tuple[Posterior, PassInfo]:
    """Update q on one point (ADF step); every weight's update uses the q from before the point.

    x is (D,), and y the target as the likelihood takes it, a float or (K,). `x_var`, (D,), are
    variances of the entries of x. The weight divides the noise variance of the point, or is the
    power of its likelihood. `y_var`, (K,), are known variances of the target, which add to the
    noise. `power` multiplies the weights that are powers.
    """
    m_w, v_w = posterior.m_w, posterior.v_w
    alpha_noise, beta_noise = posterior.alpha_noise, posterior.beta_noise
    with np.errstate(all="ignore"):  # what is not finite is skipped or undone, and counted
        passed = forward(m_w, v_w, *_as_dtype(posterior.dtype, x, x_var))
        point = rescaled(likelihood, passed.m_out, passed.v_out, y, weight, y_var)
        noise, tail = posterior.noise_variance, posterior.tail
        evidence = weighted_evidence(likelihood, point, noise, weight, power, tail)
        finite = math.isfinite(evidence.log_Z)
        if likelihood.learns_noise:
            # In units of the noise, as the quadrature needs them.
            precision = alpha_noise / beta_noise
            d2, v_out = (point.y - point.m) ** 2, point.v
            finite &= bool(np.isfinite([d2 * precision, v_out * precision]).all())
        if not finite:
            return posterior, PassInfo(0.0, n_points=1, n_undone=0, n_guarded=0, n_skipped=1)

        gradient = backward(m_w, v_w, passed, evidence)
        updates = [gaussian_update(*layer) for layer in zip(m_w, v_w, *gradient, strict=True)]
    m_w_new, v_w_new, n_undone = zip(*updates, strict=True)
    d_tail = () if evidence.dlogZ_dtail is None else tuple(evidence.dlogZ_dtail.tolist())
    n_guarded = 0
    if likelihood.learns_noise:
        (alpha_noise, beta_noise), n_guarded = (
            noise_update(alpha_noise, beta_noise, d2, v_out)
            if evidence.dlogZ_dlevel is None
            else heavy_noise_update(
                alpha_noise, beta_noise, point.y - point.m, v_out, tail, evidence
            )
        )
    return (
        replace(
            posterior, m_w=m_w_new, v_w=v_w_new, alpha_noise=alpha_noise, beta_noise=beta_noise
        ),
        PassInfo(evidence.log_Z, 1, sum(n_undone), n_guarded, 0, d_tail),
    )


def _as_dtype(dtype: np.dtype[Any], x: Array, x_var: Array | None) -> tuple[Array, Array | None]:
    return np.asarray(x, dtype), None if x_var is None else np.asarray(x_var, dtype)


# ---- Bounded evidence: tempering of q, which also removes the influence of the first epochs
#
# [PBP15] uses the likelihood of every point again in every epoch, so q becomes too narrow, and
# the residuals of the first epochs stay in the noise. With a `Memory` q is tempered before the
# updates, q <- q^(1 - share) prior^share, and never contains more evidence than `capacity` points
# have: a form of stochastic expectation propagation.


def temper(posterior: Posterior, memory: Memory, n_points: int) -> Posterior:
    """Return the tempered q, before updates on `n_points` points.

    The prior of a weight is its own approximate factor N(0, 1/v_hat_nat), so that a q without
    any evidence stays as it is; the noise has its Gamma. The Gamma of the prior
    precision holds no likelihood and stays.
    """
    share = memory.share(n_points)
    layers = zip(posterior.m_w, posterior.v_w, posterior.v_hat_nat, strict=True)
    tempered = [_tempered(m, v, v_hat_nat.astype(v.dtype), share) for m, v, v_hat_nat in layers]
    return replace(
        posterior,
        m_w=tuple(m for m, _ in tempered),
        v_w=tuple(v for _, v in tempered),
        alpha_noise=(1.0 - share) * posterior.alpha_noise + share * memory.noise_shape,
        beta_noise=(1.0 - share) * posterior.beta_noise + share * memory.noise_rate,
    )


def _tempered(m: Array, v: Array, v_hat_nat: Array, share: float) -> tuple[Array, Array]:
    """Average natural parameters: 1/v with v_hat_nat, m/v with 0."""
    ratio = 1.0 / ((1.0 - share) + share * v_hat_nat * v)  # v_new/v
    return m * ((1.0 - share) * ratio), v * ratio


# ---- Passes and predictions


def adf_pass(
    posterior: Posterior,
    X: Array,
    y: Array,
    order: Sequence[int] | Array,
    *,
    likelihood: PointLikelihood = GAUSSIAN,
    memory: Memory | None = None,
    X_var: Array | None = None,
    weights: Array | None = None,
    y_var: Array | None = None,
    power: float = 1.0,
    seen: FloatArray | None = None,
) -> tuple[Posterior, PassInfo]:
    """Update q on points one after another, in this order of their indices.

    X, (n, D), y, (n,) or (n, K), and how they count are as in `adf_step`, a row for each point. The
    memory bounds the evidence in q; None is the algorithm of [PBP15]. `seen`, (n, 3 K), gets the
    targets of a noise network from `watched`, NaN for skipped points.
    """
    infos = []
    for t, i in enumerate(order):
        if memory is not None and t % memory.every == 0:
            posterior = temper(posterior, memory, min(memory.every, len(order) - t))
        before = posterior
        point: Any = {
            "likelihood": likelihood,
            "x_var": None if X_var is None else X_var[i],
            "weight": 1.0 if weights is None else float(weights[i]),
            "y_var": None if y_var is None else y_var[i],
        }
        posterior, info = adf_step(before, X[i], y[i], power=power, **point)
        if seen is not None:
            seen[i] = watched(before, X[i], y[i], **point) if info.n_skipped == 0 else np.nan
        infos.append(info)
    d_tails = zip(*(info.d_tail_sum for info in infos if info.d_tail_sum), strict=True)
    return posterior, PassInfo(
        log_Z_sum=math.fsum(info.log_Z_sum for info in infos),
        n_points=len(infos),
        n_undone=sum(info.n_undone for info in infos),
        n_guarded=sum(info.n_guarded for info in infos),
        n_skipped=sum(info.n_skipped for info in infos),
        d_tail_sum=tuple(map(math.fsum, d_tails)),
    )


def watched(
    posterior: Posterior,
    x: Array,
    y: float | Array,
    *,
    likelihood: PointLikelihood = GAUSSIAN,
    x_var: Array | None = None,
    weight: float = 1.0,
    y_var: Array | None = None,
) -> FloatArray:
    """Return the targets of a noise network at a point, before the update, (3 K,).

    These are the residuals, the variances of the outputs and the levels of the noise: targets of
    the likelihood `SCALE`, in the units in which the weight is 1. Parameters as in `adf_step`.
    """
    passed = forward(posterior.m_w, posterior.v_w, *_as_dtype(posterior.dtype, x, x_var))
    point = rescaled(likelihood, passed.m_out, passed.v_out, y, weight, y_var)
    return np.concatenate([point.y - point.m, point.v, posterior.noise_variance])


def predict_moments(
    posterior: Posterior, X: Array, X_var: Array | None = None
) -> tuple[Array, Array]:
    """Mean and variance, without the noise, of the outputs at each row of X; (n,) or (n, K)."""
    passed = forward(posterior.m_w, posterior.v_w, *_as_dtype(posterior.dtype, X, X_var))
    if posterior.layer_sizes[-1] == 1:
        return passed.m_out[:, 0], passed.v_out[:, 0]
    return passed.m_out, passed.v_out


# ---- The gradient of the output moments with respect to the features
#
# [PBP15] sends the gradient of log Z back to the weights, S(15) to S(22). The same steps,
# started from the output's mean or its variance instead of log Z, and taken one layer further,
# end at the features.


def predict_gradient(posterior: Posterior, X: Array) -> tuple[Array, Array, Array, Array]:
    """Mean and variance, (n,), without the noise, and their gradients by the features, (n, D)."""
    passed = forward(posterior.m_w, posterior.v_w, np.asarray(X, posterior.dtype))
    one = np.ones_like(passed.m_out)  # (n, 1): the output layer has one unit
    dmean_dX = to_features(posterior, passed, d_m_a=one, d_v_a=0.0 * one)
    dvariance_dX = to_features(posterior, passed, d_m_a=0.0 * one, d_v_a=one)
    return passed.m_out[:, 0], passed.v_out[:, 0], dmean_dX, dvariance_dX


def to_features(posterior: Posterior, passed: Forward, d_m_a: Array, d_v_a: Array) -> Array:
    """Take a gradient from the output, where it is d_m_a and d_v_a, (n, 1), to the features."""
    layers = list(zip(posterior.m_w, posterior.v_w, passed.m_z, strict=True))
    d_m_z, d_v_z = to_inputs(*layers[-1], d_m_a, d_v_a)
    for layer, relu in zip(reversed(layers[:-1]), reversed(passed.relu), strict=True):
        d_m_z, d_v_z = to_inputs(*layer, *to_activations(relu, d_m_z, d_v_z))
    return d_m_z  # the features have no variance, so d_v_z ends here
