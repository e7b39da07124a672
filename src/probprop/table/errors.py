"""What is wrong with a table, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

FORMATS = "give a CSV, TSV, Parquet, JSON lines or Excel file"


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


def columns_absent(source: str, absent: Collection[str], names: Collection[Any]) -> TableError:
    """Say which columns a table does not have, and which it has."""
    which = f"columns {listed(absent)}" if len(absent) > 1 else f"column {listed(absent)}"
    return TableError(f"{source} has no {which}: it has {listed(names)}.")


def check_names(source: str, names: Collection[Any]) -> None:
    """Refuse a table with two columns of the same name."""
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise TableError(
            f"{source} has more than one column named {listed(twice)}: give each column a "
            "name of its own."
        )


def listed(names: Collection[Any], most: int = 10) -> str:
    """Return the names as a message shows them.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(name) for name in islice(names, most))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
