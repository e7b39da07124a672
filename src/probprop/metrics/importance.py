"""Permutation importance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.estimators.kind import classes_of
from probprop.estimators.shapley import inputs_of, rows_at, taken
from probprop.estimators.validation import check_int
from probprop.metrics.regression import rmse

_PREDICTIONS = 200_000  # of single rows, at most, but for the fewest rows
_FEWEST, _MOST = 200, 2_000  # rows of X that are used
_ALL_COLUMNS, _KEPT = 100, 16  # with more columns than that, only the best are examined further


@dataclass(frozen=True, eq=False)
class Importance:
    """Permutation importance of each column for the predictions of one target.

    Parameters
    ----------
    names : tuple of str
        The columns, the most important first. If there are more than 100, only the 16 that remain
        after dropping unimportant groups of columns are ranked.
    loss, error : ndarray of shape (n_names, n_repeats)
        Decrease of the mean log-likelihood, in nats per sample, and increase of the RMSE, in target
        units, in each repetition. For classes, increase of log-loss and error rate.
    n_rows : int
        Number of samples used.
    n_columns : int
        Number of all columns.
    """

    names: tuple[str, ...]
    loss: FloatArray
    error: FloatArray
    n_rows: int
    n_columns: int


def permutation_importance(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    columns: Mapping[str, Sequence[int]] | None = None,
    *,
    n_repeats: int = 5,
    random_state: int = 0,
    out_of_fold: bool = False,
) -> list[Importance]:
    """Rank columns by the loss when their values are shuffled among the samples.

    Use a test set, or out-of-fold samples. A column that is redundant given another one is ranked
    low. The list has an `Importance` for each target, or one for classes.

    Parameters
    ----------
    model : estimator of probprop, Pipeline that ends with one, or TableModel
        Fitted.
    X : table or array-like of shape (n, n_features)
        Samples as `model` takes them. Of many a random 200 to 2,000 are used, the fewer the more
        columns there are.
    y : array-like of shape (n,), or (n, K) for several targets
        Observed targets, or class labels, all of them in ``model.classes_``.
    columns : mapping of str to sequence of int, default=None
        Columns of X that are shuffled as one, such as the categories of one text, by name. None
        shuffles each column of a table, or of X, alone; columns of an array are named by index.
    n_repeats : int, default=5
        Number of shuffles of each column, 1 or more.
    random_state : int, default=0
    out_of_fold : bool, default=False
        For a cross-validated estimator after `fit`: X and y are the training samples
        ``model.oof_rows_``, in this order, and each is predicted by the networks that were not
        trained on it.

    Examples
    --------
    >>> from probprop import PBPRegressor
    >>> X = np.random.RandomState(0).standard_normal((200, 3))
    >>> y = X[:, 0] + 5 * X[:, 2]
    >>> model = PBPRegressor(random_state=0).fit(X[:150], y[:150])
    >>> [found] = permutation_importance(model, X[150:], y[150:])
    >>> found.names, bool((found.loss[0] > found.loss[1]).all())
    (('2', '0', '1'), True)
    """
    check_int("n_repeats", n_repeats, 1)
    model, rows, places = inputs_of(model, X, y if out_of_fold else None)
    groups, observed = dict(places if columns is None else columns), np.asarray(y)
    if not groups or not len(rows):
        raise ValueError("X must have a row and a column, so that there is something to shuffle.")
    if out_of_fold and len(getattr(model, "oof_rows_", ())) != len(rows):
        raise ValueError(
            "out_of_fold=True needs a PBPRegressorCV or PBPClassifierCV after fit, not from a "
            f"file, and X must be the samples oof_rows_ of its fit. Got {len(rows)} samples."
        )
    random = np.random.RandomState(random_state)
    names = list(groups)
    n_ranked = len(names) if len(names) <= _ALL_COLUMNS else _KEPT
    most = int(np.clip(_PREDICTIONS // (n_ranked * n_repeats), _FEWEST, _MOST))
    some = np.sort(random.permutation(len(rows))[:most])
    rows, observed = rows_at(rows, some), observed[some]

    def scores(moved: Any) -> FloatArray:
        n = len(moved)
        predictive = _predictive(model, moved, some[:n] if out_of_fold else None)
        return _scores(predictive, classes_of(model), observed[:n])

    before = scores(rows)
    if len(names) > _ALL_COLUMNS:
        names = _screened(scores, rows_at(rows, slice(_FEWEST)), groups, random)

    def changes(name: str) -> Array:
        shuffled = [_shuffled(rows, groups[name], random) for _ in range(n_repeats)]
        return np.stack([scores(moved) - before for moved in shuffled])

    found = np.stack([changes(name) for name in names])  # (n_columns, n_repeats, 2, K)
    ranked = []
    for loss, error in found.transpose(3, 2, 0, 1):
        order = np.argsort(-loss.mean(axis=1), kind="stable")
        best = tuple(names[i] for i in order)
        ranked.append(Importance(best, loss[order], error[order], len(rows), len(groups)))
    return ranked


def _shuffled(rows: Any, place: Sequence[int], random: np.random.RandomState) -> Any:
    """Return X with some of its columns shuffled, all of them in the same way."""
    index = np.column_stack([random.permutation(len(rows)), np.arange(len(rows))])
    return taken(rows, {"": place}, index)


def _scores(predictive: Any, classes: Array | None, y: Array) -> FloatArray:
    """Return mean negative log-likelihood and error of each target, (2, K)."""
    if classes is not None:
        log_proba, index = predictive.log_proba, np.searchsorted(classes, y)
        wrong, loss = log_proba.argmax(axis=1) != index, -log_proba[np.arange(len(y)), index]
        return np.array([[loss.mean()], [wrong.mean()]])
    each = zip(y.reshape(len(y), -1).T, predictive.targets(), strict=True)
    return np.array([(-_mean_density(p.logpdf(of)), rmse(of, p.mean)) for of, p in each]).T


def _predictive(model: Any, X: Any, oof: Array | None = None) -> Any:
    """Predict rows; with `oof`, out-of-fold samples at these places of ``oof_rows_``."""
    with warnings.catch_warnings():  # a model fitted on a frame expects names
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        if oof is not None:
            return model.predict_out_of_fold(X, oof)
        if hasattr(model, "named_steps"):  # a pipeline only has the methods of scikit-learn
            return model[-1].predict_distribution(model[:-1].transform(X))
        return model.predict_distribution(X)


def _mean_density(log_p: FloatArray) -> float:
    """Return the mean over the samples that have a density; 0 if none has."""
    known = log_p[np.isfinite(log_p)]
    return float(known.mean()) if len(known) else 0.0


def _screened(
    scores: Callable[[Any], FloatArray],
    rows: Any,
    groups: Mapping[str, Sequence[int]],
    random: np.random.RandomState,
) -> list[str]:
    """Return the columns left after groups of them were shuffled, and the best halved again."""
    parts = np.array_split(np.array(list(groups), object), 2 * _KEPT)
    while True:
        places = [[i for name in part for i in groups[name]] for part in parts]
        losses = [scores(_shuffled(rows, place, random))[0].sum() for place in places]
        best = [parts[i] for i in np.argsort(-np.array(losses), kind="stable")[:_KEPT]]
        if all(len(part) == 1 for part in best):
            return [str(part[0]) for part in best]
        parts = [half for part in best for half in np.array_split(part, 2) if len(half)]
