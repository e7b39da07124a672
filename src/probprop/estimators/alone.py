"""One thread at a time trains an estimator: of two passes at once, one would be lost."""

from __future__ import annotations

import threading

_guard = threading.Lock()
_trained_by: dict[int, int] = {}  # thread by id of the estimator; an attribute would be copied


class alone:
    """Refuse a second thread while one trains this estimator; the same thread may come again.

    A class, because a generator takes longer to enter than a row of a stream should wait.
    """

    __slots__ = ("_estimator", "_outermost")

    def __init__(self, estimator: object) -> None:
        self._estimator = estimator

    def __enter__(self) -> None:
        key, thread = id(self._estimator), threading.get_ident()
        with _guard:
            self._outermost = key not in _trained_by
            if _trained_by.setdefault(key, thread) != thread:
                raise RuntimeError(
                    f"Another thread is training this {type(self._estimator).__name__}, and the "
                    "pass of one of the two would be lost: call fit and partial_fit from one "
                    "thread at a time."
                )

    def __exit__(self, *error: object) -> None:
        if self._outermost:
            with _guard:
                del _trained_by[id(self._estimator)]
