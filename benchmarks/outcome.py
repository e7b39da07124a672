"""The result of one part of the benchmarks, and how to print it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.clock import median, spread


@dataclass(frozen=True)
class Figure:
    """What is kept from one release to the next.

    Parameters
    ----------
    name : str
        With its unit; the same in every release.
    repetitions : list of float
        The figure is their median.
    """

    name: str
    repetitions: list[float]

    @property
    def value(self) -> float:
        """The median."""
        return median(self.repetitions)


@dataclass(frozen=True)
class Outcome:
    """A table for people and the measurements behind it.

    Parameters
    ----------
    title : str
    header : list of str
        One heading per column.
    rows : list of list of str
    notes : list of str
        Printed below the table.
    measured : dict
        Medians and raw repetitions, for the results file.
    figures : list of Figure or None
        The rate of each row, if it has one; the table adds its spread and the previous release's.
    missed : list of str
        The targets that were missed, each in one line.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]
    measured: dict[str, Any]
    figures: list[Figure | None] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Align columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, ["-" * w for w in widths], *rows):
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def report(outcome: Outcome, previous: Mapping[str, float]) -> str:
    """Lay out an outcome as text, next to the figures of the previous release."""
    header, rows = outcome.header, outcome.rows
    if any(outcome.figures):
        header = [*header, "spread", "previous", "of it"]
        rows = [
            [*row, *_beside(figure, previous)]
            for row, figure in zip(rows, outcome.figures, strict=True)
        ]
    parts = [outcome.title, "", table(header, rows)]
    if outcome.notes:
        parts += ["", *outcome.notes]
    return "\n".join(parts) + "\n"


def _beside(figure: Figure | None, previous: Mapping[str, float]) -> list[str]:
    """Return the spread, the previous figure, and this one as a multiple of it."""
    if figure is None:
        return ["", "", ""]
    cells = [f"±{spread(figure.repetitions):.0%}", "", ""]
    if before := previous.get(figure.name):
        cells[1:] = [brief(before), f"{figure.value / before:.2f}"]
    return cells


def verdict(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def rate(per_second: float) -> str:
    """Write a rate with three digits: ``2.51M``, ``308k``, ``739``."""
    for unit, suffix in ((1e6, "M"), (1e3, "k")):
        if per_second >= unit:
            return f"{per_second / unit:#.3g}".rstrip(".") + suffix
    return f"{per_second:.0f}"


def brief(value: float) -> str:
    """Write a number with three digits, a large one as a rate."""
    return rate(value) if value >= 1000.0 else f"{value:.3g}"
