"""Fits on a cluster of this machine's processes; writes its page.

``docs/results/scale-out.md`` has the table, a model of the cost fitted to it, and what that says
of a larger cluster. Cases that are in ``scale-out.json`` already are not run again, unless
``--force`` is given.
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
from benchmarks.scale_out_fit import N_FEATURES, N_FILES, N_SHARDS
from probprop.inference.training import usual_rounds

_FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results"
_ROWS, _WORKERS = (2_000_000, 20_000_000), (0, 1, 2)
_MB = 1e6
_ON_PAPER = (1_000_000_000, 64)  # rows, workers

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_out", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=_ROWS)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "scale-out")
    parser.add_argument("--force", action="store_true")
    arguments = parser.parse_args()
    path = _FOLDER / "scale-out.json"
    known = json.loads(path.read_text())["cases"] if path.exists() and not arguments.force else {}
    for n in arguments.rows:
        for n_workers in _WORKERS:
            case = f"{n}-{n_workers}"
            if case not in known:
                say(case)
                command = ("-m", "benchmarks.scale_out_fit", case, str(arguments.data))
                known[case] = run_fresh(*command)
                written = {"machine": machine(), "cases": known}
                path.write_text(json.dumps(written, indent=1) + "\n")
    page = _page(known, machine())
    (_FOLDER / "scale-out.md").write_text(page)
    print(page)


def _page(known: dict[str, Figures], info: dict[str, str]) -> str:
    cases = sorted(known.values(), key=lambda f: (f["n"], f["n_workers"]))
    clustered = [f for f in cases if f["n_workers"]]
    some = clustered[0]
    return "\n".join(
        [
            "## One fit on a cluster",
            "",
            f"Synthetic rows of {N_FEATURES} features in {N_FILES} Parquet files, 50 hidden units, "
            f"{N_SHARDS} shards, worker processes of one thread and the scheduler on one machine "
            f"({info['cpu']}, {info['date'][:10]}). An epoch is the second, "
            f"{usual_rounds(N_SHARDS, n_hidden=1)} rounds of {N_SHARDS} tasks; the first has "
            f"{some['first_rounds']} rounds. "
            "Seconds of processors are summed over the workers; seconds by the clock are of "
            "a machine that did other work too.",
            "",
            _table(cases),
            "",
            f"A round sends {some['bytes_down'] / 1e3:.0f} kB to every shard and gets "
            f"{some['bytes_up'] / 1e3:.0f} kB back, whatever the number of rows.",
            "",
            *_model(clustered),
            "",
        ]
    )


def _table(cases: list[Figures]) -> str:
    header = [
        "rows",
        "workers",
        "processor s per epoch",
        "µs per row",
        "clock s per round",
        "coordinator ms per task",
        "peak MB, coordinator",
        "peak MB, a worker",
        "noise std learned",
    ]
    lines = [header, ["--:"] * len(header)]
    for f in cases:
        cells = [f"{f['n']:,}", str(f["n_workers"] or "no Dask"), f"{f['processor']:.3g}"]
        cells.append(f"{1e6 * f['processor'] / f['n']:.3f}")
        if f["n_workers"]:
            cells += [
                f"{f['wall_per_round']:.3g}",
                f"{1e3 * f['coordinator_per_task']:.2f}",
                f"{f['peak_coordinator'] / _MB:,.0f}",
                f"{f['peak_worker'] / _MB:,.0f}",
            ]
        else:
            cells += [""] * 4
        lines.append([*cells, f"{f['noise_std']:.4f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _model(cases: list[Figures]) -> list[str]:
    """Fit the cost of an epoch, N c/K + r K o, and say what it is on a larger cluster."""
    largest = max(f["n"] for f in cases)
    per_row = [f["processor"] / f["n"] for f in cases if f["n"] == largest]
    c = sum(per_row) / len(per_row)
    overhead = sum(f["coordinator_per_task"] for f in cases) / len(cases)
    n, k = _ON_PAPER
    shared, told = n * c / k, k * k * overhead
    # One machine against k workers: n c = n c/k + r k o, with r = max(16, k).
    even = {
        workers: usual_rounds(workers, n_hidden=1) * workers * overhead / (c * (1 - 1 / workers))
        for workers in (8, 64)
    }
    pays = " and ".join(f"{e:,.0f} rows with {w} workers" for w, e in even.items())
    return [
        "An epoch over N rows on K workers, with a shard each and r = max(16, K) rounds, costs "
        f"about N c/K + r K o: c = {1e6 * c:.2f} µs per row (the largest sets above) and "
        f"o = {1e3 * overhead:.2f} ms of the coordinator per task (the mean).",
        "",
        f"On paper, for {n:,} rows on {k} workers: {shared:.0f} s for the rows and {told:.0f} s "
        f"for {k * k:,} tasks, {shared + told:.0f} s per epoch, where one thread would take "
        f"{n * c / 60:.0f} minutes. An epoch takes as long as in one thread at {pays}; below, one "
        "thread is faster, and reading the files comes on top.",
    ]


if __name__ == "__main__":
    main()
