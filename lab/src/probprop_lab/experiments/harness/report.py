"""Rows in, tables out: for the terminal, as Markdown, CSV and HTML."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import replace

from probprop._atomic import replacing
from probprop_lab.clock import wall_note
from probprop_lab.experiments.harness.columns import Record, Table
from probprop_lab.experiments.harness.experiment import Experiment
from probprop_lab.results import Row

StrPath = str | os.PathLike[str]


def table(experiment: Experiment, rows: Sequence[Row]) -> Table:
    """Return the header and the cells of an experiment's table, as text.

    A column with nothing in it is left out. Seconds are called processor seconds where all are.

    Parameters
    ----------
    experiment : Experiment
    rows : sequence of dict
        What `run` returned.
    """
    records = experiment.records(rows)
    shown = [[column.show(record) for record in records] for column in experiment.columns]
    kept = [
        (c.title, cells) for c, cells in zip(experiment.columns, shown, strict=True) if any(cells)
    ]
    lines = zip(*(cells for _, cells in kept), strict=True)
    clocked = {} if wall_note(experiment.timed(rows)) else {"seconds": "processor seconds"}
    return [clocked.get(title, title) for title, _ in kept], [list(line) for line in lines]


def notes(experiment: Experiment, rows: Sequence[Row]) -> list[str]:
    """Return the sentences below the table."""
    timed = any("seconds" in column.title for column in experiment.columns)
    clock = wall_note(experiment.timed(rows)) if timed else ""
    return experiment.notes(experiment.records(rows)) + ([clock] if clock else [])


def summaries(experiment: Experiment, rows: Sequence[Row]) -> list[tuple[str, Table]]:
    """Return the further tables with their titles."""
    return experiment.summaries(experiment.records(rows))


def markdown(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Return the tables with their titles, and the notes, as Markdown."""
    parts = [f"## {experiment.title}", experiment.text, _grid(table(experiment, rows))]
    parts.append("\n".join(f"- {note}" for note in notes(experiment, rows)))
    for title, further in summaries(experiment, rows):
        parts += [f"### {title}", _grid(further)]
    return "\n\n".join(parts) + "\n"


def _grid(table: Table) -> str:
    header, cells = table
    # Names to the left, numbers to the right.
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *cells]
    return "\n".join(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in x)} |" for x in lines)


def csv_text(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Return the records as CSV: every number in full, an empty cell where there is none."""
    records: list[Record] = experiment.records(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def write_text(path: StrPath, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())


def write_html(path: StrPath, experiment: Experiment, rows: Sequence[Row]) -> None:
    """Write the HTML report: the tables, the notes and the figures.

    Parameters
    ----------
    path : str or path-like
    experiment : Experiment
    rows : sequence of dict
        What `run` returned.
    """
    from probprop.report import Section, figure, write_report

    below = "\n\n".join(f"{note[:1].upper()}{note[1:]}." for note in notes(experiment, rows))
    words = f"{experiment.text}\n\n{below}"
    groups = list(dict.fromkeys(column.group for column in experiment.columns if column.group))
    if groups:
        sections = [Section(experiment.title, words)]
        sections += [Section(name, "", _part(experiment, rows, name)) for name in groups]
    else:
        sections = [Section(experiment.title, words, table(experiment, rows))]
    sections += [Section(title, "", further) for title, further in summaries(experiment, rows)]
    sections += [
        Section(words, "", figures=[figure(drawing, words)])
        for drawing, words in experiment.figures(rows)
    ]
    write_report(path, f"Reproducing the paper: {experiment.name}", sections)


def _part(experiment: Experiment, rows: Sequence[Row], group: str) -> Table:
    """Return the table of one group of columns."""
    columns = [column for column in experiment.columns if column.group in ("", group)]
    return table(replace(experiment, columns=columns), rows)
