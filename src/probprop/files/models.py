"""Save and load models: which functions describe and rebuild which class."""

from __future__ import annotations

import os
from typing import Any

from probprop._types import Array
from probprop.files.ensembles import members_in
from probprop.files.estimators import OF_MEMBERS, describe_estimator, rebuild_estimator
from probprop.files.fields import Parts, field
from probprop.files.format import DAMAGED, NEWER, file_error, read_model, write_model
from probprop.files.networks import KINDS

Model = Any
"""A fitted estimator of probprop, or a `TableModel`."""

_TABLE = "TableModel"


def _tables() -> Any:
    """Import the part on tables only for a table: it needs pandas."""
    from probprop.files import tables

    return tables


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file.

    Parameters come back as plain numbers, strings, lists and tuples; a RandomState comes back
    as None, since all that `partial_fit` and `predict` need is in the posterior.
    """
    try:
        header, arrays = describe(model)
        _rebuild(header, arrays)  # a model that could not be loaded is not saved
        write_model(path, header, arrays)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The model cannot be saved: {error}") from error


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model that its `save` method wrote; it predicts and goes on exactly as before.

    A file that is no model, is damaged, or was written by a newer probprop raises
    `ModelFileError`. Files of unknown origin are safe to try: nothing in them is run.
    """
    header, arrays = read_model(path)
    try:
        inside = class_inside(header)
        if inside in KINDS:
            return _rebuild(header, arrays)
    except (TypeError, ValueError) as error:
        raise file_error(path, DAMAGED, error) from error
    raise file_error(path, NEWER, f"this one has no {inside[:50]}")


def describe(model: Model) -> Parts:
    """Return the header and the arrays of a fitted model."""
    if type(model).__name__ != _TABLE:
        return describe_estimator(model)
    described: Parts = _tables().describe_table_model(model)
    return described


def _rebuild(header: dict[str, Any], arrays: dict[str, Array]) -> Model:
    is_table = field(header, "class", str) == _TABLE
    return (_tables().rebuild_table_model if is_table else rebuild_estimator)(header, arrays)


def class_inside(header: dict[str, Any]) -> str:
    """Return the class of what predicts: the model, the estimator of a table, or a member."""
    part = header
    if field(part, "class", str) == _TABLE:
        part = field(part, "estimator", dict)
    if field(part, "class", str) in OF_MEMBERS:
        part = members_in(part)[0]
    inside: str = field(part, "class", str)
    return inside
