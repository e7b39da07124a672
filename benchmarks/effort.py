"""How much a run measures: everything, or just enough to see that the benchmarks work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Repetitions and sizes of a run.

    Parameters
    ----------
    n_repetitions : int
        Repetitions of each figure; all figures of a part are measured once in each.
    share : float
        Share of the rows and calls of a full run.
    checked : bool
        Whether targets count: small sizes cannot reach them.
    """

    n_repetitions: int = 7
    share: float = 1.0
    checked: bool = True

    def of(self, n: int, least: int = 1) -> int:
        """Return this effort's share of n, not below the least."""
        return max(min(n, least), round(n * self.share))


FULL = Effort()
QUICK = Effort(n_repetitions=2, share=0.002, checked=False)
