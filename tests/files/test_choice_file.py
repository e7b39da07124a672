"""What ``"auto"`` chose is in the file of a model, checked as the rest of it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model_files import X, Y, assert_same, header_of, refused
from probprop import PBPRegressor, load
from probprop.estimators.choice import Choice, Curve


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of a model with a choice, made by hand: two curves, one cut short."""
    model = PBPRegressor((4,), n_epochs="auto", memory="auto", random_state=0).fit(X[:10], Y[:10])
    curves = Curve(None, (10, 40), (-2.1, -2.0)), Curve(3.0, (10,), (-1.9,))
    model.choice_ = Choice(10, 3.0, 0.1, 0.05, 60, curves)
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").choice_ == model.choice_
    return tmp_path / "m"


def test_a_real_choice_comes_back_and_goes_on(tmp_path: Path) -> None:
    model = PBPRegressor((4,), n_epochs=5, memory="auto", random_state=0).fit(X, Y)
    assert len(model.choice_.curves) > 1
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same(model, loaded)
    assert_same(model.partial_fit(X, Y), loaded.partial_fit(X, Y))


def test_files_from_before_have_the_parameters(path: Path) -> None:
    with header_of(path) as header:
        del header["choice_"]
        header["parameters"] |= {"n_epochs": 7, "memory": None}
    assert load(path).choice_ == Choice(7, None)


def test_a_choice_that_was_made_is_not_missing(path: Path) -> None:
    with header_of(path) as header:
        del header["choice_"]
    refused(path, "choice_")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n_epochs", [0, -1, 1.5, True, "auto", None]),
        ("memory", [0.5, 0, "auto", "all", [], float("inf"), float("nan")]),
        ("gain", [1, None, "0", float("nan"), float("-inf")]),
        ("gain_error", [-0.1, float("nan"), float("inf")]),
        ("n_rows", [1.0, "1", None]),
        ("curves", [None, {}, 1, [1], [[]], [{}]]),
    ],
)
def test_impossible_choices(path: Path, name: str, values: list[Any]) -> None:
    content = path.read_bytes()
    for value in values:
        path.write_bytes(content)
        with header_of(path) as header:
            header["choice_"][name] = value
        refused(path, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", "auto"),
        ("memory", 0.0),
        ("n_epochs", [10, 40]),
        ("n_epochs", {"tuple": [10]}),
        ("n_epochs", {"tuple": [10, 40.0]}),
        ("log_likelihood", {"tuple": [1.0, 2.0, 3.0]}),
        ("log_likelihood", {"tuple": [1.0, float("nan")]}),
        ("log_likelihood", {"tuple": [1.0, [2.0]]}),
    ],
)
def test_impossible_curves(path: Path, name: str, value: Any) -> None:
    with header_of(path) as header:
        header["choice_"]["curves"][0][name] = value
    refused(path, "")
