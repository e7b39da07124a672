"""Measure in processor time, and the highest rate that the core can reach."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")

_SIZE = 768
_PRODUCTS = 10


def timed(
    work: Callable[[], Result], clock: Callable[[], float] = time.process_time
) -> tuple[float, Result]:
    """Return the seconds that the work took, and its result.

    They are processor time of this process, all its threads together, unless another clock is
    given: what else the machine does must not count.
    """
    start = clock()
    result = work()
    return clock() - start, result


def seconds_per_call(work: Callable[[], object], n_calls: int) -> float:
    """Return the processor time of a call, from many."""

    def calls() -> None:
        for _ in range(n_calls):
            work()

    return timed(calls)[0] / n_calls


def median(values: list[float]) -> float:
    return statistics.median(values)


def spread(values: list[float]) -> float:
    """Return half the distance of the quartiles, as a share of the median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(0.5 * (high - low) / abs(middle)) if middle else 0.0


def dgemm_gflops() -> float:
    """Return the rate of matrix products on one core, in GFLOP/s."""
    a, out = np.full((_SIZE, _SIZE), 0.5), np.empty((_SIZE, _SIZE))
    np.dot(a, a, out=out)

    def products() -> None:
        for _ in range(_PRODUCTS):
            np.dot(a, a, out=out)

    return 2.0 * _SIZE**3 * _PRODUCTS / timed(products)[0] / 1e9


def say(text: str) -> None:
    """Say on standard error what is running."""
    print(text, file=sys.stderr, flush=True)
