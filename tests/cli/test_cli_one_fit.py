"""`probprop fit` fits once: the saved model is scored, as in Python, by groups and in time too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probprop
from cli_tables import call, homes
from limits import Limits
from probprop import Candidate, PBPClassifierCV, PBPRegressor, PBPRegressorCV, metrics
from probprop.table import fit_table_model, read_table

Captured = pytest.CaptureFixture[str]
FIT = "fit t.csv --target y --budget fast -o m.pbp"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small networks are compared, in the current folder, so that it takes no time."""
    monkeypatch.chdir(tmp_path)
    limits.few_candidates()
    return tmp_path


def visits(n: int = 40, per_patient: int = 4, seed: int = 0) -> pd.DataFrame:
    """Rows of some patients, a category, a date in order, a flag and gaps."""
    rng = np.random.default_rng(seed)
    patient = np.arange(n) // per_patient
    frame = pd.DataFrame(
        {
            "patient": [f"p{i:02}" for i in patient],
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) * 31, "h"),
            "dose": rng.normal(size=n).round(3),
            "ward": rng.choice(["east", "west"], n),
            "n": rng.integers(1, 4, n),
        }
    )
    frame["y"] = (frame["dose"] + 0.3 * rng.normal(size=n) + 3.0 * np.sin(patient)).round(3)
    frame.loc[5, "dose"] = np.nan
    return frame


def written(frame: pd.DataFrame) -> pd.DataFrame:
    """Write the table, and return it as it is read."""
    frame.to_csv("t.csv", index=False)
    return read_table("t.csv")


def chosen(kind: Any = PBPRegressorCV) -> Any:
    return kind(budget="fast", n_jobs=-1, random_state=0)


# ---- One fit, scored out of fold


def test_forty_rows_are_scored_on_forty(capfd: Captured) -> None:
    rows = written(visits())
    assert call(f"{FIT} --drop patient") == 0
    out, err = capfd.readouterr()
    assert (
        "fitted on 40 rows and evaluated on 40 out-of-fold rows: each is predicted by networks "
        "that were not trained on it" in err
    )
    estimator = chosen()
    fit_table_model(rows, "y", drop=["patient"], estimator=estimator)
    model = fit_table_model(rows, "y", drop=["patient"], estimator=estimator).estimator
    found = metrics.summary(rows["y"].to_numpy()[model.oof_rows_], model.oof_predictive_)
    shown = dict(re.findall(r"^(RMSE|CRPS|log-likelihood) +(\S+)", out, re.M))
    for name, key in (("RMSE", "rmse"), ("CRPS", "crps"), ("log-likelihood", "log_likelihood")):
        assert float(shown[name]) == pytest.approx(found[key], rel=1e-3)


def test_the_file_keeps_the_scores_and_where_they_are_from(capfd: Captured) -> None:
    written(visits())
    for options, words, n in (
        ("--budget fast", "out-of-fold", 40),
        ("--budget fast --test-fraction 0.1", "held-out", 4),
        ("--fast", "held-out", 4),
    ):
        assert call(f"fit t.csv --target y --drop patient {options} -o m.pbp -q") == 0
        shown = re.findall(r"^RMSE +(\S+)", capfd.readouterr().out, re.M)
        assert call("info m.pbp --json") == 0
        kept = json.loads(capfd.readouterr().out)["scores"]
        assert (kept["measured_on"], kept["n_samples"]) == (words, n)
        assert kept["targets"]["y"]["rmse"] == pytest.approx(float(shown[0]), rel=1e-3)
    assert call("fit t.csv --target y --drop patient --fast --test-fraction 0 -o m.pbp -q") == 0
    assert call("info m.pbp --json") == 0
    assert json.loads(capfd.readouterr().out)["scores"] is None


def test_every_estimator_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written(visits())
    fits: list[int] = []
    for kind in (PBPRegressorCV, PBPRegressor):
        fit = kind.fit

        def spied(self: Any, X: Any, *args: Any, fit: Any = fit, **options: Any) -> Any:
            fits.append(len(X))
            return fit(self, X, *args, **options)

        monkeypatch.setattr(kind, "fit", spied)
    for options, n in (
        ("", 40),
        ("--test-fraction 0", 40),
        ("--test-fraction 0.25", 30),
        ("--fast --n-epochs 2", 36),
        ("--fast --n-epochs 2 --test-fraction 0", 40),
    ):
        fits.clear()
        line = FIT if "--fast" not in options else FIT.replace("--budget fast", "")
        assert call(f"{line} {options} --drop patient -q") == 0
        assert fits == [n]
        assert probprop.load("m.pbp").estimator.n_samples_seen_ == n


