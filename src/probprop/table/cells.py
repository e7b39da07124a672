"""Cells as text: which of them are missing, and which numbers and dates they contain."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from pandas.api import types

from probprop._types import FloatArray

NOT_AVAILABLE = (
    *("NA", "N/A", "n/a", "na", "n.a.", "N.A.", "NaN", "nan", "<NA>", "NULL", "Null", "null"),
    *("#N/A", "#NV", "#DIV/0!", "#REF!", "#VALUE!", "-", "?"),
)
"""Texts that mean a missing value, in every column."""

NO_NUMBER = (*NOT_AVAILABLE, "None", "none", ".")
"""Texts that mean a missing value among numbers; "none" may be a category."""


def missing_texts(na: Sequence[str] | None, *, among_numbers: bool) -> tuple[str, ...]:
    """Return the texts that mean a missing value: the user's, or the usual ones."""
    if na is not None:
        return tuple(na)
    return NO_NUMBER if among_numbers else NOT_AVAILABLE


def without_texts(column: pd.Series, texts: Sequence[str], known: Sequence[str] = ()) -> pd.Series:
    """Return the column, missing where it has one of these texts that is not a known category."""
    gone = column.isin([text for text in texts if text not in {*known}]).to_numpy()
    return column.mask(gone) if gone.any() else column


def replaced(frame: pd.DataFrame, columns: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Return the frame with these columns replaced, in time linear in their number."""
    if not columns:
        return frame
    new = pd.DataFrame({name: columns.get(str(name), frame[name]) for name in frame}, copy=False)
    new.attrs = dict(frame.attrs)
    return new


def with_gaps(
    frame: pd.DataFrame, gaps: Callable[[str], tuple[Sequence[str], Sequence[str]]]
) -> pd.DataFrame:
    """Return the frame, missing where a column of text has one of its texts for that.

    `gaps` takes the name of a column, and returns these texts and the known categories, which stay.
    """
    cells = {str(k): frame[k] for k, dtype in frame.dtypes.items() if is_text(dtype)}
    left = {name: without_texts(column, *gaps(name)) for name, column in cells.items()}
    return replaced(frame, {k: v for k, v in left.items() if v is not cells[k]})


def without_marks(frame: pd.DataFrame, na: Sequence[str] | None) -> pd.DataFrame:
    """Return the frame, missing where a column of text has "NA" or the like."""
    texts = missing_texts(na, among_numbers=False)
    return with_gaps(frame, lambda _: (texts, ()))


def without_numbers(values: FloatArray, texts: Sequence[str]) -> FloatArray:
    """Return the values, NaN where one of the texts is that number, for example -999."""
    if not texts:
        return values
    marks = pd.to_numeric(pd.Series(list(texts), dtype=object), errors="coerce").dropna()
    return np.where(np.isin(values, marks.to_numpy(np.float64)), np.nan, values)


def is_text(dtype: Any) -> bool:
    """Whether a column of this type may contain text."""
    kinds = (pd.StringDtype, pd.CategoricalDtype)
    return bool(types.is_object_dtype(dtype) or isinstance(dtype, kinds))


def with_usual_types(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame without types that few tables have.

    Durations become days, periods their first moment; columns of Arrow and sparse ones the same.
    """
    usual: dict[Any, Callable[[pd.Series], Any]] = {
        pd.ArrowDtype: lambda column: column.array.__arrow_array__().to_pandas(),
        pd.SparseDtype: lambda column: column.sparse.to_dense(),
        pd.PeriodDtype: lambda column: column.dt.to_timestamp(),
        "m": lambda column: column / pd.Timedelta(days=1),
    }
    kinds = [(i, k) for i, dtype in enumerate(frame.dtypes) for k in (type(dtype), dtype.kind)]
    if not any(kind in usual for _, kind in kinds):
        return frame
    frame = frame.copy(deep=False)
    for i, kind in kinds:
        if kind in usual:
            frame.isetitem(i, usual[kind](frame.iloc[:, i]).array)
    return frame


def floats(column: pd.Series) -> FloatArray:
    """Return texts as numbers, (n,), each the nearest float; NaN for other texts."""
    values: FloatArray
    with suppress(ModuleNotFoundError):
        import pyarrow as pa

        with suppress(pa.ArrowInvalid, pa.ArrowTypeError):  # one of them is not, or has spaces
            array = pa.array(column, type=pa.large_string(), from_pandas=True)
            values = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
            return values
    texts = column.astype(object)
    values = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64, copy=True, na_value=np.nan)
    good = ~np.isnan(values)
    values[good] = [float(text) for text in texts[good]]  # pandas may be off by the last bit
    return values


