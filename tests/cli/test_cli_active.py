"""`probprop active` as it is run every week: what it prints, what it writes, what it keeps."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_tables import call, fails, homes
from probprop import PBPClassifier, PBPRegressor
from probprop.active import ActiveLearner
from probprop.cli import active as command

MARKS = ["probprop_ask", "probprop_mean", "probprop_std", "probprop_epistemic_std"]
OPTIONS = "--target price --drop id --hidden-layer-sizes 10 --n-epochs 5"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_pool(n: int = 120, n_measured: int = 40) -> pd.DataFrame:
    """The current folder's pool.csv: every third row measured until there are enough."""
    table = homes(n)
    table.loc[~table.index.isin(range(0, 3 * n_measured, 3)), "price"] = np.nan
    table.to_csv("pool.csv", index=False)
    return table


def read_text(path: str) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)


# ---- What it prints and writes


def test_the_rows_match_the_learner(capfd: Captured) -> None:
    table = write_pool()
    before = Path("pool.csv").read_bytes()
    assert call(f"active --fast pool.csv {OPTIONS} --ask 5") == 0
    out, err = capfd.readouterr()
    assert "fitted on 40 rows with a 'price'; of the 80 rows without, measure these next:" in err
    assert "wrote pool.asked.csv: 5 rows marked in probprop_ask; pool.csv is as it was" in err
    assert Path("pool.csv").read_bytes() == before

    features = [table[k].astype(float) for k in ("rooms", "area", "new", "fixed")]
    cities = [(table["city"] == city).astype(float) for city in sorted(set(table["city"]))]
    X = np.column_stack([*cities, *features])
    measured = table["price"].notna().to_numpy()
    learner = ActiveLearner(PBPRegressor(10, n_epochs=5, random_state=0), random_state=0)
    learner.tell(X[measured], table["price"][measured])
    expected = np.flatnonzero(~measured)[learner.ask(X[~measured], 5)]

    marked = pd.read_csv("pool.asked.csv")
    assert list(marked) == [*table, *MARKS]
    asked = marked[marked["probprop_ask"].notna()].sort_values("probprop_ask")
    assert asked["probprop_ask"].tolist() == [1, 2, 3, 4, 5]
    assert asked.index.tolist() == expected.tolist()
    predicted = learner.estimator_.predict_distribution(X[~measured])
    for name, values in zip(
        MARKS[1:], (predicted.mean, predicted.std, predicted.epistemic_std), strict=True
    ):
        np.testing.assert_allclose(marked[name][~measured], values, rtol=1e-5)
        assert marked[name][measured].isna().all()

    lines = out.splitlines()
    assert lines[0].split() == [
        "row",
        "id",
        "city",
        "rooms",
        "area",
        "new",
        "fixed",
        "mean",
        "std",
        "epistemic_std",
    ]
    assert [int(line.split()[0]) for line in lines[1:]] == [i + 1 for i in expected]
    assert [line.split()[1] for line in lines[1:]] == table["id"][expected].tolist()


