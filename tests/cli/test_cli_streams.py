"""Readers that stop early, and terminals without our letters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_tables import call, homes, write_homes

pytestmark = pytest.mark.process


def test_a_reader_that_has_read_enough_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_homes(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert call("fit --fast homes.csv --target price --drop id --epochs 1 -q -o m.pbp") == 0
    header, *rows = homes()[:500].to_csv(index=False).splitlines(True)
    Path("many.csv").write_text(header + "".join(rows) * 200)  # more than a pipe holds
    command = [sys.executable, "-m", "probprop", "predict", "m.pbp", "many.csv", "-q"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"id,")
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (0, b"")


def test_a_terminal_without_our_letters(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "probprop", "demo", "--fast", "-o", str(tmp_path / "d.html")]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert rb"toy, y = x\xb3" in result.stdout
