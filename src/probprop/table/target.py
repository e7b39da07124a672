"""The columns that are not features: targets, their classes, weights and known errors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from pandas.api import types

from probprop._types import Array, FloatArray
from probprop.table.columns import (
    Kind,
    are_numbers,
    booleans,
    check_no_missing,
    kind_of,
    non_negative,
    numbers,
    texts,
)
from probprop.table.names import TableError, check_present, listed, select, source_of

Task = Literal["regression", "classification"]

_FEW = 10  # different whole numbers, which may be classes
_MOST_CLASSES = 1_000
_MANY = 20  # more distinct values than this, in more than half the rows, are not classes


def guess_task(column: pd.Series) -> tuple[Task, str]:
    """Infer whether a target without missing values is a number or a class, with a sentence.

    Text, true and false, and two different whole numbers are classes; other numbers are numbers. A
    column of text most of whose cells are numbers is numeric, with mistakes.
    """
    if types.is_bool_dtype(column) or types.infer_dtype(column) == "boolean":
        return "classification", "true and false: classification"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "classification", "categories: classification"
    if not types.is_numeric_dtype(column):
        if _mostly_text(column):
            return "classification", "text: classification"
        return "regression", "numbers: regression"
    different = np.unique(column.to_numpy(np.float64))
    whole, n = bool((different == np.round(different)).all()), len(different)
    if n == 2 and whole:
        return "classification", (
            f"only {different[0]:g} and {different[1]:g}: classification; if they are numbers, "
            "give --task regression"
        )
    words = f"{n:,} different {'whole ' * whole}numbers: regression"
    if whole and 1 < n <= _FEW:
        words += "; if they are classes, give --task classification"
    return "regression", words


def decide_task(given: pd.DataFrame, targets: Sequence[str]) -> tuple[Task, str]:
    """Return the task inferred from one target; several targets must all be numeric."""
    guesses = {target: guess_task(given[target]) for target in targets}
    for target, (task, words) in guesses.items():
        if len(targets) > 1 and task == "classification":
            raise TableError(
                f"{target!r} has {words}; several targets must all be numeric: fit a model of "
                "its own to this one."
            )
    return guesses[targets[0]]


def check_one_target(targets: Sequence[str]) -> None:
    """Reject several targets that are classes."""
    if len(targets) > 1:
        raise TableError(
            f"Several targets, {listed(targets)}, must all be numeric, not classes: give one "
            "target, or predict numbers (--task regression)."
        )


def target_of(given: pd.DataFrame, target: str) -> FloatArray:
    """Return the target as finite floats, (n,); refuse missing values and text."""
    column = given[target]
    check_no_missing(given[[target]])
    is_number = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
    if not is_number and _mostly_text(column):
        raise TableError(
            f"The target {target!r} must be numeric, but has {str(column.iloc[0])[:50]!r} and "
            "the like: give a column of numbers as the target."
        )
    return numbers(target, column)


def targets_of(given: pd.DataFrame, targets: Sequence[str]) -> FloatArray:
    """Return the targets as finite floats, (n,) for one, (n, K) for several."""
    columns = [target_of(given, target) for target in targets]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _mostly_text(column: pd.Series) -> bool:
    """Whether most cells are not numbers, not even with a decimal comma."""
    return bool(are_numbers(pd.Series(texts(column), dtype=object)).mean() < 0.5)


def labels_of(given: pd.DataFrame, target: str, kind: Kind | None = None) -> Array:
    """Return the target as classes, (n,): bools, int64 or str; reject other values.

    `kind` is the type of a model's known classes. None infers it from the column, and rejects a
    single class or too many.
    """
    column = given[target]
    check_no_missing(given[[target]])
    if kind is None:
        _check_number(target, column)
        kind = kind_of(target, column)
    if kind == "date":
        raise TableError(
            f"The target {target!r} has dates, for example {str(column.iloc[0])!r}, which are "
            "neither numbers nor classes: predict a number, for example the days since the first "
            "date."
        )
    if kind == "boolean":
        return booleans(target, column).astype(bool)
    return texts(column) if kind == "text" else _whole(target, column)


def _check_number(target: str, column: pd.Series) -> None:
    """Refuse a single class, and too many classes."""
    different = column.astype(object).map(str).unique()
    n = len(different)
    if n == 1:
        raise TableError(
            f"The target {target!r} has only one class, {different[0][:50]!r}, in all "
            f"{len(column)} rows: give rows of another class too."
        )
    if n > _MOST_CLASSES or (n > _MANY and n > 0.5 * len(column)):
        raise TableError(
            f"The target {target!r} has {n} different values in {len(column)} rows, such as "
            f"{different[0][:50]!r}, like measurements or identifiers: give a column of classes, "
            "or predict a number (--task regression)."
        )


def _whole(target: str, column: pd.Series) -> Array:
    if types.is_integer_dtype(column) and column.between(-(2**53), 2**53).all():
        return column.to_numpy(np.int64)  # type: ignore[no-any-return]
    values = numbers(target, column)
    bad = (values != np.round(values)) | (np.abs(values) > 2**53)
    if bad.any():
        raise TableError(
            f"The target {target!r} has {values[bad][0]:g}, but classes are text, true and false, "
            "or whole numbers: predict a number (--task regression), or name the classes."
        )
    return values.astype(np.int64)


def check_known(labels: Array, classes: Array, target: str) -> None:
    """Refuse classes that a model was not fitted on, and say how many rows have one."""
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        n, first = int(unknown.sum()), labels[unknown][:1].tolist()[0]
        raise TableError(
            f"The target {target!r} has {first!r}, a class that the model has not seen, in "
            f"{n} row{'s' * (n > 1)}{' (or others like it)' * (n > 1)}: its classes are "
            f"{listed(classes.tolist())}. Drop those rows, or fit a model on all classes."
        )


# ---- Columns that say how much rows count: their weights, and the known errors of their targets


@dataclass(frozen=True)
class Counting:
    """Names of the columns of weights and known errors, which are neither features nor targets."""

    weight: str | None = None  # `sample_weight` of the estimators
    error: tuple[str, ...] = ()  # `y_std`: standard deviations, a column per target

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*([] if self.weight is None else [self.weight]), *self.error]

    def check(
        self, frame: pd.DataFrame, targets: Sequence[str], taken: Collection[str] = ()
    ) -> None:
        """Reject columns that are absent, have another role too, or have invalid values.

        `taken` are columns that are features, or left out.
        """
        check_present(source_of(frame), self.names, list(frame))
        twice = [k for i, k in enumerate(self.names) if k in (*targets, *taken, *self.names[:i])]
        if twice:
            raise TableError(
                f"The column {twice[0]!r} of weights or errors must be one of its own, not a "
                "target, a feature, a column to drop, or the other of the two: choose one."
            )
        if self.error and len(self.error) != len(targets):
            raise TableError(
                f"There must be a column of errors for each target, {listed(targets)}. Got "
                f"{listed(self.error)}."
            )
        self.options(frame)  # rejects negative values and text

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows whose weight is not 0."""
        if self.weight is None:
            return frame
        weights = self.weights(frame)
        if len(weights) and not weights.any():
            raise TableError(
                f"Column {self.weight!r} is 0 in every row, and rows of weight 0 are dropped: "
                "give some rows a weight above 0."
            )
        return frame if weights.all() else frame[weights > 0.0]

    def weights(self, frame: pd.DataFrame) -> FloatArray:
        """Return the weights, (n,), of a table that has them."""
        assert self.weight is not None
        return self._values(frame, self.weight)

    def options(self, frame: pd.DataFrame) -> dict[str, FloatArray]:
        """Return what `fit` and `partial_fit` of an estimator take, (n,), or (n, K) errors."""
        options = {}
        if self.weight is not None:
            options["sample_weight"] = self.weights(frame)
        if self.error:
            errors = [self._values(frame, name) for name in self.error]
            options["y_std"] = errors[0] if len(errors) == 1 else np.column_stack(errors)
        return options

    @staticmethod
    def _values(frame: pd.DataFrame, name: str) -> FloatArray:
        check_no_missing(select(frame, [name]))
        return non_negative(name, frame[name])


NOTHING = Counting()
"""Every row has weight 1, and no known error."""
