"""Predictions of a model of a table, its repr, and its seed in Python and in the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import probprop
from cli_tables import homes
from probprop import PBPClassifier, PBPRegressor
from probprop.cli.application import run
from probprop.estimators.kind import networks_of
from probprop.table import TableError, TableModel, fit_table_model, read_table

HOMES = homes(80).drop(columns="id")
KINDS = {
    "numbers": ("price", PBPRegressor(3, n_epochs=2)),
    "two targets": (["price", "area"], PBPRegressor(3, n_epochs=2)),
    "classes": ("city", PBPClassifier(3, n_epochs=2)),
}


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> TableModel:
    target, estimator = KINDS[request.param]
    return fit_table_model(HOMES, target, estimator=estimator)


# ---- predict


def test_predict_matches_the_estimator(model: TableModel) -> None:
    predicted = model.predict(HOMES.drop(columns=model.targets))
    assert_array_equal(predicted, model.estimator.predict(model.encode(HOMES)), strict=True)
    if model.classes is not None:
        assert {*predicted} <= {*HOMES["city"]}
    else:
        assert_array_equal(predicted, model.predict_distribution(HOMES).mean, strict=True)


def test_predict_with_the_standard_deviation(model: TableModel) -> None:
    if model.classes is not None:
        with pytest.raises((TypeError, ValueError), match="return_std"):
            model.predict(HOMES, return_std=True)
        return
    mean, std = model.predict(HOMES, return_std=True)
    expected = model.predict_distribution(HOMES)
    assert_array_equal(mean, expected.mean, strict=True)
    assert_array_equal(std, expected.std, strict=True)


def test_a_student_t_is_for_a_single_regressor(model: TableModel) -> None:
    if model.classes is None and isinstance(model.estimator, PBPRegressor):
        assert model.predict_distribution(HOMES, student_t=True).dof is not None
    else:
        with pytest.raises(TypeError, match="student_t"):
            model.predict_distribution(HOMES, student_t=True)


# ---- repr


def test_the_repr_shows_the_columns() -> None:
    wide = pd.DataFrame(np.random.RandomState(0).rand(8, 30), columns=[f"c{i}" for i in range(30)])
    model = fit_table_model(wide, "c29", estimator=PBPRegressor(2, n_epochs=1))
    first, header, *columns = repr(model).splitlines()
    assert first == "TableModel(PBPRegressor: 'c29' from 'c0', 'c1', 'c2', 'c3' and 25 more)"
    assert header.split() == ["column", "kind", "encoding", "levels", "missing"]
    assert [line.split()[0] for line in columns] == list(wide)[:-1]
    html = model._repr_html_()
    assert "PBPRegressor: &#x27;c29&#x27;" in html
    assert html.count("<tr") == 30


# ---- One seed


def weights(estimator: object) -> list[np.ndarray]:
    return list(networks_of(estimator)[0].posterior_.m_w)


def fitted_by_command(folder: Path, target: str, *options: str) -> TableModel:
    HOMES.to_csv(folder / "homes.csv", index=False)
    table, path = str(folder / "homes.csv"), str(folder / "m.pbp")
    options = ("--test-fraction", "0", *options)
    assert run(["fit", "--fast", table, "--target", target, "-q", "-o", path, *options]) == 0
    model = probprop.load(path)
    assert isinstance(model, TableModel)
    return model


@pytest.mark.parametrize("target", ["price", "city", "new"])
def test_python_and_the_command_make_the_same_model(tmp_path: Path, target: str) -> None:
    by_command = fitted_by_command(tmp_path, target)
    frame = read_table(tmp_path / "homes.csv")
    in_python = fit_table_model(frame, target)
    assert type(in_python.estimator) is type(by_command.estimator)
    assert in_python.estimator.random_state == by_command.estimator.random_state == 0
    for one, other in zip(weights(in_python.estimator), weights(by_command.estimator), strict=True):
        assert_array_equal(one, other)
    assert_array_equal(in_python.predict(frame), by_command.predict(frame))


@pytest.mark.parametrize(
    ("estimator", "random_state", "expected"),
    [
        (PBPRegressor(2, n_epochs=1), 0, 0),
        (PBPRegressor(2, n_epochs=1), 7, 7),
        (PBPRegressor(2, n_epochs=1), None, None),
        (PBPRegressor(2, n_epochs=1, random_state=3), 7, 3),
    ],
)
def test_the_seed_is_for_estimators_without_one(
    estimator: PBPRegressor, random_state: int | None, expected: int | None
) -> None:
    before = estimator.get_params()
    model = fit_table_model(HOMES, "price", estimator=estimator, random_state=random_state)
    assert model.estimator.random_state == expected
    assert estimator.get_params() == before


def test_the_targets_decide_where_there_is_no_estimator() -> None:
    few = HOMES[:30]
    assert isinstance(fit_table_model(few, "price").estimator, PBPRegressor)
    assert isinstance(fit_table_model(few, ["price", "area"]).estimator, PBPRegressor)
    assert isinstance(fit_table_model(few, "city").estimator, PBPClassifier)
    with pytest.raises(TableError, match=r"'city' has text.*several targets must all be"):
        fit_table_model(few, ["price", "city"])
    gap = few.assign(price=few["price"].where(few.index != 3))
    with pytest.raises(TableError, match=r"Missing values in column 'price' \(1 row\)"):
        fit_table_model(gap, "price")
