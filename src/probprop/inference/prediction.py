"""From rows to the moments of the outputs, and to their predictive distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from probprop._types import Array, FloatArray
from probprop.distributions.functions import Sensitivity
from probprop.inference import native
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import (
    N_NODES,
    Encoded,
    Inputs,
    Samples,
    dense,
    is_listed,
    normal_nodes,
)
from probprop.inference.noise import LARGEST_LOG, LARGEST_VARIANCE, Noise
from probprop.inference.output_layer import Block, fit_output_layer
from probprop.inference.plan import Plan
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer, check_magnitude

_BLOCK = 1 << 16  # rows at a time, where they have to be copied
_COPIED = 1 << 22  # entries at a time, where sparse rows have to be


def features(plan: Plan, standardizer: Standardizer, X: Inputs) -> tuple[Samples, Array | None]:
    """Return what the network sees: entries in the units of the features, and variances.

    The entries of X are not copied, but for missing ones: these have the mean and the
    variance of their feature in the training data. The variances, standardized and (n, D) in the
    plan's dtype, are None where all are 0. Listed rows are copied to an array if the model was
    fitted to centered features.
    """
    entries, X_var = X.X, None
    if is_listed(entries) and standardizer.x_mean.any():
        entries = dense(entries)
    if X.std is not None:
        check_magnitude("X_std", standardizer.largest_std(X.std), plan.dtype)
        X_var = ((X.std / standardizer.x_scale) ** 2).astype(plan.dtype)
    if plan.marginalize and (missing := X.missing()) is not None:
        known = standardizer.missing_variance
        variance = 1.0 if known is None else known
        entries = np.where(missing, standardizer.x_mean, entries)
        X_var = np.where(missing, variance, 0.0 if X_var is None else X_var).astype(plan.dtype)
    return entries, X_var


def predictive(plan: Plan, posterior: Posterior, standardizer: Standardizer, X: Inputs) -> Any:
    """Return the predictive distribution that the likelihood makes of these rows."""
    mean, variance = output_moments(plan, posterior, standardizer, X)
    noise = noise_at(plan, posterior, standardizer, X)
    _check_finite(plan.dtype, mean, variance)
    return plan.likelihood.predictive(mean, variance, noise, standardizer, ENGINES[plan.engine])


def member_moments(
    networks: Sequence[tuple[Posterior, Standardizer]], X: Samples, n_threads: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Return the moments of the outputs of networks that see the same rows, in one kernel call.

    They are standardized, (S, n), or (S, n, K) for several outputs; see `native.predict_members`.
    """
    moments = native.predict_members(networks, X, n_threads)
    _check_finite(networks[0][0].dtype, *moments)
    return moments


