"""PBPClassifierCV: its folds against separate fits, the temperature, scikit-learn's contract."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from probprop import Candidate, ClassMixture, PBPClassifier, PBPClassifierCV
from probprop.estimators.cv.calibration import ClassCalibration, LabelsOutOfFold, LogTemperature
from probprop.estimators.cv.folds import make_folds, stratified_folds
from probprop.estimators.cv.policy import default_candidates, policy_of
from probprop.inference.likelihoods import of_classes
from sklearn_checks import expected_failures

SMALL = [Candidate(None, (5,), 10.0)]


def tempered(likelihood, mean, variance, temperature: float) -> ClassMixture:
    found = ClassCalibration(temperature, 1.0, 0.0, 0.0, 0.0)
    return found.mixture([mean], [variance], likelihood)


pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")


def small(**parameters: Any) -> PBPClassifierCV:
    usual = {"cv": 3, "candidates": SMALL, "budget": "fast", "random_state": 0}
    return PBPClassifierCV(**{**usual, **parameters})


def blobs(n: int, n_classes: int = 2, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.RandomState(seed)
    y = rng.randint(n_classes, size=n)
    X = rng.standard_normal((n, 2)) + 1.5 * np.stack([np.cos(2.0 * y), np.sin(2.0 * y)], axis=1)
    return X, np.array(["no", "yes", "maybe", "never"])[y]


@parametrize_with_checks(
    [small(cv=2), small(cv=2, missing="marginalize")], expected_failed_checks=expected_failures
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


# ---- What it is made of


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_folds_are_fits_of_their_own(n_classes: int) -> None:
    X, y = blobs(60, n_classes)
    splits = list(StratifiedKFold(3).split(X, y))
    model = small(cv=splits).fit(X, y)
    log_p = np.empty(60)
    raw = np.empty(60)
    index = np.searchsorted(model.classes_, y)
    T = model.calibration_.temperature
    for member, (train, test) in zip(model.estimators_, splits, strict=True):
        alone = PBPClassifier(
            (5,), n_epochs=model.n_iter_, dtype="float32", random_state=member.random_state
        ).fit(X[train], y[train])
        assert_array_equal(alone.posterior_.m_w[0], member.posterior_.m_w[0])
        assert alone.history_ == member.history_
        p = alone.predict_distribution(X[test])
        at = (np.arange(len(test)), index[test])
        raw[test] = p.log_proba[at]
        log_p[test] = tempered(alone.likelihood_, p.mean, p.std**2, T).log_proba[at]
    found = model.calibration_
    assert_allclose([found.raw_log_loss, found.log_loss], [-raw.mean(), -log_p.mean()], rtol=1e-5)
    assert model.best_score_ == pytest.approx(-found.log_loss)
    assert found.n_rows == 60
    oof = model.oof_predictive_.log_proba[np.arange(60), index]
    assert_allclose(oof, log_p, atol=1e-5)


def test_predictions_are_the_mixture_of_the_members() -> None:
    X, y = blobs(60)
    model = small().fit(X, y)
    new, _ = blobs(9, seed=1)
    root = np.sqrt(model.calibration_.temperature)
    bounded = model.bounds_.apply(new)
    each = [member.predict_distribution(bounded) for member in model.estimators_]
    yes = np.mean([norm.cdf(p.mean / np.hypot(1.0, p.std) / root) for p in each], axis=0)
    assert_allclose(model.predict_proba(new), np.stack([1.0 - yes, yes], axis=1), rtol=1e-6)
    assert_allclose(np.exp(model.predict_log_proba(new)), model.predict_proba(new))
    assert_array_equal(model.predict(new), np.where(yes > 0.5, "yes", "no"))
    p = model.predict_distribution(new)
    assert isinstance(p, ClassMixture)
    assert (p.entropy_model >= 0.0).all()
    assert_allclose(p.entropy_model + p.entropy_noise, p.entropy)


def test_it_is_better_than_one_network_that_is_too_sure() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    candidates = [Candidate(None, (20,), None)]
    model = PBPClassifierCV(candidates=candidates, random_state=0).fit(X[::2], y[::2])
    assert model.calibration_.temperature > 1.0
    assert model.calibration_.log_loss < model.calibration_.raw_log_loss
    single = PBPClassifier((20,), evidence_cap=None, n_epochs=model.n_iter_, random_state=0)
    ours, theirs = (
        log_loss(y[1::2], p)
        for p in (model.predict_proba(X[1::2]), single.fit(X[::2], y[::2]).predict_proba(X[1::2]))
    )
    assert ours < theirs


# ---- The temperature


def outputs(n: int, K: int, sure: float) -> LabelsOutOfFold:
    """Outputs that claim too much, by that factor, about labels drawn from them."""
    rng = np.random.RandomState(0)
    m, v = rng.standard_normal((n, K)), rng.uniform(0.1, 1.0, size=(n, K))
    drawn = m + np.sqrt(1.0 + v) * rng.standard_normal((n, K))
    likelihood = of_classes(np.arange(max(2, K)), multilabel=False)
    if K == 1:
        return LabelsOutOfFold(likelihood, ((sure * m[:, 0], v[:, 0]),), np.sign(drawn[:, 0]))
    return LabelsOutOfFold(likelihood, ((sure * m, v),), drawn.argmax(axis=1).astype(float))


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("sure", [0.6, 2.0])
def test_the_temperature_undoes_what_is_too_much(K: int, sure: float) -> None:
    rows = outputs(1500, K, sure)
    assert_allclose(np.sqrt(rows.factor), sure, rtol=0.1)
    best = minimize_scalar(
        lambda t: -rows.log_p(np.exp(t)).sum() + 0.5 * 4.0 * t**2, bounds=(-3, 3), method="bounded"
    )
    assert_allclose(np.log(rows.factor), best.x, atol=0.01)
    assert rows.log_p(rows.factor).mean() > rows.log_p().mean()


def test_many_rows_are_represented_by_a_sample() -> None:
    rows = outputs(11_000, 5, 1.5)
    exact = LogTemperature().after(lambda t: -rows.log_p(float(np.exp(t))).sum())
    assert exact.mean != rows.belief.mean
    assert_allclose(rows.belief.mean, exact.mean, atol=0.05)
    assert_allclose(rows.belief.precision, exact.precision, rtol=0.1)


def test_labels_that_are_all_right_do_not_freeze_it() -> None:
    two = of_classes(np.arange(2), multilabel=False)
    rows = LabelsOutOfFold(two, ((np.full(50, 3.0), np.zeros(50)),), np.ones(50))
    assert 0.3 < rows.factor < 1.0


def test_probabilities_at_a_temperature() -> None:
    two = of_classes(np.arange(2), multilabel=False)
    m, v = np.array([-3.0, 0.5]), np.array([0.2, 4.0])
    expected = log_ndtr(m / np.sqrt(2.5 * (1.0 + v)))
    assert_allclose(tempered(two, m, v, 2.5).log_proba[:, 1], expected)
    three = of_classes(np.arange(3), multilabel=False)
    rng = np.random.RandomState(0)
    m = np.array([1.0, 0.0, -0.5])
    noisy = m + np.sqrt(2.5 * 1.5) * rng.standard_normal((200_000, 3))
    shares = np.bincount(noisy.argmax(axis=1)) / 200_000
    p = tempered(three, m[np.newaxis], np.full((1, 3), 0.5), 2.5).proba[0]
    assert_allclose(p, shares, atol=0.005)


# ---- Folds and classes


def test_every_fold_has_its_share_of_every_class() -> None:
    y = np.repeat([0, 1, 2], [3, 40, 17])
    fold = stratified_folds(y, 5, np.random.RandomState(0))
    for value in range(3):
        counts = np.bincount(fold[y == value], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert np.ptp(np.bincount(fold)) <= 1
    shuffled = stratified_folds(y, 5, np.random.RandomState(1))
    assert (shuffled != fold).any()


def test_a_class_with_one_row() -> None:
    X, y = blobs(40)
    y[7] = "once"
    model = small(cv=5).fit(X, y)
    assert model.classes_.tolist() == ["no", "once", "yes"]
    assert model.predict_proba(X).shape == (40, 3)
    assert all(member.classes_.tolist() == model.classes_.tolist() for member in model.estimators_)
    assert np.isfinite(model.calibration_.log_loss)


def test_two_rows() -> None:
    model = small().fit([[0.0], [1.0]], ["a", "b"])
    assert len(model.estimators_) == 2
    assert np.isfinite(model.predict_log_proba([[0.5]])).all()


@pytest.mark.parametrize("n_rare", [2, 20])
def test_groups_are_never_split(n_rare: int) -> None:
    X, _ = blobs(60)
    groups = np.arange(60) % 12
    y = np.where(np.arange(60) < n_rare, 1.0, 0.0)
    folds = make_folds(4, X, y, groups, np.random.RandomState(0), stratified=True)
    assert len(folds) == 4
    for fold in folds:
        assert not set(groups[fold.train]) & set(groups[fold.test])
    model = small(cv=4).fit(X, y, groups=groups)
    assert len(model.oof_predictive_) == 60


def test_several_labels() -> None:
    X, _ = blobs(80)
    y = (X + 0.3 * np.random.RandomState(0).standard_normal(X.shape) > 0.5).astype(int)
    model = small().fit(X, y)
    assert model.multilabel_
    assert model.predict_proba(X).shape == (80, 2)
    assert (model.predict(X) == y).mean() > 0.85
    assert_array_equal(model.classes_, [0, 1])


# ---- The rest


def test_scores_frames_pickles_and_threads() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    candidates = [*SMALL, Candidate(4, (5,), 3.0), Candidate(4, (5, 5), 10.0)]
    model = small(candidates=candidates).fit(X, y)
    again = small(candidates=candidates, n_jobs=2).fit(X, y)
    assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(model.predict_proba(X), loaded.predict_proba(X))
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    assert model.score(X, y) > 0.95
    assert clone(model).get_params()["candidates"] == candidates
    assert model.n_samples_seen_ == 150
    assert model.n_iter_ == max(group.n_epochs for group in model.groups_)
    assert isinstance(X, pd.DataFrame)
    assert cross_val_score(small(), X, y, cv=2, scoring="neg_log_loss").min() > -0.4


def test_what_is_compared() -> None:
    few, many = (policy_of(n, classification=True) for n in (500, 1_000))
    for line, layers in (
        (few, {(None, ()), (None, (10,)), (None, (48,)), (None, (48, 48)), (16, (48,))}),
        (many, {(None, ()), (None, (96,)), (None, (48, 48)), (32, (96,))}),
    ):
        candidates = default_candidates("good", line)
        assert {(c.n_bins, c.layers) for c in candidates} == layers
        assert {c.evidence_cap for c in candidates} == {10.0, 30.0}
    fast = default_candidates("fast", few)
    assert [(c.n_bins, c.layers, c.evidence_cap) for c in fast] == [
        (None, (48,), 10.0),
        (16, (48,), 10.0),
    ]


def clusters(n: int, n_classes: int, seed: int = 0) -> tuple[Any, Any]:
    """Return samples around a center per class; every class has some."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_classes
    return 3.0 * rng.standard_normal((n_classes, 2))[y] + rng.standard_normal((n, 2)), y


