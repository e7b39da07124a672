"""Tables with empty cells: refused in words, or marginalized by every command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("typer", reason="the command needs the extra cli")

import probprop
from cli_tables import call, homes
from limits import Limits
from probprop import PBPClassifier, PBPRegressor, metrics
from probprop.cli.training import hold_out
from probprop.table import TableError, fit_table_model, read_table

pytestmark = pytest.mark.usefixtures("here")

Captured = pytest.CaptureFixture[str]
CITIES = ("Lima, north", "Oslo", "Rome")
NAMES = [*(f"city={k}" for k in (*CITIES, "(missing)")), "rooms", "area", "new"]
FIT = "fit --fast gaps.csv --target price --n-epochs 2 --hidden-layer-sizes 5 -o m.pbp"


def gaps(n: int = 80) -> pd.DataFrame:
    """Some homes; a fifth of their cells are empty, but no price is."""
    frame = homes(n).drop(columns=["id", "fixed"]).astype({"rooms": float, "new": object})
    empty = np.random.RandomState(3).random_sample((n, 5)) < [0.2, 0.2, 0.2, 0.2, 0.0]
    return frame.mask(empty)


def by_hand(frame: pd.DataFrame) -> np.ndarray:
    """The columns of NAMES: a missing text is a category of its own."""
    plain = [frame[name].astype(float) for name in ("rooms", "area", "new")]
    one_hot = [frame["city"] == k for k in CITIES]
    return np.column_stack([*one_hot, frame["city"].isna(), *plain]).astype(float)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, and the model `FIT --missing marginalize`, which no test changes."""
    folder = tmp_path_factory.mktemp("gaps")
    frame = gaps()
    frame[:60].to_csv(folder / "gaps.csv", index=False)
    frame[60:].to_csv(folder / "new.csv", index=False)
    fit = FIT.replace("gaps.csv", str(folder / "gaps.csv")).replace("m.pbp", str(folder / "g.pbp"))
    assert call(f"{fit} --missing marginalize -q") == 0
    return folder


def regressor(missing: str = "marginalize") -> PBPRegressor:
    return PBPRegressor((5,), n_epochs=2, missing=missing, random_state=0)


# ---- The encoding


def test_an_empty_cell_is_missing_or_a_category() -> None:
    frame = gaps()
    assert frame.isna().any().tolist() == [True] * 4 + [False]
    model = fit_table_model(frame, "price", estimator=regressor())
    assert model.encoded_names == NAMES
    assert model.kinds == {"city": "text", "rooms": "number", "area": "number", "new": "boolean"}
    X = by_hand(frame)
    assert_array_equal(model.encode(frame), X, strict=True)
    direct = regressor().fit(X, frame["price"].to_numpy())
    assert_array_equal(model.predict_distribution(frame).std, direct.predict(X, return_std=True)[1])
    assert model.encoder.unknown(model.cells(frame)) == {}


def test_without_missing_values_nothing_changes() -> None:
    frame = gaps().dropna()
    one, other = (
        fit_table_model(frame, "price", estimator=regressor(missing)).predict_distribution(frame)
        for missing in ("error", "marginalize")
    )
    assert_array_equal(one.mean, other.mean)
    assert_array_equal(one.std, other.std)


def test_an_empty_row_is_a_row_of_which_nothing_is_known() -> None:
    # A linear model of independent features has the target's variance over the rows.
    frame = homes(600)[["area", "rooms"]].assign(price=lambda f: 1e3 * f["area"] + 2e4 * f["rooms"])
    linear = PBPRegressor((), missing="marginalize", random_state=0)
    model = fit_table_model(frame, "price", estimator=linear)
    empty = model.predict_distribution(frame[:1].assign(area=np.nan, rooms=np.nan))
    assert empty.std[0] == pytest.approx(frame["price"].std(), rel=0.05)
    assert empty.mean[0] == pytest.approx(frame["price"].mean(), rel=0.01)
    assert empty.std[0] > 10.0 * model.predict_distribution(frame).std.max()


