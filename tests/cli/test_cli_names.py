"""Names in a model file or a table may be crafted: no control character of them is printed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from probprop import PBPRegressor
from probprop.cli.application import run
from probprop.table import fit_table_model

Captured = pytest.CaptureFixture[str]

EVIL = "\x1b[2J\x1b]0;pwned\x07\x9b31m\rnote: all is well\n\u202e\x00"
SHOWN = r"\x1b[2J\x1b]0;pwned\x07\x9b31m\rnote: all is well\n\u202e\x00"
AREA, TOWN, PRICE, WEIGHT = (f"{name}{EVIL}" for name in ("area", "town", "price", "weight"))


def table(n: int = 60) -> pd.DataFrame:
    rng = np.random.RandomState(0)
    area = rng.uniform(20.0, 99.0, n)
    towns = rng.choice([f"Rome{EVIL}", f"Oslo{EVIL}", "Lima"], n)
    frame = pd.DataFrame({AREA: area, TOWN: towns, WEIGHT: rng.choice([1.0, 2.0], n)})
    frame[PRICE] = 2.0 * area + rng.standard_normal(n)
    return frame


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame = table()
    frame.to_parquet("rows.parquet")
    gaps = frame.copy()
    gaps.loc[:3, TOWN] = f"Nowhere{EVIL}"
    gaps.loc[4:8, PRICE] = np.nan
    gaps.to_parquet("gaps.parquet")
    network = PBPRegressor(4, n_epochs=2, random_state=0, missing="marginalize")
    fit_table_model(frame, PRICE, estimator=network, weight=WEIGHT).save("m.pbp")
    return tmp_path


def shown(capfd: Captured) -> str:
    """Return what was printed; it has no control characters but newlines."""
    out, err = capfd.readouterr()
    printed = out + err
    assert not [c for c in printed if c != "\n" and not (c.isprintable() or c == "\xa0")]
    assert not re.search(r"^note: all is well", printed, re.MULTILINE)
    return printed


FIT = ["--target", PRICE, "--fast", "--n-epochs", "2", "-o", "n.pbp"]
COMMANDS = {
    "info": ["info", "m.pbp"],
    "predict": ["predict", "m.pbp", "gaps.parquet", "-o", "p.csv"],
    "evaluate": ["evaluate", "m.pbp", "gaps.parquet"],
    "evaluate --json": ["evaluate", "m.pbp", "gaps.parquet", "--json"],
    "report": ["report", "m.pbp", "gaps.parquet", "-o", "r.html", "--static"],
    "update": ["update", "m.pbp", "gaps.parquet"],
    "fit": ["fit", "gaps.parquet", *FIT],
    "fit with a choice": ["fit", "gaps.parquet", *FIT[:2], "--budget", "fast", "-o", "n.pbp"],
    "two targets": ["fit", "rows.parquet", "--target", AREA, *FIT],
    "active": ["active", "gaps.parquet", "--target", PRICE, "--ask", "2", "-o", "a.csv"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_control_characters(command: str, capfd: Captured) -> None:
    assert run(COMMANDS[command]) == 0
    printed = shown(capfd)
    if command in ("info", "active", "two targets"):
        assert SHOWN in printed


def test_compare(capfd: Captured) -> None:
    options = ["--n-jobs", "1", "--splits", "2", "--method", "PBP"]
    assert run(["compare", "gaps.parquet", "--target", PRICE, *options]) == 0
    shown(capfd)


def test_a_model_that_was_saved_from_python(capfd: Captured) -> None:
    frame = table()[[AREA, WEIGHT]]
    PBPRegressor(4, n_epochs=1, random_state=0).fit(frame, table()[PRICE]).save("own.pbp")
    assert run(["info", "own.pbp"]) == 0
    assert f"area{SHOWN}, weight{SHOWN}" in shown(capfd)


@pytest.mark.parametrize(
    "line",
    [
        ["predict", "m.pbp", "other.parquet", "-o", "p.csv"],
        ["evaluate", "m.pbp", "other.parquet"],
        ["update", "m.pbp", "other.parquet"],
        ["fit", "other.parquet", "--target", PRICE, "-o", "n.pbp"],
        ["info", f"none{EVIL}".replace("\x00", "")],
        ["info", "--none\x1b[2J"],
    ],
)
def test_errors(line: list[str], capfd: Captured) -> None:
    table()[[TOWN]].to_parquet("other.parquet")
    assert run(line) in (1, 2)
    assert shown(capfd).startswith("error: ")


def test_names_of_classes_in_scores(capfd: Captured) -> None:
    assert run(["fit", "rows.parquet", "--target", TOWN, *FIT[2:]]) == 0
    assert run(["info", "n.pbp"]) == 0
    assert run(["evaluate", "n.pbp", "rows.parquet"]) == 0
    assert SHOWN in shown(capfd)


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of its own")
@pytest.mark.parametrize("command", ["info m.pbp", "predict n.pbp rows.parquet"])
def test_on_a_terminal(command: str) -> None:
    """Predictions on standard output are data in a pipe, and are looked at on a terminal."""
    import pty

    assert run(["fit", "rows.parquet", "--target", TOWN, "-q", *FIT[2:]]) == 0
    code = f"import sys; from probprop.cli.application import run; sys.exit(run({command.split()}))"
    read = bytearray()

    def keep(descriptor: int) -> bytes:
        read.extend(content := os.read(descriptor, 4096))
        return content

    assert pty.spawn([sys.executable, "-c", code], keep) == 0
    text = read.decode(errors="replace")
    assert r"\x1b[2J" in text
    assert "\x1b[2J" not in text
    assert "\x1b]0;" not in text
    assert "\x9b" not in text
