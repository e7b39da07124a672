"""`probprop evaluate`, `report`, `info` and `update`: how good a model is, and new rows."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from probprop.cli import arguments, tables
from probprop.cli import output as outputs
from probprop.cli.console import Terminal, terminal_of
from probprop.judged import LABELS, Judged, judge_classes, judge_values, show
from probprop.table.names import COLUMN_FACTS, column_facts, plural, target_names

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.table import TableModel

_NAMED = 10  # rows that are named in JSON

EVALUATE_EXAMPLES = """\b
Examples:
  probprop evaluate houses.pbp sold.csv
  probprop evaluate houses.pbp sold.csv --report sold.html
  probprop evaluate houses.pbp sold.csv --json
  probprop evaluate houses.pbp 'sold/*.parquet'
"""
REPORT_EXAMPLES = """\b
Examples:
  probprop report houses.pbp sold.csv -o houses.html
  probprop report houses.pbp sold.csv --no-rows -o for-a-colleague.html
  probprop report houses.pbp sold.csv --static -o houses.html
"""
INFO_EXAMPLES = """\b
Examples:
  probprop info houses.pbp
  probprop info houses.pbp --json
"""


def evaluate(
    context: Context,
    model: arguments.Model,
    data: arguments.DataFiles,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    report: arguments.Report = None,
) -> None:
    """Score predictions on rows whose target is known.

    For regression, the scores are errors (RMSE, MAE, R²), log-likelihood, CRPS and the coverage of
    intervals; for classification accuracy, log-loss, Brier score, calibration error, ROC-AUC and
    average precision. The column baseline has the scores of one prediction for all rows: mean and
    standard deviation of the training targets, or the class frequencies of these rows. The last
    line says how far intervals or probabilities are from calibrated. Each of several targets is
    scored.

    Give a test set: scores on training rows are optimistic. If the model was fitted with --weight
    and the table has that column, the noise variance of each row is divided by its weight;
    otherwise rows have the mean weight of the fit.

    Several files, or a quoted pattern such as 'sold/*.parquet', are one table, which is read in
    chunks. If there are more than 100,000 rows, the report is about a random sample of 100,000.
    """
    paths = arguments.input_paths(data)
    outputs.check_destinations({"--report": report}, {"MODEL": model, "DATA": paths})
    terminal = terminal_of(context)
    table_model = outputs.load_table_model(model)
    sample: list[DataFrame] = []
    chunks = tables.known_chunks(terminal, table_model, paths, table_model.all_kinds, judging=True)
    with terminal.rows("evaluating", None) as advance:
        kept = chunks if report is None else sampled(chunks, sample, MOST_SAMPLED)
        judged, n_rows = judge(terminal, table_model, kept, advance=advance)
    if report is not None:
        [rows] = sample
        with terminal.working("writing the report"):
            write_report(report, table_model, rows, held_out=None)
        terminal.say(f"wrote {report}")
    if as_json:
        of_targets = zip(table_model.targets, judged, strict=True)
        each = {target: as_values(one) for target, one in of_targets}
        of_all = {"targets": each} if len(each) > 1 else each[table_model.targets[0]]
        _print_json(terminal, {"rows": n_rows, **of_all})
    else:
        terminal.say(f"{model} on {plural(n_rows, 'row')} of {' '.join(data)}:")
        show_scores(terminal, table_model, judged)


def judge(
    terminal: Terminal,
    model: TableModel,
    frames: Iterable[DataFrame],
    predictive: Any = None,
    *,
    learning: bool = False,
    advance: Callable[[int], None] = lambda n_rows: None,
) -> tuple[list[Judged], int]:
    """Judge the predictions of each target on rows that come in one frame or more, and count them.

    Unknown categories are noted; `learning` says that the model is updated with the rows.

    `predictive` are the predictions of one frame, such as out-of-fold ones; None: the model
    predicts the rows, with the noise of their weights. Six numbers are kept of a row for
    each target, or its probabilities.
    """
    import numpy as np

    from probprop.metrics.regression import Pointwise, pointwise

    rows: list[Any] = []
    numbers: list[Any] = []
    unknown: tables.Unknown = {}
    for frame in frames:
        y, predicted = model.observed(frame), predictive
        if predictive is None:
            tables.count_unknown(unknown, model, frame)
            weights = model.weights_to_judge(frame)
            options: Any = {} if weights is None else {"sample_weight": weights}
            predicted = model.estimator.predict_distribution(model.encode(frame), **options)
        numbers.append(frame.index + 1)
        if model.classes is not None:
            rows.append([(model.classes.searchsorted(y), predicted.log_proba)])
        else:
            columns = zip(y.reshape(len(y), -1).T, predicted.targets(), strict=True)
            rows.append([pointwise(*each) for each in columns])
        advance(len(frame))
    tables.note_unknown(terminal, unknown, model, learning=learning)
    every = np.concatenate(numbers)
    of_targets = zip(*rows, strict=True)
    parts = [[np.concatenate(c) for c in zip(*each, strict=True)] for each in of_targets]
    if model.classes is not None:
        [(index, log_proba)] = parts
        known = (model.scores or {}).get("positive_class")
        return [judge_classes(model.classes, index, log_proba, known)], len(every)
    pairs = model.baseline or [None] * len(parts)
    each = zip(parts, pairs, strict=True)
    return [judge_values(Pointwise(*at), pair, every) for at, pair in each], len(every)


def as_values(judged: Judged) -> dict[str, Any]:
    """Return the scores, the baseline, the rows left out and the verdict, in values of JSON."""
    baseline = None if judged.baseline is None else _finite(judged.baseline)
    n_out, first = len(judged.left_out), list(judged.left_out[:_NAMED])
    left_out = {"log_likelihood": {"n": n_out, "first_rows": first}} if n_out else {}
    return {
        **_finite(judged.scores),
        "baseline": baseline,
        "left_out": left_out,
        **({} if judged.positive is None else {"positive_class": judged.positive}),
        "verdict": judged.verdict.as_dict(),
    }


def to_keep(
    targets: Sequence[str], judged: Sequence[Judged], n_samples: int, *, out_of_fold: bool
) -> dict[str, Any]:
    """Return the scores that a fit reported, as `TableModel` and its file keep them."""
    each = (_finite(one.scores) for one in judged)
    return {
        "measured_on": "out-of-fold" if out_of_fold else "held-out",
        "n_samples": n_samples,
        "positive_class": judged[0].positive,
        "targets": dict(zip(targets, each, strict=True)),
    }


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    return {k: v if math.isfinite(v) else None for k, v in scores.items()}


def show_scores(terminal: Terminal, model: TableModel, judged: Sequence[Judged]) -> None:
    """Print the scores and verdicts on standard output; notes on standard error."""
    from probprop.metrics.regression import without_density_in_words

    names = model.targets
    header = ["measure", "value", "baseline"]
    if len(names) > 1:
        header = ["measure", *(k for name in names for k in (name, f"{name}: baseline"))]
    rows = []
    for key in judged[0].scores:
        of_class = judged[0].positive is not None and key in ("roc_auc", "average_precision")
        label = f"{LABELS[key]} ({judged[0].positive})" if of_class else LABELS[key]
        each = [found for one in judged for found in (one.scores, one.baseline)]
        rows.append([label, *("–" if found is None else show(key, found[key]) for found in each)])
    terminal.table(header, rows)
    for target, one in zip(names, judged, strict=True):
        name = f"{target}: " if len(judged) > 1 else ""
        if one.left_out:
            terminal.note(f"{name}{without_density_in_words(one.left_out)}")
        terminal.result(f"{name}{one.verdict}")


MOST_SAMPLED = 100_000
"""Maximum number of rows in a report; larger tables are sampled."""


def sampled(frames: Iterable[DataFrame], sample: list[DataFrame], most: int) -> Iterator[DataFrame]:
    """Yield the frames; `sample` then has one with at most `most` random rows of them, in order."""
    import numpy as np

    random, keys = np.random.default_rng(0), np.empty(0)  # the rows of the smallest keys are kept
    for frame in frames:
        yield frame
        keys = np.append(keys, random.random(len(frame)))
        kept = np.sort(np.argsort(keys)[:most])
        keys, sample[:] = keys[kept], [tables.joined([*sample, frame]).iloc[kept]]


def _print_json(terminal: Terminal, value: dict[str, Any]) -> None:
    for line in json.dumps(value, indent=2, allow_nan=False).splitlines():
        terminal.result(line)


# ---- `probprop report`, and the reports of other commands: one HTML file


def report(
    context: Context,
    model: arguments.Model,
    data: arguments.DataFiles,
    output: Annotated[str, Option("-o", "--output", metavar="FILE", help="HTML report to write.")],
    live: Annotated[
        bool, Option("--live/--static", help="Include the what-if page, or only charts.")
    ] = True,
    no_rows: arguments.NoRows = False,
) -> None:
    """Write an HTML report on a model.

    The report is one HTML file without external resources. It begins with the what-if page, which
    runs the model: change a value, and see the prediction and its uncertainty. Below are the
    scores, calibration, feature importance and facts of the model.

    DATA has rows whose target is known, preferably a test set. The model is scored on these rows,
    and the what-if page contains up to 300 of them, with all their values. With --no-rows it
    contains neither rows nor counts of their values, and no section shows single rows.
    """
    paths = arguments.input_paths(data)
    outputs.check_destinations({"-o": output}, {"MODEL": model, "DATA": paths})
    outputs.check_replaces_page(output)
    terminal = terminal_of(context)
    table_model = outputs.load_table_model(model)
    kinds = table_model.all_kinds
    frame = tables.joined(tables.known_chunks(terminal, table_model, paths, kinds, judging=True))
    unknown: tables.Unknown = {}
    tables.count_unknown(unknown, table_model, frame)
    tables.note_unknown(terminal, unknown, table_model, learning=False)
    with terminal.working("writing the report"):
        write_report(output, table_model, frame, held_out=None, live=live, no_rows=no_rows)
    terminal.say(f"wrote {output}: {plural(len(frame), 'row')}")


def write_report(path: str, model: TableModel, frame: DataFrame, **options: Any) -> None:
    """Evaluate a model on the rows of a frame; `probprop.report.model_report` has the options."""
    from probprop.report import model_report

    made = model_report(model, frame, **options)
    with outputs.naming(path):
        made.save(path)


# ---- `probprop info`: what a model is


def info(
    context: Context,
    model: arguments.Model,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the facts, the scores and the columns of a model.

    With --json each fact is a value under its name, in lower case with underscores. features,
    columns, targets and classes are lists, and file_size is a number of bytes. scores has
    measured_on (out-of-fold, or held-out for a test set), n_samples, and targets with the scores of
    each; it is null if the model was not evaluated. `update` does not change the scores.
    """
    from probprop.io import MODEL, read_file, reading_model

    n_bytes = os.path.getsize(model)
    with reading_model(model):
        header, _, version = read_file(model, MODEL)  # loading the model takes scikit-learn
        rows = [(str(name), str(value)) for name, value in header["facts"]]
        features, columns, values = _columns(header)
        rows += features
        rows += [] if as_json else _scores(header.get("scores"))
    rows += [("Written by", f"probprop {version}"), ("File size", f"{n_bytes:,} bytes")]
    if as_json:
        words = {name.lower().replace(" ", "_"): value for name, value in rows}
        _print_json(terminal_of(context), words | values | {"file_size": n_bytes})
    else:
        terminal_of(context).facts(rows)
        if columns:
            terminal_of(context).result("")
            terminal_of(context).table(COLUMN_FACTS, columns, wrapped=2)


