"""`probprop report`, and the reports of other commands: one HTML file on a model and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from probprop.cli.arguments import Data, Model, NoRows
from probprop.cli.console import terminal_of
from probprop.cli.output import check_destinations, check_replaces_page, load_table_model, naming
from probprop.cli.tables import Unknown, count_unknown, joined, known_chunks, note_unknown
from probprop.table.names import plural

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

    The report is one HTML file without external resources. It begins with the what-if page, which
    runs the model: change a value, and see the prediction and its uncertainty. Below are the
    scores, calibration, feature importance and facts of the model.

    DATA has rows whose target is known, preferably a test set. The model is scored on these rows,
    and the what-if page contains up to 300 of them, with all their values. With --no-rows it
    contains neither rows nor counts of their values, and no section shows single rows.
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
    """Refuse options of a report if no report is written."""
    given = [name for name, is_given in (("--static", static), ("--no-rows", no_rows)) if is_given]
    if given and report is None:
        raise typer.BadParameter("it needs a report: give --report FILE too", param_hint=given[0])


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

    `probprop.report.model_report` describes the options.
    """
    from probprop.report import model_report

    made = model_report(model, frame, held_out=held_out, live=live, no_rows=no_rows, train=train)
    with naming(path):
        made.save(path)
