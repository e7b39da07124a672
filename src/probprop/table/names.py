"""Columns by their names: which a model uses, and errors of a table.

Nothing here needs pandas to be imported.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


DEFAULT_SEED = 0
"""Seed of `fit_table_model` and ``probprop fit`` if none is given."""

RESERVED = "probprop_"
"""The columns that ``probprop active`` writes begin with this; no model learns them."""

OTHER, MISSING = "(other)", "(missing)"
"""Levels of a category column: all rare and unseen values together, and a missing value."""

COLUMN_FACTS = ["column", "kind", "encoding", "levels", "missing"]

FORMATS = "give a CSV, TSV, Parquet, JSON lines or Excel file"


def target_names(target: str | Sequence[str]) -> list[str]:
    """Return the names of the targets as a list; a single target may be given as a str."""
    return [target] if isinstance(target, str) else list(target)


def in_words(names: Sequence[str]) -> str:
    """Join names as a sentence does: 'a', 'a and b', 'a, b and c'."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def plural(n: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "row"), plural(1200, "row"), plural(2, "category")
    ('1 row', '1,200 rows', '2 categories')
    """
    many = f"{noun[:-1]}ies" if noun.endswith("y") else noun + ("es" if noun[-1] == "s" else "s")
    return f"{n:,} {noun if n == 1 else many}"


def column_facts(encoder: Mapping[str, Any]) -> tuple[str, str, str, int, int]:
    """Return the `COLUMN_FACTS` of a column, given the attributes of its encoder, as in a file."""
    kind, levels = encoder["kind"], encoder["levels"]
    how = "0 or 1" if kind == "boolean" else "as is" + ", 1 if missing" * bool(encoder.get("gaps"))
    if kind == "text":
        how = "rank, one-hot" if encoder.get("ranks") else "one-hot"
        how += ", rare levels pooled" * (OTHER in levels)
        how += ", mean target" * bool(encoder.get("means"))
    if kind == "date":
        how = "year" + "".join(f", {part} (cyclic)" for part in encoder["parts"][1:])
        how += ", month first" * (encoder.get("order") == "month")
    words = "; ".join([how, *notes_on(encoder)])
    if encoder["dropped"]:
        words = f"dropped: {encoder['dropped']}"
    return encoder["name"], kind, words, len(levels), encoder["n_missing"]


def notes_on(encoder: Mapping[str, Any]) -> list[str]:
    """Return the notes on a column, given the attributes of its encoder."""
    leak = "possible leak, since it predicts the target almost alone" if encoder["leak"] else ""
    return [note for note in (encoder.get("note"), leak) if note]


# ---- What is wrong with a table, in words


class TableError(ValueError):
    """A table that cannot be used; the message says why, where and what to do."""


@contextmanager
def reading_parquet(label: str) -> Iterator[None]:
    """Say that a Parquet file is damaged, whatever the library raises about its content."""
    try:
        yield
    except (TableError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # Arrow's, JSON's, of text, of keys: a dozen types
        if type(error) is MemoryError:
            raise
        text = (str(error) or type(error).__name__).partition("\n")[0]
        raise TableError(
            f"{label} is damaged or is not a Parquet file ({text}): write it again."
        ) from error


def check_present(source: str, wanted: Iterable[str], names: Collection[Any]) -> None:
    """Refuse a table that lacks columns: say which, and which it has."""
    known = {*names}
    if absent := [name for name in wanted if name not in known]:
        columns = "columns" if len(absent) > 1 else "column"
        raise TableError(f"{source} has no {columns} {listed(absent)}: it has {listed(names)}.")


def check_names(source: str, names: Collection[Any]) -> None:
    """Refuse a table with two columns of the same name."""
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise TableError(
            f"{source} has more than one column named {listed(twice)}: give each column a "
            "name of its own."
        )


def listed(names: Collection[Any], most: int = 10, write: Callable[[Any], str] = repr) -> str:
    """Return the names as a message shows them, such as "'a', 'b' and 1 more" for most=2."""
    shown = ", ".join(write(name) for name in islice(names, most))
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


# ---- Which columns of a table a model takes


def as_frame(X: Any) -> pd.DataFrame | None:
    """Return a table of pandas, polars, pyarrow or the like as a pandas frame; None for others."""
    if type(X).__module__.startswith(("numpy", "scipy", "builtins")):
        return None
    table = X
    if not (hasattr(X, "iloc") and hasattr(X, "columns")):  # pandas may have a name twice
        import narwhals.stable.v2 as nw

        table = nw.from_native(X, pass_through=True)
        if isinstance(table, nw.LazyFrame):
            table = table.collect()
        if not isinstance(table, nw.DataFrame):
            return None
    try:
        from probprop.table.cells import with_usual_types  # it imports pandas

        return with_usual_types(X if table is X else table.to_pandas())
    except ModuleNotFoundError as error:
        raise ImportError("Tables need pandas: pip install 'probprop[cli]'") from error


def pandas_of(table: Any) -> pd.DataFrame:
    """Return a table as a pandas frame; reject other types."""
    if (frame := as_frame(table)) is None:
        raise TypeError(
            f"Expected a table of pandas, polars, pyarrow or the like. Got {type(table).__name__}."
        )
    frame.attrs = getattr(table, "attrs", {})
    return frame


def source_of(frame: pd.DataFrame) -> str:
    """Name a table as messages do: by the file it was read from, where there is one."""
    return str(frame.attrs.get("source", "The table"))


def select(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return these columns of a table; refuse one that lacks any, has two alike, or no rows."""
    check_present(source_of(frame), names, list(frame))
    check_names(source_of(frame), list(frame))
    if len(frame) == 0:
        raise TableError(f"{source_of(frame)} has no rows: give one with data in it.")
    return frame[list(names)]


