"""The columns of a table that comes in pieces: what each piece holds, and one answer for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd

from probprop._types import Array
from probprop.table.columns import (
    FILL_OR_MARGINALIZE,
    MOST_CATEGORIES,
    Kind,
    check_no_missing,
    dates,
    kind_of,
    texts,
)
from probprop.table.dates import PARTS, Order, Part, values_of
from probprop.table.encoding import Encoder, month_first
from probprop.table.errors import TableError, columns_absent
from probprop.table.select import choose_features, select
from probprop.table.target import labels_of, targets_of

_IN_WORDS = {"number": "numbers", "boolean": "true and false", "date": "dates", "text": "text"}


@dataclass(frozen=True)
class Wanted:
    """What a model takes of the columns of a table.

    Parameters
    ----------
    targets : tuple of str
    features : tuple of str or None
        None: all other columns.
    drop : tuple of str
    classes : bool
        Whether the target is a class.
    gaps : bool
        Whether cells of features may be missing.
    """

    targets: tuple[str, ...]
    features: tuple[str, ...] | None
    drop: tuple[str, ...]
    classes: bool
    gaps: bool


@dataclass(frozen=True)
class Survey:
    """What was found in one piece.

    Parameters
    ----------
    label : str
    names : list of str
        All columns.
    chosen : list of str
        The features.
    kinds : dict of str
        Of features and of a target of classes; those without any cell are left out.
    categories : dict of list
        Of each feature of text.
    parts : dict of dict
        Of each date the least and the largest value of each part.
    orders : dict of str
        ``"month"`` for each date that has it first.
    labels : list
        The different classes.
    """

    label: str
    names: list[str]
    chosen: list[str]
    kinds: dict[str, Kind]
    categories: dict[str, list[str]]
    parts: dict[str, dict[Part, tuple[float, float]]]
    orders: dict[str, Order]
    labels: list[object]


@dataclass(frozen=True)
class Columns:
    """What the columns of all pieces are.

    Parameters
    ----------
    encoder : Encoder
    features : list of str
    wanted : Wanted
    target_kind : str
    classes : ndarray or None
        Sorted; None: the targets are numbers.
    """

    encoder: Encoder
    features: list[str]
    wanted: Wanted
    target_kind: Kind
    classes: Array | None

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
        categories = {k: sorted({*texts(present[k])}) for k in kinds if kinds[k] == "text"}
        of_dates = {k: present[k] for k in kinds if kinds[k] == "date"}
        orders = month_first(of_dates)
        parts = {k: _ranges(dates(k, c, orders.get(k, "day"))) for k, c in of_dates.items()}
        found: list[object] = []
        if wanted.classes:
            [target] = wanted.targets
            check_no_missing(frame[[target]])
            kinds[target] = kind_of(target, frame[target])
            found = np.unique(labels_of(frame, target, kinds[target])).tolist()
    names = [str(k) for k in frame]
    return Survey(label, names, chosen, kinds, categories, parts, orders, found)


@contextmanager
def labelled(label: str) -> Iterator[None]:
    """Put the name of a piece before what is wrong with it."""
    try:
        yield
    except TableError as error:
        if label in str(error):
            raise
        raise TableError(f"{label}: {error}") from error


def _ranges(when: pd.DatetimeIndex) -> dict[Part, tuple[float, float]]:
    values = {part: values_of(when, part) for part in PARTS}
    return {part: (float(v.min()), float(v.max())) for part, v in values.items()}


def agreed(surveys: Sequence[Survey], wanted: Wanted) -> Columns:
    """Return what the columns of all pieces are; refuse pieces that differ, by name."""
    first = surveys[0]
    every = dict.fromkeys(name for each in surveys for name in each.names)
    for each in surveys:
        used = every if wanted.features is None else [*wanted.features, *wanted.targets]
        if absent := [k for k in used if k not in each.names and k not in wanted.drop]:
            raise columns_absent(each.label, absent, each.names)
    kinds: dict[str, Kind] = {}
    for name in [*first.chosen, *(wanted.targets if wanted.classes else ())]:
        held = {each.label: each.kinds[name] for each in surveys if name in each.kinds}
        kinds[name] = one_kind(name, held)
    features = {name: kinds[name] for name in first.chosen}
    categories = {k: _categories(k, surveys) for k in features if features[k] == "text"}
    parts = {k: _varying(k, surveys) for k in features if features[k] == "date"}
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
    if len(found) > MOST_CATEGORIES:
        raise TableError(
            f"Column {name!r} has {len(found)} different texts, but at most {MOST_CATEGORIES} can "
            "be encoded: put the rare ones together, or leave it out."
        )
    return found


def _varying(name: str, surveys: Sequence[Survey]) -> list[Part]:
    ranges: list[Mapping[Part, tuple[float, float]]] = [
        each.parts[name] for each in surveys if name in each.parts
    ]
    varying = [p for p in PARTS if min(r[p][0] for r in ranges) < max(r[p][1] for r in ranges)]
    return varying or ["year"]
