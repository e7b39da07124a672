"""What the commands say about a table, and which of its rows and columns they use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from probprop.cli.arguments import column_names
from probprop.cli.console import Terminal
from probprop.table.names import listed, plural

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from probprop._types import Array
    from probprop.table import TableModel
    from probprop.table.columns import Kind
    from probprop.table.encoding import TableEncoder

Na = Annotated[
    str | None,
    Option(
        "--na",
        metavar="A,B,...",
        help="Texts that mean a missing value.  [default: NA, N/A, null, nan, ?, - and the like]",
    ),
]


_LOOKED_AT = 10_000  # rows whose order is looked at
_FEWEST_ORDERED, _FEWEST_VALUES = 20, 5  # rows, and different values, of an order that is noted
_IDENTIFIER = (
    r"(?i:(^|[\W_])(id|patient|subject|participant|person|customer|user|animal|batch)s?($|[\W_]))"
    r"|[a-z]I[dD]$"
)
_CODE = r"(?i:[a-z]{1,10}[-_ ]?\d+)"  # P07, unit-12


def na_texts(text: str | None) -> tuple[str, ...] | None:
    """Return the texts of ``--na``; None where it was not given, nothing where it is empty.

    >>> na_texts("NA, -999"), na_texts(""), na_texts(None)
    (('NA', '-999'), (), None)
    """
    if text is None:
        return None
    return tuple(part.strip() for part in text.split(",") if part.strip())


def note_file(terminal: Terminal, frame: DataFrame) -> None:
    """Note the properties of a file that is not plain CSV in UTF-8."""
    if noted := frame.attrs.get("noted"):
        terminal.note(f"read {noted}")
    for name, (cell, value) in frame.attrs.get("amounts", {}).items():
        terminal.note(f"numbers in {name!r}, such as {cell!r}, are read as {value!r}")


def note_left_out(terminal: Terminal, n: int, targets: Sequence[str]) -> None:
    """Say how many rows have no target."""
    if n:
        terminal.note(f"dropped {plural(n, 'row')} without {listed(targets)}")


def note_weightless(terminal: Terminal, n: int) -> None:
    """Say how many rows have the weight 0."""
    if n:
        terminal.say(f"dropped {plural(n, 'row')} of weight 0")


def with_targets(frame: DataFrame, targets: Sequence[str]) -> DataFrame:
    """Drop the rows without a target; at least one row must have a target.

    A target that the table lacks is reported elsewhere.
    """
    there = [target for target in targets if target in frame]
    keep = frame[there].notna().all(axis=1)
    if len(frame) and not keep.any():
        raise ValueError(
            f"{frame.attrs.get('source', 'the table')} has no row with a value of "
            f"{listed(there)}: give rows whose target is known"
        )
    return frame if keep.all() else frame[keep]


def features_of(
    terminal: Terminal,
    frame: DataFrame,
    targets: Sequence[str],
    features: Sequence[str] | None,
    drop: Sequence[str] | None,
) -> list[str]:
    """Return the columns to predict from; `features` and `drop` are as they were given."""
    from probprop.table.names import choose_features

    columns = [str(name) for name in frame.columns]
    wanted = column_names(features or [], columns) or None
    unwanted = [*column_names(drop or [], columns), *nameless(terminal, frame, wanted)]
    return choose_features(frame, targets, wanted, unwanted)


def nameless(terminal: Terminal, frame: DataFrame, wanted: Sequence[str] | None) -> list[str]:
    """Return the columns without a name, and say that they are dropped, unless some are wanted."""
    names = [str(k) for k in frame.columns if str(k).startswith("Unnamed: ")]
    if wanted is not None or not names:
        return []
    terminal.note(f"dropped {plural(len(names), 'column')} without a name")
    return names


def encoder_of(
    terminal: Terminal,
    frame: DataFrame,
    chosen: Sequence[str],
    *,
    named: bool,
    y: Array | None = None,
) -> TableEncoder:
    """Return the encoder of the features, and note its decisions; y are the targets, (n,).

    Identifiers are dropped unless the features were `named` on the command line.
    """
    from probprop.table.encoding import TableEncoder

    encoder = TableEncoder(drop_identifiers=not named).fit(frame[[*chosen]], y)
    for note in encoder.notes:
        terminal.note(note)
    dates = [each for each in encoder.used if each.kind == "date"]
    if dates:
        terminal.note(
            f"dates in {listed([each.name for each in dates])} are encoded as year, and as cyclic "
            "season, weekday and hour if these vary"
        )
    for each in dates:
        if each.order == "month":
            terminal.note(f"the month comes first in {each.name!r}, as in 3/14/2024")
    return encoder


def is_classification(
    terminal: Terminal, frame: DataFrame, targets: Sequence[str], task: str, where: str = ""
) -> bool:
    """Whether the target is a class; with --task auto it is inferred and said, if it may be wrong.

    `where` names the rows, if these are not all.
    """
    from probprop.table.target import decide_task

    if task != "auto":
        return task == "classification"
    decided, words = decide_task(frame, targets)
    of_classes = decided == "classification"
    # No note if numbers cannot be classes.
    if (len(targets) == 1 or where) and (of_classes or "--task" in words):
        terminal.say(f"{targets[0]!r} has {words}{where}")
    return of_classes


def check_folds(
    frame: DataFrame, group: str | None, time: str | None, taken: Collection[str]
) -> None:
    """Reject a column of groups or times that the table lacks, or that is a feature."""
    from probprop.table.columns import check_no_missing
    from probprop.table.names import TableError, select

    for option, name in (("--group", group), ("--time", time)):
        if name is None:
            continue
        check_no_missing(select(frame, [name]))
        if group is not None and name in taken:
            raise TableError(
                f"The column {name!r} of {option} cannot also be a target, a feature, a weight or "
                "an error: choose one."
            )


def note_order(terminal: Terminal, frame: DataFrame, kinds: Mapping[str, Kind]) -> None:
    """Note that rows are in the order of a date, or in blocks of an identifier, and what to do.

    Columns that are not features are checked too: identifiers are often dropped.
    """
    import numpy as np

    from probprop.table.encoding import times_of

    for name in map(str, frame):
        if kinds.get(name) == "date":
            column = frame[name].dropna()
            steps = np.diff(times_of(column.to_frame(), name))
            n_different = 1 + np.count_nonzero(steps)
            in_order = bool((steps >= 0).all() or (steps <= 0).all())
            if in_order and len(column) >= _FEWEST_ORDERED and n_different >= _FEWEST_VALUES:
                terminal.note(
                    f"rows are in the order of {name!r}: if the model is to predict later rows "
                    f"from earlier rows, give --time {name}; otherwise scores may be optimistic"
                )
        elif _names_groups(name, frame[name].head(_LOOKED_AT)):
            column = frame[name].head(_LOOKED_AT)
            n_different = column.nunique()
            n_blocks = 1 + int((column.shift()[1:] != column[1:]).sum())
            if n_blocks == n_different and _FEWEST_VALUES <= n_different <= len(column) // 2:
                terminal.note(
                    f"rows are in {n_different:,} blocks of equal {name!r}: if each block has "
                    f"repeated measurements of one object, give --group {name}; otherwise "
                    "scores may be optimistic"
                )


def _names_groups(name: str, column: Series) -> bool:
    """Whether a column looks like an identifier, by its name or by texts like "P-07"."""
    if column.dtype.kind == "f" or column.isna().any():
        return False
    if re.search(_IDENTIFIER, name) is not None:
        return True
    texts = column.dtype.kind in "OUT"
    return texts and bool(column.astype(str).str.fullmatch(_CODE).all())


def note_gaps(
    terminal: Terminal, frame: DataFrame, kinds: Mapping[str, Kind], *, selected: bool
) -> None:
    """Say how many rows have missing numbers; a missing category is a category of its own.

    `kinds` are the kinds of the features; `selected`: whether the model is cross-validated.
    """
    features = frame[[name for name, kind in kinds.items() if kind != "text"]]
    if n_gaps := int(features.isna().to_numpy().any(axis=1).sum()):
        from probprop.facts import missing_in_words

        known = f"{n_gaps:,} of {plural(len(features), 'row')} have missing numbers"
        terminal.note(f"{known}, which are {missing_in_words(selected)}")


def say_cost(
    terminal: Terminal, estimator: Any, n: int, encoder: TableEncoder, labels: Array | None
) -> None:
    """Say roughly how long a fit to n rows takes, if it is long; `labels`, (n,), of classes."""
    import numpy as np

    from probprop.cli.cost import cost_in_words

    n_categories = sum(len(each.levels) for each in encoder.used)
    n_classes = 1 if labels is None else len(np.unique(labels))
    words = cost_in_words(estimator, n, len(encoder.names), n_classes, n_categories)
    if words:
        terminal.say(words)


# ---- Rows for evaluation and updates, from a table of any size


def known_chunks(
    terminal: Terminal,
    model: TableModel,
    paths: Sequence[str],
    kinds: Mapping[str, Kind],
    *,
    judging: bool = False,
) -> Iterator[DataFrame]:
    """Yield the rows whose targets are known, in chunks, and say how many were left out.

    Evaluation rows keep the column of weights, if the files have it; rows of weight 0 are left out.
    """
    from probprop.table import iter_table
    from probprop.table.cells import is_text, missing_texts, without_texts
    from probprop.table.read import plan_chunks

    n_rows, n_known, n_weightless = 0, 0, 0
    source, whole = "", judging and model.weight_to_judge is not None
    kinds = {**kinds, str(model.weight_to_judge): "number"} if whole else kinds
    options: Any = {"columns": None if whole else list(kinds), "kinds": kinds, "na": model.na}
    texts = missing_texts(model.na, among_numbers=model.target_kind == "number")
    classes = [] if model.classes is None else [str(name) for name in model.classes]
    pieces = (iter_table(path, chunk_rows=plan_chunks(path)[1], **options) for path in paths)
    for read in chain.from_iterable(pieces):
        if n_rows == 0:
            note_file(terminal, read)
        source = str(read.attrs.get("source", "the table"))
        known = read
        for name in [name for name in model.targets if name in read]:
            cells = known[name]
            cells = without_texts(cells, texts, classes) if is_text(cells.dtype) else cells
            known = known if cells.notna().all() else known[cells.notna()]
        n_rows, n_known = n_rows + len(read), n_known + len(known)
        weights = model.weights_to_judge(known) if whole else None
        if weights is not None and not weights.all():
            n_weightless += int((weights == 0.0).sum())
            known = known[weights > 0.0]
        if len(known):
            yield known
    if n_known == 0:
        raise ValueError(
            f"{source} has no row with a value of {listed(model.targets)}: give rows whose target "
            "is known"
        )
    note_left_out(terminal, n_rows - n_known, model.targets)
    note_weightless(terminal, n_weightless)
    if n_known == n_weightless:
        raise ValueError(f"{source} has no row of a weight above 0: give rows with one")


def joined(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all frames."""
    import pandas as pd

    first, *others = frames
    if not others:
        return first
    table = pd.concat([first, *others])
    table.attrs = dict(first.attrs)
    return table


# ---- Categories that a model does not know

Unknown = dict[str, tuple[int, list[str]]]
"""For each column the number of rows with unknown categories, and a few of these categories."""

_FEW = 3  # that are named


def count_unknown(seen: Unknown, model: TableModel, frame: DataFrame) -> None:
    """Add the rows of a frame whose category is not known."""
    for name, cells in model.encoder.unknown(model.cells(frame)).items():
        n, names = seen.get(name, (0, []))
        seen[name] = n + len(cells), list(dict.fromkeys([*names, *cells]))[: _FEW + 1]


def note_unknown(terminal: Terminal, seen: Unknown, model: TableModel, *, learning: bool) -> None:
    """Note unknown categories, and how they are treated."""
    from probprop.table.model import takes_gaps

    how = "missing values" if takes_gaps(model.estimator) else "none of the known categories"
    for name, (n, names) in seen.items():
        named = ", ".join(map(repr, names[:_FEW])) + (", …" if len(names) > _FEW else "")
        note = f"{plural(n, 'row')} with categories of {name!r} that the model was not fitted on"
        note += f" ({named})"
        if learning:
            note += ": an update cannot add categories, `probprop fit` on all rows can"
        terminal.note(f"{note}; they are treated as {how}")
