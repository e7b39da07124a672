"""From the columns of a table, whole or in pieces, to the numbers that a network takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pandas as pd

from probprop._types import Array, FloatArray
from probprop.table.cells import PARTS, Order, Part, is_text, order_of, values_of
from probprop.table.columns import (
    FILL_OR_MARGINALIZE,
    Kind,
    booleans,
    check_n_categories,
    check_no_missing,
    dates,
    kind_of,
    kinds_of,
    numbers,
    texts,
)
from probprop.table.names import TableError, check_present, choose_features, is_reserved, select
from probprop.table.target import labels_of, targets_of

_ORDER: tuple[Kind, ...] = ("number", "boolean", "date", "text")


@dataclass(frozen=True)
class Encoder:
    """What the columns of a table hold, and how each becomes columns of numbers.

    Numbers come first, then true and false as 1 and 0, then the parts of dates, then for each
    category of a text a column that is 1 where the row has it.
    """

    kinds: Mapping[str, Kind]  # of each column
    categories: Mapping[str, Sequence[str]]  # the known ones of each text
    parts: Mapping[str, Sequence[Part]] = field(default_factory=dict)  # of each date
    orders: Mapping[str, Order] = field(default_factory=dict)  # "month" for dates that begin so

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

    @property
    def places(self) -> dict[str, range]:
        """The columns of X that each column of the table becomes."""
        sizes = {name: len(names) for name, names in self.encoded.items()}
        ends = accumulate(sizes.values())
        return {k: range(end - sizes[k], end) for k, end in zip(sizes, ends, strict=True)}

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
        others = [name for kind in _ORDER[1:] for name in self.of(kind)]
        rest = [self._columns_of(name, given[name], unknown_is_missing) for name in others]
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
                X[there] = _one_hot(texts(cells), self.categories[name], unknown_is_missing)
        return X


def _one_hot(cells: Array, known: Sequence[str], unknown_is_missing: bool) -> FloatArray:
    """Return for each category a column that is 1 where the cell is it, (n, n_categories)."""
    place = pd.Index(np.array(known, object)).get_indexer(pd.Index(cells))
    X = np.zeros((len(cells), len(known)))
    X[np.flatnonzero(place >= 0), place[place >= 0]] = 1.0
    if unknown_is_missing:
        X[place < 0] = np.nan
    return X


def _all_numbers(given: pd.DataFrame) -> FloatArray:
    """Return columns of numbers as floats, (n, n_columns); those that are floats at once."""
    X = np.full(given.shape, np.nan)
    plain = np.array([isinstance(t, np.dtype) and t.kind in "fiu" for t in given.dtypes], bool)
    X[:, plain] = given.loc[:, plain].to_numpy(np.float64)
    with np.errstate(invalid="ignore"):
        infinite = np.isinf(X).any(axis=0)
    for i in np.flatnonzero(~plain | infinite):
        column = given.iloc[:, i]
        there = column.notna().to_numpy()
        X[there, i] = numbers(str(given.columns[i]), column[there])
    return X


def month_first(columns: Mapping[str, pd.Series]) -> dict[str, Order]:
    """Return the columns of dates, without missing values, whose month comes first."""
    different = {k: pd.Series(c.unique()) for k, c in columns.items() if is_text(c.dtype)}
    plain = {k: d for k, d in different.items() if all(isinstance(cell, str) for cell in d)}
    return {k: "month" for k, d in plain.items() if order_of(d) == "month"}


def times_of(frame: pd.DataFrame, name: str) -> Array:
    """Return a column of numbers or dates as values that grow with time, (n,)."""
    check_no_missing(select(frame, [name]))
    column = frame[name]
    kind = kind_of(name, column)
    if kind == "number":
        return numbers(name, column)
    if kind != "date":
        raise TableError(
            f"Column {name!r} of times (--time) must hold numbers or dates, but holds {kind}: "
            "give another column, or write its values as 2024-05-31."
        )
    order = month_first({name: column}).get(name, "day")
    times: Array = dates(name, column, order).to_numpy().astype(np.int64)
    return times


def fit_encoder(
    given: pd.DataFrame, kinds: Mapping[str, Kind] | None = None
) -> tuple[Encoder, FloatArray]:
    """Return the encoder of all columns of a table, and X, (n, n_encoded), NaN if missing.

    `kinds` is what each column holds; None finds that out.
    """
    kinds = kinds_of(given) if kinds is None else kinds
    present = {k: given[k].dropna() for k, kind in kinds.items() if kind in ("text", "date")}
    categories, orders, ranges = _texts_and_dates(kinds, present)
    parts = {k: _varying([found]) for k, found in ranges.items()}
    encoder = Encoder(kinds, categories, parts, orders)
    return encoder, encoder.encode(given)


Ranges = dict[Part, tuple[float, float]]
"""The lowest and highest value of each part of some dates."""


def _texts_and_dates(
    kinds: Mapping[str, Kind], present: Mapping[str, pd.Series]
) -> tuple[dict[str, list[str]], dict[str, Order], dict[str, Ranges]]:
    """Return the categories of texts, which dates have the month first, and the ranges of dates."""
    categories = {k: sorted({*texts(c)}) for k, c in present.items() if kinds.get(k) == "text"}
    of_dates = {k: c for k, c in present.items() if kinds.get(k) == "date"}
    orders = month_first(of_dates)
    ranges: dict[str, Ranges] = {}
    for name, cells in of_dates.items():
        when = dates(name, cells, orders.get(name, "day"))
        values = {part: values_of(when, part) for part in PARTS}
        ranges[name] = {part: (float(v.min()), float(v.max())) for part, v in values.items()}
    return categories, orders, ranges


def _varying(ranges: Sequence[Ranges]) -> list[Part]:
    """Return the parts that differ between dates, given the ranges of several pieces, or year."""
    varying = [p for p in PARTS if min(r[p][0] for r in ranges) < max(r[p][1] for r in ranges)]
    return varying or ["year"]


# ---- The columns of a table that comes in pieces: what each piece holds, and one answer for all


_IN_WORDS = {"number": "numbers", "boolean": "true and false", "date": "dates", "text": "text"}


@dataclass(frozen=True)
class Wanted:
    """What a model takes of the columns of a table."""

    targets: tuple[str, ...]
    features: tuple[str, ...] | None  # None: all other columns
    drop: tuple[str, ...]
    classes: bool  # whether the target is a class
    gaps: bool  # whether cells of features may be missing


@dataclass(frozen=True)
class Survey:
    """What was found in one piece."""

    label: str
    names: list[str]  # all columns
    chosen: list[str]  # the features
    kinds: dict[str, Kind]  # of features and a target of classes that have cells
    categories: dict[str, list[str]]  # of each feature of text
    parts: dict[str, Ranges]  # of each date
    orders: dict[str, Order]  # "month" for dates that have it first
    labels: list[object]  # the different classes


@dataclass(frozen=True)
class Columns:
    """What the columns of all pieces are."""

    encoder: Encoder
    features: list[str]
    wanted: Wanted
    target_kind: Kind
    classes: Array | None  # sorted; None if the targets are numbers

    def encode(self, frame: pd.DataFrame) -> tuple[Array, Array]:
        """Return X, (n, n_encoded), with NaN where cells are missing, and the targets."""
        given = select(frame, [*self.features, *self.wanted.targets])
        if not self.wanted.gaps:
            check_no_missing(given[self.features], FILL_OR_MARGINALIZE)
        X = self.encoder.encode(given[self.features], unknown_is_missing=self.wanted.gaps)
        if self.classes is None:
            return X, targets_of(given, self.wanted.targets)
        return X, labels_of(given, self.wanted.targets[0], self.target_kind)


def survey_frame(frame: pd.DataFrame, label: str, wanted: Wanted) -> Survey:
    """Look at the columns of one piece, which has rows."""
    with labelled(label):
        chosen = choose_features(frame, wanted.targets, wanted.features, wanted.drop)
        present = {name: frame[name].dropna() for name in chosen}
        kinds = {name: kind_of(name, c) for name, c in present.items() if len(c)}
        categories, orders, ranges = _texts_and_dates(kinds, present)
        found: list[object] = []
        if wanted.classes:
            [target] = wanted.targets
            check_no_missing(frame[[target]])
            kinds[target] = kind_of(target, frame[target])
            found = np.unique(labels_of(frame, target, kinds[target])).tolist()
    names = [str(k) for k in frame]
    return Survey(label, names, chosen, kinds, categories, ranges, orders, found)


@contextmanager
def labelled(label: str) -> Iterator[None]:
    """Put the name of a piece before what is wrong with it."""
    try:
        yield
    except TableError as error:
        if label in str(error):
            raise
        raise TableError(f"{label}: {error}") from error


def agreed(surveys: Sequence[Survey], wanted: Wanted) -> Columns:
    """Return what the columns of all pieces are; refuse pieces that differ, by name."""
    first = surveys[0]
    every = dict.fromkeys(name for each in surveys for name in each.names)
    for each in surveys:
        used = every if wanted.features is None else [*wanted.features, *wanted.targets]
        check_present(
            each.label, (k for k in used if k not in wanted.drop and not is_reserved(k)), each.names
        )
    kinds: dict[str, Kind] = {}
    for name in [*first.chosen, *(wanted.targets if wanted.classes else ())]:
        held = {each.label: each.kinds[name] for each in surveys if name in each.kinds}
        kinds[name] = one_kind(name, held)
    features = {name: kinds[name] for name in first.chosen}
    categories = {k: _categories(k, surveys) for k in features if features[k] == "text"}
    held_dates = {k: [each.parts[k] for each in surveys if k in each.parts] for k in features}
    parts = {k: _varying(found) for k, found in held_dates.items() if found}
    orders = {k: order for each in surveys for k, order in each.orders.items()}
    encoder = Encoder(features, categories, parts, orders)
    if not wanted.classes:
        return Columns(encoder, first.chosen, wanted, "number", None)
    kind = kinds[wanted.targets[0]]
    classes = sorted({label for each in surveys for label in each.labels})  # type: ignore[type-var]
    dtype = object if kind == "text" else None
    return Columns(encoder, first.chosen, wanted, kind, np.array(classes, dtype))


def one_kind(name: str, held: Mapping[str, Kind]) -> Kind:
    """Return what a column holds in all pieces, given what it holds in each, by label."""
    if not held:
        raise TableError(f"Column {name!r} has no value in any row: leave it out.")
    label, kind = next(iter(held.items()))
    for other, its in held.items():
        if its != kind:
            raise TableError(
                f"Column {name!r} holds {_IN_WORDS[its]} in {other}, but {_IN_WORDS[kind]} in "
                f"{label}: write it with one type in all of them, or leave it out."
            )
    return kind


def _categories(name: str, surveys: Sequence[Survey]) -> list[str]:
    found = sorted({c for each in surveys for c in each.categories.get(name, ())})
    check_n_categories(name, len(found))
    return found