def all_floats(column: pd.Series) -> FloatArray | None:
    """Return the numbers of a column of text, (n,); None if a cell is neither that nor missing."""
    values = floats(column)
    return None if (np.isnan(values) & column.notna().to_numpy()).any() else values


# ---- Numbers as people write them: 1,234.50, 1.234,50, 1'234, € 12, $3, 12 % and 106.4 kg


_MONEY = r"[€$£¥₹]|EUR|USD|CHF|GBP|JPY"
_AROUND = re.compile(rf"^\s*([+-]?)\s*(?:(?:{_MONEY})\s*)?([+-]?)|\s*(?:{_MONEY}|%)?\s*$")
_SPACED = re.compile(r"([+-]?)(\d{1,3}(?:[ \u00a0\u2009\u202f'\u2019]\d{3})+)(?!\d)(.*)")
_POINT = r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?(?:[eE][+-]?\d+)?"
_COMMA = r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d*)?"
_NUMBER = r"[+-]?\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?"
_UNIT = r"(?:°|[^\W\d_])[^\d\s]{0,7}"


def amounts(column: pd.Series) -> FloatArray | None:
    """Return the numbers of a column of text, (n,), NaN where it is missing; None if it has others.

    All cells must be numbers in one way, with the same unit or none. Where "1,234" may be a
    thousand or a little more than one is undecidable, and the column stays text; with a currency it
    is a thousand.
    """
    there = column.notna().to_numpy()
    given = column[there].astype(object).map(str)
    different = pd.Series(given.unique(), dtype=object)
    units, letters = units_of(different), different.str.fullmatch(rf"\s*{_NUMBER}\s*({_UNIT})\s*")
    if len(units) > 1 or (letters.any() and not letters.all()):
        return None
    cells = [_bare(cell.rstrip().removesuffix(units[0] if letters.any() else "")) for cell in given]
    point, comma = (all(re.fullmatch(p, cell) for cell in cells) for p in (_POINT, _COMMA))
    if not cells or not (point or comma):
        return None
    plain = [cell.replace(",", "") if point else _pointed(cell) for cell in cells]
    if point and comma and plain != [_pointed(cell) for cell in cells]:
        money = re.fullmatch(_MONEY, "".join(units)) is not None
        if not money or any("." in cell for cell in cells):
            return None  # the two readings differ by a factor of a thousand
    values: FloatArray = np.full(len(column), np.nan)
    values[there] = [float(cell) for cell in plain]
    return values


def _bare(cell: str) -> str:
    """Return a cell without currency, percent sign and spaces: "-1234.50" for "- CHF 1'234.50"."""
    bare = _AROUND.sub(r"\1\2", cell)
    if spaced := _SPACED.fullmatch(bare):
        sign, digits, rest = spaced.groups()
        return sign + re.sub(r"\D", "", digits) + rest
    return bare


def _pointed(cell: str) -> str:
    return cell.replace(".", "").replace(",", ".")


def units_of(texts: pd.Series) -> list[str]:
    """Return the units of the texts that are a number with a unit, each once."""
    before, after = rf"[+-]?\s*({_MONEY})\s*{_NUMBER}", rf"{_NUMBER}\s*({_UNIT}|{_MONEY}|%)"
    found = texts.str.extract(rf"^\s*(?:{before}|{after})\s*$")
    return list(dict.fromkeys(found[0].where(found[0].notna(), found[1]).dropna().tolist()))


