"""Reports: one self-contained HTML file to read, print or send to a colleague.

A report is a list of sections; `regression_sections` makes those of a fitted regressor,
`classification_sections` those of a classifier, and any others can stand beside them.

>>> from probprop.report import Section, render
>>> table = (["measure", "value"], [["RMSE", "53.4"]])
>>> html = render("Diabetes", [Section("Accuracy", "On 45 rows.", table)], footer="probprop")
>>> "<title>Diabetes</title>" in html
True
"""

from probprop.report.choice_words import calibration_in_words, choice_in_words
from probprop.report.classification import classification_sections
from probprop.report.document import Live, Picture, Section, Table, figure, render, write_report
from probprop.report.facts import model_facts
from probprop.report.regression import regression_sections

__all__ = [
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
    "write_report",
]
