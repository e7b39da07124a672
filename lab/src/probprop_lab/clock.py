"""The clock of the laboratory: processor time, which others' work on the machine does not move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

Row = TypeVar("Row", bound=Mapping[str, Any])

CLOCK = "processor"
"""What a row has under ``clock`` when its seconds are such; older rows have none, and wall time."""


def timed_alike(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with processor time; all of them where none has it.

    Examples
    --------
    >>> timed_alike([{"clock": "processor", "seconds": 2.0}, {"seconds": 9.0}])
    [{'clock': 'processor', 'seconds': 2.0}]
    >>> timed_alike([{"seconds": 9.0}])
    [{'seconds': 9.0}]
    """
    return [row for row in rows if row.get("clock") == CLOCK] or list(rows)


def wall_note(rows: Iterable[Mapping[str, Any]]) -> str:
    """Say which seconds are wall time; nothing where none are.

    Examples
    --------
    >>> wall_note([{"clock": "processor"}])
    ''
    >>> wall_note([{"clock": "processor"}, {}])
    'seconds: of 1 of 2 fits wall time, from before they were processor time'
    """
    clocks = [row.get("clock") for row in rows]
    n_wall = sum(clock != CLOCK for clock in clocks)
    if not n_wall:
        return ""
    which = "" if n_wall == len(clocks) else f"of {n_wall} of {len(clocks)} fits "
    return f"seconds: {which}wall time, from before they were processor time"