def why_text(different: pd.Series) -> str:
    """Say why different texts, more than half of which are numbers, are not read as numbers."""
    are_numbers = different.str.fullmatch(rf"\s*{_NUMBER}(?:\s+{_UNIT}|\s*%)?\s*")
    if not are_numbers.mean() > 0.5:
        return ""
    units = units_of(different[are_numbers])
    if len(units) > 1:
        return f"read as text, since its values have units such as {units[0]!r} and {units[1]!r}"
    odd = different[~are_numbers]
    return f"read as text, since {odd.iloc[0][:50]!r} is not a number" if len(odd) else ""


# ---- Dates and times as numbers: the year with its fraction, and positions in three cycles


Part = Literal["year", "season", "weekday", "hour"]
PARTS: tuple[Part, ...] = get_args(Part)

_OFFSET = r"(?:Z|[+-]\d{2}(?::?\d{2})?)"
_TIME = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?"
_CLOCK = rf"(?:[T ]{_TIME}{_OFFSET}?)?"
_YEAR_FIRST = rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}})({_CLOCK})"
_YEAR_LAST = rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}})({_CLOCK})"

Order = Literal["day", "month"]
"""Which of two numbers before a year comes first; with points between them it is the day."""


def order_of(texts: pd.Series) -> Order | None:
    """Return which number comes first in different texts; None if not all are dates for sure.

    Those with the year first are dates for sure, and their order does not matter; so are times of
    the day. 3/4/2024 alone may be in March or in April; 3/14/2024 in the same column says which.
    """
    if len(texts) and texts.str.fullmatch(_TIME).all():
        return "day"
    found = [re.fullmatch(_YEAR_LAST, text) for text in texts]
    dates = (m or re.fullmatch(_YEAR_FIRST, t) for m, t in zip(found, texts, strict=True))
    if not found or not all(dates):
        return None
    numbers = [(int(m[1]), int(m[3])) for m in found if m is not None and m[2] != "."]
    day = any(first > 12 for first, _ in numbers) or not numbers
    month = any(second > 12 for _, second in numbers)
    if day == month:
        return None
    return "day" if day else "month"


def moments(column: pd.Series, order: Order = "day") -> pd.DatetimeIndex:
    """Return dates in local time, (n,); NaT for other cells.

    An offset from UTC is ignored: human activity follows local time.
    """
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return pd.DatetimeIndex(column.dt.tz_localize(None))
    if types.is_datetime64_any_dtype(column):
        return pd.DatetimeIndex(column)
    texts = column.astype(object).map(lambda value: _iso(value, order)).astype(str)
    texts = texts.str.replace(rf"({_TIME}){_OFFSET}$", r"\1", regex=True)
    return pd.DatetimeIndex(pd.to_datetime(texts, format="ISO8601", errors="coerce"))


def _iso(value: Any, order: Order) -> str:
    """Write a date as 2024-05-31, in whatever form it was given."""
    text = str(value.isoformat() if hasattr(value, "isoformat") else value)
    if match := re.fullmatch(_YEAR_FIRST, text):
        year, _, month, day, clock = match.groups()
    elif match := re.fullmatch(_YEAR_LAST, text):
        day, sign, month, year, clock = match.groups()
        if order == "month" and sign != ".":
            day, month = month, day
    elif re.fullmatch(_TIME, text):
        year, month, day, clock = "1970", "1", "1", f" {text}"
    else:
        return text
    clock = re.sub(r"^[T ](\d):", r" 0\1:", clock)
    return f"{year}-{month:0>2}-{day:0>2}{clock}"


def values_of(when: pd.DatetimeIndex) -> dict[Part, FloatArray]:
    """Return the year with its fraction, and positions from 0 to 1 in each cycle, (n,) each.

    The cycles are the year, the week, which begins on Monday, and the day.
    """
    seconds = 3600.0 * when.hour + 60.0 * when.minute + when.second + 1e-6 * when.microsecond
    of_day = np.asarray(seconds, np.float64) / 86_400.0
    season = (when.day_of_year - 1 + of_day) / np.where(when.is_leap_year, 366.0, 365.0)
    of_week = when.day_of_week / 7.0
    found = {"year": when.year + season, "season": season, "weekday": of_week, "hour": of_day}
    return {part: np.asarray(found[part], np.float64) for part in PARTS}
