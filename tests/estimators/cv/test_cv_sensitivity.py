"""Gradients of PBPRegressorCV by finite differences, and the moments of functions drawn from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from finite_differences import assert_gradient, differences
from probprop import Candidate, PBPRegressorCV, Recalibrated
from probprop.estimators.cv.calibration import Levels

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")

RNG = np.random.RandomState(0)
SCALE, SHIFT = np.array([1e-3, 20.0, 1e5]), np.array([0.0, 500.0, -1e6])
Z = RNG.standard_normal((120, 3))
X = Z * SCALE + SHIFT  # units that are far from 1 and from each other
Y = 1e4 * (np.sin(2.0 * Z[:, 0]) + np.exp(0.7 * Z[:, 1]) * RNG.standard_normal(120)) + 3e5
PRICES = np.exp(5.0 + 0.7 * Z[:, 0] + 0.2 * RNG.standard_normal(120) * np.exp(0.5 * Z[:, 1]))
CANDIDATES = [Candidate(None, (6,), 10.0), Candidate(5, (6, 4), 10.0)]


def fitted(candidate: Candidate, n: int = 120, **parameters: Any) -> PBPRegressorCV:
    usual = {"cv": 3, "budget": "fast", "dtype": "float64", "random_state": 0}
    model = PBPRegressorCV(candidates=[candidate], **{**usual, **parameters})
    return model.fit(X[:n], (Y if candidate.power is None else PRICES)[:n])


def away_from_knots(model: PBPRegressorCV, rows: Any, steps: Any) -> Any:
    """Return the rows at which no step crosses a kink or leaves the range."""
    box, found = model.calibration_.range, np.ones(len(rows), bool)
    states = [group.encoding for group in model.groups_]
    if model.calibration_.noise is not None:
        states.append(model.calibration_.noise.encoding)
    knots = [[box.low[j], box.high[j]] for j in range(3)]
    for state in states:
        if state is not None:
            knots = [[*a, *b] for a, b in zip(knots, state.knots, strict=True)]
    for j in range(3):
        distance = np.abs(rows[:, j, np.newaxis] - np.array(knots[j]))
        found &= (distance > 1.01 * steps[j]).all(axis=1)
    if (noise := model.calibration_.noise) is not None:  # the levels of the noise have kinks too
        free = replace(noise, levels=Levels(-20.0, 20.0, 4.0))
        around = [rows, *(rows + sign * step for step in np.diag(steps) for sign in (-1.01, 1.01))]
        each = [free.log_scale(box.nearest(some)) for some in around]
        low, high, variance = noise.levels
        sides = np.array([[h.mean < low, h.mean > high, h.variance > variance] for h in each])
        found &= (sides == sides[0]).all(axis=(0, 1))
    return rows[found]


POWERS = [replace(CANDIDATES[0], power=0.5), replace(CANDIDATES[1], power=0.0)]
ROWS = (RNG.standard_normal((400, 3)) * [1.0, 2.0, 1.0]) * SCALE + SHIFT  # some lie outside

both = pytest.mark.parametrize("candidate", [*CANDIDATES, *POWERS])


@both
@pytest.mark.parametrize("n", [18, 120])  # too few for a noise network, and enough
def test_gradients_by_finite_differences(candidate: Candidate, n: int) -> None:
    model = fitted(candidate, n)
    assert (model.calibration_.noise is None) == (n == 18)
    steps = 1e-3 * SCALE
    rows = away_from_knots(model, ROWS, steps)
    inside = model.calibration_.range.std(rows) == 0.0
    assert min(inside.sum(), (~inside).sum()) > 50
    at, predictive = model.predict_gradient(rows), model.predict_distribution(rows)
    for name in ("mean", "epistemic_std", "aleatoric_std", "std"):
        assert_allclose(getattr(at, name), getattr(predictive, name), rtol=1e-12)
        expected = differences(
            lambda X, name=name: getattr(model.predict_distribution(X), name), rows, steps
        )
        got = getattr(at, f"d{name}_dX")
        if name == "aleatoric_std" and n == 18 and candidate.power is None:
            assert not got.any()
        else:
            assert np.abs(got).max() > 0.0
            assert_gradient(got, expected, 1e-5)


def test_gradients_far_from_the_data() -> None:
    far = np.array([-1.0, 1.0])[:, np.newaxis] * 1e4 * SCALE + SHIFT
    for candidate in POWERS:
        at = fitted(candidate).predict_gradient(far)
        assert np.isfinite([at.mean, at.std]).all()
        gradients = np.array([at.dmean_dX, at.dstd_dX]) * SCALE  # per standard deviation
        assert (np.abs(gradients) < 1e-4 * at.std[:, np.newaxis]).all()  # bounded features


@pytest.mark.parametrize("spread", [5.0, 8.4, 20.0])
def test_gradients_of_capped_moments_by_finite_differences(spread: float) -> None:
    """Targets whose logarithm has a standard deviation that no mean of theirs survives."""
    rng = np.random.RandomState(1)
    y = np.exp(spread * (0.2 * np.sin(2.0 * Z[:, 0]) + rng.standard_normal(120)))
    candidate = Candidate(None, (4,), 10.0, power=0.0)
    model = PBPRegressorCV(candidates=[candidate], cv=3, dtype="float64", random_state=0).fit(X, y)
    steps = 1e-3 * SCALE
    rows = away_from_knots(model, ROWS, steps)[:40]
    at, predictive = model.predict_gradient(rows), model.predict_distribution(rows)
    for name in ("mean", "epistemic_std", "aleatoric_std", "std"):
        value, got = getattr(predictive, name), getattr(at, f"d{name}_dX")
        assert_allclose(getattr(at, name), value, rtol=1e-10)
        expected = differences(
            lambda X, name=name: np.log(getattr(model.predict_distribution(X), name)), rows, steps
        )
        relative = got / value[:, np.newaxis]
        right = np.isclose(relative * SCALE, expected * SCALE, rtol=1e-4, atol=1e-5)
        assert right.all(axis=1).mean() > 0.9  # but where another member attains the cap


def test_gradients_of_single_precision() -> None:
    model = fitted(CANDIDATES[0], 18, dtype="float32")
    rows = away_from_knots(model, ROWS, 0.05 * SCALE)
    at = model.predict_gradient(rows)
    assert_allclose(at.std, model.predict(rows, return_std=True)[1], rtol=1e-5)
    assert_gradient(at.dmean_dX, differences(model.predict, rows, 0.05 * SCALE), 5e-3)


@both
def test_functions_by_finite_differences(candidate: Candidate) -> None:
    model = fitted(candidate)
    rows = away_from_knots(model, ROWS, 1e-6 * SCALE)
    [f] = model.sample_functions(random_state=0)
    value, df_dX = f.gradient(rows)
    assert_allclose(value, f(rows), rtol=1e-12)
    # The network drawn is linear in pieces; a step may cross one of its edges.
    expected = differences(f, rows, 1e-6 * SCALE)
    error = np.abs(df_dX - expected) / np.abs(expected).max(axis=0)
    assert (error.max(axis=1) > 1e-5).mean() < 0.02


@pytest.mark.parametrize("n_bins", [None, 5])
def test_functions_have_the_moments_of_the_mixture(n_bins: int | None) -> None:
    """With one hidden layer the moments of the outputs are exact."""
    model = fitted(Candidate(n_bins, (6,), 10.0))
    rows = np.concatenate([X[:5], 3.0 * (X[:5] - SHIFT) + SHIFT])
    drawn = np.array([f(rows) for f in model.sample_functions(4000, random_state=1)])
    p = model.predict_distribution(rows)
    predictive = p.base if isinstance(p, Recalibrated) else p  # functions have no learned shape
    error = predictive.epistemic_std / np.sqrt(4000)
    assert (np.abs(drawn.mean(axis=0) - predictive.mean) < 4.0 * error).all()
    assert_allclose(drawn.std(axis=0), predictive.epistemic_std, rtol=0.1)


def test_functions_of_a_power_are_the_median_given_the_network() -> None:
    model = fitted(POWERS[0])
    g = model.calibration_.transformation
    assert g is not None
    p = model.predict_distribution(X[:20])
    z = p.base.transformed if isinstance(p, Recalibrated) else p.transformed
    above = np.flatnonzero(z.mean - 5.0 * z.epistemic_std > -2.0)  # there no draw is cut off at 0
    assert len(above) > 10
    drawn = np.array([f(X[above]) for f in model.sample_functions(4000, random_state=1)])
    assert (drawn >= 0.0).all()
    z = z[above]
    error = z.epistemic_std / np.sqrt(4000)
    assert (np.abs(g.forward(drawn).mean(axis=0) - z.mean) < 4.0 * error).all()
    assert_allclose(g.forward(drawn).std(axis=0), z.epistemic_std, rtol=0.1)


def test_functions_are_drawn_by_the_seed() -> None:
    model = fitted(CANDIDATES[0])
    f, g = (model.sample_functions(3, random_state=5)[2] for _ in range(2))
    assert_array_equal(f(X), g(X))
    assert_array_equal(f(X), f(X))
    drawn = {h.member.random_state for h in model.sample_functions(60, random_state=0)}
    assert drawn == {member.random_state for member in model.estimators_}
    assert len(drawn) == 3


def test_what_predict_refuses_is_refused() -> None:
    with pytest.raises(NotFittedError):
        PBPRegressorCV().predict_gradient(X)
    with pytest.raises(NotFittedError):
        PBPRegressorCV().sample_functions()
    model = fitted(CANDIDATES[0])
    with pytest.raises(ValueError, match="n == 0"):
        model.sample_functions(0)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict_gradient(X[:, :2])
    holes = np.where(np.arange(3) == 1, np.nan, X[:1])
    gaps = fitted(CANDIDATES[1], missing="marginalize")
    assert np.isfinite(gaps.predict(holes)).all()
    with pytest.raises(ValueError, match="X contains NaN, where predict_gradient has no gradient"):
        gaps.predict_gradient(holes)
    [f] = model.sample_functions()
    with pytest.raises(ValueError, match="X has 2 features, but SampledFunction is expecting 3"):
        f(X[:, :2])
