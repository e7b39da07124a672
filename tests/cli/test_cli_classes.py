"""The command on classes and on ensembles: fit, predict, evaluate, update, info."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

pytest.importorskip("typer", reason="the command needs the extra cli")

import probprop
from cli_tables import call
from limits import Limits
from probprop import PBPClassifier, PBPRegressor
from probprop.cli.training import hold_out
from probprop.metrics import classes as class_metrics
from probprop.metrics.classes import class_baseline
from probprop.metrics.verdict import class_verdict
from probprop.table import read_table

pytestmark = pytest.mark.usefixtures("here")

Captured = pytest.CaptureFixture[str]


def flowers() -> pd.DataFrame:
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    names = np.array(["setosa", "versi, color", "virginica"])
    frame = frame.assign(species=names[y], code=y, rare=y == 2, ten=10 * (y == 1) + 5)
    return frame.sample(frac=1.0, random_state=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flowers")
    frame = flowers()
    frame[:120].to_csv(folder / "flowers.csv", index=False)
    frame[120:].to_csv(folder / "new.csv", index=False)
    return folder


def fit(options: str) -> int:
    """Fit once, on all rows."""
    line = (
        "fit --fast flowers.csv --features a,b,c,d --n-epochs 5 "
        "--hidden-layer-sizes 8 --test-fraction 0 -o m.pbp"
    )
    return call(f"{line} {options}")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    """Three classes of text."""
    path = folder / "species.pbp"
    data = folder / "flowers.csv"
    line = (
        f"fit --fast {data} --features a,b,c,d --n-epochs 5 "
        f"--hidden-layer-sizes 8 --test-fraction 0 -q -o {path}"
    )
    assert call(f"{line} --target species") == 0
    return path


def last_line(capfd: Captured) -> str:
    return capfd.readouterr().err.splitlines()[-1]


# ---- What the target is


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ("--target species", PBPClassifier, "'species' has text: classification"),
        ("--target rare", PBPClassifier, "'rare' has true and false: classification"),
        ("--target ten", PBPClassifier, "only 5 and 15: classification; if they are numbers"),
        ("--target code", PBPRegressor, "3 different whole numbers: regression; if they are"),
        ("--target code --task classification", PBPClassifier, None),
        ("--target ten --task regression", PBPRegressor, None),
    ],
)
def test_what_is_fitted_and_said(
    capfd: Captured, options: str, kind: type, said: str | None
) -> None:
    assert fit(options) == 0
    first = capfd.readouterr().err.splitlines()[0]
    assert said in first if said else "holds" not in first
    loaded = probprop.load("m.pbp")
    assert type(loaded.estimator) is kind
    assert loaded.estimator.evidence_cap == (10.0 if kind is PBPClassifier else None)


def test_the_time_of_many_classes_is_said_first(limits: Limits, capfd: Captured) -> None:
    limits.costs_told_from(0.0)
    rows = pd.concat([flowers()] * 4)
    rows.assign(many=[f"class {i % 40}" for i in range(600)]).to_csv("many.csv", index=False)
    assert (
        call("fit --fast many.csv --target many --features a,b,c,d --n-epochs 2 -o many.pbp") == 0
    )
    said = capfd.readouterr().err
    assert said.index("40 classes and ") < said.index("fitted on ")
    assert "samples: the fit takes about 0 s of processor time" in said


def test_an_evidence_cap_that_is_given_is_taken() -> None:
    assert fit("--target species --evidence-cap none -q") == 0
    assert probprop.load("m.pbp").estimator.evidence_cap is None


def test_the_classes_come_back_as_they_were() -> None:
    for target, classes in (
        ("species", ["setosa", "versi, color", "virginica"]),
        ("rare", [False, True]),
        ("ten", [5, 15]),
    ):
        assert fit(f"--target {target} -q") == 0
        assert probprop.load("m.pbp").classes.tolist() == classes


def test_of_every_class_a_row_is_left_to_fit(capfd: Captured) -> None:
    frame = flowers()[:60]
    frame["species"] = ["once", "twice", "twice", *frame["species"][3:]]
    frame.to_csv("rare.csv", index=False)
    for seed in range(20):
        train, test = hold_out(frame, 0.7, seed, frame["species"].to_numpy(), [])
        assert {"once", "twice"} < {*train["species"]}
        assert len(train) + len(test) == 60
        assert 40 <= len(test) <= 42
    line = (
        "fit --fast rare.csv --features a,b,c,d --target species "
        "--n-epochs 1 --hidden-layer-sizes 3"
    )
    assert call(f"{line} --test-fraction 0.7 -o m.pbp") == 0
    assert re.search(r"on a test set of 4[012] rows:", capfd.readouterr().err)
    model = probprop.load("m.pbp")
    assert {"once", "twice"} < {*model.classes}


# ---- Predictions


def test_predict_writes_the_class_and_a_probability_each(model: Path) -> None:
    assert call(f"predict {model} new.csv -o predicted.pq -q") == 0
    written = pd.read_parquet("predicted.pq")
    table_model, new = probprop.load(model), read_table("new.csv")
    proba = table_model.estimator.predict_proba(new[["a", "b", "c", "d"]].to_numpy())
    added = ["predicted_class", "p_setosa", "p_versi, color", "p_virginica"]
    assert list(written) == [*new, *added]
    assert_allclose(written[added[1:]], proba, rtol=1e-12)
    assert_array_equal(written["predicted_class"], table_model.classes[proba.argmax(axis=1)])
    assert call(f"predict {model} new.csv -o predicted.parquet -q") == 0
    assert_array_equal(pd.read_parquet("predicted.parquet")[added[1:]], proba)


def test_columns_in_the_way_and_an_interval_of_classes(model: Path, capfd: Captured) -> None:
    pd.read_csv("new.csv").assign(p_setosa=1).to_csv("taken.csv", index=False)
    assert call(f"predict {model} taken.csv") == 1
    assert "already has a column 'p_setosa'" in last_line(capfd)
    assert call(f"predict {model} new.csv --coverage 0.9") == 2
    line = last_line(capfd)
    assert "--coverage" in line
    assert "no interval" in line


def test_evaluate_is_the_summary_of_the_metrics(model: Path, capfd: Captured) -> None:
    assert call(f"evaluate {model} new.csv --json") == 0
    found = json.loads(capfd.readouterr().out)
    table_model, new = probprop.load(model), read_table("new.csv")
    X, y = table_model.split(new)
    predicted = table_model.estimator.predict_distribution(X)
    expected = class_metrics.class_summary(np.searchsorted(table_model.classes, y), predicted)
    index = np.searchsorted(table_model.classes, y)
    n_right = int((predicted.proba.argmax(axis=1) == index).sum())
    verdict = class_verdict(n_right, predicted.proba.max(axis=1)).as_dict()
    baseline = class_baseline(index, len(table_model.classes))
    beside = {"baseline": baseline, "left_out": {}, "verdict": verdict}
    assert found == {"rows": 30, **expected, **beside}
    assert found["accuracy"] > 0.8
    assert call(f"evaluate {model} new.csv") == 0
    shown = capfd.readouterr().out
    for words in ("accuracy", "log-loss", "Brier score", "calibration error"):
        assert words in shown


@pytest.mark.parametrize("target", ["species", "rare", "ten"])
def test_update_is_partial_fit(target: str, capfd: Captured) -> None:
    assert fit(f"--target {target} -q") == 0
    old = probprop.load("m.pbp")
    assert call("update m.pbp new.csv") == 0
    assert last_line(capfd).endswith("150 rows seen")
    X, y = old.split(read_table("new.csv"))
    expected = old.estimator.partial_fit(X, y).predict_proba(X)
    assert_array_equal(probprop.load("m.pbp").estimator.predict_proba(X), expected)


def test_info_shows_the_classes(model: Path, capfd: Captured) -> None:
    assert call(f"info {model}") == 0
    shown = capfd.readouterr().out
    assert "3: setosa, versi, color, virginica" in shown
    assert "3 outputs" in shown
    assert "Noise" not in shown


def test_info_of_a_classifier_from_python(capfd: Captured) -> None:
    X, y = load_iris(return_X_y=True)
    PBPClassifier(4, n_epochs=1).fit(X, y).save("python.pbp")
    assert call("info python.pbp") == 0
    shown = capfd.readouterr().out
    assert "3: 0, 1, 2" in shown


# ---- Errors


@pytest.mark.parametrize(
    ("options", "code", "fragments"),
    [
        ("--target species --task regression", 1, ["'species' must be numeric"]),
        ("--target species --task nominal", 2, ["--task"]),
        ("--target same", 1, ["'same' has only one class, 'x'", "another class"]),
        ("--target name", 1, ["'name' has 60 different values in 60 rows", "--task regression"]),
        ("--target half --task classification", 1, ["'half' has 1.5", "whole numbers"]),
        ("--target mostly", 1, ["'mostly' must contain finite numbers", "'much' in row 1"]),
        ("--target gap", 1, ["The target 'gap' has only one class"]),
        ("--target day", 1, ["'day' has dates"]),
    ],
)
def test_a_target_that_cannot_be_fitted(
    capfd: Captured, options: str, code: int, fragments: list[str]
) -> None:
    frame = flowers()[:60].assign(same="x", half=1.5, mostly="1", gap="y")
    frame["name"] = [f"flower {i}" for i in range(60)]
    frame.loc[frame.index[0], ["mostly", "gap", "half"]] = ["much", None, 2.0]
    frame["day"] = np.where(frame["rare"], "2024-05-31", "2024-06-01")
    frame.to_csv("bad.csv", index=False)
    Path("bad.pbp").unlink(missing_ok=True)
    assert call(f"fit --fast bad.csv --features a,b --n-epochs 1 -o bad.pbp {options}") == code
    line = last_line(capfd)
    assert line.startswith("error: ")
    for fragment in fragments:
        assert fragment in line
    assert not Path("bad.pbp").exists()


@pytest.mark.parametrize("command", ["evaluate", "update"])
def test_a_class_that_the_model_has_not_seen(command: str, model: Path, capfd: Captured) -> None:
    frame = pd.read_csv("new.csv")
    frame.loc[[3, 7], "species"] = "rosa"
    frame.to_csv("rosa.csv", index=False)
    before = model.read_bytes()
    assert call(f"{command} {model} rosa.csv") == 1
    line = last_line(capfd)
    for fragment in (
        "'species' has 'rosa'",
        "in 2 rows",
        "its classes are 'setosa'",
        "Drop those rows",
    ):
        assert fragment in line
    assert model.read_bytes() == before
