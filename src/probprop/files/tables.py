"""Models of tables as a JSON header and arrays, and back."""

from __future__ import annotations

from typing import Any

from probprop._types import Array
from probprop.files.estimators import describe_estimator, rebuild_estimator
from probprop.files.fields import Parts, field
from probprop.table import TableModel
from probprop.table.counting import Counting
from probprop.table.encoding import build_encoder
from probprop.table.names import target_names


def describe_table_model(model: TableModel) -> Parts:
    """Return the header and the arrays of a model of a table."""
    described, arrays = describe_estimator(model.estimator)
    known = model.categories
    columns = [
        {"name": k, "kind": kind} | ({"categories": known[k]} if kind == "text" else {})
        for k, kind in model.kinds.items()
    ]
    header: dict[str, Any] = {"class": "TableModel", "target": model.target, "columns": columns}
    counting = {"weight": model.counting.weight, "error": list(model.counting.error)}
    header |= {key: value for key, value in counting.items() if value}
    header |= {"regressor": described}  # or a classifier: old files use this key
    return header, arrays


def rebuild_table_model(header: dict[str, Any], arrays: dict[str, Array]) -> TableModel:
    """Undo `describe_table_model`; TypeError and ValueError say why that is not possible."""
    described = field(header, "regressor", dict)
    estimator = rebuild_estimator(described, arrays)
    if getattr(estimator, "multilabel_", False):
        raise ValueError("the target is a matrix of labels, not a column of a table")
    target, columns = _targets(header, estimator), field(header, "columns", list)
    if any(type(column) is not dict for column in columns):
        raise ValueError("a column is not described")
    kinds = {field(column, "name", str): field(column, "kind", str) for column in columns}
    if not {*kinds.values()} <= {"number", "boolean", "text"}:
        raise ValueError("a column is of a kind that no model has")
    if len(kinds) < len(columns) or not kinds.keys().isdisjoint(target_names(target)):
        raise ValueError("two columns have the same name")
    texts = [column for column in columns if column["kind"] == "text"]
    categories = {column["name"]: field(column, "categories", list) for column in texts}
    for known in categories.values():
        if not known or any(type(c) is not str for c in known) or len({*known}) < len(known):
            raise ValueError("categories are not different texts")
    if len(kinds) - len(texts) + sum(map(len, categories.values())) != estimator.n_features_in_:
        raise ValueError("the columns are not those that the regressor was fitted on")
    counting = _counting(header, list(kinds), target_names(target))
    return TableModel(estimator, build_encoder(kinds, categories), list(kinds), target, counting)


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
