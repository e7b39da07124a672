"""The folds that cross-validated estimators draw, and their calibration by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.model_selection import KFold

Splits = list[tuple[Any, Any]]


def drawn_folds(n: int, n_folds: int, n_partitions: int = 2, seed: int = 0) -> list[Splits]:
    """Return the pairs (train, test) of every partition of n rows, as `random_state` draws them."""
    rng, partitions = RandomState(seed), []
    for _ in range(n_partitions):
        folds = KFold(n_folds, shuffle=True, random_state=rng.randint(2**31 - 1))
        partitions.append(list(folds.split(np.zeros(n))))
        rng.randint(2**31 - 1, size=n_folds)  # the seeds of the networks
    return partitions


@dataclass
class ByHand:
    """The calibration of M networks of values, from the predictions of each partition: (k, n)."""

    y: Any
    mean: Any
    var: Any
    n_members: int

    @property
    def pooled_mean(self) -> Any:
        return self.mean.mean(axis=0)

    @property
    def pooled_var(self) -> Any:
        return self.var.mean(axis=0)

    @property
    def error(self) -> float:
        """The square of the residuals of the mean, in units of the variances."""
        return float(np.mean((self.y - self.pooled_mean) ** 2 / self.pooled_var))

    @property
    def between(self) -> float:
        """The variance of one network about the mean of all, in the same units."""
        k = len(self.mean)
        spread = ((self.mean - self.pooled_mean) ** 2).sum(axis=0) / max(1, k - 1)
        return float(np.mean(spread / self.pooled_var))

    @property
    def factor(self) -> float:
        """What is left for each network of the square that the mean of all will have."""
        total = max(0.0, self.error - self.between / len(self.mean)) + self.between / self.n_members
        return max(total - self.between * (1.0 - 1.0 / self.n_members), total / 2.0)
