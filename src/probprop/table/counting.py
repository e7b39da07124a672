"""Columns that say how much rows count: their weights, and the known errors of their targets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from probprop._types import FloatArray
from probprop.table.columns import check_no_missing, non_negative
from probprop.table.errors import TableError, columns_absent, listed
from probprop.table.select import select, source_of


@dataclass(frozen=True)
class Counting:
    """The names of those columns, which are neither features nor targets.

    Parameters
    ----------
    weight : str, default=None
        Column of the weights: `sample_weight` of the estimators.
    error : tuple of str, default=()
        Columns of the known standard deviations, one for each target: `y_std`.

    Examples
    --------
    >>> import pandas as pd
    >>> counting = Counting("n", ("price_error",))
    >>> frame = pd.DataFrame({"n": [1, 4], "price_error": [0.5, 0.0]})
    >>> counting.options(frame)
    {'sample_weight': array([1., 4.]), 'y_std': array([0.5, 0. ])}
    """

    weight: str | None = None
    error: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*([] if self.weight is None else [self.weight]), *self.error]

    def check(
        self, frame: pd.DataFrame, targets: Sequence[str], taken: Collection[str] = ()
    ) -> None:
        """Refuse columns that the table lacks, that are something else too, or hold no such number.

        Parameters
        ----------
        frame : DataFrame
        targets : sequence of str
        taken : collection of str, default=()
            Columns that are features, or left out.
        """
        if absent := [name for name in self.names if name not in frame]:
            raise columns_absent(source_of(frame), absent, list(frame))
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
        self.options(frame)  # refuses what is no number of 0 or more

    def check_no_errors(self, target: str) -> None:
        """Refuse columns of errors where the target is a class."""
        if self.error:
            raise TableError(
                f"The target {target!r} is a class, which has no measurement error: leave out the "
                f"column of errors {self.error[0]!r} (--error), or predict a number "
                "(--task regression)."
            )

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows whose weight is not 0."""
        if self.weight is None:
            return frame
        weights = self.weights(frame)
        if len(weights) and not weights.any():
            raise TableError(
                f"Column {self.weight!r} is 0 in every row, and rows of weight 0 are left out: "
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
