"""`predict -o table.xlsx`: what a person finds in the cells, and what Excel cannot hold."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest

from cli_tables import call, homes
from limits import Limits

FIT = "fit homes.csv --target price --drop id --fast --n-epochs 2 --test-fraction 0 -o homes.pbp -q"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """The current folder has homes.csv and homes.pbp; return five more homes."""
    monkeypatch.chdir(tmp_path)
    homes(60).to_csv("homes.csv", index=False)
    assert call(FIT) == 0
    return homes(65)[60:].drop(columns="price").reset_index(drop=True)


def cells(path: str) -> dict[str, list[Any]]:
    """The cells of the first sheet, as openpyxl reads them: a formula has the type "f"."""
    header, *rows = openpyxl.load_workbook(path).active.iter_rows()
    return {top.value: [row[i] for row in rows] for i, top in enumerate(header)}


def values(path: str, name: str) -> list[Any]:
    return [cell.value for cell in cells(path)[name]]


def test_predictions_match_the_other_formats(folder: pd.DataFrame) -> None:
    folder.to_csv("new.csv", index=False)
    for name in ("out.csv", "out.xlsx"):
        assert call(f"predict homes.pbp new.csv --quantiles 0.1,0.9 -o {name} -q") == 0
    expected, found = (
        pd.read_csv("out.csv"),
        pd.read_excel("out.xlsx", engine="openpyxl", dtype={"id": str}),
    )
    assert {"mean", "upper", "quantile_0.1", "quantile_0.9"} <= {*found}
    assert found["id"].tolist() == folder["id"].tolist()  # with its zeros
    pd.testing.assert_frame_equal(
        found.drop(columns="id"), expected.drop(columns="id"), check_dtype=False
    )
    kinds = {name: column[0].data_type for name, column in cells("out.xlsx").items()}
    assert kinds["id"] == kinds["city"] == "s"
    assert kinds["new"] == "b"
    assert kinds["area"] == kinds["mean"] == kinds["quantile_0.9"] == "n"


def test_text_is_never_a_formula(folder: pd.DataFrame) -> None:
    texts = ["=1+1", "=HYPERLINK(1)", "#N/A", "a\x01b", "_x0041_ plain"]
    folder.assign(**{"=note": texts}).to_parquet("new.parquet")
    assert call("predict homes.pbp new.parquet -o out.xlsx -q") == 0
    assert {cell.data_type for cell in cells("out.xlsx")["=note"]} == {"s"}
    assert values("out.xlsx", "=note")[:3] == texts[:3]
    read = pd.read_excel("out.xlsx", engine="calamine", keep_default_na=False)
    assert read["=note"].tolist() == texts


def test_dates_missing_values_and_numbers_that_excel_cannot_store(folder: pd.DataFrame) -> None:
    when = pd.Series(pd.date_range("2024-02-28 10:30", periods=5, freq="D"))
    folder.assign(
        day=when.dt.normalize(),
        when=when,
        zone=when.dt.tz_localize("UTC"),
        old=pd.to_datetime(["1850-01-01"] * 5),
        gap=[1.5, np.nan, np.inf, -np.inf, 0.0],
        count=pd.array([1, None, 3, 4, 5], "Int64"),
        long=[2**60] * 5,
        flag=pd.array([True, None, False, True, True], "boolean"),
    ).to_parquet("new.parquet")
    assert call("predict homes.pbp new.parquet -o out.xlsx -q") == 0
    found = cells("out.xlsx")
    assert found["day"][1].value == datetime.datetime(2024, 2, 29)
    assert found["when"][0].value == datetime.datetime(2024, 2, 28, 10, 30)
    assert values("out.xlsx", "zone")[0] == "2024-02-28 10:30:00+00:00"
    assert values("out.xlsx", "old")[0].startswith("1850-01-01")
    assert values("out.xlsx", "gap") == [1.5, None, "inf", "-inf", 0]
    assert values("out.xlsx", "count") == [1, None, 3, 4, 5]
    assert values("out.xlsx", "long")[0] == str(2**60)
    assert values("out.xlsx", "flag") == [True, None, False, True, True]


def test_a_workbook_in_and_a_workbook_out_keeps_types(folder: pd.DataFrame) -> None:
    days = pd.date_range("2024-02-28", periods=5)
    table = folder.assign(day=days, size=[1.5, 2.5, np.nan, 4.0, 5.0], bad=["2024-02-31"] * 5)
    table.to_excel("new.xlsx", index=False)
    assert call("predict homes.pbp new.xlsx -o out.xlsx -q") == 0
    assert values("out.xlsx", "day") == list(days.to_pydatetime())
    assert values("out.xlsx", "size") == [1.5, 2.5, None, 4, 5]
    assert values("out.xlsx", "bad") == ["2024-02-31"] * 5
    assert values("out.xlsx", "new") == [bool(new) for new in folder["new"]]


def test_many_rows_come_in_chunks(folder: pd.DataFrame, limits: Limits) -> None:
    limits.chunks_of(2)
    folder.to_csv("new.csv", index=False)
    assert call("predict homes.pbp new.csv -o out.xlsx -q") == 0
    assert values("out.xlsx", "id") == folder["id"].tolist()


def fails(capfd: Captured, line: str, code: int, *fragments: str) -> None:
    capfd.readouterr()
    assert call(line) == code
    err = capfd.readouterr().err.splitlines()[-1]
    for fragment in ("error: ", "out.xlsx", *fragments):
        assert fragment in err
    assert not Path("out.xlsx").exists()
    assert not list(Path().glob(".probprop-*"))


@pytest.mark.parametrize("name", ["new.parquet", "new.csv.gz"])
def test_more_rows_than_a_sheet_has(
    folder: pd.DataFrame, name: str, limits: Limits, capfd: Captured
) -> None:
    """Their number is known before the first row is predicted, or in a packed file is not."""
    if name == "new.parquet":
        folder.to_parquet(name, index=False)
    else:
        folder.to_csv(name, index=False)
    limits.rows_of_a_sheet(5)
    limits.chunks_of(2)
    words = "at most 4 rows besides the header", "write to a .csv or .parquet file"
    fails(capfd, f"predict homes.pbp {name} -o out.xlsx", 1, *words)


def test_more_columns_and_longer_texts_than_a_sheet_has(
    folder: pd.DataFrame, capfd: Captured
) -> None:
    folder.assign(note="a" * 32_768).to_csv("new.csv", index=False)
    words = "at most 32,767 characters", "'aaaaaaaaaaaaaaaaaaaa' has 32,768"
    fails(capfd, "predict homes.pbp new.csv -o out.xlsx", 1, *words)
    more = pd.DataFrame(0, folder.index, [f"c{i}" for i in range(16_384)])
    pd.concat([folder, more], axis=1).to_csv("new.csv", index=False)
    fails(capfd, "predict homes.pbp new.csv -o out.xlsx", 1, "at most 16,384 columns")


def test_without_openpyxl_the_extra_is_named(
    folder: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    folder.to_csv("new.csv", index=False)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert call("predict homes.pbp new.csv -o out.xlsx") == 1
    assert "need openpyxl: pip install 'probprop[cli]'" in capfd.readouterr().err
