"""How much work there is time for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

_SHARE = 0.1  # of the seconds, at least, for the calibration that follows


def work_of_a_row(sizes: Sequence[int]) -> float:
    """Return the time of a row, in units of that of a weight of the first layer.

    A weight of a later layer takes twice that, and a unit 25 times, as measured.

    Parameters
    ----------
    sizes : sequence of int
        Units of the layers, inputs and outputs included.
    """
    first, *later = ((n_in + 1) * n_out for n_in, n_out in pairwise(sizes))
    return first + 2.0 * sum(later) + 25.0 * sum(sizes[1:])


class Timer:
    """How much work there is time for, by the last work that was measured.

    Parameters
    ----------
    seconds : float or None
        None has no bound.
    clock : callable
    after : float, default=0.0
        Work that follows, within these seconds, if there is time for it.
    most_after : float, default=inf
        The most seconds that it may take.
    rate : float, default=0.0
        Seconds per unit of work, as far as it is known.
    done : float, default=0.0
        Work that was done before.
    chunk : int, default=10
        Epochs between two looks at the clock.
    """

    def __init__(
        self,
        seconds: float | None,
        clock: Callable[[], float],
        *,
        after: float = 0.0,
        most_after: float = np.inf,
        rate: float = 0.0,
        done: float = 0.0,
        chunk: int = 10,
    ) -> None:
        self._clock = clock
        self._start = clock()
        self._seconds = seconds
        self._work_after, self._most_after = after, most_after
        self._held = 0.0
        self.done = done
        self.chunk = chunk
        self.rate = rate

    @property
    def _end(self) -> float:
        if self._seconds is None:
            return np.inf
        after = max(_SHARE * self._seconds, self._after)
        return self._start + self._seconds - self._held - after

    @property
    def _after(self) -> float:
        return self.rate * self._work_after if self.has_time_after else 0.0

    @property
    def has_time_after(self) -> bool:
        """Whether there is time for what follows."""
        return self.rate * self._work_after <= self._most_after

    def over(self, work: float) -> float:
        """Return the seconds above those given, or below, after so much work and what follows."""
        if self._seconds is None:
            return -np.inf
        return self._clock() + self.rate * work + self._after - self._start - self._seconds

    def hold_back(self, seconds: float) -> None:
        """Leave so many seconds, in place of those held back before."""
        self._held = seconds

    @contextmanager
    def measuring(self, work: float) -> Iterator[None]:
        """Measure what the work inside takes."""
        before = self._clock()
        yield
        self.rate = (self._clock() - before) / work
        self.done += work

    def affords(self, work: float) -> bool:
        """Return whether there is time for so much work."""
        return self._clock() + self.rate * work <= self._end

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
        most = min(self.chunk, end - reached) if work else 0
        works = ((n, work * n + later * (reached + n)) for n in range(most, 0, -1))
        affordable = next((n for n, needed in works if self.affords(needed)), 0)
        return affordable or min(most, 1 if reached == 0 else 0)

    def share_done(self, work: float) -> float:
        """Return the share of the work that is done, where so much is left, and what follows."""
        return self.done / (self.done + work + self._work_after)
