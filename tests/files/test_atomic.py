"""Saving is all or nothing: failures, full disks, links, permissions, kills."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from model_files import assert_same, files_in, fitted, no_root, refused
from probprop import _atomic
from probprop._atomic import replacing, updating
from probprop.estimators.regressor import PBPRegressor
from probprop.files import load


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
    with pytest.raises(FileNotFoundError) as caught:
        model.save(tmp_path / "none" / "m")
    assert caught.value.filename == str(tmp_path / "none" / "m")
    assert "tmp'" not in str(caught.value).replace(str(tmp_path), "")
    assert files_in(tmp_path) == []


def test_what_a_killed_process_left_is_removed(tmp_path: Path, model: PBPRegressor) -> None:
    fcntl = pytest.importorskip("fcntl")
    abandoned, alive = (tmp_path / f".probprop-{16 * c}.tmp" for c in "0f")
    another = tmp_path / ".probprop-notes.tmp"
    for file in (abandoned, alive, another):
        file.write_bytes(b"half a model")
    with open(alive, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as a process does while it writes
        model.save(tmp_path / "m")
        assert files_in(tmp_path) == sorted([alive.name, another.name, "m"])
    model.save(tmp_path / "m")
    assert files_in(tmp_path) == [another.name, "m"]


def test_writers_do_not_remove_the_files_of_one_another(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as outer:
        outer.write(b"a")
        with replacing(tmp_path / "b") as inner:
            inner.write(b"b")
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"a", b"b")
    assert files_in(tmp_path) == ["a", "b"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
def test_a_file_that_is_about_to_be_renamed_is_not_abandoned(
    path: Path, model: PBPRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.replace

    def rename_after_another_process_has_tidied_up(old: str, new: str) -> None:
        _atomic._remove_abandoned(os.path.dirname(new))
        rename(old, new)

    monkeypatch.setattr(os, "replace", rename_after_another_process_has_tidied_up)
    model.save(path)
    assert files_in(path.parent) == [path.name]


def test_the_owner_of_a_replaced_file_stays(path: Path) -> None:
    os.chown(path, 1234, 4321)
    path.chmod(0o640)
    load(path).save(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o640)


@pytest.fixture
def as_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte-range locks, emulated by this system's, and no file is replaced while it is open."""
    fcntl = pytest.importorskip("fcntl")
    rename = os.replace

    def locking(descriptor: int, mode: int, n_bytes: int) -> None:
        assert n_bytes == 1
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    def replace(old: str, new: str) -> None:
        opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        if old in opened or new in opened:
            raise PermissionError(errno.EACCES, "it is used by another process", old)
        rename(old, new)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    fake = SimpleNamespace(locking=locking, LK_LOCK=1, LK_NBLCK=2)
    monkeypatch.setitem(sys.modules, "msvcrt", fake)  # type: ignore[misc]
    monkeypatch.setattr(_atomic, "fcntl", None)
    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.usefixtures("as_on_windows")
def test_windows_replaces_a_file_that_is_updated(path: Path) -> None:
    model = load(path)
    with updating(path, lambda: pytest.fail("nobody holds it")) as check_unchanged:
        check_unchanged()
        model.save(path)
        with pytest.raises(ValueError, match="was replaced by another process"):
            check_unchanged()
    assert_same(model, load(path))
    assert files_in(path.parent) == [path.name]


@pytest.mark.usefixtures("as_on_windows")
def test_windows_updates_wait_for_one_another(path: Path) -> None:
    class Waits(Exception):
        pass

    def waits() -> None:
        raise Waits

    with updating(path, waits), pytest.raises(Waits), updating(path, waits):
        pass
    with updating(path, waits):
        pass
    assert files_in(path.parent) == [path.name]


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
from probprop.files import load
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
@pytest.mark.process
def test_kills_leave_the_old_model_or_the_new_one(path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", CRASH, path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    left = set(files_in(path.parent)) - {path.name}
    assert all(name.startswith(".probprop-") and name.endswith(".tmp") for name in left)
