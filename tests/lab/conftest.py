"""Fixtures that tests of experiments share: splits of synthetic data, missing packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

from probprop_lab.datasets.registry import SOURCES, Source
from probprop_lab.experiments.harness import benchmark, methods


@pytest.fixture
def every_split_is(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[np.ndarray]], None]:
    """Let every fixed split of the benchmark sets have these X, y, X_test and y_test."""

    def replace(parts: Sequence[np.ndarray]) -> None:
        monkeypatch.setattr(benchmark, "load_split", lambda dataset, split: parts)

    return replace


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Source], None]:
    """Registers a set of data under a name."""
    return partial(monkeypatch.setitem, SOURCES)


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let methods find these packages not installed."""

    def remove(*packages: str) -> None:
        monkeypatch.setattr(
            methods, "find_spec", lambda name: None if name in packages else find_spec(name)
        )

    return remove
