"""The clock of the laboratory: processor time, which other processes do not change."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from probprop._types import Array

Row = TypeVar("Row", bound=Mapping[str, Any])

CLOCK = "processor"
"""Value of ``clock`` in rows with processor time; older rows have none, and wall time."""


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


def processor_seconds() -> float:
    """Return the processor time of this process: all its threads, and its children that ended."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def fit_and_predict(
    estimator: Any, X: Array, y: Array, X_test: Array, predict: Callable[[Any, Array], Any]
) -> tuple[Any, float, list[str]]:
    """Return what a fitted estimator predicts, the processor seconds of the fit, and its warnings.

    `predict` gets the estimator and `X_test`, (m, d), and is `predictive` or `log_probabilities`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = processor_seconds()
        estimator.fit(X, y)
        seconds = processor_seconds() - start
        found = predict(estimator, X_test)
    told = [str(w.message) for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)]
    return found, seconds, list(dict.fromkeys(told))
