"""Tables on terminals of every width, and lines on progress away from one."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from probprop.cli.console import Terminal
from probprop.estimators.progress import Share
from probprop.inference.posterior import Epoch

HEADER = ["data", "rows", "RMSE", "log-likelihood", "inside 95 %"]
ROWS = [
    ["diabetes", "398 + 44", "53.4159265", "-5.3812345", "95.5 %"],
    ["toy, y = x³", "20 + 1,000", "1,234,567.8", "-12.345678", "100.0 %"],
    ["家の値段", "1 + 1", "0.5", "0.25", "0.0 %"],
]


def printed(width: int, *, is_terminal: bool = True) -> str:
    stream = io.StringIO()
    out = Console(file=stream, width=width, force_terminal=is_terminal, color_system=None)
    Terminal(out, out).table(HEADER, ROWS)
    return stream.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("width", [20, 39, *range(55, 70), 80, 100, 140])
def test_every_cell_is_whole(width: int, is_terminal: bool) -> None:
    text = printed(width, is_terminal=is_terminal)
    assert "…" not in text
    for cell in [*HEADER, *(cell for row in ROWS for cell in row)]:
        assert cell in text
    assert all(len(line.rstrip()) <= width for line in text.splitlines() if width >= 30)


def test_a_narrow_terminal_gets_a_block_per_row() -> None:
    lines = printed(40).splitlines()
    assert lines[:3] == [
        "data: diabetes",
        "  rows            398 + 44",
        "  RMSE            53.4159265",
    ]
    assert lines[5:7] == ["", "data: toy, y = x³"]


def test_a_wide_one_gets_a_line_per_row() -> None:
    assert sum("diabetes" in line and "95.5 %" in line for line in printed(80).splitlines()) == 1


# ---- Away from a terminal: a line now and then


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1e6

    def __call__(self) -> float:
        return self.now


def terminal_with(
    clock: Clock, *, quiet: bool = False, is_terminal: bool = False
) -> tuple[Terminal, io.StringIO]:
    stream = io.StringIO()
    console = Console(file=stream, width=200, force_terminal=is_terminal, color_system=None)
    return Terminal(console, console, quiet, clock=clock), stream


def test_a_long_fit_prints_lines_at_growing_intervals() -> None:
    """1,000 s of even work: lines after 10, 30, 70, 150, 310 and 630 s."""
    clock = Clock()
    terminal, stream = terminal_with(clock)
    with terminal.share("fitting 300 rows") as reach:
        reach(Share(0.0, "encoding"))
        for second in range(1, 1001):
            clock.now += 1.0
            reach(Share(second / 1000, "comparing" if second < 500 else "calibrating"))
    assert stream.getvalue().splitlines() == [
        "fitting 300 rows: comparing, 1 % done, up to 16 min left",
        "fitting 300 rows: comparing, 3 % done, up to 16 min left",
        "fitting 300 rows: comparing, 7 % done, up to 15 min left",
        "fitting 300 rows: comparing, 15 % done, up to 14 min left",
        "fitting 300 rows: comparing, 31 % done, up to 11 min left",
        "fitting 300 rows: calibrating, 63 % done, up to 6 min left",
    ]


def test_hours_have_a_line_every_ten_minutes() -> None:
    clock = Clock()
    terminal, stream = terminal_with(clock)
    with terminal.rows("reading", None) as advance:
        for _ in range(6 * 3600):
            clock.now += 1.0
            advance(100)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "reading: 1,000 rows"
    assert len(lines) == 6 + (6 * 3600 - 630) // 600


def test_what_is_done_before_the_work_is_counted_says_nothing_about_the_rest() -> None:
    clock = Clock()
    terminal, stream = terminal_with(clock)
    with terminal.share("fitting") as reach:
        clock.now += 25.0
        reach(Share(0.0, "encoding"))
        clock.now += 25.0
        reach(Share(0.25, "comparing"))
    assert stream.getvalue().splitlines() == [
        "fitting: encoding",
        "fitting: comparing, 25 % done, up to 75 s left",
    ]


def test_epochs_and_rows_have_lines_too() -> None:
    clock = Clock()
    terminal, stream = terminal_with(clock)
    with terminal.epochs("fitting 50 rows", 4) as each, terminal.rows("reading", 40) as advance:
        for i in range(1, 5):
            clock.now += 11.0
            each(Epoch(i, 50, -1.0, 1.0, 1.0, 0, 0, 0, 0))
            advance(10)
    assert stream.getvalue().splitlines() == [
        "fitting 50 rows: epoch 1, 25 % done, about 33 s left",
        "reading: 10 rows, 25 % done, about 33 s left",
        "fitting 50 rows: epoch 3, 75 % done, about 11 s left",
        "reading: 30 rows, 75 % done, about 11 s left",
    ]


@pytest.mark.parametrize(("quiet", "is_terminal"), [(True, False), (False, True)])
def test_no_lines_with_quiet_or_with_a_bar(quiet: bool, is_terminal: bool) -> None:
    clock = Clock()
    terminal, stream = terminal_with(clock, quiet=quiet, is_terminal=is_terminal)
    with terminal.share("fitting") as reach:
        clock.now += 1000.0
        reach(Share(0.5, "comparing"))
    assert "% done" not in stream.getvalue()


def test_a_short_fit_prints_nothing() -> None:
    clock = Clock()
    terminal, stream = terminal_with(clock)
    with terminal.share("fitting") as reach:
        for i in range(10):
            clock.now += 0.9
            reach(Share(i / 10, "comparing"))
    assert stream.getvalue() == ""
