"""The what-if section of a report: the model, the rows, the kernel and the script."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata
from sklearn.base import is_classifier

from probprop._types import Array, FloatArray
from probprop.distributions.classes import normal_draws
from probprop.distributions.recalibrated import PRIOR, SCORES
from probprop.encoding.missing import N_NODES, Joint, nodes_of
from probprop.estimators.cv.calibration import Calibration, ClassCalibration
from probprop.estimators.kind import (
    classes_of,
    column_moments,
    networks_of,
    transformation_of,
)
from probprop.estimators.shapley import evenly
from probprop.inference.posterior import Posterior, flat
from probprop.inference.prediction import copying
from probprop.inference.standardize import LARGEST, Standardizer, fit_standardizer
from probprop.plot.parts import TargetAxis, axis_of
from probprop.report.dependence import Column, columns_of_table
from probprop.report.document import Live
from probprop.table.columns import Kind
from probprop.table.encoding import ColumnEncoder, TableEncoder, UnknownCategoryWarning, or_missing
from probprop.table.model import TableModel, takes_gaps
from probprop.web import bundle, compressed, packed_kernel, text_of

MOST_NUMBERS = 6_000_000  # most means and variances of weights in a page: 20 MB of text
MOST_ROWS = 300  # that the page offers to begin with, each with all its cells
MOST_SUMMARIZED = 100_000  # rows that ranges and counts are taken from
N_BINS = 40  # of the histogram of a column
_TARGET_REACH = 2.5  # standard deviations of a target around its mean, where no rows are known
_TAILS = (0.1, 0.9)  # quantiles of a column between which its effect is shown
_REACH = 2.0  # standard deviations of a feature around its mean, where no range is known
_DAY = np.timedelta64(1, "D")


def refusal(model: TableModel) -> str | None:
    """Say why a page cannot contain a model; None: it can."""
    if getattr(model.estimator, "further_calibrations_", ()):
        return "This report has no what-if page: each of several targets has its own calibration."
    if (n := n_numbers(model)) <= MOST_NUMBERS:
        return None
    return (
        f"This report has no what-if page: its networks have {n:,} numbers, and a page at most "
        f"{MOST_NUMBERS:,}."
    )


def live_page(
    model: TableModel,
    *,
    rows: pd.DataFrame | None = None,
    predictive: Any = None,
    train: pd.DataFrame | None = None,
    important: Sequence[str] = (),
) -> Live:
    """Return the what-if section of a model, for `write_report`.

    The page begins with up to 300 of `rows`, which have their targets; `predictive` are their
    predictions, such as out-of-fold ones, or None: the model predicts them. It has summaries of
    `train`, the rows that the model was fitted on, or else of `rows`, or only what the model
    contains. The columns `important` come first, the others follow in the order of the table.
    """
    summarized, y = train if train is not None else rows, None
    if summarized is not None:
        summarized = summarized.iloc[evenly(len(summarized), MOST_SUMMARIZED)]
        y = model.observed(summarized)
    range_of = "model" if rows is None else "rows"  # whose range the sliders show
    if train is not None or hasattr(model.estimator, "bounds_"):
        range_of = "training"
    place = {name: i for i, name in enumerate(important)}
    order = sorted(range(len(model.features)), key=lambda i: place.get(model.features[i], i + 1e6))
    tree: Tree = exported(model) | {
        "columns": columns_of(model, summarized),
        "order": order,
        "ranges": target_ranges(model, y),
        "range_of": range_of,
        "rows": None if rows is None else _rows(model, rows, predictive),
    }
    text, block = packed(tree)
    data = {"what-if-kernel": packed_kernel(), "what-if-model": text, "what-if-arrays": block}
    return Live("what-if", "What if", text_of("whatif/whatif.css"), _script(), data)


@cache
def _script() -> str:
    return text_of("kernel.js") + bundle("whatif", "start.js")


def target_ranges(model: TableModel, y: Array | None) -> list[Tree]:
    """Return the axis of each target: `low`, `high`, and whether it is logarithmic.

    Without targets, the mean and the standard deviation of the training targets say it.
    """
    if model.classes is not None:
        return [TargetAxis(0.0, 1.0, False)._asdict()]
    if y is not None:
        return [axis_of(column)._asdict() for column in y.reshape(len(y), -1).T]
    s, g = networks_of(model.estimator)[0].standardizer_, transformation_of(model.estimator)
    reach = _TARGET_REACH * s.y_scale
    ends = np.stack([s.y_mean - reach, s.y_mean + reach], axis=1)
    ends = ends if g is None else g.inverse(ends)
    return [TargetAxis(float(low), float(high), False)._asdict() for low, high in ends]


def _rows(model: TableModel, frame: pd.DataFrame, predictive: Any) -> Tree:
    """Return rows to begin with: their cells, what was observed, and what was predicted.

    For classes, (n, 1), these are the places of the classes observed, and their probabilities.
    """
    some = evenly(len(frame), MOST_ROWS)
    frame = frame.iloc[some]
    X, y = split(model, frame)
    if predictive is None:
        predicted: Any = model.estimator.predict_distribution(X)
    else:
        predicted = predictive[some]
    observed = y.reshape(len(y), -1)
    if model.classes is None:
        means = predicted.mean.reshape(observed.shape)
    else:
        observed = np.searchsorted(model.classes, observed).astype(np.float64)
        means = np.take_along_axis(predicted.proba, observed.astype(np.intp), axis=1)
    encoder, places, index = model.encoder, model.encoder.places, frame.index
    cells = model.cells(frame)
    numbers = index.to_numpy() if index.dtype.kind in "iu" else np.arange(len(index))
    return {
        "cells": [_cells(e, X[:, list(places[e.name])], cells[e.name]) for e in encoder.used],
        "numbers": (numbers + 1).tolist(),
        "observed": observed,
        "predicted": means,
        "typical": typical_row(encoder, X),
    }


def typical_row(encoder: TableEncoder, X: FloatArray) -> int:
    """Return the row nearest to the middle: medians of numbers, common values of the others."""
    n, far = len(X), np.zeros(len(X))
    for each in encoder.used:
        x = X[:, list(encoder.places[each.name])]
        if each.kind in ("text", "boolean"):
            _, level, counts = np.unique(x, axis=0, return_inverse=True, return_counts=True)
            far += 1.0 - counts[level.ravel()] / n
        else:
            rank = rankdata(x[:, 0], nan_policy="omit")
            far += np.nan_to_num(np.abs(2.0 * rank / (n + 1.0) - 1.0), nan=1.0)
    return int(far.argmin())


# ---- The model as a tree of names and arrays


Tree = dict[str, Any]


def exported(model: TableModel) -> Tree:
    """Return what `probprop/web/whatif/model.js` predicts from, as `packed` takes it."""
    estimator: Any = model.estimator
    classes = classes_of(estimator)
    networks, groups = networks_of(estimator), getattr(estimator, "groups_", [])
    x_mean, x_scale = column_moments(model.estimator)
    several = classes is not None and len(classes) > 2
    return {
        "targets": model.targets,
        "classes": None if classes is None else [str(name) for name in classes.tolist()],
        "takes_gaps": takes_gaps(estimator),
        "n_features": len(model.encoded_names),
        "x_mean": x_mean,
        "x_scale": x_scale,
        "largest": LARGEST[networks[0].posterior_.dtype],
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
    """Count the numbers of all networks: of weights the means and variances, and exact layers."""
    n, estimator = 0, cast(Any, model.estimator)
    for network in networks_of(estimator):
        posterior = network.posterior_
        if (layer := posterior.output_layer) is not None:
            n, posterior = n + sum(map(np.size, vars(layer).values())), copying(posterior)
        n += sum(2 * m.size for m in posterior.m_w)
    return n


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


# ---- The columns of the table: their kinds, where the rows lie, a typical cell


def split(model: TableModel, frame: pd.DataFrame) -> tuple[FloatArray, Array]:
    """Encode rows, without another warning of unknown categories: who predicts them has warned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownCategoryWarning)
        return model.split(frame)


