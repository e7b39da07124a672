"""Fixtures that several files share: a model file, labeled data, a browser; Hypothesis."""

# ruff: noqa: E402
from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

# The workers of pytest-xdist share the cores: with a thread per core in each of them, the small
# matrices of the tests wait for one another (test_laplace.py: 13 seconds, or 157). Read by
# OpenBLAS and OpenMP when they are loaded, so before the imports that follow.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import pytest
from hypothesis import settings
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_multilabel_classification,
)
from sklearn.model_selection import train_test_split

from browser import Browser
from interruptions import Steps
from labeled import Split, halves
from limits import Limits
from model_files import fitted
from probprop.estimators.regressor import PBPRegressor

settings.register_profile("probprop", deadline=None)  # a busy machine is no failure
settings.load_profile("probprop")

# pytest-xdist gives its workers a width; without one, tables are not cut.
os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="module")
def model() -> PBPRegressor:
    return fitted()


@pytest.fixture(scope="module")
def good(model: PBPRegressor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    model.save(folder / "good")
    return folder / "good"


@pytest.fixture
def path(tmp_path: Path, good: Path) -> Path:
    """A copy of it, alone in its directory."""
    return Path(shutil.copy(good, tmp_path / "model.pbp"))


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    return Limits(monkeypatch)


@pytest.fixture
def few_epochs(limits: Limits) -> None:
    """Let `budget="fast"` make 8 and 16 epochs."""
    limits.epochs_of_fast(8, 16)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


# ---- Labels


@pytest.fixture(scope="module")
def cancer() -> Split:
    return halves(load_breast_cancer)


@pytest.fixture(scope="module")
def wine() -> Split:
    return halves(load_wine)


@pytest.fixture(scope="module")
def digits() -> Split:
    return halves(load_digits)


@pytest.fixture(scope="module")
def labels() -> Split:
    X, y = make_multilabel_classification(400, 8, n_classes=4, random_state=0)
    return train_test_split(X, y, test_size=0.5, random_state=0)


@pytest.fixture(params=["cancer", "wine", "labels"])
def split(request: pytest.FixtureRequest) -> Split:
    """Two classes, three classes, four labels."""
    return request.getfixturevalue(request.param)


# ---- Pages


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless chromium; its tests have the marks `browser.NEEDS_CHROMIUM`."""
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


# ---- Marks

# The laboratory and the measurements of the docs: a change of the product seldom breaks them.
LABORATORY = ("tests/lab/", "tests/guide/", "tests/test_benchmarks", "lab/src/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of these folders, so that `make test` can leave them out."""
    for item in items:
        if item.nodeid.startswith(LABORATORY):
            item.add_marker(pytest.mark.lab)
