"""What a column contains (numbers, true and false, dates or text), and its values for the encoder.

Messages count rows of data from 1. If the index of a frame has integers, as `read_table` makes
it, that is the row of the file, even after rows were left out.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types

from probprop._types import Array, FloatArray
from probprop.table.cells import Order, all_floats, amounts, floats, moments, order_of
from probprop.table.names import TableError, listed

Kind = Literal["number", "boolean", "date", "text"]

_MEASURED = 20  # more different numbers than this, in more than half the rows

_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_TIME = rf"(?:[T ]+{_CLOCK}\s*(?:[AaPp][Mm])?\s*(?:Z|UTC|[+-]\d{{2}}:?\d{{2}})?)?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATES = (
    rf"\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}{_TIME}",  # 2024-05-31 12:00
    rf"\d{{1,2}}([-/.])\d{{1,2}}\2(?:\d{{4}}|\d{{2}}){_TIME}",  # 31.05.2024, 5/31/24
    rf"(?i:\d{{1,2}}\.?[- ]{_MONTH}[- ,]+\d{{4}}){_TIME}",  # 31 May 2024
    rf"(?i:{_MONTH}[- ]\d{{1,2}},?[- ]+\d{{4}}){_TIME}",  # May 31, 2024
)
_DATE = "|".join(f"(?:{pattern})" for pattern in _DATES)


def kind_of(name: str, column: pd.Series) -> Kind:
    """Infer the kind of a column without missing values; reject unusable types."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object).map(str)  # also categories that are numbers
    holds = types.infer_dtype(column, skipna=True)
    if types.is_bool_dtype(column) or holds == "boolean":
        return "boolean"
    if types.is_numeric_dtype(column) and not types.is_complex_dtype(column):
        return "number"
    if types.is_datetime64_any_dtype(column) or holds in ("date", "datetime", "datetime64", "time"):
        return "date"
    if holds.startswith(("time", "period")):
        raise _dates(name, column.iloc[0])
    if holds in ("integer", "floating", "mixed-integer-float", "decimal"):
        return "number"
    if other := [v for v in column if not isinstance(v, str | int | float | np.number | np.bool_)]:
        raise TableError(
            f"Column {name!r} has values of the type {type(other[0]).__name__}, but a model can "
            "use only numbers, true and false, or text: drop it."
        )
    values = column.map(str)
    different = pd.Series(values.unique(), dtype=object)
    if len(different) and order_of(different) is not None:
        return "date"
    _check_written(name, column, values, different)
    return "text"


def _check_written(name: str, column: pd.Series, values: pd.Series, different: pd.Series) -> None:
    """Refuse text with dates or numbers whose form is ambiguous."""
    if different.str.fullmatch(_DATE).all():
        raise _dates(name, different[0])
    numeric = are_numbers(different)
    rows = values.isin(set(different[numeric]))
    if numeric.all() and different.str.contains(",").any():
        raise _not_numbers(name, column, values.str.contains(",").to_numpy())
    # Whole numbers may be codes: another code among them, such as 98115-4820, makes them text.
    codes = different.str.fullmatch(r"[\w-]*\d[\w-]*").all()
    if numeric.sum() > _MEASURED and rows.mean() > 0.5 and not rows.all() and not codes:
        raise _not_numbers(name, column, ~rows.to_numpy())


def written_numbers(different: pd.Series) -> bool:
    """Whether different texts are all numbers, perhaps with a unit; not codes such as 02134."""
    codes = different.str.fullmatch(r"0\d+").any()
    return not codes and (all_floats(different) is not None or amounts(different) is not None)


def are_numbers(texts: pd.Series) -> pd.Series:
    """Whether each text is a number, perhaps with a decimal comma, (n,)."""
    return pd.to_numeric(texts.str.replace(",", ".", n=1), errors="coerce").notna()


def _dates(name: str, value: object) -> TableError:
    return TableError(
        f"Column {name!r} has dates or times, for example {str(value)!r}, in "
        "an unsupported or ambiguous form: write them as 2024-05-31 or 2024-05-31T12:00, or drop "
        "it (--drop)."
    )


FILL = "fill them in, or drop those rows or columns"
FILL_OR_MARGINALIZE = (
    "fill them in, drop those rows or columns, or fit with --missing marginalize, which "
    "accepts missing values of features"
)


