"""A minimal reader of the raw benchmark files, found through PROBPROP_DATA."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import pytest
from python_calamine import CalamineWorkbook

Arrays = tuple[np.ndarray, np.ndarray]

# sha256 of the parsed arrays as little-endian float64 in C order: X, then y.
PARSED = {
    "boston_housing": (
        "58d9abef45a8e00c844d74ff0027c96d21a8a237d7ba7e4c0c30b11dcdafde10",
        "a7a4a2bed7266f5e88acd2854ae97af5206bed564ab217810535d4cd14d76edb",
    ),
    "concrete": (
        "c4f7f8fda5b3d88e68498336fd4c640b7c7215e13e58be2549e1d4251d005f26",
        "6a51bf86903430946bc63cad7bd665ee89132a2bb413172e60b7afe14800f013",
    ),
    "energy": (
        "394f967b71ba5a86a0eec3d218a9bdba1d035895c4d9f2223dfd8d64f93258fe",
        "79a552da5262251cc9509e6c184f84db3cf9a62a1a41e993b0023f2ba9a1fe22",
    ),
    "wine_red": (
        "9f40e7499030fb1aebbaed39a614fdac96d1c997b6abad2502f6386d1734ed9b",
        "857552cf21124c681133662195ef3c2115025105d510d53a2929ca0c4907f097",
    ),
    "yacht": (
        "cfee469bd75844078732e2197f89767cf7c3feb11848e40b7085ea648898da72",
        "830b8fefb460a74aeeb6d46aa8869501ddcd9d97cd12d64b05461b95fc4793c2",
    ),
}


def _half_up(values: np.ndarray, decimals: int) -> np.ndarray:
    unit = Decimal(1).scaleb(-decimals)
    rounded = [float(Decimal(repr(float(v))).quantize(unit, ROUND_HALF_UP)) for v in values.flat]
    return np.array(rounded).reshape(values.shape)


def _sheet(path: Path) -> np.ndarray:
    rows = CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()[1:]
    return np.array([[float(v) for v in row] for row in rows if row[0] != ""])


def _whitespace(path: Path) -> Arrays:
    table = np.loadtxt(path)
    return table[:, :-1], table[:, -1]


def _concrete(path: Path) -> Arrays:
    table = _sheet(path)
    return _half_up(table[:, :-1], 1), _half_up(table[:, -1], 2)


def _energy(path: Path) -> Arrays:
    table = _sheet(path)
    return table[:, :8], _half_up(table[:, 8], 2)


def _wine(path: Path) -> Arrays:
    table = np.loadtxt(path, delimiter=";", skiprows=1)
    return table[:, :-1], table[:, -1]


READERS: dict[str, tuple[str, Callable[[Path], Arrays]]] = {
    "boston_housing": ("housing.data", _whitespace),
    "concrete": ("Concrete_Data.xls", _concrete),
    "energy": ("ENB2012_data.xlsx", _energy),
    "wine_red": ("winequality-red.csv", _wine),
    "yacht": ("yacht_hydrodynamics.data", _whitespace),
}


def load(name: str) -> Arrays:
    """Read one set, or skip the test where the files are not at hand."""
    folder = os.environ.get("PROBPROP_DATA")
    if not folder:
        pytest.skip("set PROBPROP_DATA to the folder of the raw benchmark files")
    file, reader = READERS[name]
    path = Path(folder) / file
    if not path.exists():
        pytest.skip(f"{path} is not there")
    X, y = (np.ascontiguousarray(a, "<f8") for a in reader(path))
    assert tuple(hashlib.sha256(a.tobytes()).hexdigest() for a in (X, y)) == PARSED[name]
    return X, y


def splits(n: int, n_splits: int = 20) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the fixed 90/10 splits of the literature as (train, test) indices."""
    random = np.random.RandomState(1)
    n_train = round(0.9 * n)
    permutations = [random.choice(range(n), n, replace=False) for _ in range(n_splits)]
    return [(p[:n_train], p[n_train:]) for p in permutations]
