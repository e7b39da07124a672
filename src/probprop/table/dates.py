"""Dates and times as numbers: year, month, day of the year, weekday and seconds of the day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from pandas.api import types

from probprop._types import FloatArray

Part = Literal["year", "month", "day_of_year", "weekday", "seconds"]
PARTS: tuple[Part, ...] = get_args(Part)

_OFFSET = r"(?:Z|[+-]\d{2}(?::?\d{2})?)"
_TIME = r"\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
ISO = rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_TIME}{_OFFSET}?)?"
"""Pattern of a date such as 2024-05-31, perhaps with a time and an offset from UTC."""

_OF: Mapping[Part, Callable[[Any], Any]] = {
    "year": lambda when: when.year,
    "month": lambda when: when.month,
    "day_of_year": lambda when: when.day_of_year,
    "weekday": lambda when: when.day_of_week,  # Monday is 0
    "seconds": lambda when: (
        3600.0 * when.hour + 60.0 * when.minute + when.second + 1e-6 * when.microsecond
    ),
}


def moments(column: pd.Series) -> pd.DatetimeIndex:
    """Return dates as the clock at their place shows them, (n,); NaT where a cell is none.

    An offset from UTC is left out: what people do depends on their own clock.

    >>> moments(pd.Series(["2024-05-31T12:00+02:00", "?"]))[0]
    Timestamp('2024-05-31 12:00:00')
    """
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return pd.DatetimeIndex(column.dt.tz_localize(None))
    if types.is_datetime64_any_dtype(column):
        return pd.DatetimeIndex(column)
    texts = column.astype(object).map(_as_text).astype(str)
    texts = texts.str.replace(rf"({_TIME}){_OFFSET}$", r"\1", regex=True)
    return pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", errors="coerce"))


def _as_text(value: Any) -> str:
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def values_of(when: pd.DatetimeIndex, part: Part) -> FloatArray:
    """Return a part of dates as floats, (n,); NaN where a date is missing.

    >>> values_of(pd.DatetimeIndex(["2024-02-01", None]), "day_of_year")
    array([32., nan])
    """
    return np.asarray(_OF[part](when), np.float64)


def parts_that_vary(when: pd.DatetimeIndex) -> list[Part]:
    """Return the parts that differ between dates; the year if none does.

    >>> parts_that_vary(pd.DatetimeIndex(["2024-05-31", "2024-05-30", None]))
    ['day_of_year', 'weekday']
    """
    there = when[when.notna()]
    varying = [part for part in PARTS if len(np.unique(values_of(there, part))) > 1]
    return varying or ["year"]
