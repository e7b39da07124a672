"""`probprop fit` and `active` select hyperparameters, unless one network is requested."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from rich.console import Console

from cli_tables import call, homes
from limits import Limits
from probprop import (
    PBPClassifier,
    PBPClassifierCV,
    PBPRegressor,
    PBPRegressorCV,
    load,
)
from probprop.cli import application
from probprop.cli.console import Terminal
from probprop.estimators.progress import Share
from probprop.table import TableModel, fit_table_model

Captured = pytest.CaptureFixture[str]
FIT = "fit homes.csv --target price --drop id -o m.pbp"
OF_TWO = "(best of|stacked from) [23] candidates"  # the third has codes


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in the current folder; small networks are compared, so that it takes no time."""
    homes(60).to_csv(tmp_path / "homes.csv", index=False)
    monkeypatch.chdir(tmp_path)
    limits.few_candidates()
    return tmp_path


def saved() -> Any:
    model = load("m.pbp")
    assert isinstance(model, TableModel)
    return model.estimator


# ---- What is fitted


def test_the_hyperparameters_are_selected_and_scored_out_of_fold(capfd: Captured) -> None:
    assert call(f"{FIT} --report r.html") == 0
    err = capfd.readouterr().err
    model = saved()
    assert isinstance(model, PBPRegressorCV)
    assert model.n_samples_seen_ == 60
    assert model.candidates == "auto"
    assert re.search(rf"^selected: (.*; )?{OF_TWO}$", err, re.M)
    assert re.search(r"^(selected:|  weight .*:) .*a layer of 3 units, ", err, re.M)
    assert re.search(r"^calibrated: standard deviations scaled by [\d.]+; ", err, re.M)
    assert "fitted on 60 rows and evaluated on 60 out-of-fold rows: each is predicted by " in err
    assert "wrote m.pbp: 60 rows, 5 features, 10 networks" in err
    assert re.search(OF_TWO, Path("r.html").read_text())


def test_it_is_the_model_of_the_estimator() -> None:
    assert call(f"{FIT} --test-fraction 0 --budget fast --random-state 3 -q") == 0
    rows, found = pd.read_csv("homes.csv"), saved()
    assert found.candidates == "auto"
    expected = fit_table_model(
        rows, "price", drop=["id"], estimator=PBPRegressorCV(budget="fast", random_state=3)
    )
    known = load("m.pbp").predict(rows, return_std=True)
    for one, other in zip(known, expected.predict(rows, return_std=True), strict=True):
        assert_array_equal(one, other)


def test_classes_are_chosen_too(capfd: Captured) -> None:
    assert call("fit homes.csv --target new --drop id -o m.pbp --test-fraction 0.1") == 0
    assert isinstance(saved(), PBPClassifierCV)
    assert saved().n_samples_seen_ == 54
    err = capfd.readouterr().err
    assert re.search(r"^calibrated: ", err, re.M)
    assert "2 classes" in err


def test_weights_and_missing_values_work(capfd: Captured) -> None:
    table = homes(60)
    table.loc[3, "area"] = np.nan
    table["rooms"] = [0, *[2] * 59]
    table.to_csv("homes.csv", index=False)
    line = f"{FIT} --weight rooms --missing marginalize"
    assert call(line) == 0
    model = saved()
    assert (model.missing, model.n_samples_seen_) == ("marginalize", 59)
    notes = [line for line in capfd.readouterr().err.splitlines() if line.startswith("note:")]
    words = "marginalized over 32 completions, given the other values of the sample"
    assert notes == [f"note: 1 of 59 rows have missing numbers, which are {words}"]
    assert call("info m.pbp") == 0
    assert re.search(rf"^Missing values +{words}$", capfd.readouterr().out, re.M)


@pytest.mark.parametrize("options", ["--budget fast", "--budget good", "--budget best", ""])
def test_the_budget_is_for_the_fit(options: str) -> None:
    assert call(f"{FIT} {options} -q") == 0
    assert saved().budget == (options.removeprefix("--budget ") or "good")


