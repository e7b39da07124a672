"""Two classes, or labels of which any number may be there: the sign of each output with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.inference.engine import Engine
from probprop.inference.likelihoods.labels import check_shape, class_index
from probprop.inference.noise import Noise
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer
from probprop.reference.likelihoods import PROBIT, Evidence


@dataclass(frozen=True, eq=False)
class Probit:
    """The label is +1 where the output, with unit noise, is positive.

    Parameters
    ----------
    classes : ndarray of shape (2,), or (n_labels,) if multilabel
        The two classes, sorted; or the indices of the columns of a matrix of labels.
    multilabel : bool, default=False
        Whether targets are a matrix of labels, one output per column.

    Examples
    --------
    >>> import numpy as np
    >>> Probit(np.array(["no", "yes"])).encode(np.array(["yes", "no"]))
    array([ 1., -1.])
    """

    classes: Array
    multilabel: bool = False

    name = PROBIT.name
    task = "classification"
    learns_noise = False
    learns_tail = False
    n_classes = 1
    weights_divide_noise = False
    standardises_target = False
    # beta/(alpha - 1) = 1, the unit noise. As powers of two, tempering leaves them exact.
    noise_prior = (2.0, 1.0)

    @property
    def n_outputs(self) -> int:
        """One for two classes, or one per label."""
        return len(self.classes) if self.multilabel else 1

    def encode(self, y: Array) -> FloatArray:
        """Return labels as +1 and -1, (n,) or (n, n_labels)."""
        if self.multilabel:
            n_labels = len(self.classes)
            check_shape(y, (n_labels,), f"(n_samples, {n_labels}), a matrix of labels")
            return np.where(y == 0, -1.0, 1.0)
        return 2.0 * class_index(y, self.classes).astype(np.float64) - 1.0

    def log_Z(
        self,
        m: FloatArray,
        v: FloatArray,
        y: FloatArray,
        noise_variance: FloatArray,
        tail: FloatArray | None = None,
    ) -> Evidence:
        """Evaluate the sum of log Phi(y_k m_k/sqrt(1 + v_k)) of one point."""
        return PROBIT.log_Z(m, v, y, noise_variance, tail)

    def predictive(
        self,
        mean: FloatArray,
        variance: FloatArray,
        noise: Noise,
        posterior: Posterior,
        standardizer: Standardizer,
        engine: Engine,
    ) -> ClassMixture:
        """Return the probabilities of both classes, or of each label to be there."""
        return self.of_outputs(mean.astype(np.float64), variance.astype(np.float64), engine)

    def of_outputs(self, mean: FloatArray, variance: FloatArray, engine: Engine) -> ClassMixture:
        """Return the same, given the moments of the outputs in units of their noise."""
        z = mean / np.sqrt(1.0 + variance)
        log_proba = log_ndtr(z if self.multilabel else np.stack([-z, z], axis=1))
        return ClassMixture.of_one(mean, np.sqrt(variance), log_proba, self.multilabel)

    def log_p(self, predictive: ClassMixture, y: Array) -> FloatArray:
        """Return the sum of the log probabilities of all labels of each row, (n,)."""
        of_members = log_ndtr(y * predictive.means / np.hypot(1.0, predictive.stds))
        log_each = logsumexp(of_members, axis=0) - np.log(predictive.n_components)
        log_p: FloatArray = log_each.reshape(len(y), -1).sum(axis=1)
        return log_p

    def log_p_of_outputs(
        self, outputs: Sequence[tuple[FloatArray, FloatArray]], y: Array, engine: Engine
    ) -> FloatArray:
        """Return the same for the mixture of networks, given the moments of their outputs."""
        predictives = [self.of_outputs(m, v, engine) for m, v in outputs]
        return self.log_p(self.mixture(predictives), y)

    def mixture(self, predictives: Sequence[ClassMixture]) -> ClassMixture:
        """Return the equal mixture of several networks."""
        return ClassMixture.of(predictives)

    def point(self, predictive: ClassMixture) -> Array:
        """Return the more probable class, or the labels more probable than not."""
        return predictive.most_probable(self.classes)
