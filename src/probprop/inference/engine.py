"""The two implementations of the algorithm behind one interface.

``native`` is the compiled kernel (``cpp/``), ``reference`` the same in NumPy
(`probprop.reference`). Both are pure: a posterior goes in, a new one comes out.
Only this module and `probprop.predictive.sampled`, whose networks are certain, import
``probprop._kernel``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

import numpy as np

from probprop import _kernel, reference
from probprop._types import Array, FloatArray
from probprop.inference.posterior import Memory, PassInfo, Posterior, SweepInfo
from probprop.reference.likelihoods import GAUSSIAN, PointLikelihood

INFORMATIVE_RATIO = 8.0
"""A prior factor is refined only if v_cav is below this many times beta_cav/(alpha_cav - 1)."""


class AdfPass(Protocol):
    """Absorb the rows of X and y in the given order, once.

    y is (n,), or (n, K) for Gaussians or probits of several outputs. With a `memory` q gives
    evidence back as it absorbs more. `X_var`, (n, D), has the variances of the entries of X.
    """

    def __call__(  # noqa: D102
        self,
        posterior: Posterior,
        X: Array,
        y: Array,
        order: Array,
        *,
        likelihood: PointLikelihood = GAUSSIAN,
        memory: Memory | None = None,
        X_var: Array | None = None,
    ) -> tuple[Posterior, PassInfo]: ...


class RefinePrior(Protocol):
    """Refine every approximate prior factor once."""

    def __call__(  # noqa: D102
        self, posterior: Posterior, informative_ratio: float = INFORMATIVE_RATIO
    ) -> tuple[Posterior, SweepInfo]: ...


class PredictMoments(Protocol):
    """Mean and variance (without noise) of the outputs for every row of X, (n,) or (n, K)."""

    def __call__(  # noqa: D102
        self, posterior: Posterior, X: Array, X_var: Array | None = None
    ) -> tuple[FloatArray, FloatArray]: ...


class PredictGradient(Protocol):
    """Those moments, each (n,), and their derivatives by the entries of X, each (n, D)."""

    def __call__(  # noqa: D102
        self, posterior: Posterior, X: Array
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]: ...


class ClassLogProbabilities(Protocol):
    """The log of the probability of every class, from the moments of the outputs; all (n, K)."""

    def __call__(self, m: FloatArray, v: FloatArray) -> FloatArray: ...  # noqa: D102


@dataclass(frozen=True)
class Engine:
    """One implementation of the five operations training and prediction need."""

    adf_pass: AdfPass
    refine_prior: RefinePrior
    predict_moments: PredictMoments
    predict_gradient: PredictGradient
    class_log_probabilities: ClassLogProbabilities


def cpu_level() -> str:
    """Return the instruction set the native engine uses: v4, v3, v2 or generic.

    The environment variable ``PROBPROP_CPU_LEVEL``, read at import, forces a lower one.
    """
    return _kernel.cpu_level()


def cpu_levels() -> list[str]:
    """Return the instruction sets this machine can run, fastest first."""
    return _kernel.cpu_levels()


def _flat(layers: tuple[Array, ...]) -> Array:
    return np.concatenate([layer.ravel() for layer in layers])


def _layers(flat: Array, like: tuple[Array, ...]) -> tuple[Array, ...]:
    """Cut a flat array into views shaped like the given layers."""
    ends = accumulate(layer.size for layer in like)  # numpy's split takes longer than a small pass
    return tuple(
        flat[end - layer.size : end].reshape(layer.shape)
        for end, layer in zip(ends, like, strict=True)
    )


def _native_adf_pass(
    posterior: Posterior,
    X: Array,
    y: Array,
    order: Array,
    *,
    likelihood: PointLikelihood = GAUSSIAN,
    memory: Memory | None = None,
    X_var: Array | None = None,
) -> tuple[Posterior, PassInfo]:
    m_w, v_w, observed = _kernel.adf_pass(
        list(posterior.layer_sizes),
        _flat(posterior.m_w),
        _flat(posterior.v_w),
        np.ascontiguousarray(X, posterior.dtype),
        np.ascontiguousarray(y, np.float64).reshape(len(y), -1),
        np.ascontiguousarray(order, np.int64),
        likelihood.name,
        posterior.alpha_noise,
        posterior.beta_noise,
        None if memory is None else _kernel_memory(memory, posterior),
        None if X_var is None else np.ascontiguousarray(X_var, posterior.dtype),
    )
    alpha_noise, beta_noise, log_Z_sum, n_undone, n_guarded, n_skipped = observed
    posterior_new = replace(
        posterior,
        m_w=_layers(m_w, posterior.m_w),
        v_w=_layers(v_w, posterior.v_w),
        alpha_noise=alpha_noise,
        beta_noise=beta_noise,
    )
    return posterior_new, PassInfo(log_Z_sum, len(order), n_undone, n_guarded, n_skipped)


def _kernel_memory(memory: Memory, posterior: Posterior) -> tuple[Array, float, int, float, float]:
    v_hat_nat = _flat(posterior.v_hat_nat).astype(posterior.dtype)
    return v_hat_nat, memory.capacity, memory.every, memory.noise_shape, memory.noise_rate


def _native_refine_prior(
    posterior: Posterior, informative_ratio: float = INFORMATIVE_RATIO
) -> tuple[Posterior, SweepInfo]:
    m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, observed = _kernel.refine_prior(
        _flat(posterior.m_w),
        _flat(posterior.v_w),
        _flat(posterior.v_hat_nat),
        _flat(posterior.a_hat_nat),
        _flat(posterior.b_hat_nat),
        posterior.alpha_prior,
        posterior.beta_prior,
        informative_ratio,
    )
    alpha_prior, beta_prior, n_skipped, n_uninformative = observed
    posterior_new = replace(
        posterior,
        m_w=_layers(m_w, posterior.m_w),
        v_w=_layers(v_w, posterior.v_w),
        v_hat_nat=_layers(v_hat_nat, posterior.m_w),
        a_hat_nat=_layers(a_hat_nat, posterior.m_w),
        b_hat_nat=_layers(b_hat_nat, posterior.m_w),
        alpha_prior=alpha_prior,
        beta_prior=beta_prior,
    )
    return posterior_new, SweepInfo(n_skipped, n_uninformative)


def _native_predict_moments(
    posterior: Posterior, X: Array, X_var: Array | None = None
) -> tuple[FloatArray, FloatArray]:
    mean, variance = _kernel.predict_moments(
        list(posterior.layer_sizes),
        _flat(posterior.m_w),
        _flat(posterior.v_w),
        np.ascontiguousarray(X, posterior.dtype),
        None if X_var is None else np.ascontiguousarray(X_var, posterior.dtype),
    )
    if posterior.layer_sizes[-1] == 1:
        return mean[:, 0], variance[:, 0]
    return mean, variance


def _native_predict_gradient(
    posterior: Posterior, X: Array
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    return _kernel.predict_gradient(
        list(posterior.layer_sizes),
        _flat(posterior.m_w),
        _flat(posterior.v_w),
        np.ascontiguousarray(X, posterior.dtype),
    )


ENGINES: dict[str, Engine] = {
    "native": Engine(
        _native_adf_pass,
        _native_refine_prior,
        _native_predict_moments,
        _native_predict_gradient,
        _kernel.class_log_probabilities,
    ),
    "reference": Engine(
        reference.adf_pass,
        reference.refine_prior,
        reference.predict_moments,
        reference.predict_gradient,
        reference.class_log_probabilities,
    ),
}
