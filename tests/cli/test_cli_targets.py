"""The command on several targets: fit, predict, evaluate, update, info, the report and the file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

pytest.importorskip("typer", reason="the command needs the extra cli")


import probprop
from cli_tables import call
from limits import Limits
from model_files import header_of, refused
from probprop import PBPClassifier, PBPRegressor
from probprop.cli.application import run
from probprop.distributions.mixture import Mixture
from probprop.metrics import interval_coverage
from probprop.report.sections import sections_and_ranking
from probprop.table import TableError, TableModel, fit_table_model, read_table

pytestmark = pytest.mark.usefixtures("here")

Captured = pytest.CaptureFixture[str]
COMMA = "load, kW"  # a name that holds a comma
ADDED = ["mean", "std", "epistemic_std", "aleatoric_std", "lower", "upper"]
FIT = "fit --fast loads.csv --n-epochs 3 --hidden-layer-sizes 5 -o m.pbp"


def loads(n: int = 70) -> pd.DataFrame:
    rng = RandomState(0)
    frame = pd.DataFrame({"a": rng.standard_normal(n), "b": rng.uniform(0.0, 9.0, n)})
    frame["wall"] = rng.choice(["brick", "wood"], n)
    frame[COMMA] = 3.0 * frame["a"] + rng.normal(0.0, 0.1, n)
    frame["cost"] = 1e4 * frame["b"] + 5e3 * (frame["wall"] == "wood") + rng.normal(0.0, 1e3, n)
    return frame.assign(kind=np.where(frame["a"] > 0, "x", "y"), flag=1 * (frame["a"] > 0))


def encoded(frame: pd.DataFrame) -> np.ndarray:
    categories = [frame["wall"] == k for k in ("brick", "wood")]
    return np.column_stack([frame["a"], frame["b"], *categories]).astype(float)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, and a model of two targets, which no test changes."""
    folder = tmp_path_factory.mktemp("targets")
    frame = loads()
    frame[:50].to_csv(folder / "loads.csv", index=False)
    frame[50:].to_csv(folder / "new.csv", index=False)
    line = [
        "fit",
        "--fast",
        str(folder / "loads.csv"),
        "--target",
        COMMA,
        "--target",
        "cost",
        "--drop",
    ]
    line += [
        "kind,flag",
        "--test-fraction",
        "0",
        "--n-epochs",
        "3",
        "--hidden-layer-sizes",
        "5",
        "-q",
        "-o",
        str(folder / "two.pbp"),
    ]
    assert run(line) == 0
    return folder


def two() -> TableModel:
    model = probprop.load("two.pbp")
    assert isinstance(model, TableModel)
    return model


# ---- fit


def test_fit_matches_the_regressor_on_both_columns() -> None:
    frame = loads()[:50]
    direct = PBPRegressor(5, n_epochs=3, random_state=0)
    direct.fit(encoded(frame), frame[[COMMA, "cost"]].to_numpy())
    model = two()
    assert model.targets == model.target == [COMMA, "cost"]
    assert model.features == ["a", "b", "wall"]
    assert_array_equal(model.estimator.predict(encoded(frame)), direct.predict(encoded(frame)))


@pytest.mark.parametrize(
    "given", [["--target", "cost,a"], ["--target", "cost", "--target", "a"], ["--target=a, cost,a"]]
)
def test_targets_with_commas_and_repeated(given: list[str], capfd: Captured) -> None:
    assert run([*FIT.split(), *given, "--features", "b,wall"]) == 0
    out, err = capfd.readouterr()
    assert "wrote m.pbp: 45 rows, 2 features" in err
    assert probprop.load("m.pbp").targets == (["a", "cost"] if "=" in given[0] else ["cost", "a"])
    header = re.split(r"  +| (?=a$|cost$)", re.sub(r"(\w+): baseline", "", out.splitlines()[0]))
    assert sorted(name.strip() for name in header if name.strip()) == ["a", "cost", "measure"]


def test_one_target_is_as_it_was() -> None:
    assert call(f"{FIT} --target cost --features a,b -q") == 0
    model = probprop.load("m.pbp")
    assert model.target == "cost"
    with header_of(Path("m.pbp")) as header:
        assert header["target"] == "cost"
    listed = fit_table_model(loads(), ["cost"], features=["a"], estimator=PBPRegressor(2))
    assert listed.target == "cost"
    assert listed.predict_distribution(loads()).mean.shape == (70,)


