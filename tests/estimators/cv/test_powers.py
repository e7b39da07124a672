"""Powers of the targets: which is tried, when it is taken, and what the estimator makes of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import boxcox_llf

from probprop import (
    BoxCox,
    Candidate,
    PBPClassifierCV,
    PBPRegressorCV,
    Recalibrated,
    TransformedMixture,
)
from probprop.distributions.power import box_cox_of
from probprop.estimators.cv.calibration import OutOfFold
from probprop.estimators.cv.policy import MIN_ROWS_FOR_POWER
from probprop.estimators.cv.search import power_of_residuals

N = 200


def prices(n: int = N, seed: int = 0) -> tuple[Any, Any]:
    """Prices with errors of ten percent."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 2))
    return X, np.exp(7.0 + X[:, 0] + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(n))


def out_of_fold(mean: Any, weights: Any = None) -> OutOfFold:
    ones = np.ones(len(mean))
    return OutOfFold(mean, ones, ones, ones, 1.0, weights)


class TestPower:
    @pytest.mark.parametrize("power", [0.0, 0.5, 0.75])
    def test_it_is_found_in_residuals(self, power: float) -> None:
        rng = np.random.RandomState(0)
        mean = rng.uniform(5.0, 100.0, 2000)
        g = BoxCox(power, 30.0)
        y = g.inverse(g.forward(mean) + 0.1 * rng.standard_normal(2000))
        assert_allclose(power_of_residuals(y, out_of_fold(mean)), power, atol=0.1)

    def test_with_one_mean_it_matches_scipy(self) -> None:
        y = (6.0 + np.random.RandomState(0).standard_normal(500)) ** 3
        powers = np.linspace(0.0, 1.0, 21)
        best = powers[np.argmax([boxcox_llf(power, y) for power in powers])]
        center = BoxCox(best).inverse(BoxCox(best).forward(y).mean())
        assert_allclose(power_of_residuals(y, out_of_fold(np.full(500, center))), best, atol=0.05)

    @pytest.mark.parametrize("lowest", [0.0, -1.0, np.nan])
    def test_targets_that_are_not_positive_have_none(self, lowest: float) -> None:
        _, y = prices()
        mean = y / 1.1
        assert power_of_residuals(y, out_of_fold(mean)) is not None
        assert power_of_residuals(np.append(y, lowest), out_of_fold(np.append(mean, 1.0))) is None

    def test_nor_have_errors_of_one_size_nor_none_nor_few_rows(self) -> None:
        rng = np.random.RandomState(0)
        mean = rng.uniform(10.0, 100.0, N)
        assert power_of_residuals(mean + rng.standard_normal(N), out_of_fold(mean)) is None
        assert power_of_residuals(mean, out_of_fold(mean)) is None
        _, y = prices(MIN_ROWS_FOR_POWER)
        growing = out_of_fold(y * np.exp(0.1 * rng.standard_normal(MIN_ROWS_FOR_POWER)))
        assert power_of_residuals(y, growing) is not None
        assert power_of_residuals(y[1:], out_of_fold(growing.mean[1:])) is None

    def test_predictions_below_zero_are_taken_as_small(self) -> None:
        _, y = prices()
        mean = 1.1 * y
        mean[0] = -50.0
        assert power_of_residuals(y, out_of_fold(mean)) is not None

    def test_rows_count_as_their_weights(self) -> None:
        rng = np.random.RandomState(0)
        mean = rng.uniform(10.0, 100.0, 2 * N)
        errors = rng.standard_normal(2 * N)
        y = np.where(np.arange(2 * N) < N, mean + errors, mean * np.exp(0.3 * errors))
        even, first = np.ones(2 * N), np.where(np.arange(2 * N) < N, 1.0, 1e-9)
        assert power_of_residuals(y, out_of_fold(mean, even)) is not None
        assert power_of_residuals(y, out_of_fold(mean, first)) is None


@pytest.fixture(scope="module")
def model() -> PBPRegressorCV:
    return PBPRegressorCV(budget="fast", random_state=0).fit(*prices())