@pytest.mark.parametrize(("n_classes", "n_epochs"), [(32, (20, 40, 80)), (64, (10, 20))])
def test_many_classes_take_fewer_epochs(n_classes: int, n_epochs: tuple[int, ...]) -> None:
    model = small().fit(*clusters(130, n_classes))
    [trial] = model.trials_
    assert trial.n_epochs == n_epochs[: len(trial.n_epochs)]
    assert len(trial.n_epochs) > 1


@pytest.mark.slow
def test_many_classes_are_compared_with_one_evidence_cap() -> None:
    model = small(candidates="auto", budget="good").fit(*clusters(70, 35))
    assert {trial.candidate.evidence_cap for trial in model.trials_} == {10.0}
    assert len(model.trials_) == 5


def test_many_classes_are_learned() -> None:
    X, y = clusters(800, 40)
    model = small(candidates=[{"hidden_layer_sizes": 20, "evidence_cap": 10.0}]).fit(
        X[:600], y[:600]
    )
    proba = model.predict_proba(X[600:])
    assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)
    assert log_loss(y[600:], proba) < 0.6 * np.log(40.0)  # of equal shares
    known = model.oof_predictive_.log_proba[np.arange(600), y[:600]]
    assert model.calibration_.log_loss == pytest.approx(-known.mean(), rel=1e-9)


def test_refusals() -> None:
    X, y = blobs(20)
    with pytest.raises(ValueError, match="only one class"):
        small().fit(X, np.ones(20))
    with pytest.raises(ValueError, match=re.escape("missing must be one of")):
        small(missing="skip").fit(X, y)
    with pytest.raises(NotFittedError):
        small().predict(X)
    model = small().fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y[:5])
    assert_array_equal(model.predict_proba(X), before)
