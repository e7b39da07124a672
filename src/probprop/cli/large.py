"""`probprop fit` on tables above the memory limit, or on a cluster: one way for both."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from probprop.cli.arguments import column_names
from probprop.cli.cluster import connected
from probprop.cli.console import Terminal, plural
from probprop.cli.output import save_fitted
from probprop.cli.recipes import (
    Choosing,
    NetworkOptions,
    OneNetwork,
    Recipe,
    budget_of,
    takes_one_network,
)
from probprop.cli.reporting import plan_report
from probprop.cli.scores import judge, show_scores
from probprop.cli.tables import na_texts, nameless, note_file, note_left_out

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.table.encoding import Columns

MOST_TEST = 100_000
"""Rows held out above the memory limit: more would judge the model no better."""
MOST_TEST_ON_CLUSTER = 20_000
"""Rows held out on a cluster, which all go to this process."""


class Asked(NamedTuple):
    """What `probprop fit` was asked for, as it was given."""

    paths: list[str]
    target: list[str]
    features: list[str] | None
    drop: list[str] | None
    weight: str | None
    error: list[str] | None
    task: str
    missing: str
    na: str | None
    options: NetworkOptions
    fast: bool
    budget: str | None
    seed: int
    test_fraction: float
    output: str
    report: str | None
    static: bool
    no_rows: bool
    checkpoint: str | None


def input_paths(data: Sequence[str]) -> list[str]:
    """Return the files of what was given: paths, folders and patterns."""
    if [*data] == ["-"]:
        return ["-"]
    from probprop.table.read import paths_of

    paths = paths_of(data)
    if "-" in paths:
        raise typer.BadParameter("- stands alone: standard input is one table", param_hint="DATA")
    return paths


def limit_of(text: str | None) -> int:
    """Return the limit in bytes, in the words of a usage error where it is none."""
    from probprop.data.scratch import bytes_of

    try:
        return bytes_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--memory-limit") from error


def needed_beyond(paths: Sequence[str], limit: int) -> int | None:
    """Return what a fit in memory would take where that is more than the limit, else None."""
    from probprop.data.scratch import RESERVED
    from probprop.table.read import memory_needed

    needed = RESERVED + memory_needed(paths)
    return needed if needed > limit else None


def check_report(asked: Asked) -> None:
    """Refuse a report without rows to judge the model on."""
    if asked.report is not None and asked.test_fraction == 0.0:
        raise typer.BadParameter(
            "above the memory limit and with --dask it is about rows held out, and "
            "--test-fraction 0 holds out none",
            param_hint="--report",
        )


def fit_above_limit(terminal: Terminal, asked: Asked, limit: int, needed: int) -> None:
    """Fit on a table that would need more bytes of memory than the limit."""
    from probprop.data.scratch import in_words

    check_report(asked)
    terminal.say(
        f"the table would take about {in_words(needed)}, more than the memory limit of "
        f"{in_words(limit)}: it is read block by block"
    )
    _fit(terminal, asked, limit, None)


def fit_on_cluster(terminal: Terminal, asked: Asked, address: str) -> None:
    """Fit on files that the workers of a cluster share."""
    check_report(asked)
    if asked.paths == ["-"]:
        raise typer.BadParameter(
            "--dask reads files, which all workers can read, not standard input", param_hint="DATA"
        )
    with connected(terminal, address) as client:
        _fit(terminal, asked, None, client)


def _fit(terminal: Terminal, asked: Asked, limit: int | None, client: Any) -> None:
    """Fit a model, save it, judge it on rows held out, and report on it."""
    from probprop.data.fitting import columnwise, rows_here, source_of, table_model, train
    from probprop.data.shards import DiskRows, Kept
    from probprop.data.tables import first_rows

    if client is not None:
        from probprop.data.cluster import load_shards

    texts = na_texts(asked.na)
    first = first_rows(asked.paths[0], texts)
    note_file(terminal, first)
    columns = [str(name) for name in first.columns]
    targets = list(dict.fromkeys(column_names(asked.target, columns)))
    error = column_names(asked.error or [], columns)
    wanted = column_names(asked.features, columns) if asked.features else None
    unwanted = [*column_names(asked.drop or [], columns), *nameless(first, wanted, terminal)]
    if wanted is None:
        taken = {*targets, *unwanted, *error, *([asked.weight] if asked.weight else [])}
        unwanted += _names_of_rows(terminal, first, taken)
    known = _known(first, targets)
    if asked.task == "auto":
        _check_first_rows_say(known, targets)
    of_classes = _holds_classes(terminal, known, targets, asked.task)
    if of_classes:
        asked.options.check_classes(targets[0])
    recipe = _recipe(terminal, asked, len(targets), of_classes=of_classes)
    estimator = recipe.first(again=False)
    most = MOST_TEST if client is None else MOST_TEST_ON_CLUSTER
    test = Kept(asked.test_fraction, most)
    of_columns = columnwise(targets, wanted, unwanted, asked.weight, error, texts)
    source: Any = source_of(estimator, asked.paths, of_columns)
    with ExitStack() as stack:
        if client is None:
            with terminal.rows("reading", _twice(asked.paths)) as advance:
                reading = rows_here(replace(source, advance=advance), estimator, limit, test)
                rows: Any = stack.enter_context(reading)
        else:
            with terminal.working("reading"):
                rows = load_shards(client, source, None, asked.seed, test)
        if asked.task == "auto":
            _check_first_rows_were_right(rows.schema.columns, targets)
        note_left_out(terminal, rows.schema.n_without_target, targets)
        text = f"fitting {_in_words(rows)}"
        terminal.say(text)
        if isinstance(rows, DiskRows) and isinstance(recipe, OneNetwork):  # epochs are long
            with terminal.share(text) as progress:
                fitted = train(rows, estimator, None, asked.checkpoint, progress=progress)
        else:
            with recipe.progress(terminal, text) as callback:
                fitted = train(rows, estimator, None, asked.checkpoint, callback)
        model, held_out = table_model(fitted, rows), rows.held_out
    save_fitted(terminal, model, asked.output)
    for line in recipe.choice(fitted).splitlines():
        terminal.say(line)
    if held_out is None:
        terminal.say("no rows were held out to judge it")
        return
    n = fitted.n_samples_seen_
    terminal.say(f"fitted on {plural(n, 'row')}; on the {plural(len(held_out), 'row')} held out:")
    show_scores(terminal, model, judge(model, held_out))
    if asked.report is not None:
        options = {"live": not asked.static, "no_rows": asked.no_rows}
        with terminal.working("writing the report"):
            plan_report(model, held_out, held_out=True, **options).write(asked.report, model)
        terminal.say(f"wrote {asked.report}")


def _in_words(rows: Any) -> str:
    """Say how many rows there are, and where."""
    from probprop.data.scratch import in_words
    from probprop.data.shards import DiskRows, MemoryRows, n_rows

    if isinstance(rows, MemoryRows):
        return plural(len(rows.loaded.y), "row")
    if isinstance(rows, DiskRows):
        size = in_words(rows.scratch.shape.n_bytes)
        return f"{plural(rows.scratch.n, 'row')}, of which {size} are on disk"
    return f"{plural(n_rows(rows.summaries), 'row')} in {plural(len(rows.shards), 'shard')}"


def _recipe(terminal: Terminal, asked: Asked, n_targets: int, *, of_classes: bool) -> Recipe:
    """Return what is fitted: settings that are chosen, or one network."""
    reasons = [*asked.options.given, *(["--error"] if asked.error else [])]
    reasons += ["several targets"] if n_targets > 1 else []
    if takes_one_network(terminal, reasons, fast=asked.fast, budget=asked.budget):
        return OneNetwork(asked.options, of_classes, asked.seed, asked.missing)
    return Choosing(budget_of(asked.budget), of_classes, asked.seed, asked.missing)


def _holds_classes(terminal: Terminal, first: DataFrame, targets: Sequence[str], task: str) -> bool:
    """Return whether the target is a class, judged by the first rows unless it was said."""
    if task != "auto":
        return task == "classification"
    from probprop.table.columns import check_no_missing
    from probprop.table.names import select
    from probprop.table.target import decide_task

    given = select(first, targets)
    check_no_missing(given)
    decided, words = decide_task(given, targets)
    if decided == "classification" or "--task" in words:
        terminal.say(f"{targets[0]!r} holds {words} (the first rows)")
    return decided == "classification"


def _known(first: DataFrame, targets: Sequence[str]) -> DataFrame:
    """Return the first rows that have a target, if any has."""
    there: Any = first[[name for name in targets if name in first]].notna().all(axis=1)
    return first[there] if there.any() else first


def _check_first_rows_say(known: DataFrame, targets: Sequence[str]) -> None:
    """Refuse to guess from rows that all have the same target, as those of sorted files do."""
    for target in targets:
        if target in known and known[target].nunique() == 1:
            raise ValueError(
                f"{target!r} is {known[target].iloc[0]} in all of the first "
                f"{plural(len(known), 'row')}, so that nobody can tell a number from a class: give "
                "--task regression or --task classification"
            )


def _check_first_rows_were_right(columns: Columns | None, targets: Sequence[str]) -> None:
    """Refuse two whole numbers in the first rows, taken for classes, that are many in all rows."""
    if columns is None or columns.classes is None or columns.target_kind != "number":
        return
    if (n := len(columns.classes)) > 2:
        raise ValueError(
            f"{targets[0]!r} holds two different whole numbers in the first rows, but {n:,} in all "
            "of them: give --task regression or --task classification"
        )


def _names_of_rows(terminal: Terminal, first: DataFrame, taken: set[str]) -> list[str]:
    """Return columns of texts that name the rows, and say that they are left out."""
    from probprop.table.columns import names_rows

    found = [str(k) for k in first if str(k) not in taken and names_rows(first[k])]
    if found:
        names = ", ".join(repr(name) for name in found)
        terminal.note(f"texts that name the rows, and left out: {names}")
    return found


def _twice(paths: Sequence[str]) -> int | None:
    from probprop.table.read import plan_chunks

    rows = [plan_chunks(path)[0] for path in paths]
    return None if None in rows else 2 * sum(n for n in rows if n is not None)
