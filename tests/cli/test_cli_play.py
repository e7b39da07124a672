"""`probprop play`: one page, written to a file and opened."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from probprop.cli.application import run
from probprop.web import play_page


def test_it_opens_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = tmp_path / "play.html"
    assert run(["play", "-o", str(path)]) == 0
    assert opened == [path.as_uri()]


def test_it_writes_one_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "play.html"
    assert run(["play", "--no-browser", "-o", str(path)]) == 0
    assert path.read_text("utf-8") == play_page()
    assert os.fspath(path) in capfd.readouterr().out
    assert run(["play", "-o", str(tmp_path / "none" / "play.html")]) == 1
    assert "none" in capfd.readouterr().err


def test_the_page_makes_no_requests() -> None:
    page = play_page()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy.group(1).startswith("default-src &#39;none&#39;;")
    addresses = set(re.findall(r"https?://[^\s\"'`<]*", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a request
    assert len(page) < 250_000
