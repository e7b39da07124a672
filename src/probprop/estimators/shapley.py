"""Shapley values: how much each column of a table adds to a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import beta
from sklearn.base import is_classifier

from probprop._types import Array, FloatArray
from probprop.table.names import as_frame

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "(baseline)"
BACKGROUND = 100  # samples, at most
_EXACT = 10  # columns; of more, orders are sampled
_PAIRS = 4  # orders of the columns, each with its reverse, for each background sample
_BLOCK, _ENTRIES = 1 << 14, 1 << 24  # rows that are predicted at a time, and their entries, at most

Places = Mapping[str, Sequence[int]]
"""Where each column of a table is among the columns of its rows."""


def explain(
    model: Any, X: ArrayLike, background: ArrayLike | None = None, *, random_state: int = 0
) -> pd.DataFrame:
    """Return Shapley values: how each column moves a prediction away from the mean prediction.

    If a coalition of columns is known, the prediction is the mean over the background samples whose
    values in these columns are replaced by those of the sample. All coalitions of up to 10 columns
    are evaluated; of more columns, 8 random orders for each background sample, in antithetic pairs.

    Parameters
    ----------
    model : estimator, pipeline or TableModel
        Fitted. Classifiers need `predict_proba`; others `predict` with `return_std`, as the
        regressors of this package and the Gaussian processes of scikit-learn have it.
    X : table or array-like of shape (n, n_features)
        Samples to explain.
    background : table or array-like of shape (m, n_features), default=None
        Samples that stand for the distribution of the columns; a random 100 of more. None is for
        estimators that have `background_`: `PBPRegressorCV` and `PBPClassifierCV` after `fit`.
    random_state : int, default=0
        Seed of the orders, and of the choice of background samples.

    Returns
    -------
    DataFrame
        For each sample and column its `value`, and what it adds to the predicted `mean` and `std`,
        or to the probability of each class. The first row of each sample, "(baseline)", has the
        mean over the background; all rows of a sample add up to its prediction.

    Examples
    --------
    >>> from probprop import PBPRegressor
    >>> X = np.random.RandomState(0).standard_normal((200, 3))
    >>> model = PBPRegressor(random_state=0).fit(X, X[:, 0] + 5 * X[:, 2])
    >>> found = explain(model, [[1.0, 1.0, 1.0]], X)
    >>> found["mean"].round(1).tolist()
    [-1.7, 0.9, -0.0, 6.8]
    >>> bool(np.isclose(found["mean"].sum(), model.predict([[1.0, 1.0, 1.0]])[0]))
    True
    """
    import pandas as pd  # which estimators can do without

    predictor, rows, places = inputs_of(model, X)
    random = np.random.RandomState(random_state)
    if background is not None:
        _, others, _ = inputs_of(model, background)
        if len(others) > BACKGROUND:
            others = rows_at(others, np.sort(random.permutation(len(others))[:BACKGROUND]))
    elif (others := getattr(model, "background_", None)) is None:
        raise ValueError(
            "background=None needs a PBPRegressorCV or PBPClassifierCV after fit, not from a "
            "file: give background, such as the training samples."
        )
    m, d = len(others), len(places)
    if not len(rows) or not m or not d:
        raise ValueError("X and background must have a row and a column.")
    both = rows, others
    pool = pd.concat(both) if isinstance(rows, pd.DataFrame) else np.concatenate(both)
    block = max(1, min(_BLOCK, _ENTRIES // pool.shape[1]))
    now, before = outputs_of(predictor, rows), outputs_of(predictor, others)
    cells, frame = [], as_frame(X)
    for i in range(len(rows)):

        def value(known: Array, other: Array, i: int = i) -> FloatArray:
            """Predict background samples, (k,), with the known columns, (k, d), of sample i."""
            index = np.where(known, i, len(rows) + other[:, np.newaxis])
            found = np.empty((len(index), now.shape[1]))
            for start in range(0, len(index), block):
                at = slice(start, start + block)
                found[at] = outputs_of(predictor, taken(pool, places, index[at]))
            return found

        if d <= _EXACT:
            added = _over_coalitions(value, now[i], before, d)
        else:
            added = _over_orders(value, now[i], before, d, random)
        given = rows[i, :d] if frame is None else [frame[name].iloc[i] for name in places]
        cells.append((np.vstack([before.mean(axis=0), added]), [None, *given]))
    labels = range(len(rows)) if frame is None else frame.index
    index = pd.MultiIndex.from_product([labels, [BASELINE, *places]], names=["sample", "column"])
    found = pd.DataFrame(np.concatenate([a for a, _ in cells]), index, _names(model, now))
    found.insert(0, "value", pd.Series([v for _, own in cells for v in own], index, object))
    return found


def _over_coalitions(value: Any, now: FloatArray, before: FloatArray, d: int) -> FloatArray:
    """Return the Shapley values, (d, n_outputs), as a weighted sum over all coalitions."""
    known, m = (np.arange(2**d)[:, np.newaxis] >> np.arange(d)) % 2 == 1, len(before)
    inner = value(np.repeat(known[1:-1], m, axis=0), np.tile(np.arange(m), 2**d - 2))
    means = inner.reshape(-1, m, len(now)).mean(axis=1)
    v, size = np.vstack([before.mean(axis=0), means, now]), known.sum(axis=1)[:, np.newaxis]
    # s! (d - s - 1)! / d! for the s others of the coalition
    weights = np.where(known, beta(size, d - size + 1), -beta(size + 1, d - size))
    return np.asarray(weights.T @ v)


def _over_orders(
    value: Any,
    now: FloatArray,
    before: FloatArray,
    d: int,
    random: np.random.RandomState,
    n_pairs: int = _PAIRS,
) -> FloatArray:
    """Return the mean change where a column becomes known, over orders of the columns."""
    other = np.repeat(np.arange(len(before)), 2 * n_pairs)
    place = np.argsort(random.random_sample((len(other) // 2, d)), axis=1)
    place = np.stack([place, d - 1 - place], axis=1).reshape(-1, d)  # of each column in an order
    known = place[:, np.newaxis] < np.arange(1, d)[:, np.newaxis]
    inner = value(known.reshape(-1, d), np.repeat(other, d - 1)).reshape(len(other), d - 1, -1)
    ends = before[other][:, np.newaxis], np.broadcast_to(now, (len(other), 1, len(now)))
    steps = np.diff(np.concatenate([ends[0], inner, ends[1]], axis=1), axis=1)
    return np.asarray(np.take_along_axis(steps, place[:, :, np.newaxis], axis=1).mean(axis=0))


# ---- Models of tables, pipelines and arrays, alike


def inputs_of(model: Any, X: Any, y: Any = None) -> tuple[Any, Any, Places]:
    """Return what predicts, its rows (an array or a frame), and the columns among theirs.

    For models with an encoder the rows are its outputs, of which a category has several. With the
    targets y of training samples, mean targets of categories are over other samples.
    """
    if hasattr(model, "encoder"):  # TableModel
        return model.estimator, model.encode(X, y), model.encoder.places
    if (encoder := getattr(model, "encoder_", None)) is not None:
        from probprop.table.encoding import checked_frame  # it imports pandas

        rows = np.asarray(encoder.coded(checked_frame(encoder, X, reset=False), y))
        return model.on_inputs(), rows, encoder.places
    if (frame := as_frame(X)) is not None:
        return model, frame, {str(name): [i] for i, name in enumerate(frame)}
    rows = np.asarray(X)
    return model, rows, {str(i): [i] for i in range(rows.shape[1])}


def rows_at(rows: Any, at: Array | slice) -> Any:
    """Return these rows of an array or a frame."""
    return rows.iloc[at] if hasattr(rows, "iloc") else rows[at]


def evenly(n: int, most: int) -> Array:
    """Return the places of n rows, or of `most` of them, evenly spaced."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.intp)


