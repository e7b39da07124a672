"""`probprop compare`: the table it prints, what it concludes, and what it refuses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

from cli_tables import call, homes
from probprop import PBPRegressor
from probprop.cli import methods
from probprop.cli.application import run as run_command
from probprop.cli.comparing import NO_LEAD, Lead, splitter, verdict
from probprop.cli.methods import Method

Captured = pytest.CaptureFixture[str]
FAST = ["--n-jobs", "1", "--drop", "id", "--method", "PBP,BayesianRidge"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    homes(200).to_csv(tmp_path / "homes.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parts(y: Any, n: int, seed: int = 0, task: Any = "regression") -> list[tuple[Any, Any]]:
    return list(splitter(np.asarray(y), task, n, seed).split(y, y))


def compare(*more: str) -> int:
    return run_command(["compare", "homes.csv", "--target", "price", *FAST, *more])


# ---- What it prints


def test_the_scores_match_the_estimator_on_the_splits(capfd: Captured) -> None:
    assert compare("--splits", "2", "--method", "PBP") == 0
    out, err = capfd.readouterr()
    table = homes(200)
    plain = [table[k].astype(float) for k in ("rooms", "area", "new", "fixed")]
    cities = [(table["city"] == city).astype(float) for city in sorted(set(table["city"]))]
    X, y = np.column_stack([*cities, *plain]), table["price"].to_numpy()
    scores = []
    for train, test in parts(y, 2):
        assert len(test) == 20
        assert sorted([*train, *test]) == list(range(200))
        model = PBPRegressor(random_state=0).fit(X[train], y[train])
        scores.append(norm.logpdf(y[test], *model.predict(X[test], return_std=True)).mean())
    line = next(text for text in out.splitlines() if text.startswith("PBP "))
    assert float(line.split()[1]) == pytest.approx(np.mean(scores), abs=0.005)
    assert "4 fits on 200 rows" in err


def test_the_highest_log_likelihood_is_first_and_wins(capfd: Captured) -> None:
    """A line cannot follow a wave, and trees can."""
    table = homes(200)
    table["price"] += 1e6 * np.sin(table["area"] / 15.0)
    table.to_csv("homes.csv", index=False)
    assert compare("--splits", "4", "--method", "HistGB") == 0
    out, err = capfd.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:5] == ["method", "log-likelihood", "behind", "the", "first"]
    names = [line[0] for line in lines[1:-1]]
    assert names[0] == "HistGB"
    scores = [float(line[1]) for line in lines[1:-1]]
    assert scores == sorted(scores, reverse=True)
    behind = float(lines[2][2])
    assert behind == pytest.approx(scores[0] - scores[1], abs=0.02)
    won = "HistGB has the highest log-likelihood, significantly ahead of every other method"
    assert f"{won}: {names[1]}, the second, is behind by {lines[2][2]} ± " in err


def test_the_same_seed_gives_the_same_scores(capfd: Captured) -> None:
    printed = []
    for seed in ("3", "3", "4"):
        assert compare("--splits", "1", "--random-state", seed, "--method", "BayesianRidge") == 0
        out, err = capfd.readouterr()
        printed.append(out.splitlines()[1].split()[:2])
        assert "one split, which is too few for a p-value" in err
    assert printed[0] == printed[1] != printed[2]


def test_the_last_line_is_the_baseline(capfd: Captured) -> None:
    assert compare("--splits", "2", "--method", "BayesianRidge") == 0
    header, *lines = capfd.readouterr().out.splitlines()
    y = homes(200)["price"].to_numpy()
    pairs = [(y[train], y[test]) for train, test in parts(y, 2)]
    *words, likelihood, rmse, crps, share, sign = lines[-1].split()
    assert words == ["baseline"]
    assert sign == "%"
    assert float(rmse.replace(",", "")) == pytest.approx(
        np.mean([np.sqrt(np.mean((test - train.mean()) ** 2)) for train, test in pairs]), rel=1e-3
    )
    expected = [norm.logpdf(test, train.mean(), train.std()).mean() for train, test in pairs]
    assert float(likelihood) == pytest.approx(np.mean(expected), abs=0.01)
    assert 80.0 < float(share) <= 100.0
    assert header.index("RMSE") < header.index("CRPS")
    assert crps


# ---- What can go wrong


class Failing(BayesianRidge):
    error: BaseException = FloatingPointError("not\ntoday")

    def fit(self, X: object, y: object) -> Any:
        raise self.error


class Interrupted(Failing):
    error = KeyboardInterrupt()


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command know the methods `Failing` and `Interrupted`."""
    more = {
        kind.__name__: Method(kind.__name__, lambda job, kind=kind: kind())
        for kind in (Failing, Interrupted)
    }
    monkeypatch.setitem(methods.KNOWN, "regression", methods.KNOWN["regression"] | more)