# ---- The commands


def test_fit_counts_rows_with_missing_values(capfd: Captured) -> None:
    assert call(FIT) == 0
    n = int(gaps()[:60].drop(columns="city").isna().any(axis=1).sum())
    assert f"{n} of 60 rows have missing numbers, which are marginalized" in capfd.readouterr().err


def test_predict_in_chunks_takes_missing_values_and_na(limits: Limits) -> None:
    frame = gaps()[60:].reset_index(drop=True)
    frame.loc[3:5, "area"] = np.nan  # a whole chunk
    frame.astype({"area": object}).fillna({"area": "NA"}).to_csv("na.csv", index=False)
    assert (pd.read_csv("na.csv", keep_default_na=False)["area"] == "NA").sum() >= 3
    limits.chunks_of(3)
    assert call("predict g.pbp na.csv -o out.pq -q") == 0
    written = pd.read_parquet("out.pq")
    expected = probprop.load("g.pbp").estimator.predict_distribution(by_hand(frame))
    assert_allclose(written["mean"], expected.mean, rtol=1e-12)
    assert_allclose(written["std"], expected.std, rtol=1e-12)


def test_parquet_has_its_own_missing_values() -> None:
    frame = gaps()[60:].astype({"rooms": "Int64", "new": "boolean", "city": "string"})
    frame.to_parquet("new.parquet")
    assert call("predict g.pbp new.parquet -o out.parquet -q") == 0
    expected = probprop.load("g.pbp").estimator.predict(by_hand(gaps()[60:]))
    assert_array_equal(pd.read_parquet("out.parquet")["mean"], expected)


def test_evaluate_update_and_info(capfd: Captured) -> None:
    old = probprop.load("g.pbp")
    X, y = by_hand(gaps()[60:]), gaps()[60:]["price"].to_numpy()
    assert call("evaluate g.pbp new.csv --json") == 0
    found = json.loads(capfd.readouterr().out)
    expected = metrics.summary(y, old.estimator.predict_distribution(X))
    assert {k: found[k] for k in expected} == expected
    assert set(found) - set(expected) == {"rows", "baseline", "left_out", "verdict"}
    Path("u.pbp").write_bytes(Path("g.pbp").read_bytes())
    assert call("update u.pbp new.csv -q") == 0
    again = probprop.load("u.pbp").estimator
    assert_array_equal(again.predict(X), old.estimator.partial_fit(X, y).predict(X))
    assert call("info g.pbp") == 0
    shown = capfd.readouterr().out
    assert "Missing values" in shown
    assert "marginalized" in shown


def test_the_report_of_rows_with_missing_values() -> None:
    frame = gaps()[60:].assign(rooms=np.nan)  # a feature without any value on these rows
    frame.to_csv("roomless.csv", index=False)
    assert call("evaluate g.pbp roomless.csv -q --report r.html") == 0
    page = Path("r.html").read_text()
    assert "Missing values" in page
    assert "different values of area" in page
    assert "different values of rooms" not in page


def test_classes_take_missing_values() -> None:
    options = "--target city --missing marginalize -q -o c.pbp"
    frame = gaps().dropna(subset="city")
    frame.to_csv("cities.csv", index=False)
    assert call(f"fit --fast cities.csv --n-epochs 2 --hidden-layer-sizes 5 {options}") == 0
    model = probprop.load("c.pbp")
    assert type(model.estimator) is PBPClassifier
    assert call("predict c.pbp cities.csv -o out.pq -q") == 0
    proba = model.estimator.predict_proba(
        np.column_stack([frame[k].astype(float) for k in ("rooms", "area", "new", "price")])
    )
    assert_allclose(pd.read_parquet("out.pq")["p_Oslo"], proba[:, 1], rtol=1e-12)


# ---- Errors


def fails(capfd: Captured, code: int, line: str, *fragments: str) -> str:
    capfd.readouterr()
    assert call(line) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for fragment in fragments:
        assert fragment in err
    return err