def taken(rows: Any, places: Places, index: Array) -> Any:
    """Return rows whose k-th column is taken from the rows ``index[:, k]`` of others.

    Columns that have no place are taken from ``index[:, -1]``.
    """
    owner = np.full(rows.shape[1], -1)
    for k, at in enumerate(places.values()):
        owner[list(at)] = k
    if not hasattr(rows, "iloc"):
        return rows[index[:, owner], np.arange(rows.shape[1])]
    import pandas as pd

    columns = {i: rows.iloc[:, i].array.take(index[:, k]) for i, k in enumerate(owner)}
    return pd.DataFrame(columns).set_axis(rows.columns, axis=1)


def outputs_of(model: Any, rows: Any) -> FloatArray:
    """Return mean and standard deviation of each target, or all probabilities, of each row."""
    if is_classifier(model):
        return np.asarray(model.predict_proba(rows), np.float64)
    return np.column_stack(model.predict(rows, return_std=True)).astype(np.float64)


def _names(model: Any, outputs: FloatArray) -> list[str]:
    model = getattr(model, "estimator", model) if hasattr(model, "encoder") else model
    if is_classifier(model):
        return [str(label) for label in model.classes_]
    k = outputs.shape[1] // 2
    return [f"{name}{f' {i}' * (k > 1)}" for name in ("mean", "std") for i in range(k)]
