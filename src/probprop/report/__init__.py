"""Reports: one self-contained HTML file to read, print or send to a colleague.

The module can be called: ``probprop.report(model, X, y)`` is the report on a fitted model.
`write_report` writes sections of any kind.

>>> from probprop.report import Section, render
>>> table = (["measure", "value"], [["RMSE", "53.4"]])
>>> html = render("Diabetes", [Section("Accuracy", "On 45 rows.", table)], footer="probprop")
>>> "<title>Diabetes</title>" in html
True
"""

from __future__ import annotations

import sys
from types import ModuleType

from probprop.facts import calibration_in_words, choice_in_words, model_facts
from probprop.report.document import Live, Picture, Section, Table, figure, render, write_report
from probprop.report.whole import Report, model_report, report

__all__ = [
    "Live",
    "Picture",
    "Report",
    "Section",
    "Table",
    "calibration_in_words",
    "choice_in_words",
    "figure",
    "model_facts",
    "model_report",
    "render",
    "report",
    "write_report",
]


class _Callable(ModuleType):
    """So that ``probprop.report`` is the function and ``probprop.report.Section`` a part of it."""

    __call__ = staticmethod(report)


sys.modules[__name__].__class__ = _Callable
