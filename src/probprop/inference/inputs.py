"""The features of rows, with what is not known of them: standard deviations, missing entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from probprop._types import Array, FloatArray

N_NODES = 128
"""Points to integrate at: standard deviations of trained networks are right to a few per cent."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows of features, each entry a Gaussian. Indexing selects rows, as for an array."""

    X: Array  # (n, n_features), means in the units of each feature; NaN: missing
    std: FloatArray | None = None  # (n, n_features), in the same units, 0 or more; None: all are 0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        n, n_features = self.X.shape
        return n, n_features

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice | Array) -> Inputs:
        return Inputs(self.X[rows], None if self.std is None else self.std[rows])

    def at(self, nodes: FloatArray) -> Inputs:
        """Return the rows with X at every node, known: node after node, (n_nodes n, n_features).

        The nodes, (n_nodes, n_features), are in standard deviations from the mean.
        """
        std = 0.0 if self.std is None else self.std
        moved = self.X + nodes[:, np.newaxis] * std
        return Inputs(moved.reshape(-1, self.X.shape[1]))

    def missing(self) -> Array | None:
        """Return where entries are missing, (n, n_features), or None where none is."""
        missing = np.isnan(self.X)
        return missing if missing.any() else None


@cache
def normal_nodes(n_features: int, n_nodes: int = N_NODES) -> FloatArray:
    """Return (n_nodes, n_features) quasi-random points of a standard Gaussian, with opposites.

    Their moments up to the third are those of the Gaussian: what is linear in the inputs is
    integrated exactly. With many features only the variances are, not the covariances.

    >>> nodes = normal_nodes(3)
    >>> bool(np.allclose(nodes.T @ nodes / len(nodes), np.eye(3)))
    True
    """
    from scipy.stats import qmc  # slow to import

    half = qmc.MultivariateNormalQMC(np.zeros(n_features), seed=0).random(n_nodes // 2)
    if 4 * n_features <= n_nodes:
        factor = np.linalg.cholesky(half.T @ half / len(half))
        half = np.linalg.solve(factor, half.T).T
    else:
        half /= np.sqrt((half**2).mean(axis=0))
    return np.concatenate([half, -half])
