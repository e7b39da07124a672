"""The figures of the page on ensembles."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from benchmarks.guide import ensembles
from benchmarks.guide.pages import FOLDER

from probprop_lab.experiments.harness.job import Job


def row(split: int, method: str, hidden: list[int], score: float) -> dict[str, object]:
    job = Job("auto", "yacht", split, method, split, tuple(hidden))
    return {**job.fields, "rmse": -score, "log_likelihood": score, "coverage_95": 0.5}


def test_gains_are_of_splits_that_both_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensembles, "SETS", {"yacht": "yacht"})
    rows = [row(split, "PBP", [50, 50], -2.0) for split in range(3)]
    rows += [row(split, "PBP ensemble", [50, 50], -1.5) for split in (1, 2, 7)]
    rows += [row(split, method, [50], -3.0) for split in (0, 1) for method in ensembles.METHODS]
    two, one = ensembles.gains(rows).split("\n\n")
    assert (
        "| yacht | 2.00 | 1.50 | −2.000 | −1.500 | 0.500 ± 0.000 | 50.0 % | 50.0 % |"
        in two.splitlines()
    )
    assert "| 0.000 ± 0.000 |" in one


def test_ensembles_write_their_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ensembles", "--results", str(tmp_path)])
    ensembles.main()
    printed = capsys.readouterr().out
    gain = (tmp_path / "ensembles_gain.md").read_text()
    assert gain == (FOLDER / "ensembles_gain.md").read_text()  # from the rows in the same folder
    assert gain in printed
    assert (tmp_path / "ensembles_gap.md").read_text() in printed
    found = json.loads((tmp_path / "ensembles.json").read_text())["gap"]
    inside, outside = found.values()
    assert inside["five"] < 0.1  # the noise: it does not see the gap
    assert outside["five"] > 2.0 * outside["one"]
