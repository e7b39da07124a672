"""Run the benchmarks, print their tables, write ``benchmarks/results.json``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks import cold_start, memory, prediction, threads, updates
from benchmarks.agreement import WrongAnswerError
from benchmarks.machine import machine
from benchmarks.outcome import Outcome, report

_RESULTS = Path(__file__).with_name("results.json")
_PARTS: dict[str, Callable[[int], Outcome]] = {
    "updates": updates.run,
    "prediction": prediction.run,
    "cold_start": cold_start.run,
    "memory": memory.run,
    "threads": threads.run,
}


def main() -> int:
    """Return 1 when a target was missed or an answer was wrong, else 0."""
    arguments = _parse()
    info = machine()
    results: dict[str, Any] = {"machine": info, "n_repetitions": arguments.repetitions}
    print(
        f"{info['cpu']}, instruction set {info['cpu_level']}; Python {info['python']}, "
        f"NumPy {info['numpy']}; {info['date']}\n"
    )
    failures = []
    # BLAS on one thread: the engines use one, and dgemm should measure one core.
    with threadpool_limits(1):
        for name in arguments.only or _PARTS:
            try:
                outcome = _PARTS[name](arguments.repetitions)
            except WrongAnswerError as error:
                failures.append(f"wrong answer: {error}")
                continue
            print(report(outcome), flush=True)
            failures += outcome.missed
            results[name] = outcome.measured
    results["failures"] = failures
    _RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(["Failed:", *failures] if failures else ["All targets met."]))
    return 1 if failures else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=_PARTS,
        metavar="NAME",
        help=f"run one part (repeatable): {', '.join(_PARTS)}",
    )
    parser.add_argument(
        "--quick",
        dest="repetitions",
        action="store_const",
        const=3,
        default=7,
        help="3 repetitions instead of 7",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
