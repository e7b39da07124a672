"""Outputs of the command and scores of other packages that the pages include, on few rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.guide import packages, shell

from probprop_lab.datasets.registry import SOURCES

Printed = pytest.CaptureFixture[str]


def test_a_command_shows_what_it_wrote_and_what_it_took(tmp_path: Path) -> None:
    shell.alloys()[:40].to_csv(tmp_path / "few.csv", index=False)
    line = "probprop active few.csv --target strength --ask 2 --fast --drop id"
    done = shell.run(line, tmp_path)
    assert done.text.startswith("fitted on 25 rows with a 'strength'; of the 15 rows without")
    assert done.text.splitlines()[-1].startswith("wrote few.asked.csv: 2 rows marked")
    assert done.seconds > 0.1
    block = shell.console(line, done.text)
    assert block.startswith(f"```console\n$ {line}\nfitted on 25 rows")
    assert block.endswith("is as it was\n```\n")


def test_errors_of_synthetic_prices_grow_with_them() -> None:
    prices = shell.houses(0)
    X = np.column_stack([np.ones(len(prices)), prices[["area", "rooms", "age"]]])
    mean = X @ np.linalg.lstsq(X, prices["price"], rcond=None)[0]
    errors = np.abs(prices["price"] - mean)
    cheap = mean < np.median(mean)
    assert errors[~cheap].mean() > 1.5 * errors[cheap].mean()


@pytest.mark.parametrize("needs", [True, False])
def test_parts_whose_sets_are_not_there_are_left_out(
    needs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    for name in ("PROBPROP_DATA", "PROBPROP_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    if needs:
        (tmp_path / SOURCES["energy"].file).touch()
    shell.main(["--results", str(tmp_path)], {"energy": lambda folder: ("text\n", {"alone": 1.0})})
    assert (tmp_path / "shell_energy.md").exists() == needs
    assert ("energy" in json.loads((tmp_path / "shell.json").read_text())) == needs
    assert ("text" in capsys.readouterr().out) == needs


def test_a_score_is_read_off_what_a_command_shows() -> None:
    shown = "measure  value\nRMSE     1,203.5   10.9\nlog-likelihood  -2.1   -3.8\n"
    assert [shell.score(name, shown) for name in ("RMSE", "log-likelihood")] == [1203.5, -2.1]
    with pytest.raises(ValueError, match="shows no CRPS"):
        shell.score("CRPS", shown)


def test_packages_write_their_page(tmp_path: Path, capsys: Printed) -> None:
    some = {
        k: v for k, v in packages.packages().items() if k in ("`MLPRegressor`", "`BayesianRidge`")
    }
    arguments = ["--splits", "2", "--results", str(tmp_path)]
    packages.main(arguments, some, lambda model: ["check_one"])
    printed = capsys.readouterr().out
    assert (tmp_path / "packages.md").read_text() in printed
    assert "| – | – | – | 1 |" in printed  # a network without standard deviations
    linear = json.loads((tmp_path / "packages.json").read_text())["`BayesianRidge`"]
    assert linear["far"][0] < linear["far"][1] < linear["far"][2]
    assert all(-6.0 < run["log_likelihood"] < -5.0 for run in linear["splits"])
    assert all(0.85 < run["coverage"] <= 1.0 for run in linear["splits"])


def test_packages_are_scored_in_target_units() -> None:
    own = packages.packages()["`BayesianRidge`"]
    X, y = packages.load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = packages.train_test_split(
        X, y, test_size=0.2, random_state=1
    )
    mean = own.model.fit(X_train, y_train).predict(X_test)  # a linear model minds no units
    expected = np.sqrt(np.mean((mean - y_test) ** 2))
    assert packages.evaluate(own, 1)["rmse"] == pytest.approx(expected, rel=0.01)
