"""How cross-validated networks go on with new rows.

A new row belongs to one fold, in turn. The network of that fold says what it expects before any
network learns from the row; all the others learn it. So every row stays held out from one network,
and the calibration goes on with honest predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from probprop.estimators.base import go_on_with_network, plan_of, state_of
from probprop.estimators.cv.folds import Fold, HeldOut
from probprop.estimators.cv.joint import Completed, Encode
from probprop.estimators.cv.judge import Judge
from probprop.estimators.cv.trainings import fold_outputs
from probprop.estimators.data import TrainingData
from probprop.estimators.members import Member, branch
from probprop.inference.shards import map_in_threads


def dealt_in_turn(n: int, n_folds: int, start: int) -> list[Fold]:
    """Return the folds of n new rows, of which the first belongs to the fold start mod n_folds.

    They are those of every partition. The network of a single fold learns all rows, after it has
    predicted them.

    Examples
    --------
    >>> [(fold.train, fold.test) for fold in dealt_in_turn(3, 2, start=5)]
    [(array([0, 2]), array([1])), (array([1]), array([0, 2]))]
    """
    of = (start + np.arange(n)) % n_folds
    learned = [np.flatnonzero((of != i) | (n_folds == 1)) for i in range(n_folds)]
    return [Fold(rows, np.flatnonzero(of == i), seed=0) for i, rows in enumerate(learned)]


def predicted_before(
    members: Sequence[Member],
    data: TrainingData,
    rows: Completed,
    encode: Encode,
    a2: float,
    folds: Sequence[Fold],
    judge: Judge,
) -> Any:
    """Return what the networks say about new rows, each about those of its fold.

    Parameters
    ----------
    members : sequence of PBPRegressor or PBPClassifier
        One per fold and partition: those of the first partition come first.
    data : TrainingData
        The rows, encoded.
    rows : Completed
        The rows, not encoded.
    encode : callable
        Encodes completed rows.
    a2 : float
        By which calibration multiplies their variances.
    folds : sequence of Fold
        Of each partition.
    judge : Judge

    Returns
    -------
    OutOfFoldRows
        In the order of the rows.
    """
    held_out = HeldOut([fold for fold in folds if len(fold.test)])
    parts = []
    for start in range(0, len(members), len(folds)):
        outputs = [
            fold_outputs(
                plan_of(member, data.likelihood),
                state_of(member),
                data.X.X[fold.test],
                rows[fold.test],
                encode,
                a2,
            )
            for member, fold in zip(members[start : start + len(folds)], folds, strict=True)
            if len(fold.test)
        ]
        parts.append(judge.out_of_fold(outputs, data.y, data.weights, held_out))
    return judge.pooled(parts)


def absorbed(
    members: Sequence[Member], data: TrainingData, folds: Sequence[Fold], n_threads: int
) -> list[Member]:
    """Return the members after one pass over the rows that are not of their fold.

    Parameters
    ----------
    members : sequence of PBPRegressor or PBPClassifier
        They are left as they are.
    data : TrainingData
        The rows, encoded.
    folds : sequence of Fold
        Of each partition.
    n_threads : int
        They do not change the result.
    """

    def learn(pair: tuple[Member, Fold]) -> Member:
        member, fold = pair
        if not len(fold.train):
            return member
        following = branch(member)
        go_on_with_network(following, data[fold.train])
        return following

    pairs = [(member, folds[i % len(folds)]) for i, member in enumerate(members)]
    return map_in_threads(learn, pairs, n_threads)
