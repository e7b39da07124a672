"""The fuzz of options and data: a hundred cases without findings, and findings that it must see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import fuzz
from benchmarks.fuzz import Case, Findings, Table, Units, check, draw, main
from scipy.sparse import csr_array

import probprop
from probprop import PBPRegressor

SMALL = ["--most-rows", "12"]


@pytest.mark.slow
def test_a_hundred_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--fits", "100", "--most-rows", "60", "--results", str(tmp_path / "f.jsonl")])
    assert code == 0, capsys.readouterr().out
    assert "No findings." in capsys.readouterr().out


def test_cases_are_kept_and_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "f.jsonl"
    arguments = ["--results", str(path), *SMALL]
    assert main(["--fits", "2", *arguments]) == 0
    first = path.read_text()
    assert main(["--fits", "3", *arguments]) == 0
    assert path.read_text().startswith(first)
    assert [json.loads(line)["case"] for line in path.read_text().splitlines()] == [0, 1, 2]
    monkeypatch.setattr(fuzz, "check", lambda case: pytest.fail("it was run again"))
    assert main(["--fits", "3", *arguments]) == 0
    assert "| all | 3 |" in capsys.readouterr().out


def test_a_case_is_the_same_every_time() -> None:
    one, other = draw(3, 7, 40), draw(3, 7, 40)
    np.testing.assert_array_equal(one.table.X, other.table.X)
    assert str(one.model) == str(other.model)
    assert not np.array_equal(one.table.X, draw(4, 7, 40).table.X)


def regression(**parameters: Any) -> Case:
    """Return a case of one network on ordinary data."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    table = Table(X[:40], X[:40, 0] + 0.3 * rng.standard_normal(40), X[40:50], 30.0 * X[50:])
    model = PBPRegressor((3,), n_epochs=2, random_state=0, **parameters)
    return Case(model, table, rng, ("normal", "normal"), "normal", "none")


def kinds(case: Case) -> set[str]:
    return {each["kind"] for each in check(case)}


def test_findings_end_in_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: object) -> object:
        raise KeyError("lost")

    monkeypatch.setattr(fuzz, "load", refuse)
    monkeypatch.setattr(fuzz, "draw", lambda *_: regression())
    assert main(["--case", "0"]) == 1
    assert "save: KeyError: 'lost'" in capsys.readouterr().out


def test_what_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kinds(regression()) == set()
    of = probprop.Mixture
    with monkeypatch.context() as patch:
        patch.setattr(of, "interval", lambda p, coverage: (p.mean + p.std, p.mean + 1.4 * p.std))
        assert {"mean outside its interval", "far std above its interval"} <= kinds(regression())
    with monkeypatch.context() as patch:
        patch.setattr(of, "ppf", lambda p, q: np.full(len(p), np.nan))
        assert "quantiles not finite" in kinds(regression())
    with monkeypatch.context() as patch:
        patch.setattr(of, "ppf", lambda p, q: np.full(len(p), -q))
        assert "quantiles out of order" in kinds(regression())
    with monkeypatch.context() as patch:
        patch.setattr(fuzz, "load", lambda path: _of_another_seed())
        assert "the loaded model predicts otherwise" in kinds(regression())
    with monkeypatch.context() as patch:
        patch.setattr(fuzz, "csr_array", lambda X: csr_array(1.1 * X))
        assert "sparse rows predict otherwise" in kinds(regression())


def _of_another_seed() -> Any:
    case = regression()
    return case.table.fitted(case.model.set_params(random_state=1))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("what", ["X", "y"])
def test_it_sees_a_unit(what: str, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 2.0**9 if exact else 700.0
    units = Units(what, exact, **{what.lower(): factor})
    monkeypatch.setattr(fuzz, "_drawn_units", lambda case: units)
    found, case, raw = Findings(), regression(), regression(standardize=False)
    fuzz.check_units(case, case.table.fitted(case.model), found)
    assert found == []
    fuzz.check_units(raw, raw.table.fitted(raw.model), found)
    assert [each["kind"] for each in found] == [
        f"unit of {what}, {'power of two' if exact else 'decimal'}"
    ]


def test_invalid_data_must_be_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(c for c in (draw(0, i, 30) for i in range(300)) if c.invalid)
    assert kinds(case) == set()
    monkeypatch.setattr(Table, "fitted", lambda table, model: None)
    assert kinds(case) == {"invalid data accepted"}
    monkeypatch.setattr(Table, "fitted", lambda table, model: np.zeros(2)[5])
    assert kinds(case) == {"invalid data: IndexError"}
