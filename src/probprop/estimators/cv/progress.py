"""A progress bar of the race."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_WIDTH = 24


class RaceBar:
    """Draw the share done and the time left; on a terminal one line, elsewhere one per tenth.

    Parameters
    ----------
    stream : file-like, default sys.stderr

    Examples
    --------
    >>> import sys
    >>> RaceBar(sys.stdout)(1.0)
    comparing candidates [########################] 100 %, 0.0 s left
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._out = sys.stderr if stream is None else stream
        self._start = time.monotonic()
        self._shown = 0

    def __call__(self, share: float) -> None:
        """Show that this share, above 0 and at most 1, is done."""
        left = (time.monotonic() - self._start) * (1.0 - share) / share
        filled = int(_WIDTH * share)
        line = (
            f"comparing candidates [{'#' * filled}{'.' * (_WIDTH - filled)}] "
            f"{100 * share:.0f} %, {left:.1f} s left"
        )
        if self._out.isatty():
            self._out.write(f"\r{line}\x1b[K")
        elif int(10 * share) > self._shown:
            self._out.write(f"{line}\n")
        self._shown = max(self._shown, int(10 * share))
        self._out.flush()

    def close(self) -> None:
        """End the line."""
        if self._out.isatty():
            self._out.write("\n")
            self._out.flush()


@contextmanager
def progress(
    verbose: int, callback: Callable[[float], object] | None
) -> Iterator[Callable[[float], None]]:
    """Give what tells a bar, if `verbose`, and a callback of the share done; at the end all is.

    After an error the bar stays where it was.
    """
    bar = RaceBar() if verbose else None
    told = [tell for tell in (bar, callback) if tell is not None]

    def report(share: float) -> None:
        for tell in told:
            tell(share)

    yield report
    report(1.0)
    if bar is not None:
        bar.close()
