"""Model files to break, and what the tests of model files share."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.random import RandomState
from numpy.testing import assert_array_equal

from probprop import ModelFileError, load
from probprop.estimators.regressor import PBPRegressor
from probprop.io import MODEL, read_file, write_file

X = RandomState(0).standard_normal((60, 3)) * [1.0, 20.0, 0.1] + [0.0, 5.0, -3.0]
Y = 3.0 * X[:, 0] + np.sin(X[:, 1]) + RandomState(1).standard_normal(60)
LAYERED = ["m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat"]

no_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)


def fitted(hidden_layer_sizes: Any = (4,), **parameters: Any) -> PBPRegressor:
    parameters = {"n_epochs": 2, "random_state": 0} | parameters
    return PBPRegressor(hidden_layer_sizes, **parameters).fit(X, Y)


def survives(
    path: Path,
    content: bytes,
    expected: np.ndarray,
    answers: Callable[[Any], np.ndarray] = lambda model: model.predict(X),
) -> bool:
    """Load a mutated file: refused, or the same model all the same."""
    path.write_bytes(content)
    try:
        loaded = load(path)
    except ModelFileError:
        return False
    assert_array_equal(answers(loaded), expected)
    return True


def _fields(a: Any) -> dict[str, Any]:
    return {field.name: getattr(a, field.name) for field in fields(a)}


def assert_same(a: PBPRegressor, b: PBPRegressor) -> None:
    """Every fitted attribute is the same to the last bit, and of the same type."""
    assert vars(a).keys() == vars(b).keys()
    for one, other in (
        (_fields(a.posterior_), _fields(b.posterior_)),
        (_fields(a.standardizer_), _fields(b.standardizer_)),
        (_fields(a.likelihood_), _fields(b.likelihood_)),
        ({k: v for k, v in vars(a).items() if k.endswith("_")}, vars(b)),
    ):
        for name, value in one.items():
            if name in ("posterior_", "standardizer_", "likelihood_"):
                continue
            assert type(value) is type(other[name]), name
            if name in LAYERED:
                for left, right in zip(value, other[name], strict=True):
                    assert left.dtype == right.dtype
                    assert_array_equal(left, right, strict=True)
            elif isinstance(value, np.ndarray):
                assert_array_equal(value, other[name], strict=True)
            else:
                assert value == other[name], name


def files_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def read_model(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON and the arrays of a model file."""
    tree, arrays, _ = read_file(path, MODEL)
    return tree, arrays


def write_model(path: Path, tree: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write any JSON and arrays as if they were a model."""
    write_file(path, MODEL, tree, arrays)


def refused(path: Path, reason: str, kind: str = "is truncated or damaged") -> None:
    """Loading says which file it is, what is wrong with it and what to do."""
    with pytest.raises(ModelFileError) as caught:
        load(path)
    message = str(caught.value)
    start = f"{path} {kind} ("
    assert message.startswith(start), message
    assert reason in message[len(start) :]
    assert "): " in message  # then the advice


def unzip(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rezip(path: Path, members: Any, compression: int = zipfile.ZIP_STORED) -> None:
    """Write members with right checksums: only their content is wrong."""
    pairs = members.items() if isinstance(members, dict) else members
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in pairs:
            archive.writestr(zipfile.ZipInfo(name), content, compression)


@contextmanager
def header_of(path: Path) -> Iterator[dict[str, Any]]:
    """Edit the header of a file."""
    members = unzip(path)
    header = json.loads(members["header.json"])
    yield header
    rezip(path, members | {"header.json": json.dumps(header).encode()})


def with_any_json(good: Path, data: Any, value: Any) -> Any:
    """Load a file with a value at a random place of its header; None where it is refused."""
    members = unzip(good)
    header = json.loads(members["header.json"])
    target: Any = header
    while True:  # not among the descriptions of the arrays
        keys = (
            range(len(target)) if isinstance(target, list) else sorted(target.keys() - {"arrays"})
        )
        key = data.draw(st.sampled_from(list(keys)))
        if not (isinstance(target[key], dict | list) and target[key] and data.draw(st.booleans())):
            break
        target = target[key]
    target[key] = value
    mutated = good.parent / "header"
    rezip(mutated, members | {"header.json": json.dumps(header).encode()})
    try:
        return load(mutated)
    except ModelFileError:
        return None
