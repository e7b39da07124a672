"""Dates and times as numbers: year, month, day of the year, weekday and seconds of the day."""

from __future__ import annotations

import re
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
_CLOCK = rf"(?:[T ]{_TIME}{_OFFSET}?)?"
_YEAR_FIRST = rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}})({_CLOCK})"
_YEAR_LAST = rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}})({_CLOCK})"

Order = Literal["day", "month"]
"""Which of two numbers before a year comes first; with points between them it is the day."""

_OF: Mapping[Part, Callable[[Any], Any]] = {
    "year": lambda when: when.year,
    "month": lambda when: when.month,
    "day_of_year": lambda when: when.day_of_year,
    "weekday": lambda when: when.day_of_week,  # Monday is 0
    "seconds": lambda when: (
        3600.0 * when.hour + 60.0 * when.minute + when.second + 1e-6 * when.microsecond
    ),
}


def order_of(texts: pd.Series) -> Order | None:
    """Return which number comes first in different texts; None if not all are dates for sure.

    Those with the year first are dates for sure, and their order does not matter. 3/4/2024 alone
    may be in March or in April; 3/14/2024 in the same column says which.

    >>> order_of(pd.Series(["3/4/2024", "3/14/2024"])), order_of(pd.Series(["3/4/2024"]))
    ('month', None)
    >>> order_of(pd.Series(["2024-05-31"])), order_of(pd.Series(["31.05.2024 12:00"]))
    ('day', 'day')
    """
    if not len(texts):
        return None
    found = [re.fullmatch(_YEAR_LAST, text) for text in texts]
    for text, match in zip(texts, found, strict=True):
        if match is None and not re.fullmatch(_YEAR_FIRST, text):
            return None
    numbers = [(int(m[1]), int(m[3])) for m in found if m is not None and m[2] != "."]
    day = any(first > 12 for first, _ in numbers) or not numbers
    month = any(second > 12 for _, second in numbers)
    if day == month:
        return None
    return "day" if day else "month"


def moments(column: pd.Series, order: Order = "day") -> pd.DatetimeIndex:
    """Return dates as the clock at their place shows them, (n,); NaT where a cell is none.

    An offset from UTC is left out: what people do depends on their own clock.

    >>> moments(pd.Series(["2024-05-31T12:00+02:00", "?"]))[0]
    Timestamp('2024-05-31 12:00:00')
    >>> moments(pd.Series(["3/4/2024"]), "month")[0], moments(pd.Series(["3.4.2024"]))[0]
    (Timestamp('2024-03-04 00:00:00'), Timestamp('2024-04-03 00:00:00'))
    """
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return pd.DatetimeIndex(column.dt.tz_localize(None))
    if types.is_datetime64_any_dtype(column):
        return pd.DatetimeIndex(column)
    texts = column.astype(object).map(lambda value: _iso(_as_text(value), order)).astype(str)
    texts = texts.str.replace(rf"({_TIME}){_OFFSET}$", r"\1", regex=True)
    return pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", errors="coerce"))


def _iso(text: str, order: Order) -> str:
    """Write a date as 2024-05-31, whatever it was before."""
    if match := re.fullmatch(_YEAR_FIRST, text):
        year, _, month, day, clock = match.groups()
    elif match := re.fullmatch(_YEAR_LAST, text):
        day, sign, month, year, clock = match.groups()
        if order == "month" and sign != ".":
            day, month = month, day
    else:
        return text
    return f"{year}-{month:0>2}-{day:0>2}{clock}"


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
