"""An interrupted fit resumes from its checkpoint, to the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState

from interruptions import Stop
from limits import Limits
from probprop import PBPClassifier, PBPRegressor, fit
from probprop.estimators.base import PBPEstimator
from probprop.inference import checkpoint as module
from probprop.inference.checkpoint import CheckpointError
from probprop.inference.posterior import flat


@pytest.fixture(autouse=True)
def _always_written(limits: Limits) -> None:
    limits.seconds_between_checkpoints(0.0)


def rows(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = RandomState(0)
    X = rng.standard_normal((n, 4))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


def state(model: PBPEstimator) -> list[object]:
    q = model.posterior_
    networks = [q] if q.noise_network is None else [q, q.noise_network]
    parts: list[object] = [model.history_, model.log_evidence_, model.n_samples_seen_]
    for network in networks:
        for value in vars(network).values():
            if isinstance(value, tuple):
                value = flat(value)
            parts.append(value.tobytes() if isinstance(value, np.ndarray) else str(value))
    return parts


def stopping_after(n_epochs: int):
    def stop(epoch) -> None:
        if epoch.n_iter == n_epochs:
            raise Stop

    return stop


MODELS = {
    "one piece": PBPRegressor((6,), n_epochs=6, random_state=0),
    "shards": PBPRegressor((6,), n_epochs=6, evidence_cap=3, random_state=0, n_shards=2),
    "deep, single": PBPRegressor((5, 4), n_epochs=6, random_state=0, dtype="float32"),
    "noise": PBPRegressor((6,), n_epochs=6, random_state=0, noise="input", noise_tail="heavy"),
    "noise in shards": PBPRegressor(
        (30,), n_epochs=6, random_state=0, noise="input", noise_tail="heavy", n_shards=8
    ),
    "classes": PBPClassifier((6,), n_epochs=6, random_state=0),
}


# Rounds of so few rows hold up many variances of the network of the noise.
@pytest.mark.filterwarnings("ignore::probprop.inference.training.UpdateWarning")
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_same_call_resumes_to_the_same_bits(model: PBPEstimator, tmp_path: Path) -> None:
    X, y = rows()
    if isinstance(model, PBPClassifier):
        y = (y > 0).astype(int)

    def new() -> PBPEstimator:
        return type(model)(**model.get_params())

    path = tmp_path / "run.ckpt"
    never_stopped = new().fit(X, y)
    for n_epochs in (2, 5):
        with pytest.raises(Stop):
            new().fit(X, y, checkpoint=path, callback=stopping_after(n_epochs))
        assert path.exists()
    seen: list[int] = []
    resumed = new().fit(
        X, y, checkpoint=path, callback=lambda epoch: bool(seen.append(epoch.n_iter))
    )
    assert seen == [6]
    assert state(resumed) == state(never_stopped)
    again = new().fit(X, y, checkpoint=path)  # nothing is left to do
    assert state(again) == state(never_stopped)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.ckpt"]


def test_short_epochs_are_not_held_up_by_the_disk(tmp_path: Path, limits: Limits) -> None:
    limits.seconds_between_checkpoints(1e9)
    path, written = tmp_path / "c", []

    def look(epoch: Any) -> None:
        if epoch.n_iter > 1:
            written.append(path.read_bytes())

    X, y = rows(100)
    options = {"n_epochs": 20, "random_state": 0}
    model = PBPRegressor((4,), **options).fit(X, y, checkpoint=path, callback=look)
    assert len(written) == 19
    assert len({*written, path.read_bytes()}) == 2  # of the first epoch and of the last
    again = PBPRegressor((4,), n_epochs=20, random_state=0).fit(X, y, checkpoint=tmp_path / "c")
    assert state(again) == state(model)


CHANGED = {
    "n_epochs was 4 and is 5": {"n_epochs": 5},
    "evidence_cap was None and is 3": {"evidence_cap": 3},
    "random_state was 0 and is 1": {"random_state": 1},
    "n_shards was None and is 2": {"n_shards": 2},
}


@pytest.mark.parametrize(("message", "changed"), CHANGED.items(), ids=CHANGED)
def test_other_parameters_are_refused(message: str, changed: dict, tmp_path: Path) -> None:
    X, y = rows(200)
    params = {"hidden_layer_sizes": (4,), "n_epochs": 4, "random_state": 0}
    PBPRegressor(**params).fit(X, y, checkpoint=tmp_path / "c")
    other = PBPRegressor(**params | changed)
    with pytest.raises(CheckpointError, match=f"other parameters .*{message}.*remove the file"):
        other.fit(X, y, checkpoint=tmp_path / "c")
    assert not hasattr(other, "posterior_")


# What the checkpoint was written with, then the same, then another: as Python and NumPy have them.
AS_NUMPY = {
    "n_epochs": (3, np.int64(3), np.int64(4)),
    "evidence_cap": (np.float64(3.0), 3, np.int64(4)),
    "hidden_layer_sizes": (np.array([5]), [np.int64(5)], np.array([6])),
    "random_state": (np.int64(0), 0, np.int64(1)),
    "n_shards": (np.int64(2), 2, np.int64(3)),
    "standardize": (np.bool_(True), True, np.bool_(False)),
    "noise_rate": (np.float32(6.0), 6, np.float32(5.0)),
    "dtype": (np.str_("float32"), "float32", np.str_("float64")),
}
FITS: dict[str, Callable[..., Any]] = {
    "network": lambda path, **own: PBPRegressor(**own).fit(*rows(60), checkpoint=path),
    "blocks": lambda path, **own: fit(PBPRegressor(**own), [rows(60)], checkpoint=path),
    "blocks on disk": lambda path, **own: fit(PBPRegressor(**own), [rows(60)], checkpoint=path),
}


@pytest.mark.parametrize("name", AS_NUMPY)
@pytest.mark.parametrize("kind", FITS)
def test_parameters_of_numpy_types_are_compared_by_value(
    kind: str, name: str, tmp_path: Path, limits: Limits
) -> None:
    if kind == "blocks on disk":
        limits.on_disk(500)
    fit, path = FITS[kind], tmp_path / "c"
    usual: dict[str, Any] = {"hidden_layer_sizes": 4, "n_epochs": 3, "random_state": 0}
    first, same, other = ({**usual, name: value} for value in AS_NUMPY[name])
    X = rows(60)[0]
    expected = fit(path, **first).predict(X)
    np.testing.assert_array_equal(fit(path, **same).predict(X), expected)
    with pytest.raises(CheckpointError, match=rf"other parameters .*{name} was .* and is .*remove"):
        fit(path, **other)


@pytest.mark.parametrize("seed", [None, RandomState(3)])
def test_a_seed_must_be_an_int(tmp_path: Path, seed: Any) -> None:
    X, y = rows(60)
    model = PBPRegressor((4,), n_epochs=4, random_state=seed)
    with pytest.raises(ValueError, match="random_state must be an int"):
        model.fit(X, y, checkpoint=tmp_path / "c")
    assert not hasattr(model, "history_")


def test_other_data_and_other_versions_are_refused(tmp_path: Path, monkeypatch) -> None:
    X, y = rows(200)
    model = PBPRegressor((4,), n_epochs=2, random_state=0).fit(X, y, checkpoint=tmp_path / "c")
    moved = X.copy()
    moved[199, 3] = np.nextafter(moved[199, 3], np.inf)
    for other in ((moved, y), (X, -y), (X[:199], y[:199]), (X, y, 1.0 + np.arange(200))):
        with pytest.raises(CheckpointError, match="is of other data: remove the file"):
            model.fit(*other, checkpoint=tmp_path / "c")
    monkeypatch.setattr(module, "__version__", "99.0")
    with pytest.raises(CheckpointError, match=r"written by probprop .* and this is 99\.0"):
        model.fit(X, y, checkpoint=tmp_path / "c")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello", b"\x93NUMPY\x01\x00"])
def test_other_files_are_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="is not a checkpoint, or is damaged"):
        PBPRegressor((4,), n_epochs=2, random_state=0).fit(*rows(50), checkpoint=path)
    assert path.read_bytes() == content


def test_a_truncated_checkpoint_and_a_model_are_refused(tmp_path: Path) -> None:
    X, y = rows(200)
    path = tmp_path / "c"
    model = PBPRegressor((4,), n_epochs=2, random_state=0).fit(X, y, checkpoint=path)
    whole = path.read_bytes()
    for n in (len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:n])
        with pytest.raises(CheckpointError, match="damaged"):
            model.fit(X, y, checkpoint=path)
    model.save(path)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        model.fit(X, y, checkpoint=path)


SCRIPT = """
import sys
import numpy as np
from probprop import PBPRegressor
rng = np.random.RandomState(0)
X = rng.standard_normal((20_000, 10))
y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(20_000)
model = PBPRegressor((50,), n_epochs=60, random_state=0, n_shards=eval(sys.argv[2]))
model.fit(X, y, checkpoint=sys.argv[1] or None, callback=lambda e: print(e.n_iter, flush=True))
sys.stdout.buffer.write(model.posterior_.m_w[0].tobytes().hex().encode())
"""


@pytest.mark.process
@pytest.mark.parametrize("n_shards", ["None", "2"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_interrupted_fits_resume(how: int, n_shards: str, tmp_path: Path) -> None:
    def command(path: str) -> list[str]:
        return [sys.executable, "-c", SCRIPT, path, n_shards]

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    path = str(tmp_path / "c")
    for _ in range(2):
        with subprocess.Popen(
            command(path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        ) as process:
            assert process.stdout is not None
            begun = int(process.stdout.readline())
            while not os.path.exists(path):
                process.stdout.readline()
            process.stdout.readline()
            process.send_signal(how)
            process.communicate()
        assert process.returncode != 0
    resumed, whole = (
        subprocess.run(command(p), check=True, capture_output=True, env=environment, text=True)
        for p in (path, "")
    )
    assert begun > 1  # the second run resumed
    assert resumed.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]
    assert len(resumed.stdout.splitlines()) < len(whole.stdout.splitlines())
