"""Targets that hardly vary in a fold, or at all: predictions do not depend on their unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probprop import Candidate, PBPRegressorCV

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
RNG = np.random.RandomState(0)


def rare(n: int, **values: float) -> tuple[Any, Any]:
    """Return rows of which only a few have another target than 0."""
    X, y = RNG.standard_normal((n, 2)), np.zeros(n)
    for row, value in values.items():
        y[int(row.removeprefix("row"))] = value
    return X, y


TABLES = {
    "one sale in 60 days": rare(60, row17=1.0),
    "two claims in one fold": rare(300, row6=5000.0, row204=5000.0),  # 6 and 204 are 0 modulo 3
    "one claim among small ones": rare(90, row3=5000.0, row7=1e-6, row20=2e-6, row41=1e-6),
}


def moments(X: Any, y: Any, **parameters: Any) -> list[Any]:
    """Return mean, std and ends of the intervals."""
    part = np.arange(len(y)) % 3
    splits = [(part != i, part == i) for i in range(3)]
    # The support that targets have for themselves depends on their sign and their unit.
    usual = {"budget": "fast", "support": None, "random_state": 0}
    model = PBPRegressorCV(splits, **usual, **parameters).fit(X, y)
    p = model.predict_distribution(X)
    return [p.mean, p.std, *p.interval(0.9)]


@pytest.mark.parametrize("table", TABLES)
def test_predictions_have_the_unit_of_the_target(table: str) -> None:
    X, y = TABLES[table]
    mean, std, lower, upper = moments(X, y)
    assert std.min() > 0.01 * np.std(y)
    assert std.max() < 100.0 * np.std(y)
    for factor in (1000.0, 1e-6):
        for found, expected in zip(moments(X, factor * y), (mean, std, lower, upper), strict=True):
            assert_allclose(found, factor * expected, rtol=1e-6, atol=1e-9 * factor * std.max())


@pytest.mark.parametrize("table", TABLES)
def test_an_offset_of_the_target_shifts_predictions(table: str) -> None:
    X, y = TABLES[table]
    unit = y.max()
    mean, std, lower, upper = moments(X, y)
    shifted = moments(X, y - 3.0 * unit)
    assert_allclose(shifted[1], std, rtol=1e-6)
    for found, expected in zip(shifted, (mean, std, lower, upper), strict=True):
        shift = 0.0 if expected is std else 3.0 * unit
        assert_allclose(found + shift, expected, rtol=1e-6, atol=1e-6 * std.max())


@pytest.mark.parametrize("value", [-5.0, 0.0, 5.0])
@pytest.mark.parametrize("n", [12, 120])  # a Box–Cox candidate needs 100 samples
def test_equal_targets(value: float, n: int) -> None:
    X = np.random.RandomState(1).standard_normal((n, 2))
    mean, std, *_ = moments(X, np.full(n, value))
    size = abs(value) or 1.0
    assert_allclose(mean, value, atol=1e-2 * size)
    assert ((std > 0.0) & (std < 0.1 * size)).all()
    for factor in (1000.0, 1e-6):
        if value:
            in_units = moments(X, np.full(n, factor * value))
            assert_allclose(in_units[0], factor * mean, rtol=1e-6)
            assert_allclose(in_units[1], factor * std, rtol=1e-4)


@pytest.mark.parametrize("value", [1e-300, 1e-6, 5.0, 1e100])
def test_equal_targets_of_a_power(value: float) -> None:
    X = np.random.RandomState(1).standard_normal((30, 2))
    only = [Candidate(None, (8,), 10.0, power=0.0)]
    mean, std, *_ = moments(X, np.full(30, value), candidates=only)
    assert_allclose(mean, value, rtol=0.1)
    assert ((std > 0.0) & (std < value)).all()


@pytest.mark.parametrize("value", [1e-300, 1e150])
def test_equal_targets_of_any_size(value: float) -> None:
    X = np.random.RandomState(1).standard_normal((12, 2))
    assert np.isfinite(moments(X, np.full(12, value))).all()
