"""Fits on more rows than memory holds: ``python -m benchmarks.out_of_core`` writes its page.

``docs/results/out-of-core.md`` compares the memory and the time of a fit on files with the
same fit in memory, and how good both are on benchmark sets, whose files need `PROBPROP_DATA` or a
network. Cases that are in ``out-of-core.json`` already are not run again, unless ``--force`` is
given.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.child import run_command, run_fresh
from benchmarks.clock import say
from benchmarks.machine import machine
from benchmarks.out_of_core_fit import LIMIT, N_FILES, N_ROWS, write
from benchmarks.scale_out_fit import N_FEATURES
from probprop import PBPRegressor, fit
from probprop._types import Array
from probprop.data import scratch, shards
from probprop_lab.experiments.harness import benchmark

_FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results"
_CASES = ("memory", "parquet", "csv")
_SETS = ("kin8nm", "power_plant", "protein")
_EVIDENCE_CAPS = (None, 3.0)
_N_SPLITS, _N_SEEDS, _N_EPOCHS = 5, 3, 40
_N_PARTITIONS = 64
COMMAND = "fit *.parquet --target y --fast --n-epochs 3"
_LIMITS = {"command": "", "limited": f" --memory-limit {LIMIT}"}  # of the command
_WORDS = {"memory": "in memory", "parquet": f"from {N_FILES} Parquet files", "csv": "from one CSV"}

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.out_of_core", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "out-of-core")
    parser.add_argument("--force", action="store_true")
    arguments = parser.parse_args()
    path = _FOLDER / "out-of-core.json"
    known: dict[str, Any] = {}
    if path.exists() and not arguments.force:
        known = json.loads(path.read_text())["cases"]
    for case in _CASES:
        if case not in known:
            say(case)
            known[case] = run_fresh("-m", "benchmarks.out_of_core_fit", case, str(arguments.data))
            _keep(path, known)
    for case, limit in _LIMITS.items():
        if case not in known:
            say(case)
            write(arguments.data, text=False)
            known[case] = commanded(arguments.data, limit)
            _keep(path, known)
    for name in _SETS:
        for cap in _EVIDENCE_CAPS:
            case = f"{name}-{cap}"
            if case not in known:
                say(case)
                known[case] = agreement(name, cap)
                _keep(path, known)
    page = _page(known, machine())
    (_FOLDER / "out-of-core.md").write_text(page)
    print(page)


def _keep(path: Path, known: dict[str, Any]) -> None:
    path.write_text(json.dumps({"machine": machine(), "cases": known}, indent=1) + "\n")


def commanded(folder: Path, limit: str) -> Figures:
    """Return the processor seconds and the peak memory of the command on the Parquet files."""
    used, _ = run_command(folder, *f"{COMMAND}{limit} -o model.pbp".split())
    return used


def agreement(name: str, evidence_cap: float | None) -> Figures:
    """Compare fits in memory with those on disk, of rows in their order and sorted by target."""
    scores: dict[str, list[float]] = {"memory": [], "disk": [], "sorted": []}
    for split in range(_N_SPLITS):
        X, y, X_test, y_test = benchmark.load_split(name, split)
        order = np.argsort(y, kind="stable")
        found: dict[str, list[float]] = {kind: [] for kind in scores}
        for seed in range(split, split + 100 * _N_SEEDS, 100):
            network = PBPRegressor(n_epochs=_N_EPOCHS, evidence_cap=evidence_cap, random_state=seed)
            models = {
                "memory": network.fit(X, y),
                "disk": on_disk(network, X, y),
                "sorted": on_disk(network, X[order], y[order]),
            }
            for kind, model in models.items():
                found[kind].append(
                    float(np.mean(model.predict_distribution(X_test).logpdf(y_test)))
                )
        for kind, values in found.items():
            scores[kind].append(float(np.mean(values)))
    return {"n": len(X), "dataset": name, "evidence_cap": evidence_cap, **scores}


def on_disk(network: PBPRegressor, X: Array, y: Array) -> Any:
    """Fit on blocks as if they did not fit into memory, in the partitions of a large table."""
    kept = shards.COPIES, scratch.PARTITION_BYTES
    shards.COPIES = 10**9  # none fits
    scratch.PARTITION_BYTES = X.nbytes // _N_PARTITIONS
    try:
        pairs = list(zip(np.array_split(X, 7), np.array_split(y, 7), strict=True))
        return fit(network, pairs)
    finally:
        shards.COPIES, scratch.PARTITION_BYTES = kept


def _page(known: dict[str, Any], info: dict[str, str]) -> str:
    memory = known["memory"]
    header = ["", "files", "peak memory", "s per epoch", "before the epochs", "noise std learned"]
    lines = [header, [":--"] + ["--:"] * 5]
    for case in _CASES:
        f = known[case]
        lines.append(
            [
                _WORDS[case],
                f"{f['bytes'] / 1e6:,.0f} MB",
                f"{f['peak'] / 1e6:,.0f} MB",
                f"{f['epoch']:.3g}",
                f"{f['before_epochs']:.3g} s",
                f"{f['noise_std']:.4f}",
            ]
        )
    cells = 8 * N_ROWS * (N_FEATURES + 1)
    agreed = [
        [
            "data set",
            "evidence cap",
            "in memory",
            "on disk − in memory",
            "sorted by target, on disk − in memory",
        ],
        [":--", "--:", "--:", "--:", "--:"],
    ]
    for name in _SETS:
        for cap in _EVIDENCE_CAPS:
            f = known[f"{name}-{cap}"]
            agreed.append(
                [
                    name,
                    "none" if cap is None else f"{cap:g}",
                    f"{np.mean(f['memory']):.4f}",
                    _difference(f["disk"], f["memory"]),
                    _difference(f["sorted"], f["memory"]),
                ]
            )
    return "\n".join(
        [
            "## Fits on more rows than memory holds",
            "",
            f"{memory['n']:,} synthetic rows of {N_FEATURES} features, {cells / 1e6:,.0f} MB as "
            f"numbers, 50 hidden units, a memory limit of {LIMIT} ({info['cpu']}, "
            f"{info['date'][:10]}). Peak memory is for the whole process, libraries included; "
            "seconds are of the processor.",
            "",
            *_as_table(lines),
            "",
            _commands(known),
            "",
            f"Log-likelihood of test rows over {_N_SPLITS} splits with {_N_SEEDS} seeds each, "
            f"{_N_EPOCHS} epochs, 50 hidden "
            f"units; the rows on disk are in about {_N_PARTITIONS} partitions. Differences to the "
            "fit in memory ± their standard errors.",
            "",
            *_as_table(agreed),
            "",
        ]
    )


def _commands(known: dict[str, Any]) -> str:
    whole, limited = (
        f"{known[case]['peak'] / 1e6:,.0f} MB and {known[case]['seconds']:.0f} s"
        for case in _LIMITS
    )
    shown = COMMAND.replace("*.parquet", "'*.parquet'")
    return (
        "The first row is memory for the numbers only. The command also stores the table, the "
        f"test set and the encoded rows:  `probprop {shown}` took {whole} for the same "
        f"Parquet files, and with `--memory-limit {LIMIT}` {limited}. Figures in memory "
        "measured before the command fitted only once include a second fit."
    )


def _difference(these: list[float], those: list[float]) -> str:
    mean, error = benchmark.mean_and_error([a - b for a, b in zip(these, those, strict=True)])
    return f"{mean:.4f} ± {error:.4f}"


def _as_table(lines: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in lines]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
