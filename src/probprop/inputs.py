"""The features of rows, with what is not known of them: standard deviations, missing entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probprop.posterior import Array, FloatArray


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows of features, each entry a Gaussian.

    Indexing takes rows, as that of an array does.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Means, in the units of each feature; NaN where an entry is missing.
    std : ndarray of shape (n, n_features), default=None
        Standard deviations, in the same units, 0 or more; None where all are 0.

    Examples
    --------
    >>> import numpy as np
    >>> inputs = Inputs(np.array([[1.0, np.nan], [3.0, 4.0], [5.0, 6.0]]))
    >>> inputs.shape, inputs[1:].X
    ((3, 2), array([[3., 4.],
           [5., 6.]]))
    """

    X: Array
    std: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        n, n_features = self.X.shape
        return n, n_features

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice | Array) -> Inputs:
        return Inputs(self.X[rows], None if self.std is None else self.std[rows])

    def missing(self) -> Array | None:
        """Return where entries are missing, (n, n_features), or None where none is."""
        missing = np.isnan(self.X)
        return missing if missing.any() else None