def test_update_and_info_show_the_calibration(capfd: Captured) -> None:
    assert call(f"{FIT} -q") == 0
    homes(80)[60:].to_csv("more.csv", index=False)
    assert call("update m.pbp more.csv") == 0
    err = capfd.readouterr().err
    updated = r"^updated m.pbp with 20 rows: 80 rows seen$"
    assert re.search(updated, err, re.MULTILINE)
    assert saved().n_samples_seen_ == 80
    assert call("info m.pbp") == 0
    assert re.search(r"^Calibration +standard deviations scaled by", capfd.readouterr().out, re.M)


def test_active_chooses_too(capfd: Captured) -> None:
    table = homes(60)
    table.loc[20:, "price"] = np.nan
    table.to_csv("pool.csv", index=False)
    assert call("active pool.csv --target price --drop id --ask 2") == 0
    assert re.search(rf"^selected: (.*; )?{OF_TWO}$", capfd.readouterr().err, re.M)
    table.loc[1:, "price"] = np.nan
    table.to_csv("pool.csv", index=False)
    assert call("active pool.csv --target price --drop id -o first.csv") == 0
    err = capfd.readouterr().err
    assert "note: with one measured row one network is fitted, as with --fast" in err


# ---- One network


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", PBPRegressor()),
        ("--hidden-layer-sizes 5,4 --n-epochs 3", PBPRegressor((5, 4), n_epochs=3)),
        ("--evidence-cap 2.5", PBPRegressor(evidence_cap=2.5)),
        ("--evidence-cap none --dtype float32", PBPRegressor(dtype="float32")),
        ("--noise input --noise-tail heavy", PBPRegressor(noise="input", noise_tail="heavy")),
    ],
)
def test_fast_is_the_papers_protocol(options: str, expected: Any) -> None:
    assert call(f"{FIT} --fast {options} --test-fraction 0 -q") == 0
    expected.set_params(random_state=0, missing="marginalize")
    found = saved()
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)


def test_fast_for_classes_has_their_own_evidence_cap() -> None:
    assert call("fit homes.csv --target new --drop id -o m.pbp --fast -q") == 0
    assert repr(saved()) == repr(PBPClassifier(missing="marginalize", random_state=0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--n-epochs 2", "with --n-epochs one"),
        (
            "--hidden-layer-sizes 4 --n-epochs 2 --dtype float32",
            "with --hidden-layer-sizes, --n-epochs and --dtype one",
        ),
        ("--noise constant --n-epochs 2", "with --n-epochs and --noise one"),
    ],
)
def test_what_only_one_network_has_implies_fast(capfd: Captured, options: str, words: str) -> None:
    assert call(f"{FIT} {options} --test-fraction 0") == 0
    err = capfd.readouterr().err
    note = f"note: {words} network is fitted, as with --fast, and no hyperparameters are selected\n"
    assert err.count("note:") == 1
    assert note in err
    assert isinstance(saved(), PBPRegressor)
    assert call(f"{FIT} {options} --test-fraction 0 --fast") == 0
    assert "note:" not in capfd.readouterr().err


