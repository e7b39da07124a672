"""Several targets in the cross-validated regressor: one search, a calibration for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probprop
from probprop import Candidate, PBPRegressorCV
from probprop.metrics import permutation_importance

SMALL = [Candidate(8, (20,), 10.0), Candidate(None, (10,), 10.0)]


def made(n: int, seed: int) -> tuple[Any, Any]:
    """Samples of a sine, of 1,000 times a square with noise that grows, and of counts."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (n, 3))
    noise = 0.3 * np.exp(0.6 * X[:, 2]) * rng.standard_normal(n)
    sine = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    counts = rng.poisson(np.exp(0.5 * X[:, 1]))
    return X, np.stack([sine, 1e3 * (X[:, 1] ** 2 + noise), counts], axis=1)


X, y = made(300, 0)
NEW, LATER = made(1_000, 1)


def small(**parameters: Any) -> PBPRegressorCV:
    return PBPRegressorCV(3, **{"candidates": SMALL, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def model() -> PBPRegressorCV:
    return small().fit(X, y)


def test_they_are_as_accurate_as_alone(model: PBPRegressorCV) -> None:
    together = model.predict_distribution(NEW)
    lower, upper = together.interval(0.9)
    inside = ((lower <= LATER) & (upper >= LATER)).mean(axis=0)
    assert_allclose(inside, 0.9, atol=0.05)
    for k, own in enumerate(together.targets()):
        alone = small().fit(X, y[:, k]).predict_distribution(NEW)
        assert own.crps(LATER[:, k]).mean() < 1.08 * alone.crps(LATER[:, k]).mean()


def test_each_has_its_own_calibration(model: PBPRegressorCV) -> None:
    sine, square, counts = model.calibrations_
    assert sine is model.calibration_
    assert square.noise is not None
    assert sine.recalibration is None
    assert counts.recalibration.low == 0.0
    assert (model.predict_interval(NEW)[:, 0, 2] >= 0.0).all()
    factors = [np.sqrt(own.factor) for own in model.calibrations_]
    words = probprop.report(model, NEW, LATER).html
    assert "each of several targets has its own calibration" in words
    for k, factor in enumerate(factors, 1):
        assert f"target {k}: standard deviations scaled by {factor:.2f}" in words


def test_shapes(model: PBPRegressorCV) -> None:
    p = model.predict_distribution(NEW[:7])
    for values in (p.mean, p.std, p.var, p.median, p.logpdf(LATER[:7]), p.cdf(0.0), p.crps(1.0)):
        assert values.shape == (7, 3)
    assert p.ppf([0.1, 0.5]).shape == p.rvs(2, random_state=0).shape == (2, 7, 3)
    assert model.predict_quantiles(NEW[:7], [0.1, 0.9]).shape == (7, 2, 3)
    assert model.predict(NEW[:7]).shape == (7, 3)
    assert_allclose(p.var, p.epistemic_std**2 + p.aleatoric_std**2)
    assert_allclose(p[2:4].std, p.std[2:4])
    assert p.to_frame(["a", "b", "c"]).filter(like="_mean").shape == (7, 3)
    assert model.oof_predictive_.mean.shape == (300, 3)
    assert "n_targets=3" in repr(p)
    oof = model.predict_out_of_fold(X[model.oof_rows_])
    assert_allclose(oof.mean[:, 0], model.oof_predictive_.mean[:, 0], rtol=1e-4, atol=1e-5)
    sine, square, _ = permutation_importance(model, X, y, n_repeats=2, out_of_fold=True)
    assert sine.names[0] != square.names[0]
    assert sine.names[0].endswith("0")
    assert square.names[0].endswith("1")


def test_files(model: PBPRegressorCV, tmp_path: Path) -> None:
    model.save(tmp_path / "m.pbp")
    loaded = probprop.load(tmp_path / "m.pbp")
    for k, own in enumerate(loaded.predict_distribution(NEW).targets()):
        one = model.predict_distribution(NEW).targets()[k]
        assert_array_equal(own.logpdf(LATER[:, k]), one.logpdf(LATER[:, k]))
    loaded.further_calibrations_ = loaded.further_calibrations_[:1]
    with pytest.raises(ValueError, match="not one calibration for each target"):
        loaded.save(tmp_path / "n.pbp")


def test_updates() -> None:
    model = small(budget="fast").fit(X[:150], y[:150])
    before = [own.n_rows for own in model.calibrations_]
    model.partial_fit(X[150:], y[150:])
    assert [own.n_rows for own in model.calibrations_] == [n + 150 for n in before]
    alone = small(budget="fast").fit(X[:150], y[:150]).predict_distribution(NEW)
    assert model.predict_distribution(NEW).crps(LATER).mean() < alone.crps(LATER).mean()


def test_missing_values_weights_and_known_errors() -> None:
    rng = np.random.RandomState(2)
    holes = np.where(rng.uniform(size=X.shape) < 0.1, np.nan, X)
    e = np.array([1.0, 0.0, 0.0]) * np.ones(y.shape)
    noisy = y + e * rng.standard_normal(y.shape)
    model = small(budget="fast").fit(holes, noisy, rng.randint(1, 3, len(y)), y_std=e)
    mean, std = model.predict(np.array([[0.5, 0.5, 0.5], [np.nan, 0.5, 0.5]]), return_std=True)
    assert mean.shape == std.shape == (2, 3)
    assert std[1, 0] > 1.5 * std[0, 0]  # the sine of a missing value
    assert model.predict_distribution(NEW).aleatoric_std[:, 0].mean() < 0.6
    model.partial_fit(holes, noisy, y_std=e)


def test_what_needs_one_target(model: PBPRegressorCV) -> None:
    with pytest.raises(ValueError, match="predict_gradient is for one target, but this model has"):
        model.predict_gradient(NEW)
    with pytest.raises(ValueError, match="sample_functions is for one target"):
        model.sample_functions(2)
    for parameters in ({"power": 0.0}, {"output_layer": "full"}):
        with pytest.raises(ValueError, match="and for several targets"):
            small(candidates=[Candidate(None, (5,), 10.0, **parameters)]).fit(X, y**2 + 1.0)
