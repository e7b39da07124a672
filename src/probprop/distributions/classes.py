"""The predictive distribution of class labels, and the two parts of its entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, log_ndtr, logsumexp, ndtr, ndtri
from scipy.stats import qmc

from probprop._types import Array, FloatArray
from probprop.distributions.base import Rows, as_rows, average, member_weights, short_repr, span

if TYPE_CHECKING:
    from pandas import DataFrame

# H(Phi(f)) is close to log 2 exp(-f^2/(2 a)): both it and its tails have this width.
_BUMP_VARIANCE = 0.5 * math.pi * math.log(2.0)
_STEPS = np.linspace(-10.0, 10.0, 81)  # in standard deviations of the integrand

_N_DRAWS = 128  # of the outputs, the same for all samples; a power of two, as Sobol points need
_WINNER = np.arange(-5.0, 9.0, 0.4)  # the largest noisy output minus the largest output
_BLOCK_ENTRIES = 1 << 22  # of a temporary array


@dataclass(frozen=True, eq=False, repr=False)
class ClassMixture:
    """The predictive distribution of the class labels of n samples: a mixture of S networks.

    The outputs of a network are independent Gaussians under q. A label is determined by the outputs
    with unit noise: for two classes the sign of the one output, for more the index of the largest,
    for several labels the sign of each. `entropy` has two parts: `entropy_noise` (aleatoric)
    remains if all weights are known; `entropy_model` (epistemic), including disagreement of
    networks, decreases with more data. ``p[10:20]`` is the distribution of some samples.

    Parameters
    ----------
    means, stds : ndarray of shape (S, n), or (S, n, n_outputs) for several outputs
        Mean and standard deviation, above 0, of the outputs, in units of their noise.
    log_probas : ndarray of shape (S, n, n_classes), or (S, n, n_labels)
        Log of the probability of every class, or that each label is present.
    multilabel : bool, default=False
        Whether the columns are labels, any number of which may be present, and not classes.
    weights : array-like of shape (S,), default=None
        Weights of the networks, 0 or more; None means equal weights. The attribute sums to 1.

    Examples
    --------
    >>> import numpy as np
    >>> log_p = np.log([[[0.1, 0.9]], [[0.9, 0.1]]])
    >>> p = ClassMixture(np.array([[1.2816], [-1.2816]]), np.full((2, 1), 1e-9), log_p)
    >>> p.proba, p.entropy.round(3), p.entropy_noise.round(3)
    (array([[0.5, 0.5]]), array([0.693]), array([0.325]))
    """

    means: FloatArray
    stds: FloatArray
    log_probas: FloatArray
    multilabel: bool = False
    weights: FloatArray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        vars(self)["weights"] = member_weights(self.weights, len(self.means))

    @classmethod
    def of_one(
        cls, mean: FloatArray, std: FloatArray, log_proba: FloatArray, multilabel: bool = False
    ) -> Self:
        """Return the distribution of a single network; arrays as in the class, without S."""
        return cls(mean[np.newaxis], std[np.newaxis], log_proba[np.newaxis], multilabel)

    @classmethod
    def of(cls, members: Sequence[ClassMixture], weights: ArrayLike | None = None) -> Self:
        """Return the mixture of mixtures of the same samples; None stands for equal weights."""
        means, stds = (np.concatenate([getattr(p, k) for p in members]) for k in ("means", "stds"))
        log_probas = np.concatenate([p.log_probas for p in members])
        share = np.repeat(member_weights(weights, len(members)), [p.n_components for p in members])
        share *= np.concatenate([p.weights for p in members])
        return cls(means, stds, log_probas, members[0].multilabel, share)

    @property
    def n_components(self) -> int:
        """Number of networks."""
        return len(self.means)

    @property
    def mean(self) -> FloatArray:
        """Mean of the outputs, (n,) or (n, n_outputs), in units of their noise."""
        return average(self.means, self.weights)

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the outputs, shaped as `mean`: within networks and among them."""
        return np.sqrt(average(self.stds**2 + (self.means - self.mean) ** 2, self.weights))

    @cached_property
    def log_proba(self) -> FloatArray:
        """Log probability of every class, (n, n_classes), or label, (n, n_labels)."""
        return log_mean(self.log_probas, self.weights)

    @property
    def proba(self) -> FloatArray:
        """Probabilities, (n, n_classes), each row summing to 1; or of each label, (n, n_labels)."""
        return np.exp(self.log_proba)

    @cached_property
    def entropy(self) -> FloatArray:
        """Entropy of the label in nats, (n,); of each of several labels, (n, n_labels)."""
        if self.n_components == 1:
            return average(self._entropies, self.weights)
        surprise = _surprise(self.log_proba)
        if not self.multilabel:
            return np.asarray(surprise.sum(axis=1))
        log_absent = log_ndtr(-self.means / np.hypot(1.0, self.stds))
        return surprise + _surprise(log_mean(log_absent, self.weights))

    @cached_property
    def entropy_noise(self) -> FloatArray:
        """Expected entropy of the label given network and outputs in nats, shaped as `entropy`.

        By quadrature for each probit. For three classes or more by 128 draws of the outputs, the
        same Sobol points for all samples: `entropy_model` within a few percent, and never below 0.
        """
        return average(self._entropies - self._information, self.weights)

    @property
    def entropy_model(self) -> FloatArray:
        """Mutual information of label, network and outputs in nats, shaped as `entropy`."""
        if self.n_components == 1:  # the difference would lose digits of a small information
            return average(self._information, self.weights)
        return np.maximum(0.0, self.entropy - self.entropy_noise)

    @property
    def _is_probit(self) -> bool:
        return self.multilabel or self.means.ndim == 2

    @cached_property
    def _entropies(self) -> FloatArray:
        """Entropy of the label by each network, (S, n) or (S, n, n_labels)."""
        if self._is_probit:
            return binary_entropy(self.means / np.hypot(1.0, self.stds))
        return np.asarray(_surprise(self.log_probas).sum(axis=-1))

    @cached_property
    def _information(self) -> FloatArray:
        """Mutual information of label and outputs of each network, shaped as `_entropies`."""
        own = self._entropies
        if self._is_probit:
            return np.maximum(0.0, own - expected_binary_entropy(self.means, self.stds))
        flat = (a.reshape(-1, a.shape[-1]) for a in (self.means, self.stds))
        return np.minimum(own, drawn_information(*flat).reshape(own.shape))

    def __len__(self) -> int:
        return len(self.means[0])

    def __getitem__(self, rows: Rows) -> Self:
        at = slice(None), as_rows(rows)
        arrays = self.means[at], self.stds[at], self.log_probas[at]
        return type(self)(*arrays, self.multilabel, self.weights)

    def __repr__(self) -> str:
        n, n_columns = self.log_probas.shape[1:]
        what = "labels" if self.multilabel else "classes"
        spans = [span("entropy", self.entropy)] if n else []
        words = (f"n={n}", f"n_{what}={n_columns}", *spans, f"n_components={len(self.means)}")
        return short_repr(self, *words)

    def most_probable(self, classes: ArrayLike | None = None) -> Array:
        """Return the most probable class of each sample, (n,), or which labels are present.

        `classes` has the classes in the order of the columns; None counts them from 0. Multilabel
        targets have the shape (n, n_labels), and 1 where a label is more probable than not.
        """
        if self.multilabel:
            return (self.log_proba > math.log(0.5)).astype(int)
        index: Array = self.log_proba.argmax(axis=1)
        return index if classes is None else np.asarray(classes)[index]

    def to_frame(self, classes: ArrayLike | None = None) -> DataFrame:
        """Return a pandas DataFrame with one row per sample.

        It has the columns predicted_class, p_CLASS for every class, entropy, entropy_model and
        entropy_noise. Several labels have their own: p_LABEL, entropy_LABEL and so on. `classes`
        has the classes or labels in the order of the columns; None counts them from 0.
        """
        import pandas as pd

        names = range(self.log_probas.shape[-1]) if classes is None else np.asarray(classes)
        parts = {k: getattr(self, k) for k in ("entropy", "entropy_model", "entropy_noise")}
        of_each = {
            f"{k}_{name}": column
            for k, part in {"p": self.proba, **(parts if self.multilabel else {})}.items()
            for name, column in zip(names, part.T, strict=True)
        }
        if self.multilabel:
            return pd.DataFrame(of_each)
        return pd.DataFrame({"predicted_class": self.most_probable(classes), **of_each, **parts})


