"""All of the pipeline at the size of Year Prediction MSD; writes its page.

The songs are made, `probprop_lab.datasets.made_year`, since the set itself cannot be shipped.
``docs/results/year.md`` has processor seconds and the peak memory of every step, each in a fresh
process. Steps that are in ``year.json`` already are not run again, unless ``--force`` is given.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.child import run_fresh
from benchmarks.clock import say
from benchmarks.machine import machine
from benchmarks.markdown import table
from benchmarks.year_steps import HIDDEN, N_EPOCHS, NAME, STEPS, TEXT
from probprop_lab.datasets.made_year import N_ROWS, write_text
from probprop_lab.experiments.paper import printed

_FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results"
_MB = 1e6

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.year", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "made-year")
    parser.add_argument("--steps", nargs="*", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--results", type=Path, default=_FOLDER, help="folder of year.json")
    parser.add_argument("--force", action="store_true")
    arguments = parser.parse_args()
    data, path = arguments.data.resolve(), arguments.results / "year.json"
    known: dict[str, list[Figures]] = {}
    if path.exists() and not arguments.force:
        known = json.loads(path.read_text())["steps"]
    if not (data / TEXT).exists():
        say("making the songs")
        data.mkdir(parents=True, exist_ok=True)
        write_text(data / "part", N_ROWS)
        (data / "part").rename(data / TEXT)
    for name in arguments.steps:
        if name not in known:
            say(name)
            known[name] = run_fresh("-m", "benchmarks.year_steps", name, str(data))
            written = {"machine": machine(), "steps": known}
            path.write_text(json.dumps(written, indent=1) + "\n")
    text = page(json.loads(path.read_text()))
    (arguments.results / "year.md").write_text(text)
    print(text)


def page(written: Figures) -> str:
    """Return the table as Markdown, with the paper's seconds for the real set."""
    steps: dict[str, list[Figures]] = written["steps"]
    info = written["machine"]
    rows = [
        [
            step["what"],
            f"{step['seconds']:,.3g}" if step["seconds"] < 100 else f"{step['seconds']:,.0f}",
            f"{step['peak'] / _MB:,.0f}",
            step.get("note", ""),
        ]
        for name in STEPS
        for step in steps.get(name, [])
    ]
    lines = [
        "## The size of Year Prediction MSD, on synthetic data",
        "",
        f"{N_ROWS:,} **synthetic** songs in the publisher's text form; {HIDDEN} hidden units, "
        f"{N_EPOCHS} epochs ({info['cpu']}, {info['date'][:10]}). Seconds are processor time, the "
        "memory is the peak of the whole process, the data it holds included. Errors and "
        "log-likelihoods are for synthetic rows: they say nothing about the real set, only that "
        "the runs agree.",
        "",
        table(["step", "processor s", "peak MB", "of what"], rows, texts=(0, 3)),
        "",
    ]
    if "library" in steps:
        lines += [_beside_the_paper(steps["library"][0]["seconds"]), ""]
    return "\n".join(lines)


def _beside_the_paper(ours: float) -> str:
    cells = {method: printed.table1(NAME, "seconds", method) for method in ("PBP", "BP", "VI")}
    theirs = {method: cell.value for method, cell in cells.items() if cell is not None}
    return (
        f"For the real set the paper prints {theirs['PBP']:,.0f} s for PBP, {theirs['BP']:,.0f} s "
        f"for BP and {theirs['VI']:,.0f} s for VI, on its machine of 2015; the fit above, with the "
        f"same numbers of rows, features, units and epochs, took {ours:,.0f} s, "
        f"{theirs['PBP'] / ours:,.0f} times less than its PBP."
    )


if __name__ == "__main__":
    main()
