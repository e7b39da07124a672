"""Fits that are interrupted, and the steps of a search, counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from probprop.estimators.cv import search


class Stop(Exception):
    """What a callback of a test raises."""


class Steps:
    """Counts the calls that train the trials of a search, as the fixture `steps`.

    `before` is called with the arguments of each; what it returns, unless None, is the result of a
    call that is then neither made nor counted.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.n = 0
        self.before: Callable[..., Any] = lambda *_: None
        advance = search.advance

        def counted(*arguments: Any) -> Any:
            instead = self.before(*arguments)
            if instead is not None:
                return instead
            self.n += 1
            return advance(*arguments)

        patch.setattr(search, "advance", counted)
