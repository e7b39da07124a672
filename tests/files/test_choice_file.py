"""Files from when a network could choose its epochs and its memory: they load with the choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model_files import X, Y, assert_same, fitted, header_of, refused
from probprop import PBPEnsemble, PBPRegressor, load

AUTO = {"n_epochs": "auto", "memory": "auto"}
CHOICE = {"n_epochs": 2, "memory": 3.0, "gain": 0.1, "gain_error": 0.05, "n_rows": 60, "curves": []}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a choice, as versions before `PBPRegressorCV` wrote it."""
    fitted(memory=3.0).save(tmp_path / "m")
    with header_of(tmp_path / "m") as header:
        header["parameters"] |= AUTO
        header["choice_"] = CHOICE
    return tmp_path / "m"


def test_what_was_chosen_takes_the_place_of_auto(path: Path) -> None:
    model, loaded = fitted(memory=3.0), load(path)
    assert loaded.get_params() == model.get_params()
    assert_same(model, loaded)
    assert_same(model.partial_fit(X, Y), loaded.partial_fit(X, Y))


def test_what_the_user_gave_stays(path: Path) -> None:
    with header_of(path) as header:
        header["parameters"]["n_epochs"] = 7
    loaded = load(path)
    assert (loaded.n_epochs, loaded.memory) == (7, 3.0)


def test_the_members_of_an_ensemble_share_the_choice(tmp_path: Path) -> None:
    inside = PBPRegressor((4,), n_epochs=2, memory=3.0)
    model = PBPEnsemble(inside, 2, random_state=0).fit(X, Y)
    model.save(tmp_path / "m")
    with header_of(tmp_path / "m") as header:
        for part in (header["parameters"]["estimator"], *header["members"]):
            part["parameters"] |= AUTO
        for part in header["members"]:
            part["choice_"] = CHOICE
    loaded = load(tmp_path / "m")
    assert loaded.estimator.get_params() == inside.get_params()
    for one, other in zip(model.estimators_, loaded.estimators_, strict=True):
        assert_same(one, other)


def test_a_choice_that_was_made_is_not_missing(path: Path) -> None:
    with header_of(path) as header:
        del header["choice_"]
    refused(path, "choice_")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n_epochs", [0, -1, 1.5, True, "auto", None]),
        ("memory", [0.5, 0, "auto", "all", [], float("inf"), float("nan")]),
    ],
)
def test_impossible_choices(path: Path, name: str, values: list[Any]) -> None:
    content = path.read_bytes()
    for value in values:
        path.write_bytes(content)
        with header_of(path) as header:
            header["choice_"] = CHOICE | {name: value}
        refused(path, name)
    path.write_bytes(content)
    with header_of(path) as header:
        header["choice_"] = {k: v for k, v in CHOICE.items() if k != name}
    refused(path, "choice_")
