"""The progress bar of a download."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_WIDTH = 24
_SECONDS_BETWEEN = 0.1


class DownloadBar:
    """Draw how much of a file has been downloaded, on a terminal only; pooch calls it.

    Parameters
    ----------
    name : str
        Name of the file.
    stream : file-like, default sys.stderr
    """

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        self.total = 0  # bytes; pooch sets it, and leaves it at 0 if the server does not say
        self._name = name
        self._out = sys.stderr if stream is None else stream
        self._done = 0
        self._drawn = 0.0

    def update(self, n_bytes: int) -> None:
        """Add bytes that were downloaded."""
        self._done += n_bytes
        now = time.monotonic()
        if self._out.isatty() and now - self._drawn >= _SECONDS_BETWEEN:
            self._drawn = now
            megabytes = f"{self._done / 1e6:.1f}"
            if self.total:
                filled = _WIDTH * min(self._done, self.total) // self.total
                bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] "
                megabytes = f"{bar}{megabytes} of {self.total / 1e6:.1f}"
            self._out.write(f"\r{self._name} {megabytes} MB\x1b[K")
            self._out.flush()

    def reset(self) -> None:
        """Start again at 0 bytes."""
        self._done = 0

    def close(self) -> None:
        """Clear the line."""
        if self._out.isatty():
            self._out.write("\r\x1b[K")
            self._out.flush()
