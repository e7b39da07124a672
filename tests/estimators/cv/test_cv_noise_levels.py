"""The noise network stays within the levels of the noise that were seen in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probprop
from finite_differences import differences
from probprop import Candidate, PBPRegressorCV
from probprop.estimators.cv.calibration import levels_of
from probprop.inference.noise import LogScale

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
ALL = np.ones((1, 3))  # as in no training row


def rows(n: int = 400, seed: int = 0) -> tuple[Any, Any]:
    """Return rooms of which each has one of three extras, which make the price uncertain."""
    rng = np.random.RandomState(seed)
    X = np.zeros((n, 3))
    X[np.arange(n), rng.randint(3, size=n)] = rng.uniform(size=n)
    return X, 60.0 + 10.0 * X[:, 0] + 0.05 * np.exp(5.0 * X.sum(axis=1)) * rng.standard_normal(n)


def fitted(X: Any, y: Any, power: float | None = None, dtype: Any = "float32") -> Any:
    only = [Candidate(None, (20,), 10.0, power=power, noise="input")]
    model = PBPRegressorCV(3, candidates=only, budget="fast", dtype=dtype, random_state=0)
    return model.fit(X, y)


def in_units_of_members(p: Any) -> Any:
    return getattr(p, "transformed", p).aleatoric_std


@pytest.mark.parametrize("power", [None, 0.5])
def test_new_rows_have_a_noise_that_was_seen(power: float | None) -> None:
    X, y = rows()
    model = fitted(X, y, power)
    of_train = in_units_of_members(model.predict_distribution(X))
    of_new = in_units_of_members(model.predict_distribution(ALL))
    assert of_train.max() > 30.0 * of_train.min()  # it is heteroscedastic
    # 94 and more without bounds, where y is at most 78 and the noise std at most 7.4.
    assert of_new.max() <= 1.1 * of_train.max()
    if power is None:
        assert of_new.max() < 12.0
        assert model.oof_predictive_.aleatoric_std.max() < 12.0


@pytest.mark.parametrize(("n", "n_wild"), [(60, 0), (150, 1), (250, 2), (1000, 4)])
def test_single_rows_are_no_level_where_there_are_hundreds(n: int, n_wild: int) -> None:
    rng = np.random.RandomState(0)
    mean, variance = rng.uniform(-1.0, 1.0, n), rng.uniform(0.0, 1.0, n)
    expected = levels_of(LogScale(mean, variance))
    wild = LogScale(np.r_[mean, np.full(n_wild, 15.0)], np.r_[variance, np.full(n_wild, 3.0)])
    low, high, largest = levels_of(wild)
    assert low == expected.low
    assert -1.0 < high < 1.0
    assert 0.0 < largest < 1.0
    n_more = 5 if n == 1000 else n_wild + 1
    some = LogScale(np.r_[mean, np.full(n_more, 15.0)], np.r_[variance, np.full(n_more, 3.0)])
    assert levels_of(some)[1:] == (15.0, 3.0)


def test_partial_fit_widens_the_levels() -> None:
    X, y = rows()
    model = fitted(X, y)
    before = model.predict_distribution(ALL).aleatoric_std
    rng = np.random.RandomState(5)
    for _ in range(3):
        model.partial_fit(np.tile(ALL, (100, 1)), 60.0 + 200.0 * rng.standard_normal(100))
    after = model.predict_distribution(ALL).aleatoric_std
    assert after > 3.0 * before
    assert after < 400.0


def test_files_hold_the_levels(tmp_path: Path) -> None:
    X, y = rows()
    model = fitted(X, y)
    model.save(tmp_path / "model.pbp")
    loaded = probprop.load(tmp_path / "model.pbp")
    assert_array_equal(loaded.predict_distribution(ALL).std, model.predict_distribution(ALL).std)


def test_gradients_beyond_the_levels_are_zero() -> None:
    X, y = rows()
    model = fitted(X, y, dtype="float64")
    inside = 0.9 * ALL + 0.01 * np.array([[0.0, 1.0, 2.0]])
    at = model.predict_gradient(inside)
    assert_allclose(at.aleatoric_std, model.predict_distribution(inside).aleatoric_std, rtol=1e-12)
    assert not at.daleatoric_std_dX.any()
    steps = np.full(3, 1e-4)

    def aleatoric_std(rows: Any) -> Any:
        return model.predict_distribution(rows).aleatoric_std

    assert not differences(aleatoric_std, inside, steps).any()
    one = np.array([[0.51, 1e-3, 1e-3]])
    expected = differences(aleatoric_std, one, steps)
    found = model.predict_gradient(one).daleatoric_std_dX
    assert found[0, 0] > 0.0
    assert_allclose(found[0, 0], expected[0, 0], rtol=1e-4)
