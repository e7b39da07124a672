"""What the paper did with each of its data sets: rows, features, hidden units and splits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

USUAL_EPOCHS = 40
"""Number of epochs in Table 1."""

YEAR = "year_prediction_msd"
"""The set whose file is so large that it is fetched on request only."""


@dataclass(frozen=True)
class Protocol:
    """What the paper did with one data set (section 5.1).

    Parameters
    ----------
    name : str
        Its name in `probprop_lab.datasets`.
    n, d : int
        Rows and features.
    units : int
        In each hidden layer.
    n_splits : int
    """

    name: str
    n: int
    d: int
    units: int
    n_splits: int


@cache
def _protocols() -> dict[str, Protocol]:
    source = resources.files("probprop_lab.experiments.harness").joinpath("protocol.json")
    found = json.loads(source.read_text(encoding="utf-8"))["datasets"]
    return {
        name: Protocol(name, known["n"], known["d"], known["units"], known["n_splits"])
        for name, known in found.items()
    }


def protocol(dataset: str) -> Protocol:
    """Return how the paper treated a data set; KeyError for one it does not have.

    Examples
    --------
    >>> protocol("yacht")
    Protocol(name='yacht', n=308, d=6, units=50, n_splits=20)
    """
    return _protocols()[dataset]


def dataset_names() -> list[str]:
    """Return the paper's ten data sets in its order."""
    return list(_protocols())


def without_year() -> list[str]:
    """Return the nine sets that most experiments run on: all but the one of 200 MB."""
    return [name for name in dataset_names() if name != YEAR]
