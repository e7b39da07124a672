"""Measure rates per second, and the highest rate that the core can reach."""

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


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Return the seconds of wall time that the work took, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def median(values: list[float]) -> float:
    return statistics.median(values)


def dgemm_gflops() -> float:
    """Return the rate of matrix products, in GFLOP/s, on as many threads as BLAS may use."""
    a, out = np.full((_SIZE, _SIZE), 0.5), np.empty((_SIZE, _SIZE))
    np.dot(a, a, out=out)

    def products() -> None:
        for _ in range(_PRODUCTS):
            np.dot(a, a, out=out)

    seconds, _ = timed(products)
    return 2.0 * _SIZE**3 * _PRODUCTS / seconds / 1e9


def say(text: str) -> None:
    """Say on standard error what is running."""
    print(text, file=sys.stderr, flush=True)