def test_no_cell_of_the_users_table_is_changed() -> None:
    """Numbers keep their zeros, the file its delimiter, its byte-order mark and line ends."""
    rows = ["id;name;x;note;y"]
    rows += [f'{i:03d};"a;{i % 3}";{i}.50;NA;{"1.250" if i < 9 else ""}' for i in range(20)]
    text = "".join(f"{row}\r\n" for row in rows)
    Path("pool.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    line = "active --fast pool.csv --target y --features x --n-epochs 2 -q"
    assert call(line) == 0
    marked = Path("pool.asked.csv").read_bytes()
    assert marked.startswith(b"\xef\xbb\xbf")
    lines = marked.decode("utf-8-sig").split("\r\n")
    assert [re.sub(r"(;[^;]*){4}$", "", line) for line in lines] == text.split("\r\n")
    # In place, twice: the columns of the first run are replaced, not added to.
    assert call(f"{line} -o pool.csv") == 0
    assert Path("pool.csv").read_bytes() == marked
    assert call(f"{line} -o pool.csv") == 0
    assert Path("pool.csv").read_bytes() == marked


def test_other_formats_have_the_same_rows() -> None:
    table = write_pool()
    table.to_parquet("pool.parquet")
    assert call(f"active --fast pool.csv {OPTIONS} -q") == 0
    assert call(f"active --fast pool.csv {OPTIONS} -q -o out.tsv") == 0
    assert call(f"active --fast pool.csv {OPTIONS} -q -o out.parquet") == 0
    assert call(f"active --fast pool.parquet {OPTIONS} -q") == 0
    assert call(f"active --fast pool.parquet {OPTIONS} -q -o pool.parquet") == 0
    expected = pd.read_csv("pool.asked.csv")
    for frame in (
        pd.read_csv("out.tsv", sep="\t"),
        pd.read_parquet("out.parquet"),
        pd.read_parquet("pool.asked.parquet"),
        pd.read_parquet("pool.parquet"),
    ):
        assert list(frame) == list(expected)
        for name in MARKS:
            there = frame[name].astype(float)
            np.testing.assert_allclose(there, expected[name], rtol=1e-5)


def test_fit_never_learns_the_columns_that_active_wrote(capfd: Captured) -> None:
    write_pool()
    assert call(f"active --fast pool.csv {OPTIONS} -q") == 0
    line = "--target price --drop id --n-epochs 2 --fast"
    capfd.readouterr()
    assert call(f"fit pool.asked.csv {line} -o marked.pbp") == 0
    note = "note: Columns that `probprop active` wrote are not used as features: 'probprop_ask', "
    assert note in capfd.readouterr().err
    assert call(f"fit pool.csv {line} -o plain.pbp") == 0
    assert Path("marked.pbp").read_bytes() == Path("plain.pbp").read_bytes()
    named = "'probprop_mean', as `probprop active` writes it, which can be neither a feature nor"
    fails(capfd, 1, f"fit pool.asked.csv --features area,probprop_mean {line} -o m.pbp", named)
    fails(capfd, 1, "fit pool.asked.csv -q --fast --target probprop_mean -o m.pbp", named)


def test_weeks_on_one_growing_file() -> None:
    """Label the queried rows, add rows, run again: no row is ever queried twice."""
    truth = homes(90)
    write_pool(60, 8)
    known = set(np.flatnonzero(read_text("pool.csv")["price"] != ""))
    for week in range(1, 5):
        assert call(f"active --fast pool.csv {OPTIONS} --ask 4 -q -o pool.csv") == 0
        table = read_text("pool.csv")
        assert list(table) == [*truth, *MARKS]
        asked = np.flatnonzero(table["probprop_ask"] != "")
        assert len(asked) == 4
        assert not known & set(asked)
        assert (table["price"][asked] == "").all()
        known |= set(asked)
        table.loc[asked, "price"] = truth["price"][asked].astype(str)
        new = truth[60 + 5 * (week - 1) : 60 + 5 * week].astype(str).assign(price="")
        pd.concat([table, new]).to_csv("pool.csv", index=False)
    assert len(read_text("pool.csv")) == 80
    assert set(np.flatnonzero(read_text("pool.csv")["price"] != "")) == known


@pytest.mark.parametrize("strategy", ["variance_reduction", "variance", "thompson", "random"])
def test_the_same_seed_marks_the_same_rows(strategy: str) -> None:
    write_pool()
    line = f"active --fast pool.csv {OPTIONS} --strategy {strategy} -q"
    assert call(f"{line} -o one.csv --random-state 3") == 0
    assert call(f"{line} -o two.csv --random-state 3") == 0
    assert call(f"{line} -o three.csv --random-state 4") == 0
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()
    assert Path("one.csv").read_bytes() != Path("three.csv").read_bytes()


def test_a_large_pool_is_drawn_from_and_the_command_says_so(capfd: Captured) -> None:
    write_pool(1300, 40)
    assert call(f"active --fast pool.csv {OPTIONS}") == 0
    told = "from a random sample of 1,000 of the 1,254 different ones"  # six are copies
    assert told in capfd.readouterr().err
    assert call(f"active --fast pool.csv {OPTIONS} --strategy variance") == 0
    assert "random sample" not in capfd.readouterr().err
    write_pool(120, 40)
    assert call(f"active --fast pool.csv {OPTIONS} -o small.csv") == 0
    assert "random sample" not in capfd.readouterr().err


def test_a_category_that_was_never_measured_is_queried() -> None:
    table = homes(80)[["area", "city", "price"]]
    table["area"] = 50.0 + np.arange(80.0) % 10
    rome = table["city"] == "Rome"
    table.loc[rome | (table.index >= 60), "price"] = np.nan
    table.to_csv("pool.csv", index=False)
    assert call("active --fast pool.csv --target price --ask 1 -q") == 0
    marked = pd.read_csv("pool.asked.csv")
    assert marked["city"][marked["probprop_ask"] == 1].tolist() == ["Rome"]


# ---- What it refuses


def test_measurements_in_the_marked_file_are_never_overwritten(capfd: Captured) -> None:
    """A user who fills in the copy and runs the command on the original again would lose them."""
    write_pool()
    line = f"active --fast pool.csv {OPTIONS} -q"
    assert call(line) == 0
    assert call(line) == 0  # nothing filled in: replaced
    marked = read_text("pool.asked.csv")
    asked = marked["probprop_ask"] != ""
    marked.loc[asked, "price"] = ["1", "2", "3", "4", "5"]
    marked.to_csv("pool.asked.csv", index=False)
    before = Path("pool.asked.csv").read_bytes()
    fails(capfd, 1, line, "pool.asked.csv has 5 measurements of 'price' that pool.csv lacks")
    assert Path("pool.asked.csv").read_bytes() == before
    marked[list(homes(1))].to_csv("pool.csv", index=False)  # copied over
    assert call(line) == 0


def test_no_empty_row(capfd: Captured) -> None:
    homes(30).to_csv("full.csv", index=False)
    fails(
        capfd,
        1,
        "active --fast full.csv --target price",
        "full.csv has a 'price' in every",
        "add rows",
    )
    assert not list(Path().glob("*.asked.csv"))


def test_a_pool_of_one_and_a_batch_larger_than_the_pool(capfd: Captured) -> None:
    table = homes(20)
    table.loc[7, "price"] = np.nan
    table.to_csv("pool.csv", index=False)
    assert call(f"active --fast pool.csv {OPTIONS} --ask 1") == 0
    assert "note:" not in capfd.readouterr().err
    assert call(f"active --fast pool.csv {OPTIONS} --ask 3") == 0
    assert "note: --ask is 3, but only 1 new row can be measured" in capfd.readouterr().err
    assert np.flatnonzero(pd.read_csv("pool.asked.csv")["probprop_ask"] == 1).tolist() == [7]


def test_a_pool_of_measured_rows(capfd: Captured) -> None:
    pd.DataFrame({"x": [1, 2, 1, 2], "y": [3.0, 4.0, np.nan, np.nan]}).to_csv("p.csv", index=False)
    fails(
        capfd,
        1,
        "active --fast p.csv --target y",
        "p.csv has no row to measure",
        "rows that differ",
    )


def test_missing_features_are_marginalized(capfd: Captured) -> None:
    table = write_pool()
    table.loc[16, "area"] = np.nan
    table.to_csv("pool.csv", index=False)
    line = f"active --fast pool.csv {OPTIONS} --strategy thompson"
    fails(capfd, 1, line, "'area' (1 row)", "first in row 17")
    for strategy in ("variance_reduction", "variance", "random"):
        assert call(f"active --fast pool.csv {OPTIONS} --strategy {strategy}") == 0
        assert "rows have missing numbers, which are marginalized" in capfd.readouterr().err


def test_a_target_of_text(capfd: Captured) -> None:
    table = write_pool().astype({"price": object})
    table.loc[0, "price"] = "later"
    table.to_csv("pool.csv", index=False)
    fails(
        capfd,
        1,
        f"active --fast pool.csv {OPTIONS}",
        "Column 'price' must contain finite numbers",
        "'later' in row 1",
    )


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ("active --fast pool.csv", ["Missing option '--target'"]),
        ("active --fast pool.csv --target price --ask 0", ["--ask", "greater than or equal to 1"]),
        ("active --fast pool.csv --target price --strategy best", ["--strategy", "'thompson'"]),
        ("active --fast pool.csv --target price -o out.doc", ["out.doc", ".parquet, .pq, .xlsx"]),
        ("active - --target price", ["POOL", "path of a file"]),
    ],
)
def test_usage(capfd: Captured, arguments: str, fragments: list[str]) -> None:
    write_pool()
    fails(capfd, 2, arguments, *fragments)


