"""Three classes or more: the index of the largest output, once each has unit noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture, log_mean
from probprop.inference.engine import Engine
from probprop.inference.likelihoods.labels import class_index
from probprop.inference.noise import Noise
from probprop.inference.posterior import Posterior
from probprop.inference.standardize import Standardizer
from probprop.reference.likelihoods import MULTINOMIAL, Evidence


@dataclass(frozen=True, eq=False)
class Multinomial:
    """The class is the index of the largest output.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted; three or more.

    Examples
    --------
    >>> import numpy as np
    >>> Multinomial(np.array(["a", "b", "c"])).encode(np.array(["c", "a"]))
    array([2., 0.])
    """

    classes: Array

    multilabel = False
    name = MULTINOMIAL.name
    task = "classification"
    learns_noise = False
    learns_tail = False
    weights_divide_noise = False
    standardises_target = False
    # beta/(alpha - 1) = 1, the unit noise. As powers of two, tempering leaves them exact.
    noise_prior = (2.0, 1.0)

    @property
    def n_outputs(self) -> int:
        """One per class."""
        return len(self.classes)

    @property
    def n_classes(self) -> int:
        """The same: a label is the largest of them."""
        return len(self.classes)

    def encode(self, y: Array) -> FloatArray:
        """Return the index of the class of every label, (n,)."""
        return class_index(y, self.classes).astype(np.float64)

    def log_Z(
        self,
        m: FloatArray,
        v: FloatArray,
        y: FloatArray,
        noise_variance: FloatArray,
        tail: FloatArray | None = None,
    ) -> Evidence:
        """Evaluate the log of the probability that the output of the class is the largest."""
        return MULTINOMIAL.log_Z(m, v, y, noise_variance, tail)

    def predictive(
        self,
        mean: FloatArray,
        variance: FloatArray,
        noise: Noise,
        posterior: Posterior,
        standardizer: Standardizer,
        engine: Engine,
    ) -> ClassMixture:
        """Return the probability of every class."""
        return self.of_outputs(mean.astype(np.float64), variance.astype(np.float64), engine)

    def of_outputs(self, mean: FloatArray, variance: FloatArray, engine: Engine) -> ClassMixture:
        """Return the same, given the moments of the outputs in units of their noise."""
        log_proba = engine.class_log_probabilities(mean, variance)
        return ClassMixture.of_one(mean, np.sqrt(variance), log_proba)

    def log_p(self, predictive: ClassMixture, y: Array) -> FloatArray:
        """Return the log probability of the class of each row, (n,)."""
        log_p: FloatArray = predictive.log_proba[np.arange(len(y)), y.astype(int)]
        return log_p

    def log_p_of_outputs(
        self, outputs: Sequence[tuple[FloatArray, FloatArray]], y: Array, engine: Engine
    ) -> FloatArray:
        """Return the same for the mixture of networks, given the moments of their outputs.

        The other classes' probabilities are not computed: their number is the factor saved.
        """
        c = y.astype(np.int64)
        return log_mean(np.stack([engine.class_log_probability(m, v, c) for m, v in outputs]))

    def mixture(self, predictives: Sequence[ClassMixture]) -> ClassMixture:
        """Return the equal mixture of several networks."""
        return ClassMixture.of(predictives)

    def point(self, predictive: ClassMixture) -> Array:
        """Return the most probable class."""
        return predictive.most_probable(self.classes)
