"""`probprop fit --dask` and `probprop predict --dask`: the same work on a cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from probprop.cli.arguments import column_names
from probprop.cli.console import Terminal, plural
from probprop.cli.output import holds_types, save_model, table_writer
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
from probprop.cli.tables import (
    added_columns,
    check_not_there,
    chosen_columns,
    predictions,
    rounded,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.dask.sources import Source
    from probprop.table import TableModel

LOCAL = "local"
_AHEAD = 2  # pieces that are predicted ahead of the one being written, for each thread


class Asked(NamedTuple):
    """What `probprop fit` was asked for, as it was given."""

    data: str
    target: list[str]
    features: list[str] | None
    drop: list[str] | None
    weight: str | None
    error: list[str] | None
    task: str
    missing: str
    seed: int
    fast: bool
    budget: str | None
    test_fraction: float
    report: str | None
    static: bool
    no_rows: bool


_INSTEAD = {
    "--na": "write those cells empty in the Parquet files, whose types are taken as they are",
}


def check_options(given: Mapping[str, object]) -> None:
    """Refuse options that are not for a cluster, and say what to do instead."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(
                f"--dask fits without it: {_INSTEAD[option]}", param_hint=option
            )


@contextmanager
def connected(terminal: Terminal, address: str) -> Iterator[Any]:
    """Yield a client of the cluster at an address, or of one of this machine."""
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ImportError("--dask needs Dask: pip install 'probprop[dask]'") from error

    options: dict[str, Any] = {"dashboard_address": ":0"} if address == LOCAL else {}
    try:
        client = Client(None if address == LOCAL else address, **options)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"there is no Dask scheduler at {address} ({error}): start one with `dask scheduler`, "
            "or give --dask local"
        ) from error
    with client:
        workers = plural(len(client.nthreads()), "worker")
        terminal.say(f"Dask cluster at {client.scheduler.address}: {workers}")
        yield client


def fit_on_cluster(
    terminal: Terminal,
    address: str,
    asked: Asked,
    options: NetworkOptions,
    output: str,
    checkpoint: str | None,
) -> None:
    """Fit a model on Parquet files, judge it on rows held out, and save it."""
    with connected(terminal, address) as client:
        from probprop.dask.fitting import table_model, train
        from probprop.dask.holding_out import hold_out
        from probprop.dask.preparing import prepare
        from probprop.dask.sources import frame_of, source_of
        from probprop.table.target import Counting

        source, _ = source_of(asked.data, None, asked.target)
        first = frame_of(source.pieces[0], source.labels[0])
        columns = [str(name) for name in first.columns]
        targets = list(dict.fromkeys(column_names(asked.target, columns)))
        of_classes = holds_classes(terminal, first, targets, asked.task)
        if of_classes:
            options.check_classes(targets[0])
        recipe = _recipe(terminal, asked, options, len(targets), of_classes=of_classes)
        estimator = recipe.first(again=False)
        prepared = prepare(
            client,
            estimator,
            source,
            targets,
            features=column_names(asked.features, columns) if asked.features else None,
            drop=column_names(asked.drop or [], columns),
            counting=Counting(asked.weight, tuple(column_names(asked.error or [], columns))),
        )
        test = None
        if asked.test_fraction > 0.0:
            prepared, test = hold_out(prepared, source, asked.test_fraction, asked.seed)
        n_rows = sum(summary.n for summary in prepared.summaries)
        shards = plural(len(prepared.loaded), "shard")
        with recipe.progress(terminal, f"fitting {plural(n_rows, 'row')} in {shards}") as callback:
            fitted = train(prepared, estimator, None, checkpoint, callback)
    model = table_model(fitted, prepared)
    save_model(model, output)
    facts = f"{plural(n_rows, 'row')}, {plural(len(model.features), 'column')}, {shards}"
    last = "no rows were held out to judge it" if test is None else "without the rows held out"
    terminal.say(f"wrote {output}: {facts}; {last}")
    for line in recipe.choice(fitted).splitlines():
        terminal.say(line)
    if test is not None:
        rows = f"fitted on {plural(n_rows, 'row')}; on the {plural(len(test), 'row')} held out:"
        terminal.say(rows)
        if not terminal.quiet:
            show_scores(terminal, model, judge(model, test))
        if asked.report is not None:
            with terminal.working("writing the report"):
                planned = plan_report(
                    model, test, held_out=True, live=not asked.static, no_rows=asked.no_rows
                )
                planned.write(asked.report, model)
            terminal.say(f"wrote {asked.report}")


def _recipe(
    terminal: Terminal, asked: Asked, options: NetworkOptions, n_targets: int, *, of_classes: bool
) -> Recipe:
    """Return what is fitted: settings that are chosen, or one network."""
    reasons = [*options.given, *(["--error"] if asked.error else [])]
    reasons += ["several targets"] if n_targets > 1 else []
    if takes_one_network(terminal, reasons, fast=asked.fast, budget=asked.budget):
        return OneNetwork(options, of_classes, asked.seed, asked.missing)
    return Choosing(budget_of(asked.budget), of_classes, asked.seed, asked.missing)


def holds_classes(terminal: Terminal, first: DataFrame, targets: Sequence[str], task: str) -> bool:
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


def predict_on_cluster(
    terminal: Terminal,
    address: str,
    model: TableModel,
    data: str,
    output: str | None,
    level: float,
    columns: list[str] | None,
) -> None:
    """Predict the rows of Parquet files and write them in their order."""
    with connected(terminal, address) as client:
        import pandas as pd

        from probprop.dask.sources import source_of

        source, _ = source_of(data, None, model.targets)
        added, written, n_done = added_columns(model), None, 0
        with terminal.rows("predicting", None) as advance, table_writer(output) as write:
            for frame, predicted in _predicted_pieces(client, source, model, level):
                if written is None:
                    check_not_there(data, added, frame.columns)
                    written = chosen_columns(columns, [*map(str, frame.columns), *added])
                shown = predicted if holds_types(output) else rounded(predicted, model)
                write(pd.concat([frame, shown], axis=1)[written])
                n_done += len(frame)
                advance(len(frame))
    if output is not None:
        terminal.say(f"wrote {output}: {plural(n_done, 'row')}")


def _predicted_pieces(
    client: Any, source: Source, model: TableModel, level: float
) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Yield the rows of each piece and their predictions, in order, a few pieces ahead."""
    from probprop.dask.clients import n_threads

    ahead = _AHEAD * n_threads(client)
    sent = client.submit(_itself, model, pure=False)  # a task, which can be made again
    waiting: deque[Any] = deque()
    for piece, label in zip(source.pieces, source.labels, strict=True):
        waiting.append(client.submit(_predicted, piece, label, sent, level, pure=False))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _itself(model: TableModel) -> TableModel:
    return model


def _predicted(
    piece: Any, label: str, model: TableModel, level: float
) -> tuple[DataFrame, DataFrame]:
    """Predict the rows of one piece, on a worker."""
    from probprop.dask.sources import frame_of

    frame = frame_of(piece, label)
    return frame, predictions(frame, model, level)
