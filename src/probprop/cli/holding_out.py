"""Rows that are held out of a fit, to judge it on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probprop.cli.console import plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop._types import Array


def hold_out(
    frame: DataFrame, fraction: float, seed: int, labels: Array | None, features: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """Hold out a share of the rows.

    The training rows keep at least one row of every class, and one with a value of every feature:
    the model cannot learn a class or a feature that it does not see.
    """
    import numpy as np

    n_test = max(1, round(fraction * len(frame))) if fraction > 0.0 else 0
    if n_test >= len(frame):
        raise ValueError(
            f"the table has {plural(len(frame), 'row')}, too few to hold out a share of "
            f"{fraction:g}: give more rows or --test-fraction 0"
        )
    order = np.random.RandomState(seed).permutation(len(frame))
    if labels is not None and n_test:
        _, last = np.unique(labels[order][::-1], return_index=True)
        last = len(order) - 1 - last  # the last row of each class, in this order
        order = np.concatenate([np.delete(order, last), order[last]])
        n_test = min(n_test, len(order) - len(last))
    test, train = order[:n_test], order[n_test:]
    there = frame[list(features)].notna().to_numpy()
    unseen = there[test].any(axis=0) & ~there[train].any(axis=0)
    if unseen.any():
        kept = np.unique(there[test][:, unseen].argmax(axis=0))  # the first row with a value
        test, train = np.delete(test, kept), np.append(train, test[kept])
    # In the order of the file, so that the fit depends on the seed in one way only.
    return frame.iloc[np.sort(train)], frame.iloc[np.sort(test)]
