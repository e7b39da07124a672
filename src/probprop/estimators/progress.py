"""A progress bar of epochs for the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from probprop.inference.posterior import Epoch

_WIDTH = 24
_SECONDS_BETWEEN = 0.1


def say(text: str) -> None:
    """Print a line on the standard error, where progress bars are; nothing if it is empty."""
    if text:
        print(text, file=sys.stderr, flush=True)


def noise_text(epoch: Epoch) -> str:
    """Return the standard deviation of the noise, for up to three targets.

    Examples
    --------
    >>> noise_text(Epoch(1, 9, -1.0, (4.0, 0.25), 1.0, 0, 0, 0, 0))
    '2, 0.5'
    """
    shown = ", ".join(f"{std:.4g}" for std in epoch.noise_std[:3])
    return shown + (", ..." if len(epoch.noise_std) > 3 else "")


def progress_bar(
    n_epochs: int, stream: TextIO | None = None, *, show_noise: bool = True
) -> Callable[[Epoch], None]:
    """Return a callback that draws epoch, mean log Z, noise and the time left.

    On a terminal one line is redrawn; elsewhere a line is printed at every tenth.

    Parameters
    ----------
    n_epochs : int
        Epochs to come.
    stream : file-like, default sys.stderr
    show_noise : bool, default=True
        Off for a classifier, whose noise is not learned.
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
        noise = f"noise std {noise_text(epoch)}, " if show_noise else ""
        line = (
            f"epoch {done:>{len(str(n_epochs))}}/{n_epochs} "
            f"[{'#' * filled}{'.' * (_WIDTH - filled)}] "
            f"mean log Z {epoch.mean_log_Z:.4f}, {noise}{left:.1f} s left"
        )
        if out.isatty():
            out.write(f"\r{line}\x1b[K" + ("\n" if last else ""))
        else:
            out.write(line + "\n")
        out.flush()

    return draw
