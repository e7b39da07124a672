"""What the predictive distributions have in common: those of targets, and those of labels.

A plot, a metric or a report asks for a `TargetDistribution` or a `ClassDistribution` and need not
know whether one network or several made it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.predictive.checks import Rows
from probprop.predictive.words import short_repr, span

if TYPE_CHECKING:
    from pandas import DataFrame

FRAME_COLUMNS = ("mean", "std", "std_model", "std_noise", "lower", "upper")
"""The columns of `TargetDistribution.to_frame`, for each target."""


class TargetDistribution(Protocol):
    """The predictive distribution of the targets of n rows, each row on its own.

    All arrays have the shape (n,), or (n, K) for K targets: each target of each row has its own
    distribution, and their joint log density is the sum over the targets. The variance of a
    target has two parts: that of the model, which more data could remove, and that of the noise,
    which may differ from row to row. ``p[10:20]`` is the distribution of some rows.
    """

    if TYPE_CHECKING:
        # Not at run time: a dataclass would take an inherited attribute for a field's default.
        @property
        def mean(self) -> FloatArray:
            """Mean of the target, in target units; (n,) or (n, K)."""

        @property
        def std_model(self) -> FloatArray:
            """Standard deviation of the network output, in target units; (n,) or (n, K)."""

        @property
        def std_noise(self) -> FloatArray:
            """Standard deviation of the noise, in target units; (n,) or (n, K)."""

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the target, noise included, in target units; (n,) or (n, K)."""
        # hypot, because squares of targets near 1e-200 or 1e200 are outside the range of floats.
        std: FloatArray = np.hypot(self.std_model, self.std_noise)
        return std

    @property
    def var_model(self) -> FloatArray:
        """Variance of the network output, in target units squared; (n,) or (n, K)."""
        return self.std_model**2

    @property
    def var_noise(self) -> FloatArray:
        """Variance of the noise, in target units squared; (n,) or (n, K)."""
        return self.std_noise**2

    @property
    def var(self) -> FloatArray:
        """Variance of the target: var_model + var_noise; (n,) or (n, K)."""
        return self.var_model + self.var_noise

    def components(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, and stds of model and noise, of S components, each (S, n) or (S, n, K)."""
        return self.mean[np.newaxis], self.std_model[np.newaxis], self.std_noise[np.newaxis]

    @abstractmethod
    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Log density of targets.

        Parameters
        ----------
        y : array_like, broadcasts against (n,) or (n, K)
            Targets, in target units.

        Returns
        -------
        ndarray
            Log density, per target unit, in the broadcast shape.

        Examples
        --------
        >>> from probprop import Mixture, Predictive
        >>> p = Predictive([1.0], [0.0], 2.0, 6.0)
        >>> p.logpdf([[1.0], [3.0]]).round(4)
        array([[-1.6121],
               [-2.1121]])
        >>> mixture = Mixture([[0.0], [4.0]], [[0.0], [0.0]], 2.0)
        >>> mixture.logpdf([[0.0], [2.0]]).round(4)
        array([[-2.1783],
               [-2.1121]])
        """

    @abstractmethod
    def cdf(self, y: ArrayLike) -> FloatArray:
        """Probability of a target at or below y; accurate in the lower tail too.

        Parameters
        ----------
        y : array_like, broadcasts against (n,) or (n, K)
            Targets, in target units.

        Returns
        -------
        ndarray
            Probabilities, in the broadcast shape.

        Examples
        --------
        >>> from probprop import Mixture, Predictive
        >>> p = Predictive([1.0], [0.0], 2.0, 6.0, student_t=True)
        >>> p.cdf([[1.0], [5.0]]).round(4)
        array([[0.5   ],
               [0.9755]])
        >>> mixture = Mixture([[0.0], [4.0]], [[0.0], [0.0]], 2.0)
        >>> mixture.cdf([[2.0], [6.0]]).round(4)
        array([[0.5 ],
               [0.92]])
        """

    @abstractmethod
    def quantile(self, q: ArrayLike) -> FloatArray:
        """The targets below which there is probability q.

        Parameters
        ----------
        q : float or array_like
            Probabilities, strictly between 0 and 1.

        Returns
        -------
        ndarray of shape q.shape + (n,) or q.shape + (n, K)
            Quantiles, in target units.

        Examples
        --------
        >>> from probprop import Mixture, Predictive
        >>> p = Predictive([0.0, 10.0], [3.0, 0.0], 4.0, 6.0)
        >>> p.quantile([0.1, 0.5]).round(2)
        array([[-6.41,  4.87],
               [ 0.  , 10.  ]])
        >>> mixture = Mixture([[0.0], [4.0]], [[0.0], [0.0]], 2.0)
        >>> mixture.quantile([0.1, 0.5]).round(2)
        array([[-1.7],
               [ 2. ]])
        """

    @abstractmethod
    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """The central interval that holds a target with probability `level`.

        Parameters
        ----------
        level : float, default=0.95
            Probability inside, strictly between 0 and 1; half of the rest is on each side.

        Returns
        -------
        lower, upper : ndarray of shape (n,) or (n, K)
            Ends of the interval, in target units.

        Examples
        --------
        >>> from probprop import Mixture, Predictive
        >>> p = Predictive([0.0, 10.0], [3.0, 0.0], 4.0, 6.0)
        >>> lower, upper = p.interval(0.9)
        >>> lower.round(2), upper.round(2)
        (array([-8.22,  3.42]), array([ 8.22, 16.58]))
        >>> lower, upper = Mixture([[0.0], [4.0]], [[0.0], [0.0]], 2.0).interval(0.9)
        >>> lower.round(2), upper.round(2)
        (array([-2.57]), array([6.57]))
        """

    @abstractmethod
    def sample(self, n_samples: int, random_state: int | RandomState | None = None) -> FloatArray:
        """Draw targets. Rows are drawn independently of each other.

        Parameters
        ----------
        n_samples : int
            Draws per row.
        random_state : int, RandomState instance or None, default=None
            Pass an int for the same draws in every call.

        Returns
        -------
        ndarray of shape (n_samples, n) or (n_samples, n, K)
            Draws, in target units.

        Examples
        --------
        >>> from probprop import Mixture, Predictive
        >>> p = Predictive([0.0, 10.0], [3.0, 0.0], 4.0, 6.0)
        >>> p.sample(3, random_state=0).shape
        (3, 2)
        >>> Mixture([[0.0], [4.0]], [[0.0], [0.0]], 2.0).sample(3, random_state=0).shape
        (3, 1)
        """

    @abstractmethod
    def targets(self) -> list[Self]:
        """The distribution of each target, of shape (n,): K of them, or this one alone.

        Examples
        --------
        >>> from probprop import Predictive
        >>> both = Predictive([[0.0, 10.0]], [[3.0, 0.0]], [4.0, 1.0], 6.0)
        >>> [one.std for one in both.targets()]
        [array([5.]), array([1.])]
        """

    @abstractmethod
    def __getitem__(self, rows: Rows) -> Self: ...

    def __len__(self) -> int:
        return len(self.mean)

    def to_frame(self, names: Sequence[str] | None = None, *, level: float = 0.95) -> DataFrame:
        """Return a pandas DataFrame with a line per row.

        Parameters
        ----------
        names : sequence of str, default=None
            Name of each of several targets; None counts them from 0.
        level : float, default=0.95
            Probability of a target between `lower` and `upper`.

        Returns
        -------
        pandas.DataFrame
            With the columns mean, std, std_model, std_noise, lower and upper, in target units.
            Each of several targets has its own: TARGET_mean, TARGET_std and so on.

        Examples
        --------
        >>> from probprop import Predictive
        >>> Predictive([0.0, 10.0], [3.0, 0.0], 4.0, 6.0).to_frame(level=0.9).round(2)
           mean  std  std_model  std_noise  lower  upper
        0   0.0  5.0        3.0        4.0  -8.22   8.22
        1  10.0  4.0        0.0        4.0   3.42  16.58
        >>> both = Predictive([[0.0, 10.0]], [[3.0, 0.0]], [4.0, 1.0], 6.0)
        >>> list(both.to_frame(["heating", "cooling"]).columns[5:8])
        ['heating_upper', 'cooling_mean', 'cooling_std']
        """
        import pandas as pd

        each = self.targets()
        names = [str(k) for k in range(len(each))] if names is None else names
        if len(names) != len(each):
            raise ValueError(f"names must have one per target, {len(each)}. Got {names!r}.")
        values = [
            column
            for one in each
            for column in (one.mean, one.std, one.std_model, one.std_noise, *one.interval(level))
        ]
        return pd.DataFrame(dict(zip(frame_columns(names), values, strict=True)))


def frame_columns(names: Sequence[str]) -> list[str]:
    """Return the columns of `TargetDistribution.to_frame` of these targets.

    Examples
    --------
    >>> frame_columns(["price"])[:2], frame_columns(["heating", "cooling"])[:2]
    (['mean', 'std'], ['heating_mean', 'heating_std'])
    """
    several = len(names) > 1
    return [f"{name}_{k}" if several else k for name in names for k in FRAME_COLUMNS]


class ClassDistribution(Protocol):
    """The predictive distribution of the labels of n rows, each row on its own.

    Its entropy has two parts: that of the model, which more data could remove, and that of the
    noise, which stays random if all weights are known. ``p[10:20]`` is the distribution of some
    rows.
    """

    if TYPE_CHECKING:
        # Not at run time: a dataclass would take an inherited attribute for a field's default.
        @property
        def mean(self) -> FloatArray:
            """Mean of the outputs, in units of their noise; (n,) or (n, n_outputs)."""

        @property
        def std(self) -> FloatArray:
            """Standard deviation of the outputs, shaped as `mean`."""

        @property
        def log_proba(self) -> FloatArray:
            """Log probability of every class, (n, n_classes), or label, (n, n_labels)."""

        @property
        def multilabel(self) -> bool:
            """Whether the columns are labels, any number of which may be present, not classes."""

        @property
        def entropy(self) -> FloatArray:
            """Entropy of the label in nats, (n,); of each of several labels, (n, n_labels)."""

        @property
        def entropy_model(self) -> FloatArray:
            """Mutual information of label and network in nats, shaped as `entropy`."""

        @property
        def entropy_noise(self) -> FloatArray:
            """Expected entropy of the label given the outputs in nats, shaped as `entropy`."""

    @property
    def proba(self) -> FloatArray:
        """Probabilities, (n, n_classes), each row summing to 1; or of each label, (n, n_labels)."""
        return np.exp(self.log_proba)

    @abstractmethod
    def __getitem__(self, rows: Rows) -> Self: ...

    def __len__(self) -> int:
        return len(self.log_proba)

    def __repr__(self) -> str:
        n, n_columns = self.log_proba.shape
        what = "labels" if self.multilabel else "classes"
        spans = [span("entropy", self.entropy)] if n else []
        return short_repr(self, f"n={n}", f"n_{what}={n_columns}", *spans)

    def most_probable(self, classes: ArrayLike | None = None) -> Array:
        """Return the most probable class of each row, or which labels are present.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), default=None
            The classes, in the order of the columns; None counts them from 0.

        Returns
        -------
        ndarray of shape (n,), or (n, n_labels)
            From `classes`; with several labels, 1 if a label is more probable than not, else 0.

        Examples
        --------
        >>> import numpy as np
        >>> from probprop import ClassPredictive
        >>> p = ClassPredictive(np.array([-0.8]), np.array([0.3]), np.log([[0.8, 0.2]]))
        >>> p.most_probable(), p.most_probable(["no", "yes"]).tolist()
        (array([0]), ['no'])
        """
        if self.multilabel:
            there: Array = self.log_proba > math.log(0.5)
            return there.astype(int)
        index: Array = self.log_proba.argmax(axis=1)
        return index if classes is None else np.asarray(classes)[index]

    def to_frame(self, classes: ArrayLike | None = None) -> DataFrame:
        """Return a pandas DataFrame with a line per row.

        Parameters
        ----------
        classes : array-like of shape (n_classes,) or (n_labels,), default=None
            The classes or labels, in the order of the columns; None counts them from 0.

        Returns
        -------
        pandas.DataFrame
            With the columns predicted_class, p_CLASS for every class, entropy, entropy_model and
            entropy_noise. Each of several labels has its own: p_LABEL, entropy_LABEL and so on.

        Examples
        --------
        >>> import numpy as np
        >>> from probprop import ClassPredictive
        >>> p = ClassPredictive(np.array([-0.8]), np.array([0.3]), np.log([[0.8, 0.2]]))
        >>> p.to_frame(["no", "yes"]).iloc[:, :3]
          predicted_class  p_no  p_yes
        0              no   0.8    0.2
        """
        import pandas as pd

        names = range(self.log_proba.shape[1]) if classes is None else np.asarray(classes)
        p = {f"p_{name}": column for name, column in zip(names, self.proba.T, strict=True)}
        parts = {k: getattr(self, k) for k in ("entropy", "entropy_model", "entropy_noise")}
        if not self.multilabel:
            return pd.DataFrame({"predicted_class": self.most_probable(classes), **p, **parts})
        of_each = {
            f"{k}_{name}": column
            for k, part in parts.items()
            for name, column in zip(names, part.T, strict=True)
        }
        return pd.DataFrame({**p, **of_each})
