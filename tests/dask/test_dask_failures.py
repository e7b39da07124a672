"""Workers and coordinators that die: the result is the same, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client

from dask_clusters import in_files, processes, table
from interruptions import Stop
from limits import Limits
from probprop import PBPRegressor
from probprop.data import fit
from probprop.inference import training
from probprop.inference.checkpoint import CheckpointError
from probprop.inference.posterior import Epoch, flat

pytestmark = pytest.mark.process


def network(n_epochs: int = 6) -> PBPRegressor:
    return PBPRegressor((30,), n_epochs=n_epochs, evidence_cap=3, random_state=0)


def kill_one_at_work(client: Client, pids: dict[str, int], killed: list[int]) -> None:
    """Wait until a worker has a task of a round, and kill it."""
    while True:
        for address, tasks in client.processing().items():
            if address in pids and any("update_part" in str(key) for key in tasks):
                os.kill(pids[address], signal.SIGKILL)
                killed.append(pids[address])
                return
        time.sleep(0.001)


@pytest.mark.slow
def test_workers_killed_in_the_middle_of_a_round_change_no_bit(tmp_path: Path) -> None:
    pattern = in_files(table(60_000), tmp_path, 6)
    killed: list[int] = []
    with processes(2) as client:
        undisturbed = fit(network(), pattern, target="y", client=client, n_shards=4)
        threads = []

        def kill_now_and_then(epoch: Epoch) -> None:
            if epoch.n_iter in (2, 4):
                client.wait_for_workers(2)
                pids = client.run(os.getpid)
                thread = threading.Thread(target=kill_one_at_work, args=(client, pids, killed))
                thread.start()
                threads.append(thread)

        disturbed = fit(
            network(), pattern, target="y", client=client, n_shards=4, callback=kill_now_and_then
        )
        for thread in threads:
            thread.join()
    assert len({*killed}) == 2
    assert disturbed.history_ == undisturbed.history_
    for name in ("m_w", "v_w", "v_hat_nat"):
        a, b = (flat(getattr(m.posterior_, name)) for m in (disturbed, undisturbed))
        assert np.array_equal(a, b)


COORDINATOR = """
import sys
from pathlib import Path
from probprop.data import fit
from probprop.inference import checkpoint
from probprop.inference.posterior import flat
from dask_clusters import processes
from test_dask_failures import network
checkpoint._SECONDS_BETWEEN = 0.0
if __name__ == "__main__":
    pattern, path = sys.argv[1:]
    with processes(2) as client:
        model = fit(
            network(),
            pattern,
            target="y",
            client=client,
            n_shards=3,
            checkpoint=path,
            callback=lambda epoch: print(epoch.n_iter, flush=True),
        )
"""


@pytest.mark.slow
def test_a_killed_coordinator_resumes_from_its_checkpoint(tmp_path: Path, limits: Limits) -> None:
    limits.seconds_between_checkpoints(0.0)
    pattern, path = in_files(table(30_000), tmp_path / "data", 3), tmp_path / "c"
    script = tmp_path / "coordinator.py"
    script.write_text(COORDINATOR)
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen(
        [sys.executable, str(script), pattern, str(path)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == 2:
                os.killpg(process.pid, signal.SIGKILL)  # its workers with it
                break
    with processes(2) as client:
        seen: list[int] = []
        resumed = fit(
            network(),
            pattern,
            target="y",
            client=client,
            n_shards=3,
            checkpoint=path,
            callback=lambda epoch: bool(seen.append(epoch.n_iter)),
        )
        whole = fit(network(), pattern, target="y", client=client, n_shards=3)
        assert seen[0] >= 3
        assert resumed.history_ == whole.history_
        assert resumed.log_evidence_ == whole.log_evidence_
        assert np.array_equal(flat(resumed.posterior_.m_w), flat(whole.posterior_.m_w))
        assert np.array_equal(flat(resumed.posterior_.v_w), flat(whole.posterior_.v_w))

        with pytest.raises(CheckpointError, match="n_shards was 3 and is 2"):
            fit(network(), pattern, target="y", client=client, n_shards=2, checkpoint=path)
        moved = in_files(table(30_000, seed=1), tmp_path / "other", 3)
        with pytest.raises(CheckpointError, match="is of other data"):
            fit(network(), moved, target="y", client=client, n_shards=3, checkpoint=path)


def test_a_checkpoint_in_the_middle_of_an_epoch(
    tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process: the rounds of an epoch that was broken off are not made again."""
    limits.seconds_between_checkpoints(0.0)

    pattern, path = in_files(table(8000), tmp_path, 3), tmp_path / "c"
    rounds, made = training.rounds, []

    def broken_off(*args):
        for state, epoch in rounds(*args):
            yield state, epoch
            made.append((state.n_iter, state.n_round))
            if made[-1] == (1, 3):  # in the middle of the second epoch
                raise Stop

    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as one:
        whole = fit(network(3), pattern, target="y", client=one, n_shards=3)
        monkeypatch.setattr(training, "rounds", broken_off)
        with pytest.raises(Stop):
            fit(network(3), pattern, target="y", client=one, n_shards=3, checkpoint=path)
        made.clear()
        resumed = fit(network(3), pattern, target="y", client=one, n_shards=3, checkpoint=path)
    assert made[0] == (1, 4)
    assert resumed.history_ == whole.history_
    assert np.array_equal(flat(resumed.posterior_.m_w), flat(whole.posterior_.m_w))


def test_without_a_client_a_local_cluster_is_started_and_said(tmp_path: Path, capfd) -> None:
    frame = dd.read_parquet(in_files(table(4000), tmp_path, 2))
    model = fit(network(1), frame, target="y", n_shards=2)
    assert model.n_samples_seen_ == 4000
    assert "a local cluster was started for this call" in capfd.readouterr().err
