"""The folds that cross-validated estimators draw, and their calibration by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.model_selection import KFold

Splits = list[tuple[Any, Any]]


def drawn_folds(n: int, n_folds: int, seed: int = 0) -> Splits:
    """Return the pairs (train, test) of n rows, as `random_state` draws them."""
    folds = KFold(n_folds, shuffle=True, random_state=RandomState(seed).randint(2**31 - 1))
    return list(folds.split(np.zeros(n)))


@dataclass
class ByHand:
    """The calibration of stacked networks of values, from the predictions of each group: (k, n)."""

    y: Any
    mean: Any
    var: Any
    weights: Any  # of the groups, (k,)
    n_folds: int

    @property
    def pooled_mean(self) -> Any:
        return self.weights @ self.mean

    @property
    def pooled_var(self) -> Any:
        return self.weights @ self.var

    @property
    def n_pooled(self) -> float:
        return float(1.0 / (np.asarray(self.weights) ** 2).sum())

    @property
    def error(self) -> float:
        """The square of the residuals of the mean, in units of the variances."""
        return float(np.mean((self.y - self.pooled_mean) ** 2 / self.pooled_var))

    @property
    def between(self) -> float:
        """The variance of one network about the mean of all, in the same units."""
        if len(self.mean) == 1:
            return 0.0
        spread = self.weights @ (self.mean - self.pooled_mean) ** 2 / (1.0 - 1.0 / self.n_pooled)
        return float(np.mean(spread / self.pooled_var))

    @property
    def factor(self) -> float:
        """What is left for each network of the square that the mean of all will have."""
        return self.factor_of(self.n_pooled * self.n_folds)

    def factor_of(self, n_members: float) -> float:
        total = max(0.0, self.error - self.between / self.n_pooled) + self.between / n_members
        return max(total - self.between * (1.0 - 1.0 / n_members), total / 2.0)
