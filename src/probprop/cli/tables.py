"""What the commands say about a table, which rows and columns they use, and predictions in it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probprop.cli.arguments import column_names
from probprop.cli.console import Terminal, plural
from probprop.table.names import is_reserved, listed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from probprop._types import Array, FloatArray
    from probprop.table import TableModel
    from probprop.table.columns import Kind
    from probprop.table.encoding import TableEncoder

Na = Annotated[
    str | None,
    typer.Option(
        "--na",
        metavar="A,B,...",
        help="Texts that mean an empty cell.  [default: NA, N/A, null, nan, ?, - and the like]",
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
    """Say what was found out about a file, where it is not plain CSV in UTF-8."""
    if noted := frame.attrs.get("noted"):
        terminal.note(f"read {noted}")
    for name, (cell, value) in frame.attrs.get("amounts", {}).items():
        terminal.note(f"numbers in {name!r}, such as {cell!r}, are read as {value!r}")


def note_table(
    terminal: Terminal, read: DataFrame, left: DataFrame, targets: Sequence[str]
) -> None:
    """Say what was found out about a file, and how many rows have no target."""
    note_file(terminal, read)
    note_left_out(terminal, len(read) - len(left), targets)


def note_left_out(terminal: Terminal, n: int, targets: Sequence[str]) -> None:
    """Say how many rows have no target."""
    if n:
        names = ", ".join(repr(target) for target in targets)
        terminal.note(f"{plural(n, 'row')} without {names} left out")


def note_weightless(terminal: Terminal, n: int) -> None:
    """Say how many rows have the weight 0."""
    if n:
        terminal.say(f"{plural(n, 'row')} of weight 0 left out")


def with_weights(frame: DataFrame, model: TableModel) -> DataFrame:
    """Leave out the rows of weight 0; a table without weights stays as it is."""
    weights = model.weights_to_judge(frame)
    return frame if weights is None or weights.all() else frame[weights > 0.0]


def with_targets(
    frame: DataFrame,
    targets: Sequence[str],
    model: TableModel | None = None,
    *,
    some: bool = True,
) -> DataFrame:
    """Leave out the rows without a target; with `some`, at least one must have it.

    A target that the table does not have is left to those who say so.
    """
    from probprop.table.cells import is_text, missing_texts, without_texts

    there = [target for target in targets if target in frame]
    cells = {target: frame[target] for target in there}
    if model is not None:  # its tables come as text
        texts = missing_texts(model.na, among_numbers=model.target_kind == "number")
        known = [] if model.classes is None else [str(name) for name in model.classes]
        cells = {
            k: without_texts(c, texts, known) if is_text(c.dtype) else c for k, c in cells.items()
        }
    keep = None
    for column in cells.values():
        keep = column.notna() if keep is None else keep & column.notna()
    if keep is None or keep.all():
        return frame
    if some and not keep.any():
        names = ", ".join(repr(target) for target in there)
        raise ValueError(
            f"{frame.attrs.get('source', 'the table')} has no row with a value of {names}: give "
            "rows whose target is known"
        )
    return frame[keep]


def usable_columns(
    frame: DataFrame,
    chosen: Sequence[str],
    *,
    asked_for: bool,
    terminal: Terminal,
    y: Array | None = None,
) -> TableEncoder:
    """Return the encoder of the features, and say what it decided; y are the targets, (n,)."""
    from probprop.table.encoding import TableEncoder

    encoder = TableEncoder(drop_identifiers=not asked_for).fit(frame[list(chosen)], y)
    for note in encoder.notes:
        terminal.note(note)
    dates = [each for each in encoder.used if each.kind == "date"]
    if dates:
        terminal.note(
            f"dates in {', '.join(repr(each.name) for each in dates)}: taken as year, and as "
            "time of year, weekday and hour, which are cyclic, where they differ"
        )
    for each in dates:
        if each.order == "month":
            terminal.note(f"the month comes first in {each.name!r}, as in 3/14/2024")
    return encoder


def check_folds(
    frame: DataFrame, group: str | None, time: str | None, taken: Collection[str]
) -> None:
    """Refuse a column of groups or times that the table lacks, or whose groups are features."""
    from probprop.table.columns import check_no_missing
    from probprop.table.names import TableError, select

    for option, name in (("--group", group), ("--time", time)):
        if name is None:
            continue
        check_no_missing(select(frame, [name]))
        if group is not None and name in taken:
            raise TableError(
                f"The column {name!r} of {option} can be neither a target nor a feature, a weight "
                "or an error: choose one."
            )


def note_order(terminal: Terminal, frame: DataFrame, kinds: Mapping[str, Kind]) -> None:
    """Say that rows are in the order of a date, or in blocks of an identifier, and what to do.

    Columns that are not features are looked at too: identifiers are often dropped.
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
                    f"from earlier ones, give --time {name}; else the verdict may be too good"
                )
        elif _names_groups(name, frame[name].head(_LOOKED_AT)):
            column = frame[name].head(_LOOKED_AT)
            n_different = column.nunique()
            n_blocks = 1 + int((column.shift()[1:] != column[1:]).sum())
            if n_blocks == n_different and _FEWEST_VALUES <= n_different <= len(column) // 2:
                terminal.note(
                    f"rows are in blocks of equal {name!r}, {n_different:,} in number: if each "
                    f"block is one thing measured repeatedly, give --group {name}; else the "
                    "verdict may be too good"
                )