def columns_of(model: TableModel, rows: pd.DataFrame | None) -> list[Tree]:
    """Describe each column of the table.

    Without rows, what the model itself holds has to do: the mean and the standard deviation of
    every encoded column, and the range of the training rows if the model is cross-validated.
    """
    mean, scale = column_moments(model.estimator)
    box = getattr(model.estimator, "bounds_", None)
    none = pd.DataFrame(columns=model.features, dtype=object)
    cells = none if rows is None else model.cells(rows)
    described = []
    for column in columns_of_table(model.encoder, cells):
        at = list(column.place)
        ends = None if box is None else (float(box.low[at[0]]), float(box.high[at[0]]))
        known = _DESCRIBE[column.kind](column, mean[at], scale[at], ends)
        own: Tree = {"name": column.name, "kind": column.kind, "at": at[0], "size": len(at)}
        described.append(own | known)
    return described


Ends = tuple[float, float] | None


def _number(column: Column, mean: FloatArray, scale: FloatArray, ends: Ends) -> Tree:
    x, m, std = column.cells.to_numpy(np.float64), float(mean[0]), float(scale[0])
    std = std if np.isfinite(std) else 1.0
    known: Tree = {"scale": std, "whole": len(x) > 0 and bool((x == np.rint(x)).all())}
    if not len(x):
        low, high = ends or (m - _REACH * std, m + _REACH * std)
        tails = np.clip([m + z * std for z in norm.ppf(_TAILS)], low, high).tolist()
        return known | {"low": low, "high": high, "typical": m, "tails": tails}
    low, high = ends or (float(x.min()), float(x.max()))
    tails = _tails(np.sort(x))
    typical = float(np.quantile(x, 0.5, method="inverted_cdf"))
    if fit_standardizer(np.array([[low], [high]]), None).spreads[0] == 0.0:
        high = low  # constant, except for rounding
        counts = np.bincount([0], [len(x)], N_BINS).astype(np.int64)
    else:
        known["log"] = low > 0.0 and axis_of(x).log
        place = np.log if known["log"] else np.asarray
        counts = np.histogram(place(x), N_BINS, tuple(place([low, high])))[0]
    return known | {"low": low, "high": high, "typical": typical, "tails": tails, "counts": counts}


