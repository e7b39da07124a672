"""`probprop evaluate`, `info` and `update`: how good a model is, what it is, and new rows."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
from probprop.cli.output import check_destinations, load_table_model, save_model
from probprop.cli.reporting import write_model_report
from probprop.cli.scores import as_json as in_json
from probprop.cli.scores import judge, show_scores
from probprop.cli.tables import (
    Unknown,
    count_unknown,
    note_file,
    note_left_out,
    note_unknown,
    note_weightless,
    with_targets,
    with_weights,
)
from probprop.judged import LABELS, show
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

    Several files, or a quoted pattern such as 'sold/*.parquet', are one table, which is read in
    chunks. If there are more than 100,000 rows, the report is about a random sample of 100,000.
    """
    paths = input_paths(data)
    check_destinations({"--report": report}, {"MODEL": model, "DATA": paths})
    terminal = terminal_of(context)
    table_model = load_table_model(model)
    sample = Sample()
    chunks = known_chunks(terminal, table_model, paths, table_model.all_kinds, judging=True)
    with terminal.rows("judging", None) as advance:
        judged, n_rows = judge(table_model, sample.watching(chunks, advance))
    if report is not None:
        with terminal.working("writing the report"):
            write_model_report(report, table_model, sample.rows(), held_out=None)
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
    table = header.get("encoder") or header.get("encoder_")
    if table is None:
        names = header["feature_names_in_"] or []
        return [("Features", ", ".join(names) or "without names")], {"features": names}
    used = [each for each in table["encoders"] if not each["dropped"]]
    dropped = {each["name"]: each["dropped"] for each in table["encoders"] if each["dropped"]}
    facts = {
        "Features": ", ".join(map(_feature, used)),
    }
    values: dict[str, Any] = {
        "features": [
            {"name": e["name"], "kind": e["kind"], "categories": e["levels"] or None} for e in used
        ],
    }
    values |= {"dropped": dropped} if dropped else {}
    estimator = header
    if header["class"] == "TableModel":
        estimator, counting = header["estimator"], header["counting"]
        facts |= {"Weights": counting["weight"], "Errors": ", ".join(counting["error"])}
        values |= {"targets": target_names(header["target"]), "scores": header.get("scores")}
    [network, *_] = estimator.get("estimators_", [estimator])
    if labels := network["likelihood_"].get("classes"):
        values["classes"] = labels["values"]
    return [(fact, words) for fact, words in facts.items() if words], values


def _feature(encoder: dict[str, Any]) -> str:
    """Name a column with what it holds, where that is not numbers."""
    name, kind = encoder["name"], encoder["kind"]
    if kind == "text":
        return f"{name} ({plural(len(encoder['levels']), 'category')})"
    if kind == "date":
        return f"{name} (date: {', '.join(encoder['parts'])})"
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
        old = new = load_table_model(model)
        unknown: Unknown = {}
        if in_blocks:
            terminal.say(
                "the table would take more than the memory limit: it is learned block by block"
            )

        def blocks() -> Iterator[DataFrame]:
            nonlocal new
            chunks = known_chunks(terminal, old, paths, old.kinds_to_learn)
            for rows in chunks if in_blocks else [joined(chunks)]:
                old.counting.check(rows, old.targets)
                yield (counted := old.counting.rows(rows))  # judged before it is learned
                count_unknown(unknown, old, counted)
                new = new.update(counted)

        with warnings.catch_warnings(), terminal.rows("learning", None) as advance:
            warnings.simplefilter("ignore", UnknownCategoryWarning)  # counted over all blocks
            judged, n_rows = judge(old, Sample(0).watching(blocks(), advance))
        note_unknown(terminal, unknown, old, learning=True)
        check_unchanged()
        save_model(new, model)
    terminal.say(f"the {plural(n_rows, 'new row')}, as predicted before the update:")
    show_scores(terminal, old, judged)
    n_before, n_seen = (m.estimator.n_samples_seen_ for m in (old, new))
    terminal.say(
        f"updated {model} with {plural(n_seen - n_before, 'row')}: {n_seen:,} rows seen in "
        f"{first_network(new.estimator).n_iter_:,} passes{_state(new)}"
    )


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


# ---- Tables of any size as chunks of rows


MOST_SAMPLED = 100_000
"""Rows that a report is about, of tables that have more."""


class Sample:
    """Rows drawn at random from a stream, at most `MOST_SAMPLED`."""

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST_SAMPLED if most is None else most
        self._kept: list[DataFrame] = []
        self._keys: list[Any] = []  # a random number per row: those with the smallest stay

    def watching(
        self, frames: Iterable[DataFrame], advance: Callable[[int], None]
    ) -> Iterator[DataFrame]:
        """Yield the frames, keep some of their rows, and count them."""
        import numpy as np

        random = np.random.default_rng(0)
        for frame in frames:
            yield frame
            advance(len(frame))
            if self._most:
                self._kept.append(frame)
                self._keys.append(random.random(len(frame)))
                if sum(map(len, self._kept)) > 2 * self._most:
                    self.rows()

    def rows(self) -> DataFrame:
        """Return the rows that were drawn, in their order."""
        import numpy as np

        keys, table = np.concatenate(self._keys), joined(self._kept)
        if len(keys) > self._most:
            places = np.sort(np.argsort(keys)[: self._most])
            keys, table = keys[places], table.iloc[places]
        self._keys, self._kept = [keys], [table]
        return table


def joined(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all frames."""
    import pandas as pd

    first, *others = frames
    if not others:
        return first
    table = pd.concat([first, *others])
    table.attrs = dict(first.attrs)
    return table


def known_chunks(
    terminal: Terminal,
    model: TableModel,
    paths: Sequence[str],
    kinds: Mapping[str, str],
    *,
    judging: bool = False,
) -> Iterator[DataFrame]:
    """Yield the rows whose targets are known; say of which files, and how many were left out.

    Rows to judge a model on have the column of weights, if the files do; those of weight 0 are
    left out.
    """
    from probprop.table import iter_table
    from probprop.table.read import plan_chunks

    n_rows, n_known, n_weightless = 0, 0, 0
    source, whole = "", judging and model.weight_to_judge is not None
    kinds = {**kinds, str(model.weight_to_judge): "number"} if whole else kinds
    options: Any = {"columns": None if whole else list(kinds), "kinds": kinds, "na": model.na}
    pieces = (iter_table(path, chunk_rows=plan_chunks(path)[1], **options) for path in paths)
    for read in chain.from_iterable(pieces):
        if n_rows == 0:
            note_file(terminal, read)
        source = str(read.attrs.get("source", "the table"))
        known = with_targets(read, model.targets, model, some=False)
        n_rows, n_known = n_rows + len(read), n_known + len(known)
        if whole:
            counted = with_weights(known, model)
            n_weightless += len(known) - len(counted)
            known = counted
        if len(known):
            yield known
    if n_known == 0:
        names = ", ".join(repr(target) for target in model.targets)
        raise ValueError(
            f"{source} has no row with a value of {names}: give rows whose target is known"
        )
    note_left_out(terminal, n_rows - n_known, model.targets)
    note_weightless(terminal, n_weightless)
    if n_known == n_weightless:
        raise ValueError(f"{source} has no row of a weight above 0: give rows that count")
