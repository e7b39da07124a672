"""What to measure next, by PBPRegressorCV: its members' spread counts, and its noise does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cv_models import PRICES, X, Y, small
from finite_differences import assert_gradient, differences
from probprop import Candidate, PBPRegressorCV
from probprop.active import (
    ActiveLearner,
    best_in_box,
    best_in_pool,
    expected_improvement,
    thompson,
    upper_confidence_bound,
)
from probprop.active.strategies import Variances, information_gain, predict_variances
from probprop.distributions.base import Moments
from probprop.encoding.piecewise import PiecewiseLinear, encode

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")


def encoded(rows: np.ndarray, state: PiecewiseLinear | None) -> np.ndarray:
    return rows if state is None else encode(rows, state).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> PBPRegressorCV:
    return small(candidates=[Candidate(None, (6,), 10.0)], dtype="float64").fit(X, Y)


def test_rows_are_chosen_by_the_variance_of_the_model_with_the_spread_of_the_members() -> None:
    learner = ActiveLearner(small(), "variance", random_state=0).tell(X[:60], Y[:60])
    fitted = learner.estimator_
    pool = X[60:]
    predictive, rows = fitted.predict_distribution(pool), fitted.bounds_.apply(pool)
    each = [m.predict_distribution(encoded(rows, fitted.encoding_)) for m in fitted.estimators_]
    names = ("mean", "epistemic_std", "aleatoric_std")
    members = Moments(*(np.stack([getattr(p, name) for p in each]) for name in names))
    mixture = fitted.calibration_.mixture(members, rows)
    within, between = np.mean(mixture.epistemic_stds**2, axis=0), np.var(mixture.means, axis=0)
    variance = within + between
    assert learner.ask(pool)[0] == np.argmax(variance)
    ratio = predict_variances(fitted, pool).model / variance
    assert_allclose(ratio, ratio[0])
    assert between.max() > 0.1 * variance.max()
    assert np.ptp(predictive.aleatoric_std) > 0.0  # which does not count


@pytest.mark.parametrize("strategy", ["variance", "information_gain", "thompson"])
def test_powers_of_targets(strategy: Any) -> None:
    candidates = [Candidate(None, (4,), power=0.5)]
    learner = ActiveLearner(small(candidates=candidates), strategy=strategy, random_state=0)
    chosen = learner.tell(X[:60], PRICES[:60]).ask(X[60:], 3)
    model = learner.estimator_
    assert model.calibration_.transformation is not None
    assert len({*chosen.tolist()}) == 3
    # High prices are uncertain, and what may be highest is high.
    predicted = model.predict(X[60:])
    if strategy != "information_gain":
        assert predicted[chosen].mean() > 2.0 * predicted.mean()


def test_a_target_that_is_certain_gives_no_information() -> None:
    gain = information_gain(Variances(np.array([0.0, 1.0]), np.array([0.0, 1.0])), np.ones(2))
    assert_allclose(gain, [0.0, 0.5 * np.log(2.0)])


def test_scores_of_powers_by_finite_differences() -> None:
    # Constant noise: a noise network has kinks at the training rows, which are among these.
    candidates = [Candidate(None, (4,), power=0.5, noise="constant")]
    model = small(candidates=candidates, dtype="float64").fit(X[:25], PRICES[:25])
    acquisition = expected_improvement(model, best=20.0, goal="maximize")
    inside = model.calibration_.range.std(X) == 0.0
    score, dscore_dX = acquisition.gradient(X[inside])
    assert_allclose(score, acquisition(X[inside]), rtol=1e-9)
    steps = 1e-4 * X.std(axis=0)
    assert_gradient(dscore_dX, differences(acquisition, X[inside], steps), 1e-4)


def test_a_learner_that_goes_on_with_new_rows() -> None:
    learner = ActiveLearner(small(), warm_start=True, random_state=0).tell(X[:60], Y[:60])
    chosen = learner.ask(X[60:], 3)
    expected = small().fit(X[:60], Y[:60]).partial_fit(X[60:][chosen], Y[60:][chosen])
    learner.tell(X[60:][chosen], Y[60:][chosen])
    assert_array_equal(learner.estimator_.predict(X), expected.predict(X))
    assert learner.estimator_.n_samples_seen_ == 63


@pytest.mark.parametrize(
    "strategy", ["variance_reduction", "variance", "information_gain", "thompson"]
)
def test_all_strategies(strategy: str) -> None:
    learner = ActiveLearner(small(), strategy, random_state=0).tell(X[:60], Y[:60])
    assert len({*learner.ask(X[60:], 5)}) == 5


def test_acquisitions_and_their_gradients(model: PBPRegressorCV) -> None:
    predictive = model.predict_distribution(X[:20])
    bound = upper_confidence_bound(model, kappa=2.0, goal="maximize")
    assert_allclose(bound(X[:20]), predictive.mean + 2.0 * predictive.epistemic_std)
    gain = expected_improvement(model, best=float(np.median(Y)), goal="minimize")
    inside = model.calibration_.range
    rows = X[:20][((X[:20] > inside.low) & (X[:20] < inside.high)).all(axis=1)]
    for acquisition in (bound, gain):
        scores, gradient = acquisition.gradient(rows)
        assert_allclose(scores, acquisition(rows), rtol=1e-10)
        expected = differences(acquisition, rows, 1e-4 * X.std(axis=0))
        assert_gradient(gradient, expected, 1e-5)


def test_the_best_point_of_a_box_is_at_least_that_of_a_pool(model: PBPRegressorCV) -> None:
    bounds = np.stack([X.min(axis=0), X.max(axis=0)], axis=1)
    pool = np.random.RandomState(0).uniform(*bounds.T, size=(500, 3))
    bound = upper_confidence_bound(model, goal="maximize")
    _, score = best_in_box(bound, bounds, random_state=0)
    assert score >= bound(pool)[best_in_pool(bound, pool, random_state=0)]
    drawn = thompson(model, goal="minimize", random_state=0)
    x, score = best_in_box(drawn, bounds, random_state=0)
    assert_allclose(drawn(x[np.newaxis]), score)
    assert score >= drawn(pool).max()
