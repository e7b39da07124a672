"""Cross-validated estimators on tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_array_equal

import probprop
from cv_models import small, small_classifier
from probprop import PBPClassifierCV, PBPRegressorCV
from probprop.table import TableError, TableModel, fit_table_model

pytestmark = [
    pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:'x'. possible leak"),
]

RNG = RandomState(0)
FRAME = pd.DataFrame(
    {
        "size": np.resize(["S", "M", "L"], 60),
        "x": RNG.standard_normal(60),
        "new": np.resize([True, False], 60),
        "often": np.resize([1.0, 2.0, 0.0, 0.5], 60),
    }
)
FRAME["y"] = FRAME["x"] + FRAME["new"] + 0.1 * RNG.standard_normal(60)
FRAME["kind"] = np.where(FRAME["x"] > 0.0, "up", "down")


def fit(target: str, estimator: Any, **options: Any) -> TableModel:
    other = {"y": "kind", "kind": "y"}[target]
    weight = options.get("weight")
    drop = [other] if weight else [other, "often"]
    return fit_table_model(FRAME, target, drop=drop, estimator=estimator, **options)


@pytest.mark.parametrize(("target", "make"), [("y", small), ("kind", small_classifier)])
def test_a_table_is_fitted_saved_loaded_and_updated(tmp_path: Path, target: str, make: Any) -> None:
    model = fit(target, make())
    assert isinstance(model.estimator, PBPRegressorCV | PBPClassifierCV)
    X, y = model.split(FRAME)
    assert_array_equal(model.predict(FRAME), make().fit(X, y).predict(X))
    model.save(tmp_path / "m")
    loaded = probprop.load(tmp_path / "m")
    assert type(loaded) is TableModel
    assert type(loaded.estimator) is type(model.estimator)
    assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    one, other = (m.update(FRAME[:20]) for m in (model, loaded))
    assert_array_equal(other.predict(FRAME), one.predict(FRAME))
    assert one.estimator.n_samples_seen_ == 80
    assert model.estimator.n_samples_seen_ == 60


def test_the_usual_seed_and_the_callback_that_it_does_not_take() -> None:
    model = fit("y", small(random_state=None), callback=lambda epoch: True)
    assert model.estimator.random_state == 0
    assert_array_equal(model.predict(FRAME), fit("y", small()).predict(FRAME))


def test_weights() -> None:
    model = fit("y", small(), weight="often")
    X, y = model.split(FRAME)
    counts = FRAME["often"] > 0.0
    weights = FRAME["often"][counts].to_numpy()
    alone = small().fit(X[counts], y[counts], sample_weight=weights)
    assert_array_equal(model.predict(FRAME), alone.predict(X))
    assert model.update(FRAME).estimator.n_samples_seen_ == 90


def test_known_errors() -> None:
    model = fit_table_model(FRAME, "y", drop=["kind"], estimator=small(), error="often")
    X, y = model.split(FRAME)
    alone = small().fit(X, y, y_std=FRAME["often"].to_numpy())
    assert_array_equal(model.predict(FRAME), alone.predict(X))
    assert model.update(FRAME).estimator.n_samples_seen_ == 2 * len(FRAME)


def test_missing_cells() -> None:
    holes = FRAME.assign(x=FRAME["x"].where(np.arange(60) % 7 > 0))
    drop = ["kind", "often"]
    with pytest.raises(TableError, match="missing"):
        fit_table_model(holes, "y", drop=drop, estimator=small(missing="error"))
    model = fit_table_model(holes, "y", drop=drop, estimator=small(missing="marginalize"))
    assert np.isfinite(model.predict(holes)).all()
