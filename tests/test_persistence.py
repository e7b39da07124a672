"""Saved models: exact round trips, no half-written files, no trust in what is read."""

from __future__ import annotations

import errno
import json
import os
import pickle
import random
import stat
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_type_hints

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import RandomState
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from probprop import persistence
from probprop.persistence import FORMAT_VERSION, ModelFileError, load, read_model, write_model
from probprop.posterior import Epoch
from probprop.regressor import PBPRegressor

X = RandomState(0).standard_normal((60, 3)) * [1.0, 20.0, 0.1] + [0.0, 5.0, -3.0]
Y = 3.0 * X[:, 0] + np.sin(X[:, 1]) + RandomState(1).standard_normal(60)
LAYERED = ["m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat"]

no_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)


def fitted(hidden_layer_sizes: Any = (4,), **parameters: Any) -> PBPRegressor:
    parameters = {"n_epochs": 2, "random_state": 0} | parameters
    return PBPRegressor(hidden_layer_sizes, **parameters).fit(X, Y)


@pytest.fixture(scope="module")
def model() -> PBPRegressor:
    return fitted()


@pytest.fixture
def path(tmp_path: Path, model: PBPRegressor) -> Path:
    """A good file, alone in its directory."""
    model.save(tmp_path / "model.pbp")
    return tmp_path / "model.pbp"


def assert_same(a: PBPRegressor, b: PBPRegressor) -> None:
    """Every fitted attribute is the same to the last bit, and of the same type."""
    assert vars(a).keys() == vars(b).keys()
    for one, other in (
        (vars(a.posterior_), vars(b.posterior_)),
        (vars(a.standardizer_), vars(b.standardizer_)),
        ({k: v for k, v in vars(a).items() if k.endswith("_")}, vars(b)),
    ):
        for name, value in one.items():
            if name in ("posterior_", "standardizer_"):
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
    """Write members with right checksums: what is wrong is what they hold."""
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


# ---- Round trips


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
def test_loaded_model_predicts_and_goes_on_identically(
    tmp_path: Path, engine: str, dtype: str, hidden: tuple[int, ...]
) -> None:
    model = fitted(hidden, engine=engine, dtype=dtype)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same(model, loaded)
    assert loaded.get_params() == model.get_params()
    for one, other in zip(
        model.predict(X, return_std=True), loaded.predict(X, return_std=True), strict=True
    ):
        assert_array_equal(one, other)
    f, g = (m.sample_functions(random_state=0)[0] for m in (model, loaded))
    assert_array_equal(f(X), g(X))

    assert_same(clone(model).fit(X, Y), clone(loaded).fit(X, Y))
    assert_same(model.partial_fit(X[:20], Y[:20]), loaded.partial_fit(X[:20], Y[:20]))
    assert_same(model.partial_fit(X[20:], Y[20:]), loaded.partial_fit(X[20:], Y[20:]))


def test_without_standardization_and_in_a_stream(tmp_path: Path) -> None:
    model = PBPRegressor((4,), standardize=False, random_state=0)
    for rows in np.array_split(np.arange(60), 3):
        model.partial_fit(X[rows] / [1.0, 20.0, 0.1], Y[rows] / 3.0)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same(model, loaded)
    assert (loaded.n_iter_, loaded.n_samples_seen_) == (3, 60)


def test_history_is_of_epochs_with_whole_counts(path: Path) -> None:
    for epoch in load(path).history_:
        assert type(epoch) is Epoch
        assert {k: type(v) for k, v in epoch._asdict().items()} == get_type_hints(Epoch)


def test_loaded_arrays_are_ordinary(path: Path) -> None:
    loaded = load(path)
    for array in (*loaded.posterior_.m_w, loaded.standardizer_.x_mean):
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert array.dtype.isnative


