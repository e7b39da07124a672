"""A user's dask cluster runs the jobs, also when a worker dies on the way."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path

import joblib
import pytest

from probprop_lab.experiments import Job, run

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

JOBS = [Job("toy", "toy_cubic", i, hidden=(20,), n_epochs=600) for i in range(24)]


# dask's own threads and sockets, which a killed worker leaves to the garbage collector
@pytest.mark.filterwarnings("default")
@pytest.mark.process
def test_a_cluster_of_two_one_of_them_killed(tmp_path: Path) -> None:
    here = run(JOBS, tmp_path / "here.jsonl", n_jobs=1)
    killed: list[int] = []
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=True, host="127.0.0.1", **settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        pids = list(client.run(os.getpid).values())
        assert len(set(pids)) == 2
        assert os.getpid() not in pids

        def kill_one(job: Job) -> None:
            if not killed:
                os.kill(pids[0], signal.SIGKILL)
                killed.append(pids[0])

        with joblib.parallel_config("dask"), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # dask on the size of what it is sent
            there = run(JOBS, tmp_path / "there.jsonl", progress=kill_one)
        worked = client.run(lambda: "probprop_lab.experiments.harness.runner" in sys.modules)
    assert killed
    assert any(worked.values())  # the workers did it, not this process
    drop = ("seconds", "finished")
    assert [{k: v for k, v in row.items() if k not in drop} for row in there] == [
        {k: v for k, v in row.items() if k not in drop} for row in here
    ]
    assert len((tmp_path / "there.jsonl").read_text().splitlines()) == len(JOBS)
