"""Tables so large that what a fit costs are the passes over their rows.

Below, the time of a fit grows with the rows. From `LARGE` rows on it hardly does: a network that
has seen some million rows, each a few times, is as far as one that has seen few very often. So

- epochs count by the rows that they show: as many as the same budget has on `AS_IF` rows;
- rows are held out twice, `HELD_OUT` each, and every network learns all others. They lie at the two
  ends of the table in random order, so that no network needs a copy of its rows;
- one of these networks per candidate decides, also about a power of the targets. The best then
  trains the others: two for each of two partitions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import RandomState

from probprop.estimators.cv.candidates import Budget
from probprop.estimators.cv.folds import Fold

LARGE = 100_000
"""From so many rows on."""
HELD_OUT = 20_000
"""Rows of each end: they tell candidates apart, and calibrate."""
AS_IF = 25_000
"""Rows whose epochs those of a budget are."""


def is_large(n_rows: int) -> bool:
    """Return whether a table of so many rows is large."""
    return n_rows >= LARGE


def shown_as_often(budget: Budget, n_rows: int) -> Budget:
    """Return the budget with as many rows shown as it has epochs on `AS_IF` rows.

    Parameters
    ----------
    budget : Budget
    n_rows : int
        That a network learns in an epoch.

    Examples
    --------
    >>> shown_as_often(Budget(), 600_000).checks, shown_as_often(Budget(), 80_000).checks
    ((1, 2, 4, 7, 14), (7, 13, 25, 50, 100))
    """

    def epochs(n: int) -> int:
        return int(np.ceil(n * AS_IF / n_rows))

    return replace(budget.with_epochs(epochs), chunk=1)


def two_ends(n_rows: int, rng: RandomState) -> list[Fold]:
    """Return two folds of rows in random order: the first rows are held out, and the last.

    With every call the same rows, and other seeds of the networks.

    Examples
    --------
    >>> [len(fold.train) for fold in two_ends(100_000, RandomState(0))]
    [80000, 80000]
    """
    n_held, rows = min(HELD_OUT, n_rows // 5), np.arange(n_rows)
    ends = (rows[:n_held], rows[n_rows - n_held :])
    others = (rows[n_held:], rows[: n_rows - n_held])
    seeds: list[int] = rng.randint(2**31 - 1, size=2).tolist()
    return [Fold(*each) for each in zip(others, ends, seeds, strict=True)]