# ---- Usage


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--budget much", "--budget': 'much' is not one of 'fast', 'good', 'best'"),
        ("--budget 0", "--budget': '0' is not one of 'fast', 'good', 'best'"),
        ("--budget inf", "--budget': 'inf' is not one of 'fast', 'good', 'best'"),
        ("--budget -3", "--budget': '-3' is not one of 'fast', 'good', 'best'"),
        ("--budget 3", "--budget': '3' is not one of 'fast', 'good', 'best'"),
        ("--budget good --fast", "--budget: with --fast one network is fitted"),
        (
            "--budget fast --hidden-layer-sizes 5",
            "--budget: with --hidden-layer-sizes one network is fitted",
        ),
        (
            "--evidence-cap some",
            "--evidence-cap': 'some' is neither a number of at least 1 nor none",
        ),
        (
            "--evidence-cap auto",
            "--evidence-cap': 'auto' is neither a number of at least 1 nor none",
        ),
        ("--evidence-cap nan", "--evidence-cap': 'nan' is neither a number of at least 1"),
        ("--evidence-cap 0.5", "--evidence-cap': '0.5' is neither a number of at least 1"),
        ("--n-epochs auto", "Invalid value for '--n-epochs'"),
        ("--n-epochs -2", "--n-epochs': Input should be greater than or equal to 1"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_code_2(
    capfd: Captured, options: str, message: str
) -> None:
    assert call(f"{FIT} {options}") == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: [^\n]+\n", err)
    assert message in err
    assert not Path("m.pbp").exists()


# ---- What is shown on the way


@pytest.mark.parametrize("options", ["", "--fast"])
def test_a_terminal_shows_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capfd: Captured, options: str
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    assert call(f"{FIT} {options}") == 0
    shown = capfd.readouterr().err
    assert f"fitting {54 if options else 60} rows" in shown
    assert " left" in shown
    assert ("epoch 40" in shown) == bool(options)


def test_the_share_grows_to_one() -> None:
    shares: list[Share] = []
    rows = homes(600)  # compared on fewer folds than the best have networks for
    model = PBPRegressorCV(budget="fast", random_state=0)
    fit_table_model(rows, "price", drop=["id"], estimator=model, callback=shares.append)
    assert shares == sorted(shares)
    assert 0.0 == shares[0] < shares[-1] == 1.0
    stages = list(dict.fromkeys(share.stage for share in shares))
    assert stages == ["comparing candidates", "training the best", "calibrating"]


def test_a_large_table_is_scored_on_its_validation_sets(capfd: Captured, limits: Limits) -> None:
    limits.large_from(60)
    assert call(f"{FIT} --report r.html --static") == 0
    assert "fitted on 60 rows and evaluated on 24 out-of-fold rows" in capfd.readouterr().err
    assert saved().n_samples_seen_ == 60


def test_ctrl_c_continues_with_the_best_so_far(
    capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = PBPRegressorCV.fit

    def interrupted(self: PBPRegressorCV, *args: Any, **options: Any) -> Any:
        told: list[float] = []

        def press(share: float) -> None:
            told.append(share)
            if self.candidates == "auto" and len(told) == 5:  # after the first comparison
                raise KeyboardInterrupt

        return fit(self, *args, **{**options, "callback": press})

    monkeypatch.setattr(PBPRegressorCV, "fit", interrupted)
    assert call(FIT) == 0
    err = capfd.readouterr().err
    kept = r"note: Ctrl-C ended the comparison of the candidates. The best so far is kept: (.*)\."
    [words] = re.findall(kept, err)
    assert re.search(rf"^selected: (.*; )?{OF_TWO}$", err, re.M)
    first = re.search(r"^(?:selected:|  weight .*?:) (.*, \d+ epochs?\b)", err, re.M)
    assert first is not None
    assert first[1].startswith(f"{words}, ")
    assert "Candidate(" not in err
    assert saved().n_samples_seen_ == 60


# ---- How long it takes


@pytest.mark.parametrize("options", ["", "--fast"])
def test_how_long_is_said_before_the_fit(options: str, limits: Limits, capfd: Captured) -> None:
    limits.costs_told_from(0.0)
    assert call(f"{FIT} {options} --test-fraction 0") == 0
    first = capfd.readouterr().err.splitlines()[0]
    assert re.match(r"60 samples: the fit takes (about|up to) .* of processor time$", first)


def test_a_long_fit_in_a_log_file_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    """A clock that is 4 s further at every look."""
    seconds = itertools.count(0.0, 4.0)

    def terminal(*, quiet: bool, verbose: bool) -> Terminal:
        console = Console(stderr=True, highlight=False)
        return Terminal(console, console, quiet, verbose, clock=lambda: next(seconds))

    monkeypatch.setattr(application, "make_terminal", terminal)
    assert call(f"{FIT} --test-fraction 0") == 0
    said = r"^fitting 60 rows: comparing candidates, \d+ % done, up to \d+ (s|min) left$"
    lines = re.findall(said, capfd.readouterr().err, re.MULTILINE)
    assert 1 <= len(lines) <= 5
    assert call(f"{FIT} --test-fraction 0 -q") == 0
    assert "left" not in capfd.readouterr().err
