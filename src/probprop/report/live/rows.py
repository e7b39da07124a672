"""What a page knows of the rows of a table: summaries of the columns, and some rows to begin with.

Without rows, what the model itself holds has to do: the mean and the standard deviation of every
encoded column, and of a cross-validated model the range of the training rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from probprop._types import Array, FloatArray
from probprop.inference.standardize import fit_standardizer
from probprop.report.live.exported import Tree, moments_of_columns
from probprop.table.model import TableModel, UnknownCategoryWarning

N_BINS = 40
"""Of the histogram of a column."""
MOST_ROWS = 300
"""Rows that the page offers to begin with, each with all its cells."""

MOST_SUMMARISED = 100_000
"""Rows that ranges and counts are taken from."""

_REACH = 2.0  # standard deviations around the mean, where no range is known
_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows of a table, with what the estimator sees of them.

    Parameters
    ----------
    frame : DataFrame of shape (n, n_columns)
    X : ndarray of shape (n, n_encoded)
        NaN where a cell is missing.
    y : ndarray of shape (n, K)
        Targets; or classes, (n, 1).
    """

    frame: pd.DataFrame
    X: FloatArray
    y: Array


def some_rows(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the rows of a frame, or as many as `most` of them, evenly spaced.

    The frame of some keeps the index: rows are called by it.

    Examples
    --------
    >>> some_rows(pd.DataFrame({"a": range(9)}), 3)["a"].tolist()
    [0, 4, 8]
    """
    if len(frame) <= most:
        return frame
    return frame.iloc[np.linspace(0, len(frame) - 1, most).round().astype(np.intp)]


def encoded_rows(model: TableModel, frame: pd.DataFrame) -> Encoded:
    """Encode rows, without another warning of unknown categories: who predicts them has warned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownCategoryWarning)
        X, y = model.split(frame)
    return Encoded(frame, X, y.reshape(len(frame), -1))


def columns_of(model: TableModel, rows: Encoded | None) -> list[Tree]:
    """Describe each column of the table: what it holds, where its rows lie, a typical cell.

    Parameters
    ----------
    model : TableModel
    rows : Encoded or None
        Whose ranges and counts the page shows; None: only what the model holds.
    """
    describe = {"number": _number, "boolean": _boolean, "date": _date, "text": _text}
    return [
        {"name": name, "kind": kind, "at": _place(model, name).start}
        | describe[kind](_Column(model, name, rows))
        for name, kind in model.kinds.items()
    ]


def _place(model: TableModel, name: str) -> slice:
    """Return where the numbers of a column of the table lie in X."""
    encoded = model.encoder.encoded[name]
    first = model.encoded_names.index(encoded[0])
    return slice(first, first + len(encoded))


@dataclass(frozen=True)
class _Column:
    """A column of the table, and the rows of which something may be said."""

    model: TableModel
    name: str
    rows: Encoded | None

    @property
    def x(self) -> FloatArray:
        """The numbers of the rows, (n, n_encoded)."""
        at = _place(self.model, self.name)
        return np.empty((0, at.stop - at.start)) if self.rows is None else self.rows.X[:, at]

    @property
    def mean(self) -> FloatArray:
        return moments_of_columns(self.model)[0][_place(self.model, self.name)]

    @property
    def scale(self) -> FloatArray:
        return moments_of_columns(self.model)[1][_place(self.model, self.name)]

    @property
    def range(self) -> tuple[float, float] | None:
        """That of the training rows, where the model knows it."""
        bounds = getattr(self.model.estimator, "bounds_", None)
        if bounds is None:
            return None
        at = _place(self.model, self.name).start
        return float(bounds.low[at]), float(bounds.high[at])


def _number(column: _Column) -> Tree:
    mean, std = float(column.mean[0]), float(column.scale[0])
    std = std if np.isfinite(std) else 1.0
    x = column.x[:, 0]
    x = x[~np.isnan(x)]
    if not len(x):
        low, high = column.range or (mean - _REACH * std, mean + _REACH * std)
        return {"scale": std, "low": low, "high": high, "typical": mean, "whole": False}
    low, high = column.range or (float(x.min()), float(x.max()))
    if fit_standardizer(np.array([[low], [high]]), None).spreads[0] == 0.0:
        high = low  # constant, except for rounding
        counts = np.zeros(N_BINS, np.int64)
        counts[0] = len(x)
    else:
        counts = np.histogram(x, N_BINS, (low, high))[0]
    return {
        "scale": std,
        "low": low,
        "high": high,
        "typical": float(np.quantile(x, 0.5, method="inverted_cdf")),
        "whole": bool((x == np.rint(x)).all()),
        "counts": counts,
    }