def test_an_evidence_cap(capfd: Captured) -> None:
    line = (
        "fit --fast loads.csv --target a,cost --features b,wall "
        "--hidden-layer-sizes 3 --n-epochs 2 --evidence-cap 3"
    )
    assert call(f"{line} --test-fraction 0 -o m.pbp") == 0
    model = probprop.load("m.pbp")
    assert call("predict m.pbp new.csv -o out.pq -q") == 0
    written, predicted = pd.read_parquet("out.pq"), model.predict_distribution(loads()[50:])
    lower, upper = predicted.interval(0.95)
    for k, name in enumerate(["a", "cost"]):
        assert_allclose(written[f"{name}_mean"], predicted.mean[:, k], rtol=1e-12)
        assert_allclose(written[f"{name}_std"], predicted.std[:, k], rtol=1e-12)
        assert_allclose(written[f"{name}_lower"], lower[:, k], rtol=1e-9)
        assert_allclose(written[f"{name}_upper"], upper[:, k], rtol=1e-9)
    assert call("update m.pbp new.csv -q") == 0
    capfd.readouterr()
    assert call("evaluate m.pbp new.csv --json") == 0
    assert list(json.loads(capfd.readouterr().out)["targets"]) == ["a", "cost"]


# ---- predict, evaluate, update, info


def test_predict_in_chunks(limits: Limits) -> None:
    limits.chunks_of(7)
    assert call("predict two.pbp new.csv --coverage 0.8 -o out.pq -q") == 0
    written, frame = pd.read_parquet("out.pq"), loads()[50:]
    assert list(written) == [*frame, *(f"{k}_{name}" for k in (COMMA, "cost") for name in ADDED)]
    mean, std = two().estimator.predict(encoded(frame), return_std=True)
    for k, name in enumerate([COMMA, "cost"]):
        assert_allclose(written[f"{name}_mean"], mean[:, k], rtol=1e-12)
        assert_allclose(written[f"{name}_std"], std[:, k], rtol=1e-12)
        both = np.hypot(written[f"{name}_epistemic_std"], written[f"{name}_aleatoric_std"])
        assert_allclose(both, std[:, k], rtol=1e-12)
        assert_allclose(written[f"{name}_upper"], mean[:, k] + norm.ppf(0.9) * std[:, k])


def test_evaluate_scores_each_target(capfd: Captured) -> None:
    assert call("evaluate two.pbp new.csv --json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["rows"] == 20
    frame = loads()[50:]
    mean, std = two().estimator.predict(encoded(frame), return_std=True)
    for k, name in enumerate([COMMA, "cost"]):
        error = frame[name] - mean[:, k]
        scores = found["targets"][name]
        assert scores["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-9)
        log_p = norm.logpdf(error, scale=std[:, k]).mean()
        assert scores["log_likelihood"] == pytest.approx(log_p, rel=1e-9)
    assert call("evaluate two.pbp new.csv") == 0
    first, *rows = capfd.readouterr().out.splitlines()
    assert re.fullmatch(rf"measure +{COMMA} +{COMMA}: baseline +cost +cost: baseline", first)
    assert len(rows) == 13  # eleven scores and two verdicts
    rmse = re.fullmatch(r"RMSE +(\S+) +\S+ +(\S+) +\S+", rows[0])
    assert rmse is not None
    assert float(rmse[1]) == pytest.approx(found["targets"][COMMA]["rmse"], rel=1e-3)


def test_update_is_partial_fit(capfd: Captured) -> None:
    Path("u.pbp").write_bytes(Path("two.pbp").read_bytes())
    assert call("update u.pbp new.csv") == 0
    said = capfd.readouterr().err
    assert said.endswith("70 rows seen\n")
    old, frame = two(), loads()[50:]
    X, y = old.split(read_table("new.csv"))
    assert_array_equal(y, frame[[COMMA, "cost"]])
    expected = old.estimator.partial_fit(X, y).predict(X)
    assert_array_equal(probprop.load("u.pbp").estimator.predict(X), expected)


def test_info_names_the_targets(capfd: Captured) -> None:
    assert call("info two.pbp") == 0
    shown = capfd.readouterr().out
    assert re.search(rf"Targets +{COMMA}, cost\n", shown)
    assert "2 outputs" in shown
    assert re.search(rf"Noise .* of {COMMA}; .* of cost, in units of each target\n", shown)


# ---- The report and its pictures


def test_the_report_has_sections_of_each_target() -> None:
    model, frame = two(), loads()[50:]
    X, y = model.split(frame)
    made = sections_and_ranking(model, frame, held_out=True)[0]
    per_target = ["how good the predictions are", "predicted against observed", "calibration"]
    per_target += ["residuals against error bars", "largest errors", "feature importance"]
    per_target += ["partial dependence"]
    titles = [f"{name}: {title}" for name in (COMMA, "cost") for title in per_target]
    assert [s.title for s in made] == [*titles, "Training", "The model", "Columns"]
    each = model.estimator.predict_distribution(X).targets()
    inside = [interval_coverage(y[:, k], *p.interval(0.8)) for k, p in enumerate(each)]
    for share, section in zip(inside, (made[0], made[len(per_target)]), strict=True):
        rows = {row[0]: row[1] for row in (section.table or ([], []))[1]}
        assert rows["Inside 80 % interval"] == f"{100 * share:.1f} %"


def test_fit_writes_the_report() -> None:
    assert call(f"{FIT} --target a,cost --features b --n-epochs 1 -q --report m.html") == 0
    page = Path("m.html").read_text()
    assert "<title>Predicting a and cost</title>" in page
    assert "a: how good the predictions are" in page


def test_hyperparameters_are_selected_for_all_targets(capfd: Captured) -> None:
    assert call("fit loads.csv --target a,cost --budget fast --report m.html -o m.pbp") == 0
    out = "".join(capfd.readouterr())
    assert "evaluated on 50 out-of-fold rows" in out
    assert re.search(r"calibrated: target 1: standard deviations scaled by .*; target 2: ", out)
    model = probprop.load("m.pbp")
    assert model.predict_distribution(pd.read_csv("new.csv")).mean.shape == (20, 2)
    assert "This report has no what-if page" in Path("m.html").read_text()
    assert call("predict m.pbp new.csv -o p.csv") == 0
    assert {"a_mean", "cost_upper"} <= {*pd.read_csv("p.csv")}
    assert call("update m.pbp new.csv") == 0
    assert call("info m.pbp") == 0


@pytest.mark.parametrize("student_t", [False, True])
def test_the_distribution_of_each_target(student_t: bool) -> None:
    noise, dof = np.array([0.5, 2.0, 1.0]), np.array([6.0, 12.0, 18.0])
    mean, std = RandomState(1).standard_normal((4, 3)), np.full((4, 3), 0.3)
    joint = Mixture.of_one(mean, std, noise, dof=dof if student_t else None)
    each = joint.targets()
    stacked = np.column_stack([one.logpdf(np.ones(4)) for one in each])
    assert_allclose(stacked, joint.logpdf(np.ones((4, 3))), rtol=1e-12)
    assert each[0].targets() == [each[0]]


# ---- Errors


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (
            "--target cost,kind",
            ["'kind' has text: classification", "several targets must all be numeric"],
        ),
        ("--target cost,flag", ["'flag' has only 0 and 1", "--task regression", "of its own"]),
        (
            "--target cost,a --task classification",
            ["'cost', 'a', must all be numeric", "one tar"],
        ),
        ("--target cost,kind --task regression", ["'kind' must be numeric, but has"]),
        ("--target cost,price", ["loads.csv", "no column 'price'"]),
        ("--target cost,a --drop a", ["The target 'a' can be neither a feature nor dropped"]),
        ("--target cost,a --features a,b", ["The target 'a' can be neither a feature nor"]),
        ("--target cost,a --features b --drop b", ["no feature to predict 'cost', 'a' from"]),
    ],
)
def test_targets_that_cannot_be_fitted(capfd: Captured, options: str, fragments: list[str]) -> None:
    Path("m.pbp").unlink(missing_ok=True)
    assert call(f"{FIT} {options}") == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: [^\n]+\n", err)
    for fragment in fragments:
        assert fragment in err
    assert not Path("m.pbp").exists()


