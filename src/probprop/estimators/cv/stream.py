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
from probprop.estimators.cv.judge import Judge
from probprop.estimators.cv.race import fold_outputs
from probprop.estimators.data import TrainingData
from probprop.estimators.members import Member, branch
from probprop.inference.threads import map_in_threads


def dealt_in_turn(n: int, n_folds: int, start: int) -> list[Fold]:
    """Return the folds of n new rows, of which the first belongs to the fold start mod n_folds.

    The network of a single fold learns all rows, after it has predicted them.

    Examples
    --------
    >>> [(fold.train, fold.test) for fold in dealt_in_turn(3, 2, start=5)]
    [(array([0, 2]), array([1])), (array([1]), array([0, 2]))]
    """
    of = (start + np.arange(n)) % n_folds
    learned = [np.flatnonzero((of != i) | (n_folds == 1)) for i in range(n_folds)]
    return [Fold(rows, np.flatnonzero(of == i), seed=0) for i, rows in enumerate(learned)]


def predicted_before(
    members: Sequence[Member], data: TrainingData, folds: Sequence[Fold], judge: Judge
) -> Any:
    """Return what the networks say about new rows, each about those of its fold.

    Parameters
    ----------
    members : sequence of PBPRegressor or PBPClassifier
    data : TrainingData
        The rows, encoded.
    folds : sequence of Fold
        One per member.
    judge : Judge

    Returns
    -------
    OutOfFoldRows
        In the order of the rows.
    """
    asked = [(m, fold) for m, fold in zip(members, folds, strict=True) if len(fold.test)]
    outputs = [
        fold_outputs(plan_of(member, data.likelihood), state_of(member), data.X.X[fold.test])
        for member, fold in asked
    ]
    return judge.out_of_fold(outputs, data.y, data.weights, HeldOut([fold for _, fold in asked]))


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

    return map_in_threads(learn, list(zip(members, folds, strict=True)), n_threads)