def test_a_test_share_is_scored_instead(capfd: Captured) -> None:
    rows = written(visits())
    assert call(f"{FIT} --drop patient --test-fraction 0.25 --report r.html --static") == 0
    out, err = capfd.readouterr()
    assert "fitted on 30 rows and evaluated on a test set of 10 rows:" in err
    assert "out-of-fold" not in err
    test = np.sort(np.random.RandomState(0).permutation(40)[:10])
    model = probprop.load("m.pbp")
    error = model.predict(rows.iloc[test]) - rows["y"].iloc[test]
    assert re.search(rf"^RMSE +{np.sqrt((error**2).mean()):.4g} ", out, re.M)
    assert "The model was not trained on these samples" in Path("r.html").read_text()


def test_without_a_test_set_one_network_has_no_verdict(capfd: Captured) -> None:
    written(visits())
    line = "fit t.csv --target y --drop patient --fast --n-epochs 2 -o m.pbp"
    assert call(f"{line} --test-fraction 0") == 0
    out, err = capfd.readouterr()
    assert "fitted on 40 rows; there is no test set, so the model was not evaluated" in err
    assert out == ""
    assert call(line) == 0
    err = capfd.readouterr().err
    assert "fitted on 36 rows and evaluated on a test set of 4 rows:" in err
    assert "this network is kept; --test-fraction 0 trains on all rows" in err


def test_the_report_is_on_out_of_fold_rows(capfd: Captured) -> None:
    """Noise that networks could learn by heart: on training rows a column would seem to matter."""
    rng = np.random.default_rng(0)
    written(
        pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "y": rng.normal(size=60)})
    )
    assert call(f"{FIT} --report r.html --static") == 0
    text = " ".join(Path("r.html").read_text().split())
    assert "Each of these samples is predicted by networks that were not trained on it." in text
    assert "60 out-of-fold samples" in text
    assert re.search(
        r"The test of the hypothesis that they are calibrated has p [=<] [\d.]+\.", text
    )


