"""The page of ``make bench``: ``python -m benchmarks.guide.speed`` writes it, and measures nothing.

``docs/results/speed.md`` has the figures of ``benchmarks/results.json``, which `make bench` wrote,
and ``speed.json`` what they were taken from.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.__main__ import RESULTS
from benchmarks.cases import DTYPES, SHAPES
from benchmarks.clock import median
from benchmarks.guide.pages import FOLDER, Figures, write_pages
from benchmarks.markdown import table
from benchmarks.memory_fit import N_FEATURES, N_ROWS
from benchmarks.outcome import rate

_NETWORK = "(13, 50)"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guide.speed", description=__doc__)
    parser.add_argument("--measured", type=Path, default=RESULTS, help="what `make bench` wrote")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    arguments = parser.parse_args(argv)
    if not arguments.measured.exists():
        parser.error(f"{arguments.measured} is not there: run `make bench` first")
    figures = taken(json.loads(arguments.measured.read_text()))
    (arguments.results / "speed.json").write_text(json.dumps(figures, indent=1) + "\n")
    write_pages(arguments.results, {"speed": page(figures)})


def taken(measured: Figures) -> Figures:
    """Return what the page says: medians, and the machine that made them."""
    updates = measured["updates"]
    return {
        "machine": measured["machine"],
        "n_repetitions": measured["n_repetitions"],
        "dgemm_gflops": updates["dgemm_gflops"],
        "updates": {
            name: {key: case[key] for key in ("updates_per_second", "ratio_to_reference")}
            for name, case in updates["cases"].items()
        },
        "predict_rows_per_second": median(
            measured["predict_calls"]["predict"][f"{_NETWORK} float64"]
        ),
        "sampled_rows_per_second": median(measured["sampled"]["f"][_NETWORK]),
        "memory_above_mb": next(iter(measured["memory"].values()))["above_mb"],  # of one network
    }


def page(figures: Figures) -> str:
    """Return the table of updates, and what else is worth knowing."""
    info = figures["machine"]
    rows = []
    for shape in SHAPES:
        double, single = (figures["updates"][f"({shape.name}) {dtype}"] for dtype in DTYPES)
        rates = [rate(case["updates_per_second"]) for case in (double, single)]
        rows.append([shape.name, *rates, f"{double['ratio_to_reference']:.0f}"])
    header = ["features, hidden units", *(f"updates/s {dtype}" for dtype in DTYPES)]
    return "\n".join(
        [
            f"One core ({info['cpu']}, instruction set {info['cpu_level']}, {info['date'][:10]}; "
            f"dgemm {figures['dgemm_gflops']:.1f} GFLOP/s in the same run), medians of "
            f"{figures['n_repetitions']} interleaved repetitions in processor time, each case "
            "checked against the NumPy reference:",
            "",
            table([*header, "times the NumPy reference (float64)"], rows),
            "",
            f"`predict()` of a network of {_NETWORK}, checks and standardization included, gives "
            f"{rate(figures['predict_rows_per_second'])} rows/s, and a network drawn from its "
            f"posterior (`sample_functions`) {rate(figures['sampled_rows_per_second'])}. A fit of "
            f"{N_ROWS:,} × {N_FEATURES} makes no copy of the data, and takes "
            f"{figures['memory_above_mb']:.0f} MB in addition.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
