"""`probprop evaluate`, `info` and `update`: how good a model is, what it is, and new rows."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
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
from probprop.cli.scores import LABELS, Judged, judge, show, show_scores
from probprop.cli.scores import as_json as in_json
from probprop.cli.tables import (
    Unknown,
    count_unknown,
    note_table,
    note_unknown,
    with_targets,
)
from probprop.table.names import target_names

if TYPE_CHECKING:
    from pandas import DataFrame

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


def evaluate(
    context: typer.Context,
    model: Model,
    data: DataFiles,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    report: Report = None,
) -> None:
    """Score predictions on rows whose target is known.

    For numbers, the scores are errors (RMSE, MAE, R²), log-likelihood, CRPS and the coverage of
    intervals; for classes accuracy, log-loss, Brier score, calibration error, ROC-AUC and average
    precision. The column baseline has the scores of one prediction for all rows: mean and standard
    deviation of the training targets, or the class frequencies of these rows. Below is a verdict
    on the calibration. Each of several targets is scored.

    Give rows that the model was not fitted on: training rows look better than new ones. If the
    model was fitted with --weight and the table has that column, the noise variance of each row is
    divided by its weight; otherwise rows have the mean weight of the fit.

    Several files, or a quoted pattern such as 'sold/*.parquet', are one table, of any size. If
    there are more than 100,000 rows, calibration is judged on a random sample of 100,000, and so is
    the report.
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the facts of a model, and the scores of its fit.

    With --json each fact is a value under its name, in lower case with underscores. features,
    targets and classes are lists, and file_size is a number of bytes. scores has measured_on
    (out-of-fold or held-out), n_samples, and targets with the scores of each; it is null if the
    model was not judged. `update` does not change the scores.
    """
    from probprop.io import MODEL, read_file, reading_model

    n_bytes = os.path.getsize(model)
    with reading_model(model):
        header, _, version = read_file(model, MODEL)  # loading the model takes scikit-learn
        if "facts" not in header:  # the first files had none
            from probprop.files import facts_of, load

            header["facts"] = facts_of(load(model))
        rows = [(str(name), str(value)) for name, value in header["facts"]]
        features, values = _columns(header)
        rows += features
        rows += [] if as_json else _scores(header.get("scores"))
    rows += [("Written by", f"probprop {version}"), ("File size", f"{n_bytes:,} bytes")]
    if as_json:
        words = {name.lower().replace(" ", "_"): value for name, value in rows}
        _print_json(terminal_of(context), words | values | {"file_size": n_bytes})
    else:
        terminal_of(context).facts(rows)


def _scores(kept: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the scores of the fit as facts, a line for each target."""
    if kept is None:
        return []
    rows = [("Judged on", f"{plural(kept['n_samples'], 'row')}, {kept['measured_on']}")]
    for target, scores in kept["targets"].items():
        each = (f"{LABELS.get(k, k)} {show(k, v)}" for k, v in scores.items() if v is not None)
        name = f"Scores ({target})" if len(kept["targets"]) > 1 else "Scores"
        rows.append((name, ", ".join(each)))
    return rows