def _names_groups(name: str, column: Series) -> bool:
    """Whether a column looks like an identifier: by its name, or texts such as "P-07"."""
    if column.dtype.kind == "f" or column.isna().any():
        return False
    if re.search(_IDENTIFIER, name) is not None:
        return True
    texts = column.dtype.kind in "OUT"
    return texts and bool(column.astype(str).str.fullmatch(_CODE).all())


def nameless(frame: DataFrame, wanted: Sequence[str] | None, terminal: Terminal) -> list[str]:
    """Return the columns without a name, and those that `active` wrote, and say that they go."""
    if wanted is not None:
        return []
    names = [str(k) for k in frame.columns if str(k).startswith("Unnamed: ")]
    ours = [str(k) for k in frame.columns if is_reserved(str(k))]
    if names:
        terminal.note(f"{plural(len(names), 'column')} without a name left out")
    if ours:
        terminal.note(f"columns that `probprop active` wrote are not features: {listed(ours)}")
    return [*names, *ours]


def note_gaps(terminal: Terminal, frame: DataFrame, chosen: Sequence[str]) -> int:
    """Say how many rows have empty cells, which are marginalized, and return it."""
    n_gaps = int(frame[list(chosen)].isna().to_numpy().any(axis=1).sum())
    if n_gaps:
        rows = plural(len(frame), "row")
        terminal.note(f"{n_gaps:,} of {rows} have empty cells, which are marginalized")
    return n_gaps


def say_cost(terminal: Terminal, estimator: Any, features: DataFrame, labels: Array | None) -> None:
    """Say roughly how long a fit takes, if it is long; `labels`, (n,), are None for numbers."""
    import numpy as np

    from probprop.estimators.cost import cost_in_words
    from probprop.table.cells import is_text

    texts = [str(name) for name, dtype in features.dtypes.items() if is_text(dtype)]
    n_categories = int(features[texts].nunique().sum())
    n_columns = len(features.columns) - len(texts) + n_categories
    n_classes = 1 if labels is None else len(np.unique(labels))
    words = cost_in_words(estimator, len(features), n_columns, n_classes, n_indicators=n_categories)
    if words:
        terminal.say(words)


def known_rows(terminal: Terminal, model: TableModel, data: str) -> DataFrame:
    """Read the rows of a table whose targets are known, and say what was left out."""
    from probprop.table import read_table

    kinds = model.all_kinds
    columns: list[str] | None = list(kinds)
    if (weight := model.weight_to_judge) is not None:
        kinds, columns = kinds | {weight: "number"}, None  # the table may lack it
    read = read_table(data, columns=columns, kinds=kinds, na=model.na)
    frame = with_targets(read, model.targets, model)
    note_table(terminal, read, frame, model.targets)
    counted = with_weights(frame, model)
    note_weightless(terminal, len(frame) - len(counted))
    if not len(counted):
        raise ValueError(f"{data} has no row of a weight above 0: give rows that count")
    return counted


# ---- Categories that a model does not know

Unknown = dict[str, tuple[int, list[str]]]
"""For each column the number of rows with such a category, and a few of these categories."""

_FEW = 3  # that are named


def count_unknown(seen: Unknown, model: TableModel, frame: DataFrame) -> None:
    """Add the rows of a frame whose category is not known."""
    for name, cells in model.unknown_categories(frame).items():
        n, names = seen.get(name, (0, []))
        seen[name] = n + len(cells), list(dict.fromkeys([*names, *cells]))[: _FEW + 1]


