"""A fit on a memory map, alone in its process; prints its memory in bytes as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.memory_fit import peak, reset_peak, resident
from probprop import PBPRegressor

N_ROWS, N_FEATURES, N_HIDDEN = 5_000_000, 20, 50
NOISE_STD = 0.1
_BLOCK = 100_000  # rows written and read at a time


def main() -> None:
    n_rows, path = int(sys.argv[1]), Path(sys.argv[2]) / "X.npy"
    y = _write(path, n_rows)
    X = np.load(path, mmap_mode="r")
    for start in range(0, n_rows, _BLOCK):  # so that the map is resident before the fit
        X[start : start + _BLOCK].sum()
    reset_peak()
    before = resident()
    model = PBPRegressor(N_HIDDEN, n_epochs=1, random_state=0, dtype="float32").fit(X, y)
    figures = {
        "resident": before,
        "peak": peak(),
        "map": X.nbytes,
        "noise_variance": model.noise_variance_,
    }
    print(json.dumps(figures))


def _write(path: Path, n_rows: int) -> np.ndarray:
    """Draw the features into a file, block by block; return the targets."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, N_FEATURES))
    y = np.empty(n_rows)
    for start in range(0, n_rows, _BLOCK):
        block = rng.standard_normal((min(_BLOCK, n_rows - start), N_FEATURES), np.float32)
        X[start : start + _BLOCK] = block
        y[start : start + _BLOCK] = block[:, 0] + NOISE_STD * rng.standard_normal(len(block))
    X.flush()
    return y


if __name__ == "__main__":
    main()
