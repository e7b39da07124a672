"""The likelihoods of targets, given the outputs of the network. One loop trains them all.

The compiled kernel has a policy of the same name in ``cpp/likelihoods``, and
`probprop.reference.likelihoods` has log Z of one point in NumPy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr
from sklearn.utils.multiclass import unique_labels

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture, log_mean
from probprop.distributions.mixture import Mixture
from probprop.inference.engine import Engine
from probprop.inference.native import scale_mixture
from probprop.inference.noise import LogScale, Noise
from probprop.inference.standardize import Standardizer
from probprop.reference import likelihoods

# In addition to log Z of one point a likelihood has:
#
#   task                  "regression" or "classification"
#   n_outputs             units of the last layer
#   n_classes             outputs of which a label is the largest; 1 where each has its own target
#   learns_tail           whether epochs learn how heavy the tails of the noise of each output are
#   standardizes_target   whether the targets are brought to zero mean and unit variance
#   noise_prior           shape and rate of the Gamma prior of the noise precision
#   encode(y)             checks targets; numbers, (n,) or (n, K), not yet standardized
#   predictive(m, v, …)   the predictive distribution of rows, given the moments of their outputs,
#                         (n,) or (n, K), standardized


# ---- Values


@dataclass(frozen=True)
class Gaussian:
    """Values with Gaussian noise, whose precision is learned for each target: [PBP15] Eq. (1)."""

    n_targets: int = 1
    noise_shape: float = 6.0  # Gamma prior of the noise precision, for standardized targets
    noise_rate: float = 6.0

    name = likelihoods.GAUSSIAN.name
    task = "regression"
    learns_noise = True
    learns_tail = False
    n_classes = 1
    weights_divide_noise = True
    standardizes_target = True
    log_Z = staticmethod(likelihoods.GAUSSIAN.log_Z)

    @property
    def n_outputs(self) -> int:
        return self.n_targets

    @property
    def noise_prior(self) -> tuple[float, float]:
        return float(self.noise_shape), float(self.noise_rate)

    def encode(self, y: Array) -> Array:
        if count_targets(y) != self.n_targets:
            raise ValueError(
                f"y has {count_targets(y)} target(s) in each row, but the model was fitted on "
                f"{self.n_targets}."
            )
        return y

    def predictive(
        self, m: FloatArray, v: FloatArray, noise: Noise, standardizer: Standardizer, engine: Engine
    ) -> Mixture:
        """Return the Gaussian of [PBP15] Eq. (12) for every row, in target units.

        If the variance of the noise is uncertain, the mixture over it.
        """
        location, scale = standardizer.y_mean, standardizer.y_scale
        # The reference engine has moments of its dtype, which is kept for one target.
        several = self.n_targets > 1 and not standardizer.leaves_targets
        dtype = scale.dtype if several else m.dtype
        in_dtype = scale.astype(dtype)
        # In place: with many rows every copy takes its time.
        mean = m * in_dtype
        mean += location.astype(dtype)
        epistemic_std = np.sqrt(v).astype(dtype, copy=False)
        epistemic_std *= in_dtype
        aleatoric_std = np.sqrt(noise.variance) * scale
        tail = noise.log_scale.variance if noise.varies or self.learns_tail else None
        return Mixture.of_one(mean, epistemic_std, aleatoric_std, tail=tail)


@dataclass(frozen=True)
class Heavy(Gaussian):
    """Values with heavy-tailed noise: its variance is log-normal around the level of the Gamma."""

    name = likelihoods.HEAVY.name
    learns_tail = True
    log_Z = staticmethod(likelihoods.HEAVY.log_Z)


NOISE_TAILS: dict[str, type[Gaussian]] = {"gaussian": Gaussian, "heavy": Heavy}
"""The likelihoods of a regression by the tails of its noise."""


def count_targets(y: Array) -> int:
    """Return K for targets of shape (n, K), 1 for (n,)."""
    return 1 if y.ndim == 1 else int(y.shape[1])


@dataclass(frozen=True)
class Scale:
    """Residuals whose noise variance is a level times the exponential of an output."""

    n_outputs: int = 1  # one per residual of a row
    learns_tail: bool = False  # whether a variance is learned that no output explains

    name = likelihoods.SCALE.name
    task = "regression"
    learns_noise = False
    weights_divide_noise = False
    standardizes_target = False
    n_classes = 1
    noise_prior = (2.0, 1.0)  # not used; as of a fixed noise
    log_Z = staticmethod(likelihoods.SCALE.log_Z)

    def encode(self, y: Array) -> FloatArray:
        """Return residuals, variances of their means and levels: (n, 3 K), K columns of each."""
        return np.asarray(y, np.float64)

    def predictive(
        self, m: FloatArray, v: FloatArray, noise: Noise, standardizer: Standardizer, engine: Engine
    ) -> LogScale:
        """Return the distribution of the logarithm of the noise variance for every row."""
        return LogScale(m.astype(np.float64), v.astype(np.float64) + noise.log_scale.variance)

    def log_p(self, predictive: LogScale, y: Array) -> FloatArray:
        """Return the log density of the residuals of each row together, (n,)."""
        residual, variance, level = (a.ravel() for a in np.split(y, 3, axis=1))
        mu = np.log(level) + predictive.mean.ravel()
        log_Z = scale_mixture(residual, variance, mu, predictive.variance.ravel())[0]
        return np.asarray(log_Z.reshape(len(y), -1).sum(axis=1))


# ---- Class labels

Outputs = Sequence[tuple[FloatArray, FloatArray]]  # moments of the outputs of several networks


@dataclass(frozen=True, eq=False)
class _OfLabels(ABC):
    """What both likelihoods of a classification have in common."""

    classes: Array  # (n_classes,), sorted; or (n_labels,), the indices of the columns of labels

    task = "classification"
    learns_noise = False
    learns_tail = False
    weights_divide_noise = False
    standardizes_target = False
    # beta/(alpha - 1) = 1, the unit noise. As powers of two, tempering leaves them exact.
    noise_prior = (2.0, 1.0)

    def predictive(
        self, m: FloatArray, v: FloatArray, noise: Noise, standardizer: Standardizer, engine: Engine
    ) -> ClassMixture:
        return self.of_outputs(m.astype(np.float64), v.astype(np.float64), engine)

    @abstractmethod
    def of_outputs(self, mean: FloatArray, variance: FloatArray, engine: Engine) -> ClassMixture:
        """Return the distribution of labels, given the moments of the outputs."""


@dataclass(frozen=True, eq=False)
class Probit(_OfLabels):
    """Two classes, or multilabel targets: the sign of each noisy output."""

    multilabel: bool = False  # whether targets are a matrix of labels, one output per column

    name = likelihoods.PROBIT.name
    n_classes = 1
    log_Z = staticmethod(likelihoods.PROBIT.log_Z)

    @property
    def n_outputs(self) -> int:
        return len(self.classes) if self.multilabel else 1

    def encode(self, y: Array) -> FloatArray:
        """Return labels as +1 and -1, (n,) or (n, n_labels)."""
        if self.multilabel:
            n_labels = len(self.classes)
            _check_shape(y, (n_labels,), f"(n_samples, {n_labels}), a matrix of labels")
            return np.where(y == 0, -1.0, 1.0)
        return 2.0 * _class_index(y, self.classes) - 1.0

    def of_outputs(self, mean: FloatArray, variance: FloatArray, engine: Engine) -> ClassMixture:
        z = mean / np.sqrt(1.0 + variance)
        log_proba = log_ndtr(z if self.multilabel else np.stack([-z, z], axis=1))
        return ClassMixture.of_one(mean, np.sqrt(variance), log_proba, self.multilabel)

    def log_p(self, predictive: ClassMixture, y: Array) -> FloatArray:
        """Return the sum of the log probabilities of all labels of each row, (n,)."""
        of_members = log_ndtr(y * predictive.means / np.hypot(1.0, predictive.stds))
        return np.asarray(log_mean(of_members, predictive.weights).reshape(len(y), -1).sum(axis=1))

    def log_p_of_outputs(
        self, outputs: Outputs, y: Array, engine: Engine, weights: FloatArray | None = None
    ) -> FloatArray:
        """Return the same for the mixture of networks, given the moments of their outputs."""
        predictives = [self.of_outputs(m, v, engine) for m, v in outputs]
        return self.log_p(ClassMixture.of(predictives, weights), y)


@dataclass(frozen=True, eq=False)
class Multinomial(_OfLabels):
    """Three classes or more: the index of the largest output, once each has unit noise."""

    multilabel = False
    name = likelihoods.MULTINOMIAL.name
    log_Z = staticmethod(likelihoods.MULTINOMIAL.log_Z)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    n_outputs = n_classes

    def encode(self, y: Array) -> FloatArray:
        """Return the index of the class of every label, (n,)."""
        return _class_index(y, self.classes)

    def of_outputs(self, mean: FloatArray, variance: FloatArray, engine: Engine) -> ClassMixture:
        log_proba = engine.class_log_probabilities(mean, variance)
        return ClassMixture.of_one(mean, np.sqrt(variance), log_proba)

    def log_p(self, predictive: ClassMixture, y: Array) -> FloatArray:
        return np.asarray(predictive.log_proba[np.arange(len(y)), y.astype(int)])

    def log_p_of_outputs(
        self, outputs: Outputs, y: Array, engine: Engine, weights: FloatArray | None = None
    ) -> FloatArray:
        """Return the same for the mixture of networks, given the moments of their outputs.

        The probabilities of the other classes are not computed, which saves time.
        """
        c = y.astype(np.int64)
        log_p = np.stack([engine.class_log_probability(m, v, c) for m, v in outputs])
        return log_mean(log_p, weights)


LabelLikelihood = Probit | Multinomial
Likelihood = Gaussian | Scale | LabelLikelihood


def of_labels(labels: Array, classes: ArrayLike | None) -> LabelLikelihood:
    """Return the likelihood of the labels of the first call, (n,) or (n, n_labels).

    `classes` contains all classes. It is not needed for a matrix of labels, whose classes are its
    columns.
    """
    if labels.ndim == 2:
        return of_classes(np.arange(labels.shape[1]), multilabel=True)
    if classes is None:
        raise ValueError("classes must be passed on the first call to partial_fit.")
    unique_labels(np.asarray(classes))  # refuses values that cannot be labels
    known = np.unique(classes)
    if len(known) < 2:
        raise ValueError(
            "y must have samples of at least 2 classes, but the data contains only one class: "
            f"{known.tolist()[0]!r}."
        )
    return of_classes(known, multilabel=False)


def of_classes(classes: Array, *, multilabel: bool) -> LabelLikelihood:
    """Return the likelihood of these classes, sorted, or of the columns of a matrix of labels."""
    binary = multilabel or len(classes) == 2
    return Probit(classes, multilabel) if binary else Multinomial(classes)


def _check_shape(labels: Array, columns: tuple[int, ...], wanted: str) -> None:
    """Refuse labels whose shape is not (n, *columns)."""
    if labels.shape[1:] != columns:
        raise ValueError(
            f"y has the shape {labels.shape}, but must be {wanted} as on the first call."
        )


def _class_index(labels: Array, classes: Array) -> FloatArray:
    """Return the index of the class of every label, (n,); refuse labels of no known class."""
    _check_shape(labels, (), "(n_samples,), classes")
    if len(both := unique_labels(classes, labels)) > len(classes):
        unknown = np.setdiff1d(both, classes)
        raise ValueError(
            f"The target label(s) {unknown} in y do not exist in the initial classes {classes}"
        )
    return np.searchsorted(classes, labels).astype(np.float64)
