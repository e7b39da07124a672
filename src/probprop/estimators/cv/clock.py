"""How much work there is time for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

CHUNK = 10
"""Epochs between two looks at the clock."""
_SHARE = 0.9  # of the seconds for the race; the rest is for the noise


class Timer:
    """How much work there is time for, by the last work that was measured.

    Parameters
    ----------
    seconds : float or None
        None has no bound.
    clock : callable
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = np.inf if seconds is None else clock() + _SHARE * seconds
        self._rate = 0.0  # seconds per unit of work
        self._done = 0.0

    @contextmanager
    def measuring(self, work: float) -> Iterator[None]:
        """Measure what the work inside takes."""
        before = self._clock()
        yield
        self._rate = (self._clock() - before) / work
        self._done += work

    def affords(self, work: float) -> bool:
        """Return whether there is time for so much work."""
        return self._clock() + self._rate * work <= self._end

    def n_epochs(self, work: float, reached: int, end: int, later: float = 0.0) -> int:
        """Return how many epochs to make next, 0 if none; the very first has to be made.

        Parameters
        ----------
        work : float
            Of one epoch.
        reached, end : int
            Epochs made, and epochs to make.
        later : float, default=0.0
            Work that has to follow for each epoch made.
        """
        most = min(CHUNK, end - reached) if work else 0
        works = ((n, work * n + later * (reached + n)) for n in range(most, 0, -1))
        affordable = next((n for n, needed in works if self.affords(needed)), 0)
        return affordable or min(most, 1 if reached == 0 else 0)

    def share_done(self, work: float) -> float:
        """Return the share of the work that is done, where so much may be left."""
        return self._done / (self._done + work)
