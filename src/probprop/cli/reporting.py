"""`probprop report`, and the reports of other commands: one HTML file on a model and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from probprop.cli.arguments import Data, Model, NoRows
from probprop.cli.console import terminal_of
from probprop.cli.output import check_destinations, check_replaces_page, load_table_model, naming
from probprop.cli.tables import Unknown, count_unknown, joined, known_chunks, note_unknown
from probprop.table.names import in_words, plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.report import HeldOut
    from probprop.table import TableModel

REPORT_EXAMPLES = """\b
Examples:
  probprop report houses.pbp sold.csv -o houses.html
  probprop report houses.pbp sold.csv --no-rows -o for-a-colleague.html
  probprop report houses.pbp sold.csv --static -o houses.html
"""


def report(
    context: typer.Context,
    model: Model,
    data: Data,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="HTML report to write.")
    ],
    live: Annotated[
        bool, typer.Option("--live/--static", help="Include the what-if page, or only charts.")
    ] = True,
    no_rows: NoRows = False,
) -> None:
    """Write an HTML report on a model.

    The report is one HTML file to look at, to print or to send; it loads nothing from the network.
    It begins with the what-if page, the model itself: change a value, and see the prediction and
    its uncertainty. Below are the scores, calibration, feature importance and facts of the model.

    DATA has rows whose target is known, preferably rows that the model was not fitted on. The model
    is scored on them, and the what-if page contains up to 300 of them, with all their values. With
    --no-rows it contains neither rows nor counts of their values, and no section shows single
    rows.
    """
    check_destinations({"-o": output}, {"MODEL": model, "DATA": data})
    check_replaces_page(output)
    terminal = terminal_of(context)
    table_model = load_table_model(model)
    kinds = table_model.all_kinds
    frame = joined(known_chunks(terminal, table_model, [data], kinds, judging=True))
    unknown: Unknown = {}
    count_unknown(unknown, table_model, frame)
    note_unknown(terminal, unknown, table_model, learning=False)
    with terminal.working("writing the report"):
        write_model_report(output, table_model, frame, held_out=None, live=live, no_rows=no_rows)
    terminal.say(f"wrote {output}: {plural(len(frame), 'row')}")


def check_page_options(report: str | None, *, static: bool, no_rows: bool) -> None:
    """Refuse options of a report where none is written."""
    given = [name for name, is_given in (("--static", static), ("--no-rows", no_rows)) if is_given]
    if given and report is None:
        raise typer.BadParameter("it is for a report: give --report FILE too", param_hint=given[0])


def write_model_report(
    path: str,
    model: TableModel,
    frame: DataFrame,
    *,
    held_out: HeldOut,
    live: bool = True,
    no_rows: bool = False,
    train: DataFrame | None = None,
) -> None:
    """Evaluate a model on the rows of a frame, which have their targets, and write it.

    `held_out` is as for `regression_sections`. `train` are the rows that the model was fitted on,
    where they are there.
    """
    from probprop.report import OUT_OF_FOLD, Section, table_model_sections, write_report
    from probprop.report.live import live_page, refusal

    sections, page = table_model_sections(model, frame, held_out=held_out), None
    if no_rows:
        sections = [section for section in sections if not section.names_rows]
    if live and (words := refusal(model)) is not None:
        sections.append(Section("What if", words))
    elif live:
        estimator: Any = model.estimator
        page = live_page(
            model,
            # Training rows that only the model itself predicts are in a page as summaries.
            rows=None if no_rows or held_out is False else frame,
            predictive=estimator.oof_predictive_ if held_out == OUT_OF_FOLD else None,
            train=None if no_rows else train,
        )
    with naming(path):
        write_report(path, f"Predicting {in_words(model.targets)}", sections, page)
