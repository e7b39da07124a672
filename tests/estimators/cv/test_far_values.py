"""Single values far outside the training range, in training and in new samples."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probprop
from probprop import Candidate, PBPClassifierCV, PBPRegressorCV

UNITS = np.array([1.0, 10.0, 0.1])
CANDIDATES = [Candidate(None, (20,), 10.0), Candidate(16, (20,), 10.0)]
LOGARITHM = [Candidate(None, (20,), 10.0, power=0.0), Candidate(16, (20,), 10.0, power=0.0)]
ANY = pytest.mark.parametrize("candidate", [*CANDIDATES, *LOGARITHM], ids=str)

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")


@cache
def data() -> tuple[np.ndarray, np.ndarray]:
    """500 samples; targets are positive."""
    rng = np.random.RandomState(0)
    Z = rng.standard_normal((500, 3))
    log_y = np.sin(2.0 * Z[:, 0]) + 0.7 * Z[:, 1] + 0.2 * rng.standard_normal(500)
    return Z * UNITS, np.exp(0.7 * log_y)


def split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = data()
    return X[:300].copy(), y[:300], X[300:].copy(), y[300:]


@cache
def fitted(candidate: Candidate, far: float = 0.0) -> PBPRegressorCV:
    """A model; two training values are this number of standard deviations from the mean."""
    X, y, _, _ = split()
    if far:
        X[7, 0], X[9, 1] = far * UNITS[0], -far * UNITS[1]
    # Where the mean is far below 0, a support from 0 on leaves the upper half of the width.
    model = PBPRegressorCV(3, candidates=[candidate], budget="fast", support=None, random_state=0)
    return model.fit(X, y)


def scores(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    predictive = model.predict_distribution(X)
    return np.sqrt(np.mean((predictive.mean - y) ** 2)), np.mean(predictive.logpdf(y))


@ANY
@pytest.mark.parametrize("far", [40.0, 1000.0])
def test_far_values_in_new_samples(candidate: Candidate, far: float) -> None:
    _, _, X, y = split()
    model = fitted(candidate)
    rmse, score = scores(model, X, y)
    X[3, 0], X[5, 1], X[8, 2] = far * UNITS[0], far * UNITS[1], -far * UNITS[2]
    with_far = scores(model, X, y)
    assert with_far[0] < 10.0 * rmse  # 3 of 200 samples, whose targets cannot be predicted
    assert with_far[1] > score - 0.3


@ANY
@pytest.mark.parametrize("far", [40.0, 1000.0])
def test_far_values_in_training_samples(candidate: Candidate, far: float) -> None:
    _, _, X, y = split()
    rmse, score = scores(fitted(candidate), X, y)
    model = fitted(candidate, far)
    with_far = scores(model, X, y)
    assert with_far[0] < 1.25 * rmse
    assert with_far[1] > score - 0.1
    X[3, 0], X[5, 1], X[8, 1] = 1.1 * far * UNITS[0], far * UNITS[1], -2.0 * far * UNITS[1]
    assert scores(model, X, y)[0] < 3.0 * rmse


@ANY
def test_the_std_grows_outside_the_range(candidate: Candidate) -> None:
    X = data()[0][:25]
    model = fitted(candidate)

    def widths(rows: np.ndarray) -> np.ndarray:
        low, high = model.predict_distribution(rows).interval(0.95)
        return np.log(high / low) if candidate.power == 0.0 else high - low

    inside = widths(X).mean()
    for direction in UNITS * np.eye(3):
        ranges = 6.0 * direction
        one, ten, far = (widths(X + by * ranges).mean() for by in (1.0, 10.0, 1e9))
        assert 1.1 * inside < one < ten < far < 100.0 * inside


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_bins", [None, 8])
def test_every_finite_value_has_a_prediction(n_bins: int | None, dtype: Any) -> None:
    X, y, _, _ = split()
    most = np.finfo(np.float64).max
    far = np.array([[most, -most, most], [1e300, 0.0, -1e-320], [-1e40, 1e7, 0.0]])
    options: Any = {"budget": "fast", "cv": 2, "dtype": dtype, "random_state": 0}
    candidates = [Candidate(n_bins, (5,), 10.0)]
    model = PBPRegressorCV(candidates=candidates, **options).fit(X, y)
    assert np.isfinite(model.predict(far, return_std=True)).all()
    assert np.isfinite(model.predict_gradient(far).dmean_dX).all()
    [f] = model.sample_functions(random_state=0)
    assert np.isfinite(f(far)).all()
    classes = PBPClassifierCV(candidates=candidates, **options).fit(X, y > 1.0)
    assert_allclose(classes.predict_proba(far).sum(axis=1), 1.0)
    for one in (model, classes):
        with pytest.raises(ValueError, match="infinity"):
            one.predict([[np.inf, 0.0, 0.0]])


@pytest.mark.parametrize("candidate", [*CANDIDATES, LOGARITHM[0]], ids=str)
def test_units_of_the_features_do_not_matter(candidate: Candidate) -> None:
    X, y, new, _ = split()
    X[7, 0], X[9, 1], new[0, 0], new[1, 2] = 40.0, -1e3, 50.0, -1e4
    model = PBPRegressorCV(
        candidates=[candidate], budget="fast", cv=2, dtype="float64", random_state=0
    )
    expected = model.fit(X[:150], y[:150]).predict(new, return_std=True)
    a, b = np.array([1e6, 0.3048, 1e-9]), np.array([1e3, 7.0, 0.0])
    got = model.fit(a * X[:150] + b, y[:150]).predict(a * new + b, return_std=True)
    assert_allclose(got, expected, rtol=1e-6)


def test_partial_fit_widens_the_range() -> None:
    x = np.linspace(0.0, 1.0, 120)[:, np.newaxis]
    model = PBPRegressorCV(candidates=CANDIDATES[:1], budget="fast", cv=3, random_state=0)
    model.fit(x, 2.0 * x[:, 0])
    before = model.predict([[1.8]])[0]
    for _ in range(5):
        model.partial_fit(x + 0.8, 2.0 * x[:, 0] + 1.6)
    assert (model.bounds_.low, model.bounds_.high) == (0.0, 1.8)
    assert before < 3.1  # of 3.6
    assert abs(model.predict([[1.8]])[0] - 3.6) < 0.2
    inside = model.predict(x)
    model.partial_fit([[1e30]], [2.0])  # a mistake
    assert model.bounds_.high < 3.0
    assert np.abs(model.predict(x) - inside).max() < 0.3


@pytest.mark.parametrize("labels", [False, True])
def test_files_keep_the_bounds(labels: bool, tmp_path: Path) -> None:
    X, y, new, _ = split()
    X[7, 0], new[0, 0], new[1, 2] = 40.0, 50.0, -1e4
    kind = PBPClassifierCV if labels else PBPRegressorCV
    model: Any = kind(candidates=CANDIDATES[1:], budget="fast", cv=2, random_state=0)
    model.fit(X, y > 1.0 if labels else y)
    model.save(tmp_path / "model.pbp")
    again = probprop.load(tmp_path / "model.pbp")
    ask = "predict_proba" if labels else "predict"
    assert_array_equal(getattr(again, ask)(new), getattr(model, ask)(new))
    more = new[:40] * 3.0, (y[:40] > 1.0 if labels else y[:40])
    assert_array_equal(
        getattr(again.partial_fit(*more), ask)(new), getattr(model.partial_fit(*more), ask)(new)
    )
