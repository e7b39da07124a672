"""Reports: one self-contained HTML file to read, print or send to a colleague.

A report is a list of sections; `regression_sections` makes those of a fitted regressor,
`classification_sections` those of a classifier, and any others can stand beside them.

>>> from probprop.report import Section, render
>>> table = (["measure", "value"], [["RMSE", "53.4"]])
>>> html = render("Diabetes", [Section("Accuracy", "On 45 rows.", table)], footer="probprop")
>>> "<title>Diabetes</title>" in html
True
"""

from __future__ import annotations

from typing import Any, cast

import pandas as pd

from probprop.facts import (
    OUT_OF_FOLD,
    HeldOut,
    calibration_in_words,
    choice_in_words,
    model_facts,
)
from probprop.report.document import Live, Picture, Section, Table, figure, render, write_report
from probprop.report.sections import classification_sections, regression_sections
from probprop.table.model import TableModel

__all__ = [
    "OUT_OF_FOLD",
    "HeldOut",
    "Live",
    "Picture",
    "Section",
    "Table",
    "calibration_in_words",
    "choice_in_words",
    "classification_sections",
    "figure",
    "model_facts",
    "regression_sections",
    "render",
    "table_model_sections",
    "write_report",
]


def table_model_sections(
    model: TableModel, frame: pd.DataFrame, *, held_out: HeldOut
) -> list[Section]:
    """Evaluate a model of a table on rows with known targets, whose index counts them from 0.

    `held_out` and the sections are as for `regression_sections` or `classification_sections`.
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
