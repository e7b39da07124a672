"""The fuzz of options and data: a hundred cases without findings, and findings that it must see."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import fuzz
from benchmarks.fuzz import Case, Findings, Table, Units, check, draw, main
from scipy.sparse import issparse

from probprop import Mixture, PBPRegressor

SMALL = ["--most-rows", "12"]


@pytest.mark.slow
def test_a_hundred_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--fits", "100", "--most-rows", "60", "--results", str(tmp_path / "f.jsonl")])
    assert code == 0, capsys.readouterr().out
    assert "No findings." in capsys.readouterr().out


def test_cases_are_kept_and_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "f.jsonl"
    arguments = ["--results", str(path), *SMALL]
    assert main(["--fits", "2", *arguments]) == 0
    first = path.read_text()
    assert main(["--fits", "3", *arguments]) == 0
    assert path.read_text().startswith(first)
    assert [json.loads(line)["case"] for line in path.read_text().splitlines()] == [0, 1, 2]
    assert main(["--fits", "3", *arguments], lambda *_: pytest.fail("it was run again")) == 0
    assert "| all | 3 |" in capsys.readouterr().out


def test_a_case_is_the_same_every_time() -> None:
    one, other = draw(3, 7, 40), draw(3, 7, 40)
    np.testing.assert_array_equal(one.table.X, other.table.X)
    assert str(one.model) == str(other.model)
    assert not np.array_equal(one.table.X, draw(4, 7, 40).table.X)


def regression(kind: type[PBPRegressor] = PBPRegressor, **parameters: Any) -> Case:
    """Return a case of one network on ordinary data."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    table = Table(X[:40], X[:40, 0] + 0.3 * rng.standard_normal(40), X[40:50], 30.0 * X[50:])
    model = kind((3,), n_epochs=2, random_state=0, **parameters)
    return Case(model, table, rng, ("normal", "normal"), "normal", "none")


def kinds(case: Case) -> set[str]:
    return {each["kind"] for each in check(case)}


class Unsaved(PBPRegressor):
    """A model whose file is lost."""

    def save(self, path: Any) -> None:
        raise KeyError("lost")


class SavedWrong(PBPRegressor):
    """A model that saves another seed."""

    def save(self, path: Any) -> None:
        case = regression()
        case.table.fitted(case.model.set_params(random_state=1)).save(path)


class SparseWrong(PBPRegressor):
    """A model that scales sparse rows."""

    def predict_distribution(self, X: Any, **options: Any) -> Any:
        return super().predict_distribution(1.1 * X if issparse(X) else X, **options)


class WrongInterval(Mixture):
    def interval(self, coverage: float) -> Any:
        return self.mean + self.std, self.mean + 1.4 * self.std


class NoQuantiles(Mixture):
    def ppf(self, q: Any) -> Any:
        return np.full(len(self), np.nan)


class FallingQuantiles(Mixture):
    def ppf(self, q: Any) -> Any:
        return np.full(len(self), -q)


def predicting(kind: type[Mixture]) -> type[PBPRegressor]:
    """Return a regressor whose distributions are of a subclass."""

    class Wrong(PBPRegressor):
        def predict_distribution(self, X: Any, **options: Any) -> Any:
            p = super().predict_distribution(X, **options)
            return kind(**{f.name: getattr(p, f.name) for f in fields(Mixture)})

    return Wrong


def test_findings_end_in_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--case", "0"], lambda *_: regression(Unsaved)) == 1
    assert "save: KeyError: 'lost'" in capsys.readouterr().out


def test_what_it_sees() -> None:
    assert kinds(regression()) == set()
    outside = {"mean outside its interval", "far std above its interval"}
    assert outside <= kinds(regression(predicting(WrongInterval)))
    assert "quantiles not finite" in kinds(regression(predicting(NoQuantiles)))
    assert "quantiles out of order" in kinds(regression(predicting(FallingQuantiles)))
    assert "the loaded model predicts otherwise" in kinds(regression(SavedWrong))
    assert "sparse rows predict otherwise" in kinds(regression(SparseWrong))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("what", ["X", "y"])
def test_it_sees_a_unit(what: str, exact: bool) -> None:
    factor = 2.0**9 if exact else 700.0
    units = Units(what, exact, **{what.lower(): factor})
    found, case, raw = Findings(), regression(), regression(standardize=False)
    fuzz.check_units(case, case.table.fitted(case.model), found, units)
    assert found == []
    fuzz.check_units(raw, raw.table.fitted(raw.model), found, units)
    assert [each["kind"] for each in found] == [
        f"unit of {what}, {'power of two' if exact else 'decimal'}"
    ]


class Lenient(Table):
    def fitted(self, model: Any) -> Any:
        return None


class Failing(Table):
    def fitted(self, model: Any) -> Any:
        return np.zeros(2)[5]


def test_invalid_data_must_be_refused_in_words() -> None:
    case = next(c for c in (draw(0, i, 30) for i in range(300)) if c.invalid)
    assert kinds(case) == set()
    data = vars(case.table)
    assert kinds(replace(case, table=Lenient(**data))) == {"invalid data accepted"}
    assert kinds(replace(case, table=Failing(**data))) == {"invalid data: IndexError"}
