"""`probprop evaluate` and `probprop info`: how good a model is, and what it is."""

from __future__ import annotations

import json
import os
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probprop.cli.arguments import DataFiles, Model, Report
from probprop.cli.console import plural, terminal_of
from probprop.cli.destinations import check_destinations
from probprop.cli.in_chunks import judge_chunks, known_chunks
from probprop.cli.large import input_paths
from probprop.cli.models import load_table_model
from probprop.cli.reporting import plan_report
from probprop.cli.scores import as_json as in_json
from probprop.cli.scores import judge, show_scores

if TYPE_CHECKING:
    from probprop.table import TableModel

EVALUATE_EXAMPLES = """\b
Examples:
  probprop evaluate houses.pbp sold.csv
  probprop evaluate houses.pbp sold.csv --report sold.html
  probprop evaluate houses.pbp sold.csv --json
  probprop evaluate houses.pbp 'sold/*.parquet'
"""
INFO_EXAMPLES = """\b
Example:
  probprop info houses.pbp
"""


_REPLACED = ("Feature", "Features", "Version")  # facts that the file knows better


def evaluate(
    context: typer.Context,
    model: Model,
    data: DataFiles,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    report: Report = None,
) -> None:
    """Judge predictions and their uncertainty on rows whose target is known.

    For numbers: errors, log-likelihood, and how many lie inside their intervals. For classes:
    accuracy, log-loss, Brier score, and the calibration error, how far the share of right
    predictions is from the probability they were given. Each of several targets is judged.

    Give rows that the model has not seen: on the rows it was fitted on, it looks better than
    it is. If the model was fitted with --weight and the table has that column, the noise of each
    row is that of its weight; otherwise rows have the mean weight of the fit.

    Several files, or a quoted pattern such as 'sold/*.parquet', are one table, of any size. Of
    more than 100,000 rows as many are drawn at random to judge calibration, and for the report.
    """
    paths = input_paths(data)
    check_destinations({"--report": report}, {"MODEL": model, "DATA": paths})
    terminal = terminal_of(context)
    table_model = load_table_model(model)
    chunks = known_chunks(terminal, table_model, paths, table_model.all_kinds, judging=True)
    ahead = list(islice(chunks, 2))
    if len(ahead) == 1:
        [frame] = ahead
        judged, n_rows = judge(table_model, frame), len(frame)
    else:
        judged, frame, n_rows = judge_chunks(terminal, table_model, chain(ahead, chunks))
        if len(frame) < n_rows:
            terminal.say(
                f"calibration is judged on {plural(len(frame), 'row')} of them, drawn at random"
            )
    if report is not None:
        with terminal.working("writing the report"):
            plan_report(table_model, frame, held_out=None).write(report, table_model)
        terminal.say(f"wrote {report}")
    if as_json:
        of_targets = zip(table_model.targets, judged, strict=True)
        each = {target: in_json(one) for target, one in of_targets}
        of_all = {"targets": each} if len(each) > 1 else each[table_model.targets[0]]
        text = json.dumps({"rows": n_rows, **of_all}, indent=2, allow_nan=False)
        for line in text.splitlines():
            terminal.result(line)
    else:
        terminal.say(f"{model} on {plural(n_rows, 'row')} of {' '.join(data)}:")
        show_scores(terminal, table_model, judged)


def info(context: typer.Context, model: Model) -> None:
    """Show what a model is and what it was fitted on."""
    from probprop.files import load
    from probprop.io import MODEL, read_file
    from probprop.report import model_facts
    from probprop.table import TableModel

    loaded: Any = load(model)
    version = read_file(model, MODEL).version
    if isinstance(loaded, TableModel):
        facts = model_facts(loaded.estimator, loaded.encoded_names, loaded.target)
        features = ", ".join(_feature(loaded, name) for name in loaded.features)
        given = {"Weights": loaded.counting.weight, "Errors": ", ".join(loaded.counting.error)}
        counting = [(fact, name) for fact, name in given.items() if name]
    else:
        counting = []
        facts = model_facts(loaded, [], "the target")
        names = getattr(loaded, "feature_names_in_", ())
        features = ", ".join(str(name) for name in names) or "without names"
    rows = [(name, value) for name, value in facts if name not in _REPLACED]
    terminal_of(context).facts(
        [
            *rows,
            ("Features", features),
            *counting,
            ("Written by", f"probprop {version}"),
            ("File size", f"{os.path.getsize(model):,} bytes"),
        ]
    )


def _feature(model: TableModel, name: str) -> str:
    """Name a column with what it holds, where that is not numbers."""
    kind = model.kinds[name]
    if kind == "text":
        return f"{name} ({plural(len(model.categories[name]), 'category')})"
    if kind == "date":
        parts = ", ".join(part.replace("_", " ") for part in model.encoder.parts[name])
        return f"{name} (date: {parts})"
    return f"{name} (true or false)" if kind == "boolean" else name