def note_unknown(terminal: Terminal, seen: Unknown, model: TableModel, *, learning: bool) -> None:
    """Say which categories the model does not know, and what becomes of them."""
    from probprop.table.model import takes_gaps

    how = "missing values" if takes_gaps(model.estimator) else "none of the known categories"
    for name, (n, names) in seen.items():
        named = ", ".join(map(repr, names[:_FEW])) + (", …" if len(names) > _FEW else "")
        note = f"{plural(n, 'row')} with categories of {name!r} that the model was not fitted on"
        note += f" ({named})"
        if learning:
            note += ": an update cannot learn new categories, so `probprop fit` all rows for that"
        terminal.note(f"{note}; they are treated as {how}")


# ---- Predictions as columns of a table: their names, their values and their digits


def added_columns(model: TableModel, quantiles: Sequence[float] = ()) -> list[str]:
    """Return the names of the columns that predictions add."""
    if model.classes is None:
        from probprop.distributions.base import frame_columns

        return frame_columns(model.targets, quantiles)
    return ["predicted_class", *(f"p_{name}" for name in model.classes)]


def check_not_there(data: str, added: Sequence[str], there: Collection[Any]) -> None:
    """Refuse a table that has a column which the predictions would overwrite."""
    if taken := [name for name in added if name in there]:
        raise ValueError(
            f"{data} already has a column {taken[0]!r}, which the predictions would overwrite: "
            "rename or remove it"
        )


def chosen_columns(asked: list[str] | None, there: Sequence[str]) -> list[str]:
    """Return the columns to write: those asked for, in that order, or all."""
    if asked is None:
        return list(there)
    names = list(dict.fromkeys(column_names(asked, there)))
    if absent := [name for name in names if name not in there]:
        raise typer.BadParameter(
            f"there is no column {absent[0]!r} in the table or among the predictions: they have "
            f"{listed(there, 20, str)}",
            param_hint="--columns",
        )
    return names


def predictions(
    frame: DataFrame, model: TableModel, coverage: float, quantiles: Sequence[float] = ()
) -> DataFrame:
    """Return the predictions of rows, in the columns of `added_columns`."""
    import pandas as pd

    from probprop.table import UnknownCategoryWarning

    with warnings.catch_warnings():  # the rows are counted over all chunks
        warnings.simplefilter("ignore", UnknownCategoryWarning)
        predicted: Any = model.predict_distribution(frame)
    if model.classes is None:
        added = predicted.to_frame(model.targets, coverage=coverage, quantiles=quantiles)
    else:
        values = [predicted.most_probable(model.classes), *predicted.proba.T]
        added = pd.DataFrame(dict(zip(added_columns(model), values, strict=True)))
    return added.set_axis(frame.index)


def rounded(predicted: DataFrame, model: TableModel) -> DataFrame:
    """Return predictions with the digits that mean something.

    A standard deviation and a probability have four significant digits. Means and ends of
    intervals have as many decimals as their standard deviation, and at least four significant
    digits of their own.
    """
    import pandas as pd

    if model.classes is not None:
        places = {k: predicted[k].to_numpy() for k in predicted if predicted[k].dtype.kind == "f"}
    else:
        n = len(predicted.columns) // len(model.targets)
        of = {k: predicted.columns[n * (i // n) + 1] for i, k in enumerate(predicted)}  # its std
        own = ("std", "epistemic_std", "aleatoric_std")
        places = {
            k: predicted[k if k.endswith(own) else of[k]].to_numpy() for k in predicted.columns
        }
    columns = {
        k: _to_place(predicted[k].to_numpy(), places[k]) if k in places else predicted[k].to_numpy()
        for k in predicted
    }
    return pd.DataFrame(columns, index=predicted.index)


def _to_place(values: FloatArray, scale: FloatArray) -> FloatArray:
    """Round to the place of the fourth digit of `scale` or of the value, the finer one; (n,).

    >>> import numpy as np
    >>> _to_place(np.array([12345.67891, 12345.0, 1.5]), np.array([0.98765, 45000, 0.0])).tolist()
    [12345.6789, 12340.0, 1.5]
    >>> _to_place(np.array([7.654321, 0.0]), np.array([1.337e22, 1.337e22])).tolist()
    [7.654, 0.0]
    """
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        decimals = 3.0 - np.floor(np.log10(np.minimum(np.abs(values), scale)))
        power = 10.0 ** np.abs(decimals)
        up = np.round(values * power) / power
        down = np.round(values / power) * power
        result = np.where(decimals >= 0.0, up, down)
    return np.where(np.isfinite(result) & np.isfinite(decimals), result, values)