def test_feature_names(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=pd.Index(["größe", "数", '"\\\n\0\ud800'], dtype=object))
    model = PBPRegressor((4,), n_epochs=2, random_state=0).fit(frame, Y)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same(model, loaded)
    assert loaded.feature_names_in_.dtype == object
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[frame.columns[::-1]])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("hidden_layer_sizes", 5, 5),
        ("hidden_layer_sizes", np.int64(5), 5),
        ("hidden_layer_sizes", (), ()),
        ("hidden_layer_sizes", (3, np.int32(2)), (3, 2)),
        ("hidden_layer_sizes", [3, np.uint8(2)], [3, 2]),
        ("hidden_layer_sizes", np.array([3, 2]), [3, 2]),
        ("hidden_layer_sizes", range(2, 4), [2, 3]),
        ("n_epochs", np.int64(2), 2),
        ("verbose", np.int8(0), 0),
        ("prior_shape", 3, 3),
        ("prior_shape", np.float32(6.1), float(np.float32(6.1))),
        ("noise_rate", 0.1 + 0.2, 0.1 + 0.2),
        ("refine_every", 0.5, 0.5),
        ("refine_every", np.float64(1.0), 1.0),
        ("standardize", np.True_, True),
        ("standardize", False, False),
        ("dtype", np.str_("float32"), "float32"),
        ("random_state", None, None),
        ("random_state", np.uint32(7), 7),
        ("random_state", 2**32 - 1, 2**32 - 1),
        ("random_state", RandomState(3), None),
    ],
)
def test_parameters_come_back_plain(tmp_path: Path, name: str, value: Any, expected: Any) -> None:
    data = (X / [1.0, 20.0, 0.1], Y / 3.0)
    model = PBPRegressor(**({"n_epochs": 1, "random_state": 0} | {name: value})).fit(*data)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    got = loaded.get_params()[name]
    assert got == expected
    assert type(got) is type(expected)
    if isinstance(got, list | tuple):
        assert all(type(item) is int for item in got)
    assert_same(model.partial_fit(*data), loaded.partial_fit(*data))


def test_a_parameter_changed_after_fit_is_saved_as_it_is(tmp_path: Path) -> None:
    model = fitted().set_params(hidden_layer_sizes=(9, 9), dtype="float32")
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").hidden_layer_sizes == (9, 9)
    assert_same(model, load(tmp_path / "m"))


