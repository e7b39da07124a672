"""Several files as one table, and how much memory a table will take."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pandas as pd
from pandas.api import types

from probprop.table.chunks import plan_chunks
from probprop.table.columns import Kind
from probprop.table.errors import TableError, columns_absent
from probprop.table.opening import opened
from probprop.table.read import parquet_metadata, read_table
from probprop.table.survey import one_kind

_CELL = 8  # bytes
_COPIES = 5  # of the cells, at the peak of a fit: the table, its rows held out, and X
_UNPACKED = 5  # times a compressed file, about
_DELIMITERS = b",;\t|"


def read_tables(paths: Sequence[str], *, na: Sequence[str] | None = None) -> pd.DataFrame:
    """Read whole files with the same columns, one after the other; refuse those that differ.

    One file is as `read_table` gives it.
    """
    frames = [read_table(path, na=na) for path in paths]
    if len(frames) == 1:
        return frames[0]
    names = list(dict.fromkeys(str(k) for frame in frames for k in frame))
    for path, frame in zip(paths, frames, strict=True):
        if absent := [name for name in names if name not in frame]:
            raise columns_absent(path, absent, list(frame))
    for name in names:
        found = ((path, _kind(f[name])) for path, f in zip(paths, frames, strict=True))
        one_kind(name, {path: kind for path, kind in found if kind is not None})
    table = pd.concat([frame[names] for frame in frames], ignore_index=True)
    table.attrs = dict(frames[0].attrs)
    table.attrs["source"] = f"{paths[0]} and {len(paths) - 1} more"
    return table


def _kind(column: pd.Series) -> Kind | None:
    """Return what a column looks like; None if it has no cells. Dates in text are text here."""
    if column.isna().all():
        return None
    if types.is_bool_dtype(column) or types.infer_dtype(column, skipna=True) == "boolean":
        return "boolean"
    if types.is_numeric_dtype(column):
        return "number"
    return "date" if types.is_datetime64_any_dtype(column) else "text"


def memory_needed(paths: Sequence[str]) -> int:
    """Return about how many bytes a fit on the whole table takes, beside the libraries.

    What comes from standard input is not known, and counted as nothing.
    """
    return sum(_needed(path) for path in paths if path != "-" and os.path.isfile(path))


def _needed(path: str) -> int:
    n_rows, _ = plan_chunks(path)
    n_columns: int
    size: int = os.path.getsize(path)
    with opened(path) as file:
        start = file.start
        size *= _UNPACKED if file.compression is not None or b"\0" in start[:4] else 1
    if start.startswith(b"PAR1"):
        try:
            n_columns = parquet_metadata(path).num_columns
        except TableError:  # whoever reads it says so
            return 0
    else:
        header = start.partition(b"\n")[0]
        n_columns = 1 + max(header.count(sign) for sign in _DELIMITERS)
        n_rows = n_rows or round(size * start.count(b"\n") / max(1, len(start)))
    return _COPIES * max(size, _CELL * (n_rows or 0) * n_columns)
