"""The files that a path, a folder or a pattern means."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from probprop.table.errors import FORMATS, TableError

_TABLES = (".parquet", ".pq", ".csv", ".tsv", ".txt", ".jsonl", ".json")
_COMPRESSED = ("", ".gz", ".bz2", ".xz")


def paths_of(data: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """Return the files of a path, of a folder, of a quoted pattern such as 'data/*.parquet'.

    Several of them are put together in this order; the files of a pattern are sorted by name. A
    path that is neither a folder nor a pattern is returned as it is, whether it exists or not.
    """
    given = [os.fspath(data)] if isinstance(data, str | os.PathLike) else list(data)
    return [path for one in given for path in _paths(one)]


def _paths(path: str) -> list[str]:
    if os.path.isdir(path):
        ends = tuple(f"{table}{packed}" for table in _TABLES for packed in _COMPRESSED)
        names = sorted(name for name in os.listdir(path) if name.lower().endswith(ends))
        if not names:
            raise TableError(f"the folder {path} has no tables in it: {FORMATS}.")
        return [os.path.join(path, name) for name in names]
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise TableError(f"no file matches {path}: {FORMATS}, or a pattern of such files.")
    return found
