"""The what-if section of a report: the model, the rows, the kernel and the script."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from probprop._types import Array, FloatArray
from probprop.distributions.classes import normal_draws
from probprop.distributions.recalibrated import PRIOR, SCORES
from probprop.estimators.cv.calibration import Calibration, ClassCalibration
from probprop.estimators.cv.missing import N_NODES, Joint, nodes_of
from probprop.estimators.kind import (
    classes_of,
    column_moments,
    first_network,
    members,
    transformation_of,
)
from probprop.inference.posterior import Posterior, flat
from probprop.inference.prediction import copying
from probprop.inference.standardize import LARGEST, Standardizer, fit_standardizer
from probprop.report.document import Live
from probprop.table.encoding import UnknownCategoryWarning
from probprop.table.model import TableModel, takes_gaps
from probprop.web import bundle, compressed, packed_kernel, text_of

MOST_NUMBERS = 6_000_000  # means and variances of weights that a page may hold: 20 MB of text
MOST_ROWS = 300  # that the page offers to begin with, each with all its cells
MOST_SUMMARISED = 100_000  # rows that ranges and counts are taken from
N_BINS = 40  # of the histogram of a column
_TARGET_REACH = 2.5  # standard deviations of a target around its mean, where no rows are known
_REACH = 2.0  # standard deviations of a feature around its mean, where no range is known
_DAY = np.timedelta64(1, "D")


def refusal(model: TableModel) -> str | None:
    """Say why a page cannot hold a model; None: it can."""
    if (n := n_numbers(model)) <= MOST_NUMBERS:
        return None
    return (
        f"This report has no what-if page: its networks hold {n:,} numbers, and a page at most "
        f"{MOST_NUMBERS:,}."
    )


def live_page(
    model: TableModel,
    *,
    rows: pd.DataFrame | None = None,
    predictive: Any = None,
    train: pd.DataFrame | None = None,
) -> Live:
    """Return the what-if section of a model, for `write_report`.

    Parameters
    ----------
    model : TableModel
        Which predicts in the page.
    rows : DataFrame, default=None
        Rows with their targets, of which the page has up to 300 whole, to begin with; None: none.
    predictive : TargetDistribution or ClassMixture, default=None
        Their predictions, such as out-of-fold ones; None: the model predicts them.
    train : DataFrame, default=None
        The rows that the model was fitted on, of which the page has summaries; None: it has
        summaries of `rows`, or only what the model itself holds.
    """
    summarized = train if train is not None else rows
    given = None
    if summarized is not None:
        given = encoded_rows(model, summarized.iloc[places_of(len(summarized), MOST_SUMMARISED)])
    range_of = "model" if rows is None else "rows"  # whose range the sliders show
    if train is not None or hasattr(model.estimator, "bounds_"):
        range_of = "training"
    tree: Tree = exported(model) | {
        "columns": columns_of(model, given),
        "ranges": target_ranges(model, given),
        "range_of": range_of,
        "rows": None if rows is None else _rows(model, rows, predictive),
    }
    text, block = packed(tree)
    data = {"what-if-kernel": packed_kernel(), "what-if-model": text, "what-if-arrays": block}
    return Live("what-if", "What if", text_of("whatif/whatif.css"), _script(), data)


@cache
def _script() -> str:
    return text_of("kernel.js") + bundle("whatif", "start.js")


def target_ranges(model: TableModel, rows: Encoded | None) -> list[list[float]]:
    """Return where the values of each target lie, as [low, high]; [0, 1] for probabilities.

    Without rows, the mean and the standard deviation of the training targets say it.
    """
    if model.classes is not None:
        return [[0.0, 1.0]]
    if rows is not None:
        ends = np.stack([rows.y.min(axis=0), rows.y.max(axis=0)], axis=1)
    else:
        s, g = first_network(model.estimator).standardizer_, transformation_of(model.estimator)
        reach = _TARGET_REACH * s.y_scale
        ends = np.stack([s.y_mean - reach, s.y_mean + reach], axis=1)
        ends = ends if g is None else g.inverse(ends)
    return [[float(low), float(high)] for low, high in ends]


def _rows(model: TableModel, frame: pd.DataFrame, predictive: Any) -> Tree:
    some = places_of(len(frame), MOST_ROWS)
    encoded = encoded_rows(model, frame.iloc[some])
    if predictive is None:
        predicted: Any = model.estimator.predict_distribution(encoded.X)
    else:
        predicted = predictive[some]
    if model.classes is None:
        return rows_to_begin_with(
            model, encoded, encoded.y, predicted.mean.reshape(encoded.y.shape)
        )
    place = np.searchsorted(model.classes, encoded.y)
    of_observed = np.take_along_axis(predicted.proba, place, axis=1)
    return rows_to_begin_with(model, encoded, place.astype(np.float64), of_observed)


# ---- The model as a tree of names and arrays


Tree = dict[str, Any]


def exported(model: TableModel) -> Tree:
    """Return what `probprop/web/whatif/model.js` predicts from, as `packed` takes it."""
    estimator: Any = model.estimator
    classes = classes_of(estimator)
    networks, groups = members(estimator) or [estimator], getattr(estimator, "groups_", [])
    x_mean, x_scale = column_moments(model.estimator)
    several = classes is not None and len(classes) > 2
    return {
        "targets": model.targets,
        "classes": None if classes is None else [str(name) for name in classes.tolist()],
        "takes_gaps": takes_gaps(estimator),
        "n_features": len(model.encoded_names),
        "x_mean": x_mean,
        "x_scale": x_scale,
        "largest": LARGEST[first_network(estimator).posterior_.dtype],
        "bounds": getattr(estimator, "bounds_", None),
        "encodings": [group.encoding for group in groups] or [None],
        "members": [
            _network(network) | {"encoding": i * len(groups) // len(networks)}
            for i, network in enumerate(networks)
        ],
        "weights": getattr(estimator, "weights_", None),
        "calibration": _calibration(getattr(estimator, "calibration_", None)),
        "joint": _joint(getattr(estimator, "joint_", None)),
        "draws": normal_draws(len(cast(Array, classes))) if several else None,
    }


def n_numbers(model: TableModel) -> int:
    """Count the weights of all networks, twice: their means and their variances."""
    estimator: Any = model.estimator
    return sum(2 * m.size for n in members(estimator) or [estimator] for m in n.posterior_.m_w)


def _joint(joint: Joint | None) -> Tree | None:
    """Return what completes missing values; of the covariance the lower triangle, row by row."""
    if joint is None:
        return None
    names = ["column", "value", "score", "discrete", "encoding", "covariance", "spread", "factor"]
    tree = {name: getattr(joint, name) for name in names}
    if (S := joint.covariance) is not None:
        tree["covariance"] = S[np.tril_indices(len(S))]
    return tree | {"nodes": nodes_of(len(joint.discrete)), "n_nodes": N_NODES}


def _network(network: Any) -> Tree:
    posterior: Posterior = network.posterior_
    standardizer: Standardizer = network.standardizer_
    tree = _layers(posterior, standardizer)
    if is_classifier(network):
        return tree
    noise = posterior.noise_network
    return tree | {
        "y_mean": standardizer.y_mean,
        "y_scale": standardizer.y_scale,
        "noise_variance": posterior.noise_variance,
        "noise_network": None if noise is None else _layers(noise, standardizer),
    }


def _layers(posterior: Posterior, standardizer: Standardizer) -> Tree:
    known, layer = standardizer.missing_variance, posterior.output_layer
    if layer is not None:  # the network gives its features
        posterior = copying(posterior)
    return {
        "output_layer": None if layer is None else vars(layer),
        "sizes": list(posterior.layer_sizes),
        "m_w": flat(posterior.m_w),
        "v_w": flat(posterior.v_w),
        "x_mean": standardizer.x_mean,
        "x_scale": standardizer.x_scale,
        "missing_variance": np.ones_like(standardizer.x_mean) if known is None else known,
        "tail": posterior.tail,
    }


def _calibration(calibration: Calibration | ClassCalibration | None) -> Tree | None:
    if calibration is None:
        return None
    if isinstance(calibration, ClassCalibration):
        return {"temperature": calibration.temperature}
    noise = None
    if (own := calibration.noise) is not None:
        noise = _layers(own.posterior, own.standardizer)
        noise |= {"encoding": own.encoding, "levels": own.levels}
    known: Tree = {"factor": calibration.factor, "range": calibration.range, "noise": noise}
    shape = calibration.recalibration
    if shape is not None:
        known["recalibration"] = {k.name: getattr(shape, k.name) for k in fields(shape)}
        known["recalibration"] |= {"edges": shape.edges, "z": SCORES, "prior": PRIOR}
    return known | {"transformation": calibration.transformation}


# ---- The rows: summaries of the columns, and some rows to begin with


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows of a table, with what the estimator sees of them."""

    frame: pd.DataFrame  # (n, n_columns)
    X: FloatArray  # (n, n_encoded), NaN where a cell is missing
    y: Array  # targets, (n, K), or classes, (n, 1)


