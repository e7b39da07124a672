"""Options at the ends of the range of floats, single precision far from 0, and two threads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probprop import PBPEnsemble, PBPRegressor, load

RNG = np.random.RandomState(0)
X = RNG.standard_normal((60, 3))
Y = X[:, 0] + 0.1 * RNG.standard_normal(60)


@pytest.mark.parametrize(
    ("extreme", "same"),
    [({"memory": 1e307}, {"memory": 1e12}), ({"refine_every": 5e-324}, {"refine_every": 1e-9})],
)
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_options_at_the_ends_of_the_range(
    extreme: dict[str, Any], same: dict[str, Any], engine: str
) -> None:
    one, other = (
        PBPRegressor(4, n_epochs=1, engine=engine, random_state=0, **options).fit(X, Y)
        for options in (extreme, same)
    )
    assert_allclose(one.predict(X), other.predict(X), rtol=1e-6)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_single_precision_does_not_reach_target_units(engine: str) -> None:
    options: dict[str, Any] = {"n_epochs": 2, "dtype": "float32", "engine": engine}
    near, far = (
        PBPRegressor(4, random_state=0, **options).fit(X, Y + offset).predict(X) - offset
        for offset in (0.0, 1e7)  # float32 has steps of 1 there
    )
    assert far.dtype == np.float64
    assert_allclose(far, near, atol=1e-3)


def test_several_targets_without_standardisation_are_saved(tmp_path: Path) -> None:
    model = PBPRegressor(4, n_epochs=1, standardize=False, random_state=0)
    model.fit(X, np.stack([Y, 1.0 - Y], axis=1)).save(tmp_path / "m")
    assert_allclose(load(tmp_path / "m").predict(X), model.predict(X), rtol=0)


@pytest.mark.parametrize(
    "model",
    [
        PBPRegressor(4, n_epochs=1, random_state=0),
        PBPEnsemble(PBPRegressor(4, n_epochs=1), n_members=2, random_state=0),
    ],
)
def test_a_second_thread_is_refused(model: Any) -> None:
    errors: list[BaseException] = []

    def second() -> None:
        try:
            model.partial_fit(X, Y)
        except RuntimeError as error:
            errors.append(error)

    def meanwhile(*_: object) -> None:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()

    model.fit(X, Y, callback=meanwhile)
    assert "Another thread is training this PBP" in str(errors[0])
    model.partial_fit(X, Y)  # one after the other is as it was
