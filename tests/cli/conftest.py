"""Where commands run."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a test file, as the current one."""
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