def places_of(n: int, most: int) -> Array:
    """Return the places of n rows, or of `most` of them, evenly spaced."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.intp)


def encoded_rows(model: TableModel, frame: pd.DataFrame) -> Encoded:
    """Encode rows, without another warning of unknown categories: who predicts them has warned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownCategoryWarning)
        X, y = model.split(frame)
    return Encoded(frame, X, y.reshape(len(frame), -1))


def columns_of(model: TableModel, rows: Encoded | None) -> list[Tree]:
    """Describe each column of the table: what it holds, where its rows lie, a typical cell.

    Without rows, what the model itself holds has to do: the mean and the standard deviation of
    every encoded column, and the range of the training rows if the model is cross-validated.
    """
    describe = {"number": _number, "boolean": _boolean, "date": _date, "text": _text}
    mean, scale = column_moments(model.estimator)
    box = getattr(model.estimator, "bounds_", None)
    places, columns = model.encoder.places, []
    for name, kind in model.kinds.items():
        at = list(places[name])
        x = np.empty((0, len(at))) if rows is None else rows.X[:, at]
        ends = None if box is None else (float(box.low[at[0]]), float(box.high[at[0]]))
        column = _Column(model, name, rows, x, mean[at], scale[at], ends)
        columns.append(
            {"name": name, "kind": kind, "at": at[0], "size": len(at)} | describe[kind](column)
        )
    return columns


