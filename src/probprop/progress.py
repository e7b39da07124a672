"""A progress bar for the terminal, as a callback of ``fit``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from probprop.posterior import Epoch

_WIDTH = 24
_SECONDS_BETWEEN = 0.1


def progress_bar(n_epochs: int, stream: TextIO | None = None) -> Callable[[Epoch], None]:
    """Return a callback that draws epoch, mean log Z, noise and the time left.

    On a terminal one line is redrawn; elsewhere a line is printed at every tenth.

    Parameters
    ----------
    n_epochs : int
        Epochs to come.
    stream : file-like, default sys.stderr
    """
    out = sys.stderr if stream is None else stream
    start = time.monotonic()
    drawn = start - _SECONDS_BETWEEN
    tenth = max(1, n_epochs // 10)

    def draw(epoch: Epoch) -> None:
        nonlocal drawn
        done, now = epoch.n_iter, time.monotonic()
        last = done >= n_epochs
        if out.isatty():
            if not last and now - drawn < _SECONDS_BETWEEN:
                return
        elif not last and done % tenth:
            return
        drawn = now
        filled = _WIDTH * done // n_epochs
        left = (now - start) / done * (n_epochs - done)
        line = (
            f"epoch {done:>{len(str(n_epochs))}}/{n_epochs} "
            f"[{'#' * filled}{'.' * (_WIDTH - filled)}] "
            f"mean log Z {epoch.mean_log_Z:.4f}, "
            f"noise std {epoch.noise_variance**0.5:.4g}, {left:.1f} s left"
        )
        if out.isatty():
            out.write(f"\r{line}\x1b[K" + ("\n" if last else ""))
        else:
            out.write(line + "\n")
        out.flush()

    return draw
