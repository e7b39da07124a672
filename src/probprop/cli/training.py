"""`probprop fit`: from a table to a model file."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probprop.cli import large
from probprop.cli.arguments import (
    Budget,
    Checkpoint,
    Dask,
    DataFiles,
    Drop,
    Epochs,
    Fast,
    Features,
    Hidden,
    Memory,
    MemoryLimit,
    NoRows,
    Report,
    Static,
    check_range,
    column_names,
)
from probprop.cli.console import Terminal, plural, terminal_of
from probprop.cli.holding_out import hold_out
from probprop.cli.output import check_destinations, check_replaces_model, save_fitted
from probprop.cli.recipes import (
    Choosing,
    NetworkOptions,
    NoiseOption,
    OneNetwork,
    Precision,
    Recipe,
    TailOption,
    budget_of,
    check_no_budget,
    check_no_seconds,
    takes_one_network,
)
from probprop.cli.reporting import check_page_options, plan_report
from probprop.cli.scores import judge, show_scores
from probprop.cli.tables import (
    Na,
    na_texts,
    nameless,
    note_gaps,
    note_table,
    usable_columns,
    with_targets,
)
from probprop.table.names import DEFAULT_SEED

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.table import TableModel
    from probprop.table.target import Task

FIT_EXAMPLES = """\b
Examples:
  probprop fit houses.csv --target price -o houses.pbp
  probprop fit houses.parquet --target price --drop id,address -o houses.pbp --report houses.html
  probprop fit houses.csv --target price --budget best -o houses.pbp
  probprop fit houses.csv --target price --fast -o houses.pbp
  probprop fit flowers.csv --target species -o flowers.pbp
  probprop fit patients.xlsx --target dose --na NA,-999 -o dose.pbp
  probprop fit buildings.csv --target heating,cooling --fast -o loads.pbp
  probprop fit stars.csv --target distance --error distance_error --fast -o stars.pbp
  probprop fit 'houses/*.parquet' --target price --memory-limit 2GB -o houses.pbp
  probprop fit 'houses/*.parquet' --target price --dask tcp://10.0.0.5:8786 -o houses.pbp
  cat houses.csv | probprop fit - --target price --fast --hidden 50,50 -o houses.pbp
"""


class MissingOption(StrEnum):
    """What an empty cell of a feature is: a mistake, or a value that is not known."""

    error = "error"
    marginalize = "marginalize"


class TaskOption(StrEnum):
    """Whether the target is a number or a class."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


AUTO, MARGINALIZE = TaskOption.auto, MissingOption.marginalize


