"""What the laboratory adds to the command `probprop`, which finds it by entry points."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from probprop_lab.commands import data, reproducing

if TYPE_CHECKING:
    from probprop.cli.methods import Methods
    from probprop.table.target import Task


def add_commands(app: typer.Typer) -> None:
    """Add ``reproduce`` and ``data`` to the command (entry point group ``probprop.commands``)."""
    app.command(epilog=reproducing.REPRODUCE_EXAMPLES)(reproducing.reproduce)
    app.add_typer(data.app, name="data")


def methods(task: Task) -> Methods:
    """Return the methods that ``probprop compare`` gains (entry point group ``probprop.methods``).

    >>> list(methods("classification"))
    ['MLPClassifier', 'CatBoost']
    """
    from probprop_lab.experiments.beyond import class_methods
    from probprop_lab.experiments.harness import methods as regression
    from probprop_lab.experiments.harness.job import Job

    def with_defaults(method: regression.Method) -> regression.Method:
        """Give its maker all fields of a job, not the seed alone."""

        def make(job: Any) -> Any:
            method.check()
            return method.make(Job("compare", "", job.split, method.name, job.seed))

        return replace(method, make=make)

    known, names = {
        "regression": (regression.KNOWN, regression.FIELD),
        "classification": (class_methods.KNOWN, class_methods.OTHERS),
    }[task]
    return {name: with_defaults(known[name]) for name in names}
