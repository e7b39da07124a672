"""`probprop fit`: from a table to a model file.

A table in memory, above the memory limit or on a cluster goes through the same stages: it is
opened, checked, fitted, saved, judged and reported on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

from typer import BadParameter, Context, Option

from probprop.cli import arguments, judging, output, recipes, tables
from probprop.cli.console import Terminal, terminal_of
from probprop.table.names import DEFAULT_SEED, plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop._types import Array
    from probprop.data.tables import Columns
    from probprop.facts import HeldOut
    from probprop.table import TableModel
    from probprop.table.encoding import TableEncoder
    from probprop.table.target import Counting

_TEST_SHARE = 0.1  # test set of one network, as a share of the rows
_MOST_TEST = 100_000  # test rows above the memory limit: more would not improve the estimate
_MOST_TEST_ON_CLUSTER = 20_000  # test rows on a cluster, which are all sent to this process

FIT_EXAMPLES = """\b
Examples:
  probprop fit houses.csv --target price -o houses.pbp
  probprop fit houses.parquet --target price --drop id,address -o houses.pbp --report houses.html
  probprop fit houses.csv --target price --budget best -o houses.pbp
  probprop fit houses.csv --target price --fast -o houses.pbp
  probprop fit flowers.csv --target species -o flowers.pbp
  probprop fit patients.xlsx --target dose --na NA,-999 --group patient -o dose.pbp
  probprop fit demand.csv --target units --time date -o demand.pbp
  probprop fit buildings.csv --target heating,cooling --fast -o loads.pbp
  probprop fit stars.csv --target distance --error distance_error -o stars.pbp
  probprop fit 'houses/*.parquet' --target price --memory-limit 2GB -o houses.pbp
  probprop fit 'houses/*.parquet' --target price --dask tcp://10.0.0.5:8786 -o houses.pbp
  cat houses.csv | probprop fit - --target price --fast --hidden-layer-sizes 50,50 -o houses.pbp
