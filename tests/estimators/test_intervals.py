"""predict_interval and predict_quantiles: shapes, values, and which estimators have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from probprop import (
    Candidate,
    PBPClassifier,
    PBPClassifierCV,
    PBPRegressor,
    PBPRegressorCV,
)

N = 120
X = np.random.RandomState(0).standard_normal((N, 3))
Y = X[:, 0] - 2.0 * X[:, 1] + 0.5 * np.random.RandomState(1).standard_normal(N)
PRICES = np.exp(0.3 * Y)
ALPHA = [0.9, 0.025, 0.5, 0.975]


def regressor(**parameters: Any) -> PBPRegressor:
    return PBPRegressor((5,), **{"n_epochs": 5, "random_state": 0, **parameters})


def cross_validated(**candidate: Any) -> PBPRegressorCV:
    one = Candidate(None, (5,), **candidate)
    return PBPRegressorCV(cv=2, candidates=[one], budget="fast", random_state=0)


MODELS = {
    "regressor": (regressor(), Y),
    "heavy tails": (regressor(noise_tail="heavy"), Y),
    "cv, constant noise": (cross_validated(noise="constant"), Y),
    "cv, noise network": (cross_validated(noise="input"), Y),
    "cv, transformed target": (cross_validated(power=0.0), PRICES),
}


@pytest.mark.parametrize(("model", "y"), MODELS.values(), ids=list(MODELS))
def test_one_target(model: Any, y: Any) -> None:
    model.fit(X, y)
    p = model.predict_distribution(X[:7])
    interval = model.predict_interval(X[:7])
    assert interval.shape == (7, 2)
    assert_array_equal(interval, np.stack(p.interval(0.95), axis=1))
    assert (interval[:, 0] < p.median).all()
    assert (p.median < interval[:, 1]).all()
    narrow = model.predict_interval(X[:7], coverage=0.5)
    assert_allclose(p.cdf(narrow[:, 1]) - p.cdf(narrow[:, 0]), 0.5, rtol=1e-9)

    quantiles = model.predict_quantiles(X[:7], ALPHA)
    assert quantiles.shape == (7, 4)
    assert_allclose([p.cdf(q) for q in quantiles.T], np.tile(ALPHA, (7, 1)).T, rtol=1e-9)
    assert_allclose(quantiles[:, [1, 3]], interval, rtol=1e-9)
    assert_array_equal(model.predict_quantiles(X[:7], 0.9), quantiles[:, :1])
    assert model.predict_quantiles(X[:7], []).shape == (7, 0)


def test_several_targets() -> None:
    model = regressor().fit(X, np.stack([Y, 10.0 * X[:, 2]], axis=1))
    p = model.predict_distribution(X[:7])
    interval, quantiles = model.predict_interval(X[:7], 0.8), model.predict_quantiles(X[:7], ALPHA)
    assert interval.shape == (7, 2, 2)
    assert quantiles.shape == (7, 4, 2)
    for k, one in enumerate(p.targets()):
        assert_allclose(interval[..., k], np.stack(one.interval(0.8), axis=1), rtol=1e-12)
        assert_allclose(quantiles[..., k], one.ppf(ALPHA).T, rtol=1e-12)


def test_intervals_cover() -> None:
    rng = np.random.RandomState(2)
    rows = rng.standard_normal((2000, 3))
    y = rows[:, 0] - 2.0 * rows[:, 1] + 0.5 * rng.standard_normal(2000)
    low, high = cross_validated().fit(X, Y).predict_interval(rows, 0.9).T
    assert abs(((low < y) & (y < high)).mean() - 0.9) < 0.06


@pytest.mark.parametrize("method", ["predict_interval", "predict_quantiles"])
def test_classifiers_have_none(method: str) -> None:
    assert not hasattr(PBPClassifier(), method)
    assert not hasattr(PBPClassifierCV(), method)


@pytest.mark.parametrize("model", [regressor(), cross_validated()], ids=lambda m: type(m))
def test_before_fit(model: Any) -> None:
    with pytest.raises(NotFittedError):
        model.predict_interval(X)
    with pytest.raises(NotFittedError):
        model.predict_quantiles(X, 0.5)


def test_what_is_refused() -> None:
    model = regressor().fit(X, Y)
    for bad in (0.0, 1.0, 95.0, -0.1, np.nan):
        with pytest.raises(ValueError, match=rf"'coverage' parameter .* Got {bad} instead"):
            model.predict_interval(X, bad)
        with pytest.raises(ValueError, match=rf"'q' parameter .* Got {bad} instead"):
            model.predict_quantiles(X, [0.5, bad])
    for wrong in ("0.9", [0.5, 0.9], None):
        with pytest.raises(TypeError, match="coverage must be an instance of"):
            model.predict_interval(X, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"alpha must be a float or .* Got the shape \(1, 2\)"):
        model.predict_quantiles(X, [[0.1, 0.2]])
    with pytest.raises(ValueError, match="X has 2 features, but PBPRegressor is expecting 3"):
        model.predict_interval(X[:, :2])
