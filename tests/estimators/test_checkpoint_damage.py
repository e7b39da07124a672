"""Damaged and crafted checkpoints are refused in one sentence, or a training resumes from them.

What is done to a file follows from the number of the mutation alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState

from cv_models import small
from interruptions import Stop
from limits import Limits
from model_files import header_of
from probprop import Candidate, PBPRegressor, fit
from probprop.inference.checkpoint import CheckpointError
from probprop.io import CHECKPOINT, read_file, write_file

RNG = RandomState(0)
X = RNG.standard_normal((60, 3))
Y = X[:, 0] + 0.1 * RNG.standard_normal(60)


def network(path: Path, *, stop: bool = False, n_copies: int = 1, **parameters: Any) -> Any:
    """Fit, and break off after two epochs."""

    def callback(epoch: Any) -> None:
        if stop and epoch.n_iter == 2:
            raise Stop

    model = PBPRegressor(4, n_epochs=4, random_state=0, **parameters)
    rows, targets = np.tile(X, (n_copies, 1)), np.tile(Y, n_copies)
    return model.fit(rows, targets, checkpoint=path, callback=callback)


def on_disk(path: Path, *, stop: bool = False) -> Any:
    """Fit in parts, and break off after two epochs."""

    def callback(epoch: Any) -> None:
        if stop and epoch.n_iter == 2:
            raise Stop

    model = PBPRegressor(4, n_epochs=4, random_state=0)
    return fit(model, [(X, Y)], checkpoint=path, callback=callback)


def race(path: Path, *, stop: bool = False) -> Any:
    return small(candidates=[Candidate(4, (4,))]).fit(X, Y, checkpoint=path)


FITS: dict[str, Callable[..., Any]] = {
    "network": network,
    "noise": lambda path, **own: network(path, noise="input", noise_tail="heavy", **own),
    "rounds": lambda path, **own: network(path, n_shards=2, n_copies=1 + 1000 // len(Y), **own),
    "on disk": on_disk,
    "race": race,
}


@pytest.fixture
def written(tmp_path: Path, limits: Limits, kind: str) -> bytes:
    """Return the checkpoint of an interrupted fit."""
    limits.seconds_between_checkpoints(0.0)
    limits.on_disk(500)
    path = tmp_path / "c"
    with suppress(Stop):
        FITS[kind](path, stop=True)
    return path.read_bytes()


def check(kind: str, content: bytes, path: Path) -> bool:
    """Return whether the content was refused; if not, the training resumes from it."""
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = FITS[kind](path)
        except CheckpointError as error:
            words = str(error)
        else:
            words = ""
    if words:
        assert "remove the file to start afresh, or give another path" in words
        assert path.read_bytes() == content
        return True
    assert all(np.isfinite(part).all() for part in model.predict(X, return_std=True))
    return False


# ---- Bytes


def with_other_bytes(content: bytes, number: int) -> bytes:
    rng = RandomState(number)
    at, n = rng.randint(len(content)), int(rng.choice([1, 4, 100]))
    other = rng.bytes(n)
    return [
        content[:at] + other + content[at + n :],
        content[:at] + other + content[at:],
        content[:at] + content[at + n :],
        content[:at],
    ][rng.randint(4)]


@pytest.mark.parametrize("kind", ["network", "race"])
def test_changed_bytes_are_refused_or_harmless(kind: str, written: bytes, tmp_path: Path) -> None:
    refused = [
        check(kind, with_other_bytes(written, number), tmp_path / "c") for number in range(60)
    ]
    assert sum(refused) > 45


@pytest.mark.parametrize("kind", ["network"])
@pytest.mark.parametrize("trainings", [[], {}, "", None])
def test_a_file_without_a_training_is_refused(
    trainings: Any, kind: str, written: bytes, tmp_path: Path
) -> None:
    (tmp_path / "c").write_bytes(written)
    tree, _, _ = read_file(tmp_path / "c", CHECKPOINT)
    write_file(tmp_path / "c", CHECKPOINT, tree | {"trainings": trainings}, {})
    assert check(kind, (tmp_path / "c").read_bytes(), tmp_path / "c")


# ---- Content: the same file, but an entry or an array is another one


ODD = [None, True, -1, 0, 3, 2**70, 0.5, 1e308, float("nan"), "", "x", "\x1b[31m", [], [[]], {}]
ODD += [[1, 2], {"state": 1}, 10**9]


def crafted(path: Path, content: bytes, number: int) -> tuple[bytes, str]:
    rng = RandomState(number)
    path.write_bytes(content)
    tree, arrays, _ = read_file(path, CHECKPOINT)
    if rng.uniform() < 0.5:
        words = change_entry(tree, rng)
    else:
        name = list(arrays)[rng.randint(len(arrays))]
        changed, words = changes(arrays[name], rng)
        words = f"{name}: {words}"
        if changed is None:
            del arrays[name]
        else:
            arrays[name] = changed
    write_file(path, CHECKPOINT, {}, arrays)
    with header_of(path) as header:  # which may have any number
        header |= tree
    return path.read_bytes(), words


def change_entry(about: Any, rng: RandomState) -> str:
    """Change an entry somewhere in the tree, and say which."""
    node, where = about, []
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = keys[rng.randint(len(keys))]
        where.append(str(key))
        inner = node[key]
        if not isinstance(inner, dict | list) or not inner or rng.uniform() < 0.2:
            break
        node = inner
    if rng.uniform() < 0.2:
        del node[key]
        return f"{'/'.join(where)} removed"
    node[key] = ODD[rng.randint(len(ODD))]
    return f"{'/'.join(where)} is {node[key]!r}"


def changes(array: np.ndarray, rng: RandomState) -> tuple[np.ndarray | None, str]:
    name = str(
        rng.choice(["gone", "text", "int", "longer", "flat", "scalar", "empty", "nan", "value"])
    )
    number = float(rng.choice([0.0, -1.0, 1e-300, 1e35, 1e200, np.inf, -np.inf]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {
            "gone": None,
            "text": np.full(array.shape, "x"),
            "int": np.full(array.shape, 7),
            "longer": np.concatenate([np.atleast_1d(array)] * 2),
            "flat": array.reshape(-1, 1, 1),
            "scalar": np.array(3.0),
            "empty": array[:0] if array.ndim else np.zeros(0),
            "nan": np.full(array.shape, np.nan),
            "value": np.full(array.shape, number).astype(array.dtype),
        }[name]
    return found, f"{name} {number}"


@pytest.mark.parametrize("kind", FITS)
def test_crafted_checkpoints_are_refused_or_harmless(
    kind: str, written: bytes, tmp_path: Path
) -> None:
    n_refused = 0
    numbers = range(30 if kind == "race" else 80)
    for number in numbers:
        content, words = crafted(tmp_path / "c", written, number)
        try:
            n_refused += check(kind, content, tmp_path / "c")
        except Exception as error:
            raise AssertionError(f"{kind} {number}: {words}: {error!r}") from error
    assert n_refused > len(numbers) / 2
