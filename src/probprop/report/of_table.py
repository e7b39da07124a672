"""The sections on a model of a table: its rows as the report takes them."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd

from probprop.report.classification import classification_sections
from probprop.report.document import Section
from probprop.report.regression import regression_sections
from probprop.table.model import TableModel


def table_model_sections(
    model: TableModel, frame: pd.DataFrame, *, held_out: bool | None
) -> list[Section]:
    """Judge a model of a table on rows with known targets.

    Parameters
    ----------
    model : TableModel
    frame : DataFrame
        Rows with their targets; its index counts the rows of the file from 0.
    held_out : bool or None
        Whether the model has not seen them; None: nobody knows.

    Returns
    -------
    list of Section
        Those of `regression_sections` or `classification_sections`.
    """
    X, y = model.split(frame)
    options: Any = {} if model.classes is not None else {"baseline": model.baseline}
    if (weights := model.weights_to_judge(frame)) is not None:
        options["sample_weight"] = weights
    return (regression_sections if model.classes is None else classification_sections)(
        cast(Any, model.estimator),
        X,
        y,
        feature_names=model.encoded_names,
        target=cast(Any, model.target),
        held_out=held_out,
        row_numbers=frame.index + 1,
        table=model.cells(frame),
        encoder=model.encoder,
        **options,
    )