def _scores(kept: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the scores of the fit as facts, a line for each target."""
    if kept is None:
        return []
    n, where = kept["n_samples"], {"held-out": "test"}.get(kept["measured_on"], "out-of-fold")
    rows = [("Evaluated on", plural(n, f"{where} sample"))]
    for target, scores in kept["targets"].items():
        each = (f"{LABELS.get(k, k)} {show(k, v)}" for k, v in scores.items() if v is not None)
        name = f"Scores ({target})" if len(kept["targets"]) > 1 else "Scores"
        rows.append((name, ", ".join(each)))
    return rows


def _columns(
    header: dict[str, Any],
) -> tuple[list[tuple[str, str]], list[list[str]], dict[str, Any]]:
    """Return facts, a table of the columns and values for JSON by the header of a model file."""
    table = header.get("encoder") or header.get("encoder_")
    if table is None:
        names = header["feature_names_in_"] or []
        return [("Features", ", ".join(names) or "without names")], [], {"features": names}
    used = [each for each in table["encoders"] if not each["dropped"]]
    dropped = {each["name"]: each["dropped"] for each in table["encoders"] if each["dropped"]}
    columns, facts = [column_facts(each) for each in table["encoders"]], dict[str, str]()
    values: dict[str, Any] = {
        "features": [
            {"name": e["name"], "kind": e["kind"], "categories": e["levels"] or None} for e in used
        ]
    }
    values |= {"dropped": dropped} if dropped else {}
    values["columns"] = [dict(zip(COLUMN_FACTS, column, strict=True)) for column in columns]
    estimator = header
    if header["class"] == "TableModel":
        estimator, counting = header["estimator"], header["counting"]
        facts = {"Weights": counting["weight"], "Errors": ", ".join(counting["error"])}
        values |= {"targets": target_names(header["target"]), "scores": header.get("scores")}
    [network, *_] = estimator.get("estimators_", [estimator])
    if labels := network["likelihood_"].get("classes"):
        values["classes"] = labels["values"]
    rows = [[*map(str, column)] for column in columns]
    return [(fact, words) for fact, words in facts.items() if words], rows, values


# ---- `probprop update`: a model file learns from new rows


UPDATE_EXAMPLES = """\b
Examples:
  probprop update houses.pbp sold-today.csv
  probprop update houses.pbp 'sold/*.parquet' --memory-limit 2GB
"""


def update(
    context: Context,
    model: arguments.Model,
    data: arguments.DataFiles,
    memory_limit: arguments.MemoryLimit = None,
) -> None:
    """Update a model on new rows, in one epoch over these rows only.

    The printed scores are computed as in `probprop evaluate`, on the new rows before the update.

    Give each row once: a repeated row counts twice. A model that was fitted with --weight or
    --error needs those columns. Each network of a cross-validation is updated on the new rows
    outside its fold, and the rows in its fold update the calibration. New categories of a text
    column are treated as missing values, and new classes are an error: for these, fit the model
    again on all rows. The old model file is kept until the new file is complete.

    A table that needs more than --memory-limit is read block by block, with one update for each
    block.
    """
    paths = arguments.input_paths(data)
    outputs.check_destinations({"MODEL": model}, {"DATA": paths})
    from probprop._atomic import updating

    terminal = terminal_of(context)
    in_blocks = arguments.needed_beyond(paths, arguments.limit_of(memory_limit)) is not None

    def waits() -> None:
        terminal.say(f"waiting for another process that updates {model}")

    with updating(model, waits) as check_unchanged:
        old = new = outputs.load_table_model(model)
        if in_blocks:
            terminal.say(
                "the table would take more than the memory limit: it is read block by block"
            )

        def blocks() -> Iterator[DataFrame]:
            nonlocal new
            kinds = old.all_kinds | dict.fromkeys(old.counting.names, "number")
            chunks = tables.known_chunks(terminal, old, paths, kinds)
            for rows in chunks if in_blocks else [tables.joined(chunks)]:
                old.counting.check(rows, old.targets)
                yield (learned := old.counting.rows(rows))  # judged before they are learned
                new = new.update(learned)

        with terminal.rows("updating", None) as advance:
            judged, n_rows = judge(terminal, old, blocks(), learning=True, advance=advance)
        check_unchanged()
        outputs.save_model(new, model)
    terminal.say(f"the {plural(n_rows, 'new row')}, as predicted before the update:")
    show_scores(terminal, old, judged)
    n_before, n_seen = (m.estimator.n_samples_seen_ for m in (old, new))
    learned = plural(n_seen - n_before, "row")
    terminal.say(f"updated {model} with {learned}: {n_seen:,} rows seen")
