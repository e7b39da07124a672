"""The what-if section of a report: the model, the kernel, the script and what it shows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from probprop._types import FloatArray
from probprop.estimators.kind import transformation_of
from probprop.report.document import Live
from probprop.report.live.exported import Tree, exported, n_numbers, packed
from probprop.report.live.rows import (
    MOST_ROWS,
    MOST_SUMMARISED,
    Encoded,
    columns_of,
    encoded_rows,
    rows_to_begin_with,
    some_rows,
)
from probprop.table.model import TableModel
from probprop.web import packed_kernel, text_of
from probprop.web.bundle import bundle

MOST_NUMBERS = 6_000_000
"""Weights, their means and variances, that a page may hold: some 20 MB of text."""

_REACH = 2.5  # standard deviations of a target around its mean, where no rows are known


def refusal(model: TableModel) -> str | None:
    """Say why a page cannot hold a model; None: it can."""
    n = n_numbers(model)
    if n > MOST_NUMBERS:
        return (
            f"This report has no what-if page: its networks hold {n:,} numbers, and a page at most "
            f"{MOST_NUMBERS:,}."
        )
    return None


def live_page(
    model: TableModel,
    *,
    rows: pd.DataFrame | None = None,
    judged: TableModel | None = None,
    train: pd.DataFrame | None = None,
) -> Live:
    """Return the what-if section of a model.

    Parameters
    ----------
    model : TableModel
        Which predicts in the page.
    rows : DataFrame, default=None
        Rows with their targets, of which the page has up to 300 whole, to begin with; None: none.
    judged : TableModel, default=None
        What predicted them, where that is another model than the one in the page.
    train : DataFrame, default=None
        The rows that the model was fitted on, of which the page has summaries; None: it has those
        of `rows`, or says only what the model knows by itself.

    Returns
    -------
    Live
        For `write_report`.
    """
    summarised = train if train is not None else rows
    given = None
    if summarised is not None:
        given = encoded_rows(model, some_rows(summarised, MOST_SUMMARISED))
    tree: Tree = exported(model) | {
        "columns": columns_of(model, given),
        "ranges": target_ranges(model, given),
        "range_of": _range_of(model, rows, train),
        "rows": None if rows is None else _rows(model, judged or model, rows),
    }
    text, block = packed(tree)
    data = {
        "what-if-kernel": packed_kernel(),
        "what-if-model": text,
        "what-if-arrays": block,
    }
    return Live("what-if", "What if", text_of("whatif/whatif.css"), _script(), data)


@cache
def _script() -> str:
    return text_of("kernel.js") + bundle("whatif", "start.js")


def _range_of(model: TableModel, rows: pd.DataFrame | None, train: pd.DataFrame | None) -> str:
    """Say whose range the sliders show."""
    if train is not None or hasattr(model.estimator, "bounds_"):
        return "training"
    return "model" if rows is None else "rows"


def target_ranges(model: TableModel, rows: Encoded | None) -> list[list[float]]:
    """Return where the values of each target lie, as [low, high]; [0, 1] for probabilities.

    Parameters
    ----------
    model : TableModel
    rows : Encoded or None
        None: mean and standard deviation of the training rows say it.
    """
    if model.classes is not None:
        return [[0.0, 1.0]]
    if rows is not None:
        ends = zip(rows.y.min(axis=0), rows.y.max(axis=0), strict=True)
        return [[float(low), float(high)] for low, high in ends]
    estimator: Any = model.estimator
    members = getattr(estimator, "estimators_", [estimator])
    s, g = members[0].standardizer_, transformation_of(estimator)
    usual = np.stack([s.y_mean - _REACH * s.y_scale, s.y_mean + _REACH * s.y_scale], axis=1)
    in_units: FloatArray = usual if g is None else g.inverse(usual)
    return [[float(low), float(high)] for low, high in in_units]


def _rows(model: TableModel, judged: TableModel, frame: pd.DataFrame) -> Tree:
    frame = some_rows(frame, MOST_ROWS)
    encoded = encoded_rows(model, frame)
    own = encoded if judged is model else encoded_rows(judged, frame)
    predicted: Any = judged.estimator.predict_distribution(own.X)
    if judged.classes is None:
        return rows_to_begin_with(model, encoded, own.y, predicted.mean.reshape(own.y.shape))
    place = np.searchsorted(judged.classes, own.y)
    of_observed = np.take_along_axis(predicted.proba, place, axis=1)
    return rows_to_begin_with(model, encoded, place.astype(np.float64), of_observed)
