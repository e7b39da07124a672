"""One progress bar for the terminal: of epochs, and of a search."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from probprop.inference.posterior import Epoch

_WIDTH = 24
_SECONDS_BETWEEN = 0.1


class Bar:
    """Draw what is done and the time left; on a terminal one line, elsewhere one per tenth."""

    def __init__(self) -> None:
        self._out = sys.stderr
        self._start, self._drawn, self._shown = time.monotonic(), -_SECONDS_BETWEEN, 0

    def draw(self, share: float, before: str, after: str = "") -> None:
        """Show this share, with a text on either side of the bar."""
        now, end = time.monotonic(), "\n" if share >= 1.0 else ""
        if share == 0.0:  # the work before the first count has no rate
            self._start = now
        else:
            after += f", {(now - self._start) * (1.0 - share) / share:.1f} s left"
        filled = int(_WIDTH * share)
        line = f"{before} [{'#' * filled}{'.' * (_WIDTH - filled)}] {after.removeprefix(', ')}"
        if self._out.isatty():
            if end or now - self._drawn >= _SECONDS_BETWEEN:
                self._out.write(f"\r{line}\x1b[K{end}")
                self._drawn = now
        elif int(10.0 * share) > self._shown:
            self._out.write(f"{line}\n")
            self._shown = int(10.0 * share)
        self._out.flush()


def progress_bar(n_epochs: int, *, show_noise: bool = True) -> Callable[[Epoch], None]:
    """Return a callback that draws epoch, mean log Z, noise and the time left."""
    bar = Bar()

    def draw(epoch: Epoch) -> None:
        stds = epoch.noise_std
        noise = ", ".join(f"{std:.4g}" for std in stds[:3]) + (", ..." if len(stds) > 3 else "")
        after = f"mean log Z {epoch.mean_log_Z:.4f}" + f", noise std {noise}" * show_noise
        done = f"epoch {epoch.n_iter:>{len(str(n_epochs))}}/{n_epochs}"
        bar.draw(epoch.n_iter / n_epochs, done, after)

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


@contextmanager
def progress(
    verbose: int, callback: Callable[[Share], object] | None
) -> Iterator[Callable[[Share], None]]:
    """Yield a function that updates a bar, if `verbose`, and a callback of the share done.

    The share never decreases: with a smaller one only the stage is shown. After an error the bar
    stays.
    """
    bar, last = Bar(), Share(0.0, "")

    def report(share: Share) -> None:
        nonlocal last
        last = Share(max(last, share), share.stage)
        if verbose:
            bar.draw(last, last.stage, f"{100 * last:.0f} %")
        if callback is not None:
            callback(last)

    yield report
    if last < 1.0:
        report(Share(1.0, last.stage))