def test_files_and_columns_that_are_not_there(capfd: Captured) -> None:
    write_pool()
    fails(capfd, 1, "active --fast no.csv --target price", "no.csv", "no such file")
    fails(capfd, 1, "active --fast pool.csv --target cost", "has no column 'cost'")
    fails(
        capfd,
        1,
        f"active --fast pool.csv {OPTIONS} -o nowhere/o.csv",
        "no folder",
        "make it first",
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_failure_while_writing_leaves_the_table(
    capfd: Captured, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    write_pool().to_parquet("pool.parquet")
    before = Path(f"pool.{suffix}").read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)  # after all was written, before the rename
    line = f"active --fast pool.{suffix} {OPTIONS} -o pool.{suffix}"
    fails(capfd, 1, line, f"pool.{suffix}: no space left on device", "that file was not changed")
    assert Path(f"pool.{suffix}").read_bytes() == before
    assert not list(Path().glob(".probprop-*"))


def test_the_help_has_an_example(capfd: Captured) -> None:
    assert call("active --help") == 0
    out = capfd.readouterr().out
    assert re.search(r"^  Examples:\n    probprop active", out, re.MULTILINE)
    for name in command.MARKS:
        assert name in out


# ---- Before anything is measured


def test_the_first_rows_are_spread_over_the_pool(capfd: Captured) -> None:
    """Four groups of unequal size: four rows, one of each; random rows would miss a group."""
    rng = np.random.RandomState(0)
    corner = np.repeat(np.arange(4), (60, 30, 20, 10))
    X = np.column_stack([corner % 2, corner // 2]) * 10.0 + 0.1 * rng.standard_normal((120, 2))
    order = rng.permutation(120)
    table = pd.DataFrame(X[order], columns=["a", "b"]).round(3).assign(y=np.nan)
    table.to_csv("pool.csv", index=False)
    assert call("active pool.csv --target y --ask 4") == 0
    out, err = capfd.readouterr()
    assert "no row has 'y', so no model is fitted; of the 120 rows without, measure these" in err
    assert "chosen to cover the range of their features" in err
    marked = pd.read_csv("pool.asked.csv")
    assert list(marked) == [*table, "probprop_ask"]
    asked = np.flatnonzero(marked["probprop_ask"].notna())
    assert sorted(corner[order][asked]) == [0, 1, 2, 3]
    assert [int(line.split()[0]) - 1 for line in out.splitlines()[1:]] == sorted(
        asked, key=lambda i: marked["probprop_ask"][i]
    )
    learner = ActiveLearner(PBPRegressor(), random_state=0)  # the same from Python
    assert set(learner.ask(table[["a", "b"]].to_numpy(), 4)) == {*asked}
    assert call("active pool.csv --target y --ask 4 --strategy random") == 0
    assert "chosen at random" in capfd.readouterr().err
    # What is measured then is learned in the next run.
    table.loc[asked, "y"] = [1.0, 2.0, 3.0, 4.0]
    table.to_csv("pool.csv", index=False)
    assert call("active pool.csv --target y --fast --n-epochs 2 --ask 4 -o next.csv") == 0
    assert "fitted on 4 rows with a 'y'" in capfd.readouterr().err
    assert not {*asked} & {*np.flatnonzero(pd.read_csv("next.csv")["probprop_ask"].notna())}


# ---- Classes


def write_labels(n: int = 150, n_known: int = 30) -> pd.DataFrame:
    rng = np.random.RandomState(1)
    table = pd.DataFrame(rng.standard_normal((n, 2)).round(3), columns=["a", "b"])
    kind = np.where(table["a"] > 0.0, "cat", np.where(table["b"] > 0.0, "dog", "=bird"))
    table["kind"] = pd.Series(kind).where(rng.permutation(n) < n_known)
    table.to_csv("pool.csv", index=False)
    return table


@pytest.mark.parametrize("strategy", ["variance_reduction", "variance"])
def test_classes(strategy: str, capfd: Captured) -> None:
    table = write_labels()
    line = f"active pool.csv --target kind --fast --n-epochs 5 --strategy {strategy}"
    assert call(line) == 0
    out, err = capfd.readouterr()
    assert "'kind' has text: classification" in err
    assert "fitted on 30 rows with a 'kind'; of the 120 rows without, measure these next:" in err
    assert out.splitlines()[0].split() == ["row", "a", "b", "class", "probability", "entropy_model"]
    known = table["kind"].notna().to_numpy()
    X = table[["a", "b"]].to_numpy()
    learner = ActiveLearner(PBPClassifier(n_epochs=5, random_state=0), strategy, random_state=0)
    learner.tell(X[known], table["kind"][known].to_numpy(str))
    expected = np.flatnonzero(~known)[learner.ask(X[~known], 5)]
    marked = pd.read_csv("pool.asked.csv")
    names = ["probprop_class", "probprop_probability", "probprop_entropy_model"]
    assert list(marked) == [*table, "probprop_ask", *names]
    asked = marked[marked["probprop_ask"].notna()].sort_values("probprop_ask")
    assert asked.index.tolist() == expected.tolist()
    predicted = learner.estimator_.predict_distribution(X[~known])
    assert (
        marked["probprop_class"][~known].tolist() == learner.estimator_.predict(X[~known]).tolist()
    )
    np.testing.assert_allclose(marked[names[1]][~known], predicted.proba.max(axis=1), rtol=1e-5)
    np.testing.assert_allclose(marked[names[2]][~known], predicted.entropy_model, rtol=1e-4)
    assert marked.loc[known, names].isna().all(axis=None)
    # Again, in place: the columns are replaced, and are not features.
    assert call(f"{line} -o pool.csv -q") == 0
    assert call(f"{line} -o pool.csv -q") == 0
    assert Path("pool.csv").read_bytes() == Path("pool.asked.csv").read_bytes()


def test_hyperparameters_of_a_classifier_are_selected(capfd: Captured) -> None:
    write_labels(60, 24)
    assert call("active pool.csv --target kind --budget fast --ask 2") == 0
    err = capfd.readouterr().err
    assert "selected: " in err
    assert "wrote pool.asked.csv: 2 rows marked" in err


def test_one_class_so_far_is_no_model(capfd: Captured) -> None:
    table = write_labels(40, 40)
    table.loc[table["kind"] != "cat", "kind"] = None
    table.to_csv("pool.csv", index=False)
    assert call("active pool.csv --target kind --fast") == 0
    assert "only one class is observed in 'kind', so no model is fitted" in capfd.readouterr().err
    assert "probprop_class" not in pd.read_csv("pool.asked.csv")


def test_two_whole_numbers_are_classes_once_they_repeat(capfd: Captured) -> None:
    table = homes(30)[["rooms", "area"]].assign(y=np.nan)
    for filled, is_class in (([3.0, 8.0], False), ([3.0, 8.0, 8.0, 3.0], True)):
        table.loc[: len(filled) - 1, "y"] = filled
        table.to_csv("pool.csv", index=False)
        assert call("active pool.csv --target y --fast --n-epochs 2 -o out.csv") == 0
        assert ("probprop_class" in pd.read_csv("out.csv")) == is_class
        assert ("only 3 and 8: classification" in capfd.readouterr().err) == is_class
    assert call("active pool.csv --target y --task regression --fast --n-epochs 2 -o out.csv") == 0
    assert "probprop_mean" in pd.read_csv("out.csv")


def test_classes_have_no_largest(capfd: Captured) -> None:
    write_labels()
    line = "active pool.csv --target kind --fast --strategy thompson -q"
    fails(capfd, 2, line, "--strategy", "'kind' has classes", "choose another")


def test_measurements_that_differ_in_the_last_digit_are_not_lost(capfd: Captured) -> None:
    table = write_pool()
    assert call(f"active --fast pool.csv {OPTIONS} -q") == 0
    marked = pd.read_csv("pool.asked.csv")
    measured = float(table["price"].dropna().iloc[0])
    marked.loc[marked["price"] == measured, "price"] = measured + 1e-4
    marked.to_csv("pool.asked.csv", index=False)
    line = f"active --fast pool.csv {OPTIONS} -q"
    fails(capfd, 1, line, "'price' that pool.csv lacks", f"such as {measured + 1e-4!r}")


def test_labels_typed_into_the_copy_are_not_lost(capfd: Captured) -> None:
    table = write_labels()
    assert call("active pool.csv --target kind --fast --n-epochs 2 -q") == 0
    marked = pd.read_csv("pool.asked.csv")
    marked.loc[marked.index[table["kind"].isna()][0], "kind"] = "dog"
    marked.to_csv("pool.asked.csv", index=False)
    line = "active pool.csv --target kind --fast --n-epochs 2 -q"
    fails(capfd, 1, line, "has 1 measurement of 'kind' that pool.csv lacks, such as dog")


# ---- Excel


def test_a_workbook_has_the_same_rows_and_is_not_replaced(capfd: Captured) -> None:
    table = write_pool()
    table.to_excel("pool.xlsx", index=False)
    assert call(f"active --fast pool.csv {OPTIONS} -q") == 0
    assert call(f"active --fast pool.csv {OPTIONS} -q -o out.xlsx") == 0
    assert call(f"active --fast pool.xlsx {OPTIONS} -q") == 0
    expected = pd.read_csv("pool.asked.csv")
    for path in ("out.xlsx", "pool.asked.xlsx"):
        frame = pd.read_excel(path, engine="openpyxl", dtype={"id": str})
        assert list(frame) == list(expected)
        assert frame["id"].tolist() == table["id"].tolist()  # with its zeros
        assert frame["area"].tolist() == table["area"].tolist()
        for name in MARKS:
            np.testing.assert_allclose(frame[name].astype(float), expected[name], rtol=1e-5)
    line = f"active --fast pool.xlsx {OPTIONS} -o pool.xlsx"
    fails(capfd, 1, line, "would replace the workbook", "such as pool.asked.xlsx")
