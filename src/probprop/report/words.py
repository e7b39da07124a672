"""Cells and names as a reader expects them."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

_LONGEST = 40  # letters of a text


def cell(value: Any) -> str:
    """Write a cell of a table.

    Examples
    --------
    >>> [cell(v) for v in (True, 3.0, 0.123456789, 1234567.0, None, "Mitte")]
    ['true', '3', '0.123457', '1,234,567', '–', 'Mitte']
    >>> cell(pd.Timestamp("2024-05-31")), cell(pd.Timestamp("2024-05-31 12:30"))
    ('2024-05-31', '2024-05-31 12:30')
    """
    if not isinstance(value, str) and pd.isna(value):
        return "–"
    if isinstance(value, pd.Timestamp):
        at_midnight = value == value.normalize()
        return f"{value:%Y-%m-%d}" if at_midnight else f"{value:%Y-%m-%d %H:%M}"
    if str(value) in ("True", "False"):
        return str(value).lower()
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"
    if isinstance(number := _float(value), float):
        large = 1e6 <= abs(number) < 1e15
        return (f"{number:,.0f}" if large else f"{number:.6g}").replace("-", "−")
    return str(value)


def _float(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
