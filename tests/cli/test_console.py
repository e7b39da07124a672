"""Tables on terminals of every width: no cell is cut off."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from probprop.cli.console import Terminal

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