class _Column(NamedTuple):
    """A column of the table, and the rows of which something may be said."""

    model: TableModel
    name: str
    rows: Encoded | None
    x: FloatArray  # numbers of the rows, (n, n_encoded)
    mean: FloatArray  # of the training rows, (n_encoded,)
    scale: FloatArray  # standard deviation, (n_encoded,)
    range: tuple[float, float] | None  # of the training rows, where the model knows it


def _number(column: _Column) -> Tree:
    mean, std = float(column.mean[0]), float(column.scale[0])
    std = std if np.isfinite(std) else 1.0
    x = column.x[~np.isnan(column.x[:, 0]), 0]
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
    encoder = column.model.encoder[column.name]
    known: Tree = {"categories": list(encoder.levels), "ranks": list(encoder.ranks)}
    n = len(encoder.levels)
    if column.rows is None:
        return known | {"typical": encoder.levels[int(np.argmax(column.mean[:n]))]}
    counts = (column.x[:, :n] == 1.0).sum(axis=0)
    return known | {"typical": encoder.levels[int(np.argmax(counts))], "counts": counts}


def _date(column: _Column) -> Tree:
    parts = list(column.model.encoder[column.name].parts)
    timed = "hour" in parts
    known: Tree = {"parts": parts, "timed": timed}
    if column.rows is None:
        year, share = divmod(float(column.mean[0]), 1.0)
        first = np.datetime64(f"{int(year):04d}-01-01T00:00", "s")
        seconds = np.timedelta64(int(share * 365.0 * 86_400.0), "s")
        return known | {"typical": _iso(first + seconds, timed)}
    when = _dates_of(column.model, column.name, column.rows.frame)
    there = np.sort(when[~np.isnat(when)])
    if not len(there):
        return known | {"typical": None}
    days = (there - there[0]) / _DAY
    low, typical, high = (_iso(there[i], timed) for i in (0, len(there) // 2, -1))
    counts = np.histogram(days, N_BINS, (0.0, float(days[-1]) or 1.0))[0]
    return known | {"low": low, "high": high, "typical": typical, "counts": counts}


def _iso(when: Any, timed: bool) -> str:
    return str(np.datetime_as_string(when, unit="ms" if timed else "D")).removesuffix(".000")


def _dates_of(model: TableModel, name: str, frame: pd.DataFrame) -> Array:
    """Return the dates of a column, (n,); NaT where one is missing."""
    column = frame[name]
    there = column.notna().to_numpy()
    when = np.full(len(column), np.datetime64("NaT"), "datetime64[us]")
    when[there] = model.encoder[name].dates(column[there]).to_numpy()
    return when


def rows_to_begin_with(
    model: TableModel, rows: Encoded, observed: Array, predicted: FloatArray
) -> Tree:
    """Return rows with their cells, what was observed and what was predicted, (n, K) each.

    For classes, (n, 1), these are the places of the classes observed, and their probabilities.
    """
    index = rows.frame.index
    numbers = index.to_numpy() if index.dtype.kind in "iu" else np.arange(len(index))
    places = model.encoder.places
    return {
        "cells": [_cells(model, k, rows, list(places[k])) for k in model.features],  # by column
        "numbers": (numbers + 1).tolist(),
        "observed": observed,
        "predicted": predicted,
    }


def _cells(model: TableModel, name: str, rows: Encoded, at: list[int]) -> list[Any]:
    x = rows.X[:, at]
    match model.kinds[name]:
        case "number":
            return [None if np.isnan(v) else v for v in x[:, 0].tolist()]
        case "boolean":
            return [None if np.isnan(v) else bool(v) for v in x[:, 0].tolist()]
        case "text":
            known = model.encoder[name].levels
            x = x[:, : len(known)]
            return [known[int(np.argmax(row))] if (row == 1.0).any() else None for row in x]
        case _:
            when = _dates_of(model, name, rows.frame)
            timed = "hour" in model.encoder[name].parts
            return [None if np.isnat(v) else _iso(v, timed) for v in when]


# ---- The text that a page holds: JSON, and one block of all arrays


_KINDS = {"f8": np.float64, "f4": np.float32, "i4": np.int32}


def packed(tree: Any) -> tuple[str, str]:
    r"""Return a tree of dicts, lists, texts, numbers and arrays as JSON, and its arrays as base64.

    In the JSON an array is ``{"array": [kind, start, length]}``, which says where its bytes begin
    in the block. There the first bytes of all its numbers come first, then the second ones: so they
    compress better. Other numbers that are not finite become null. In neither text is a ``<``: both
    may stand in a script element.

    >>> text, _ = packed({"name": "</script>", "weights": np.zeros((2, 3)), "gain": np.nan})
    >>> print(text)
    {"name":"\u003c/script>","weights":{"array":["f8",0,6]},"gain":null}
    """
    blocks: list[bytes] = []
    size = 0

    def plain(node: Any) -> Any:
        nonlocal size
        if isinstance(node, np.ndarray):
            floats = "f4" if node.dtype == np.float32 else "f8"
            kind = "i4" if node.dtype.kind in "iub" else floats
            values = np.ascontiguousarray(node, _KINDS[kind]).ravel()
            start = size
            blocks.append(values.view(np.uint8).reshape(-1, values.itemsize).T.tobytes())
            size += len(blocks[-1])
            return {"array": [kind, start, values.size]}
        if is_dataclass(node):
            node = {field.name: getattr(node, field.name) for field in fields(node)}
        elif hasattr(node, "_asdict"):
            node = node._asdict()
        if isinstance(node, Mapping):
            return {str(key): plain(value) for key, value in node.items()}
        if isinstance(node, Sequence) and not isinstance(node, str):
            return [plain(value) for value in node]
        if isinstance(node, np.generic):
            node = node.item()
        return None if isinstance(node, float) and not np.isfinite(node) else node

    text = json.dumps(plain(tree), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c"), compressed(b"".join(blocks))