def _boolean(column: _Column) -> Tree:
    if column.rows is None:
        return {"typical": bool(column.mean[0] > 0.5)}
    n_false, n_true = (int((column.x == value).sum()) for value in (0.0, 1.0))
    return {"typical": n_true > n_false, "counts": np.array([n_false, n_true])}


def _text(column: _Column) -> Tree:
    categories = column.model.categories[column.name]
    if column.rows is None:
        return {"categories": categories, "typical": categories[int(np.argmax(column.mean))]}
    counts = (column.x == 1.0).sum(axis=0)
    typical = categories[int(np.argmax(counts))]
    return {"categories": categories, "typical": typical, "counts": counts}


def _date(column: _Column) -> Tree:
    parts = list(column.model.encoder.parts[column.name])
    timed = "seconds" in parts
    known: Tree = {"parts": parts, "timed": timed}
    if column.rows is None:
        means = dict(zip(parts, column.mean.tolist(), strict=True))
        return known | {"typical": _typical_date(means)}
    when = _dates_of(column.model, column.name, column.rows.frame)
    there = np.sort(when[~np.isnat(when)])
    if not len(there):
        return known | {"typical": None}
    days = (there - there[0]) / _DAY
    low, typical, high = (_iso(there[i], timed) for i in (0, len(there) // 2, -1))
    counts = np.histogram(days, N_BINS, (0.0, float(days[-1]) or 1.0))[0]
    return known | {"low": low, "high": high, "typical": typical, "counts": counts}


def _typical_date(parts: dict[str, float]) -> str:
    """Return the date that mean parts are nearest to; the year 2000 where they have no year."""
    first = np.datetime64(f"{round(parts.get('year', 2000.0)):04d}-01-01")
    day = parts.get("day_of_year", 30.4 * (parts.get("month", 6.5) - 0.5))
    when = first + np.timedelta64(max(0, round(day) - 1), "D")
    return _iso(
        when.astype("datetime64[s]") + np.timedelta64(int(parts.get("seconds", 0.0)), "s"),
        "seconds" in parts,
    )


def _iso(when: Any, timed: bool) -> str:
    if not timed:
        return str(np.datetime_as_string(when, unit="D"))
    seconds = str(np.datetime_as_string(when, unit="ms"))
    return seconds.removesuffix(".000")


def _dates_of(model: TableModel, name: str, frame: pd.DataFrame) -> Array:
    """Return the dates of a column, (n,); NaT where one is missing."""
    column = frame[name]
    there = column.notna().to_numpy()
    when = np.full(len(column), np.datetime64("NaT"), "datetime64[us]")
    when[there] = model.encoder.dates_of(name, column[there]).to_numpy()
    return when


def rows_to_begin_with(
    model: TableModel, rows: Encoded, observed: Array, predicted: FloatArray
) -> Tree:
    """Return rows with their cells, what was observed and what was predicted.

    Parameters
    ----------
    model : TableModel
    rows : Encoded
    observed : ndarray of shape (n, K)
        Targets; or the places of the classes, (n, 1).
    predicted : ndarray of shape (n, K)
        Means; or the probabilities of the classes observed, (n, 1).
    """
    index = rows.frame.index
    numbers = index.to_numpy() if index.dtype.kind in "iu" else np.arange(len(index))
    return {
        "cells": [_cells(model, name, rows) for name in model.features],  # column by column
        "numbers": (numbers + 1).tolist(),
        "observed": observed,
        "predicted": predicted,
    }


def _cells(model: TableModel, name: str, rows: Encoded) -> list[Any]:
    x = rows.X[:, _place(model, name)]
    match model.kinds[name]:
        case "number":
            return [None if np.isnan(v) else v for v in x[:, 0].tolist()]
        case "boolean":
            return [None if np.isnan(v) else bool(v) for v in x[:, 0].tolist()]
        case "text":
            known = model.categories[name]
            return [known[int(np.argmax(row))] if (row == 1.0).any() else None for row in x]
        case _:
            when = _dates_of(model, name, rows.frame)
            timed = "seconds" in model.encoder.parts[name]
            return [None if np.isnat(v) else _iso(v, timed) for v in when]
