"""One fit of the scale-out run, alone in its process; prints its figures as JSON.

The argument is ``ROWS-WORKERS``; 0 workers is the fit on one machine without Dask.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.memory_fit import peak
from probprop import PBPRegressor
from probprop.estimators.base import plan_of
from probprop.inference import training
from probprop.inference.posterior import Epoch
from probprop.inference.training import Schedule, usual_rounds

N_FEATURES, N_FILES, N_SHARDS = 20, 16, 8
_N_EPOCHS = 2  # the second is measured: it has no warm-up
_SEED = 0


def network() -> PBPRegressor:
    return PBPRegressor(n_epochs=_N_EPOCHS, evidence_cap=3, random_state=0)


def rows(n: int, seed: int) -> pd.DataFrame:
    """Synthetic rows: a smooth function of three features, and noise."""
    rng = np.random.default_rng((_SEED, seed))
    X = rng.standard_normal((n, N_FEATURES))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    return pd.DataFrame({f"x{i}": X[:, i] for i in range(N_FEATURES)} | {"y": y})


def write(folder: Path, n: int) -> None:
    """Write the files that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(N_FILES):
        path = folder / f"part-{i:02}.parquet"
        if not path.exists():
            part = folder / f"{path.name}.part"
            rows(n // N_FILES, i).to_parquet(part, index=False)
            part.rename(path)


class Clock:
    """Notes, after every epoch, the time of all processes."""

    def __init__(self, client: Any = None) -> None:
        self.client = client
        self.noted: list[tuple[float, float, float]] = []

    def __call__(self, epoch: Epoch) -> None:
        """Note the time by the clock, of this process, and of all workers."""
        of_workers = 0.0
        if self.client is not None:
            of_workers = sum(self.client.run(time.process_time).values())
        self.noted.append((time.perf_counter(), time.process_time(), of_workers))

    def last_epoch(self) -> dict[str, float]:
        """Return what the last epoch took."""
        before, after = self.noted[-2:]
        names = ("wall", "coordinator", "workers")
        return {k: b - a for k, a, b in zip(names, before, after, strict=True)}


def on_one_machine(folder: Path, n: int) -> dict[str, Any]:
    data, n_read = np.empty((n, N_FEATURES + 1)), 0
    for path in sorted(folder.glob("*.parquet")):  # without a second copy of all rows
        part = pd.read_parquet(path).to_numpy()
        data[n_read : n_read + len(part)] = part
        n_read += len(part)
    clock = Clock()
    model = network().fit(data[:, :-1], data[:, -1], callback=clock)
    found = clock.last_epoch()
    noise = float(np.sqrt(model.noise_variance_))
    return {"processor": found["coordinator"], "wall": found["wall"], "noise_std": noise}


def on_workers(folder: Path, n_workers: int) -> dict[str, Any]:
    from distributed import Client, LocalCluster

    from probprop.data import fit

    started = time.perf_counter()
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        clock = Clock(client)
        model = fit(
            network(),
            str(folder / "*.parquet"),
            target="y",
            client=client,
            n_shards=N_SHARDS,
            callback=clock,
        )
        of_workers = max(client.run(peak).values())
    whole = time.perf_counter() - started
    assert isinstance(model, PBPRegressor)
    found = clock.last_epoch()
    n_rounds = usual_rounds(N_SHARDS, n_hidden=1)
    n_tasks = n_rounds * N_SHARDS
    down, up = _bytes(model)
    return {
        "processor": found["workers"],
        "wall": found["wall"],
        "wall_with_loading": whole,
        "wall_per_round": found["wall"] / n_rounds,
        "coordinator_per_task": found["coordinator"] / n_tasks,
        "first_rounds": len(Schedule((model.n_samples_seen_,), n_rounds, 0).first_ends),
        "bytes_down": down,
        "bytes_up": up,
        "peak_coordinator": peak(),
        "peak_worker": of_workers,
        "noise_std": float(np.sqrt(model.noise_variance_)),
    }


def _bytes(model: PBPRegressor) -> tuple[int, int]:
    """Return what a round sends to a shard, and what it gets back."""
    plan, schedule = plan_of(model, model.likelihood_), Schedule((64,) * N_SHARDS, 8, 0)
    work = training.Work(
        part=schedule.parts(2, 0)[0],
        setting=training.Setting(plan, model.standardizer_, schedule, n_epochs=2),
        posterior=model.posterior_,
        size=64,
        refine=False,
    )
    frame = rows(64, 0)
    y = frame.pop("y").to_numpy()
    back = training.update_part(lambda _: training.Rows(frame.to_numpy(), None, y), work)
    return len(pickle.dumps(work, protocol=5)), len(pickle.dumps(back, protocol=5))


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    n, n_workers = map(int, name.split("-"))
    folder = folder / str(n)
    write(folder, n)
    found = on_workers(folder, n_workers) if n_workers else on_one_machine(folder, n)
    print(json.dumps({"n": n, "n_workers": n_workers, **found}))


if __name__ == "__main__":
    main()
