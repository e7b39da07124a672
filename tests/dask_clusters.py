"""A cluster of processes, and tables for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from distributed import Client, LocalCluster


@contextmanager
def processes(n_workers: int) -> Iterator[Client]:
    """Yield a client of a local cluster of processes with a thread each."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def table(n: int = 6000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.RandomState(seed)
    x = rng.standard_normal((n, 3))
    return pd.DataFrame(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "c": x[:, 2],
            "y": 50.0 + np.sin(2.0 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.2 * rng.standard_normal(n),
        }
    )


def in_files(frame: pd.DataFrame, folder: Path, n_files: int = 4) -> str:
    """Write the rows to `n_files` Parquet files and return their pattern."""
    folder.mkdir(exist_ok=True)
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[rows].to_parquet(folder / f"part-{i}.parquet", index=False)
    return str(folder / "*.parquet")