def check_no_missing(frame: pd.DataFrame, advice: str = FILL) -> None:
    """Refuse missing values, naming the columns and how many rows, and say what to do."""
    missing = frame.isna()
    if not missing.to_numpy().any():
        return
    counts = {name: int(n) for name, n in missing.sum().items() if n}
    rows = missing.any(axis=1)
    each = [f"{k!r} ({n} row{'s' * (n > 1)})" for k, n in counts.items()]
    first = _rows(frame, rows.to_numpy(), 1)
    raise TableError(
        f"Missing values in column{'s' * (len(each) > 1)} {listed(each, write=str)}, in "
        f"{int(rows.sum())} of {len(frame)} rows, first in {first}: {advice}."
    )


def numbers(name: str, column: pd.Series) -> FloatArray:
    """Return a column without missing values as finite floats, (n,); text may be numbers."""
    if types.is_complex_dtype(column):
        raise _not_numbers(name, column, np.ones(len(column), bool))
    if types.is_numeric_dtype(column) and not types.is_bool_dtype(column):
        values = column.to_numpy(np.float64)
    else:
        if not isinstance(column.dtype, pd.StringDtype):
            column = column.astype(object).map(str)
        values = floats(column)
        if np.isnan(values).any() and (written := amounts(column)) is not None:
            values = written
    if (bad := ~np.isfinite(values)).any():
        raise _not_numbers(name, column, bad)
    return values  # type: ignore[no-any-return]


def non_negative(name: str, column: pd.Series) -> FloatArray:
    """Return a column without missing values as finite floats of 0 or more, (n,)."""
    values = numbers(name, column)
    if (bad := values < 0.0).any():
        raise _wrong_cells(name, "numbers of 0 or more", column, bad, "correct it")
    return values


def booleans(name: str, column: pd.Series) -> FloatArray:
    """Return a column without missing values as 0.0 and 1.0, (n,)."""
    if types.is_bool_dtype(column):
        return column.to_numpy(np.float64)  # type: ignore[no-any-return]
    known = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
    values = column.astype(object).map(lambda cell: known.get(str(cell).lower(), np.nan))
    if (bad := values.isna().to_numpy()).any():
        raise _wrong_cells(name, "true or false", column, bad, "correct it")
    return values.to_numpy(np.float64)  # type: ignore[no-any-return]


def dates(name: str, column: pd.Series, order: Order = "day") -> pd.DatetimeIndex:
    """Return a column without missing values as dates, (n,)."""
    when = moments(column, order)
    if (bad := when.isna()).any():
        raise _wrong_cells(name, "dates such as 2024-05-31", column, bad, "correct it")
    return when


def texts(column: pd.Series) -> Array:
    """Return a column without missing values as an array of str, (n,), of dtype object."""
    values = column.astype(object)
    if types.infer_dtype(values) != "string":
        values = values.map(written).astype(object)
    return np.array(values, dtype=object)


def written(value: object) -> str:
    """Write a value as text: whole numbers without a point, whatever the type of their column."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


def _not_numbers(name: str, column: pd.Series, bad: Array) -> TableError:
    first = str(column.iloc[int(np.argmax(bad))])
    point = first.replace(",", ".", 1)
    advice = "write a number there, declare the text a missing value (--na)"
    if point != first and pd.notna(pd.to_numeric(point, errors="coerce")):
        thousands = f" (or {first.replace(',', '')})" if re.search(r",\d{3}$", first) else ""
        advice = f"write decimal points, as in {point}{thousands}"
    return _wrong_cells(name, "finite numbers", column, bad, advice)


def _wrong_cells(name: str, wanted: str, column: pd.Series, bad: Array, advice: str) -> TableError:
    place = int(np.argmax(bad))
    others = np.where(np.arange(len(bad)) == place, False, bad)
    like = f" (and the like in {_rows(column, others, 5)})" if others.any() else ""
    return TableError(
        f"Column {name!r} must contain {wanted}, but has {str(column.iloc[place])[:50]!r} in "
        f"{_rows(column, bad, 1)}{like}: {advice}, or drop those rows."
    )


def _rows(frame: pd.DataFrame | pd.Series, where: Array, most: int) -> str:
    """Name rows of data, counted from 1, as a message shows them."""
    places = np.flatnonzero(where)
    labels: Any = frame.index[places] if types.is_integer_dtype(frame.index) else places
    shown = ", ".join(str(int(label) + 1) for label in labels[:most])
    more = f" and {len(places) - most} more" if len(places) > most > 1 else ""
    return f"row{'s' * (min(len(places), most) > 1)} {shown}{more}"