def test_pickle_and_joblib(tmp_path: Path, model: PBPRegressor) -> None:
    joblib.dump(model, tmp_path / "m.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "m.joblib")):
        assert_same(model, copy)
        assert_array_equal(copy.predict(X), model.predict(X))
        assert_same(copy.partial_fit(X, Y), pickle.loads(pickle.dumps(model)).partial_fit(X, Y))


def test_numpy_reads_the_file(path: Path, model: PBPRegressor) -> None:
    with np.load(path, allow_pickle=False) as file:
        header = json.loads(file["header.json"])
        for name, described in header["arrays"].items():
            assert file[name].dtype == described["dtype"]
            assert list(file[name].shape) == described["shape"]
        assert set(file.files) == {"header.json", *header["arrays"]}
        assert_array_equal(file["m_w_0"], model.posterior_.m_w[0])
    assert (header["format"], header["format_version"]) == ("probprop", FORMAT_VERSION)
    assert header["probprop_version"]


def test_the_same_model_gives_the_same_bytes(path: Path) -> None:
    load(path).save(path.parent / "again")
    assert (path.parent / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("zip64_limit", [zipfile.ZIP64_LIMIT, 100])
def test_the_container_knows_nothing_of_estimators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zip64_limit: int
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", zip64_limit)  # as with arrays of many GB
    arrays = {
        "f4": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "strided": np.arange(60.0)[::3],
        "big_endian": np.arange(3, dtype=">i8"),
        "empty": np.zeros((0, 3)),
    }
    write_model(str(tmp_path / "m"), {"class": "Another", "extra": [1, {"a": None}]}, arrays)
    header, read = read_model(str(tmp_path / "m"))
    assert header["extra"] == [1, {"a": None}]
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype.newbyteorder("=")
    refused(tmp_path / "m", "this one has no Another", "was written by a newer probprop")


def test_parameters_that_older_files_lack_get_their_defaults(path: Path) -> None:
    with header_of(path) as header:
        del header["parameters"]["verbose"]
    assert load(path).verbose == 0


# ---- What is not saved


def test_an_unfitted_model_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        PBPRegressor().save(tmp_path / "m")
    assert files_in(tmp_path) == []


def spoil(model: PBPRegressor) -> None:
    model.posterior_.m_w[0][0, 0] = np.nan


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (spoil, "m_w_0 has values"),
        (lambda m: m.set_params(n_epochs="many"), "n_epochs must be an instance of"),
        (lambda m: m.set_params(verbose=object()), "verbose must be an instance of"),
        (lambda m: setattr(m, "log_evidence_", np.inf), "log_evidence_ is inf"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(
    path: Path, change: Callable[[PBPRegressor], Any], reason: str
) -> None:
    before = path.read_bytes()
    model = fitted()
    change(model)
    with pytest.raises(ValueError, match=f"The model cannot be saved: .*{reason}"):
        model.save(path)
    assert path.read_bytes() == before
    assert files_in(path.parent) == [path.name]


def test_a_subclass_is_not_saved(tmp_path: Path) -> None:
    class Special(PBPRegressor):
        pass

    with pytest.raises(ValueError, match=r"cannot be saved: Special is another class; use pickle"):
        Special((4,), n_epochs=2, random_state=0).fit(X, Y).save(tmp_path / "m")


def test_names_that_are_too_long(
    tmp_path: Path, model: PBPRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persistence, "_HEADER_LIMIT", 100)
    with pytest.raises(ValueError, match="feature names are too long"):
        model.save(tmp_path / "m")
    assert files_in(tmp_path) == []


# ---- All or nothing


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("function", ["os.fsync", "os.replace", "zipfile.ZipFile.writestr"])
@pytest.mark.parametrize("replaces", [True, False])
def test_a_failure_leaves_nothing_behind(
    tmp_path: Path,
    model: PBPRegressor,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    function: str,
    replaces: bool,
) -> None:
    target = tmp_path / "m"
    if replaces:
        target.write_bytes(b"old")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(function, fail)
        with pytest.raises(type(error)):
            model.save(target)
    assert files_in(tmp_path) == (["m"] if replaces else [])
    if replaces:
        assert target.read_bytes() == b"old"


@pytest.mark.parametrize("limit", [0, 1, 100, 4096, 5000, 8000])
def test_a_full_disk(path: Path, limit: int) -> None:
    resource = pytest.importorskip("resource")
    before = path.read_bytes()
    assert len(before) > limit
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    model = fitted()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            model.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert files_in(path.parent) == [path.name]


def test_a_directory_that_cannot_be_synced_is_no_failure(
    tmp_path: Path, model: PBPRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, fsync = [], os.fsync

    def only_files(descriptor: int) -> None:
        synced.append(stat.S_IFMT(os.fstat(descriptor).st_mode))
        if synced[-1] == stat.S_IFDIR:
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    model.save(tmp_path / "m")
    assert_same(model, load(tmp_path / "m"))
    assert synced == [stat.S_IFREG, stat.S_IFDIR]


def test_missing_directory(tmp_path: Path, model: PBPRegressor) -> None:
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "none" / "m")
    assert files_in(tmp_path) == []


def test_directory_as_path(tmp_path: Path, model: PBPRegressor) -> None:
    with pytest.raises(IsADirectoryError):
        model.save(tmp_path)
    refused(tmp_path, "not a regular file", "is not a probprop model")
    assert files_in(tmp_path) == []


@no_root
def test_protected_places(tmp_path: Path, model: PBPRegressor) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o444)
    (tmp_path / "folder").mkdir(mode=0o555)
    (tmp_path / "secret").touch(mode=0)
    for place in ("file", "folder/m"):
        with pytest.raises(PermissionError):
            model.save(tmp_path / place)
    with pytest.raises(PermissionError):
        load(tmp_path / "secret")
    assert files_in(tmp_path) == ["file", "folder", "secret"]
    assert files_in(tmp_path / "folder") == []


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_of_a_new_file(
    tmp_path: Path, model: PBPRegressor, umask: int, mode: int
) -> None:
    old = os.umask(umask)
    try:
        model.save(tmp_path / "m")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o600, 0o604, 0o666, 0o755])
