"""`benchmarks.year` on few made songs: the text the loader reads, every step, the page."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import year, year_steps
from benchmarks.child import run_command

import probprop
from probprop_lab.datasets import load, made_year, registry
from probprop_lab.datasets.made_year import songs, write_text

N, N_TRAIN = 600, 500


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small text, which the loader reads as the set."""
    source = registry.SOURCES[year_steps.NAME]
    small = replace(source, shape=(N, 91), n_train=N_TRAIN)
    monkeypatch.setitem(registry.SOURCES, year_steps.NAME, small)
    monkeypatch.setenv("PROBPROP_DATA", str(tmp_path))
    monkeypatch.setenv("PROBPROP_CACHE", str(tmp_path))
    monkeypatch.setattr(year_steps, "N_EPOCHS", 3)
    monkeypatch.setattr(year_steps, "BUDGET", "fast")
    write_text(tmp_path / year_steps.TEXT, N)
    return tmp_path


def test_the_text_is_what_was_generated(folder: Path) -> None:
    data = load(year_steps.NAME)
    ((X, y),) = songs(N)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)


def test_songs_do_not_depend_on_how_many_there_are() -> None:
    few, many = (list(songs(n, block_size=50)) for n in (70, 120))
    assert [len(y) for _, y in few] == [50, 20]
    np.testing.assert_array_equal(few[0][0], many[0][0])
    np.testing.assert_array_equal(few[1][0], many[1][0][:20])
    assert np.abs(many[0][0] - many[1][0]).max() > 1.0


def test_songs_are_like_the_real_ones() -> None:
    X, y = next(songs(20_000))
    assert X.shape == (20_000, 90)
    assert made_year.FIRST <= y.min() < y.max() <= made_year.LAST
    np.testing.assert_array_equal(y, np.rint(y))
    assert 9.0 < y.std() < 13.0
    assert y.mean() < np.median(y)  # skewed to the past
    together = np.abs(np.corrcoef(X.T) - np.eye(90))
    assert together.max() > 0.5  # the features depend on each other
    assert np.linalg.cond(np.cov(X.T)) < 1e9  # and none is a sum of others
    covariances = np.zeros((12, 12))
    covariances[np.triu_indices(12)] = X[0, 12:]
    covariances += np.triu(covariances, 1).T
    assert np.linalg.eigvalsh(covariances).min() > 0.0


@pytest.mark.process
def test_every_step_and_the_page(folder: Path) -> None:
    steps = {
        name: year_steps.STEPS[name](folder)
        for name in year_steps.STEPS
        if name != "reproduced"  # whose process would want the songs of the real size
    }
    assert [len(found) for found in steps.values()] == [2, 5, 1, 1, 1, 3, 2]
    for step in (step for found in steps.values() for step in found):
        assert step["seconds"] >= 0.0
        assert step["peak"] > 1e6
    tables = [(folder / name).read_text().splitlines() for name in ("train.csv", "test.csv")]
    assert [len(lines) for lines in tables] == [N_TRAIN + 1, N - N_TRAIN + 1]
    assert tables[0][0].startswith("year,timbre_mean_1,")
    # The shell's model is the library's: the same rows, seed and protocol.
    told = steps["library"][2]["note"].partition(";")[0]
    assert told == steps["shell_use"][1]["note"]

    written = {"machine": {"cpu": "some", "date": "2026-01-01T00:00:00"}, "steps": steps}
    page = year.page(written)
    assert "**synthetic** songs" in page
    assert "the paper prints 6,119 s for PBP" in page
    assert page.count("\n| `") == 15


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_the_peak_of_a_command_is_its_own(tmp_path: Path) -> None:
    alone, printed = run_command(tmp_path, "--version")
    ballast = np.ones(100_000_000)
    busy, again = run_command(tmp_path, "--version")
    assert printed == again == f"probprop {probprop.__version__}\n"
    assert alone["peak"] < 0.5 * ballast.nbytes
    assert busy["peak"] < 0.5 * ballast.nbytes
    assert busy["seconds"] > 0.0
