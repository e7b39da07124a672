"""Options at the ends of the range of floats, single precision far from 0, and two threads."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose
from sklearn.base import clone

from probprop import (
    Candidate,
    PBPClassifier,
    PBPRegressor,
    PBPRegressorCV,
    load,
)

RNG = np.random.RandomState(0)
X = RNG.standard_normal((60, 3))
Y = X[:, 0] + 0.1 * RNG.standard_normal(60)


@pytest.mark.parametrize(
    ("extreme", "same"),
    [({"evidence_cap": 1e307}, {"evidence_cap": 1e12})],
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


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-305])
@pytest.mark.parametrize(
    "model",
    [
        PBPRegressor(4, n_epochs=1, random_state=0),
        PBPRegressorCV(candidates=[Candidate(None, (4,))], budget="fast", random_state=0),
        PBPRegressorCV(candidates=[Candidate(4, (4,))], budget="fast", random_state=0),
    ],
    ids=["regressor", "cv", "cv, encoded"],
)
def test_a_column_of_denormals_is_constant(model: Any, size: float) -> None:
    """Derivatives per unit of the column would overflow."""
    tiny = X * [1.0, size, 1.0]
    beyond = np.concatenate([tiny[:5], tiny[:5] * [1.0, 9.0, 1.0]])
    found = model.fit(tiny, Y).predict_gradient(beyond)
    gradients = (found.dmean_dX, found.depistemic_std_dX, found.daleatoric_std_dX)
    assert np.isfinite(gradients).all()
    [function] = model.sample_functions(1, random_state=0)
    assert np.isfinite(function.gradient(beyond)[1]).all()
    one = clone(model).fit(X * [1.0, 0.0, 1.0], Y)
    assert_allclose(model.predict(tiny), one.predict(X * [1.0, 0.0, 1.0]), rtol=1e-12)


def test_several_targets_without_standardization_are_saved(tmp_path: Path) -> None:
    model = PBPRegressor(4, n_epochs=1, standardize=False, random_state=0)
    model.fit(X, np.stack([Y, 1.0 - Y], axis=1)).save(tmp_path / "m")
    assert_allclose(load(tmp_path / "m").predict(X), model.predict(X), rtol=0)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["two", "three", "labels", "value"])
def test_a_fit_that_skips_every_point_says_so(engine: Any, dtype: Any, kind: str) -> None:
    x = RandomState(0).standard_normal((30, 3))
    y = {
        "two": x[:, 0] > 0.0,
        "three": np.digitize(x[:, 0], [-0.5, 0.5]),
        "labels": (x[:, :2] > 0.0).astype(int),
        "value": x[:, 0],
    }[kind]
    model: Any = PBPRegressor if kind == "value" else PBPClassifier
    wide, layers = (1e20, (4, 4, 4)) if dtype == "float32" else (1e100, (4, 4, 4, 4))
    options = {"prior_rate": wide, "n_epochs": 2, "engine": engine, "dtype": dtype}
    new = model(layers, random_state=0, **options)  # the variances of the outputs overflow
    with pytest.raises(ValueError, match="Nothing was learned: all 60 updates were skipped"):
        new.fit(x, y)
    assert not hasattr(new, "posterior_")


def test_outputs_beyond_the_range_of_floats_are_no_prediction() -> None:
    x = RandomState(0).standard_normal((30, 3))
    options: Any = {"prior_rate": 1e20, "n_epochs": 2, "dtype": "float32", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = PBPClassifier((4,), **options).fit(x, np.digitize(x[:, 0], [-0.5, 0.5]))
    with pytest.raises(ValueError, match=r"outputs of the network are beyond .* float32"):
        model.predict_proba(x)


@pytest.mark.parametrize("name", ["prior_shape", "prior_rate", "noise_shape", "noise_rate"])
@pytest.mark.parametrize("value", [1e-101, 1e101, 1e308])
def test_hyperpriors_that_floats_cannot_compute_with(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        PBPRegressor(**{name: value}).fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"range \[1e-30, 1e\+30\] with dtype='float32'"):
        PBPRegressor(prior_rate=1e-40, dtype="float32").fit([[0.0], [1.0]], [0.0, 1.0])
