"""One thread at a time trains an estimator: of two passes at once, one would be lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_guard = threading.Lock()
_trained_by: dict[int, int] = {}  # thread by id of the estimator; an attribute would be copied


@contextmanager
def alone(estimator: object) -> Iterator[None]:
    """Refuse a second thread while one trains this estimator; the same thread may come again."""
    key, thread = id(estimator), threading.get_ident()
    with _guard:
        outermost = key not in _trained_by
        if _trained_by.setdefault(key, thread) != thread:
            raise RuntimeError(
                f"Another thread is training this {type(estimator).__name__}, and the pass of one "
                "of the two would be lost: call fit and partial_fit from one thread at a time."
            )
    try:
        yield
    finally:
        if outermost:
            with _guard:
                del _trained_by[key]
