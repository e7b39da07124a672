"""The two implementations of the algorithm behind one interface.

``native`` is the compiled kernel (``cpp/``), ``reference`` the same in NumPy
(`probprop.reference`). Both are pure: a posterior goes in, a new one comes out.
Only `probprop.inference.native` and `probprop.distributions.functions`, whose networks are certain,
import ``probprop._kernel``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from probprop import reference
from probprop._types import Array, FloatArray
from probprop.inference import by_passes, native
from probprop.inference.native import cpu_level, cpu_levels
from probprop.inference.posterior import Memory, PassInfo, Posterior, SweepInfo
from probprop.inference.standardize import Standardizer
from probprop.inference.task import INFORMATIVE_RATIO, Task, Trained
from probprop.reference.likelihoods import GAUSSIAN, PointLikelihood

__all__ = ["ENGINES", "Engine", "cpu_level", "cpu_levels"]


class AdfPass(Protocol):
    """Absorb the rows of X and y in the given order, once.

    y is (n,), or (n, K) for Gaussians or probits of several outputs. With a `memory` q gives
    evidence back as it absorbs more. `X_var`, (n, D), has the variances of the entries of X. How
    the rows count, `weights`, (n,), `y_var`, (n, K), and `power`, is as in a `Task`.
    """

    def __call__(
        self,
        posterior: Posterior,
        X: Array,
        y: Array,
        order: Array,
        *,
        likelihood: PointLikelihood = GAUSSIAN,
        memory: Memory | None = None,
        X_var: Array | None = None,
        weights: FloatArray | None = None,
        y_var: FloatArray | None = None,
        power: float = 1.0,
    ) -> tuple[Posterior, PassInfo]: ...


class RefinePrior(Protocol):
    """Refine every approximate prior factor once."""

    def __call__(
        self, posterior: Posterior, informative_ratio: float = INFORMATIVE_RATIO
    ) -> tuple[Posterior, SweepInfo]: ...


class Train(Protocol):
    """Make the epochs of every task, in as many threads; what ended them early comes second.

    An epoch is whole or was not made. The orders are drawn from the tasks' generators.
    """

    def __call__(
        self, tasks: Sequence[Task], n_threads: int = 1
    ) -> tuple[list[Trained], BaseException | None]: ...


class PredictMoments(Protocol):
    """Mean and variance (without noise) of the outputs for every row of X, (n,) or (n, K).

    With a `standardizer` X is in the units of the features, but `X_var` is standardised.
    """

    def __call__(
        self,
        posterior: Posterior,
        X: Array,
        X_var: Array | None = None,
        standardizer: Standardizer | None = None,
    ) -> tuple[FloatArray, FloatArray]: ...


class PredictGradient(Protocol):
    """Those moments, each (n,), and their derivatives by the entries of X, each (n, D).

    With a `standardizer` X is in the units of the features; the derivatives are by those of the
    standardised ones.
    """

    def __call__(
        self, posterior: Posterior, X: Array, standardizer: Standardizer | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]: ...


class ClassLogProbabilities(Protocol):
    """The log of the probability of every class, from the moments of the outputs; all (n, K)."""

    def __call__(self, m: FloatArray, v: FloatArray) -> FloatArray: ...


class ClassLogProbability(Protocol):
    """The log of the probability of one class per row, c; (n,)."""

    def __call__(self, m: FloatArray, v: FloatArray, c: Array) -> FloatArray: ...


@dataclass(frozen=True)
class Engine:
    """One implementation of the operations training and prediction need."""

    train: Train
    adf_pass: AdfPass
    refine_prior: RefinePrior
    predict_moments: PredictMoments
    predict_gradient: PredictGradient
    class_log_probabilities: ClassLogProbabilities
    class_log_probability: ClassLogProbability


ENGINES: dict[str, Engine] = {
    "native": Engine(
        native.train,
        native.adf_pass,
        native.refine_prior,
        native.predict_moments,
        native.predict_gradient,
        native.class_log_probabilities,
        native.class_log_probability,
    ),
    "reference": Engine(
        by_passes.train,
        reference.adf_pass,
        reference.refine_prior,
        by_passes.predict_moments,
        by_passes.predict_gradient,
        reference.class_log_probabilities,
        reference.class_log_probability,
    ),
}
