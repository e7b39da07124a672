"""ActiveLearner: query the samples to label next, and learn from their labels."""

from __future__ import annotations

import copy
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import check_array, check_random_state, check_scalar, check_X_y, get_tags

from probprop._types import Array, FloatArray
from probprop.active.strategies import STRATEGIES, IntArray, by_features
from probprop.estimators.validation import check_int, check_option

StrategyName = Literal["variance_reduction", "variance", "thompson", "random"]


class ActiveLearner(BaseEstimator):  # type: ignore[misc]
    """Active learning: choose the samples to label next and learn from their labels.

    A batch is chosen greedily, each sample as if the previous ones were labeled:
    `probprop.active.strategies` has the formulas.

    Parameters
    ----------
    estimator : estimator
        Any regressor; for ``strategy="variance"`` one with ``predict(X, return_std=True)``. Or a
        classifier with `predict_proba`. A clone of it is fitted.
    strategy : {"variance_reduction", "variance", "thompson", "random"}, \
            default="variance_reduction"
        ``"variance_reduction"``: the sample that reduces the total variance of the pool most; of
        a pool of more than 1,000 samples, a random 1,000 are used.
        ``"variance"``: the highest predictive variance, as in [PBP15] section 5.4; for a
        classifier the highest entropy of the class.
        ``"thompson"``: the highest value of a network drawn from the posterior, to find large
        targets rather than to learn the function; needs `sample_functions` of a regressor.
        ``"random"``: a random sample, as the control.
    batch_size : int, default=1
        Number of samples that `ask` returns by default.
    warm_start : bool, default=False
        Whether later calls of `tell` update the model by `partial_fit` on the new samples. If
        not, every call refits on all labeled samples.
    random_state : int, RandomState instance or None, default=None
        Breaks ties, and draws the networks, the random rows and the sample of a large pool. With
        an int, `ask` gives the same answer until something is told. The fit uses the estimator's
        own seed.

    Attributes
    ----------
    estimator_ : estimator
        Estimator fitted on the labeled samples.
    X_ : ndarray of shape (n_told, n_features)
        Labeled samples, in the order in which they were told.
    y_ : ndarray of shape (n_told,)
        Their targets, in target units, or their classes.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressor
    >>> from probprop.active import ActiveLearner
    >>> X = np.linspace(-4.0, 4.0, 81)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> learner = ActiveLearner(PBPRegressor(random_state=0), random_state=0)
    >>> learner.tell(X[30:51:2], y[30:51:2]).y_.shape  # x from -1 to 1
    (11,)
    >>> chosen = learner.ask(X, 2)
    >>> X[chosen, 0]  # far from them, on either side
    array([ 3.4, -3.5])
    >>> learner.tell(X[chosen], y[chosen]).y_.shape
    (13,)
    """

    estimator_: Any
    X_: FloatArray
    y_: Array

    def __init__(
        self,
        estimator: Any,
        strategy: StrategyName = "variance_reduction",
        batch_size: int = 1,
        warm_start: bool = False,
        *,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.strategy = strategy
        self.batch_size = batch_size
        self.warm_start = warm_start
        self.random_state = random_state

    def ask(self, X_pool: ArrayLike, n: int | None = None) -> IntArray:
        """Choose samples to label next; the learner is not changed.

        Labeled samples are never chosen, nor are two equal samples. Without any label, the
        samples are spread over the pool; with ``strategy="random"`` they are random.

        Parameters
        ----------
        X_pool : array-like of shape (n_pool, n_features)
            Samples without labels.
        n : int, default=None
            Number of samples; None means `batch_size`.

        Returns
        -------
        ndarray of shape (n,)
            Indices of rows of `X_pool`, the first choice first.
        """
        finite = self._check_parameters()
        n = self.batch_size if n is None else n
        check_int("n", n, 1)
        options: Any = {"dtype": np.float64, "ensure_all_finite": finite, "ensure_min_samples": 0}
        pool = check_array(X_pool, input_name="X_pool", **options)
        fitted = getattr(self, "estimator_", None)
        if fitted is not None:
            self._check_features("X_pool", pool)
        told = pool[:0] if fitted is None else self.X_
        new = rows_not_told(pool, told)
        if len(new) < n:
            count = {0: "no rows", 1: "1 row"}.get(len(new), f"{len(new)} rows")
            left_out = ""
            if k := len(pool) - len(new):
                left_out = f" (the other {k} are labeled already, or duplicates)"
            raise ValueError(
                f"n == {n} rows were asked for, but X_pool has {count} to choose from{left_out}."
            )
        random_state: RandomState = check_random_state(self.random_state)
        if isinstance(self.random_state, Integral):  # the same answer until something is told
            random_state = RandomState([int(self.random_state), len(told)])
        if fitted is None and self.strategy != "random":
            return new[by_features(told, pool[new], n, random_state)]
        return new[STRATEGIES[self.strategy](fitted, told, pool[new], n, random_state)]

    def tell(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the labels of samples; if that fails, the learner is not changed.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Targets, or the classes of a classifier.
        """
        options: Any = {"dtype": np.float64, "ensure_all_finite": self._check_parameters()}
        rows, targets = check_X_y(X, y, y_numeric=not is_classifier(self.estimator), **options)
        first = not hasattr(self, "estimator_")
        if not first:
            self._check_features("X", rows)
        X_told = rows if first else np.concatenate([self.X_, rows])
        y_told = targets if first else np.concatenate([self.y_, targets])
        if first or not self.warm_start:
            estimator = clone(self.estimator).fit(X_told, y_told)
        else:  # on a copy, which is dropped if that fails
            estimator = copy.deepcopy(self.estimator_).partial_fit(rows, targets)
        self.estimator_, self.X_, self.y_ = estimator, X_told, y_told
        return self

    # ---- Validation

    def _check_parameters(self) -> bool | Literal["allow-nan"]:
        """Check the parameters; return whether rows must be finite, as the estimator says."""
        check_option("strategy", self.strategy, list(STRATEGIES))
        check_int("batch_size", self.batch_size, 1)
        check_scalar(self.warm_start, "warm_start", (bool, np.bool_))
        needed: list[tuple[str, str, str]] = []
        strategy = f"strategy={self.strategy!r}"
        if self.strategy == "thompson":
            if is_classifier(self.estimator):
                raise TypeError(
                    "strategy='thompson' needs numeric targets, but the targets are classes: use "
                    "strategy='variance_reduction'."
                )
            needed.append((strategy, "sample_functions", "strategy='variance'"))
        elif is_classifier(self.estimator) and self.strategy != "random":
            needed.append((strategy, "predict_proba", "strategy='random'"))
        if self.warm_start:
            needed.append(("warm_start=True", "partial_fit", "warm_start=False"))
        for option, method, other in needed:
            if not hasattr(self.estimator, method):
                raise TypeError(
                    f"{option} needs an estimator with {method!r}, which "
                    f"{type(self.estimator).__name__} does not have: use {other}."
                )
        return "allow-nan" if get_tags(self.estimator).input_tags.allow_nan else True

    def _check_features(self, name: str, X: FloatArray) -> None:
        if X.shape[1] != self.X_.shape[1]:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but the samples of this ActiveLearner have "
                f"{self.X_.shape[1]}."
            )


def rows_not_told(pool: FloatArray, told: FloatArray) -> IntArray:
    """Return the indices of the rows of a pool, (n_pool, n_features), that were not told.

    They are in the order of the pool; equal rows count once, the first of them.
    """
    rows = np.concatenate([told, pool])
    # No NaN equals another, but two rows with the same gaps are alike.
    alike = np.hstack([np.nan_to_num(rows), np.isnan(rows)])
    _, first = np.unique(alike, axis=0, return_index=True)
    return np.asarray(np.sort(first[first >= len(told)]) - len(told))