"""


@dataclass(frozen=True)
class Request:
    """What `probprop fit` was asked for: its arguments and options."""

    data: arguments.DataFiles
    target: Annotated[
        list[str],
        Option(metavar="COLUMN,...", help="Column to predict; several if all are numeric."),
    ]
    output: Annotated[str, Option("-o", "--output", metavar="MODEL", help="Model file to write.")]
    task: arguments.Task = "auto"
    features: arguments.Features = None
    drop: arguments.Drop = None
    weight: Annotated[
        str | None, Option(metavar="COLUMN", help="Sample weights; they divide the noise variance.")
    ] = None
    error: Annotated[
        list[str] | None,
        Option(metavar="COLUMN,...", help="Known standard deviations of each target."),
    ] = None
    support: Annotated[
        Any,
        Option(
            metavar="LOW,HIGH",
            parser=arguments.support_of,
            show_default=False,
            help="Limits of the target, for example 0,100 or 0,; none: no limits.  "
            "[default: 0 or more, or 0 to 1, if all targets are in that range]",
        ),
    ] = "auto"
    missing: Annotated[
        Literal["auto", "error", "marginalize"],
        Option(
            help="Missing values of features: reject them, or marginalize over them; auto fits the "
            "imputation model only if the table has missing values."
        ),
    ] = "auto"
    na: tables.Na = None
    fast: arguments.Fast = False
    budget: arguments.Budget = None
    hidden_layer_sizes: arguments.HiddenLayerSizes = None
    n_epochs: arguments.NEpochs = None
    evidence_cap: arguments.EvidenceCap = None
    noise: Annotated[
        Literal["constant", "input"] | None,
        Option(help="One network: constant or heteroscedastic noise.  [default: constant]"),
    ] = None
    noise_tail: Annotated[
        Literal["gaussian", "heavy"] | None,
        Option(
            help="One network: Gaussian or heavy-tailed noise, for outliers.  [default: gaussian]"
        ),
    ] = None
    random_state: arguments.RandomState = DEFAULT_SEED
    dtype: Annotated[
        Literal["float64", "float32"] | None,
        Option(help="One network: precision of the weights.  [default: float64]"),
    ] = None
    group: Annotated[
        str | None, Option(metavar="COLUMN", help="Column whose equal values are kept in one fold.")
    ] = None
    time: Annotated[
        str | None,
        Option(
            metavar="COLUMN", help="Numbers or dates; each fold is predicted from earlier rows."
        ),
    ] = None
    test_fraction: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            min=0.0,
            max=0.99,
            help="Share of the rows in the test set.  [default: 0; 0.1 with one network]",
        ),
    ] = None
    report: arguments.Report = None
    static: arguments.Static = False
    no_rows: arguments.NoRows = False
    checkpoint: arguments.Checkpoint = None
    memory_limit: arguments.MemoryLimit = None
    dask: arguments.Dask = None

    def test_share(self, estimator: Any) -> float:
        """Return the share of rows in the test set, which one network needs: it has no folds."""
        if self.test_fraction is None:
            return 0.0 if recipes.selects(estimator) else _TEST_SHARE
        return self.test_fraction

    @property
    def options(self) -> dict[str, Any]:
        """The options of one network that were given."""
        every = {name: getattr(self, name) for name in recipes.OF_NETWORK}
        return {name: value for name, value in every.items() if value is not None}

    @property
    def reasons(self) -> list[str]:
        """The options that only one network takes."""
        return [*map(recipes.option, self.options)]


@arguments.takes(Request)
def fit(context: Context, request: Request) -> None:
    """Fit a model to a table and save it.

    Text columns are encoded as categories, dates as year and cyclic season, weekday and hour. Rows
    without a target are dropped.

    Hyperparameters (encoding, hidden layers, evidence cap, epochs) are selected by
    cross-validation, and predictions are calibrated on out-of-fold rows. The model is fitted once,
    on all rows, and scored on the out-of-fold rows: each is predicted by networks that were not
    trained on it. --budget sets the size of the search. Ctrl-C ends the search and keeps the best
    candidate so far.

    With --fast one network is fitted by the protocol of the paper. Options for one network imply
    it. There are no folds, so a tenth of the rows is the test set, and
    the network that was scored on it is kept. With --test-fraction 0 it is trained on all rows, and
    there are no scores. With --test-fraction SHARE, any model is trained on the other rows and
    scored on this share.

    --group keeps rows with the same value of a column, for example repeated measurements of a
    patient, in one fold, and excludes the column from the features. With --time each fold is
    predicted from earlier rows; the column stays a feature. A test set then has whole groups, or
    the last rows in time.

    With --task auto, the task is classification if the target has text, booleans or two different
    integers, and regression otherwise. Three or more numeric classes need --task classification.
    Several numeric targets, --target A,B or --target A --target B, are predicted by the same
    networks, with noise and calibration for each.

    With --noise input the noise is heteroscedastic: a second, small network predicts its variance.
    With --noise-tail heavy the noise is heavy-tailed, which reduces the effect of outliers.

    Missing numbers, dates and booleans are marginalized, here and in later tables; a missing
    category is a category of its own. With --missing error missing values are rejected.

    --weight divides the noise variance of a row, as if its target were the mean of that many
    measurements; for classification it is the power of the likelihood. Weights are divided by their
    mean, and rows of weight 0 are dropped. The squares of --error are added to the noise variance.
    Both columns must be non-negative and are excluded from the features. Rows are scored at their
    weights, new rows are predicted at the mean weight, both without a known error.

    A table that needs more than --memory-limit is read in blocks, which are stored on disk in
    random order. With --dask the workers of a cluster share the rows of the files; the fit survives
    the loss of a worker. In both cases hyperparameters are selected on 20,000 rows, which are also
    the out-of-fold rows, and the networks are trained on all rows; a test set has at most 100,000
    rows, 20,000 with --dask.

    The seed is 0 unless --random-state is given, as for `probprop.table.fit_table_model` in Python:
    the same table and options give the same model.
    """
    if request.report is None and (request.static or request.no_rows):
        option = "--static" if request.static else "--no-rows"
        raise BadParameter("it needs a report: give --report FILE too", param_hint=option)
    recipes.check_budget(request.reasons, fast=request.fast, budget=request.budget)
    if request.group is not None and request.time is not None:
        raise BadParameter(
            "folds are made by --group or by --time: give one of the two", param_hint="--group"
        )
    terminal = terminal_of(context)
    with _open(terminal, request) as table:
        plan = _check(terminal, request, table)
        fitted = (_fit if table.whole else _fit_blocks)(terminal, request, table, plan)
        recipes.say_choice(terminal, fitted.model.estimator)
        output.save_fitted(terminal, fitted.model, request.output)  # before anything that may fail
        rows = fitted.judged()
        if (scores := _judge(terminal, plan, fitted, rows)) is not None:
            output.save_model(replace(fitted.model, scores=scores), request.output)
        _report(terminal, request, fitted, rows)


class Table(NamedTuple):
    """A table that was opened."""

    paths: list[str]
    frame: DataFrame  # all rows, or the first ones
    whole: bool  # whether these are all rows
    limit: int  # of the memory, in bytes
    client: Any = None  # of a cluster


class Plan(NamedTuple):
    """What is fitted, and to which rows and columns."""

    targets: list[str]
    counting: Counting
    wanted: list[str] | None  # names of the features; None: all columns that are left
    drop: list[str]
    estimator: Any
    train: Any = None  # training rows, if all rows are in memory
    test: Any = None  # test set, if all rows are in memory
    encoder: TableEncoder | None = None  # of `train`


class Fitted(NamedTuple):
    """A model, and the rows to judge it on."""

    model: TableModel
    train: DataFrame | None  # None: they are not in memory
    judged: Callable[[], DataFrame | None]  # reads the rows to judge it on; None: there are none
    held_out: HeldOut  # whether these are a test set or out-of-fold rows


# ---- Open


@contextmanager
def _open(terminal: Terminal, request: Request) -> Iterator[Table]:
    """Read a table, or its first rows where it is above the memory limit or for a cluster."""
    paths = arguments.input_paths(request.data)
    written = {"-o": request.output, "--report": request.report}
    output.check_destinations(written | {"--checkpoint": request.checkpoint}, {"DATA": paths})
    output.check_replaces_model(request.output)
    limit = arguments.limit_of(request.memory_limit)
    needed = arguments.needed_beyond(paths, limit) if request.dask is None else None
    if request.dask is None and needed is None:
        from probprop.table.read import read_tables

        with terminal.working(f"reading {', '.join(request.data)}"):
            frame = read_tables(paths, na=tables.na_texts(request.na))
        yield Table(paths, frame, True, limit)
        return
    if request.group is not None or request.time is not None:
        raise BadParameter(
            "above the memory limit and with --dask the folds are random: give a larger "
            "--memory-limit, or fewer rows, without --dask",
            param_hint="--time" if request.group is None else "--group",
        )
    if paths == ["-"] and request.dask is not None:
        raise BadParameter(
            "--dask reads files, which all workers can read, not standard input", param_hint="DATA"
        )
    from probprop.data.scratch import in_words
    from probprop.table.read import frames_of, plan_chunks

    if needed is not None:
        terminal.say(
            f"the table would take about {in_words(needed)}, more than the memory limit of "
            f"{in_words(limit)}: it is read block by block"
        )
    with nullcontext() if request.dask is None else _connected(terminal, request.dask) as client:
        _, n = plan_chunks(paths[0])
        first = next(frames_of(paths[0], n, na=tables.na_texts(request.na)))
        yield Table(paths, first, False, limit, client)


@contextmanager
def _connected(terminal: Terminal, address: str) -> Iterator[Any]:
    """Yield a client of the cluster at an address, or of one of this machine."""
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ImportError("--dask needs Dask: pip install 'probprop[dask]'") from error

    options: dict[str, Any] = {"dashboard_address": ":0"} if address == "local" else {}
    try:
        client = Client(None if address == "local" else address, **options)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"there is no Dask scheduler at {address} ({error}): start one with `dask scheduler`, "
            "or give --dask local"
        ) from error
    with client:
        workers = plural(len(client.nthreads()), "worker")
        terminal.say(f"Dask cluster at {client.scheduler.address}: {workers}")
        yield client


# ---- Check


def _check(terminal: Terminal, request: Request, table: Table) -> Plan:
    """Return what is fitted to which columns, and note what was inferred about them."""
    from probprop.table.columns import FILL_OR_MARGINALIZE, check_no_missing
    from probprop.table.target import Counting, check_one_target, labels_of

    read, columns = table.frame, [str(name) for name in table.frame.columns]
    wanted = arguments.column_names(request.features or [], columns) or None
    drop = arguments.column_names(request.drop or [], columns)
    targets = list(dict.fromkeys(arguments.column_names(request.target, columns)))
    counting = Counting(request.weight, tuple(arguments.column_names(request.error or [], columns)))
    apart = [*counting.names, *([] if request.group is None else [request.group])]
    if table.whole:
        tables.check_folds(
            read, request.group, request.time, [*targets, *counting.names, *(wanted or ())]
        )
        known = tables.with_targets(read, targets)
        counting.check(known, targets, [*(wanted or ()), *drop])
        chosen = tables.features_of(terminal, known, targets, request.features, [*drop, *apart])
        tables.note_file(terminal, read)
        tables.note_left_out(terminal, len(read) - len(known), targets)
        frame = counting.rows(known)
        tables.note_weightless(terminal, len(known) - len(frame))
    else:
        tables.note_file(terminal, read)
        drop += tables.nameless(terminal, read, wanted)
        frame = _first_known(request, read, targets)
    where = "" if table.whole else " (the first rows)"
    of_classes = tables.is_classification(terminal, frame, targets, request.task, where)
    estimator = _estimator(terminal, request, targets, of_classes)
    plan = Plan(targets, counting, wanted, drop, estimator)
    if not table.whole:
        untested = request.test_fraction == 0.0 and not recipes.selects(estimator)
        if untested and request.report is not None:
            raise BadParameter(
                "above the memory limit and with --dask, the report on one network needs a test "
                "set: leave --test-fraction 0 out",
                param_hint="--report",
            )
        return plan
    if of_classes:
        check_one_target(targets)
    labels = labels_of(frame, targets[0]) if of_classes else None
    share, by = request.test_share(estimator), {"group": request.group, "time": request.time}
    train, test = hold_out(frame, share, request.random_state, labels, chosen, **by)
    y = train[targets[0]].to_numpy() if len(targets) == 1 else None
    encoder = tables.encoder_of(terminal, train, chosen, named=wanted is not None, y=y)
    kinds = encoder.kinds
    if request.group is not None:
        terminal.note(f"{request.group!r} groups the rows and is excluded from the features")
    elif request.time is None:
        tables.note_order(terminal, frame, kinds)
    if request.missing == "error":
        check_no_missing(frame[list(kinds)], FILL_OR_MARGINALIZE)
    tables.note_gaps(terminal, frame, kinds, selected=recipes.selects(estimator))
    tables.say_cost(terminal, estimator, len(train), encoder, labels)
    return plan._replace(train=train, test=test, encoder=encoder)


def _estimator(terminal: Terminal, request: Request, targets: list[str], of_classes: bool) -> Any:
    """Return the requested estimator; reject options that it lacks."""
    if of_classes:
        for name, usual in (("noise", "constant"), ("noise_tail", "gaussian")):
            if request.options.get(name, usual) != usual:
                raise BadParameter(
                    f"{targets[0]!r} is a class: only numeric targets have noise",
                    param_hint=recipes.option(name),
                )
    estimator = recipes.estimator_of(
        terminal,
        request.options,
        request.reasons,
        fast=request.fast,
        budget=request.budget,
        of_classes=of_classes,
        seed=request.random_state,
        missing=request.missing,
        support=request.support,
    )
    if request.support != "auto" and (of_classes or not recipes.selects(estimator)):
        words = "a numeric target" if of_classes else "cross-validation, not one network"
        raise BadParameter(f"it needs {words}: leave it out", param_hint="--support")
    return estimator


def _first_known(request: Request, first: DataFrame, targets: Sequence[str]) -> DataFrame:
    """Return the first rows with a target, if any has one."""
    from probprop.table.columns import check_no_missing
    from probprop.table.names import select

    there: Any = first[[name for name in targets if name in first]].notna().all(axis=1)
    known = first[there] if there.any() else first
    if request.task == "auto":
        for target in targets:  # files may be sorted by it
            if target in known and known[target].nunique() == 1:
                raise ValueError(
                    f"{target!r} is {known[target].iloc[0]} in all of the first "
                    f"{plural(len(known), 'row')}, so the task cannot be inferred: give "
                    "--task regression or --task classification"
                )
        check_no_missing(select(known, targets))
    return known


# ---- Fit


def _fit(terminal: Terminal, request: Request, table: Table, plan: Plan) -> Fitted:
    """Fit a table in memory, as `fit_table_model` does, on the training rows."""
    from probprop.facts import OUT_OF_FOLD
    from probprop.table import fit_table_model

    train, test, estimator = plan.train, plan.test, plan.estimator
    options: dict[str, Any] = {"group": request.group, "time": request.time}
    with recipes.progress_of(
        terminal, estimator, f"fitting {plural(len(train), 'row')}"
    ) as callback:
        model = fit_table_model(
            train,
            plan.targets,
            encoder=plan.encoder,
            estimator=estimator,
            callback=callback,
            weight=plan.counting.weight,
            error=plan.counting.error,
            na=tables.na_texts(request.na),
            checkpoint=request.checkpoint,
            **(options if recipes.selects(estimator) else {}),
        )
    if len(test) or not recipes.selects(estimator):
        return Fitted(model, train, lambda: test if len(test) else None, held_out=len(test) > 0)
    rows = cast(Any, model.estimator).oof_rows_
    return Fitted(model, train, lambda: train.iloc[rows], held_out=OUT_OF_FOLD)


def hold_out(
    frame: DataFrame,
    share: float,
    seed: int,
    labels: Array | None,
    features: Iterable[str],
    *,
    group: str | None = None,
    time: str | None = None,
) -> tuple[DataFrame, DataFrame]:
    """Split off a test set: at random, whole groups, or the last rows in time.

    The training rows keep a row of every class, and a row with a value of every feature: a model
    cannot be fitted to a class or a feature without data.
    """
    import numpy as np
    import pandas as pd

    from probprop.table.encoding import times_of

    n = len(frame)
    n_test = max(1, round(share * n)) if share > 0.0 else 0
    if n_test >= n:
        raise ValueError(
            f"the table has {plural(n, 'row')}, too few for a test set of {share:g} of them: "
            "give more rows or --test-fraction 0"
        )
    if not n_test:
        return frame, frame.iloc[:0]
    together = np.arange(n) if group is None else pd.factorize(frame[group])[0]
    if time is not None:
        times = times_of(frame, time)
        test = times >= np.sort(times)[n - n_test]
    else:  # whole groups, as many as have the share of the rows
        order = np.random.RandomState(seed).permutation(together.max() + 1)
        sizes = np.bincount(together)[order]
        n_out = min(int(np.searchsorted(np.cumsum(sizes), n_test)) + 1, len(order) - 1)
        test = np.isin(together, order[:n_out])
    there = frame[list(features)].notna().to_numpy()
    needed = [*there.T]
    if labels is not None:
        needed += [labels == label for label in np.unique(labels)]
    for rows in needed:
        if time is None and rows.any() and not rows[~test].any():
            test &= together != together[rows.argmax()]
    if test.all() or any(rows.any() and not rows[~test].any() for rows in needed):
        raise ValueError(
            f"the last rows by {time!r}, a share of {share:g}, have a class or a feature that no "
            "earlier row has: give another share, or --test-fraction 0"
        )
    return frame[~test], frame[test]


def _fit_blocks(terminal: Terminal, request: Request, table: Table, plan: Plan) -> Fitted:
    """Fit a table on disk or on a cluster; the test set is split off where it is read."""
    from probprop.data import fitting
    from probprop.data.shards import Kept, numbers_out
    from probprop.facts import OUT_OF_FOLD

    client, counting, kept = table.client, plan.counting, request.checkpoint
    estimator = plan.estimator
    most = _MOST_TEST if client is None else _MOST_TEST_ON_CLUSTER
    test = Kept(request.test_share(estimator), most)
    columns = (plan.targets, plan.wanted, plan.drop, counting.weight, counting.error)
    source: Any = fitting.source_of(
        estimator, table.paths, fitting.columnwise(*columns, tables.na_texts(request.na))
    )
    with ExitStack() as stack:
        with terminal.working("reading"):
            if client is None:
                reading = fitting.rows_here(source, estimator, table.limit, test)
                rows: Any = stack.enter_context(reading)
            else:
                from probprop.data.cluster import load_shards

                rows = load_shards(client, source, None, request.random_state, test)
        if request.task == "auto":
            _check_first_rows_were_right(rows.schema.columns, plan.targets)
        tables.note_left_out(terminal, rows.schema.n_without_target, plan.targets)
        for note in rows.schema.columns.encoder.notes:
            terminal.note(note)
        text = f"fitting {_in_words(rows)}"
        terminal.say(text)
        with recipes.progress_of(terminal, estimator, text) as callback:
            fitted = fitting.train(rows, estimator, None, kept, callback)
        model = fitting.table_model(fitted, rows)
        held_out: Any = True if test.share or not recipes.selects(estimator) else OUT_OF_FOLD
        numbers = numbers_out(rows.known) if held_out is True else fitted.oof_rows_

        def judged() -> DataFrame | None:
            with terminal.working("reading the evaluation rows"):
                return fitting.rows_numbered(source, rows, numbers) if len(numbers) else None

        return Fitted(model, None, judged, held_out=held_out)


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


def _check_first_rows_were_right(columns: Columns | None, targets: Sequence[str]) -> None:
    """Reject a target with two integers in the first rows, read as classes, but more overall."""
    if columns is None or columns.classes is None or columns.target_kind != "number":
        return
    if (n := len(columns.classes)) > 2:
        raise ValueError(
            f"{targets[0]!r} has two different integers in the first rows, but {n:,} in all rows: "
            "give --task regression or --task classification"
        )


# ---- Judge and report


def _judge(
    terminal: Terminal, plan: Plan, fitted: Fitted, rows: DataFrame | None
) -> dict[str, Any] | None:
    """Print the scores of the model on its test set or its out-of-fold rows.

    Return the scores as the file keeps them; None if there are no rows to evaluate it on.
    """
    estimator: Any = fitted.model.estimator
    n, predictive = plural(estimator.n_samples_seen_, "row"), None
    if rows is None:
        terminal.say(f"fitted on {n}; there is no test set, so the model was not evaluated")
        return None
    if fitted.held_out is True:
        terminal.say(f"fitted on {n} and evaluated on a test set of {plural(len(rows), 'row')}:")
    else:
        predictive = estimator.oof_predictive_
        terminal.say(
            f"fitted on {n} and evaluated on {len(rows):,} out-of-fold rows: each is predicted by "
            "networks that were not trained on it"
        )
    judged, n_rows = judging.judge(terminal, fitted.model, [rows], predictive)
    judging.show_scores(terminal, fitted.model, judged)
    if not recipes.selects(estimator):
        terminal.say(
            "this network is kept; --test-fraction 0 trains on all rows, without an evaluation"
        )
    return judging.to_keep(plan.targets, judged, n_rows, out_of_fold=fitted.held_out is not True)


def _report(terminal: Terminal, request: Request, fitted: Fitted, rows: DataFrame | None) -> None:
    """Write a report on the rows that the model was judged on, or on its training rows."""
    rows = fitted.train if rows is None else rows
    if request.report is None or rows is None:
        return
    with terminal.working("writing the report"):
        judging.write_report(
            request.report,
            fitted.model,
            rows,
            held_out=fitted.held_out,
            live=not request.static,
            no_rows=request.no_rows,
            train=fitted.train,
        )
    terminal.say(f"wrote {request.report}")
