"""Numbers as people write them: 1,234.50, 1.234,50, 1'234, € 12, $3 and 12 %.

A column is read so only if all of its cells can be, in one way: where "1,234" may be a thousand or
a little more than one, nobody knows, and the column stays text.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from probprop._types import FloatArray

_MONEY = r"(?:[€$£¥₹]|EUR|USD|CHF|GBP|JPY)"
_AROUND = re.compile(rf"^\s*([+-]?)\s*(?:{_MONEY}\s*)?([+-]?)|\s*(?:{_MONEY}|%)?\s*$")
_SPACED = re.compile(r"([+-]?)(\d{1,3}(?:[ \u00a0\u2009\u202f'\u2019]\d{3})+)(?!\d)(.*)")
_POINT = r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?(?:[eE][+-]?\d+)?"
_COMMA = r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d*)?"


def amounts(column: pd.Series) -> FloatArray | None:
    """Return the numbers of a column of text, (n,), NaN where it is missing; None if it has others.

    >>> amounts(pd.Series(["€ 1.234,50", "-3", None]))
    array([1234.5,   -3. ,    nan])
    >>> amounts(pd.Series(["1,234", "5,678"])) is None
    True
    """
    there = column.notna().to_numpy()
    cells = [_bare(str(cell)) for cell in column[there]]
    point, comma = (all(re.fullmatch(p, cell) for cell in cells) for p in (_POINT, _COMMA))
    if not cells or not (point or comma):
        return None
    plain = [cell.replace(",", "") if point else _pointed(cell) for cell in cells]
    if point and comma and plain != [_pointed(cell) for cell in cells]:
        return None  # in one way a thousand times what it is in the other
    values: FloatArray = np.full(len(column), np.nan)
    values[there] = [float(cell) for cell in plain]
    return values


def _bare(cell: str) -> str:
    """Return a cell without currencies, the sign of per cent, and spaces between thousands.

    >>> _bare("- CHF 1'234.50"), _bare("12 %"), _bare("5 kg"), _bare("12 34")
    ('-1234.50', '12', '5 kg', '12 34')
    """
    bare = _AROUND.sub(r"\1\2", cell)
    if spaced := _SPACED.fullmatch(bare):
        sign, digits, rest = spaced.groups()
        return sign + re.sub(r"\D", "", digits) + rest
    return bare


def _pointed(cell: str) -> str:
    return cell.replace(".", "").replace(",", ".")


def unit_of(texts: pd.Series) -> str | None:
    """Return the letters that follow a number in all of these texts, if they are the same.

    >>> unit_of(pd.Series(["1.5 kg", "2 kg"])), unit_of(pd.Series(["a", "b"]))
    ('kg', None)
    """
    found = texts.str.extract(r"^\s*[+-]?\d+(?:[.,]\d+)*\s*([^\W\d_][^\d\s]{0,7})\s*$")[0]
    return str(found.iloc[0]) if found.notna().all() and found.nunique() == 1 else None
