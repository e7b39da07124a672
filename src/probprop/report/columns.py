"""The columns of a table as a reader knows them, and where each is among a network's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from probprop._types import Array, FloatArray
from probprop.table.columns import Kind, booleans, numbers, texts
from probprop.table.encoding import Encoder

_MOST_CATEGORIES = 12  # that have a mark
_FEW_NUMBERS = 10  # different ones that have a mark each, instead of a curve
_STEPS = {"number": 50, "date": 40}  # of a curve


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table: what it holds, how far it goes, and its place in X.

    >>> frame = pd.DataFrame({"size": ["S", "L", "S"], "weight": [1.0, 2.5, None]})
    >>> encoder = Encoder({"size": "text", "weight": "number"}, {"size": ["L", "S"]})
    >>> size, weight = columns_of_table(encoder, frame)
    >>> size.kind, size.place, size.values
    ('text', (1, 2), ['S', 'L'])
    >>> weight.low, weight.high
    (1.0, 2.5)
    >>> size.encode(["L", "S"])
    array([[1., 0.],
           [0., 1.]])
    """

    name: str
    place: tuple[int, ...]  # columns of X: one, or one per category or part of a date
    encoder: Encoder  # of this column alone
    cells: pd.Series  # present cells as values of its kind, in the order of X

    @property
    def kind(self) -> Kind:
        """What it holds: ``"number"``, ``"boolean"``, ``"date"`` or ``"text"``."""
        return self.encoder.kinds[self.name]

    @property
    def is_curve(self) -> bool:
        """Whether there is something between two values: not for categories or few numbers."""
        if self.kind == "number":
            return int(self.cells.nunique()) > _FEW_NUMBERS
        return self.kind == "date" and bool(self.low < self.high)

    @property
    def low(self) -> Any:
        """The smallest number, or the first date; those of the rows, not of the training."""
        return self._value(self.cells.min())

    @property
    def high(self) -> Any:
        """The largest number, or the last date."""
        return self._value(self.cells.max())

    def _value(self, found: Any) -> Any:
        """Return a number as a float of Python; a date stays."""
        return float(found) if self.kind == "number" else found

    @property
    def values(self) -> list[Any]:
        """The different cells: categories by how frequent they are, the others in order."""
        if self.kind == "text":
            return [str(v) for v in self.cells.value_counts(sort=True).index]
        return sorted(self.cells.unique().tolist())

    def encode(self, values: Sequence[Any]) -> FloatArray:
        """Return cells (numbers, true and false, dates or texts) as in X, (n, len(place))."""
        return self.encoder.encode(pd.DataFrame({self.name: list(values)}), unknown_is_missing=True)

    def marks(self) -> list[Any]:
        """The values that have a mark each: all, but at most 12 categories, the most frequent."""
        return self.values[:_MOST_CATEGORIES] if self.kind == "text" else self.values

    def steps(self, n_rows: int) -> tuple[list[Any], FloatArray]:
        """Return places along a curve, and what X is set to there, (n_steps, n_rows or 1, m).

        Numbers go from the first to the last percentile. Of a date the year, month, day and hour
        change together, so each row has a date of its own within half a step.
        """
        if self.kind == "number":
            low, high = np.quantile(self.cells, [0.01, 0.99])
            if low == high:
                low, high = self.low, self.high
            grid = np.linspace(low, high, _STEPS["number"])
            return grid.tolist(), grid[:, None, None]
        width = (self.high - self.low) / _STEPS["date"]
        first = [self.low + i * width for i in range(_STEPS["date"])]
        offsets = pd.TimedeltaIndex([width * ((j + 0.5) / n_rows) for j in range(n_rows)])
        each = [self.encode(list(start + offsets)) for start in first]
        return [start + 0.5 * width for start in first], np.stack(each)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table, as a reader and as a network knows them."""

    X: Array  # (n, n_features)
    table: pd.DataFrame  # the cells, (n, n_columns)
    columns: list[Column]
    numbers: Array  # names of the rows, (n,)

    @property
    def places(self) -> dict[str, tuple[int, ...]]:
        """The columns of X of each column that has any cell."""
        return {column.name: column.place for column in self.columns if len(column.cells)}


def rows_of(
    X: Array,
    names: Sequence[str],
    row_numbers: Sequence[int] | None = None,
    table: pd.DataFrame | None = None,
    encoder: Encoder | None = None,
) -> Rows:
    """Put together what is known of some rows: X, (n, n_features), and the names of its columns.

    With `table`, (n, n_columns), and the encoder that made X of it, the columns are the table's;
    otherwise X is the table. `row_numbers` None counts from 1.
    """
    numbers = np.arange(1, len(X) + 1) if row_numbers is None else np.asarray(row_numbers)
    if (table is None) != (encoder is None):
        raise ValueError("table and encoder belong together: give both, or neither.")
    if table is None or encoder is None:
        table = pd.DataFrame(np.asarray(X, float), columns=pd.Index(unique(names)))
        return Rows(X, table, columns_of_array(X, list(table.columns)), numbers)
    if len(table) != len(X) or len(encoder.names) != X.shape[1]:
        raise ValueError(
            f"table must have the {len(X)} rows of X, and the encoder its {X.shape[1]} columns. "
            f"Got {len(table)} rows and {len(encoder.names)} columns instead."
        )
    return Rows(X, table, columns_of_table(encoder, table), numbers)


def unique(names: Sequence[str]) -> list[str]:
    """Return names of which no two are the same.

    >>> unique(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return made


def columns_of_array(X: Array, names: Sequence[str]) -> list[Column]:
    """Return the columns of numbers X, (n, n_features), with NaN for missing entries."""
    made = []
    for i, (name, column) in enumerate(zip(names, np.asarray(X, float).T, strict=True)):
        cells = pd.Series(column[~np.isnan(column)])
        made.append(Column(name, (i,), Encoder({name: "number"}, {}), cells))
    return made


def columns_of_table(encoder: Encoder, table: pd.DataFrame) -> list[Column]:
    """Return the columns of a table, (n, n_columns), that an encoder turns into X, in their order.

    Missing cells are NA. A category that the encoder does not know counts as a missing cell.
    """
    places, made = encoder.places, []
    for name in (str(name) for name in table.columns if name in encoder.kinds):
        alone = Encoder(
            {name: encoder.kinds[name]},
            {k: v for k, v in encoder.categories.items() if k == name},
            {k: v for k, v in encoder.parts.items() if k == name},
            {k: v for k, v in encoder.orders.items() if k == name},
        )
        cells = _values(alone, name, table[name].dropna())
        made.append(Column(name, tuple(places[name]), alone, cells))
    return made


def _values(encoder: Encoder, name: str, there: pd.Series) -> pd.Series:
    """Return cells that are there as values of their kind."""
    match encoder.kinds[name]:
        case "number":
            return pd.Series(numbers(name, there))
        case "boolean":
            return pd.Series(booleans(name, there)).astype(bool)
        case "date":
            return pd.Series(encoder.dates_of(name, there))
        case _:
            cells = pd.Series(texts(there), dtype=object)
            return cells[cells.isin(encoder.categories[name])].reset_index(drop=True)
