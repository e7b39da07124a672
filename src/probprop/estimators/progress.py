"""Progress bars for the terminal: of epochs, and of a search."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from probprop.inference.posterior import Epoch

_WIDTH = 24
_SECONDS_BETWEEN = 0.1


def say(text: str) -> None:
    """Print a line on the standard error, where progress bars are; nothing if it is empty."""
    if text:
        print(text, file=sys.stderr, flush=True)


def _bar(filled: int) -> str:
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"


def noise_text(epoch: Epoch) -> str:
    """Return the standard deviation of the noise, for up to three targets: '2, 0.5'."""
    shown = ", ".join(f"{std:.4g}" for std in epoch.noise_std[:3])
    return shown + (", ..." if len(epoch.noise_std) > 3 else "")


def progress_bar(
    n_epochs: int, stream: TextIO | None = None, *, show_noise: bool = True
) -> Callable[[Epoch], None]:
    """Return a callback that draws epoch, mean log Z, noise and the time left.

    On a terminal one line is redrawn; elsewhere a line is printed at every tenth.
    """
    out = sys.stderr if stream is None else stream
    start = time.monotonic()
    drawn = start - _SECONDS_BETWEEN
    tenth = max(1, n_epochs // 10)

    def draw(epoch: Epoch) -> None:
        nonlocal drawn
        done, now = epoch.n_iter, time.monotonic()
        last = done >= n_epochs
        too_soon = now - drawn < _SECONDS_BETWEEN if out.isatty() else done % tenth
        if too_soon and not last:
            return
        drawn = now
        left = (now - start) / done * (n_epochs - done)
        noise = f"noise std {noise_text(epoch)}, " if show_noise else ""
        line = (
            f"epoch {done:>{len(str(n_epochs))}}/{n_epochs} {_bar(_WIDTH * done // n_epochs)} "
            f"mean log Z {epoch.mean_log_Z:.4f}, {noise}{left:.1f} s left"
        )
        out.write(f"\r{line}\x1b[K" + "\n" * last if out.isatty() else f"{line}\n")
        out.flush()

    return draw


# ---- The search of a cross-validated estimator


class Share(float):
    """Share of the work that is done, 0 to 1, with the name of the current stage."""

    stage: str

    def __new__(cls, share: float, stage: str) -> Share:
        """Return the share with its stage."""
        self = super().__new__(cls, share)
        self.stage = stage
        return self

    def __getnewargs__(self) -> tuple[float, str]:  # type: ignore[override]
        return float(self), self.stage


class RaceBar:
    """Draw the share done and the time left; on a terminal one line, elsewhere one per tenth."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._out = sys.stderr if stream is None else stream
        self._start = time.monotonic()
        self._shown = 0

    def __call__(self, share: Share) -> None:
        """Show that this share is done."""
        now, left = time.monotonic(), ""
        if share == 0.0:  # what is done before any work is counted says nothing about the rest
            self._start = now
        else:
            left = f", {(now - self._start) * (1.0 - share) / share:.1f} s left"
        line = f"{share.stage} {_bar(int(_WIDTH * share))} {100 * share:.0f} %{left}"
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
