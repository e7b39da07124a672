"""Where the figures of the guide are kept: what was measured, and the tables made of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.clock import say
from benchmarks.machine import machine
from probprop_lab import datasets
from probprop_lab.results import appending, read_rows

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "results"

Figures = dict[str, Any]


def at_hand(names: Iterable[str]) -> list[str]:
    """Return the benchmark sets among these whose files are on this machine."""
    return [name for name in names if datasets.where(name) is not None]


def parser_of(
    name: str, description: str | None, sets: Sequence[str] = ()
) -> argparse.ArgumentParser:
    """Return the arguments of a module of figures: `--results`, and `--sets` where it has any."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.guide.{name}", description=description
    )
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    if sets:
        parser.add_argument("--sets", nargs="+", default=sets, help=f"default: {' '.join(sets)}")
    return parser


def write(folder: Path, name: str, figures: Mapping[str, Any], pages: Mapping[str, str]) -> None:
    """Write figures as NAME.json with the machine that made them; write and print the pages."""
    written = {"machine": machine(), **figures}
    (folder / f"{name}.json").write_text(json.dumps(written, indent=1) + "\n")
    write_pages(folder, pages)


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Write and print the pages, by their names."""
    for page, text in pages.items():
        (folder / f"{page}.md").write_text(text)
        print(text)


def _say_case(case: Mapping[str, Any]) -> None:
    say(", ".join(f"{name} {value}" for name, value in case.items()))


def rows_of(
    path: Path,
    cases: Iterable[Mapping[str, Any]],
    measure: Callable[..., Mapping[str, Any]],
    tell: Callable[[Mapping[str, Any]], None] = _say_case,
) -> list[Figures]:
    """Return a row per case: the case, and what was measured in it.

    Each is kept in the file (JSON Lines) at once, and one that is there is not measured again,
    so a long measurement may be stopped and continued. Delete the file to start over.

    Parameters
    ----------
    path : Path
    cases : iterable of mappings
        The keyword arguments of `measure`, values that JSON can hold.
    measure : callable
        Returns a mapping without the names of its arguments.
    tell : callable
        Called with every case before it is measured; by default the case is printed.
    """
    rows = []
    with appending(path) as append:
        kept = read_rows(path)
        for case in cases:
            known = [row for row in kept if case.items() <= row.items()]
            if not known:
                tell(case)
                known = [{**case, **measure(**case)}]
                append(known[0])
            rows.append(known[0])
    return rows
