"""From thousands to millions of rows; writes ``docs/results/scale.md``.

Each fit runs in its own process, in turns; the figures are medians over the turns, in processor
time.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from benchmarks.child import run_fresh
from benchmarks.clock import median, say
from benchmarks.machine import machine
from benchmarks.markdown import table
from benchmarks.outcome import rate
from benchmarks.scale_fit import GROWTH, NOISE_STD, SETS

_FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results"
_MB = 1e6

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="fits of each case")
    n_turns = parser.parse_args().turns
    turns: dict[str, list[Figures]] = {}
    for turn in range(n_turns):
        for case in [*SETS, *(f"made-{n}" for n in GROWTH)]:
            say(f"turn {turn + 1} of {n_turns}: {case}")
            found = run_fresh("-m", "benchmarks.scale_fit", case)
            if found is not None:  # None: the data are not on this machine
                turns.setdefault(case, []).append(found)
    figures = {case: _middle(found) for case, found in turns.items()}
    written = {"machine": machine(), "n_turns": n_turns, "cases": figures}
    (_FOLDER / "scale.json").write_text(json.dumps(written, indent=1) + "\n")
    page = _page(figures, written["machine"], n_turns)
    (_FOLDER / "scale.md").write_text(page)
    print(page)


def _middle(turns: list[Figures]) -> Figures:
    """Return the median of what varies; the rest is the same in every turn."""
    varying = {k: median([t[k] for t in turns]) for k in ("seconds_per_epoch", "peak_above")}
    return {**turns[0], **varying}


def _page(figures: dict[str, Figures], info: dict[str, str], n_turns: int) -> str:
    sets = [f for case, f in figures.items() if case in SETS]
    growth = [f for case, f in figures.items() if case not in SETS]
    columns = [
        "data",
        "rows",
        "features",
        "hidden",
        "processor s per epoch",
        "updates/s",
        "peak MB",
    ]
    lines = [
        "## From thousands to millions of rows",
        "",
        f"Processor time of one epoch, shuffling and refinement included; medians of {n_turns} "
        f"fits, each in a fresh process ({info['cpu']}, {info['date'][:10]}). Memory is the peak "
        "above what the process had before the fit, the features and pages to use again; nothing "
        "is copied.",
        "",
        table(
            [*columns, "features MB", "noise std learned", "std of y"],
            [[*_cost(f), f"{f['noise_std']:.3g}", f"{f['y_std']:.3g}"] for f in sets],
        ),
        "",
        "The same network on more and more generated rows, whose noise has standard deviation "
        f"{NOISE_STD:g}:",
        "",
        table(
            [*columns, "features MB", "noise std learned", "µs per row"],
            [[*_cost(f), f"{f['noise_std']:.3g}", f"{_microseconds(f):.3f}"] for f in growth],
        ),
        "",
        _slope(growth),
        "",
    ]
    return "\n".join(lines)


def _cost(f: Figures) -> list[str]:
    return [
        f["title"],
        f"{f['n']:,}",
        str(f["d"]),
        str(f["hidden"]),
        f"{f['seconds_per_epoch']:.3g}",
        rate(f["n"] / f["seconds_per_epoch"]),
        f"{f['peak_above'] / _MB:,.1f}",
        f"{f['data'] / _MB:,.1f}",
    ]


def _microseconds(f: Figures) -> float:
    return float(1e6 * f["seconds_per_epoch"] / f["n"])


def _slope(growth: list[Figures]) -> str:
    """Say how the time grows: the exponent of n between the ends; 1 is linear."""
    first, last = growth[0], growth[-1]
    exponent = math.log(last["seconds_per_epoch"] / first["seconds_per_epoch"]) / math.log(
        last["n"] / first["n"]
    )
    return (
        f"From {first['n']:,} to {last['n']:,} rows the time of an epoch grows like the number of "
        f"rows to the power {exponent:.2f}."
    )


if __name__ == "__main__":
    main()
