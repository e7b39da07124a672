"""`probprop fit` on tables that would take more memory than they may: block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from probprop.cli.arguments import column_names
from probprop.cli.cluster import holds_classes
from probprop.cli.console import Terminal, plural
from probprop.cli.output import save_fitted
from probprop.cli.recipes import NetworkOptions, OneNetwork
from probprop.cli.scores import judge_rows, show_scores
from probprop.cli.tables import na_texts, nameless, note_file

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.table.encoding import Columns

_MOST_TEST = 100_000  # rows held out: more would judge the model no better


class Asked(NamedTuple):
    """What `probprop fit` was asked for, as it was given."""

    paths: list[str]
    target: list[str]
    features: list[str] | None
    drop: list[str] | None
    task: str
    missing: str
    seed: int
    na: str | None


class Job(NamedTuple):
    """A fit in blocks."""

    asked: Asked
    options: NetworkOptions
    limit: int
    needed: int
    test_fraction: float
    output: str
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
    from probprop.blocks.limits import bytes_of

    try:
        return bytes_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--memory-limit") from error


def needed_beyond(paths: Sequence[str], limit: int) -> int | None:
    """Return what a fit in memory would take where that is more than the limit, else None."""
    from probprop.blocks.limits import RESERVED
    from probprop.table.read import memory_needed

    needed = RESERVED + memory_needed(paths)
    return needed if needed > limit else None


def check_options(given: Mapping[str, object]) -> None:
    """Refuse options that are for tables in memory."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(
                "the table is larger than the memory limit and one network is fitted block by "
                "block, without it: leave it out, or raise --memory-limit",
                param_hint=option,
            )


def fit_in_blocks(terminal: Terminal, job: Job) -> None:
    """Fit a network, or an ensemble, on files that are read block by block, and save it."""
    from sklearn.base import clone

    from probprop.blocks.dealing import Dealt, dealt
    from probprop.blocks.files import FileBlocks
    from probprop.blocks.fitting import network_of, table_model, train
    from probprop.blocks.limits import in_words

    asked, options = job.asked, job.options
    terminal.say(
        f"the table would take about {in_words(job.needed)}, more than the memory limit of "
        f"{in_words(job.limit)}: it is read block by block, and one network is fitted"
    )
    texts = na_texts(asked.na)
    first = _first_rows(asked.paths[0], texts)
    note_file(terminal, first)
    columns = [str(name) for name in first.columns]
    targets = list(dict.fromkeys(column_names(asked.target, columns)))
    wanted = column_names(asked.features, columns) if asked.features else None
    unwanted = [*column_names(asked.drop or [], columns), *nameless(first, wanted, terminal)]
    if wanted is None:
        unwanted += _names_of_rows(terminal, first, {*targets, *unwanted})
    known = _known(first, targets)
    if asked.task == "auto":
        _check_first_rows_say(known, targets)
    of_classes = holds_classes(terminal, known, targets, asked.task)
    if of_classes:
        options.check_classes(targets[0])
    recipe = OneNetwork(options, of_classes, asked.seed, asked.missing)
    estimator = recipe.first(again=False)
    with ExitStack() as stack:
        with terminal.rows("reading", _twice(asked.paths)) as advance:
            source = FileBlocks(
                clone(network_of(estimator)),
                asked.paths,
                targets,
                features=wanted,
                drop=unwanted,
                na=texts,
                advance=advance,
            )
            deal = stack.enter_context(
                dealt(
                    source,
                    job.limit,
                    asked.seed,
                    test_share=job.test_fraction,
                    most_test=_MOST_TEST,
                )
            )
        if asked.task == "auto":
            _check_first_rows_were_right(source.columns, targets)
        if source.n_without_target:
            names = ", ".join(repr(target) for target in targets)
            terminal.note(f"{plural(source.n_without_target, 'row')} without {names} left out")
        text = f"fitting {plural(deal.rows.n, 'row')}"
        if isinstance(deal.rows, Dealt):
            size = in_words(deal.rows.scratch.shape.n_bytes)
            terminal.say(f"{text}, of which {size} are on disk")
            with terminal.share(text) as progress:
                fitted = train(deal, estimator, job.checkpoint, progress=progress)
        else:
            with recipe.progress(terminal, text) as callback:
                fitted = train(deal, estimator, job.checkpoint, callback)
        n_rows, held_out, baseline = deal.rows.n, deal.held_out, deal.baseline
    assert source.columns is not None  # files have been looked at
    model = table_model(fitted, source.columns, baseline, texts)
    save_fitted(terminal, model, job.output)
    if held_out is not None:
        terminal.say(
            f"fitted on {plural(n_rows, 'row')}; on the {plural(held_out.n, 'row')} held out:"
        )
        if not terminal.quiet:
            show_scores(terminal, model, judge_rows(model, held_out.X, held_out.y))


def _first_rows(path: str, na: Sequence[str] | None) -> DataFrame:
    from probprop.blocks.files import typed
    from probprop.table import iter_table
    from probprop.table.read import plan_chunks

    _, chunk_rows = plan_chunks(path)
    return typed(next(iter_table(path, chunk_rows=chunk_rows, na=na)), na)


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
