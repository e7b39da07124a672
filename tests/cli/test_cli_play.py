"""`probprop play`: one page, served here and to nobody else, or written to a file."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from probprop.cli.application import run
from probprop.web import play_page


@contextmanager
def playing(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command while it runs, and the address it prints."""
    command = [sys.executable, "-m", "probprop", "play", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+/", line)
        try:
            assert found is not None, line
            yield process, found.group()
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.process
def test_it_serves_until_ctrl_c() -> None:
    with playing("--no-browser") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as answer:
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert answer.read().decode() == play_page()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url + "etc/passwd")
        refused.value.close()
        assert refused.value.code == 404
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_nobody_else_can_ask_for_it() -> None:
    with playing("--no-browser") as (_, url):
        port = int(url.rstrip("/").rpartition(":")[2])
        listening = [
            line.split()[1]
            for name in ("tcp", "tcp6")
            for line in Path("/proc/net", name).read_text().splitlines()[1:]
            if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
        ]
        assert listening == [f"0100007F:{port:04X}"]  # 127.0.0.1


@pytest.mark.process
def test_it_opens_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = tmp_path / "opened"
    fake = tmp_path / "fake-browser"
    fake.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{fake} %s")
    with playing() as (process, url):
        while not opened.exists():
            assert process.poll() is None
        assert opened.read_text().strip() == url


def test_a_port_that_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["play", "--no-browser", "--port", str(port)]) == 1
    assert f"port {port} is in use: give another --port" in capfd.readouterr().err


def test_it_writes_one_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "play.html"
    assert run(["play", "-o", str(path)]) == 0
    assert path.read_text("utf-8") == play_page()
    assert os.fspath(path) in capfd.readouterr().out
    assert run(["play", "-o", str(tmp_path / "none" / "play.html")]) == 1
    assert "none" in capfd.readouterr().err


def test_the_page_asks_for_nothing() -> None:
    page = play_page()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy.group(1).startswith("default-src &#39;none&#39;;")
    addresses = set(re.findall(r"https?://[^\s\"'`<]*", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nobody asks for
    assert len(page) < 250_000
