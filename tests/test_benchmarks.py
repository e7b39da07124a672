"""Every benchmark on tiny sizes: it runs, checks its answer, and finds a wrong one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks import previous
from benchmarks.__main__ import PARTS, main
from benchmarks.agreement import WrongAnswerError, check_close
from benchmarks.clock import seconds_per_call, spread, timed
from benchmarks.effort import FULL, QUICK
from benchmarks.outcome import Figure, Outcome, brief, report
from benchmarks.previous import PREVIOUS, keep, read_previous

IN_PROCESSES = {"cold_start", "memory", "memory_map", "threads"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.process] if n in IN_PROCESSES else []) for n in PARTS],
)
@pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
def test_the_quick_form_of_every_part(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", name]) == 0
    printed = capsys.readouterr().out
    assert "Checked: " in printed
    assert "Right answers" in printed


@pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
def test_a_wrong_answer_ends_in_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("probprop.Mixture.interval", lambda p, level: (p.mean, p.mean))
    assert main(["--quick", "quantiles"]) == 1
    assert "wrong answer: quantiles" in capsys.readouterr().out
    with pytest.raises(WrongAnswerError, match="it differs from what it should be by"):
        check_close("made", np.array([1.0]), np.array([2.0]), 1e-3)


@pytest.mark.parametrize("arguments", [["nothing"], ["--quick", "--keep", "x", "quantiles"]])
def test_invalid_requests(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)


def test_the_previous_figures_are_kept_and_shown_next_to_the_new(tmp_path: Path) -> None:
    path = tmp_path / "previous.json"
    assert read_previous(path) == {}
    info = dict.fromkeys(("cpu", "cpu_level", "python", "numpy", "date", "platform"), "?")
    keep("release 1", info, [Figure("a", [1.0, 2.0, 9.0]), Figure("b", [5.0])], path)
    keep("release 2", info, [Figure("b", [123456.0])], path)  # a was not run
    assert read_previous(path) == {"a": 2.0, "b": 123500.0}
    outcome = Outcome(
        "t", ["what"], [["a"], ["c"], ["-"]], [], {}, [Figure("a", [3.0]), Figure("c", [1.0]), None]
    )
    lines = report(outcome, read_previous(path)).splitlines()
    assert lines[2].split() == ["what", "spread", "previous", "of", "it"]
    assert lines[4].split() == ["a", "±0%", "2", "1.50"]
    assert lines[5].split() == ["c", "±0%"]
    assert lines[6].split() == ["-"]


def test_the_file_of_previous_figures_is_whole() -> None:
    figures = read_previous(PREVIOUS)
    assert previous.PREVIOUS.exists()
    assert len(figures) > 30
    assert all(value > 0.0 for value in figures.values())


def test_clocks_and_sizes() -> None:
    assert timed(lambda: 7, iter([1.0, 3.5]).__next__) == (2.5, 7)
    assert seconds_per_call(lambda: None, 3) >= 0.0
    assert spread([4.0]) == 0.0
    assert spread([1.0, 2.0, 3.0]) == 0.25
    assert [brief(x) for x in (0.1234, 12.34, 1_234.0, 2.5e6)] == [
        "0.123",
        "12.3",
        "1.23k",
        "2.50M",
    ]
    assert FULL.of(1_000) == 1_000
    assert QUICK.of(1_000, least=20) == 20
    assert QUICK.of(10, least=20) == 10
