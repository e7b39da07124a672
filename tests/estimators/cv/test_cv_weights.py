"""Weights of rows, and entries that are missing, in the cross-validated estimators."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.base import clone
from sklearn.model_selection import KFold

import probprop
from probprop import Candidate, PBPClassifierCV, PBPRegressor, PBPRegressorCV
from probprop.estimators.base import fit_network
from probprop.estimators.cv.calibration import OutOfFold, standard_error
from probprop.estimators.validation import Given, read_values

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
KINDS = [PBPRegressorCV, PBPClassifierCV]


def small(kind: Any, **parameters: Any) -> Any:
    usual = {"cv": 3, "candidates": [Candidate(8, (8,), 10.0)], "budget": "fast"}
    return kind(**{**usual, "random_state": 0, **parameters})


def rows(n: int, kind: Any, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    y = 5.0 + 2.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(n)
    return X, y if kind is PBPRegressorCV else np.where(y > 5.0, "high", "low")


def predicted(model: Any, X: Any) -> Any:
    p = model.predict_distribution(X)
    return p.std if isinstance(model, PBPRegressorCV) else p.proba


# ---- Weights


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splits", ["int", "groups", "pairs"])
def test_rows_of_weight_0_are_not_there(kind: Any, splits: str) -> None:
    X, y = rows(60, kind)
    weights = np.random.RandomState(1).choice([0.0, 0.5, 2.0], size=60)
    kept = np.flatnonzero(weights)
    groups = np.arange(60) % 7
    of_all: dict[str, Any] = {"cv": 3}
    of_kept = of_all
    if splits == "pairs":
        part = np.arange(60) % 3
        of_all = {"cv": [(part != i, np.flatnonzero(part == i)) for i in range(3)]}
        of_kept = {"cv": [(part[kept] != i, part[kept] == i) for i in range(3)]}
    given = [None, None] if splits != "groups" else [groups, groups[kept]]
    ours = small(kind, **of_all).fit(X, y, weights, groups=given[0])
    theirs = small(kind, **of_kept).fit(X[kept], y[kept], weights[kept], groups=given[1])
    assert_array_equal(predicted(ours, X), predicted(theirs, X))
    assert_array_equal(ours.oof_rows_, kept[theirs.oof_rows_])
    assert ours.n_samples_seen_ == len(kept)
    for model, at in ((ours, slice(None)), (theirs, kept)):
        model.partial_fit(X[at], y[at], sample_weight=weights[at])
    assert_array_equal(predicted(ours, X), predicted(theirs, X))
    assert_allclose(ours.calibration_.n_rows, 2.0 * len(kept), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_1_change_nothing(kind: Any) -> None:
    X, y = rows(40, kind)
    ours, theirs = small(kind).fit(X, y, np.ones(40)), small(kind).fit(X, y)
    assert_allclose(predicted(ours, X), predicted(theirs, X), rtol=1e-5)


def test_the_factor_is_a_weighted_mean() -> None:
    X, y = rows(45, PBPRegressorCV)
    weights = np.random.RandomState(1).uniform(0.3, 2.0, size=45)
    weights /= weights.mean()
    splits = list(KFold(3).split(X))
    candidates = [Candidate(None, (8,), 10.0)]
    model = small(PBPRegressorCV, cv=splits, candidates=candidates).fit(X, y, weights)
    mean, var = np.empty(45), np.empty(45)
    for member, (train, test) in zip(model.estimators_, splits, strict=True):
        alone = PBPRegressor(
            (8,),
            n_epochs=model.groups_[0].n_epochs,
            evidence_cap=10.0,
            dtype="float32",
            random_state=member.random_state,
        )
        # All folds have the mean weight of all rows.
        alone.fit(X[train], y[train])  # for the features and the likelihood
        data = read_values(alone, Given(X, y, weights), None, alone.likelihood_.noise_prior)
        fit_network(alone, data[train])
        p = alone.predict_distribution(X[test])
        mean[test] = p.mean
        var[test] = p.epistemic_std**2 + p.aleatoric_std**2 / weights[test]
    factor = np.average((y - mean) ** 2 / var, weights=weights)
    assert_allclose(model.calibration_.factor, factor, rtol=1e-5)
    log_p = norm.logpdf(y, mean, np.sqrt(factor * var))
    splits_of = [np.average(log_p[test], weights=weights[test]) for _, test in splits]
    assert_allclose(model.trials_[0].best[1], np.mean(splits_of), rtol=1e-5)
    assert_allclose(model.calibration_.n_rows, weights.sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1e-6, 7.3, 1e6])
def test_a_constant_factor_changes_nothing(kind: Any, factor: float) -> None:
    X, y = rows(60, kind)
    for weights in (np.random.RandomState(1).choice([0.0, 0.5, 2.0], size=60), np.ones(60)):
        ours, theirs = small(kind).fit(X, y, factor * weights), small(kind).fit(X, y, weights)
        assert_array_equal(predicted(ours, X), predicted(theirs, X))
        assert_allclose(ours.mean_sample_weight_, factor * weights[weights > 0].mean(), rtol=1e-14)
        ours.partial_fit(X, y, sample_weight=factor * weights)
        theirs.partial_fit(X, y, sample_weight=weights)
        assert_array_equal(predicted(ours, X), predicted(theirs, X))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_large_weights_change_no_prediction_of_the_default(kind: Any) -> None:
    """Positive targets, for which a Box-Cox transformation is chosen, and noisy classes."""
    rng = np.random.RandomState(3)
    X = rng.uniform(-2.0, 2.0, size=(150, 2))
    y: Any = np.exp(1.0 + X[:, 0] + 0.5 * rng.standard_normal(150))
    if kind is PBPClassifierCV:
        y = np.where(y > 3.0, "high", "low")
    plain, heavy, mixed, scaled = (
        kind(cv=3, budget="fast", random_state=0).fit(X, y, w)
        for w in (None, 100, 1.0 + np.arange(150) % 4, 1e3 * (1.0 + np.arange(150) % 4))
    )
    if kind is PBPRegressorCV:
        assert plain.calibration_.transformation is not None
    assert_array_equal(predicted(heavy, X), predicted(plain, X))
    assert_array_equal(predicted(scaled, X), predicted(mixed, X))


@pytest.mark.parametrize("transformed", [False, True])
@pytest.mark.parametrize("noise", ["constant", "input"])
def test_a_prediction_may_have_a_weight(noise: Any, transformed: bool) -> None:
    X, y = rows(60, PBPRegressorCV)
    weights = 40.0 * np.random.RandomState(1).uniform(0.3, 2.0, size=60)
    only = [Candidate(None, (8,), 10.0, power=0.0 if transformed else None, noise=noise)]
    model = small(PBPRegressorCV, candidates=only).fit(X, y, weights)
    usual = model.predict_distribution(X)
    lighter = model.predict_distribution(X, sample_weight=weights.mean() / 4.0)
    if transformed:
        usual, lighter = usual.transformed, lighter.transformed
    assert_allclose(lighter.mean, usual.mean, rtol=1e-12)
    assert_allclose(lighter.epistemic_std, usual.epistemic_std, rtol=1e-12)
    assert_allclose(lighter.aleatoric_std, 2.0 * usual.aleatoric_std, rtol=1e-6)
    same = model.predict_distribution(X, sample_weight=np.full(60, weights.mean()))
    assert_array_equal(same.std, model.predict_distribution(X).std)


def test_rows_have_the_noise_of_their_weight() -> None:
    """Out-of-fold intervals of means of 1 and of 25 measurements have the right coverage."""
    rng = np.random.RandomState(4)
    n_measured = rng.choice([1, 25], 400)
    X = rng.uniform(-2.0, 2.0, size=(400, 1))
    y = 3.0 * X[:, 0] + rng.standard_normal(400) / np.sqrt(n_measured)
    only = [Candidate(None, (8,), 10.0, noise="constant")]
    model = small(PBPRegressorCV, candidates=only).fit(X, y, n_measured)
    assert_allclose(model.predict_distribution(X, sample_weight=1).aleatoric_std, 1.0, rtol=0.15)
    assert_allclose(model.predict_distribution(X, sample_weight=25).aleatoric_std, 0.2, rtol=0.15)
    lower, upper = model.oof_predictive_.interval(0.9)
    inside = (y > lower) & (y < upper)
    assert_allclose([inside[n_measured == k].mean() for k in (1, 25)], 0.9, atol=0.06)


class TestKnownErrors:
    """Errors of 0, 0.3 or 3 with noise of 0.2."""

    rng = np.random.RandomState(0)
    X, new = rng.uniform(-2.0, 2.0, (500, 2)), rng.uniform(-2.0, 2.0, (1_000, 2))
    mean, e = np.sin(2.0 * X[:, 0]) + X[:, 1], rng.choice([0.0, 0.3, 3.0], 500)
    y = mean + 0.2 * rng.standard_normal(500) + e * rng.standard_normal(500)
    later = np.sin(2.0 * new[:, 0]) + new[:, 1] + 0.2 * rng.standard_normal(1_000)

    @pytest.mark.parametrize("noise", ["constant", "input"])
    def test_they_are_no_noise(self, noise: Any, tmp_path: Path) -> None:
        candidates = [Candidate(8, (20,), cap, noise=noise) for cap in (10.0, 30.0)]
        model = PBPRegressorCV(3, candidates=candidates, random_state=0)
        known = clone(model).fit(self.X, self.y, y_std=self.e).predict_distribution(self.new)
        plain = clone(model).fit(self.X, self.y).predict_distribution(self.new)
        assert_allclose(np.median(known.aleatoric_std), 0.2, rtol=0.2)
        assert known.logpdf(self.later).mean() > plain.logpdf(self.later).mean() + 0.5
        assert known.crps(self.later).mean() < 0.75 * plain.crps(self.later).mean()
        lower, upper = known.interval(0.9)
        assert 0.85 < ((lower < self.later) & (self.later < upper)).mean() < 0.95
        model.fit(self.X, self.y, y_std=self.e).save(tmp_path / "m.pbp")
        loaded = probprop.load(tmp_path / "m.pbp")
        assert_array_equal(loaded.predict(self.new), known.mean)

    def test_the_factor_is_most_likely(self) -> None:
        scale = np.random.RandomState(1).uniform(0.5, 2.0, 500)
        residual = np.hypot(1.3 * scale, self.e) * np.random.RandomState(2).standard_normal(500)
        oof = OutOfFold(np.zeros(500), residual, 0.6 * scale, 0.8 * scale, 1.0, y_std=self.e)
        best = minimize_scalar(lambda a2: -oof.log_p(a2).sum(), bounds=(0.1, 9.0), method="bounded")
        assert_allclose(oof.factor, best.x, rtol=1e-3)
        assert_allclose(
            oof.log_p(2.0), norm.logpdf(residual, 0.0, np.hypot(2**0.5 * scale, self.e))
        )

    def test_none_is_the_same_as_zero(self) -> None:
        models = [small(PBPRegressorCV, support=None) for _ in range(2)]
        models[0].fit(self.X[:90], self.y[:90])
        models[1].fit(self.X[:90], self.y[:90], y_std=0.0)
        predicted = [model.predict(self.new, return_std=True) for model in models]
        assert_allclose(predicted[0], predicted[1], rtol=1e-5)

    def test_updates(self) -> None:
        model = small(PBPRegressorCV).fit(self.X[:250], self.y[:250], y_std=self.e[:250])
        plain = copy(model).partial_fit(self.X[250:], self.y[250:])
        model.partial_fit(self.X[250:], self.y[250:], y_std=self.e[250:])
        assert 1.5 * model.calibration_.factor < plain.calibration_.factor

    def test_what_is_refused(self) -> None:
        X, y = rows(60, PBPRegressorCV)
        for parameters, word in (({"power": 0.5}, "power"), ({"output_layer": "full"}, "output")):
            candidates = [Candidate(None, (5,), 10.0, **parameters)]
            model = small(PBPRegressorCV, candidates=candidates)
            with pytest.raises(ValueError, match=f"{word}.* of a candidate is not available for k"):
                model.fit(X, np.exp(y), y_std=0.1)
            with pytest.raises(ValueError, match="y_std is not available with a support, a Box-C"):
                model.fit(X, np.exp(y)).partial_fit(X, np.exp(y), y_std=0.1)
        with pytest.raises(ValueError, match="y_std is not available with a support"):
            small(PBPRegressorCV, support=(0.0, None)).fit(X, np.exp(y), y_std=0.1)
        with pytest.raises(ValueError, match="y_std must be an array with values in the range"):
            small(PBPRegressorCV).fit(X, y, y_std=-0.1)
        with pytest.raises(ValueError, match="y_std is for regressors"):
            small(PBPClassifierCV).fit(*rows(60, PBPClassifierCV), y_std=0.1)


def test_the_temperature_depends_more_on_samples_of_large_weight() -> None:
    X, y = rows(80, PBPClassifierCV)
    wrong = np.arange(80) % 8 == 0
    y[wrong] = np.where(y[wrong] == "high", "low", "high")
    candidates = [Candidate(None, (8,), None)]
    light, heavy = (
        small(PBPClassifierCV, candidates=candidates).fit(X, y, np.where(wrong, w, 1.0))
        for w in (0.05, 1.0)
    )
    assert light.calibration_.log_loss < heavy.calibration_.log_loss
    index = np.searchsorted(light.classes_, y)
    log_p = light.oof_predictive_.log_proba[np.arange(80), index]
    expected = -np.average(log_p, weights=np.where(wrong, 0.05, 1.0))
    assert_allclose(light.calibration_.log_loss, expected)


def test_the_error_of_a_weighted_mean() -> None:
    values = np.array([1.0, 3.0, 1.0, 3.0])
    assert_allclose(standard_error(values, np.full(4, 7.0)), standard_error(values))
    rng = np.random.RandomState(0)
    weights = rng.uniform(0.0, 2.0, size=50)
    means = [np.average(rng.standard_normal(50), weights=weights) for _ in range(4000)]
    errors = [standard_error(rng.standard_normal(50), weights) for _ in range(100)]
    assert_allclose(np.mean(errors), np.std(means), rtol=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_cannot_be(kind: Any) -> None:
    X, y = rows(20, kind)
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        small(kind).fit(X, y, -np.ones(20))
    with pytest.raises(ValueError, match="at least one non-zero number"):
        small(kind).fit(X, y, np.zeros(20))
    with pytest.raises(ValueError, match="sample_weight must be a number or have a weight"):
        small(kind).fit(X, y, np.ones(19))


# ---- Missing entries


def with_gaps(X: Any, seed: int = 2) -> Any:
    gaps = X.copy()
    gaps[np.random.RandomState(seed).uniform(size=X.shape) < 0.2] = np.nan
    return gaps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_bins", [None, 8])
def test_missing_entries(kind: Any, n_bins: int | None) -> None:
    X, y = rows(400, kind)  # of far fewer the spread is learned too wide
    candidates = [Candidate(n_bins, (8,), 10.0), Candidate(n_bins, (8,), 30.0)]
    model = small(kind, candidates=candidates, missing="marginalize").fit(with_gaps(X), y)
    test, y_test = rows(300, kind, seed=5)
    if kind is PBPRegressorCV:
        without = np.where([[True, False]], np.nan, test)  # all that says anything is missing
        std_gap, std = (model.predict(Z, return_std=True)[1] for Z in (without, test))
        assert np.median(std_gap) > 1.2 * np.median(std)
        p = model.predict_distribution(with_gaps(test))
        assert 0.9 < np.mean(np.abs(y_test - p.mean) < 1.96 * p.std) < 0.99
    else:
        assert model.score(test, y_test) > 0.85
        assert np.isfinite(model.predict_log_proba(with_gaps(test))).all()
    model.partial_fit(with_gaps(test), y_test)
    assert np.isfinite(predicted(model, with_gaps(test))).all()
    assert model.n_samples_seen_ == 700


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_of_one_encoding_see_the_same_missing_values(kind: Any) -> None:
    X, y = rows(60, kind)
    first, second = Candidate(None, (8,), 10.0), Candidate(None, (8,), 30.0)
    both, alone = (
        small(kind, candidates=c, missing="marginalize").fit(with_gaps(X), y)
        for c in ([first, second], [second])
    )
    n = min(len(both.trials_[1].scores), len(alone.trials_[0].scores))
    assert both.trials_[1].scores[:n] == alone.trials_[0].scores[:n]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_missing_values_are_as_before(kind: Any) -> None:
    X, y = rows(60, kind)
    ours, theirs = (small(kind, missing=m).fit(X, y) for m in ("marginalize", "error"))
    assert_allclose(predicted(ours, X), predicted(theirs, X), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_are_refused_if_they_are_an_error(kind: Any) -> None:
    X, y = rows(20, kind)
    with pytest.raises(ValueError, match='missing="marginalize"'):
        small(kind, missing="error").fit(with_gaps(X), y)


def test_a_column_that_is_missing_in_a_whole_fold() -> None:
    X, y = rows(30, PBPRegressorCV)
    X[:20, 1] = np.nan
    splits = [(np.arange(20), np.arange(20, 30)), (np.arange(10, 30), np.arange(10))]
    model = small(PBPRegressorCV, cv=splits, missing="marginalize").fit(X, y)
    assert np.isfinite(model.predict(X, return_std=True)).all()