def log_mean(logs: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the log of the weighted mean over the first axis of values whose logs are given."""
    w = member_weights(weights, len(logs))
    if len(logs) == 1:
        return average(logs, w)
    return np.asarray(logsumexp(logs, axis=0, b=w.reshape(-1, *(1,) * (logs.ndim - 1))))


def _surprise(log_p: FloatArray) -> FloatArray:
    """Return -p log p, 0 for p = 0; `entr` of p would lose the digits of p close to 1."""
    return -np.exp(log_p) * np.maximum(log_p, np.finfo(np.float64).min)


def binary_entropy(z: FloatArray) -> FloatArray:
    """Return the entropy of a label of probability Phi(z), accurate in both tails."""
    return np.asarray(-(ndtr(z) * log_ndtr(z) + ndtr(-z) * log_ndtr(-z)))


def expected_binary_entropy(mean: FloatArray, std: FloatArray) -> FloatArray:
    """Return E[H(Phi(f))] for f ~ N(mean, std^2), of any shape.

    The integrand is nearly a Gaussian, the product of two; the trapezoidal rule over it is
    accurate to 1e-12 for any mean and any positive std.
    """
    m, s = mean[..., np.newaxis], std[..., np.newaxis]
    v_sum = s * s + _BUMP_VARIANCE
    width = s * np.sqrt(_BUMP_VARIANCE / v_sum)
    # f - m is written out, so that a small std loses no digits.
    deviation = width * _STEPS - m * s * s / v_sum
    density = np.exp(-0.5 * (deviation / s) ** 2) / (math.sqrt(2.0 * math.pi) * s)
    step = width[..., 0] * (_STEPS[1] - _STEPS[0])
    return np.asarray(step * (density * binary_entropy(m + deviation)).sum(axis=-1))


def drawn_information(mean: FloatArray, std: FloatArray) -> FloatArray:
    """Return H(E[p]) - E[H(p)] over draws of the outputs, p being the classes' probabilities.

    Both terms use the same draws, so their errors cancel where the outputs vary little. Moments
    have the shape (n, K), the result, in nats and at least 0, the shape (n,).
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
    return np.asarray(ndtri(qmc.Sobol(n_outputs, seed=0).random(_N_DRAWS)))


def known_probabilities(f: FloatArray) -> FloatArray:
    """Return the probability of every class when the outputs are known, (..., K).

    The density of the largest noisy output t is divided among the classes: all factors have
    unit width, so one grid around the largest output serves them all.
    """
    z = f.max(axis=-1)[..., np.newaxis, np.newaxis] - f[..., np.newaxis] + _WINNER  # (..., K, T)
    log_below = log_ndtr(z)
    log_others = log_below.sum(axis=-2, keepdims=True) - log_below
    p: FloatArray = np.exp(log_others - 0.5 * z * z).sum(axis=-1)
    p /= p.sum(axis=-1, keepdims=True)
    return p