class TestEstimator:
    def test_prices_are_predicted_on_their_scale(self, model: PBPRegressorCV) -> None:
        X, y = prices(500, seed=1)
        g = model.calibration_.transformation
        assert g == BoxCox(model.best_params_["power"], g.unit)
        p = model.predict_distribution(X)
        assert isinstance(p.base if isinstance(p, Recalibrated) else p, TransformedMixture)
        lower, upper = p.interval()
        assert (lower > 0.0).all()
        assert 0.9 < ((lower < y) & (y < upper)).mean() < 0.99
        mean, std = model.predict(X, return_std=True)
        assert_array_equal(mean, p.mean)
        assert_array_equal(std, p.std)
        small = [Candidate(None, (50,), 10.0)]
        settings: dict[str, Any] = {"budget": "fast", "support": None, "random_state": 0}
        plain = PBPRegressorCV(candidates=small, **settings).fit(*prices())
        assert plain.calibration_.transformation is None
        without = plain.predict_distribution(X)
        assert (without.interval()[0] < 0.0).any()
        assert p.logpdf(y).mean() > without.logpdf(y).mean() + 0.2

    def test_out_of_fold_predictions_are_in_target_units(self, model: PBPRegressorCV) -> None:
        _, y = prices()
        inside = model.oof_predictive_.interval(0.9)
        assert 0.8 < ((inside[0] < y) & (y < inside[1])).mean() < 0.98
        members = model.estimators_[0].predict_distribution(prices()[0])
        assert np.abs(members.mean).max() < 10.0  # of logarithms
        # The score has the Jacobian: it is near the density in target units.
        assert_allclose(model.best_score_, model.oof_predictive_.logpdf(y).mean(), atol=0.2)

    def test_targets_not_all_positive_stay_as_they_are(self) -> None:
        X, y = prices()
        y[0] = 0.0
        model = PBPRegressorCV(budget="fast", random_state=0).fit(X, y)
        assert model.calibration_.transformation is None
        assert [trial.candidate.power for trial in model.trials_] == [None, None]

    def test_candidates_may_have_a_power(self) -> None:
        X, y = prices()
        both = [Candidate(None, (10,)), {"hidden_layer_sizes": (10,), "power": 0}]
        with pytest.raises(ValueError, match="candidates must have the same power"):
            PBPRegressorCV(candidates=both).fit(X, y)
        model = PBPRegressorCV(candidates=both[1:], budget="fast", random_state=0).fit(X, y)
        assert model.best_params_["power"] == 0
        logs = PBPRegressorCV(candidates=both[:1], budget="fast", random_state=0).fit(X, np.log(y))
        median = model.predict_distribution(X).ppf(0.5)
        assert_allclose(median, np.exp(logs.predict_distribution(X).ppf(0.5)), rtol=1e-4)

    @pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")  # few points
    def test_updates_use_transformed_targets(self) -> None:
        (X, y), (X_new, y_new) = prices(), prices(100, seed=2)
        g = box_cox_of(y, 0.5)
        settings: dict[str, Any] = {"budget": "fast", "random_state": 0}
        model = PBPRegressorCV(
            candidates=[Candidate(hidden_layer_sizes=(10,), power=0.5)], **settings
        )
        plain = PBPRegressorCV(candidates=[Candidate(hidden_layer_sizes=(10,))], **settings)
        model.fit(X, y).partial_fit(X_new, y_new)
        plain.fit(X, g.forward(y)).partial_fit(X_new, g.forward(y_new))
        assert model.calibration_.transformation == g
        assert_allclose(model.calibration_.factor, plain.calibration_.factor, rtol=1e-6)
        inside = np.array(plain.predict_distribution(X).interval())
        # Targets are uniform within a bin of normal scores, whatever their scale. Close to 0, where
        # the root is steep, ends agree as a share of the unit only.
        ends = model.predict_distribution(X).interval()
        assert_allclose(ends, g.inverse(inside), rtol=1e-3, atol=1e-5 * g.unit)
        kept = model.predict(X)
        with pytest.raises(ValueError, match=r"strictly positive\. Got 0.0, and 1 of 100 targets"):
            model.partial_fit(X_new, np.append(y_new[1:], 0.0))
        assert_array_equal(model.predict(X), kept)

    def test_what_is_refused(self) -> None:
        X, y = prices(40)
        powers = [Candidate(power=0.5)]
        with pytest.raises(ValueError, match=r"targets above 0. Got -1.0, and 1 of 40"):
            PBPRegressorCV(candidates=powers).fit(X, np.append(y[1:], -1.0))
        with pytest.raises(ValueError, match=r"power .* targets of a regression. Got 0.5"):
            PBPClassifierCV(candidates=powers).fit(X, y > 1000.0)
        with pytest.raises(ValueError, match=r"power of a candidate must be in the range \[0, 1\]"):
            Candidate(power=-0.5)
        with pytest.raises(TypeError, match="power of a candidate must be a float, not str"):
            Candidate(power="log")  # type: ignore[arg-type]

    def test_the_bar_never_goes_back(self, capsys: pytest.CaptureFixture[str]) -> None:
        PBPRegressorCV(budget="fast", random_state=0, verbose=1).fit(*prices())
        shares = [int(share) for share in re.findall(r"(\d+) %", capsys.readouterr().err)]
        assert shares == sorted(shares)
        assert shares[-1] == 100
