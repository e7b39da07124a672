"""Awkward tables: each is fitted, predicted and reported on without an option."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probprop
from awkward_tables import flats, write_awkward
from cli_tables import call
from limits import Limits
from probprop.table import TableError, fit_table_model, iter_table, read_table

pytestmark = pytest.mark.usefixtures("in_tmp_path")

Captured = pytest.CaptureFixture[str]

FIT = "--target price --drop id --fast --n-epochs 2 --hidden-layer-sizes 4"
NOTES = {
    "gzip": "(gzip, delimiter: comma)",
    "bzip2": "(bzip2, delimiter: comma)",
    "xz": "(xz, delimiter: comma)",
    "decimal comma": "(delimiter: semicolon, decimal comma)",
    "all of Europe": "(Windows-1252, delimiter: semicolon, decimal comma)",
    "mark": "dates in 'sold' are encoded as year, and",
    "index": "dropped 1 column without a name",
    "bar": "(delimiter: bar)",
    "Windows-1252": "(Windows-1252, delimiter: comma)",
    "UTF-16": "(UTF-16, delimiter: comma)",
    "UTF-32": "(UTF-32, delimiter: comma)",
    "JSON": "(JSON)",
    "list": "(JSON)",
    "sheet": "(spreadsheet, sheet 'Flats')",
    "dates in a sheet": "dates in 'sold' are encoded as year, and",
    "gaps": "dropped 2 rows without 'price'",
    "empty column": "dropped 'note': it has no value",
    "moments": "dates in 'sold' are encoded as year, and",
    "parquet": "dates in 'sold' are encoded as year, and",
}
# The other kinds are read as the same table as "gzip".
REPORTED = {"gzip", "mark", "index", "gaps", "empty column", "moments", "dates in a sheet"}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_awkward(tmp_path_factory.mktemp("awkward"))


def test_every_kind_is_listed(paths: dict[str, Path]) -> None:
    assert paths.keys() == NOTES.keys()


@pytest.mark.parametrize("kind", NOTES)
def test_it_fits_predicts_and_reports(kind: str, paths: dict[str, Path], capfd: Captured) -> None:
    path, report = paths[kind], "--report r.html" * (kind in REPORTED)
    assert call(f"fit {path} {FIT} --test-fraction 0 -o m.pbp {report}") == 0
    assert not report or Path("r.html").stat().st_size > 10_000
    assert f"{NOTES[kind]}" in capfd.readouterr().err
    assert call(f"predict m.pbp {path} -o out.pq -q") == 0
    expected = flats()
    if kind not in ("gaps", "moments"):
        model = fit_table_model(
            expected, "price", drop=["id"], estimator=probprop.load("m.pbp").estimator
        )
        assert_allclose(pd.read_parquet("out.pq")["mean"], model.predict(expected), rtol=1e-9)
    assert call(f"evaluate m.pbp {path} -q") == 0
    assert call(f"update m.pbp {path} -q") == 0


def test_dates_become_the_parts_that_vary(paths: dict[str, Path]) -> None:
    parts = ["year", "season_sin", "season_cos", "weekday_sin", "weekday_cos"]
    names = [f"sold.{part}" for part in parts]
    when = pd.to_datetime(flats()["sold"])
    season = (when.dt.day_of_year - 1) / np.where(when.dt.is_leap_year, 366, 365)
    angles = [2.0 * np.pi * season, 2.0 * np.pi * when.dt.day_of_week / 7.0]
    waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    for kind in ("gzip", "parquet", "moments", "sheet", "dates in a sheet"):
        model = fit_table_model(read_table(paths[kind]), "price", drop=["id"])
        assert [k for k in model.encoded_names if k.startswith("sold")] == names
        start = model.encoded_names.index(names[0])
        X = model.encode(read_table(paths[kind]))[:, start : start + 5]
        if kind != "moments":  # they are hours later
            expected = np.column_stack([when.dt.year + season, *waves])
            assert_allclose(X, expected, rtol=1e-12, atol=1e-15)
    model.save("m.pbp")
    loaded = probprop.load("m.pbp")
    assert loaded.encoder.encoders_ == model.encoder.encoders_
    assert_array_equal(loaded.predict(flats()), model.predict(flats()))
    missing = flats()[:1].assign(sold=None)
    assert np.isnan(model.encode(missing)[:, start : start + 5]).all()
    with pytest.raises(
        TableError, match="must contain dates such as 2024-05-31, but has '2023-02-30'"
    ):
        model.encode(flats()[:1].assign(sold="2023-02-30"))


def test_chunks_of_awkward_files_match_the_plain_one(paths: dict[str, Path]) -> None:
    kinds = {"area": "number", "price": "number"}
    plain = flats()[["id", "town", "area", "price"]]
    for kind in ("gzip", "decimal comma", "Windows-1252", "UTF-32", "JSON", "sheet"):
        chunks = list(iter_table(paths[kind], chunk_rows=7, kinds=kinds))
        assert len(chunks) == 9
        found = pd.concat(chunks)[list(plain)]
        assert (found["town"] == plain["town"]).all()
        assert_array_equal(found[["area", "price"]], plain[["area", "price"]])
        assert found["id"].tolist()[0] == "0000"


def test_an_unknown_category_is_as_wide_as_a_missing_one() -> None:
    model = fit_table_model(flats(), "price", drop=["id"])
    row = flats()[:1]
    known, missing = (model.predict_distribution(row.assign(town=k)) for k in ("Rom", None))
    with pytest.warns(UserWarning, match="they are treated as missing"):
        unknown = model.predict_distribution(row.assign(town="Bonn"))
    assert unknown.epistemic_std == missing.epistemic_std > known.epistemic_std
    assert unknown.mean == missing.mean


def test_na_is_kept_by_the_model(capfd: Captured) -> None:
    frame = flats().astype({"town": object, "area": object})
    frame.loc[:5, "area"], frame.loc[3:9, "town"] = -999, "x"
    frame.to_csv("t.csv", index=False)
    assert call(f"fit t.csv {FIT} --na x,-999 -o m.pbp") == 0
    assert "6 of 60 rows have missing numbers" in capfd.readouterr().err
    model = probprop.load("m.pbp")
    assert model.na == ("x", "-999")
    assert model.categories["town"] == [*sorted({*flats()["town"]}), "(missing)"]
    assert call("predict m.pbp t.csv -o out.pq -q") == 0
    empty = frame.replace({"area": {-999: np.nan}, "town": {"x": None}})
    assert_array_equal(pd.read_parquet("out.pq")["mean"], model.predict(empty))


def test_a_column_of_rare_categories_is_dropped(capfd: Captured) -> None:
    names = [f"n{i % 901}" for i in range(2100)]
    frame = pd.DataFrame({"name": names, "x": np.arange(2100.0) % 7, "y": np.arange(2100.0)})
    frame.to_csv("t.csv", index=False)
    assert call("fit t.csv --target y --fast --n-epochs 1 --test-fraction 0 -o m.pbp") == 0
    said = capfd.readouterr().err
    assert "dropped 'name': its 901 distinct values are all rare" in said
    assert probprop.load("m.pbp").features == ["x"]


def test_names_with_commas_and_long_names(capfd: Captured) -> None:
    frame = flats()[["area", "price"]].assign(**{"A, B": 1.0, "c": 2.0, "x" * 200_000: 3.0})
    frame.to_csv("t.csv", index=False)
    from probprop.cli.application import run

    fit = ["fit", "t.csv", "--target", "price", "--fast", "--n-epochs", "1", "-o", "m.pbp"]
    assert run([*fit, "--drop", "A, B", "--drop", "c"]) == 0
    assert probprop.load("m.pbp").features == ["area", "x" * 200_000]


def test_predict_leaves_cells_as_they_were(capfd: Captured, limits: Limits) -> None:
    lines = [
        "id,town,area,lift,sold,version",
        '007,"Rom, ""south""",3.10,True,2023-01-05,1e3',
        "008,Oslo,50.0,FALSE,2023-01-05,NA",
        "009,,60,true,,",
    ]
    Path("new.csv").write_text("\n".join(lines) + "\n")
    flats().to_csv("t.csv", index=False)
    assert call(f"fit t.csv {FIT} -o m.pbp -q") == 0
    limits.chunks_of(2)
    assert call("predict m.pbp new.csv -o out.csv -q") == 0
    written = Path("out.csv").read_text().splitlines()
    assert all(new.startswith(f"{old},") for new, old in zip(written, lines, strict=True))
    for number in written[1].split(",")[-6:]:
        assert len(number.strip("-").replace(".", "").lstrip("0")) <= 6
    capfd.readouterr()
    assert call("predict m.pbp new.csv --columns std,id -q") == 0
    found = [line.split(",") for line in capfd.readouterr().out.splitlines()]
    assert [row[1] for row in found] == ["id", "007", "008", "009"]
    assert found[0] == ["std", "id"]
    assert call("predict m.pbp new.csv --columns std,ID -q") == 2
    assert "no column 'ID'" in capfd.readouterr().err


def test_a_decimal_comma_is_kept_in_later_commands(paths: dict[str, Path]) -> None:
    assert call(f"fit {paths['decimal comma']} {FIT} -o m.pbp -q") == 0
    assert call(f"predict m.pbp {paths['decimal comma']} -o out.csv -q") == 0
    frame = pd.read_csv("out.csv", sep=";", decimal=",")
    assert_array_equal(frame["area"], flats()["area"])
    model = probprop.load("m.pbp").predict_distribution(flats())
    assert (np.abs(frame["mean"] - model.mean) <= 1e-3 * model.std).all()


def test_active_takes_them_too(tmp_path: Path) -> None:
    frame = flats()
    frame.loc[frame.index % 3 == 0, "price"] = np.nan
    for kind, path in write_awkward(tmp_path, frame).items():
        options = (
            "--target price --drop id --ask 2 --fast --n-epochs 1 --hidden-layer-sizes 2 -o out.pq"
        )
        assert call(f"active {path} {options} -q") == 0, kind
        written = pd.read_parquet("out.pq")
        assert len(written) == len(frame), kind
        Path("out.pq").unlink()