def test_permissions_of_a_replaced_file(path: Path, mode: int) -> None:
    path.chmod(mode)
    load(path).save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_written_through(tmp_path: Path, model: PBPRegressor, exists: bool) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    if exists:
        (tmp_path / "there" / "m").write_bytes(b"old")
    link = tmp_path / "here" / "link"
    link.symlink_to(Path("..", "there", "m"))
    model.save(link)
    assert link.is_symlink()
    assert not (tmp_path / "there" / "m").is_symlink()
    assert_same(model, load(link))
    assert files_in(tmp_path / "there") == ["m"]
    assert files_in(tmp_path / "here") == ["link"]


def test_a_loop_of_links(tmp_path: Path, model: PBPRegressor) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for action in (model.save, load):
        with pytest.raises(OSError, match="symbolic links"):
            action(tmp_path / "a")
    assert files_in(tmp_path) == ["a", "b"]


def test_pipes_neither_hang_nor_get_replaced(tmp_path: Path, model: PBPRegressor) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused(pipe, "not a regular file", "is not a probprop model")
    with pytest.raises(OSError, match="pipe") as caught:
        model.save(pipe)
    assert caught.value.errno == errno.ENXIO
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(ValueError, match="not a regular file"):
        model.save(pipe)
    os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(ValueError, match="not a regular file"):
        model.save(os.devnull)