def _columns(header: dict[str, Any]) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return the columns of a model by the header of its file: facts, and values for JSON."""
    if header["class"] != "TableModel":
        names = header["feature_names_in_"] or []
        return [("Features", ", ".join(names) or "without names")], {"features": names}
    encoder, counting, target = header["encoder"], header["counting"], header["target"]
    features = ", ".join(_feature(encoder, name) for name in header["features"])
    given = {"Weights": counting["weight"], "Errors": ", ".join(counting["error"])}
    values = {
        "targets": target_names(target),
        "features": [
            {"name": name, "kind": kind, "categories": encoder["categories"].get(name)}
            for name, kind in encoder["kinds"].items()
        ],
        "scores": header.get("scores"),
    }
    estimator = header["estimator"]
    [network, *_] = estimator.get("estimators_", [estimator])
    if labels := network["likelihood_"].get("classes"):
        values["classes"] = labels["values"]
    return [("Features", features), *((fact, name) for fact, name in given.items() if name)], values


def _feature(encoder: dict[str, Any], name: str) -> str:
    """Name a column with what it holds, where that is not numbers."""
    kind = encoder["kinds"][name]
    if kind == "text":
        return f"{name} ({plural(len(encoder['categories'][name]), 'category')})"
    if kind == "date":
        parts = ", ".join(part.replace("_", " ") for part in encoder["parts"][name])
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
    """Learn from new rows, in one more epoch over these only.

    The scores that are printed, as `probprop evaluate` prints them, say how well the model
    predicted the new rows before the update.

    Give each row once: rows seen twice count twice. A model that was fitted with --weight or
    --error needs those columns. Networks of a cross-validation learn the new rows outside their
    fold, and the others calibrate the error bars. An update cannot learn new categories of a text
    column, which are treated as missing values, nor new classes, which are an error: for these, fit
    the model again on all rows. The old model file stays until the new one is complete.

    A table that needs more than --memory-limit is learned block by block, each block as in an
    update of its own.
    """
    paths = input_paths(data)
    check_destinations({"MODEL": model}, {"DATA": paths})
    from probprop._atomic import updating
    from probprop.estimators.kind import first_network
    from probprop.table import UnknownCategoryWarning

    terminal = terminal_of(context)
    in_blocks = needed_beyond(paths, limit_of(memory_limit)) is not None

    def waits() -> None:
        terminal.say(f"waiting for another process that updates {model}")

    with updating(model, waits) as check_unchanged:
        old = load_table_model(model)
        learn = _after_blocks if in_blocks else _after
        with warnings.catch_warnings():  # the rows are counted over all blocks
            warnings.simplefilter("ignore", UnknownCategoryWarning)
            new, judged, n_rows = learn(terminal, old, paths)
        check_unchanged()
        save_model(new, model)
    terminal.say(f"the {plural(n_rows, 'new row')}, as predicted before the update:")
    show_scores(terminal, old, judged)
    n_before, n_seen = (m.estimator.n_samples_seen_ for m in (old, new))
    terminal.say(
        f"updated {model} with {plural(n_seen - n_before, 'row')}: {n_seen:,} rows seen in "
        f"{first_network(new.estimator).n_iter_:,} passes{_state(new)}"
    )


Learned = tuple["TableModel", list[Judged], int]
"""The model after the new rows, how the model before predicted them, and their number."""


def _after(terminal: Terminal, old: TableModel, paths: Sequence[str]) -> Learned:
    """Learn from all rows in one epoch."""
    import pandas as pd

    from probprop.table import read_table

    kinds = old.kinds_to_learn
    read = [read_table(path, columns=list(kinds), kinds=kinds, na=old.na) for path in paths]
    frame = read[0] if len(read) == 1 else pd.concat(read)
    rows = with_targets(frame, old.targets, old)
    note_table(terminal, frame, rows, old.targets)
    old.counting.check(rows, old.targets)
    counted = old.counting.rows(rows)
    unknown: Unknown = {}
    count_unknown(unknown, old, counted)
    note_unknown(terminal, unknown, old, learning=True)
    judged = judge(old, counted)
    return old.update(counted), judged, len(counted)


def _after_blocks(terminal: Terminal, old: TableModel, paths: Sequence[str]) -> Learned:
    """Learn from the rows a block at a time."""
    terminal.say("the table would take more than the memory limit: it is learned block by block")
    new = old
    unknown: Unknown = {}

    def blocks() -> Iterator[DataFrame]:
        nonlocal new
        for rows in known_chunks(terminal, old, paths, old.kinds_to_learn):
            old.counting.check(rows, old.targets)
            yield (counted := old.counting.rows(rows))  # judged before it is learned
            count_unknown(unknown, old, counted)
            new = new.update(counted)

    judged, _, n_rows = judge_chunks(terminal, old, blocks(), "learning")
    note_unknown(terminal, unknown, old, learning=True)
    return new, judged, n_rows


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
