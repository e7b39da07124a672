"""A progress bar of the race."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_WIDTH = 24


class Share(float):
    """How much of the work is done, 0 to 1, and what is being done.

    Parameters
    ----------
    share : float
    stage : str

    Examples
    --------
    >>> share = Share(0.25, "training")
    >>> share, share.stage
    (0.25, 'training')
    """

    stage: str

    def __new__(cls, share: float, stage: str) -> Share:
        """Return the share with its stage."""
        self = super().__new__(cls, share)
        self.stage = stage
        return self

    def __getnewargs__(self) -> tuple[float, str]:  # type: ignore[override]
        return float(self), self.stage


class RaceBar:
    """Draw the share done and the time left; on a terminal one line, elsewhere one per tenth.

    Parameters
    ----------
    stream : file-like, default sys.stderr

    Examples
    --------
    >>> import sys
    >>> RaceBar(sys.stdout)(Share(1.0, "calibrating"))
    calibrating [########################] 100 %, 0.0 s left
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._out = sys.stderr if stream is None else stream
        self._start = time.monotonic()
        self._shown = 0

    def __call__(self, share: Share) -> None:
        """Show that this share is done."""
        left = ""
        if share == 0.0:  # what is done before any work is counted says nothing about the rest
            self._start = time.monotonic()
        else:
            seconds = (time.monotonic() - self._start) * (1.0 - share) / share
            left = f", {seconds:.1f} s left"
        filled = int(_WIDTH * share)
        line = f"{share.stage} [{'#' * filled}{'.' * (_WIDTH - filled)}] {100 * share:.0f} %{left}"
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
    verbose: int, callback: Callable[[Share], object] | None
) -> Iterator[Callable[[Share], None]]:
    """Give what tells a bar, if `verbose`, and a callback of the share done; at the end all is.

    The share never goes back: of a smaller one the stage is told. After an error the bar stays
    where it was.
    """
    bar = RaceBar() if verbose else None
    told = [tell for tell in (bar, callback) if tell is not None]

    last = Share(0.0, "")

    def report(share: Share) -> None:
        nonlocal last
        last = Share(max(last, share), share.stage)
        for tell in told:
            tell(last)

    yield report
    report(Share(1.0, last.stage))
    if bar is not None:
        bar.close()
