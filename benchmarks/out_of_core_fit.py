"""One fit of the out-of-core run, alone in its process; prints its figures as JSON.

The arguments are a case and a folder for the files. ``memory``, ``parquet`` and ``csv`` fit one
network on the same synthetic rows: all of them in memory, or from files within `LIMIT`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.memory_fit import peak
from benchmarks.scale_out_fit import N_FEATURES, Clock, rows
from probprop import PBPRegressor, fit

N_ROWS, N_FILES, LIMIT = 5_000_000, 20, "700MB"
_N_EPOCHS = 3
_KINDS = {"parquet": "*.parquet", "csv": "rows.csv"}


def network() -> PBPRegressor:
    return PBPRegressor(n_epochs=_N_EPOCHS, evidence_cap=3, random_state=0)


def write(folder: Path, *, text: bool, n_rows: int = N_ROWS, n_files: int = N_FILES) -> None:
    """Write the files that are not there yet: Parquet files, and one text of the same rows."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"part-{i:02}.parquet" for i in range(n_files)]
    for i, path in enumerate(paths):
        if not path.exists():
            part = path.with_suffix(".part")
            rows(n_rows // n_files, i).to_parquet(part, index=False)
            part.rename(path)
    if text and not (folder / "rows.csv").exists():
        part = folder / "rows.part"
        for i, path in enumerate(paths):
            frame = pd.read_parquet(path).round(6)
            frame.to_csv(part, index=False, header=i == 0, mode="a" if i else "w")
        part.rename(folder / "rows.csv")


def in_memory(folder: Path) -> tuple[PBPRegressor, Clock]:
    data, n_read = np.empty((N_ROWS, N_FEATURES + 1)), 0
    for path in sorted(folder.glob("*.parquet")):  # without a second copy of all rows
        part = pd.read_parquet(path).to_numpy()
        data[n_read : n_read + len(part)] = part
        n_read += len(part)
    clock = Clock()
    return network().fit(data[:, :-1], data[:, -1], callback=clock), clock


def from_files(pattern: Path) -> tuple[PBPRegressor, Clock]:
    clock = Clock()
    model = fit(network(), pattern, target="y", memory_limit=LIMIT, callback=clock)
    assert isinstance(model, PBPRegressor)
    return model, clock


def main() -> None:
    case, folder = sys.argv[1], Path(sys.argv[2])
    write(folder, text=case == "csv")
    before = time.process_time()
    made = in_memory(folder) if case == "memory" else from_files(folder / _KINDS[case])
    model, clock = made
    after = time.process_time()
    size = sum(p.stat().st_size for p in folder.glob(_KINDS.get(case, "*.parquet")))
    epoch = clock.last_epoch()
    figures: dict[str, Any] = {
        "n": N_ROWS,
        "bytes": size,
        "peak": peak(),
        "epoch": epoch["coordinator"],
        "wall": epoch["wall"],
        "before_epochs": after - before - _N_EPOCHS * epoch["coordinator"],
        "noise_std": float(np.sqrt(model.noise_variance_)),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
