"""PBPRegressorCV learns the shape of its distribution and keeps the support of the targets."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal

from probprop import Candidate, Mixture, PBPRegressorCV, Recalibrated, load

N = 400
X = RandomState(0).standard_normal((N, 2))
MODES = np.where(RandomState(1).rand(N) < 0.5, 2.0, -2.0)
BIMODAL = X[:, 0] + MODES + 0.3 * RandomState(2).standard_normal(N)
COUNTS = RandomState(3).poisson(np.exp(X[:, 0])).astype(float)


def model(**parameters: Any) -> PBPRegressorCV:
    usual = {"cv": 2, "candidates": [Candidate(None, (5,))], "budget": "fast", "dtype": "float64"}
    return PBPRegressorCV(**{**usual, "random_state": 0, **parameters})


def test_two_modes_are_learned_and_scored_out_of_sample() -> None:
    fitted = model(cv=5).fit(X, BIMODAL)
    shape = fitted.calibration_.recalibration
    assert shape is not None
    assert shape.gain > 0.5
    assert "learned shape (gain 0." in repr(fitted.calibration_)
    assert isinstance(fitted.oof_predictive_, Recalibrated)
    rng = RandomState(7)
    A, modes = rng.standard_normal((500, 2)), np.where(rng.rand(500) < 0.5, 2.0, -2.0)
    y = A[:, 0] + modes + 0.3 * rng.standard_normal(500)
    p = fitted.predict_distribution(A)
    oof = fitted.oof_predictive_
    assert np.mean(p.logpdf(y)) == pytest.approx(np.mean(oof.logpdf(BIMODAL)), abs=0.15)
    assert np.mean(p.cdf(A[:, 0]) - p.cdf(A[:, 0] - 1.0)) < 0.1  # little between the modes
    for coverage in (0.5, 0.8, 0.95):
        lower, upper = p.interval(coverage)
        assert np.mean((lower <= y) & (y <= upper)) == pytest.approx(coverage, abs=0.08)
    assert_array_equal(fitted.predict(A), p.mean)
    assert_array_equal(fitted.predict(A, return_std=True)[1], p.std)


def test_where_it_is_off_nothing_changes() -> None:
    y = 3.0 * X[:, 0] + 0.5 * RandomState(5).standard_normal(N)
    fitted = model().fit(X, y)
    assert fitted.calibration_.recalibration is None
    assert isinstance(fitted.predict_distribution(X), Mixture)


class TestSupport:
    def test_counts_have_no_mass_below_zero(self) -> None:
        fitted = model().fit(X, COUNTS)
        p = fitted.predict_distribution(X)
        assert "support [0, inf)" in repr(fitted.calibration_)
        assert (p.interval(0.99)[0] >= 0.0).all()
        assert (p.mean > 0.0).all()
        assert (p.cdf(-1e-9) == 0.0).all()
        free = model(support=None).fit(X, COUNTS)
        assert "support" not in repr(free.calibration_)
        assert (free.predict_distribution(X).interval(0.99)[0] < 0.0).any()

    def test_a_given_support_is_enforced(self) -> None:
        low, high = BIMODAL.min() - 1.0, BIMODAL.max() + 0.1
        fitted = model(support=(low, high)).fit(X, BIMODAL)
        p = fitted.predict_distribution(X)
        lower, upper = p.interval(0.999999)
        assert low <= lower.min()
        assert upper.max() <= high
        above = model(support=(low, None)).fit(X, BIMODAL).calibration_.recalibration
        assert above is not None
        assert (above.low, above.high) == (low, math.inf)

    def test_targets_outside_of_it_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"y must lie in the support, from 0 to inf. Got -"):
            model(support=(0, None)).fit(X, BIMODAL)

    @pytest.mark.parametrize("bad", ["all", (1.0, 0.0), (0.0,), 3.0, (0.0, np.nan), ("a", "b")])
    def test_what_is_no_support(self, bad: Any) -> None:
        with pytest.raises(ValueError, match="support must be 'auto', None or"):
            model(support=bad).fit(X, BIMODAL)

    def test_new_targets_beyond_it_give_it_up(self) -> None:
        fitted = model().fit(X, COUNTS)
        before = fitted.calibration_.recalibration
        fitted.partial_fit(X[:10], COUNTS[:10])
        after = fitted.calibration_.recalibration
        assert before is not None
        assert after is not None
        assert after.low == 0.0
        assert_array_equal(before.count, after.count)
        fitted.partial_fit(X[:10], COUNTS[:10] - 1.5)
        assert fitted.calibration_.recalibration is not None
        assert fitted.calibration_.recalibration.low == -math.inf


@pytest.mark.parametrize("power", [None, 0.5])
def test_gradients_by_finite_differences(power: float | None) -> None:
    y = BIMODAL - BIMODAL.min() + 1.0
    fitted = model(candidates=[Candidate(None, (5,), power=power)]).fit(X, y)
    assert fitted.calibration_.recalibration is not None
    at, h = fitted.predict_gradient(X[:20]), 1e-5
    p = fitted.predict_distribution(X[:20])
    assert_allclose(at.mean, p.mean)
    assert_allclose(at.epistemic_std, p.epistemic_std)
    for j in range(2):
        step = h * np.eye(2)[j]
        up, down = (fitted.predict_distribution(X[:20] + s) for s in (step, -step))
        scale = np.abs(at.dmean_dX).max()
        for name, found in (("mean", at.dmean_dX), ("std", at.dstd_dX)):
            expected = (getattr(up, name) - getattr(down, name)) / (2.0 * h)
            assert_allclose(found[:, j], expected, rtol=1e-4, atol=1e-4 * scale)


def test_a_file_contains_it(tmp_path: Path) -> None:
    fitted = model(support=(0, None)).fit(X, COUNTS)
    fitted.save(tmp_path / "counts.pbp")
    again = load(tmp_path / "counts.pbp")
    assert again.support == (0, None)
    a, b = (m.predict_distribution(X) for m in (fitted, again))
    for name in ("mean", "std", "median"):
        assert_array_equal(getattr(a, name), getattr(b, name))
    assert_array_equal(a.crps(COUNTS), b.crps(COUNTS))


def test_weights_count() -> None:
    w = RandomState(0).uniform(0.1, 2.0, N)
    fitted = model().fit(X, BIMODAL, w)
    assert fitted.calibration_.recalibration is not None
    assert fitted.calibration_.recalibration.count.sum() == pytest.approx(N)