def test_a_name_as_long_as_allowed_and_a_relative_path(
    tmp_path: Path, model: PBPRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("m" * 255)
    assert_same(model, load("m" * 255))


# Imports once, then forks: a child saves again and again until it is killed.
CRASH = """
import os, random, signal, sys, time
import numpy as np
from probprop.persistence import load
path, rng, X = sys.argv[1], random.Random(0), np.zeros((1, 3))
model = load(path)
expected = model.predict(X)
for _ in range(20):
    before = os.stat(path).st_mtime_ns
    child = os.fork()
    while child == 0:
        model.save(path)
    while os.stat(path).st_mtime_ns == before:  # it has begun
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (load(path).predict(X) == expected).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kills_leave_the_old_model_or_the_new_one(path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", CRASH, path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    left = set(files_in(path.parent)) - {path.name}
    assert all(name.startswith(".probprop-") and name.endswith(".tmp") for name in left)


# ---- What is not a model


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100)


@pytest.mark.parametrize(
    "content",
    [PNG, b"a,b\n1,2\n", pickle.dumps([1, 2]), b"P", b"\0" * 1000, b"PK\x05\x06" + bytes(18)],
)
def test_another_kind_of_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    if content == b"P":  # may be the first byte of a model
        refused(tmp_path / "f", "its end is missing")
    else:
        refused(tmp_path / "f", "another kind of file", "is not a probprop model")


def test_another_zip(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", a=np.arange(3))
    refused(tmp_path / "f.npz", "a zip file without header.json", "is not a probprop model")
    np.savez_compressed(tmp_path / "f.npz", a=np.arange(3))
    refused(tmp_path / "f.npz", "a zip file without header.json", "is not a probprop model")
    rezip(tmp_path / "f", {"word/document.xml": b"<a/>", "x": b""}, zipfile.ZIP_DEFLATED)
    refused(tmp_path / "f", "a zip file without header.json", "is not a probprop model")


@pytest.mark.parametrize(
    "header",
    [b"", b"{", b"\xff\xfe{}", b"{} {}", b"[" * 100_000, b'{"a":' * 100_000, b"\x80\x04]."],
)
def test_a_header_that_is_not_json(path: Path, header: bytes) -> None:
    rezip(path, unzip(path) | {"header.json": header})
    refused(path, "header.json is not JSON", "is not a probprop model")


@pytest.mark.parametrize("header", [b"[]", b"1", b"null", b'"probprop"', b"{}", b'{"format": 1}'])
def test_a_header_of_something_else(path: Path, header: bytes) -> None:
    rezip(path, unzip(path) | {"header.json": header})
    refused(path, "header.json does not say", "is not a probprop model")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(str(tmp_path / "none"))


def test_a_newer_version(path: Path) -> None:
    with header_of(path) as header:
        header["class"] = "PBPOracle"
    refused(path, "this one has no PBPOracle", "was written by a newer probprop")
    with header_of(path) as header:
        header.clear()
        header |= {"format": "probprop", "format_version": 2}
    refused(path, "format 2, this one reads up to 1): upgrade", "was written by a newer probprop")


# ---- What is damaged


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    refused(tmp_path / "f", "it is empty")


def test_a_wrong_checksum(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"\x93NUMPY") + 130] ^= 1
    path.write_bytes(content)
    refused(path, "Bad CRC-32")


REMOVE = object()
NAN, INF = float("nan"), float("inf")
FIELDS: dict[str, list[Any]] = {
    "format_version": [True, "1", 1.0, None, REMOVE],
    "class": [1, None, [], REMOVE],
    "arrays": [[], None, REMOVE],
    "parameters": [[], None, REMOVE],
    "feature_names_in_": [["a"], ["a", "b", 3], "abc", {}, REMOVE],
    "n_samples_seen_": ["60", 60.0, REMOVE],
    "y_mean": [NAN, INF, "0", 0, REMOVE],
    "y_scale": [0.0, -1.0, NAN, INF],
    "log_evidence_": [-INF, None],
    "alpha_noise": [1.0, 0.5, -1.0, NAN, INF],
    "alpha_prior": [1.0, 0.5, INF, REMOVE],
    "beta_noise": [0.0, -1.0, NAN],
    "beta_prior": [0.0, -1.0, INF],
}
STRUCTURE: dict[str, list[Any]] = {
    "layer_sizes": [3, REMOVE, [], [1], [3], [3, 4], [3, 4, 1, 1], [3, 5, 1], [4, 4, 1]],
    "weights_dtype": ["float32", "int64", "float16", 8, REMOVE],
    "n_iter_": [3, 0, -1, 10**30, 2.0, True, REMOVE],
}
STRUCTURE["layer_sizes"] += [[3, -4, 1], [3, 4, 1.5], [3, None, 1], ["3", "4", "1"], [[3], 4, 1]]
STRUCTURE["layer_sizes"] += [[1] * 100_000]
PARAMETERS: dict[str, list[Any]] = {
    "learning_rate": [0.1],
    "self": [1],
    "a__b": [1],
    "hidden_layer_sizes": [None, 0, 1.5, "4", [0], ["4"], [[4]], {}, {"tuple": 4}, {"a": 1}],
    "n_epochs": [0, 1.5, None, "2", [], {}],
    "prior_shape": [1.0, NAN, INF, None, 10**400],
    "noise_rate": [0, -1.0, "6", []],
    "refine_every": [0, 1.5, INF, None],
    "standardize": [None, 1, "yes"],
    "dtype": ["float16", None, ["float64"]],
    "engine": ["os.system", None, {}],
    "random_state": [-1, 2**32, 10**400, 1.5, "a", [1], {}],
    "verbose": [-1, None, "0"],
}
SHAPES = [[], [4], [5, 4], [4, 4, 1], [16], [-4, -4], [4.0, 4.0], ["4", "4"], [True, 16], 16]
SHAPES += [[10**12, 1], [10**4200, 10**4200]]
DTYPES = ["<i8", ">f8", "|O", "O", "<U2", "<c8", "f8", "float64", "", None, ["<f8"]]


def each(table: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, values in table.items() for value in values]


def put(mapping: dict[str, Any], name: str, value: Any) -> None:
    mapping[name] = value
    if value is REMOVE:
        del mapping[name]


@pytest.mark.parametrize(("name", "value"), each(FIELDS))
def test_impossible_fields(path: Path, name: str, value: Any) -> None:
    with header_of(path) as header:
        put(header, name, value)
    refused(path, name)


@pytest.mark.parametrize(("name", "value"), each(STRUCTURE))
def test_impossible_structure(path: Path, name: str, value: Any) -> None:
    with header_of(path) as header:
        put(header, name, value)
    refused(path, name if value is REMOVE else "")


@pytest.mark.parametrize(("name", "value"), each(PARAMETERS))
def test_impossible_parameters(path: Path, name: str, value: Any) -> None:
    with header_of(path) as header:
        put(header["parameters"], name, value)
    refused(path, "")


@pytest.mark.parametrize(
    "described",
    [
        *({"dtype": "<f8", "shape": shape} for shape in SHAPES),
        *({"dtype": dtype, "shape": [4, 4]} for dtype in DTYPES),
        *({"dtype": "<f4", "shape": [4, 8]}, {"dtype": "<f8"}, {"shape": [4, 4]}, [], None),
    ],
)
def test_descriptions_that_lie(path: Path, described: Any) -> None:
    with header_of(path) as header:
        assert header["arrays"]["m_w_0"] == {"dtype": "<f8", "shape": [4, 4]}
        header["arrays"]["m_w_0"] = described
    refused(path, "")


@pytest.mark.parametrize("value", [NAN, INF, -INF, 0.0, -1.0])
@pytest.mark.parametrize("name", [*(f"{kind}_1" for kind in LAYERED), "x_mean", "x_scale"])
def test_values_that_are_not_finite_or_not_positive(path: Path, name: str, value: float) -> None:
    header, arrays = read_model(path)
    arrays[name].flat[-1] = value
    write_model(path, header, arrays)
    if np.isfinite(value) and name not in ("v_w_1", "x_scale"):
        load(path)
    else:
        refused(path, f"{name} has values that no fitted model has")


@pytest.mark.parametrize(
    "change",
    [
        {"m_w_1": np.zeros((1, 6))},
        {"m_w_1": np.zeros((2, 5))},
        {"m_w_1": np.zeros((1, 5), np.float32)},
        {"m_w_1": np.zeros((1, 5), np.int64)},
        {"m_w_1": np.zeros(5)},
        {"v_hat_nat_0": np.zeros((4, 4), np.float32)},
        {"x_mean": np.zeros(4)},
        {"x_mean": np.zeros((3, 1))},
        {"history_n_iter": np.zeros(2)},
        {"history_n_iter": np.zeros(3, np.int64)},
        {"history_mean_log_Z": np.zeros(2, np.int64)},
        {"m_w_1": None},
        {"x_scale": None},
        {"history_n_undone": None},
        {"m_w_2": np.zeros((1, 2))},
        {"another": np.zeros(1)},
    ],
)
def test_arrays_that_do_not_fit_together(path: Path, change: dict[str, Any]) -> None:
    header, arrays = read_model(path)
    arrays = {k: a for k, a in (arrays | change).items() if a is not None}
    write_model(path, header, arrays)
    refused(path, "do not fit together")


@pytest.mark.parametrize(
    "array", [np.zeros(1, "f2"), np.zeros(1, "c8"), np.zeros(1, "?"), np.zeros((1, 1, 1))]
)
def test_arrays_of_other_kinds(path: Path, array: Any) -> None:
    header, arrays = read_model(path)
    write_model(path, header, arrays | {"x_mean": array})
    refused(path, "x_mean has a dtype or shape that no model has")


def test_networks_of_other_kinds(path: Path) -> None:
    header, arrays = read_model(path)
    two_outputs = {f"{kind}_1": np.ones((2, 5)) for kind in LAYERED}
    write_model(path, header | {"layer_sizes": [3, 4, 2]}, arrays | two_outputs)
    refused(path, "not those of a regression network")
    whole = {k: np.ones(a.shape, int) for k, a in arrays.items() if k[:3] in ("m_w", "v_w")}
    write_model(path, header | {"weights_dtype": "int64"}, arrays | whole)
    refused(path, "not those of a regression network")


def test_a_model_without_epochs(path: Path) -> None:
    header, arrays = read_model(path)
    for name in list(arrays):
        if name.startswith("history"):
            arrays[name] = arrays[name][:0]
    write_model(path, header | {"n_iter_": 0}, arrays)
    refused(path, "values that no fitted model has")


# ---- Hostile zips


def test_missing_and_extra_members(path: Path) -> None:
    members = unzip(path)
    rezip(path, {k: v for k, v in members.items() if k != "x_mean.npy"})
    refused(path, "the member x_mean.npy is missing or unexpected")
    for extra in ("extra.npy", "../../evil", "", "x_mean.npy/"):
        rezip(path, members | {extra: b"x"})
        refused(path, f"the member {extra} is missing or unexpected")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["header.json", "m_w_0.npy"])
def test_duplicate_members(path: Path, name: str) -> None:
    members = unzip(path)
    rezip(path, [*members.items(), (name, members[name])])
    refused(path, "two members have the same name")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members(path: Path, compression: int) -> None:
    rezip(path, unzip(path), compression)
    refused(path, "is compressed")


def test_an_encrypted_member(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    path.write_bytes(content)
    refused(path, "encrypted")


def test_a_pickle_in_the_place_of_an_array(path: Path) -> None:
    members = unzip(path)
    np.save(path.parent / "evil.npy", np.array([[1], "a"], object), allow_pickle=True)
    rezip(path, members | {"x_mean.npy": (path.parent / "evil.npy").read_bytes()})
    refused(path, "x_mean is longer or shorter")
    rezip(path, members | {"x_mean.npy": members["x_mean.npy"].replace(b"<f8", b"|O8")})
    refused(path, "x_mean has a dtype or shape other than header.json says")


def entry(content: bytes | bytearray, name: bytes) -> int:
    """Find the central directory entry of a member."""
    start = -1
    while True:
        start = content.index(b"PK\x01\x02", start + 1)
        if content[start + 46 :].startswith(name):
            return start


def set_size(content: bytearray, name: bytes, size: int) -> None:
    struct.pack_into("<II", content, entry(content, name) + 20, size, size)


@pytest.mark.parametrize("size", [0, 100, 20_000, 2**31, 2**32 - 2])
def test_sizes_that_lie(path: Path, size: int) -> None:
    before = path.read_bytes()
    for name in (b"header.json", b"m_w_0.npy", b"history_n_skipped_factors.npy"):
        content = bytearray(before)
        set_size(content, name, size)
        path.write_bytes(content)
        refused(path, "")
    refused(path, "claims too many bytes" if size > 10_000 else "longer or shorter")


def test_overlapping_members(path: Path) -> None:
    content = bytearray(path.read_bytes())
    offset = content[entry(content, b"m_w_0.npy") + 42 :][:4]
    start = entry(content, b"v_w_0.npy") + 42
    content[start : start + 4] = offset
    path.write_bytes(content)
    refused(path, "overlap")


def peak_of_loading(path: Path) -> int:
    """Bytes allocated at most; a first load pays for what is imported and cached."""
    peak = 0
    for _ in range(2):
        tracemalloc.start()
        try:
            load(path)
        except ModelFileError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    return peak


def test_memory_is_bounded_by_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m"
    PBPRegressor((2000,), n_epochs=1, random_state=0).fit(X, Y).save(path)
    content, size = path.read_bytes(), path.stat().st_size
    assert size > 400_000
    assert peak_of_loading(path) < 3 * size

    with header_of(path) as header:
        header["arrays"]["m_w_0"]["shape"] = [10**12, 1]
    refused(path, "longer or shorter than its shape says")
    assert peak_of_loading(path) < 2 * size

    for name in (b"header.json", b"m_w_0.npy"):
        lying = bytearray(content)
        set_size(lying, name, 2**32 - 2)
        path.write_bytes(lying)
        refused(path, "")
        assert peak_of_loading(path) < 2 * size

    path.write_bytes(content)
    rezip(path, unzip(path) | {"m_w_0.npy": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    refused(path, "compressed")
    assert peak_of_loading(path) < 2 * size


def test_a_huge_header(path: Path) -> None:
    members = unzip(path)
    padding = b" " * persistence._HEADER_LIMIT
    rezip(path, members | {"header.json": members["header.json"] + padding})
    refused(path, "claims too many bytes")


# ---- Fuzzing


def survives(path: Path, content: bytes, expected: np.ndarray) -> bool:
    """Load a mutated file: refused, or the same model all the same."""
    path.write_bytes(content)
    started = time.perf_counter()
    try:
        loaded = load(path)
    except ModelFileError:
        return False
    finally:
        assert time.perf_counter() - started < 5.0
    assert_array_equal(loaded.predict(X), expected)
    return True


def test_every_truncation_is_noticed(path: Path, model: PBPRegressor) -> None:
    content, expected = path.read_bytes(), model.predict(X)
    lengths = {*range(100), *range(0, len(content), 17), *range(len(content) - 300, len(content))}
    for length in sorted(lengths):
        assert not survives(path, content[:length], expected), length
    assert survives(path, content, expected)


def test_flipped_bytes_are_noticed_or_do_not_matter(path: Path, model: PBPRegressor) -> None:
    content, expected, rng = path.read_bytes(), model.predict(X), random.Random(0)
    places = [rng.randrange(len(content)) for _ in range(600)]
    places += [*range(45), *range(len(content) - 22, len(content))]
    for place in places:
        mutated = bytearray(content)
        mutated[place] ^= rng.choice([1 << rng.randrange(8), rng.randrange(1, 256)])
        survives(path, bytes(mutated), expected)


def test_flips_in_the_data_are_all_noticed(path: Path, model: PBPRegressor) -> None:
    content, expected, rng = path.read_bytes(), model.predict(X), random.Random(1)
    for name, data in unzip(path).items():
        start = content.index(name.encode() + data) + len(name)
        for _ in range(8):
            mutated = bytearray(content)
            mutated[start + rng.randrange(len(data))] ^= rng.randrange(1, 256)
            assert not survives(path, bytes(mutated), expected), name


PLACE = st.integers(0, 2**32)
CHUNK = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"]),
    st.sampled_from([b"\xff" * 4, b"\xff" * 8, bytes(4), bytes(8), b"\x01\x00\x18\x00"]),
)
EDITS = st.lists(
    st.tuples(st.sampled_from(["overwrite", "insert", "delete", "copy"]), PLACE, PLACE, CHUNK),
    min_size=1,
    max_size=5,
)


@pytest.fixture(scope="module")
def good(model: PBPRegressor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    model.save(folder / "good")
    return folder / "good"


@settings(max_examples=400, deadline=None)
@given(edits=EDITS, near_end=st.booleans())
def test_mutations(good: Path, model: PBPRegressor, edits: list[Any], near_end: bool) -> None:
    content = good.read_bytes()
    for action, first, second, chunk in edits:
        # The last quarter has the directory of the zip.
        low = 3 * len(content) // 4 if near_end else 0
        start = low + first % (len(content) - low + 1)
        stop = start + second % 64
        before, after = content[:start], content[start:]
        content = {
            "overwrite": before + chunk + content[start + len(chunk) :],
            "insert": before + chunk + after,
            "delete": before + content[stop:],
            "copy": before + content[start:stop] + after,
        }[action]
    survives(good.parent / "mutated", content, model.predict(X))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, as a path of keys."""
    yield place
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from places_in(inner, (*place, key))


@settings(max_examples=400, deadline=None)
@given(data=st.data(), value=JSON)
def test_any_json_in_the_header(good: Path, data: Any, value: Any) -> None:
    members = unzip(good)
    header = json.loads(members["header.json"])
    place = data.draw(st.sampled_from(list(places_in(header))))
    if place:
        target = header
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = value
    else:
        header = value
    mutated = good.parent / "header"
    rezip(mutated, members | {"header.json": json.dumps(header).encode()})
    try:
        loaded = load(mutated)
    except ModelFileError:
        return
    assert type(loaded) is PBPRegressor
    assert loaded.posterior_.alpha_noise > 1.0
