"""What must survive: kills, full disks, tables larger than memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_tables import call, homes, write_homes
from probprop.table import read

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and mount"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_homes(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert call("fit --fast homes.csv --target price --drop id --n-epochs 2 -q -o homes.pbp") == 0
    return tmp_path


# A process that forks: each child updates the model without end, says so after each update
# through a pipe, and is killed at a random moment of its second or third.
_KILL = """
import os, random, signal, time
import probprop
from probprop.cli.application import run

def update():
    return run(["update", "homes.pbp", "sold.csv", "-q"])

def passes():
    return probprop.load("homes.pbp").estimator.n_iter_  # raises where half a model is left

fsync = os.fsync

def slow_fsync(file):  # as on a slow disk, so that many kills come between write and rename
    time.sleep(0.01)
    fsync(file)

os.fsync = slow_fsync
random.seed(0)
assert update() == 0  # imports
before = passes()
left = set()
for _ in range(50):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        while update() == 0:
            os.write(writer, b".")
        os._exit(1)
    os.close(writer)
    start = time.monotonic()
    assert os.read(reader, 1), "an update failed"
    time.sleep(random.uniform(0.0, 2.0) * (time.monotonic() - start))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(reader)
    assert os.WIFSIGNALED(status), "an update failed"
    after = passes()
    assert after > before, "the update that came to its end is lost"
    before = after
    left |= {name for name in os.listdir() if name.startswith(".probprop-")}
print(len(left))
"""


def test_fifty_kills_leave_the_old_model_or_the_new(folder: Path) -> None:
    result = subprocess.run([sys.executable, "-c", _KILL], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.splitlines()[-1]) >= 1, "no kill came in the middle of writing"
    assert call("predict homes.pbp new.csv -q -o out.csv") == 0
    assert not list(folder.glob(".probprop-*")), "what killed processes left is there for ever"


# ---- Full disks


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("update homes.pbp sold.csv", "homes.pbp"),
        (
            "fit --fast homes.csv --target price --drop id --test-fraction 0 -o homes.pbp",
            "homes.pbp",
        ),
        ("predict homes.pbp homes.csv -q -o out.csv", "out.csv"),
        ("predict homes.pbp homes.csv -q -o out.parquet", "out.parquet"),
        ("evaluate homes.pbp sold.csv -q --report out.html", "out.html"),
    ],
)
def test_a_file_that_may_not_grow(
    folder: Path, capfd: pytest.CaptureFixture[str], command: str, written: str
) -> None:
    Path(written).touch()
    before = Path(written).read_bytes()
    capfd.readouterr()
    with files_of_at_most(10_000):
        assert call(command) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"error: {written}: file too large"), err
    assert err.endswith("that file was not changed\n")
    assert err.count("\n") == 1
    assert Path(written).read_bytes() == before
    assert not list(folder.glob(".probprop-*"))


def test_a_full_disk(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """On a real file system of 64 kB, where the tests may mount one."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no right to mount a file system")
    try:
        before = (folder / "homes.pbp").read_bytes()
        (disk / "homes.pbp").write_bytes(before)
        (disk / "rest").write_bytes(bytes(64 * 1024 - 4096 * (len(before) // 4096 + 2)))
        for command in (
            "update disk/homes.pbp sold.csv",
            "predict disk/homes.pbp homes.csv -q -o disk/out.csv",
        ):
            capfd.readouterr()
            assert call(command) == 1
            err = capfd.readouterr().err
            assert "no space left on device; free some space" in err
            assert err.count("\n") == 1
        assert (disk / "homes.pbp").read_bytes() == before
        assert sorted(p.name for p in disk.iterdir()) == ["homes.pbp", "rest"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# ---- Memory

_PEAK = """
import re, sys
from probprop.cli.application import run
assert run(sys.argv[1:]) == 0
print(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
"""


def process(code: str, line: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *line.split()]
    return subprocess.run(command, capture_output=True, text=True)


def test_two_million_rows_take_less_than_half_a_gigabyte(folder: Path) -> None:
    header, *rows = homes()[:500].drop(columns="price").to_csv(index=False).splitlines(True)
    with open("many.csv", "w") as file:
        file.write(header)
        block = "".join(rows)
        for _ in range(4_000):
            file.write(block)
    result = process(_PEAK, "predict homes.pbp many.csv -q -o out.csv")
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 500_000
    with open("out.csv", "rb") as file:
        n_lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    assert n_lines == 2_000_001


def test_wide_rows_are_taken_a_few_at_a_time(tmp_path: Path) -> None:
    """A hundred thousand rows of 2,000 columns would be 1.6 GB."""
    wide, narrow = tmp_path / "wide.csv", tmp_path / "narrow.csv"
    wide.write_text(f"{'1.25,' * 1_999}1.25\n" * 1_000)
    narrow.write_text("1.25,1.25\n" * 200_000)
    parquet = tmp_path / "wide.parquet"
    pd.DataFrame(np.ones((10, 2_000))).rename(columns=str).to_parquet(parquet)
    n_rows, at_a_time = read.plan_chunks(str(wide))
    assert n_rows == pytest.approx(1_000, rel=0.01)
    assert at_a_time < 2_000
    assert read.plan_chunks(str(narrow))[1] == 100_000
    n_rows, at_a_time = read.plan_chunks(str(parquet))
    assert n_rows == 10
    assert 8 * 2_000 * at_a_time <= 16 << 20
