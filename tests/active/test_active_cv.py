"""What to measure next, by PBPRegressorCV: its members' spread counts, and its noise does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cv_models import PRICES, X, Y, small
from probprop import Candidate, PBPRegressorCV
from probprop.active import (
    ActiveLearner,
    upper_confidence_bound,
)
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
    each = [
        m.predict_distribution(encoded(rows, group.encoding))
        for group, members in fitted.members_by_group
        for m in members
    ]
    names = ("mean", "epistemic_std", "aleatoric_std")
    members = Moments(*(np.stack([getattr(p, name) for p in each]) for name in names))
    w = fitted.weights_
    mixture = fitted.calibration_.mixture(members, rows, weights=w)
    within, mean = w @ mixture.epistemic_stds**2, w @ mixture.means
    between = w @ (mixture.means - mean) ** 2
    variance = within + between
    assert learner.ask(pool)[0] == np.argmax(variance)
    assert_allclose(predictive.epistemic_std**2, variance, rtol=1e-5)
    assert between.max() > 0.1 * variance.max()
    assert np.ptp(predictive.aleatoric_std) > 0.0  # which does not count


@pytest.mark.parametrize("strategy", ["variance", "thompson"])
def test_powers_of_targets(strategy: Any) -> None:
    candidates = [Candidate(None, (4,), power=0.5)]
    learner = ActiveLearner(small(candidates=candidates), strategy=strategy, random_state=0)
    chosen = learner.tell(X[:60], PRICES[:60]).ask(X[60:], 3)
    model = learner.estimator_
    assert model.calibration_.transformation is not None
    assert len({*chosen.tolist()}) == 3
    # High prices are uncertain, and what may be highest is high.
    predicted = model.predict(X[60:])
    assert predicted[chosen].mean() > 2.0 * predicted.mean()


def test_a_learner_that_updates_with_new_samples() -> None:
    learner = ActiveLearner(small(), warm_start=True, random_state=0).tell(X[:60], Y[:60])
    chosen = learner.ask(X[60:], 3)
    expected = small().fit(X[:60], Y[:60]).partial_fit(X[60:][chosen], Y[60:][chosen])
    learner.tell(X[60:][chosen], Y[60:][chosen])
    assert_array_equal(learner.estimator_.predict(X), expected.predict(X))
    assert learner.estimator_.n_samples_seen_ == 63


@pytest.mark.parametrize("strategy", ["variance_reduction", "variance", "thompson"])
def test_all_strategies(strategy: str) -> None:
    learner = ActiveLearner(small(), strategy, random_state=0).tell(X[:60], Y[:60])
    assert len({*learner.ask(X[60:], 5)}) == 5


def test_an_acquisition(model: PBPRegressorCV) -> None:
    predictive = model.predict_distribution(X[:20])
    bound = upper_confidence_bound(model, kappa=2.0, goal="maximize")
    assert_allclose(bound(X[:20]), predictive.mean + 2.0 * predictive.epistemic_std)