@pytest.mark.usefixtures("known")
def test_one_method_that_fails_does_not_end_the_others(capfd: Captured) -> None:
    assert compare("--splits", "2", "--method", "Failing") == 0
    out, err = capfd.readouterr()
    assert "Failing could not be run: FloatingPointError: not today\n" in err
    assert "Failing" not in out
    alone = ["compare", "homes.csv", "--target", "price", "--drop", "id", "--n-jobs", "1"]
    assert run_command([*alone, "--method", "Failing"]) == 1
    assert "no method could be run" in capfd.readouterr().err


def test_a_method_for_small_tables_is_left_out_and_named(
    capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes(2300).to_csv("homes.csv", index=False)
    options = ["--splits", "1", "--n-jobs", "1", "--drop", "id"]
    command = ["compare", "homes.csv", "--target", "price", *options]
    assert run_command([*command, "--method", "BayesianRidge,GP"]) == 0
    left_out = "GP was skipped: it accepts at most 2,000 training rows"
    assert left_out in capfd.readouterr().err
    assert run_command([*command, "--method", "GP"]) == 1
    assert "the table has too many rows for GP: choose other" in capfd.readouterr().err


def test_missing_values_are_filled_for_every_method(capfd: Captured) -> None:
    table = homes(60)
    table.loc[3:9, "area"] = np.nan
    table.loc[[0, 5], "price"] = np.nan
    table.to_csv("homes.csv", index=False)
    options = "--drop id --n-jobs 1 --splits 1 --method BayesianRidge,PBP"
    assert call(f"compare homes.csv --target price {options}") == 0
    out, err = capfd.readouterr()
    assert "BayesianRidge" in out
    assert "note: dropped 2 rows without 'price'" in err
    assert "note: 6 of 58 rows have missing values, which are imputed for every method" in err


@pytest.mark.parametrize(
    ("change", "options", "code", "message"),
    [
        ({}, "--target prize", 1, "has no column 'prize': it has 'id', 'city'"),
        ({"price": 3.0}, "--target price", 1, "the target 'price' is 3 in every row"),
        ({}, "--target city --task regression", 1, "must be numeric"),
        ({"price": np.nan}, "--target price", 1, "has no row with a value of 'price'"),
        ({}, "--target price --splits 0", 2, "greater than or equal to 1"),
        ({}, "--target price --method guess", 1, "unknown method guess: choose among"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    capfd: Captured, change: dict[str, Any], options: str, code: int, message: str
) -> None:
    table = homes(60)
    table.loc[:, list(change)] = pd.DataFrame(change, index=table.index)
    table.to_csv("homes.csv", index=False)
    assert call(f"compare homes.csv --drop id --n-jobs 1 {options}") == code
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: [^\n]+\n", err), err
    assert message in err


def test_too_few_rows_are_refused(capfd: Captured) -> None:
    homes(12).to_csv("homes.csv", index=False)
    assert compare() == 1
    assert "12 rows are too few to compare methods" in capfd.readouterr().err


@pytest.mark.usefixtures("known")
def test_ctrl_c_ends_it_with_one_line(capfd: Captured) -> None:
    assert compare("--splits", "1", "--method", "Interrupted") == 130
    assert capfd.readouterr().err.endswith(
        "error: interrupted; every file is complete or as it was\n"
    )


# ---- What it concludes


def lead(mean: float, p: float) -> Lead:
    return Lead(mean, 0.1, p)


def test_the_verdict_names_methods_that_do_not_differ_from_the_first() -> None:
    first = {"GP": NO_LEAD}
    close = first | {"PBP": lead(0.1, 0.4), "NGBoost": lead(0.2, 0.06), "EP": lead(2.0, 0.01)}
    expected = (
        "not significantly ahead of PBP, NGBoost: "
        "PBP, the second, is behind by 0.10 ± 0.10 (p = 0.4)"
    )
    main = "log_likelihood"
    assert verdict(close, main, 5) == f"GP has the highest log-likelihood, {expected}"
    far = first | {"EP": close["EP"]}
    assert "every other method: EP, the second," in verdict(far, main, 5)
    assert verdict(first, main, 5).startswith("GP was run alone")
    assert verdict(close, "log_loss", 5) == f"GP has the lowest log-loss, {expected}"


# ---- Classes


def test_classes_are_compared_by_log_loss(capfd: Captured) -> None:
    command = "compare homes.csv --target city --drop id --n-jobs 1 --splits 2"
    assert call(f"{command} --method RandomForest,LogisticRegression") == 0
    out, err = capfd.readouterr()
    assert "'city' has text: classification" in err
    assert " has the lowest log-loss" in err
    header, *lines = out.splitlines()
    assert re.split(r"  +", header) == [
        *("method", "log-loss", "behind the first", "p"),
        *("accuracy", "Brier score", "ROC-AUC", "seconds"),
    ]
    table = homes(200)
    names = ["rooms", "area", "fixed", "new", "price"]
    X = np.column_stack([table[k].astype(float) for k in names])
    y = np.unique(table["city"], return_inverse=True)[1]
    scores = []
    for train, test in parts(y, 2, task="classification"):
        scaler = StandardScaler().fit(X[train])
        model = LogisticRegression().fit(scaler.transform(X[train]), y[train])
        proba = model.predict_proba(scaler.transform(X[test]))
        scores.append((log_loss(y[test], proba), roc_auc_score(y[test], proba, multi_class="ovr")))
    [line] = [line for line in lines if line.startswith("LogisticRegression")]
    found = re.split(r"  +", line)
    loss, auc = np.mean(scores, axis=0)
    assert float(found[1]) == pytest.approx(loss, rel=1e-3)
    assert float(found[-2]) == pytest.approx(auc, rel=1e-3)
    baseline = re.split(r"  +", lines[-1].strip())
    assert baseline[0] == "baseline"
    assert float(baseline[1]) == pytest.approx(1.1, abs=0.02)  # about log 3


def test_stratified_splits_have_a_tenth_of_every_class() -> None:
    y = np.random.RandomState(0).permutation(np.repeat([0, 1, 2], [300, 95, 5]))
    tests = [test for _, test in parts(y, 20, task="classification")]
    for test in tests:
        assert np.abs(np.bincount(y[test], minlength=3) - [30.0, 9.5, 0.5]).max() <= 1.0
    assert len({test.tobytes() for test in tests}) == 20


def test_a_class_without_training_rows_is_scored_and_not_a_failure(capfd: Captured) -> None:
    """A class of one row is in the test rows of some split, and its probability is 0 there."""
    table = homes(200)
    table.loc[0, "city"] = "Nowhere"
    table.to_csv("homes.csv", index=False)
    command = "compare homes.csv --target city --drop id --n-jobs 1 --splits 30"
    assert call(f"{command} --method LogisticRegression") == 0
    y = np.unique(table["city"], return_inverse=True)[1]
    unseen = [y.tolist().index(1) in test for _, test in parts(y, 30, task="classification")]
    assert any(unseen)  # else the test shows nothing
    loss = float(re.split(r"  +", capfd.readouterr().out.splitlines()[1])[1])
    assert loss > sum(unseen) / 30 * 36.0 / 21  # log(2.2e-16) in one of at most 21 rows


# ---- With and without the laboratory


def added(task: str) -> dict[str, Method]:
    """A replacement of another package's entry point."""
    made = Method("mine", lambda job: LogisticRegression())
    return {"mine": made, "PBP": made} if task == "classification" else {}


def test_other_packages_add_methods_and_replace_none(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("test", f"{__name__}:added", "probprop.methods")
    monkeypatch.setattr(methods, "entry_points", lambda group: [point])
    found = methods.methods_for("classification")
    assert list(found) == [*methods.KNOWN["classification"], "mine"]
    assert found["PBP"] is methods.KNOWN["classification"]["PBP"]
    assert methods.methods_for("regression") == methods.KNOWN["regression"]


WITHOUT_LAB = """
import importlib.metadata, sys
found = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **which: [
    point for point in found(**which) if not point.value.startswith("probprop_lab")
]
sys.modules["probprop_lab"] = None  # an import fails
from probprop.cli.application import run
sys.exit(run(sys.argv[1:]))
"""


def without_lab(line: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_LAB, *line.split()]
    wide = os.environ | {"COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, env=wide)


@pytest.mark.process
def test_compare_runs_without_the_laboratory() -> None:
    done = without_lab("compare homes.csv --target price --drop id --splits 1 --n-jobs 1")
    assert done.returncode == 0, done.stderr
    names = {line.split()[0] for line in done.stdout.splitlines()[1:]}
    assert names == {*methods.KNOWN["regression"], "baseline"}
    assert "left out" not in done.stderr
    refused = without_lab("compare homes.csv --target price --drop id --method CatBoost")
    assert "unknown method CatBoost: choose among PBP, PBPRegressorCV," in refused.stderr
    assert "more with pip install './lab' in a checkout" in refused.stderr


@pytest.mark.process
def test_the_laboratory_adds_its_commands() -> None:
    listed = without_lab("--help")
    assert " compare " in listed.stdout
    assert " reproduce " not in listed.stdout
    assert "No such command 'reproduce'" in without_lab("reproduce table1").stderr
