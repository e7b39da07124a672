"""The result of one part of the benchmarks, and how to print it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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
    missed : list of str
        The targets that were missed, each in one line.
    measured : dict
        Medians and raw repetitions, for the results file.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]
    measured: dict[str, Any]
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


def report(outcome: Outcome) -> str:
    """Lay out an outcome as text."""
    parts = [outcome.title, "", table(outcome.header, outcome.rows)]
    if outcome.notes:
        parts += ["", *outcome.notes]
    return "\n".join(parts) + "\n"


def verdict(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def rate(per_second: float) -> str:
    """Write a rate with three digits: ``2.51M``, ``308k``, ``739``."""
    for unit, suffix in ((1e6, "M"), (1e3, "k")):
        if per_second >= unit:
            return f"{per_second / unit:#.3g}".rstrip(".") + suffix
    return f"{per_second:.0f}"