def is_reserved(name: object) -> bool:
    """Whether a column is one that ``probprop active`` writes, by its name."""
    return isinstance(name, str) and name.startswith(RESERVED)


def choose_features(
    frame: pd.DataFrame,
    targets: Sequence[str],
    features: Sequence[str] | None,
    drop: Collection[str],
) -> list[str]:
    """Return the columns to use, in the order of the table.

    Reserved columns are left out, with a warning unless they are dropped, and refused if named.
    """
    wanted = [*targets, *(features or ()), *drop]
    check_present(source_of(frame), dict.fromkeys(wanted), list(frame))
    if named := [name for name in (*targets, *(features or ())) if is_reserved(name)]:
        raise TableError(
            f"{source_of(frame)} has a column {named[0]!r}, as `probprop active` writes it, which "
            "can be neither a feature nor a target: rename it to use it."
        )
    if taken := [name for name in targets if name in drop or name in (features or ())]:
        raise TableError(
            f"The target {taken[0]!r} can be neither a feature nor dropped: choose one."
        )
    if not targets or len({*targets}) < len(targets):
        raise TableError(f"The targets must be different columns. Got {listed(targets) or 'none'}.")
    reserved = [k for k in dict.fromkeys(frame) if is_reserved(k)]
    if features is None and (left_out := [k for k in reserved if k not in drop]):
        warnings.warn(
            f"Columns that `probprop active` wrote are not used as features: {listed(left_out)}.",
            UserWarning,
            stacklevel=3,
        )
    among = {*(frame if features is None else features)}
    without = {*targets, *drop, *reserved}
    chosen = [k for k in dict.fromkeys(frame) if k in among and k not in without]
    if not chosen:
        raise TableError(
            f"{source_of(frame)} leaves no feature to predict {listed(targets)} from: it has "
            f"{listed(list(frame))}; choose at least one other column."
        )
    if other := [k for k in chosen if not isinstance(k, str)]:
        raise TableError(
            f"{source_of(frame)} has a column named {other[0]!r}, which is not text: rename it, as "
            "`frame.columns.astype(str)` does."
        )
    if features is None and (unnamed := [k for k in chosen if k.startswith("Unnamed: ")]):
        raise TableError(
            f"{source_of(frame)} has a column without a name, often the number of the row: "
            f"name it, or drop it (--drop {unnamed[0]!r})."
        )
    return chosen
