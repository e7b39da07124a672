"""Readers that stop early, streams that are closed, and terminals without our letters."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli_tables import call, homes, write_homes

pytestmark = pytest.mark.process

Done = subprocess.CompletedProcess[bytes]
posix = pytest.mark.skipif(os.name == "nt", reason="the shell is another one")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a small table."""
    made = tmp_path_factory.mktemp("streams")
    write_homes(made)
    table, model = made / "homes.csv", made / "m.pbp"
    fit = f"fit --fast {table} --target price --drop id --n-epochs 1 -q -o {model}"
    assert call(fit) == 0
    homes()[:20].assign(owner="Zoë 東京").to_csv(made / "new.csv", index=False)
    return made


def shell(folder: Path, words: str, **environment: str) -> Done:
    """Run the command in a shell, which closes and redirects streams."""
    command = f"{shlex.quote(sys.executable)} -m probprop {words}"
    env = os.environ | environment
    return subprocess.run(["sh", "-c", command], cwd=folder, env=env, capture_output=True)


def test_a_reader_that_has_read_enough_is_no_failure(folder: Path) -> None:
    header, *rows = homes()[:500].to_csv(index=False).splitlines(True)
    (folder / "many.csv").write_text(header + "".join(rows) * 200)  # more than a pipe holds
    command = [sys.executable, "-m", "probprop", "predict", "m.pbp", "many.csv", "-q"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"id,")
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (0, b"")


@posix
def test_a_closed_output_is_one_clear_line(folder: Path) -> None:
    done = shell(folder, "predict m.pbp new.csv >&-")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        b"error: standard output is closed: open it, or give -o FILE"
    )
    done = shell(folder, "predict m.pbp new.csv -q -o out.csv >&-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert (folder / "out.csv").read_bytes().count(b"\n") == 21
    assert shell(folder, "evaluate m.pbp new.csv -q >&-").returncode == 0


@posix
def test_a_closed_input_is_one_clear_line(folder: Path) -> None:
    done = shell(folder, "predict m.pbp - <&-")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"error: standard input is closed: open it, or give a file.\n"
    assert shell(folder, "predict m.pbp new.csv -q <&-").returncode == 0


@posix
@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_end_in_the_output(folder: Path, closed: str) -> None:
    whole = shell(folder, "predict m.pbp new.csv -q").stdout
    (folder / "out.csv").unlink(missing_ok=True)
    assert shell(folder, f"predict m.pbp new.csv -o out.csv {closed}").returncode == 0
    assert (folder / "out.csv").read_bytes() == whole
    assert shell(folder, f"predict m.pbp none.csv -o out.csv {closed}").returncode == 1
    fit = "fit --fast new.csv --target price --drop id,owner --n-epochs 1 -o other.pbp"
    assert shell(folder, f"{fit} {closed}").returncode == 0
    assert shell(folder, "info other.pbp").returncode == 0  # nothing was printed into it


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
def test_a_full_disk_behind_a_redirection(folder: Path) -> None:
    for words in ("predict m.pbp new.csv -q", "evaluate m.pbp new.csv -q", "--help"):
        done = shell(folder, f"{words} >/dev/full")
        assert done.returncode != 0, words
        assert b"no space left on device" in done.stderr.lower(), words
        assert b"Traceback" not in done.stderr, words
        assert b"unexpected" not in done.stderr, words


ENCODINGS = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "cp1252"},
]


@posix
@pytest.mark.parametrize("environment", ENCODINGS, ids=lambda e: ",".join(map("=".join, e.items())))
def test_letters_that_a_terminal_lacks(folder: Path, environment: dict[str, str]) -> None:
    done = shell(folder, "predict m.pbp new.csv", **environment)
    assert done.returncode == 0, done.stderr
    assert "Zoë 東京".encode() in done.stdout  # a table is UTF-8 wherever it goes
    done = shell(folder, "fit 'Zoë 東京.csv' --target y -o x.pbp", **environment)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.count(b"\n") == 1
    assert b".csv cannot be read (no such file or directory)" in done.stderr
    done = shell(folder, "evaluate m.pbp new.csv", **environment)
    assert done.returncode == 0, done.stderr


def test_a_terminal_without_our_letters(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "probprop", "demo", "--fast", "-o", str(tmp_path / "d.html")]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert rb"R\xb2" in result.stdout
