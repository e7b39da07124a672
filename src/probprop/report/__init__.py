"""Reports: one self-contained HTML file to read, print or send to a colleague.

A report is a list of sections; `table_model_sections` makes them for a model of a table, and any
others can be added.

>>> from probprop.report import Section, render
>>> table = (["measure", "value"], [["RMSE", "53.4"]])
>>> html = render("Diabetes", [Section("Accuracy", "On 45 rows.", table)], footer="probprop")
>>> "<title>Diabetes</title>" in html
True
"""

from __future__ import annotations

from probprop.facts import (
    OUT_OF_FOLD,
    HeldOut,
    calibration_in_words,
    choice_in_words,
    model_facts,
)
from probprop.report.document import Live, Picture, Section, Table, figure, render, write_report
from probprop.report.sections import table_model_sections

__all__ = [
    "OUT_OF_FOLD",
    "HeldOut",
    "Live",
    "Picture",
    "Section",
    "Table",
    "calibration_in_words",
    "choice_in_words",
    "figure",
    "model_facts",
    "render",
    "table_model_sections",
    "write_report",
]
