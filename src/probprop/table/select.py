"""Which columns of a table a model takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from probprop.table.errors import TableError, check_names, columns_absent, listed


def source_of(frame: pd.DataFrame) -> str:
    """Name a table as messages do: by the file it was read from, where there is one."""
    return str(frame.attrs.get("source", "The table"))


def select(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return these columns of a table; refuse one that lacks any, has two alike, or no rows."""
    if absent := [name for name in names if name not in frame]:
        raise columns_absent(source_of(frame), absent, list(frame))
    check_names(source_of(frame), list(frame))
    if len(frame) == 0:
        raise TableError(f"{source_of(frame)} has no rows: give one with data in it.")
    return frame[list(names)]


def choose_features(
    frame: pd.DataFrame,
    targets: Sequence[str],
    features: Sequence[str] | None,
    drop: Collection[str],
) -> list[str]:
    """Return the columns to use, in the order of the table."""
    wanted = [*targets, *(features or ()), *drop]
    if absent := [name for name in dict.fromkeys(wanted) if name not in frame]:
        raise columns_absent(source_of(frame), absent, list(frame))
    if taken := [name for name in targets if name in drop or name in (features or ())]:
        raise TableError(
            f"The target {taken[0]!r} can be neither a feature nor dropped: choose one."
        )
    if not targets or len({*targets}) < len(targets):
        raise TableError(f"The targets must be different columns. Got {listed(targets) or 'none'}.")
    among, without = {*(frame if features is None else features)}, {*targets, *drop}
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