def test_two_whole_numbers_are_a_numeric_target_on_request() -> None:
    assert call(f"{FIT} --target cost,flag --features a,b --task regression -q") == 0
    assert probprop.load("m.pbp").targets == ["cost", "flag"]


def test_a_target_or_a_name_in_the_way(capfd: Captured) -> None:
    loads()[50:].drop(columns="cost").to_csv("less.csv", index=False)
    for command in ("evaluate", "update"):
        assert call(f"{command} two.pbp less.csv") == 1
        assert "no column 'cost'" in capfd.readouterr().err
    assert call("predict two.pbp less.csv -o out.csv -q") == 0  # it need not be there
    loads()[50:].assign(cost_upper=1).to_csv("taken.csv", index=False)
    assert call("predict two.pbp taken.csv -q") == 1
    assert "already has a column 'cost_upper'" in capfd.readouterr().err


def test_from_python() -> None:
    for targets, estimator, words in (
        (["kind", "flag"], PBPClassifier(2), "must all be numeric, not classes"),
        (["cost", "cost"], PBPRegressor(2), "must be different columns"),
        ([], PBPRegressor(2), "must be different columns. Got none"),
    ):
        with pytest.raises(TableError, match=words):
            fit_table_model(loads(), targets, features=["a", "b"], estimator=estimator)


@pytest.mark.parametrize(
    ("targets", "reason"),
    [
        ("cost", "target does not have a column for each output"),
        (["cost"], "target does not have a column for each output"),
        (["cost", "cost"], "a column of the table has two roles"),
        (["cost", 1], "target/1 is missing or not of type str"),
        (["cost", "a"], "a column of the table has two roles"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, targets: Any, reason: str) -> None:
    path = tmp_path / "m.pbp"
    path.write_bytes(Path("two.pbp").read_bytes())
    with header_of(path) as header:
        header["target"] = targets
    refused(path, reason)
