"""Cells as text: which of them are missing, and which numbers they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from probprop._types import FloatArray

NOT_AVAILABLE = (
    *("NA", "N/A", "n/a", "na", "n.a.", "N.A.", "NaN", "nan", "<NA>", "NULL", "Null", "null"),
    *("#N/A", "#NV", "#DIV/0!", "#REF!", "#VALUE!", "-", "?"),
)
"""Texts that mean a missing cell, in every column."""

NO_NUMBER = (*NOT_AVAILABLE, "None", "none", ".")
"""Those that do so among numbers; "none" may be a category."""


def missing_texts(na: Sequence[str] | None, *, among_numbers: bool) -> tuple[str, ...]:
    """Return the texts that mean a missing cell: those of the user, or the usual ones."""
    if na is not None:
        return tuple(na)
    return NO_NUMBER if among_numbers else NOT_AVAILABLE


def without_texts(column: pd.Series, texts: Sequence[str], known: Sequence[str] = ()) -> pd.Series:
    """Return the column, missing where it holds one of these texts that is no known category.

    >>> without_texts(pd.Series(["red", "NA", "?"]), ["NA", "?"], known=["?"]).tolist()
    ['red', nan, '?']
    """
    gone = column.isin([text for text in texts if text not in {*known}]).to_numpy()
    return column.mask(gone) if gone.any() else column


def without_numbers(values: FloatArray, texts: Sequence[str]) -> FloatArray:
    """Return the values, NaN where one of the texts is that number, such as -999."""
    if not texts:
        return values
    marks = pd.to_numeric(pd.Series(list(texts), dtype=object), errors="coerce").dropna()
    return np.where(np.isin(values, marks.to_numpy(np.float64)), np.nan, values)


def is_text(dtype: Any) -> bool:
    """Whether a column of this type may hold text."""
    kinds = (pd.StringDtype, pd.CategoricalDtype)
    return bool(types.is_object_dtype(dtype) or isinstance(dtype, kinds))


def floats(column: pd.Series) -> FloatArray:
    """Return the numbers that texts are, (n,), each the nearest float; NaN where one is none.

    >>> floats(pd.Series(["31", "4.5", "x", None]))
    array([31. ,  4.5,  nan,  nan])
    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        return _slowly(column)
    try:
        array = pa.array(column, type=pa.large_string(), from_pandas=True)
        values: FloatArray = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # one of them is not, or has spaces
        return _slowly(column)
    return values


def _slowly(column: pd.Series) -> FloatArray:
    texts = column.astype(object)
    parsed = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    values: FloatArray = np.array(parsed)
    good = ~np.isnan(values)
    values[good] = [float(text) for text in texts[good]]  # pandas may be off by the last bit
    return values


def all_floats(column: pd.Series) -> FloatArray | None:
    """Return the numbers of a column of text with gaps, (n,); None if a cell is no number."""
    values = floats(column)
    return None if (np.isnan(values) & column.notna().to_numpy()).any() else values
