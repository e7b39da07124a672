"""Arrays that need no conversion skip the checks of scikit-learn; all others get its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from probprop import PBPClassifier, PBPRegressor
from probprop.estimators import validation
from probprop.estimators.validation import check_inputs, check_regression_data

RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((30, 3))
Y = RANDOM.standard_normal(30)
ROWS = X[:4]


@pytest.fixture
def model() -> PBPRegressor:
    return PBPRegressor(4, n_epochs=2, random_state=0).fit(X, Y)


def with_entry(value: float, dtype: str = "float64") -> np.ndarray:
    rows = ROWS.astype(dtype)
    rows[2, 1] = value
    return rows


PLAIN = {
    "one row": ROWS[:1],
    "float32": ROWS.astype(np.float32),
    "Fortran order": np.asfortranarray(ROWS),
    "every second": X[::2, :],
    "backwards": X[::-1],
    "a sum beyond the floats": np.full((4, 3), 1e308),
}
OTHER = {
    "a list": ROWS.tolist(),
    "integers": np.arange(12).reshape(4, 3),
    "half precision": ROWS.astype(np.float16),
    "swapped bytes": ROWS.astype(">f8"),
    "a frame": pd.DataFrame(ROWS),
    "NaN": with_entry(np.nan),
    "infinity": with_entry(np.inf),
    "both infinities": np.array([[np.inf, -np.inf, 0.0]]),
    "float32 NaN": with_entry(np.nan, "float32"),
    "too few features": ROWS[:, :2],
    "too many features": np.ones((4, 5)),
    "one axis": ROWS[0],
    "three axes": ROWS[np.newaxis],
    "no rows": ROWS[:0],
    "text": np.array([["a", "b", "c"]]),
    "complex": ROWS.astype(complex),
    "objects": ROWS.astype(object),
}


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, as arrays, or what it raises."""
    try:
        return [np.asarray(a) for a in np.atleast_1d(call())]
    except Exception as error:
        return type(error), str(error)


def by_scikit_learn(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(validation, "_is_plain", lambda estimator, X: False)
        return outcome(call)


@pytest.mark.parametrize("rows", [*PLAIN.values(), *OTHER.values()], ids=[*PLAIN, *OTHER])
def test_what_is_returned_and_what_is_refused_is_the_same(
    model: PBPRegressor, monkeypatch: pytest.MonkeyPatch, rows: Any
) -> None:
    for call in (
        lambda: check_inputs(model, rows),
        lambda: check_regression_data(model, rows, Y[: len(rows)], reset=False)[0],
    ):
        found, expected = outcome(call), by_scikit_learn(monkeypatch, call)
        if isinstance(expected, tuple):
            assert found == expected
        else:
            assert_array_equal(found, expected)
            assert [a.dtype for a in found] == [a.dtype for a in expected]


@pytest.mark.parametrize("rows", PLAIN.values(), ids=PLAIN)
def test_plain_arrays_are_not_copied(model: PBPRegressor, rows: np.ndarray) -> None:
    assert check_inputs(model, rows) is rows
    found, targets = check_regression_data(model, rows, Y[: len(rows)], reset=False)
    assert found is rows
    assert np.shares_memory(targets, Y)


@pytest.mark.parametrize(
    "y",
    [
        [1.0, 2.0, 3.0, 4.0],
        np.arange(4),
        np.ones(4, np.float32),
        np.ones((4, 1)),
        np.ones((4, 2)),
        np.ones((2, 2, 2)),
        np.ones(3),
        np.array(1.0),
        np.array([1.0, np.nan, 2.0, 3.0]),
        np.array([1.0, np.inf, -np.inf, 3.0]),
        np.array(["a", "b", "c", "d"]),
        None,
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_targets_are_checked_as_scikit_learn_does(
    model: PBPRegressor, monkeypatch: pytest.MonkeyPatch, y: Any
) -> None:
    def call() -> Any:
        return check_regression_data(model, ROWS, y, reset=False)[1]

    found, expected = outcome(call), by_scikit_learn(monkeypatch, call)
    if isinstance(expected, tuple):
        assert found == expected
    else:
        assert_array_equal(found, expected)


def test_an_array_where_there_were_names_gets_the_warning() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = PBPRegressor(4, n_epochs=2, random_state=0).fit(frame, Y)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(ROWS)
    model.predict(frame[:4])


def test_missing_values_are_still_marginalized() -> None:
    model = PBPRegressor(4, n_epochs=2, random_state=0, missing="marginalize").fit(X, Y)
    _, std = model.predict(with_entry(np.nan), return_std=True)
    assert std[2] > model.predict(ROWS, return_std=True)[1][2]


def test_targets_of_single_precision_match_double() -> None:
    single = Y.astype(np.float32)
    fits = [PBPRegressor(4, n_epochs=2, random_state=0).fit(X, y) for y in (single, single + 0.0)]
    double = PBPRegressor(4, n_epochs=2, random_state=0).fit(X, single.astype(np.float64))
    for fit in fits:
        assert_array_equal(fit.predict(X), double.predict(X))
        assert fit.history_ == double.history_


# ---- Parameters are checked once while they stay the same


def test_a_parameter_that_is_changed_is_checked_again(model: PBPRegressor) -> None:
    model.partial_fit(X, Y)
    model.evidence_cap = 0.5
    with pytest.raises(ValueError, match=r"evidence_cap == 0\.5"):
        model.partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"evidence_cap == 0\.5"):  # not taken for checked
        model.partial_fit(X, Y)
    model.evidence_cap = 3
    model.partial_fit(X, Y)
    model.evidence_cap = True if model.evidence_cap == 1 else 3.5
    model.partial_fit(X, Y)


def test_equal_values_of_another_type_are_checked_again() -> None:
    model = PBPRegressor(4, n_epochs=1, random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match="n_epochs must be an instance of int"):
        model.set_params(n_epochs=1.0).fit(X, Y)


def test_a_parameter_that_changes_in_place_is_checked_again() -> None:
    layers = [4]
    model = PBPRegressor(layers, n_epochs=1, random_state=0).fit(X, Y)
    layers[0] = 0
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        model.fit(X, Y)


@pytest.mark.parametrize("kind", [PBPRegressor, PBPClassifier])
def test_every_parameter_with_a_check_is_looked_at(kind: Any) -> None:
    estimator = kind()
    for name in estimator.get_params(deep=False):
        if name == "random_state":
            continue
        with pytest.raises((TypeError, ValueError)):
            validation.check_parameters(kind(**{name: object()}))
