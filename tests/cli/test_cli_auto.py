"""`probprop fit --epochs auto --memory auto`: what it takes, what it says, what goes on."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from rich.console import Console

import probprop.estimators.choice
from cli_tables import call, homes
from probprop import PBPRegressor, load
from probprop.cli import application
from probprop.cli.console import Terminal
from probprop.report import choice_text
from probprop.table import TableModel, fit_table_model

Captured = pytest.CaptureFixture[str]
FIT = "fit homes.csv --target price --drop id --hidden 5 -o m.pbp"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in the current folder; the longest training has 50 epochs."""
    homes(150).to_csv(tmp_path / "homes.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probprop.estimators.choice, "_LONGEST", 50)
    return tmp_path


def saved() -> PBPRegressor:
    model = load("m.pbp")
    assert isinstance(model, TableModel)
    return model.estimator


# ---- What it takes


def test_the_defaults_are_those_of_the_paper() -> None:
    assert call(f"{FIT} -q") == 0
    assert (saved().n_epochs, saved().memory) == (40, None)


@pytest.mark.parametrize(
    ("options", "n_epochs", "memory"),
    [
        ("--epochs 3 --memory 2.5", 3, 2.5),
        ("--epochs 3 --memory none", 3, None),
        ("--epochs auto --memory 3", "auto", 3.0),
        ("--epochs 3 --memory auto", 3, "auto"),
        ("--epochs auto --memory auto", "auto", "auto"),
    ],
)
def test_the_model_is_that_of_the_estimator(
    options: str, n_epochs: int, memory: float | None
) -> None:
    assert call(f"{FIT} {options} --no-refit --test-fraction 0 -q") == 0
    regressor = PBPRegressor(5, n_epochs=n_epochs, memory=memory, random_state=0)
    rows = pd.read_csv("homes.csv")
    expected = fit_table_model(rows, "price", drop=["id"], estimator=regressor).estimator
    found = saved()
    assert (found.n_epochs, found.memory) == (n_epochs, memory)
    assert found.choice_ == expected.choice_
    for m, m_expected in zip(found.posterior_.m_w, expected.posterior_.m_w, strict=True):
        assert_array_equal(m, m_expected)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--epochs many", "--epochs: 'many' is neither a whole number nor auto"),
        ("--epochs 1.5", "--epochs: '1.5' is neither a whole number nor auto"),
        ("--epochs AUTO", "--epochs: 'AUTO' is neither a whole number nor auto"),
        ("--epochs -2", "--epochs: -2 is not at least 1"),
        ("--memory some", "--memory: 'some' is neither a number nor auto nor none"),
        ("--memory nan", "--memory: 'nan' is neither a number nor auto nor none"),
        ("--memory inf", "--memory: 'inf' is neither a number nor auto nor none"),
        ("--memory 0.5", "--memory: 0.5 is not at least 1"),
        ("--memory -3", "--memory: -3 is not at least 1"),
    ],
)
def test_other_values_are_one_line_and_code_2(capfd: Captured, option: str, message: str) -> None:
    assert call(f"{FIT} {option}") == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: [^\n]+\n", err)
    assert message in err
    assert not Path("m.pbp").exists()


# ---- What it says


def test_what_was_chosen_is_said_and_kept(capfd: Captured) -> None:
    assert call(f"{FIT} --epochs auto --memory auto") == 0
    err = capfd.readouterr().err
    model = saved()
    said = re.findall(r"^chosen on held-out rows: .*$", err, re.M)
    assert len(said) == 2  # of the model judged, and of the model on all rows
    assert said[1] == choice_text(model)
    assert f"wrote m.pbp: 150 rows, 5 columns, {model.choice_.n_epochs} epochs" in err

    assert call("info m.pbp") == 0
    out = capfd.readouterr().out
    assert re.search(rf"^Epochs and memory +{re.escape(said[1])}$", out, re.M)


def test_without_auto_nothing_is_said_of_a_choice(capfd: Captured) -> None:
    assert call(f"{FIT} --epochs 3 --memory 2.5") == 0
    assert "chosen" not in capfd.readouterr().err
    assert call("info m.pbp") == 0
    out = capfd.readouterr().out
    assert "150 rows, 3 passes, memory of 2.5" in out
    assert "Epochs and memory" not in out


def test_quiet_says_nothing(capfd: Captured) -> None:
    assert call(f"{FIT} --epochs auto --quiet") == 0
    assert capfd.readouterr().err == ""


def test_too_few_rows_are_named(capfd: Captured) -> None:
    homes(15).to_csv("homes.csv", index=False)
    assert call(f"{FIT} --epochs auto --memory auto --test-fraction 0") == 0
    said = "too few rows to choose from: no memory bound, 40 epochs (the paper's protocol)"
    assert said in capfd.readouterr().err


@pytest.mark.parametrize(
    ("epochs", "ends"), [("auto", False), ("30", True)], ids=["unknown", "known"]
)
def test_a_terminal_shows_what_is_going_on(
    monkeypatch: pytest.MonkeyPatch, epochs: str, ends: bool
) -> None:
    err = Console(file=open("err.txt", "w"), force_terminal=True, width=200)  # noqa: SIM115
    terminal = Terminal(Console(quiet=True), err)
    monkeypatch.setattr(application, "make_terminal", lambda quiet: terminal)
    assert call(f"{FIT} --epochs {epochs} --memory auto") == 0
    err.file.close()
    shown = Path("err.txt").read_text()
    first = shown.index("choosing epochs and memory on 135 rows")
    assert shown.index("fitting 135 rows") > first
    assert "noise std" in shown
    assert (" left" in shown) == ends


# ---- What goes on


def test_update_goes_on_with_the_chosen_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probprop.estimators.choice, "MEMORIES", (3.0,))
    more = homes(180)[150:]
    more.to_csv("more.csv", index=False)
    rows = homes(150)
    predicted = []
    for memory in ("auto", "3", "none"):
        assert call(f"{FIT} --epochs 30 --memory {memory} -q") == 0
        assert call("update m.pbp more.csv -q") == 0
        model = load("m.pbp")
        assert isinstance(model, TableModel)
        predicted.append(model.predict_distribution(rows).mean)
    assert_array_equal(predicted[0], predicted[1])
    assert np.abs(predicted[0] - predicted[2]).max() > 1.0