def _check_finite(dtype: np.dtype[Any], *moments: FloatArray) -> None:
    """Refuse outputs that overflowed, as with a very wide prior or many layers."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = all(np.isfinite(m.sum()) or np.isfinite(m).all() for m in moments)
    if not finite:
        raise ValueError(
            f"The outputs of the network are beyond the range of dtype {dtype}: its weights "
            "have too large a variance. Fit it with a smaller prior_rate or fewer layers, on "
            "features that are standardized (standardize=True), or with dtype='float64'."
        )


def noise_at(plan: Plan, posterior: Posterior, standardizer: Standardizer, X: Inputs) -> Noise:
    """Return the noise of every row, standardized."""
    network = posterior.noise_network
    if network is None:
        return Noise.everywhere(posterior)
    return Noise.of_rows(posterior, *output_moments(plan, network, standardizer, X))


# ---- An output layer with a full covariance


def output_features(
    plan: Plan, posterior: Posterior, standardizer: Standardizer, X: Inputs
) -> FloatArray:
    """Return the mean outputs of the last hidden layer and the standardized inputs, (n, M)."""
    entries, X_var = features(plan, standardizer, X)
    inputs = standardizer.checked_X(dense(entries), np.dtype(np.float64))
    if not plan.hidden:
        return inputs
    n = plan.hidden[-1]  # an output layer that copies: (17) divides by sqrt(n + 1)
    copies = (np.sqrt(n + 1.0) * np.eye(n, n + 1)).astype(posterior.dtype)
    network = replace(
        posterior,
        m_w=(*posterior.m_w[:-1], copies),
        v_w=(*posterior.v_w[:-1], np.zeros_like(copies)),
        output_layer=None,
    )
    hidden, _ = ENGINES[plan.engine].predict_moments(network, entries, X_var, standardizer)
    return np.column_stack([hidden, inputs])


def with_output_layer(
    plan: Plan,
    posterior: Posterior,
    standardizer: Standardizer,
    X: Inputs,
    y: Array,
    weights: FloatArray | None = None,
) -> Posterior:
    """Return a trained posterior with the output layer of the plan, fitted to these samples.

    Targets and weights are as in a `Task`.
    """
    if plan.output_layer == "mean_field":
        return posterior
    posterior = replace(posterior, output_layer=None)
    y = standardizer.transform_y(y).reshape(len(y), -1)
    step = max(1, _COPIED // (X.shape[1] + max(plan.hidden, default=1)))
    blocks = (
        Block(
            output_features(plan, posterior, standardizer, X[i : i + step]),
            y[i : i + step],
            None if weights is None else weights[i : i + step],
        )
        for i in range(0, len(y), step)
    )
    return replace(posterior, output_layer=fit_output_layer(blocks))


def refuse_output_layer(posterior: Posterior, what: str) -> None:
    """Say that a full output layer does not have something."""
    if posterior.output_layer is not None:
        raise ValueError(
            f'{what} is not available for output_layer="full", whose features are moments of the '
            'hidden units and not outputs of one network: fit with output_layer="mean_field".'
        )


# ---- Gradients


def sensitivity_at(
    plan: Plan, posterior: Posterior, standardizer: Standardizer, X: Inputs
) -> Sensitivity:
    """Return mean and standard deviation of every row with their gradients, of one target."""
    refuse_output_layer(posterior, "predict_gradient")
    entries, X_var = features(plan, standardizer, X)
    if X_var is not None or (isinstance(X.X, Encoded) and np.isnan(X.X.X).any()):
        raise ValueError(
            "X contains NaN, where predict_gradient has no gradient: give rows without "
            "missing entries."
        )
    entries = X.X if isinstance(X.X, Encoded) else entries  # derivatives are by its columns
    gradient = ENGINES[plan.engine].predict_gradient
    mean, variance, dmean_dX, dvariance_dX = gradient(posterior, entries, standardizer)
    noise, dlog_dX = Noise.everywhere(posterior), np.zeros(1)
    if (network := posterior.noise_network) is not None:
        m_log, v_log, dm_log_dX, dv_log_dX = gradient(network, entries, standardizer)
        noise = Noise.of_rows(posterior, m_log, v_log)
        # Beyond its bounds the noise is constant.
        dm_log_dX = np.where(np.abs(m_log) < LARGEST_LOG, dm_log_dX.T, 0.0).T
        dv_log_dX = np.where(v_log < LARGEST_VARIANCE, dv_log_dX.T, 0.0).T
        dlog_dX = dm_log_dX + 0.5 * dv_log_dX
    # In the units of features and target.
    std = np.sqrt(variance)
    dstd_dX = dvariance_dX / (2.0 * std)[:, np.newaxis]
    y_scale = standardizer.y_scale.item()
    x_scale = 1.0 if isinstance(entries, Encoded) else standardizer.x_scale
    aleatoric_std = np.broadcast_to(np.sqrt(noise.variance) * y_scale, mean.shape)
    dlog_std_dX = np.broadcast_to(0.5 * dlog_dX, dmean_dX.shape)
    return Sensitivity(
        mean=mean * y_scale + standardizer.y_mean,
        epistemic_std=std * y_scale,
        aleatoric_std=aleatoric_std,
        dmean_dX=dmean_dX / x_scale * y_scale,
        depistemic_std_dX=dstd_dX / x_scale * y_scale,
        daleatoric_std_dX=dlog_std_dX / x_scale * aleatoric_std[:, np.newaxis],
    )


def with_noise(predicted: Any, factor: FloatArray | None) -> Any:
    """Return a `Mixture` with the noise std of each row times a factor, (n,); None is 1."""
    if factor is None:
        return predicted
    stds = predicted.aleatoric_stds
    return replace(predicted, aleatoric_stds=stds * factor.reshape(-1, *[1] * (stds.ndim - 2)))


def output_moments(
    plan: Plan, posterior: Posterior, standardizer: Standardizer, X: Inputs
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the outputs, standardized: (n,), or (n, K) for several."""
    copied = is_listed(X.X) and standardizer.x_mean.any()
    if X.std is None and not plan.marginalize and plan.engine == "native" and not copied:
        return _propagated(plan, posterior, standardizer, X)
    moments, step = _propagated, max(1, _COPIED // X.shape[1]) if copied else _BLOCK
    if X.std is not None:
        check_magnitude("X_std", standardizer.largest_std(X.std), plan.dtype)
        moments, step = _integrated, _BLOCK // N_NODES
    starts = range(0, len(X), step)
    blocks = [moments(plan, posterior, standardizer, X[i : i + step]) for i in starts]
    return np.concatenate([m for m, _ in blocks]), np.concatenate([v for _, v in blocks])


def _propagated(
    plan: Plan, posterior: Posterior, standardizer: Standardizer, X: Inputs
) -> tuple[FloatArray, FloatArray]:
    """Return the moments by [PBP15] Eqs. (13) to (17)."""
    if (layer := posterior.output_layer) is not None:
        mean, variance = layer.moments(output_features(plan, posterior, standardizer, X))
        return (mean[:, 0], variance[:, 0]) if mean.shape[1] == 1 else (mean, variance)
    entries, X_var = features(plan, standardizer, X)
    return ENGINES[plan.engine].predict_moments(posterior, entries, X_var, standardizer)


def _integrated(
    plan: Plan, posterior: Posterior, standardizer: Standardizer, X: Inputs
) -> tuple[FloatArray, FloatArray]:
    """Return the moments over uncertain inputs, at points that stand for their Gaussians.

    Eq. (14) would not do: it takes the units of a layer for independent, but all of them see
    the same input, and what it does to them adds up.
    """
    everywhere = X.at(normal_nodes(X.shape[1]))
    means, variances = (
        a.reshape(N_NODES, len(X), *a.shape[1:])
        for a in _propagated(plan, posterior, standardizer, everywhere)
    )
    return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)
