"""Synthetic tables for the tests of the command: numbers, text, true and false, a constant."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from probprop.cli.application import run


def call(line: str) -> int:
    """Run a command as it is typed after `probprop`, and return its exit code."""
    return run(line.split())


def fails(capfd: pytest.CaptureFixture[str], code: int, arguments: str, *fragments: str) -> None:
    """Run and expect this exit code and one line with all of the fragments."""
    capfd.readouterr()
    assert call(arguments) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: [^\n]+\n", err), err
    for fragment in fragments:
        assert fragment in err


def homes(n: int = 600) -> pd.DataFrame:
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {
            "id": [f"{i:05d}" for i in range(n)],
            "city": rng.choice(["Rome", "Oslo", "Lima, north"], n),
            "rooms": rng.randint(1, 8, n),
            "area": rng.uniform(20.0, 200.0, n).round(1),
            "new": rng.choice([True, False], n),
            "fixed": 7,
        }
    )
    by_city = frame["city"].map({"Rome": 1e5, "Oslo": 2e5, "Lima, north": 0.0})
    noise = rng.normal(0.0, 2e4, n)
    frame["price"] = (1e3 * frame["area"] + 2e4 * frame["rooms"] + by_city + noise).round(-2)
    return frame


def write_homes(folder: Path) -> None:
    frame = homes()
    frame[:500].to_csv(folder / "homes.csv", index=False)
    frame[500:550].drop(columns="price").to_csv(folder / "new.csv", index=False)
    frame[550:].to_csv(folder / "sold.csv", index=False)
