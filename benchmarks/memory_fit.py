"""A fit on many rows, alone in its process; prints its memory in bytes as JSON."""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from pathlib import Path

import numpy as np

from probprop import PBPRegressor, PBPRegressorCV

N_ROWS, N_FEATURES, N_HIDDEN = 500_000, 90, 100
N_ROWS_CV, N_FEATURES_CV = 1_000_000, 20
NOISE_STD = 0.1

_STATUS = Path("/proc/self/status")


def resident() -> int:
    return _status("VmRSS") if _STATUS.exists() else peak()


def peak() -> int:
    if _STATUS.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(field: str) -> int:
    """Read an entry such as ``VmRSS:  1234 kB`` of /proc/self/status, in bytes."""
    lines = _STATUS.read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def reset_peak() -> None:
    # If it cannot be reset, nothing is lost: the data below are made without copies.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    n_rows, is_cv = int(sys.argv[1]), sys.argv[2:] == ["cv"]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES_CV if is_cv else N_FEATURES))
    y = rng.standard_normal(n_rows)
    y *= NOISE_STD
    y += X[:, 0]
    reset_peak()
    before = resident()
    model: PBPRegressor | PBPRegressorCV
    if is_cv:
        model = PBPRegressorCV(random_state=0).fit(X, y)
        std = float(model.predict(X[:1_000], return_std=True)[1].mean())
    else:
        model = PBPRegressor(N_HIDDEN, n_epochs=1, random_state=0).fit(X, y)
        std = float(np.sqrt(model.noise_variance_))
    figures = {"resident": before, "peak": peak(), "data": X.nbytes, "std": std}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
