"""The likelihoods, one file each: what a target is to the outputs of the network."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import Array
from probprop.inference.likelihoods.gaussian import Gaussian
from probprop.inference.likelihoods.heavy import Heavy
from probprop.inference.likelihoods.labels import check_classes, check_same_classes
from probprop.inference.likelihoods.multinomial import Multinomial
from probprop.inference.likelihoods.probit import Probit
from probprop.inference.likelihoods.protocol import Likelihood
from probprop.inference.likelihoods.scale import Scale

__all__ = [
    "NOISE_TAILS",
    "Gaussian",
    "Heavy",
    "LabelLikelihood",
    "Likelihood",
    "Multinomial",
    "Probit",
    "Scale",
    "check_same_classes",
    "of_classes",
    "of_labels",
]

NOISE_TAILS: dict[str, type[Gaussian]] = {"gaussian": Gaussian, "heavy": Heavy}
"""The likelihoods of a regression by the tails of its noise."""

LabelLikelihood = Probit | Multinomial
"""The likelihoods of a classification."""


def of_labels(labels: Array, classes: ArrayLike | None) -> LabelLikelihood:
    """Return the likelihood of the labels of the first call.

    Parameters
    ----------
    labels : ndarray of shape (n,) or (n, n_labels)
        A matrix of labels has its columns as classes.
    classes : array-like or None
        Values among which all classes are; a matrix of labels needs none.
    """
    if labels.ndim == 2:
        return of_classes(np.arange(labels.shape[1]), multilabel=True)
    if classes is None:
        raise ValueError("classes must be passed on the first call to partial_fit.")
    return of_classes(check_classes(np.asarray(classes)), multilabel=False)


def of_classes(classes: Array, *, multilabel: bool) -> LabelLikelihood:
    """Return the likelihood of these classes, sorted, or of the columns of a matrix of labels."""
    if multilabel or len(classes) == 2:
        return Probit(classes, multilabel)
    return Multinomial(classes)
