"""Calls in threads that Ctrl-C can end: the kernel releases the GIL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(
    call: Callable[[Item], Result], items: Iterable[Item], n_threads: int
) -> list[Result]:
    """Return the results of the calls, in the order of the items.

    On an error, and on Ctrl-C, calls that have not begun are dropped; those that run end in
    their own time, so they should look now and then whether somebody has given up.

    Parameters
    ----------
    call : callable
    items : iterable
    n_threads : int
        With 1 the calls are made here.

    Examples
    --------
    >>> map_in_threads(lambda x: x * x, [1, 2, 3], n_threads=2)
    [1, 4, 9]
    """
    if n_threads == 1:
        return [call(item) for item in items]
    # Not joblib's threads: they are daemons, and a process that ends while one of them is in the
    # kernel is aborted.
    pool = ThreadPoolExecutor(n_threads)
    try:
        return list(pool.map(call, items))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
