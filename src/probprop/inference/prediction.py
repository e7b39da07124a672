"""From rows to the moments of the outputs, and to their predictive distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.distributions.functions import SampledNetwork, Sensitivity, sample_network
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
from probprop.inference.likelihoods import Gaussian
from probprop.inference.noise import LARGEST_LOG, LARGEST_VARIANCE, Noise
from probprop.inference.output_layer import Block, fit_output_layer
from probprop.inference.plan import Plan
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer, check_magnitude

_BLOCK = 1 << 16  # rows at a time, where they have to be copied
_COPIED = 1 << 22  # entries at a time, where sparse rows have to be


def features(plan: Plan, standardizer: Standardizer, X: Inputs) -> tuple[Samples, Array | None]:
    """Return the inputs of the network, in the units of the features, and their variances.

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
        if is_listed(entries):
            X_var = X.std.copy()
            X_var.data = (X.std.data / standardizer.x_scale[X.std.indices]) ** 2
        else:
            X_var = ((dense(X.std) / standardizer.x_scale) ** 2).astype(plan.dtype)
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
    """Return the moments of the outputs of networks with the same inputs, in one kernel call.

    They are standardized, (S, n), or (S, n, K) for several outputs; see `native.predict_members`.
    """
    if all(posterior.output_layer is None for posterior, _ in networks):
        means, variances = native.predict_members(networks, X, n_threads)
    else:
        each = []
        for q, standardizer in networks:
            _, *hidden, n_outputs = q.layer_sizes
            plan = Plan(Gaussian(n_outputs), hidden=tuple(hidden), dtype=q.dtype)
            each.append(output_moments(plan, q, standardizer, Inputs(X)))
        means, variances = (np.stack(part) for part in zip(*each, strict=True))
    _check_finite(networks[0][0].dtype, means, variances)
    return means, variances


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
    network = copying(posterior)
    hidden, _ = ENGINES[plan.engine].predict_moments(network, entries, X_var, standardizer)
    return np.column_stack([hidden, inputs])


def copying(posterior: Posterior, units: slice = slice(None)) -> Posterior:
    """Return a network whose outputs are those of its last hidden layer, or of some units."""
    n = posterior.layer_sizes[-2]
    copies = (np.sqrt(n + 1.0) * np.eye(n, n + 1)[units]).astype(posterior.dtype)  # (17) divides
    m_w, v_w = (*posterior.m_w[:-1], copies), (*posterior.v_w[:-1], np.zeros_like(copies))
    return replace(posterior, m_w=m_w, v_w=v_w, output_layer=None)


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


def output_layer_after(
    plan: Plan,
    posterior: Posterior,
    standardizer: Standardizer,
    X: Inputs,
    y: Array,
    weights: FloatArray | None = None,
) -> Posterior:
    """Return the posterior whose output layer has seen more samples; the features stay."""
    assert posterior.output_layer is not None
    y = standardizer.transform_y(y).reshape(len(y), -1)
    block = Block(output_features(plan, posterior, standardizer, X), y, weights)
    return replace(posterior, output_layer=posterior.output_layer.after(block))


@dataclass(frozen=True, eq=False)
class SampledOutputLayer:
    """A function drawn from a network with an exact output layer, whose features are not random."""

    plan: Plan
    posterior: Posterior  # its output layer has no variance
    standardizer: Standardizer

    def __call__(self, X: Samples) -> FloatArray:
        """Return the function at X, (n,), in target units."""
        mean, _ = output_moments(self.plan, self.posterior, self.standardizer, Inputs(X))
        return np.asarray(mean * self.standardizer.y_scale + self.standardizer.y_mean)

    def gradient(self, X: Samples) -> tuple[FloatArray, FloatArray]:
        """Return the function at X, and its gradients by the features, (n, n_features)."""
        at = sensitivity_at(self.plan, self.posterior, self.standardizer, Inputs(X))
        return at.mean, at.dmean_dX


def sample_function(
    plan: Plan, posterior: Posterior, standardizer: Standardizer, rng: RandomState
) -> SampledNetwork | SampledOutputLayer:
    """Draw a function of the posterior: all weights, or those of an exact output layer."""
    if (layer := posterior.output_layer) is None:
        return sample_network(posterior, standardizer, rng)
    drawn = replace(
        layer,
        coef=layer.coef + np.sqrt(layer.variance) * rng.standard_normal(layer.coef.shape),
        intercept=rng.normal(layer.intercept, np.sqrt(layer.intercept_variance)),
        variance=np.zeros_like(layer.variance),
        intercept_variance=np.full_like(layer.intercept, np.finfo(np.float64).tiny),
    )
    return SampledOutputLayer(plan, replace(posterior, output_layer=drawn), standardizer)


# ---- Gradients


def sensitivity_at(
    plan: Plan, posterior: Posterior, standardizer: Standardizer, X: Inputs
) -> Sensitivity:
    """Return mean and standard deviation of every row with their gradients, of one target."""
    entries, X_var = features(plan, standardizer, X)
    if X_var is not None or (isinstance(X.X, Encoded) and np.isnan(X.X.X).any()):
        raise ValueError(
            "X contains NaN, where predict_gradient has no gradient: give rows without "
            "missing entries."
        )
    entries = X.X if isinstance(X.X, Encoded) else entries  # derivatives are by its columns
    gradient = ENGINES[plan.engine].predict_gradient
    of_mean = gradient if posterior.output_layer is None else partial(_layer_gradient, plan)
    mean, variance, dmean_dX, dvariance_dX = of_mean(posterior, entries, standardizer)
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


def _layer_gradient(
    plan: Plan, posterior: Posterior, entries: Samples, standardizer: Standardizer
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return moments and their derivatives, as the engines' `predict_gradient` does.

    With phi the features, the mean is linear in them and the variance has the gradient 2 C phi.
    """
    layer, n_hidden = posterior.output_layer, plan.hidden[-1] if plan.hidden else 0
    assert layer is not None
    phi = output_features(plan, posterior, standardizer, Inputs(entries))
    mean, variance = layer.moments(phi)
    along = (phi - layer.center) @ layer.axes
    by_mean = np.broadcast_to(layer.axes @ layer.coef[:, 0], phi.shape)
    by_phi = np.stack([by_mean, 2.0 * (along * layer.variance[:, 0]) @ layer.axes.T])
    d = by_phi[..., n_hidden:]
    if isinstance(entries, Encoded):
        d = np.stack([entries.by_columns(each / standardizer.x_scale) for each in d])
    for h in range(n_hidden):  # one unit at a time
        unit = copying(posterior, slice(h, h + 1))
        _, _, dh, _ = ENGINES[plan.engine].predict_gradient(unit, entries, standardizer)
        d = d + by_phi[..., h, np.newaxis] * dh
    return mean[:, 0], variance[:, 0], *d


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
    """Return the moments over uncertain inputs, by quasi-random points of their Gaussians.

    Eq. (14) is not accurate here: it assumes independent units, but all units of a layer share
    the uncertain input.
    """
    everywhere = X.at(normal_nodes(X.shape[1]))
    means, variances = (
        a.reshape(N_NODES, len(X), *a.shape[1:])
        for a in _propagated(plan, posterior, standardizer, everywhere)
    )
    return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)
