"""Fixtures of the tests of model files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from model_files import fitted
from probprop.regressor import PBPRegressor


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