def test_importance_of_out_of_fold_samples_is_by_networks_that_held_them_out() -> None:
    """The oracle shuffles the same column and predicts every fold by the networks without it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    model = PBPRegressorCV(
        candidates=[Candidate(hidden_layer_sizes=(5,), noise="constant")], budget="fast"
    )
    model.set_params(random_state=0).fit(X, y)
    [found] = metrics.permutation_importance(model, X, y, n_repeats=1, out_of_fold=True)
    random = np.random.RandomState(0)
    random.permutation(60)
    losses = {}
    before = model.oof_predictive_.logpdf(y).mean()
    for column in range(2):
        moved = X.copy()
        moved[:, column] = X[random.permutation(60), column]
        rows = model.bounds_.apply(moved)
        a = np.sqrt(model.calibration_.squares.error)
        total = 0.0
        for i in range(60):
            members = [model.estimators_[k] for k in model.oof_members_[:, i]]
            each = [m.predict_distribution(rows[i : i + 1]) for m in members]
            mean = np.mean([p.mean for p in each])
            std = a * np.sqrt(np.mean([p.std**2 for p in each]))
            total += -0.5 * ((y[i] - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
        losses[str(column)] = before - total / 60
    assert found.names == ("0", "1")
    for name, loss in zip(found.names, found.loss[:, 0], strict=True):
        assert loss == pytest.approx(losses[name], abs=1e-6)
    with pytest.raises(ValueError, match="needs a PBPRegressorCV or PBPClassifierCV after fit"):
        metrics.permutation_importance(PBPRegressor().fit(X, y), X, y, out_of_fold=True)


# ---- The command and Python give the same model


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("--budget fast --drop patient", {"drop": ["patient"], "estimator": chosen()}),
        ("--budget fast --group patient", {"group": "patient", "estimator": chosen()}),
        (
            "--budget fast --time day --drop patient --weight n",
            {"time": "day", "drop": ["patient"], "weight": "n", "estimator": chosen()},
        ),
        ("--fast --test-fraction 0 --drop patient", {"drop": ["patient"]}),
        (
            "--target ward --budget fast --group patient --drop y",
            {"group": "patient", "drop": ["y"], "estimator": chosen(PBPClassifierCV)},
        ),
    ],
)
def test_the_files_have_the_same_bytes(line: str, options: dict[str, Any]) -> None:
    rows = written(visits(60))
    target = "ward" if "--target" in line else "y"
    line = line if "--target" in line else f"--target y {line}"
    assert call(f"fit t.csv {line} -o command.pbp -q") == 0
    # The command keeps the scores that it printed; all else is the model.
    scores = probprop.load("command.pbp").scores
    replace(fit_table_model(rows, target, **options), scores=scores).save("python.pbp")
    assert Path("command.pbp").read_bytes() == Path("python.pbp").read_bytes()


# ---- Groups and times


def folds_of(model: Any) -> list[np.ndarray]:
    """Return the validation set of each network, of the first partition."""
    of = model.oof_members_[0]
    return [model.oof_rows_[of == k] for k in np.unique(of)]


def test_folds_keep_groups_together(capfd: Captured) -> None:
    rows = written(visits(48))
    assert call(f"{FIT} --group patient") == 0
    err = capfd.readouterr().err
    assert "note: 'patient' groups the rows and is excluded from the features" in err
    assert "give --group" not in err
    model = fit_table_model(rows, "y", group="patient", estimator=chosen())
    assert "patient" not in model.features
    for rows_held in folds_of(model.estimator):
        patients = rows["patient"].iloc[rows_held]
        assert not {*patients} & {*rows["patient"].drop(rows.index[rows_held])}


def test_a_group_is_in_one_fold(capfd: Captured) -> None:
    """The patients differ by a constant: a share of each of them would make it known."""
    rows = written(visits(80))
    line = "fit t.csv --target y --group patient --fast --n-epochs 2 -o m.pbp"
    assert call(line) == 0
    assert "on a test set of 8 rows" in capfd.readouterr().err
    assert probprop.load("m.pbp").features == ["day", "dose", "ward", "n"]
    written(rows.assign(patient="p00"))
    assert call(line) == 0
    assert "there is no test set" in capfd.readouterr().err


def test_folds_predict_the_future_from_the_past(capfd: Captured) -> None:
    rows = written(visits(40).sample(frac=1.0, random_state=0))
    assert call(f"{FIT} --time day --drop patient") == 0
    assert "evaluated on 20 out-of-fold rows" in capfd.readouterr().err
    model = fit_table_model(rows, "y", time="day", drop=["patient"], estimator=chosen())
    assert "day" in model.features
    day = pd.to_datetime(rows["day"])
    held = day.iloc[model.estimator.oof_rows_]
    assert held.min() > np.sort(day)[19]
    for rows_held, member in zip(
        folds_of(model.estimator), model.estimator.estimators_, strict=True
    ):
        before = int((day < day.iloc[rows_held].min()).sum())
        assert member.n_samples_seen_ == before


def test_the_last_rows_in_time_are_the_test_set() -> None:
    frame = visits(40).assign(year=np.repeat(np.arange(2000, 2010), 4)).drop(columns="day")
    written(frame.sample(frac=1.0, random_state=0))
    line = "fit t.csv --target y --time year --drop patient --fast --n-epochs 2 -o m.pbp"
    assert call(f"{line} --test-fraction 0.05 -q") == 0
    # Two rows are wanted, and the last year has four.
    assert probprop.load("m.pbp").estimator.n_samples_seen_ == 36


def test_rows_of_one_time_are_in_one_fold() -> None:
    frame = visits(60).assign(year=np.repeat([2001, 2002, 2003], 20)).drop(columns="day")
    model = fit_table_model(frame, "y", time="year", drop=["patient"], estimator=chosen())
    [second, third] = sorted(folds_of(model.estimator), key=min)
    assert second.tolist() == [*range(20, 40)] or second.tolist() == [*range(40, 60)]
    years = [{*frame["year"].iloc[rows]} for rows in (second, third)]
    assert all(len(each) == 1 for each in years)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--group patient --time day", "give one of the two"),
        ("--group nobody", "has no column 'nobody'"),
        ("--time ward", "must have numbers or dates, but has text"),
        ("--group y", "cannot also be a target, a feature"),
        ("--time gap", "Missing values in column 'gap'"),
    ],
)
def test_what_cannot_be_is_refused(options: str, words: str, capfd: Captured) -> None:
    written(visits().assign(gap=np.where(np.arange(40) % 2, 1.0, np.nan)))
    assert call(f"{FIT} {options}") in (1, 2)
    assert words in " ".join(capfd.readouterr().err.split())


def test_python_refuses_folds_where_there_are_none() -> None:
    with pytest.raises(probprop.table.TableError, match="PBPRegressor has none"):
        fit_table_model(visits(), "y", group="patient")
    with pytest.raises(probprop.table.TableError, match="not by both"):
        fit_table_model(visits(), "y", group="patient", time="day", estimator=chosen())


# ---- Rows in order


def notes(line: str, capfd: Captured) -> str:
    capfd.readouterr()
    assert call(line) == 0
    return " ".join(capfd.readouterr().err.split())


def test_rows_in_the_order_of_a_date_or_in_blocks_are_noted(capfd: Captured) -> None:
    line = "fit t.csv --target y --fast --n-epochs 1 -o m.pbp"
    written(visits())
    said = notes(line, capfd)
    assert "rows are in the order of 'day'" in said
    assert "give --time day" in said
    assert "rows are in 10 blocks of equal 'patient'" in said
    assert "give --group patient" in said
    for option in ("--time day", "--group patient"):
        assert "rows are in" not in notes(f"{line} {option}", capfd)
    written(visits().assign(subject_id=lambda f: f.index // 5).drop(columns=["patient", "day"]))
    assert "give --group subject_id" in notes(line, capfd)
    assert "give --group subject_id" in notes(f"{line} --drop subject_id", capfd)


def test_ordinary_tables_are_not_noted(capfd: Captured) -> None:
    line = "fit t.csv --target y --fast --n-epochs 1 -o m.pbp"
    written(visits().sample(frac=1.0, random_state=0))
    assert "rows are in" not in notes(line, capfd)
    homes(60).rename(columns={"price": "y"}).to_csv("t.csv", index=False)
    assert "rows are in" not in notes(f"{line} --drop id", capfd)
    written(visits(40, 1).drop(columns="day").assign(patient_id=np.arange(40)))
    assert "rows are in" not in notes(line, capfd)
    # Sorted by an ordinary category, by a number and by the target.
    for by in ("city", "rooms", "y"):
        homes(60).rename(columns={"price": "y"}).sort_values(by).to_csv("t.csv", index=False)
        assert "rows are in" not in notes(f"{line} --drop id", capfd)
    # Too few different dates to decide.
    written(visits().assign(day=["2024-01-01"] * 39 + ["2024-01-02"]).drop(columns="patient"))
    assert "rows are in" not in notes(line, capfd)


# ---- Messages that agree


@pytest.mark.parametrize("options", ["", "--budget best", "--test-fraction 0.2"])
def test_the_words_of_a_fit_agree(options: str, capfd: Captured) -> None:
    written(visits())
    line = FIT if not options.startswith("--budget") else FIT.replace("--budget fast", "")
    assert call(f"{line} {options} --drop patient --report r.html --static") == 0
    err = capfd.readouterr().err
    [choice] = re.findall(r"^selected: (.*[23] candidates(?:\n  weight .*)*)$", err, re.M)
    chosen_epochs = re.findall(r" (\d+) epochs", choice)[0]
    assert "the only candidate" not in err
    assert call("info m.pbp") == 0
    facts = capfd.readouterr().out
    for words in map(str.strip, choice.splitlines()):
        assert re.search(rf"^(Choice|Candidate \d) +{re.escape(words)}$", facts, re.M)
        assert words in Path("r.html").read_text()
    assert re.search(rf"^Training .* {chosen_epochs} epochs", facts, re.M)


# ---- The verdict of classes


def test_the_rarer_class_is_the_positive_one(capfd: Captured) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    label = np.where(x + rng.normal(size=80) > -1.2, "yes", "no")  # "no" is rarer, and first
    written(pd.DataFrame({"x": x, "y": label}))
    assert call(FIT) == 0
    out = capfd.readouterr().out
    assert re.search(r"^average precision \(no\) ", out, re.M)
    assert re.search(
        r"The probabilities are (calibrated \()?about [\d.]+ points? (over|under)confident, "
        r"give or take [\d.]+ points?\)?\.",
        out,
    )
    assert call("evaluate m.pbp t.csv --json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["positive_class"] == "no"
    assert found["verdict"]["calibrated"] in (True, False)
    assert 0.0 <= found["verdict"]["p_value"] <= 1.0
    from sklearn.metrics import average_precision_score

    proba = probprop.load("m.pbp").predict_distribution(read_table("t.csv")).proba[:, 0]
    assert found["average_precision"] == pytest.approx(
        average_precision_score(label == "no", proba)
    )


# ---- What a fit with a report runs


COUNT = """
import sys, threading
entered = {}
def note(frame, event, arg):
    code = frame.f_code
    if event == "call" and "/src/probprop/" in code.co_filename and code.co_flags & 1:
        key = code.co_filename.partition("/src/probprop/")[2], code.co_qualname
        entered[key] = entered.get(key, 0) + 1
threading.setprofile(note)
sys.setprofile(note)
from probprop.cli.application import run
code = run("fit t.csv --target y --budget fast -o m.pbp --report r.html -q".split())
sys.setprofile(None)
assert code == 0
import json
kinds, columns = ("table/encoding.py", "TableEncoder.fit"), ("table/names.py", "choose_features")
page = ("report/live.py", "live_page")
names = (kinds, columns, page, ("table/model.py", "fit_table_model"))
calls = {name: entered.get((module, name), 0) for module, name in names}
print(json.dumps([sorted({module for module, _ in entered}), calls]), file=sys.stderr)
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_fit_with_a_report_runs_few_modules_and_looks_once() -> None:
    """Modules with a function entered, in a process of its own; class bodies do not count."""
    written(visits(300, 1).drop(columns="patient").sample(frac=1.0, random_state=0))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(COUNT)], capture_output=True, text=True, check=True
    )
    modules, calls = json.loads(done.stderr.splitlines()[-1])
    assert len(modules) <= 85, modules
    assert len(calls) == 4
    assert calls == dict.fromkeys(calls, 1)
