"""Boosted trees: their standard deviations against known noise and the libraries' predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold

from probprop.cli.methods import ConstantNoise
from probprop_lab.baselines.boosting import CatBoostUncertainty, NaturalBoosting
from probprop_lab.experiments import Job
from probprop_lab.experiments.harness import methods, scoring

X, Y = load_diabetes(return_X_y=True)
PARTS = X[:80], Y[:80], X[80:110], Y[80:110]
NEEDED = {"LightGBM": "lightgbm", "CatBoost": "catboost"}
# sympy, which ngboost imports, calls what newer releases of mpmath deprecate.
ignoring_ngboost = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def needs(package: str) -> Any:
    return pytest.importorskip(package, reason="pip install './lab[field]'")


# ---- Constant noise


@pytest.mark.parametrize(
    ("name", "package"),
    [("HistGB", "sklearn"), ("LightGBM", "lightgbm"), ("CatBoost constant", "catboost")],
)
def test_trees_have_the_error_on_rows_they_have_not_seen(name: str, package: str) -> None:
    """On pure noise trees fit the training rows; the estimate must not be fooled by it."""
    needs(package)
    random = np.random.RandomState(1)
    inputs, targets = random.normal(size=(400, 3)), 7.0 + 3.0 * random.normal(size=400)
    model = methods.KNOWN[name].make(Job("field", "noise", 0, name)).fit(inputs, targets)
    mean, std = model.predict(inputs, return_std=True)
    seen = np.sqrt(np.mean((targets - mean) ** 2))
    new = 7.0 + 3.0 * random.normal(size=400)
    unseen = np.sqrt(np.mean((new - model.predict(random.normal(size=(400, 3)))) ** 2))
    assert seen < 2.5
    assert np.ptp(std) == 0.0
    assert std[0] == pytest.approx(unseen, rel=0.1)


def test_constant_noise_is_the_error_of_five_folds() -> None:
    """The same by hand, fold by fold, with the seeds in the order in which they are drawn."""
    found = ConstantNoise(HistGradientBoostingRegressor(max_iter=5), 3).fit(X[:80], Y[:80])
    random = np.random.RandomState(3)
    model = HistGradientBoostingRegressor(max_iter=5, random_state=random.randint(2**31 - 1))
    folds = KFold(5, shuffle=True, random_state=random.randint(2**31 - 1))
    squares = [
        (Y[test] - model.fit(X[train], Y[train]).predict(X[test])) ** 2
        for train, test in folds.split(X[:80])
    ]
    assert found.noise_variance_ == pytest.approx(np.mean(np.concatenate(squares)))
    expected = model.fit(X[:80], Y[:80]).predict(X[80:])
    np.testing.assert_allclose(found.predict(X[80:]), expected)


# ---- Noise that is learned


def test_catboost_learns_where_the_noise_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise of 1 on the left and of 10 on the right; nothing is written to the disk."""
    needs("catboost")
    monkeypatch.chdir(tmp_path)
    random = np.random.RandomState(0)
    inputs = random.uniform(-1.0, 1.0, (2000, 1))
    noise = np.where(inputs[:, 0] < 0.0, 1.0, 10.0)
    targets = 50.0 + noise * random.normal(size=2000)
    model = CatBoostUncertainty(200, random_state=0).fit(inputs, targets)
    mean, std = model.predict(np.array([[-0.5], [0.5]]), return_std=True)
    np.testing.assert_allclose(mean, 50.0, atol=5.0)
    np.testing.assert_allclose(std, [1.0, 10.0], rtol=0.3)
    assert list(tmp_path.iterdir()) == []


def test_catboosts_log_likelihood_is_the_loss_that_it_minimizes() -> None:
    """Its own loss has no constant: the log of sqrt(2 pi) is added here."""
    needs("catboost")
    model = CatBoostUncertainty(30, random_state=0).fit(X[:80], Y[:80])
    mean, std = model.predict(X[:80], return_std=True)
    density = -0.5 * ((Y[:80] - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
    loss = model.model_.best_score_["learn"]["RMSEWithUncertainty"]
    assert -np.mean(density) == pytest.approx(loss, rel=1e-3)


@ignoring_ngboost
def test_ngboost_predicts_its_own_distribution() -> None:
    pytest.importorskip("ngboost", reason="pip install './lab[field]'")
    model = NaturalBoosting(n_estimators=20, random_state=3).fit(X[:60], Y[:60])
    mean, std = model.predict(X[60:80], return_std=True)
    normal = model.model_.pred_dist(X[60:80])
    np.testing.assert_allclose(mean, normal.mean())
    np.testing.assert_allclose(std, normal.std())
    assert np.ptp(std) > 0.0
    again = NaturalBoosting(n_estimators=20, random_state=3).fit(X[:60], Y[:60])
    np.testing.assert_array_equal(again.predict(X[60:80]), mean)


@pytest.mark.parametrize("name", list(NEEDED))
def test_all_are_measured_alike_and_the_seed_settles_the_result(name: str) -> None:
    needs(NEEDED[name])
    job = Job("field", "diabetes", 0, name, seed=2)
    estimator, row = scoring.fit_and_score(job, *PARTS)
    mean, std = estimator.predict(PARTS[2], return_std=True)
    density = -0.5 * ((PARTS[3] - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
    assert row["log_likelihood"] == pytest.approx(float(np.mean(density)))
    assert row["warnings"] == []
    assert scoring.fit_and_score(job, *PARTS)[1]["log_likelihood"] == row["log_likelihood"]