def fit(
    context: typer.Context,
    data: DataFiles,
    target: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN,...", help="Column to predict; several where all hold numbers."
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="MODEL", help="Model file to write.")
    ],
    task: Annotated[
        TaskOption, typer.Option(help="What the target is: a number, or a class.")
    ] = AUTO,
    features: Features = None,
    drop: Drop = None,
    weight: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Weights of the rows; they divide the noise variance."),
    ] = None,
    error: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN,...", help="Known standard deviations of the target, or of each."
        ),
    ] = None,
    missing: Annotated[
        MissingOption,
        typer.Option(
            help="Empty cells of features: refuse them, or average over what they may be."
        ),
    ] = MARGINALIZE,
    na: Na = None,
    fast: Fast = False,
    budget: Budget = None,
    hidden: Hidden = None,
    epochs: Epochs = None,
    memory: Memory = None,
    noise: Annotated[
        NoiseOption | None,
        typer.Option(
            help="One network: the same noise in all rows, or learned.  [default: constant]"
        ),
    ] = None,
    noise_tail: Annotated[
        TailOption | None,
        typer.Option(
            help="One network: Gaussian noise, or heavy tails, for tables with outliers.  "
            "[default: gaussian]"
        ),
    ] = None,
    ensemble: Annotated[
        int | None,
        typer.Option(metavar="N", help="Networks like it from different seeds, averaged."),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Same table and seed, same model; as in Python.")
    ] = DEFAULT_SEED,
    dtype: Annotated[
        Precision | None,
        typer.Option(help="One network: precision of the weights.  [default: float64]"),
    ] = None,
    test_fraction: Annotated[
        float, typer.Option(metavar="SHARE", help="Rows held out to judge the model; 0: none.")
    ] = 0.1,
    no_refit: Annotated[
        bool, typer.Option("--no-refit", help="Keep the model that was judged.")
    ] = False,
    report: Report = None,
    static: Static = False,
    no_rows: NoRows = False,
    checkpoint: Checkpoint = None,
    memory_limit: MemoryLimit = None,
    dask: Dask = None,
) -> None:
    """Fit a model to a table and save it.

    Text columns are taken as categories; a date becomes its year, month, day of the year, weekday
    and seconds of the day. Rows without a target are left out. A tenth of the rows is held out to
    say how good the predictions and their uncertainty are; then the model is fitted again on all,
    unless it learned 100,000 rows or more with settings that are chosen.

    Settings are chosen: encodings of the numbers, layers, memory and epochs are compared by
    cross-validation on the other rows, and the error bars are calibrated on rows held out there.
    On all rows only the best settings are fitted. --budget says how much is compared. Ctrl-C ends
    the comparison and goes on with the best so far.

    With --fast one network is fitted by the protocol of the paper. Options for one network
    imply it; so do --error and several targets.

    With --task auto a target of text, of true and false, or of two different whole numbers is
    a class, which is then printed; any other number is a number. Classes that are three or
    more numbers need --task classification.

    Several targets of numbers, --target A,B or --target A --target B, are learned by one
    network, each with a noise of its own.

    With --noise input the noise of a row depends on its features: a second, small network
    learns it, and the mean stays the same. With --noise-tail heavy a few wild targets do not
    spoil the fit.

    An empty cell of a feature stands for any value, with the mean and the variance of its
    column, here and in the tables that the model is given later; so does a category that is not
    in this table. With --missing error empty cells are refused.

    With --weight a row of twice the weight has half the noise variance, as the mean of twice as
    many measurements has; for classes the weight is the power of its likelihood. Weights are
    divided by their mean. Rows of weight 0 are left out. The squares of --error add to the noise
    variance. Both columns must be non-negative and are excluded from the features; predictions do
    not need them. Rows that are held out are judged at their weights, new ones predicted at the
    mean weight, both without a known error.

    A table that would take more than --memory-limit is read block by block, and its rows are put
    on disk in random order. With --dask the rows of many files are shared by the workers of a
    cluster, and one that dies changes nothing. In both cases settings are chosen on 20,000 rows,
    unless --fast or an option says otherwise, and the networks learn all rows. At most 100,000 rows
    are held out, 20,000 with --dask, and the model is not fitted again on them.

    Without --seed the seed is 0, as for `probprop.table.fit_table_model` in Python: the same
    table and options give the same model, unless --budget is in seconds.
    """
    check_page_options(report, static=static, no_rows=no_rows)
    options = NetworkOptions(hidden, epochs, memory, noise, noise_tail, ensemble, dtype)
    options.check()
    reasons = [*options.given, *(["--error"] if error else [])]
    check_no_budget(reasons, fast=fast, budget=budget)
    seconds = budget_of(budget)
    check_no_seconds(checkpoint, seconds)
    check_range("--seed", seed, 0, 2**32 - 1)
    if not 0.0 <= test_fraction < 1.0:
        raise typer.BadParameter(
            f"{test_fraction:g} is not at least 0 and below 1", param_hint="--test-fraction"
        )
    outputs = {"-o": output, "--report": report, "--checkpoint": checkpoint}
    paths = large.input_paths(data)
    check_destinations(outputs, {"DATA": paths})
    check_replaces_model(output)
    limit = large.limit_of(memory_limit)
    needed = None if dask is not None else large.needed_beyond(paths, limit)
    if dask is not None or needed is not None:
        asked = large.Asked(
            paths,
            target,
            features,
            drop,
            weight,
            error,
            task.value,
            missing.value,
            na,
            options,
            fast,
            budget,
            seed,
            test_fraction,
            output,
            report,
            static,
            no_rows,
            checkpoint,
        )
        if dask is not None:
            large.fit_on_cluster(terminal_of(context), asked, dask)
        elif needed is not None:
            large.fit_above_limit(terminal_of(context), asked, limit, needed)
        return
    import numpy as np

    from probprop.estimators.cost import cost_in_words
    from probprop.table import fit_table_model
    from probprop.table.columns import FILL_OR_MARGINALIZE, check_no_missing
    from probprop.table.names import choose_features
    from probprop.table.read import read_tables
    from probprop.table.target import Counting, labels_of

    terminal = terminal_of(context)
    texts = na_texts(na)
    with terminal.working(f"reading {', '.join(data)}"):
        frame = read_tables(paths, na=texts)
    columns = [str(name) for name in frame.columns]
    wanted = column_names(features, columns) if features else None
    unwanted = [*column_names(drop or [], columns), *nameless(frame, wanted, terminal)]
    targets = list(dict.fromkeys(column_names(target, columns)))
    read, frame = frame, with_targets(frame, targets)
    counting = Counting(weight, tuple(column_names(error or [], columns)))
    counting.check(frame, targets, [*(wanted or ()), *unwanted])
    chosen = choose_features(frame, targets, wanted, [*unwanted, *counting.names])
    note_table(terminal, read, frame, targets)
    frame, n_rows = counting.rows(frame), len(frame)
    if len(frame) < n_rows:
        terminal.say(f"{plural(n_rows - len(frame), 'row')} of weight 0 left out")
    chosen = usable_columns(frame, chosen, asked_for=wanted is not None, terminal=terminal)
    # Before rows are held out, so that the message counts them all.
    if missing is MissingOption.marginalize:
        note_gaps(terminal, frame, chosen)
    else:
        check_no_missing(frame[chosen], FILL_OR_MARGINALIZE)
    decided = _task(frame, targets, task, terminal)
    labels = labels_of(frame, targets[0]) if decided == "classification" else None
    if labels is not None:
        options.check_classes(targets[0])
    reasons += ["several targets"] if len(targets) > 1 else []
    of_classes = labels is not None
    recipe: Recipe = Choosing(seconds, of_classes, seed, missing.value)
    if takes_one_network(terminal, reasons, fast=fast, budget=budget):
        recipe = OneNetwork(options, of_classes, seed, missing.value)

    def fitted(
        rows: DataFrame, text: str, estimator: Any, kept: str | None = checkpoint
    ) -> TableModel:
        if labels is not None:
            n_classes = len(np.unique(labels))
            if cost := cost_in_words(estimator, len(rows), len(chosen), n_classes):
                terminal.note(cost)
        with recipe.progress(terminal, f"{text} {plural(len(rows), 'row')}") as callback:
            return fit_table_model(
                rows,
                targets,
                features=chosen,
                estimator=estimator,
                callback=callback,
                weight=counting.weight,
                error=counting.error,
                na=texts,
                checkpoint=kept,
            )

    train, test = hold_out(frame, test_fraction, seed, labels, chosen)
    refit = len(test) > 0 and not no_refit and recipe.refits(len(train))
    # Of the two fits the one whose model is kept has the path that was given.
    judged = f"{checkpoint}.judged" if refit and checkpoint is not None else checkpoint
    first = model = fitted(train, "fitting", recipe.first(again=refit), judged)
    if not refit:  # the model is on disk before anything that may fail is done with it
        save_fitted(terminal, model, output)
    for line in recipe.choice(model.estimator).splitlines():
        terminal.say(line)
    if len(test):
        terminal.say(
            f"fitted on {plural(len(train), 'row')}; on the {plural(len(test), 'row')} held out:"
        )
        show_scores(terminal, model, judge(model, test))
        if not refit and not no_refit:
            terminal.say(
                "not fitted again on all: what so many rows teach, a few more do not change"
            )
    if refit:
        model = fitted(frame, "fitting again on all", recipe.again(first.estimator))
        save_fitted(terminal, model, output)
    if report is not None:
        rows, held_out = (test, True) if len(test) else (train, False)
        options_of_page: Any = {"live": not static, "no_rows": no_rows, "train": train}
        with terminal.working("writing the report"):
            planned = plan_report(first, rows, held_out=held_out, **options_of_page)
            planned.write(report, model)  # the page predicts as `predict` will
        terminal.say(f"wrote {report}")


def _task(frame: DataFrame, targets: Sequence[str], task: TaskOption, terminal: Terminal) -> Task:
    """Return the task asked for, or what the target looks like, and say so."""
    from probprop.table.target import check_one_target, decide_task

    if task is TaskOption.regression:
        return "regression"
    if task is TaskOption.classification:
        check_one_target(targets)
        return "classification"
    decided, words = decide_task(frame, targets)
    # Nobody needs to be told that numbers which cannot be classes are numbers.
    if len(targets) == 1 and (decided == "classification" or "--task" in words):
        terminal.say(f"{targets[0]!r} holds {words}")
    return decided
