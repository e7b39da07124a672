"""Run the benchmarks, print their tables, write ``benchmarks/results.json``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks import (
    cold_start,
    cv_fits,
    cv_predict,
    memory,
    memory_map,
    one_row,
    predict_calls,
    prediction,
    quantiles,
    rows,
    sampled,
    small_fits,
    sparse,
    threads,
    updates,
)
from benchmarks.agreement import WrongAnswerError
from benchmarks.effort import FULL, QUICK, Effort
from benchmarks.machine import machine
from benchmarks.outcome import Figure, Outcome, report
from benchmarks.previous import keep, read_previous

RESULTS = Path(__file__).with_name("results.json")
PARTS: dict[str, Callable[[Effort], Outcome]] = {
    "updates": updates.run,
    "rows": rows.run,
    "sparse": sparse.run,
    "small_fits": small_fits.run,
    "one_row": one_row.run,
    "prediction": prediction.run,
    "predict_calls": predict_calls.run,
    "cv_fits": cv_fits.run,
    "cv_predict": cv_predict.run,
    "sampled": sampled.run,
    "quantiles": quantiles.run,
    "cold_start": cold_start.run,
    "memory": memory.run,
    "memory_map": memory_map.run,
    "threads": threads.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 when a target was missed or an answer was wrong, else 0."""
    asked = _parse(arguments)
    effort = QUICK if asked.quick else FULL
    info, previous = machine(), read_previous()
    results: dict[str, Any] = {"machine": info, "n_repetitions": effort.n_repetitions}
    print(
        f"{info['cpu']}, instruction set {info['cpu_level']}; Python {info['python']}, "
        f"NumPy {info['numpy']}; {info['date']}\n"
    )
    failures: list[str] = []
    figures: list[Figure] = []
    # BLAS on one thread: the engines use one, and dgemm should measure one core.
    with threadpool_limits(1):
        for name in asked.names or PARTS:
            try:
                outcome = PARTS[name](effort)
            except WrongAnswerError as error:
                failures.append(f"wrong answer: {error}")
                continue
            print(report(outcome, previous), flush=True)
            failures += outcome.missed if effort.checked else []
            figures += [figure for figure in outcome.figures if figure is not None]
            results[name] = outcome.measured
    results["failures"] = failures
    if not asked.quick:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if asked.keep is not None:
        keep(asked.keep, info, figures)
    met = "All targets met." if effort.checked else "Right answers; a quick run checks no target."
    print("\n".join(["Failed:", *failures] if failures else [met]))
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"parts to run: {', '.join(PARTS)}  [all]"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to see that all works; checks no target"
    )
    parser.add_argument(
        "--keep",
        metavar="TEXT",
        help="keep this run's figures as the previous release, TEXT saying what it is",
    )
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.names if name not in PARTS]:
        parser.error(f"{unknown[0]!r} is not a part: choose among {', '.join(PARTS)}")
    if asked.quick and asked.keep is not None:
        parser.error("figures of --quick are not kept")
    return asked


if __name__ == "__main__":
    sys.exit(main())
