"""Models of tables as a JSON header and arrays, and back."""

from __future__ import annotations

import math
from typing import Any

from sklearn.base import is_classifier

from probprop._types import Array
from probprop.files.estimators import describe_estimator, rebuild_estimator
from probprop.files.fields import Parts, field
from probprop.table import TableModel
from probprop.table.cells import PARTS, Order, Part
from probprop.table.encoding import Encoder
from probprop.table.names import target_names
from probprop.table.target import Counting


def describe_table_model(model: TableModel) -> Parts:
    """Return the header and the arrays of a model of a table."""
    described, arrays = describe_estimator(model.estimator)
    columns = [_describe_column(model.encoder, name) for name in model.features]
    header: dict[str, Any] = {"class": "TableModel", "target": model.target, "columns": columns}
    counting = {"weight": model.counting.weight, "error": list(model.counting.error)}
    header |= {key: value for key, value in counting.items() if value}
    header |= {} if model.na is None else {"na": list(model.na)}
    header |= {"baseline": [list(pair) for pair in model.baseline]} if model.baseline else {}
    header |= {"estimator": described}
    return header, arrays


def _describe_column(encoder: Encoder, name: str) -> dict[str, Any]:
    kind = encoder.kinds[name]
    column: dict[str, Any] = {"name": name, "kind": kind}
    if kind == "text":
        column["categories"] = list(encoder.categories[name])
    if kind == "date":
        column["parts"] = list(encoder.parts[name])
        column |= {"first": encoder.orders[name]} if name in encoder.orders else {}
    return column


def rebuild_table_model(header: dict[str, Any], arrays: dict[str, Array]) -> TableModel:
    """Undo `describe_table_model`; TypeError and ValueError say why that is not possible."""
    described = field(header, "estimator", dict)
    estimator = rebuild_estimator(described, arrays)
    if getattr(estimator, "multilabel_", False):
        raise ValueError("the target is a matrix of labels, not a column of a table")
    target, columns = _targets(header, estimator), field(header, "columns", list)
    if any(type(column) is not dict for column in columns):
        raise ValueError("a column is not described")
    kinds = {field(column, "name", str): field(column, "kind", str) for column in columns}
    if not {*kinds.values()} <= {"number", "boolean", "date", "text"}:
        raise ValueError("a column is of a kind that no model has")
    if len(kinds) < len(columns) or not kinds.keys().isdisjoint(target_names(target)):
        raise ValueError("two columns have the same name")
    texts = [column for column in columns if column["kind"] == "text"]
    categories = {column["name"]: field(column, "categories", list) for column in texts}
    for known in categories.values():
        if not known or any(type(c) is not str for c in known) or len({*known}) < len(known):
            raise ValueError("categories are not different texts")
    encoder = Encoder(kinds, categories, _parts(columns), _orders(columns))
    if len(encoder.names) != estimator.n_features_in_:
        raise ValueError("the columns are not those that the estimator was fitted on")
    counting = _counting(header, list(kinds), target_names(target))
    na, baseline = _missing_texts(header), _baseline(header, estimator)
    return TableModel(estimator, encoder, list(kinds), target, counting, na, baseline)


def _parts(columns: list[dict[str, Any]]) -> dict[str, list[Part]]:
    """Return the parts of each date."""
    parts = {c["name"]: field(c, "parts", list) for c in columns if c["kind"] == "date"}
    for some in parts.values():
        if not some or some != [part for part in PARTS if part in some]:
            raise ValueError("the parts of a date are not those that dates have")
    return parts


def _orders(columns: list[dict[str, Any]]) -> dict[str, Order]:
    """Return the dates whose month comes first."""
    orders = {c["name"]: c["first"] for c in columns if c["kind"] == "date" and "first" in c}
    if any(first != "month" for first in orders.values()):
        raise ValueError("the order of a date is none that dates have")
    return orders


def _baseline(header: dict[str, Any], estimator: Any) -> tuple[tuple[float, float], ...]:
    """Return mean and standard deviation of each target; empty if the file does not have them."""
    if "baseline" not in header:
        return ()
    pairs = field(header, "baseline", list)
    right = len(pairs) == getattr(estimator, "n_outputs_", 1) and not is_classifier(estimator)
    if not right or any(type(pair) is not list or len(pair) != 2 for pair in pairs):
        raise ValueError("baseline must have a mean and a standard deviation for each target")
    if any(type(x) is not float or not math.isfinite(x) for pair in pairs for x in pair):
        raise ValueError("baseline has values that are not finite")
    if any(std < 0.0 for _, std in pairs):
        raise ValueError("baseline has a standard deviation below 0")
    return tuple((mean, std) for mean, std in pairs)


def _missing_texts(header: dict[str, Any]) -> tuple[str, ...] | None:
    if "na" not in header:
        return None
    texts = field(header, "na", list)
    if any(type(text) is not str for text in texts):
        raise ValueError("what means a missing cell is not text")
    return tuple(texts)


def _counting(header: dict[str, Any], features: list[str], targets: list[str]) -> Counting:
    """Return the columns of weights and errors; files without them have none."""
    weight = field(header, "weight", str) if "weight" in header else None
    error = field(header, "error", list) if "error" in header else []
    names, others = Counting(weight, tuple(error)).names, [*features, *targets]
    n_different = len({*others, *(name for name in names if type(name) is str)})
    if n_different < len(names) + len(others):
        raise ValueError("the columns of weights and errors are not columns of their own")
    if error and len(error) != len(targets):
        raise ValueError("the columns of errors are not one per target")
    return Counting(weight, tuple(error))


def _targets(header: dict[str, Any], estimator: Any) -> str | list[str]:
    """Return the target of a table, or the list of several: one per output of the network."""
    n = getattr(estimator, "n_outputs_", 1)  # a classifier has one target
    if n == 1:
        name: str = field(header, "target", str)
        return name
    targets: list[str] = field(header, "target", list)
    if len(targets) != n or any(type(k) is not str for k in targets) or len({*targets}) < n:
        raise ValueError("the targets are not different columns, one per output")
    return targets
