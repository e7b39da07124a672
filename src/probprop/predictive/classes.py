"""The predictive distribution of labels, and how much of its entropy more data could remove."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import entr, log_ndtr, logsumexp, ndtr, ndtri
from scipy.stats import qmc

from probprop._types import FloatArray
from probprop.predictive.checks import Rows, as_rows
from probprop.predictive.protocol import ClassDistribution

# H(Phi(f)) is close to log 2 exp(-f^2/(2 a)): both it and its tails have this width.
_BUMP_VARIANCE = 0.5 * math.pi * math.log(2.0)
_STEPS = np.linspace(-10.0, 10.0, 81)  # in standard deviations of the integrand

_N_DRAWS = 128  # of the outputs, the same for all rows; a power of two, as Sobol points need
_WINNER = np.arange(-5.0, 9.0, 0.4)  # the largest noisy output less the largest output
_BLOCK_ENTRIES = 1 << 22  # of a temporary array


@dataclass(frozen=True, eq=False, repr=False)
class ClassPredictive(ClassDistribution):
    """The predictive distribution of the labels of n rows.

    The outputs of the network are independent Gaussians under q. A label is what they say once
    each has unit noise: for two classes the sign of the one output, for more the index of the
    largest, for several labels the sign of each. `entropy` is split into `entropy_model`, what
    the model does not know, and `entropy_noise`, what stays random if all weights are known.

    Parameters
    ----------
    mean, std : ndarray of shape (n,), or (n, n_outputs) for several outputs
        Mean and standard deviation, above 0, of the outputs, in units of their noise.
    log_proba : ndarray of shape (n, n_classes), or (n, n_labels)
        Log of the probability of every class, or that each label is present.
    multilabel : bool, default=False
        Whether the columns are labels, any number of which may be present, and not classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probprop import PBPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PBPClassifier((10,), n_epochs=10, random_state=0).fit(X, y)
    >>> near, far = X[:1], 10.0 * X[:1]
    >>> predicted = model.predict_distribution([*near, *far])
    >>> predicted.proba.shape, predicted.entropy.shape
    ((2, 3), (2,))
    >>> bool(predicted.entropy_model[1] > predicted.entropy_model[0])
    True
    """

    mean: FloatArray
    std: FloatArray
    log_proba: FloatArray
    multilabel: bool = False

    def __getitem__(self, rows: Rows) -> Self:
        at = as_rows(rows)
        return type(self)(self.mean[at], self.std[at], self.log_proba[at], self.multilabel)

    @property
    def _is_probit(self) -> bool:
        return self.multilabel or self.mean.ndim == 1

    @cached_property
    def entropy(self) -> FloatArray:
        """Entropy of the label in nats, (n,); for several labels that of each, (n, n_labels)."""
        if self._is_probit:
            z = self.mean / np.hypot(1.0, self.std)
            return binary_entropy(z)
        entropy: FloatArray = -(self.proba * self.log_proba).sum(axis=1)
        return entropy

    @cached_property
    def entropy_model(self) -> FloatArray:
        """Mutual information of label and outputs in nats: what more data could remove.

        By quadrature for each probit. For three classes or more by 128 draws of the outputs, the
        same Sobol points for all rows: within a few per cent, and never below 0.
        """
        if self._is_probit:
            return np.maximum(0.0, self.entropy - expected_binary_entropy(self.mean, self.std))
        return np.minimum(self.entropy, drawn_information(self.mean, self.std))

    @property
    def entropy_noise(self) -> FloatArray:
        """Expected entropy of the label given the outputs in nats: what stays random."""
        return self.entropy - self.entropy_model


@dataclass(frozen=True, eq=False, repr=False)
class ClassMixture(ClassDistribution):
    """The predictive distribution of the labels of n rows by several networks: their mixture.

    `entropy_noise` is what the members themselves take to be random; `entropy_model` is what each
    of them does not know, and what they disagree about.

    Parameters
    ----------
    members : tuple of ClassPredictive
        One or more, for the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> log_p = np.log([[0.1, 0.9]])
    >>> sure = ClassPredictive(np.array([1.2816]), np.array([1e-9]), log_p)
    >>> of_another_mind = ClassPredictive(-sure.mean, sure.std, log_p[:, ::-1])
    >>> mixture = ClassMixture((sure, of_another_mind))
    >>> mixture.proba, mixture.entropy.round(3), mixture.entropy_noise.round(3)
    (array([[0.5, 0.5]]), array([0.693]), array([0.325]))
    """

    members: tuple[ClassPredictive, ...]

    @property
    def multilabel(self) -> bool:
        """Whether the columns are labels, any number of which may be present, and not classes."""
        return self.members[0].multilabel

    @property
    def mean(self) -> FloatArray:
        """Mean of the outputs, (n,) or (n, n_outputs), in units of their noise."""
        mean: FloatArray = np.mean([p.mean for p in self.members], axis=0)
        return mean

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the outputs, shaped as `mean`: within members and among them."""
        within = np.mean([p.std**2 for p in self.members], axis=0)
        std: FloatArray = np.sqrt(within + np.var([p.mean for p in self.members], axis=0))
        return std

    @cached_property
    def log_proba(self) -> FloatArray:
        """Log of the mean of the members' probabilities, shaped as in `ClassPredictive`."""
        return log_mean([p.log_proba for p in self.members])

    def __getitem__(self, rows: Rows) -> Self:
        return type(self)(tuple(p[rows] for p in self.members))

    @cached_property
    def entropy(self) -> FloatArray:
        """Entropy of the label in nats, (n,); for several labels that of each, (n, n_labels)."""
        surprise = -self.proba * self.log_proba
        if not self.multilabel:
            total: FloatArray = surprise.sum(axis=1)
            return total
        log_absent = log_mean([log_ndtr(-p.mean / np.hypot(1.0, p.std)) for p in self.members])
        return surprise - np.exp(log_absent) * log_absent

    @cached_property
    def entropy_noise(self) -> FloatArray:
        """Expected entropy of the label given network and outputs in nats: what stays random."""
        noise: FloatArray = np.mean([p.entropy_noise for p in self.members], axis=0)
        return noise

    @property
    def entropy_model(self) -> FloatArray:
        """Mutual information of label, network and outputs in nats: what more data could remove."""
        return np.maximum(0.0, self.entropy - self.entropy_noise)