def _tails(ordered: Array) -> list[Any]:
    """Return the 10 % and the 90 % quantile; if these are equal, quantiles further out."""
    n = len(ordered)
    for share in (_TAILS[0], 0.01, 0.0):
        low, high = ordered[int(share * n)], ordered[min(n - 1, int((1.0 - share) * n))]
        if low < high:
            break
    return [low, high]


def _boolean(column: Column, mean: FloatArray, *_: Any) -> Tree:
    if not len(column.cells):
        return {"typical": bool(mean[0] > 0.5)}
    n_true = int(column.cells.sum())
    counts = np.array([len(column.cells) - n_true, n_true])
    return {"typical": bool(counts[1] > counts[0]), "counts": counts}


def _text(column: Column, mean: FloatArray, *_: Any) -> Tree:
    levels = list(column.encoder.levels)
    counts = column.cells.value_counts().reindex(levels, fill_value=0).to_numpy(np.int64)
    most = counts if counts.any() else mean[: len(levels)]
    known: Tree = {"categories": levels, "ranks": list(column.encoder.ranks)}
    known |= {"known": list(column.encoder.known), "means": column.encoder.means}
    known["typical"] = levels[int(most.argmax())]
    return known | ({"counts": counts} if counts.any() else {})


def _date(column: Column, mean: FloatArray, *_: Any) -> Tree:
    parts = list(column.encoder.parts)
    timed = "hour" in parts
    known: Tree = {"parts": parts, "timed": timed}
    if not len(column.cells):
        year, share = divmod(float(mean[0]), 1.0)
        first = np.datetime64(f"{int(year):04d}-01-01T00:00", "s")
        seconds = np.timedelta64(int(share * 365.0 * 86_400.0), "s")
        return known | {"typical": _iso(first + seconds, timed)}
    when = np.sort(column.cells.to_numpy("datetime64[us]"))
    days = (when - when[0]) / _DAY
    ends = when[[0, len(when) // 2, -1]]
    low, typical, high, *tails = (_iso(each, timed) for each in (*ends, *_tails(when)))
    counts = np.histogram(days, N_BINS, (0.0, float(days[-1]) or 1.0))[0]
    return known | {"low": low, "high": high, "typical": typical, "tails": tails, "counts": counts}


_DESCRIBE: dict[Kind, Callable[..., Tree]] = {
    "number": _number,
    "boolean": _boolean,
    "date": _date,
    "text": _text,
}


def _iso(when: Any, timed: bool) -> str:
    return str(np.datetime_as_string(when, unit="ms" if timed else "D")).removesuffix(".000")


def _cells(encoder: ColumnEncoder, x: FloatArray, column: pd.Series) -> list[Any]:
    """Return the cells of a column as the page takes them, given its inputs x, (n, m)."""
    match encoder.kind:
        case "number":
            return [None if np.isnan(v) else v for v in x[:, 0].tolist()]
        case "boolean":
            return [None if np.isnan(v) else bool(v) for v in x[:, 0].tolist()]
        case "text":
            levels, kept = encoder.levels, {*encoder.known}
            x, given = x[:, : len(levels)], or_missing(column).tolist() if kept else [""] * len(x)
            named = [levels[int(row.argmax())] if (row == 1.0).any() else None for row in x]
            return [own if own in kept else name for own, name in zip(given, named, strict=True)]
        case _:
            there, timed = column.notna().to_numpy(), "hour" in encoder.parts
            when = iter(encoder.dates(column[there]).to_numpy("datetime64[us]"))
            return [_iso(next(when), timed) if known else None for known in there]


# ---- The text of a page: JSON, and one block of all arrays


_KINDS = {"f8": np.float64, "f4": np.float32, "i4": np.int32}


def packed(tree: Any) -> tuple[str, str]:
    r"""Return a tree of dicts, lists, texts, numbers and arrays as JSON, and its arrays as base64.

    In the JSON an array is ``{"array": [kind, start, length]}``, which says where its bytes begin
    in the block. There the first bytes of all its numbers come first, then the second ones: so they
    compress better. Other numbers that are not finite become null. In neither text is a ``<``: both
    is valid in a script element.

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
