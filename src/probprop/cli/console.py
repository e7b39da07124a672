"""How the commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import time
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box, progress
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text
from typer import Context

from probprop.table.names import plural

if TYPE_CHECKING:
    from probprop.inference.posterior import Epoch

_FIRST_LINE, _LONGEST = 10.0, 600.0  # seconds until the first line on progress, and between two
_FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
_COUNTED = "UnknownCategoryWarning"  # the commands count the rows, over all chunks
_FOLDED = 20  # letters of a line of a folded column
_JOINERS = "\u200c\u200d"  # in Persian and Indic words, and between emoji


@dataclass(frozen=True)
class Terminal:
    """The two output streams, and whether notes and progress are wanted.

    rich drops colors where a stream is not a terminal and where ``NO_COLOR`` is set.
    """

    out: Console
    err: Console
    quiet: bool = False  # print results and errors only
    verbose: bool = False  # print notes on the algorithm too
    clock: Callable[[], float] = time.monotonic  # seconds

    def say(self, text: str) -> None:
        """Print a line about what was done, on standard error; nothing with --quiet."""
        if not self.quiet:
            _line(self.err, text)

    def note(self, text: str) -> None:
        """Print a line that may call for action; nothing with --quiet."""
        if not self.quiet:
            _line(self.err, f"note: {text}", "yellow")

    def error(self, text: str) -> None:
        """Print the one line of a failure."""
        _line(self.err, f"error: {' '.join(text.split())}", "bold red")

    def result(self, text: str) -> None:
        """Print a line of the result on standard output."""
        _line(self.out, text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], wrapped: int = 0) -> None:
        """Print a table on standard output; columns to the right of `wrapped` are numbers.

        The column at `wrapped`, unless it is the first, is folded on a narrow terminal. If the
        table is wider than the terminal nevertheless, every row is a block of lines.
        """
        header, rows = [visible(name) for name in header], [[*map(visible, row)] for row in rows]
        terminal = self.out.is_terminal
        table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False)
        for i, name in enumerate(header):
            side: Any = "right" if i > wrapped else "left"
            table.add_column(Text(name), justify=side, no_wrap=i != wrapped)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        endless = self.out.options.update(max_width=sys.maxsize)
        wide = Measurement.get(self.out, endless, table).maximum
        if wrapped:
            wide -= max(0, max((cell_len(row[wrapped]) for row in rows), default=0) - _FOLDED)
        if rows and wide > self.out.width:
            self._stack(header, rows)
        else:
            self.out.print(table)

    def _stack(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print each row under its first cell, with a line per column."""
        width = max(map(cell_len, header[1:]), default=0)
        for i, (first, *cells) in enumerate(rows):
            if i:
                self.result("")
            _line(self.out, f"{header[0]}: {first}", "bold")
            for name, cell in zip(header[1:], cells, strict=True):
                self.result(f"  {set_cell_size(name, width)}  {cell}")

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names and values on standard output; long values are wrapped on a terminal."""
        rows = [(visible(name), visible(value)) for name, value in rows]
        if not self.out.is_terminal:
            width = max(len(name) for name, _ in rows)
            for name, value in rows:
                self.result(f"{name:<{width}}  {value}")
            return
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(Text(name), Text(value))
        self.out.print(table)

    @contextmanager
    def epochs(self, text: str, n_epochs: int | None) -> Iterator[Callable[[Epoch], None]]:
        """Yield the callback of `PBPRegressor.fit`; the number of epochs may be unknown."""
        with self._progress(text, n_epochs, "about") as reach:
            yield lambda epoch: reach(epoch.n_iter, f"epoch {epoch.n_iter:,}")

    @contextmanager
    def share(self, text: str) -> Iterator[Callable[[float], None]]:
        """Yield a function of the share done, 0 to 1, whose attribute `stage` is shown too."""
        # A search may drop candidates, and then has less to do.
        with self._progress(text, 1.0, "up to") as reach:
            yield lambda share: reach(float(share), getattr(share, "stage", ""))

    @contextmanager
    def rows(self, text: str, n_rows: int | None) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts rows; their total may be unknown."""
        done = 0

        def advance(n: int) -> None:
            nonlocal done
            done += n
            reach(done, plural(done, "row"))

        with self._progress(text, n_rows, "about") as reach:
            yield advance

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show the elapsed time of work whose duration is unknown."""
        with self._progress(text, None, ""):
            yield

    @contextmanager
    def _progress(
        self, text: str, total: float | None, word: str
    ) -> Iterator[Callable[[float, str], None]]:
        """Show a bar, or a line now and then without a terminal; yield the function to call.

        It takes how much of the total is done and what is being done; `word` qualifies the time
        left. The first line comes after 10 s, and the time between two doubles, up to 10 min.
        """
        bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),  # a path may have brackets
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[stage]}", markup=False),
            console=self.err,
            transient=True,
            disable=self.quiet or not self.err.is_terminal,
        )
        start = self.clock()  # of the work that is counted
        pause, due = _FIRST_LINE, start + _FIRST_LINE

        def reach(done: float, stage: str) -> None:
            nonlocal start, pause, due
            now, share = self.clock(), None if total is None else done / max(done, total)
            if share == 0.0:
                start = now
            if bar.disable and (self.quiet or now < due or share == 1.0):
                return
            facts = [stage] if stage else []
            if share:
                from probprop.cli.cost import duration

                left = (now - start) * (1.0 - share) / share
                facts += [f"{100.0 * share:.0f} % done"] if bar.disable else []
                facts.append(f"{word} {duration(left)} left")
            if bar.disable:
                pause = min(2.0 * pause, _LONGEST)
                due = now + pause
                self.say(f"{text}: {', '.join(facts)}")
            else:
                bar.update(task, completed=done, stage=", ".join(facts))

        with bar:
            task = bar.add_task(visible(text), total=total, stage="")
            yield reach

    @contextmanager
    def warnings_as_notes(self) -> Iterator[None]:
        """Print each Python warning once, as a note instead of with a line of source.

        What other packages deprecate is shown with -v only: it is not for users of the command.
        """
        seen: set[str] = set()

        def show(message: Warning | str, *_: object, **__: object) -> None:
            # By name: to import the class would load NumPy before the arguments are read.
            if type(message).__name__ in ("UpdateWarning", _COUNTED) and not self.verbose:
                return
            text = " ".join(str(message).split())
            if text not in seen:
                seen.add(text)
                self.note(text)

        with warnings.catch_warnings():
            warnings.simplefilter("default", RuntimeWarning)
            warnings.simplefilter("default", UserWarning)
            for category in () if self.verbose else _FOR_DEVELOPERS:
                warnings.simplefilter("ignore", category)  # some are UserWarnings, too
            warnings.showwarning = show
            yield


def make_terminal(*, quiet: bool, verbose: bool = False) -> Terminal:
    """Return the terminal of this process; a pipe has no width, so that lines are not cut."""
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out.width = 1000
    return Terminal(out, err, quiet, verbose)


def terminal_of(context: Context) -> Terminal:
    """Return the terminal that the application put into the context."""
    terminal = context.obj
    if not isinstance(terminal, Terminal):
        raise TypeError(f"the context holds {type(terminal).__name__}, not a Terminal")
    return terminal


def visible(text: str, kept: str = "") -> str:
    r"""Return text whose control characters are escaped, except `kept`: names may be crafted.

    A sequence that begins with ESC could write anywhere on a terminal, and a newline could make a
    line that looks like one of ours.

    >>> visible("area" + chr(27) + "[2J in m²")
    'area\\x1b[2J in m²'
    """

    def is_visible(char: str) -> bool:
        known = char.isprintable() or char in _JOINERS or char in kept
        return known or unicodedata.category(char) == "Zs"

    escaped = (c if is_visible(c) else c.encode("unicode_escape").decode() for c in text)
    return "".join(escaped)


def _line(console: Console, text: str, style: str | None = None) -> None:
    console.print(Text(visible(text)), style=style, soft_wrap=True)
