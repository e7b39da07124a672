"""From the columns of a table to the numbers that a network takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from probprop._types import Array, FloatArray
from probprop.table.cells import is_text
from probprop.table.columns import (
    Kind,
    booleans,
    dates,
    kinds_of,
    numbers,
    texts,
)
from probprop.table.dates import Order, Part, order_of, parts_that_vary, values_of

_ORDER: tuple[Kind, ...] = ("number", "boolean", "date", "text")


@dataclass(frozen=True)
class Encoder:
    """What the columns of a table hold, and how each becomes columns of numbers.

    Numbers come first, then true and false as 1 and 0, then the parts of dates, then for each
    category of a text a column that is 1 where the row has it.

    Parameters
    ----------
    kinds : mapping of str to str
        ``"number"``, ``"boolean"``, ``"date"`` or ``"text"`` for each column.
    categories : mapping of str to sequence of str
        The known categories of each text.
    parts : mapping of str to sequence of str, default={}
        The parts of each date: ``"year"``, ``"month"`` and so on.
    orders : mapping of str to str, default={}
        ``"month"`` for each date that has it first, as in 3/14/2024.

    Examples
    --------
    >>> encoder = Encoder({"b": "text", "a": "number"}, {"b": ["x", "y"]})
    >>> encoder.names
    ['a', 'b=x', 'b=y']
    >>> encoder.encode(pd.DataFrame({"a": [0.5], "b": ["y"]}))
    array([[0.5, 0. , 1. ]])
    """

    kinds: Mapping[str, Kind]
    categories: Mapping[str, Sequence[str]]
    parts: Mapping[str, Sequence[Part]] = field(default_factory=dict)
    orders: Mapping[str, Order] = field(default_factory=dict)

    def of(self, kind: Kind) -> list[str]:
        """Return the columns of a kind."""
        return [name for name, other in self.kinds.items() if other == kind]

    @property
    def encoded(self) -> dict[str, list[str]]:
        """The names of the encoded columns of each column, in the order of X."""
        return {name: self._encoded_of(name) for kind in _ORDER for name in self.of(kind)}

    @property
    def names(self) -> list[str]:
        """Names of the columns of X: ``column``, ``column.year`` or ``column=category``."""
        return [name for names in self.encoded.values() for name in names]

    def _encoded_of(self, name: str) -> list[str]:
        match self.kinds[name]:
            case "text":
                return [f"{name}={category}" for category in self.categories[name]]
            case "date":
                return [f"{name}.{part}" for part in self.parts[name]]
            case _:
                return [name]

    def dates_of(self, name: str, cells: pd.Series) -> pd.DatetimeIndex:
        """Return cells of a date, none of them missing, as moments, (n,)."""
        return dates(name, cells, self.orders.get(name, "day"))

    def encode(self, given: pd.DataFrame, *, unknown_is_missing: bool = False) -> FloatArray:
        """Return X of these columns, (n, len(names)); NaN where a cell is missing.

        A missing text is NaN in the columns of all its categories. A category that is not known
        is 0 in all of them, or with `unknown_is_missing` NaN as well.
        """
        rest = [
            self._columns_of(name, given[name], unknown_is_missing)
            for kind in _ORDER[1:]
            for name in self.of(kind)
        ]
        return np.column_stack([_all_numbers(given[self.of("number")]), *rest])

    def _columns_of(self, name: str, column: pd.Series, unknown_is_missing: bool) -> FloatArray:
        there = column.notna().to_numpy()
        cells = column[there]
        X = np.full((len(column), len(self._encoded_of(name))), np.nan)
        match self.kinds[name]:
            case "boolean":
                X[there, 0] = booleans(name, cells)
            case "date":
                when = self.dates_of(name, cells)
                X[there] = np.column_stack([values_of(when, part) for part in self.parts[name]])
            case _:
                X[there] = one_hot(texts(cells), self.categories[name], unknown_is_missing)
        return X


def one_hot(cells: Array, known: Sequence[str], unknown_is_missing: bool) -> FloatArray:
    """Return for each category a column that is 1 where the cell is it, (n, n_categories).

    >>> one_hot(np.array(["b", "c"], object), ["a", "b"], True)
    array([[ 0.,  1.],
           [nan, nan]])
    """
    place = pd.Index(np.array(known, object)).get_indexer(pd.Index(cells))
    X = np.zeros((len(cells), len(known)))
    X[np.flatnonzero(place >= 0), place[place >= 0]] = 1.0
    if unknown_is_missing:
        X[place < 0] = np.nan
    return X


def _all_numbers(given: pd.DataFrame) -> FloatArray:
    """Return columns of numbers as floats, (n, n_columns); those that are floats at once."""
    X = np.full(given.shape, np.nan)
    plain = np.array(
        [isinstance(t, np.dtype) and t.kind in "fiu" for t in given.dtypes], dtype=bool
    )
    X[:, plain] = given.loc[:, plain].to_numpy(np.float64)
    with np.errstate(invalid="ignore"):
        infinite = np.isinf(X).any(axis=0)
    for i in np.flatnonzero(~plain | infinite):
        column = given.iloc[:, i]
        there = column.notna().to_numpy()
        X[there, i] = numbers(str(given.columns[i]), column[there])
    return X


def month_first(columns: Mapping[str, pd.Series]) -> dict[str, Order]:
    """Return the columns of dates, without missing values, whose month comes first.

    >>> month_first({"sold": pd.Series(["3/14/2024"]), "built": pd.Series(["1999-12-31"])})
    {'sold': 'month'}
    """
    different = {k: pd.Series(c.unique()) for k, c in columns.items() if is_text(c.dtype)}
    plain = {k: d for k, d in different.items() if all(isinstance(cell, str) for cell in d)}
    return {k: "month" for k, d in plain.items() if order_of(d) == "month"}


def fit_encoder(given: pd.DataFrame) -> tuple[Encoder, FloatArray]:
    """Return the encoder of all columns of a table, and the encoded rows.

    Parameters
    ----------
    given : DataFrame of shape (n, n_columns)

    Returns
    -------
    encoder : Encoder
    X : ndarray of shape (n, n_encoded)
        NaN where a cell is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> _, X = fit_encoder(pd.DataFrame({"kind": ["apple", "pear"], "length": [7.0, 9.5]}))
    >>> X
    array([[7. , 1. , 0. ],
           [9.5, 0. , 1. ]])
    """
    kinds = kinds_of(given)
    present = {k: given[k].dropna() for k, kind in kinds.items() if kind in ("text", "date")}
    categories = {k: sorted({*texts(c)}) for k, c in present.items() if kinds[k] == "text"}
    of_dates = {k: c for k, c in present.items() if kinds[k] == "date"}
    orders = month_first(of_dates)
    parts = {k: parts_that_vary(dates(k, c, orders.get(k, "day"))) for k, c in of_dates.items()}
    encoder = Encoder(kinds, categories, parts, orders)
    return encoder, encoder.encode(given)
