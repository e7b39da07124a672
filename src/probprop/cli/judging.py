"""`probprop evaluate`, `info` and `update`: how good a model is, what it is, and new rows."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probprop.cli.arguments import (
    DataFiles,
    MemoryLimit,
    Model,
    Report,
    input_paths,
    limit_of,
    needed_beyond,
)
from probprop.cli.console import Terminal, plural, terminal_of
from probprop.cli.in_chunks import judge_chunks, known_chunks
from probprop.cli.output import check_destinations, load_table_model, save_model
from probprop.cli.reporting import write_model_report
from probprop.cli.scores import as_json as in_json
from probprop.cli.scores import judge, show, show_scores
from probprop.cli.tables import note_table, with_targets

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
Examples:
  probprop info houses.pbp
  probprop info houses.pbp --json
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
            write_model_report(report, table_model, frame, held_out=None)
        terminal.say(f"wrote {report}")
    if as_json:
        of_targets = zip(table_model.targets, judged, strict=True)
        each = {target: in_json(one) for target, one in of_targets}
        of_all = {"targets": each} if len(each) > 1 else each[table_model.targets[0]]
        _print_json(terminal, {"rows": n_rows, **of_all})
    else:
        terminal.say(f"{model} on {plural(n_rows, 'row')} of {' '.join(data)}:")
        show_scores(terminal, table_model, judged)


def _print_json(terminal: Terminal, value: dict[str, Any]) -> None:
    for line in json.dumps(value, indent=2, allow_nan=False).splitlines():
        terminal.result(line)


def info(
    context: typer.Context,
    model: Model,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Show what a model is and what it was fitted on.

    With --json each fact is a value under its name, in lower case with underscores. features,
    targets and classes are lists, and file_size is a number of bytes.
    """
    from probprop.files import load
    from probprop.io import MODEL, read_file
    from probprop.report import model_facts
    from probprop.table import TableModel

    loaded: Any = load(model)
    values: dict[str, Any] = {}  # facts that have more than words in JSON
    version = read_file(model, MODEL).version
    if isinstance(loaded, TableModel):
        facts = model_facts(loaded.estimator, loaded.encoded_names, loaded.target)
        features = ", ".join(_feature(loaded, name) for name in loaded.features)
        given = {"Weights": loaded.counting.weight, "Errors": ", ".join(loaded.counting.error)}
        counting = [(fact, name) for fact, name in given.items() if name]
        described = [
            {"name": name, "kind": kind, "categories": loaded.categories.get(name)}
            for name, kind in loaded.kinds.items()
        ]
        values = {"targets": loaded.targets, "features": described}
        if loaded.classes is not None:
            values["classes"] = loaded.classes.tolist()
    else:
        counting = []
        facts = model_facts(loaded, [], "the target")
        names = getattr(loaded, "feature_names_in_", ())
        values = {"features": [str(name) for name in names]}
        features = ", ".join(str(name) for name in names) or "without names"
    rows = [(name, value) for name, value in facts if name not in _REPLACED]
    n_bytes = os.path.getsize(model)
    rows += [
        ("Features", features),
        *counting,
        ("Written by", f"probprop {version}"),
        ("File size", f"{n_bytes:,} bytes"),
    ]
    if as_json:
        words = {name.lower().replace(" ", "_"): value for name, value in rows}
        _print_json(terminal_of(context), words | values | {"file_size": n_bytes})
    else:
        terminal_of(context).facts(rows)


def _feature(model: TableModel, name: str) -> str:
    """Name a column with what it holds, where that is not numbers."""
    kind = model.kinds[name]
    if kind == "text":
        return f"{name} ({plural(len(model.categories[name]), 'category')})"
    if kind == "date":
        parts = ", ".join(part.replace("_", " ") for part in model.encoder.parts[name])
        return f"{name} (date: {parts})"
    return f"{name} (true or false)" if kind == "boolean" else name


# ---- `probprop update`: a model file learns from new rows


UPDATE_EXAMPLES = """\b
Examples:
  probprop update houses.pbp sold-today.csv
  probprop update houses.pbp 'sold/*.parquet' --memory-limit 2GB
"""


def update(
    context: typer.Context, model: Model, data: DataFiles, memory_limit: MemoryLimit = None
) -> None:
    """Learn from new rows: one more pass, over these rows only.

    Give each row once: rows seen twice count twice. A model that was fitted with --weight or
    --error needs those columns. Networks of a cross-validation learn the new rows outside their
    fold, and the others calibrate the error bars. The old model file stays until the new one
    is complete.

    A table that would take more than --memory-limit is learned block by block, each as if it were
    the table of an update of its own.
    """
    paths = input_paths(data)
    check_destinations({"MODEL": model}, {"DATA": paths})
    from probprop._atomic import updating
    from probprop.estimators.kind import first_network

    terminal = terminal_of(context)
    in_blocks = needed_beyond(paths, limit_of(memory_limit)) is not None

    def waits() -> None:
        terminal.say(f"waiting for another process that updates {model}")

    with updating(model, waits) as check_unchanged:
        old = load_table_model(model)
        new = _after_blocks(terminal, old, paths) if in_blocks else _after(terminal, old, paths)
        check_unchanged()
        save_model(new, model)
    n_before, n_seen = (m.estimator.n_samples_seen_ for m in (old, new))
    terminal.say(
        f"updated {model} with {plural(n_seen - n_before, 'row')}: {n_seen:,} rows seen in "
        f"{first_network(new.estimator).n_iter_:,} passes{_state(new)}"
    )


def _after(terminal: Terminal, old: TableModel, paths: Sequence[str]) -> TableModel:
    """Learn from all rows in one pass."""
    import pandas as pd

    from probprop.table import read_table

    kinds = old.kinds_to_learn
    read = [read_table(path, columns=list(kinds), kinds=kinds, na=old.na) for path in paths]
    frame = read[0] if len(read) == 1 else pd.concat(read)
    rows = with_targets(frame, old.targets, old)
    note_table(terminal, frame, rows, old.targets)
    return old.update(rows)


def _after_blocks(terminal: Terminal, old: TableModel, paths: Sequence[str]) -> TableModel:
    """Learn from the rows a block at a time."""
    terminal.say("the table would take more than the memory limit: it is learned block by block")
    new = old
    with terminal.rows("learning", None) as advance:
        for rows in known_chunks(terminal, old, paths, old.kinds_to_learn):
            new = new.update(rows)
            advance(len(rows))
    return new


def _state(model: TableModel) -> str:
    """Say how large the noise is now, or how the error bars are calibrated."""
    from probprop.estimators.kind import first_network, is_cross_validated

    if is_cross_validated(model.estimator):
        from probprop.report import calibration_in_words  # slow to import

        return f"; {calibration_in_words(model.estimator)}"
    if model.classes is not None:
        return ""
    network = first_network(model.estimator)
    stds = [show("noise std", std) for std in network.history_[-1].noise_std]
    if len(stds) > 1:
        stds = [f"{std} ({target})" for std, target in zip(stds, model.targets, strict=True)]
    varies = network.posterior_.noise_network is not None
    return f"; {'level of the noise' if varies else 'noise'} std {', '.join(stds)}"
