"""The fixed splits of the literature."""

from __future__ import annotations

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from probprop_lab.datasets.registry import find_source

Indices = NDArray[np.int64]


def splits(name: str) -> list[tuple[Indices, Indices]]:
    """Return the fixed splits of a data set into nine tenths to train and a tenth to test.

    They are those that the literature uses, so that results can be compared split by
    split: 20, but 5 for protein. The file itself is not needed.

    Differs from [PBP15] section 5.1 for year_prediction_msd: the paper drew one split at random
    and did not publish it; this is the official one, in which no artist is on both sides.

    Parameters
    ----------
    name : str
        One of `NAMES`.

    Returns
    -------
    list of (train, test)
        Each an int64 array of row indices.

    Examples
    --------
    >>> train, test = splits("boston_housing")[0]
    >>> len(splits("boston_housing")), train.shape, test.shape
    (20, (455,), (51,))
    """
    source = find_source(name)
    n = source.shape[0]
    if source.n_train is not None:
        rows = np.arange(n, dtype=np.int64)
        return [(rows[: source.n_train], rows[source.n_train :])]
    # One generator for all splits in turn: the k-th depends on those before it.
    random = RandomState(1)
    n_train = round(0.9 * n)
    permutations = [
        random.choice(n, n, replace=False).astype(np.int64) for _ in range(source.n_splits)
    ]
    return [(p[:n_train], p[n_train:]) for p in permutations]