def log_mean(logs: list[FloatArray]) -> FloatArray:
    """Return the log of the mean of values whose logs are given, elementwise.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(log_mean([np.log([0.2]), np.log([0.4])])).round(6)
    array([0.3])
    """
    mean: FloatArray = logsumexp(logs, axis=0) - math.log(len(logs))
    return mean


def binary_entropy(z: FloatArray) -> FloatArray:
    """Return the entropy of a label of probability Phi(z), accurate in both tails.

    Examples
    --------
    >>> import numpy as np
    >>> binary_entropy(np.array([0.0, 1.0, -40.0])).round(6)
    array([0.693147, 0.437433, 0.      ])
    """
    entropy: FloatArray = -(ndtr(z) * log_ndtr(z) + ndtr(-z) * log_ndtr(-z))
    return entropy


def expected_binary_entropy(mean: FloatArray, std: FloatArray) -> FloatArray:
    """Return E[H(Phi(f))] for f ~ N(mean, std^2), of any shape.

    The integrand is nearly a Gaussian, the product of two; the trapezoidal rule over it is
    accurate to 1e-12 for any mean and any positive std.

    Examples
    --------
    >>> import numpy as np
    >>> expected_binary_entropy(np.array([0.0, 0.0]), np.array([1e-9, 1.0])).round(4)
    array([0.6931, 0.5   ])
    """
    m, s = mean[..., np.newaxis], std[..., np.newaxis]
    v_sum = s * s + _BUMP_VARIANCE
    width = s * np.sqrt(_BUMP_VARIANCE / v_sum)
    # f - m is written out, so that a small std loses no digits.
    deviation = width * _STEPS - m * s * s / v_sum
    density = np.exp(-0.5 * (deviation / s) ** 2) / (math.sqrt(2.0 * math.pi) * s)
    step = width[..., 0] * (_STEPS[1] - _STEPS[0])
    expected: FloatArray = step * (density * binary_entropy(m + deviation)).sum(axis=-1)
    return expected


def drawn_information(mean: FloatArray, std: FloatArray) -> FloatArray:
    """Return H(E[p]) - E[H(p)] over draws of the outputs, p being the classes' probabilities.

    Both terms use the same draws, so their errors cancel where the outputs vary little.

    Parameters
    ----------
    mean, std : ndarray of shape (n, K)

    Returns
    -------
    ndarray of shape (n,)
        In nats, at least 0.
    """
    n, K = mean.shape
    normal = normal_draws(K)
    information = np.empty(n)
    step = max(1, _BLOCK_ENTRIES // (_N_DRAWS * K * len(_WINNER)))
    for rows in (slice(i, i + step) for i in range(0, n, step)):
        p = known_probabilities(mean[rows, np.newaxis] + std[rows, np.newaxis] * normal)
        spread = entr(p.mean(axis=1)).sum(axis=-1) - entr(p).sum(axis=-1).mean(axis=1)
        information[rows] = np.maximum(0.0, spread)
    return information


def normal_draws(n_outputs: int) -> FloatArray:
    """Return the standard normal draws of the outputs, (128, n_outputs): Sobol points."""
    normal: FloatArray = ndtri(qmc.Sobol(n_outputs, seed=0).random(_N_DRAWS))
    return normal


def known_probabilities(f: FloatArray) -> FloatArray:
    """Return the probability of every class when the outputs are known, (..., K).

    The density of the largest noisy output t is divided among the classes: all factors have
    unit width, so one grid around the largest output serves them all.

    Examples
    --------
    >>> import numpy as np
    >>> known_probabilities(np.array([0.0, 0.0, 1.0])).round(4)
    array([0.1831, 0.1831, 0.6337])
    """
    z = f.max(axis=-1)[..., np.newaxis, np.newaxis] - f[..., np.newaxis] + _WINNER  # (..., K, T)
    log_below = log_ndtr(z)
    log_others = log_below.sum(axis=-2, keepdims=True) - log_below
    p: FloatArray = np.exp(log_others - 0.5 * z * z).sum(axis=-1)
    p /= p.sum(axis=-1, keepdims=True)
    return p
