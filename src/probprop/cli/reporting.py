"""`probprop report`, and the reports of other commands: one HTML file on a model and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from probprop.cli.arguments import Data, Model, NoRows
from probprop.cli.console import plural, terminal_of
from probprop.cli.output import check_destinations, check_replaces_page, load_table_model, naming
from probprop.cli.tables import known_rows
from probprop.table.names import in_words

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.report import Section
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
    frame = known_rows(terminal, table_model, data)
    with terminal.working("writing the report"):
        planned = plan_report(table_model, frame, held_out=None, live=live, no_rows=no_rows)
        planned.write(output, table_model)
    terminal.say(f"wrote {output}: {plural(len(frame), 'row')}")


def check_page_options(report: str | None, *, static: bool, no_rows: bool) -> None:
    """Refuse options of a report where none is written."""
    given = [name for name, is_given in (("--static", static), ("--no-rows", no_rows)) if is_given]
    if given and report is None:
        raise typer.BadParameter("it is for a report: give --report FILE too", param_hint=given[0])


@dataclass(frozen=True, eq=False)
class PlannedReport:
    """What a report says, and what its what-if page knows of the rows."""

    judged: TableModel  # what the sections are about
    sections: Sequence[Section]
    live: bool  # whether there is a what-if page
    rows: DataFrame | None  # as for `live_page`
    train: DataFrame | None  # as for `live_page`

    def write(self, path: str, model: TableModel) -> None:
        """Write it, with this model in the what-if page."""
        from probprop.report import Section, write_report
        from probprop.report.live import live_page, refusal

        sections, page = list(self.sections), None
        if self.live and (words := refusal(model)) is not None:
            sections.append(Section("What if", words))
        elif self.live:
            page = live_page(model, rows=self.rows, judged=self.judged, train=self.train)
        with naming(path):
            write_report(path, f"Predicting {in_words(model.targets)}", sections, page)


def plan_report(
    model: TableModel,
    frame: DataFrame,
    *,
    held_out: bool | None,
    live: bool = True,
    no_rows: bool = False,
    train: DataFrame | None = None,
) -> PlannedReport:
    """Evaluate a model on the rows of a frame, which have their targets.

    `held_out` says whether the model has not seen them; None if that is not known. `train` are the
    rows that it was fitted on, where they are there.
    """
    from probprop.report import table_model_sections

    sections = table_model_sections(model, frame, held_out=held_out)
    if no_rows:
        sections = [section for section in sections if not section.names_rows]
    # Rows that the model was fitted on are in a page only as summaries.
    rows = None if no_rows or held_out is False else frame
    return PlannedReport(model, sections, live, rows, None if no_rows else train)
