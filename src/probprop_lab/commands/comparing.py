"""`probprop compare`: PBP beside other methods, on the user's own table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probprop.cli.arguments import (
    Data,
    Drop,
    Features,
    Report,
    check_range,
    column_names,
    given,
)
from probprop.cli.console import Terminal, plural, terminal_of
from probprop.cli.output import check_destinations, naming
from probprop.cli.tables import nameless, note_table, usable_columns, with_targets
from probprop_lab.commands.reproducing import bar

if TYPE_CHECKING:
    from probprop._types import Array
    from probprop_lab.experiments import Job, Row
    from probprop_lab.experiments.harness.columns import Record

COMPARE_EXAMPLES = """\b
Examples:
  probprop compare houses.csv --target price
  probprop compare houses.csv --target price --drop id --splits 20 --report houses.html
  probprop compare houses.csv --target price --method "PBPRegressorCV,GP,my_method:gp"
"""


def compare(
    context: typer.Context,
    data: Data,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Column to predict.")],
    features: Features = None,
    drop: Drop = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...",
            help="PBP, PBPRegressorCV, BayesianRidge, GP, GP ARD, MLP ensemble, deep ensemble, "
            "HistGB, LightGBM, CatBoost, CatBoost constant, NGBoost or your own module:factory.  "
            "[default: all that are installed]",
        ),
    ] = None,
    splits: Annotated[
        int, typer.Option(metavar="N", help="How often to hold out a tenth of the rows.")
    ] = 5,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Fits at a time.  [default: all cores]")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same splits.")] = 0,
    report: Report = None,
) -> None:
    """Compare PBP with other methods on a table.

    Each method is fitted on nine tenths of the rows and judged on the others, several times,
    all on the same random splits. The one with the highest log-likelihood stands first; p is
    the probability of so large a lead by chance. The last line is without features: the mean and
    standard deviation of the test rows for all of them.
    """
    check_range("--splits", splits, 1, math.inf)
    check_range("--seed", seed, 0, 2**32 // 1000 - 1)
    if jobs is not None:
        check_range("--jobs", jobs, 1, math.inf)
    check_destinations({"--report": report}, {"DATA": data})
    from probprop_lab.experiments.beyond import own_data
    from probprop_lab.experiments.harness import methods
    from probprop_lab.experiments.harness.columns import cells

    terminal = terminal_of(context)
    X, y = _read(data, target, features, drop, terminal)
    names = given(method) or [k for k in methods.FIELD if methods.KNOWN[k].installed]
    wanted = own_data.jobs(_name(data), len(y), names, splits, seed)
    terminal.say(f"{plural(len(wanted), 'fit')} on {plural(len(y), 'row')}")
    rows, failed = _run(X, y, wanted, -1 if jobs is None else jobs, terminal)
    if not rows:
        raise ValueError(f"no method could be run; {'; '.join(failed)}")
    records = own_data.records(rows)
    header, lines = cells(own_data.COLUMNS, records)
    table = header, [*lines, own_data.baseline(y, rows)]
    terminal.table(*table)
    notes = [own_data.verdict(records), *failed, *_left_out(names, wanted, method is None)]
    for note in notes:
        terminal.say(note)
    if report is not None:
        with naming(report):
            _write_report(report, target, table, notes, records)
        terminal.say(f"wrote {report}")


def _read(
    data: str,
    target: str,
    features: list[str] | None,
    drop: list[str] | None,
    terminal: Terminal,
) -> tuple[Array, Array]:
    """Return the encoded features, (n, d), NaN where missing, and the target, (n,), of a table."""
    import numpy as np

    from probprop.table import read_table
    from probprop.table.encoding import fit_encoder
    from probprop.table.names import choose_features
    from probprop.table.target import target_of

    read = read_table(data)
    frame = with_targets(read, [target])
    columns = [str(name) for name in frame.columns]
    wanted = column_names(features, columns) if features else None
    unwanted = [*column_names(drop or [], columns), *nameless(frame, wanted, terminal)]
    chosen = choose_features(frame, [target], wanted, unwanted)
    note_table(terminal, read, frame, [target])
    kinds = usable_columns(frame, chosen, asked_for=wanted is not None, terminal=terminal)
    chosen = list(kinds)
    y = target_of(frame, target)
    if y.min() == y.max():
        raise ValueError(f"the target {target!r} is {y[0]:g} in every row: nothing to predict")
    X = fit_encoder(frame[chosen])[1]
    if n_gaps := int(np.isnan(X).any(axis=1).sum()):
        terminal.note(
            f"{n_gaps:,} of {plural(len(X), 'row')} have empty cells, which are filled, for every "
            "method, with the mean of their column in the rows it is fitted on"
        )
    return X, y


def _name(data: str) -> str:
    return "standard input" if data == "-" else Path(data).name


def _run(
    X: Array, y: Array, jobs: Sequence[Job], n_jobs: int, terminal: Terminal
) -> tuple[list[Row], list[str]]:
    """Return the rows of the methods that could be run on all splits, and why others could not."""
    from probprop_lab.experiments.beyond import own_data

    rows: list[Row] = []
    reasons: dict[str, str] = {}
    with bar(list(jobs), terminal) as advance:
        for job, row, reason in own_data.run(X, y, jobs, n_jobs):
            advance(job)
            if row is None:
                reasons.setdefault(job.method, reason)
            else:
                rows.append(row)
    rows.sort(key=lambda row: row["split"])
    failed = [f"{name} could not be run: {reason}" for name, reason in reasons.items()]
    return [row for row in rows if row["method"] not in reasons], failed


def _left_out(names: Sequence[str], jobs: Sequence[Job], all_asked: bool) -> list[str]:
    """Say which methods the table is too large for, and which are not installed."""
    from probprop_lab.experiments.harness import methods

    run = {job.method for job in jobs}
    lines = [
        f"{name} is left out: it takes at most {methods.KNOWN[name].max_rows:,.0f} training rows"
        for name in names
        if name not in run
    ]
    missing = [k for k in methods.FIELD if all_asked and not methods.KNOWN[k].installed]
    return lines + [
        f"{name} is left out: pip install 'probprop[{methods.KNOWN[name].extra}]'"
        for name in missing
    ]


def _write_report(
    path: str,
    target: str,
    table: tuple[list[str], list[list[str]]],
    notes: Sequence[str],
    records: Sequence[Record],
) -> None:
    from probprop.report import Section, figure, write_report
    from probprop_lab.experiments.beyond import field_figure

    words = "\n\n".join(f"{note[:1].upper()}{note[1:]}." for note in notes)
    sections = [Section("Methods by log-likelihood", words, table)]
    sections += [
        Section(caption, "", figures=[figure(drawing, caption)])
        for drawing, caption in field_figure.figures(records)
    ]
    write_report(path, f"Methods for predicting {target}", sections)
