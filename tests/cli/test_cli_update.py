"""`probprop update`: how well the new rows were predicted, and what it cannot learn."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_tables import call, homes
from limits import Limits

FIT = "fit homes.csv --target price --drop id --fast --n-epochs 5 --test-fraction 0 -q"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Homes, their weights, and models of the price and of the city."""
    folder = tmp_path_factory.mktemp("made")
    frame = homes(160).assign(weight=np.resize([1.0, 2.0, 0.0], 160))
    frame[:100].to_csv(folder / "homes.csv", index=False)
    frame[100:].to_csv(folder / "sold.csv", index=False)
    line = FIT.replace("homes.csv", f"{folder}/homes.csv")
    assert call(f"{line} --drop weight -o {folder}/price.pbp") == 0
    assert call(f"{line} --weight weight -o {folder}/weighted.pbp") == 0
    city = line.replace("--target price", "--target city")
    assert call(f"{city} --drop weight,price -o {folder}/city.pbp") == 0
    return folder


@pytest.fixture(autouse=True)
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("model", ["price", "city", "weighted"])
def test_the_scores_match_evaluate_before(model: str, capfd: Captured) -> None:
    assert call(f"evaluate {model}.pbp sold.csv") == 0
    expected = capfd.readouterr().out
    measure = "accuracy" if model == "city" else "log-likelihood"
    assert measure in expected
    assert call(f"update {model}.pbp sold.csv") == 0
    out, err = capfd.readouterr()
    assert out == expected
    n = 40 if model == "weighted" else 60  # of weights above 0
    assert f"the {n} new rows, as predicted before the update:" in err
    assert err.splitlines()[-1].startswith(f"updated {model}.pbp with {n} rows")
    assert call(f"update {model}.pbp sold.csv -q") == 0  # learned once, it predicts them otherwise
    assert capfd.readouterr().out != expected


def in_blocks(limits: Limits) -> None:
    """Blocks of 25 rows, whatever the memory."""
    limits.chunks_of(25)
    limits.tables_above_memory()


def test_the_scores_of_blocks(capfd: Captured, limits: Limits) -> None:
    assert call("evaluate price.pbp sold.csv -q") == 0
    expected = capfd.readouterr().out
    in_blocks(limits)
    assert call("update price.pbp sold.csv") == 0
    out, err = capfd.readouterr()
    assert "block by block" in err
    assert "the 60 new rows, as predicted before the update:" in err
    assert out == expected


@pytest.mark.parametrize("large", [False, True])
def test_new_categories_are_named(large: bool, capfd: Captured, limits: Limits) -> None:
    if large:
        in_blocks(limits)
    table = pd.read_csv("sold.csv", dtype=str)
    table.loc[[1, 30, 31], "city"] = ["Bonn", "Bonn", "Atlantis"]
    table.to_csv("sold.csv", index=False)
    assert call("update price.pbp sold.csv") == 0
    notes = [line for line in capfd.readouterr().err.splitlines() if line.startswith("note: ")]
    assert notes == [
        "note: 3 rows with categories of 'city' that the model was not fitted on ('Bonn', "
        "'Atlantis'): an update cannot add categories, `probprop fit` on all rows can; "
        "they are treated as missing values"
    ]


def test_more_new_categories_than_are_named(capfd: Captured) -> None:
    table = pd.read_csv("sold.csv", dtype=str)
    table["city"] = [f"town {i}" for i in range(len(table))]
    table.to_csv("sold.csv", index=False)
    assert call("update price.pbp sold.csv") == 0
    assert "60 rows with categories of 'city'" in (err := capfd.readouterr().err)
    assert "('town 0', 'town 1', 'town 2', …)" in err


def test_a_new_class_is_refused_and_nothing_is_printed(capfd: Captured) -> None:
    table = pd.read_csv("sold.csv", dtype=str)
    table.loc[3, "city"] = "Bonn"
    table.to_csv("sold.csv", index=False)
    before = Path("city.pbp").read_bytes()
    assert call("update city.pbp sold.csv") == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "'Bonn', a class that the model has not seen" in err
    assert Path("city.pbp").read_bytes() == before


def test_one_new_row(capfd: Captured) -> None:
    pd.read_csv("sold.csv", dtype=str)[:1].to_csv("one.csv", index=False)
    assert call("update price.pbp one.csv") == 0
    out, err = capfd.readouterr()
    assert "the 1 new row, as predicted before the update:" in err
    assert "RMSE" in out