def test_refused_on_request(capfd: Captured) -> None:
    marginalize = "or fit with --missing marginalize"
    fails(
        capfd,
        1,
        f"{FIT} --missing error",
        "Missing values in columns 'city'",
        "of 60 rows",
        marginalize,
    )
    fails(capfd, 2, f"{FIT} --missing mean", "--missing", "'marginalize'")
    gaps().dropna().to_csv("full.csv", index=False)
    assert call("fit full.csv --target price --n-epochs 1 --missing error -o full.pbp -q") == 0
    for command in ("predict", "evaluate", "update"):
        fails(capfd, 1, f"{command} full.pbp new.csv", "Missing values in columns", marginalize)


def test_rows_without_a_target_are_left_out_and_counted(capfd: Captured) -> None:
    frame = gaps().dropna()
    frame.assign(price=frame["price"].astype(object)).to_csv("full.csv", index=False)
    cells = frame["price"].astype(object)
    cells.iloc[[4, 9]] = [np.nan, "?"]
    frame.assign(price=cells).to_csv("priceless.csv", index=False)
    frame.drop(frame.index[[4, 9]]).to_csv("rest.csv", index=False)
    for name in ("priceless", "rest"):
        fit = FIT.replace("gaps.csv", f"{name}.csv").replace("-o m.pbp", f"-o {name}.pbp")
        assert call(fit) == 0
        left_out = "note: dropped 2 rows without 'price'\n" in capfd.readouterr().err
        assert left_out == (name == "priceless")
    one, other = (probprop.load(f"{name}.pbp").predict(frame) for name in ("priceless", "rest"))
    assert_array_equal(one, other)
    for command in ("evaluate", "update"):
        assert call(f"{command} g.pbp priceless.csv") == 0
        assert "dropped 2 rows without 'price'" in capfd.readouterr().err
    frame.assign(price="NA").to_csv("none.csv", index=False)
    for line in (FIT.replace("gaps.csv", "none.csv"), "evaluate g.pbp none.csv"):
        fails(capfd, 1, line, "none.csv", "has no row with a value of 'price'")


@pytest.mark.parametrize("name", ["area", "city"])
def test_a_column_without_any_value(capfd: Captured, name: str) -> None:
    gaps().assign(**{name: np.nan}).to_csv("empty.csv", index=False)
    fit = FIT.replace("gaps.csv", "empty.csv")
    assert call(fit) == 0
    err = capfd.readouterr().err
    assert f"note: dropped '{name}': it has no value\n" in err
    words = f"Column '{name}' has no value in any row: drop it (--drop)"
    fails(capfd, 1, f"{fit} --features rooms,{name} -q", words)


def test_other_invalid_values_are_still_refused(capfd: Captured) -> None:
    frame = gaps()[60:].astype({"area": object, "new": object})
    for name, value, words in (
        ("area", "large", "'area' must contain finite numbers, but has 'large' in row 8"),
        ("new", "maybe", "'new' must contain true or false, but has 'maybe' in row 8"),
    ):
        column = frame[name].copy()
        column.iloc[7] = value
        frame.assign(**{name: column}).to_csv("bad.csv", index=False)
        fails(capfd, 1, "predict g.pbp bad.csv -q", words)
    table = read_table("gaps.csv")
    with pytest.raises(TableError, match="Missing values in columns"):
        fit_table_model(table, "price", estimator=regressor("error"))


@pytest.mark.parametrize("seed", range(5))
def test_the_only_value_of_a_column_stays_in_the_training_set(seed: int) -> None:
    frame = pd.DataFrame({"a": np.arange(40.0), "rare": np.nan, "pair": np.nan})
    frame.loc[7, ["rare", "pair"]] = 1.0
    frame.loc[11, "pair"] = 2.0
    train, test = hold_out(frame, 0.9, seed, None, list(frame))
    assert train.notna().any().all()
    assert sorted([*train.index, *test.index]) == list(range(40))
    assert 34 <= len(test) <= 36
