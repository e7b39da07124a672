"""Fits on files block by block: the same columns as in memory, and errors that name the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState

from block_rows import same
from limits import Limits
from probprop import PBPClassifier, PBPRegressor, fit
from probprop.data.fitting import columnwise, rows_here, rows_numbered, source_of
from probprop.data.scratch import LEAST
from probprop.data.shards import Kept, numbers_out
from probprop.data.tables import TableReader
from probprop.table import TableModel, fit_table_model, read_table
from probprop.table.names import TableError
from probprop.table.read import memory_needed, paths_of, read_tables


def table(n: int = 300, seed: int = 0) -> pd.DataFrame:
    random = RandomState(seed)
    frame = pd.DataFrame(
        {
            "city": random.choice(["Rome", "Oslo", "Lima, north"], n),
            "area": random.uniform(20.0, 200.0, n).round(1),
            "new": random.choice([True, False], n),
            "sold": pd.Timestamp("2023-12-01") + pd.to_timedelta(random.randint(0, 90, n), "D"),
        }
    )
    frame["price"] = frame["area"] + 50.0 * frame["new"] + random.standard_normal(n).round(3)
    frame.loc[::11, "area"] = np.nan
    return frame


def write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)  # compressed where its name says so


def network(**options: Any) -> PBPRegressor:
    return PBPRegressor((5,), n_epochs=2, missing="marginalize", random_state=0, **options)


@pytest.fixture
def small_chunks(limits: Limits) -> None:
    limits.chunks_of(70)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
@pytest.mark.usefixtures("small_chunks")
def test_files_that_fit_give_the_model_of_memory_bit_for_bit(tmp_path: Path, suffix: str) -> None:
    frame = table()
    write(frame[:130], tmp_path / f"a.{suffix}")
    write(frame[130:], tmp_path / f"b.{suffix}")
    model = fit(network(), str(tmp_path / f"*.{suffix}"), target="price")
    assert isinstance(model, TableModel)
    together = read_tables(paths_of(str(tmp_path / f"*.{suffix}")))
    own = fit_table_model(together, "price", estimator=network())
    assert model.encoded_names == own.encoded_names
    assert same(model.estimator.posterior_, own.estimator.posterior_)
    assert np.array_equal(model.predict(frame), own.predict(frame))


@pytest.mark.usefixtures("small_chunks", "on_disk")
def test_on_disk_text_and_parquet_are_the_same_rows(tmp_path: Path) -> None:
    frame = table()
    write(frame, tmp_path / "rows.csv")
    write(frame[:7], tmp_path / "0.parquet")
    write(frame[7:], tmp_path / "1.parquet")
    from_text = fit(network(), tmp_path / "rows.csv", target="price")
    from_parquet = fit(network(), tmp_path / "*.parquet", target="price")
    assert isinstance(from_text, TableModel)
    assert isinstance(from_parquet, TableModel)
    assert from_text.encoder.encoders_ == from_parquet.encoder.encoders_
    assert same(from_text.estimator.posterior_, from_parquet.estimator.posterior_)


@pytest.mark.usefixtures("small_chunks", "on_disk")
def test_classes_that_are_sorted_by_file_and_rows_without_target(tmp_path: Path) -> None:
    frame = table(400)
    frame["price"] = np.where(frame["price"] > 120.0, "dear", "cheap")
    frame = frame.sort_values("price", ignore_index=True)
    frame.loc[[3, 399], "price"] = None
    write(frame[:200], tmp_path / "a.csv")
    write(frame[200:], tmp_path / "b.csv")
    estimator = PBPClassifier((5,), n_epochs=2, missing="marginalize", random_state=0)
    model = fit(estimator, tmp_path, target="price")  # all tables of a folder
    assert isinstance(model, TableModel)
    assert model.classes is not None
    assert model.classes.tolist() == ["cheap", "dear"]
    assert model.estimator.n_samples_seen_ == 398


def test_features_of_numbers_alone_give_an_ordinary_estimator(tmp_path: Path) -> None:
    frame = table()[["area", "price"]].dropna()
    write(frame, tmp_path / "rows.csv")
    model = fit(network(), tmp_path / "rows.csv", target="price")
    assert isinstance(model, PBPRegressor)
    assert model.feature_names_in_.tolist() == ["area"]
    assert np.array_equal(
        model.predict(frame[["area"]]),
        network().fit(frame[["area"]], frame["price"]).predict(frame[["area"]]),
    )


def test_the_month_may_come_first(tmp_path: Path) -> None:
    days = pd.date_range("2024-01-01", periods=60)
    frame = pd.DataFrame({"day": days.strftime("%m/%d/%Y"), "y": np.arange(60.0)})
    write(frame, tmp_path / "rows.csv")
    model = fit(network(), tmp_path / "rows.csv", target="y")
    assert isinstance(model, TableModel)
    assert model.encoder["day"].order == "month"


def test_validation_rows_are_drawn_from_all_files(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(1000.0), "y": np.arange(1000.0)})
    write(frame, tmp_path / "rows.csv")
    source = source_of(network(), tmp_path / "rows.csv", columnwise("y"))
    with rows_here(source, network(), LEAST, Kept(0.2, 100)) as rows:
        held_out = rows_numbered(source, rows, numbers_out(rows.known))
        assert len(held_out) == 100
        both = np.concatenate([rows.loaded.X[:, 0], held_out["x"]])  # type: ignore[union-attr]
        assert np.array_equal(np.sort(both), frame["x"])
        assert held_out["y"].max() - held_out["y"].min() > 900.0


# ---- What is wrong with a file


def damaged(frame: pd.DataFrame, how: str) -> pd.DataFrame:
    match how:
        case "column":
            return frame.drop(columns="new")
        case "type":
            return frame.assign(area="large")
        case "infinite":
            return frame.assign(area=np.inf)
        case "empty":
            return frame[:0]
    raise AssertionError(how)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("column", r"b\.{suffix}.* has no column 'new'"),
        ("type", r"Column 'area' has text in .*b\.{suffix}.*, but numbers in .*a\.{suffix}"),
        ("infinite", r"b\.{suffix}.*Column 'area' must contain finite numbers"),
        ("empty", r"b\.{suffix}.* no rows"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, suffix: str, how: str, words: str) -> None:
    write(table(), tmp_path / f"a.{suffix}")
    write(damaged(table(), how), tmp_path / f"b.{suffix}")
    with pytest.raises(TableError, match=words.replace("{suffix}", suffix)):
        fit(network(), str(tmp_path / f"*.{suffix}"), target="price")


def test_missing_values_are_refused_by_networks_that_do_not_accept_them(tmp_path: Path) -> None:
    write(table(), tmp_path / "a.csv")
    strict = PBPRegressor((5,), n_epochs=2, random_state=0)
    with pytest.raises(TableError, match=r"a\.csv.*Missing values in column 'area'"):
        fit(strict, tmp_path / "a.csv", target="price")


def test_no_file_and_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no file matches"):
        fit(network(), str(tmp_path / "*.parquet"), target="price")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(TableError, match=r"a\.parquet is damaged"):
        fit(network(), tmp_path / "a.parquet", target="price")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match="has no tables in it"):
        fit(network(), tmp_path / "empty", target="price")


@pytest.mark.parametrize("change", ["fewer", "gone"])
def test_a_file_that_changes_between_two_reads_is_named(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    write(table(), path)
    source = source_of(network(), path, columnwise("price"))
    agree = TableReader.agree

    def then_change(self: TableReader, surveys: Any) -> Any:
        if change == "gone":
            path.unlink()
        else:
            write(table(200), path)
        return agree(self, surveys)

    monkeypatch.setattr(TableReader, "agree", then_change)
    words = r"a\.csv.*(no such file|300 in the first pass is .*rows 1 to 200 in a later)"
    with pytest.raises(ValueError, match=words), rows_here(source, network(), LEAST):
        pass


# ---- Several files as one table, and what they take


def test_several_files_are_one_table_or_refused_by_name(tmp_path: Path) -> None:
    frame = table()
    write(frame[:100], tmp_path / "a.csv")
    write(frame[100:], tmp_path / "b.csv")
    write(frame, tmp_path / "all.csv")
    both = read_tables([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    pd.testing.assert_frame_equal(both, read_table(tmp_path / "all.csv"))
    write(frame.assign(area="x"), tmp_path / "c.csv")
    with pytest.raises(TableError, match=r"has text in .*c\.csv, but numbers in .*a\.csv"):
        read_tables([str(tmp_path / "a.csv"), str(tmp_path / "c.csv")])
    write(frame.drop(columns="new"), tmp_path / "d.csv")
    with pytest.raises(TableError, match=r"d\.csv has no column 'new'"):
        read_tables([str(tmp_path / "a.csv"), str(tmp_path / "d.csv")])


def test_what_a_table_takes_grows_with_it(tmp_path: Path) -> None:
    frame = pd.DataFrame(RandomState(0).standard_normal((5000, 4)))
    frame.columns = [f"x{i}" for i in range(4)]
    for name in ("a.csv", "a.parquet", "a.csv.gz"):
        write(frame, tmp_path / name)
        found = memory_needed([str(tmp_path / name)])
        assert 2 * frame.size * 8 < found < 30 * frame.size * 8
    assert memory_needed(["-", str(tmp_path / "absent.csv")]) == 0
