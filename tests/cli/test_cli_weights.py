"""`--weight` and `--error`: columns of a table that say how much its rows count."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_array_equal

pytest.importorskip("typer", reason="the command needs the extra cli")

import probprop
from cli_tables import call
from model_files import header_of, refused
from probprop import PBPClassifier, PBPRegressor
from probprop.table import TableError, TableModel, fit_table_model, read_table
from probprop.table.target import Counting

Captured = pytest.CaptureFixture[str]
FIT = (
    "fit --fast stars.csv --n-epochs 3 --hidden-layer-sizes 4 -o "
    "m.pbp --drop kind,other,other_error"
)


def stars(n: int = 80) -> pd.DataFrame:
    rng = RandomState(0)
    frame = pd.DataFrame({"color": rng.standard_normal(n), "size": rng.uniform(1.0, 9.0, n)})
    frame["light_error"] = rng.choice([0.0, 0.5, 3.0], n)
    frame["n"] = rng.choice([0, 1, 4], n)
    frame["light"] = 50.0 + 9.0 * frame["color"] + rng.normal(0.0, 1.0, n)
    frame["other"] = frame["size"] ** 2
    frame["other_error"] = 0.25 * frame["light_error"]
    return frame.assign(kind=np.where(frame["color"] > 0, "warm", "cold"))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    stars()[:60].to_csv("stars.csv", index=False)
    stars()[60:].to_csv("new.csv", index=False)
    return tmp_path


def loaded() -> TableModel:
    model = probprop.load("m.pbp")
    assert isinstance(model, TableModel)
    return model


def assert_same(model: PBPRegressor | PBPClassifier, other: PBPRegressor | PBPClassifier) -> None:
    for a, b in zip(model.posterior_.m_w, other.posterior_.m_w, strict=True):
        assert_array_equal(a, b)
    assert model.n_samples_seen_ == other.n_samples_seen_
    assert model.log_evidence_ == other.log_evidence_


# ---- fit


def test_fit_matches_the_regressor(capsys: Captured) -> None:
    line = f"{FIT} --target light --weight n --error light_error --test-fraction 0"
    assert call(line) == 0
    frame = stars()[:60]
    counted = frame[frame["n"] > 0]
    assert f"dropped {60 - len(counted)} rows of weight 0" in capsys.readouterr().err
    model = loaded()
    assert model.features == ["color", "size"]
    assert model.counting == Counting("n", ("light_error",))
    expected = PBPRegressor((4,), n_epochs=3, random_state=0).fit(
        frame[["color", "size"]].to_numpy(), frame["light"], frame["n"], y_std=frame["light_error"]
    )
    assert_same(model.estimator, expected)


def test_errors_of_several_targets() -> None:
    line = (
        "fit --fast stars.csv --n-epochs 3 --hidden-layer-sizes 4 -o m.pbp "
        "--drop kind,n --target light,other"
    )
    assert call(f"{line} --test-fraction 0 --error light_error,other_error") == 0
    frame = stars()[:60]
    expected = PBPRegressor((4,), n_epochs=3, random_state=0).fit(
        frame[["color", "size"]].to_numpy(),
        frame[["light", "other"]].to_numpy(),
        y_std=frame[["light_error", "other_error"]].to_numpy(),
    )
    assert_same(loaded().estimator, expected)


def test_classes_have_weights() -> None:
    line = "fit --fast stars.csv --n-epochs 3 --hidden-layer-sizes 4 -o m.pbp --features color,size"
    assert call(f"{line} --target kind --weight n --test-fraction 0 -q") == 0
    frame = stars()[:60]
    expected = PBPClassifier((4,), n_epochs=3, random_state=0, missing="marginalize").fit(
        frame[["color", "size"]].to_numpy(), frame["kind"], frame["n"]
    )
    assert_same(loaded().estimator, expected)


def test_rows_of_weight_zero_are_no_categories() -> None:
    frame = pd.DataFrame({"c": ["a", "b", "rare"] * 9, "y": np.arange(27.0)})
    frame["w"] = np.where(frame["c"] == "rare", 0.0, 2.0)
    network = PBPRegressor(3, n_epochs=2)
    model = fit_table_model(frame, "y", weight="w", estimator=network)
    assert model.categories == {"c": ["a", "b"]}
    assert model.estimator.n_samples_seen_ == 18


# ---- What comes after


def test_predictions_do_not_need_the_columns(capsys: Captured) -> None:
    assert call(f"{FIT} --target light --weight n --error light_error") == 0
    stars()[60:][["color", "size"]].to_csv("bare.csv", index=False)
    capsys.readouterr()
    assert call("predict m.pbp bare.csv -o bare-out.csv") == 0
    assert call("predict m.pbp new.csv -o new-out.csv") == 0
    said = capsys.readouterr().err
    assert "does not use are copied: other, other_error, kind\n" in said
    assert_array_equal(read_table("bare-out.csv")["mean"], read_table("new-out.csv")["mean"])
    assert call("evaluate m.pbp new.csv") == 0
    assert call("info m.pbp") == 0
    said = capsys.readouterr().out
    assert "light_error" in said
    assert "Weights" in said


def measured(n: int, factor: float = 1.0, seed: int = 0) -> pd.DataFrame:
    """Return means of 1 or of 100 measurements with the noise std 6."""
    rng = RandomState(seed)
    frame = pd.DataFrame({"x": rng.uniform(-2.0, 2.0, n), "n": rng.choice([1, 100], n)})
    frame["y"] = 3.0 * frame["x"] + 6.0 * rng.standard_normal(n) / np.sqrt(frame["n"])
    return frame.assign(n=factor * frame["n"])


def test_rows_are_scored_at_their_weights(capsys: Captured) -> None:
    measured(400).to_csv("few.csv", index=False)
    test = measured(300, seed=1)
    test.loc[len(test)] = [0.0, 0.0, 1e6]  # of weight 0
    test.to_csv("test.csv", index=False)
    test[:-1].drop(columns="n").to_csv("bare.csv", index=False)
    line = (
        "fit --fast few.csv --target y --weight n --hidden-layer-sizes 8 --test-fraction 0 -o m.pbp"
    )
    assert call(line) == 0
    capsys.readouterr()
    assert call("evaluate m.pbp test.csv --json --report page.html") == 0
    captured = capsys.readouterr()
    assert "dropped 1 row of weight 0" in captured.err
    scores = json.loads(captured.out)
    assert scores["rows"] == 300
    assert abs(scores["coverage_90"] - 0.9) < 0.05
    X, y, w = (test[:-1][k].to_numpy() for k in ("x", "y", "n"))
    predicted = loaded().estimator.predict_distribution(X[:, None], sample_weight=w)
    assert scores["log_likelihood"] == pytest.approx(predicted.logpdf(y).mean(), rel=1e-6)
    assert f"{scores['log_likelihood']:.4g}".replace("-", "") in Path("page.html").read_text()
    assert call("report m.pbp test.csv -o again.html --static") == 0
    assert "300 rows" in capsys.readouterr().err
    assert call("evaluate m.pbp bare.csv --json") == 0
    assert abs(json.loads(capsys.readouterr().out)["coverage_90"] - 0.9) > 0.1  # at the mean weight
    test[-1:].to_csv("none.csv", index=False)
    assert call("evaluate m.pbp none.csv") != 0
    assert "no row of a weight above 0" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["y", "kind"])
def test_a_constant_factor_of_the_weights_changes_nothing(target: str, capsys: Captured) -> None:
    said = []
    for factor in (1.0, 1e6):
        frame = measured(200, factor)
        frame["kind"] = np.where(frame["y"] > 0.0, "high", "low")
        frame.to_csv("m.csv", index=False)
        line = (
            f"fit --fast m.csv --target {target} --features x --weight n "
            "--hidden-layer-sizes 8 -o m.pbp"
        )
        assert call(line) == 0
        capsys.readouterr()
        assert call("predict m.pbp m.csv -o out.csv") == 0
        assert call("evaluate m.pbp m.csv --json") == 0
        said.append((capsys.readouterr().out, read_table("out.csv").drop(columns="n")))
    assert said[0][0] == said[1][0]
    pd.testing.assert_frame_equal(said[0][1], said[1][1])


def test_update_takes_the_columns(capsys: Captured) -> None:
    assert call(f"{FIT} --target light --weight n --error light_error -q") == 0
    before = loaded()
    assert call("update m.pbp new.csv") == 0
    new = stars()[60:]
    n = int((new["n"] > 0).sum())
    assert f"with {n} rows" in capsys.readouterr().err
    expected = before.estimator.partial_fit(
        new[["color", "size"]].to_numpy(), new["light"], new["n"], y_std=new["light_error"]
    )
    assert_same(loaded().estimator, expected)
    new.drop(columns="n").to_csv("without.csv", index=False)
    assert call("update m.pbp without.csv") != 0
    assert "no column 'n'" in capsys.readouterr().err
    with pytest.raises(TableError, match="no column 'n'"):
        before.update(new.drop(columns="n"))


def test_a_file_without_them_has_none_and_a_wrong_one_is_refused(here: Path) -> None:
    assert call(f"{FIT},n,light_error --target light -q") == 0
    assert loaded().counting == Counting()
    assert call(f"{FIT} --target light --weight n --error light_error -q") == 0
    for key, value, reason in (
        ("weight", 3, "not of type str"),
        ("weight", "color", "a column of the table has two roles"),
        ("error", [3], "counting/error/0 is missing or not of type str"),
        ("error", ["n"], "a column of the table has two roles"),
    ):
        shutil.copy("m.pbp", "broken.pbp")
        with header_of(here / "broken.pbp") as header:
            header["counting"][key] = value
        refused(here / "broken.pbp", reason)


# ---- What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--weight nothing", "no column 'nothing'"),
        ("--weight light", "The column 'light' of weights or errors must be one of its own"),
        ("--weight n --error n", "The column 'n' of weights or errors must be one of its own"),
        ("--features n,size --weight n", "The column 'n' of weights or errors"),
        ("--error light_error,n", "a column of errors for each target, 'light'"),
        ("--weight bad", "Column 'bad' must contain numbers of 0 or more, but has '-1' in row 4"),
        ("--error bad", "Column 'bad' must contain numbers of 0 or more, but has '-1' in row 4"),
        ("--weight text", "Column 'text' must contain finite numbers, but has 'x' in row 2"),
        ("--weight holed", "Missing values in column 'holed' (1 row)"),
        ("--weight zero", "Column 'zero' is 0 in every row"),
    ],
)
def test_bad_columns_are_named(options: str, message: str, capsys: Captured) -> None:
    frame = stars()[:20].drop(columns=["kind", "other", "other_error"])
    frame["bad"] = np.where(np.arange(20) == 3, -1, 1)
    frame["text"] = np.where(np.arange(20) == 1, "x", "1")
    frame["holed"] = np.where(np.arange(20) == 1, np.nan, 1.0)
    frame["zero"] = 0
    frame.to_csv("bad.csv", index=False)
    assert (
        call(
            "fit --fast bad.csv --target light --n-epochs 1 "
            f"--hidden-layer-sizes 2 -o b.pbp {options}"
        )
        != 0
    )
    said = " ".join(capsys.readouterr().err.split())
    assert message in said


def test_classes_have_no_errors(capsys: Captured) -> None:
    line = "fit --fast stars.csv --target kind --features color,size --error light_error -o m.pbp"
    assert call(line) != 0
    assert "is a class, which has no measurement error" in " ".join(capsys.readouterr().err.split())
