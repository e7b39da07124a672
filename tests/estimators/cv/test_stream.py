"""partial_fit of cross-validated estimators: who learns what, and what the calibration hears."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from cv_folds import ByHand
from probprop import Candidate, PBPClassifierCV, PBPRegressorCV, PiecewiseLinearEncoder
from probprop.estimators.cv import base as base_module
from probprop.estimators.cv.calibration import Range
from probprop.estimators.cv.folds import folds_in_turn
from probprop.inference.engine import ENGINES

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")


def waves(n: int, noise: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, 3.0 * np.sin(2.0 * X[:, 0]) + 3.0 * noise * rng.standard_normal(n)


def labels(n: int, flipped: float = 0.0, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 2))
    yes = (X[:, 0] + 0.5 * rng.standard_normal(n) > 0.0) ^ (rng.uniform(size=n) < flipped)
    return X, np.where(yes, "yes", "no")


def small(kind: Any = PBPRegressorCV, **parameters: Any) -> Any:
    usual = {"cv": 3, "candidates": [Candidate(8, (10,), 10.0)], "budget": "fast"}
    return kind(**{**usual, "random_state": 0, **parameters})


def encoded(X: Any, Z: Any) -> Any:
    return PiecewiseLinearEncoder(8).fit(X).transform(Z).astype(np.float32)


def test_rows_are_folds_in_turn() -> None:
    folds = folds_in_turn(8, 3, start=100)
    assert [fold.test.tolist() for fold in folds] == [[2, 5], [0, 3, 6], [1, 4, 7]]
    for fold in folds:
        assert sorted([*fold.train, *fold.test]) == list(range(8))
    (single,) = folds_in_turn(3, 1, start=0)
    assert single.train.tolist() == single.test.tolist() == [0, 1, 2]


# ---- One call, by hand


def test_a_row_is_predicted_by_its_fold_and_learned_by_the_others() -> None:
    X, y = waves(40)
    model = small().fit(X, y)
    new, y_new = waves(7, seed=1)
    A = encoded(X, new)
    of = (40 + np.arange(7)) % 3
    mean, var = np.empty((1, 7)), np.empty((1, 7))
    by_hand = deepcopy(model.estimators_)
    for i, member in enumerate(by_hand):
        k, own = i // 3, of == i % 3  # each group holds a row out from one network
        p = member.predict_distribution(A[own])
        mean[k, own], var[k, own] = p.mean, p.var
        member.partial_fit(A[~own], y_new[~own])
    rows, before = (
        ByHand(y_new, mean, var, 3.0 * model.weights_[::3], n_folds=3),
        model.calibration_.squares,
    )
    model.partial_fit(new, y_new)
    for ours, theirs in zip(model.estimators_, by_hand, strict=True):
        assert_allclose(ours.posterior_.m_w[0], theirs.posterior_.m_w[0], atol=1e-5)
        assert_allclose(ours.history_[-1].mean_log_Z, theirs.history_[-1].mean_log_Z, rtol=1e-5)
    after = model.calibration_.squares
    assert_allclose(after.error, (40 * before.error + 7 * rows.error) / 47, rtol=1e-5)
    assert_allclose(after.between, (40 * before.between + 7 * rows.between) / 47, rtol=1e-5)
    assert (after.n_pooled, after.n_members) == (before.n_pooled, before.n_members)
    assert model.calibration_.n_rows == model.n_samples_seen_ == 47
    assert model.n_iter_ == model.groups_[0].n_epochs + 1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_temperature_after_more_rows(n_classes: int) -> None:
    X, y = labels(60)
    if n_classes == 3:
        y[X[:, 1] > 1.0] = "third"
    model = small(PBPClassifierCV).fit(X[:40], y[:40])
    A, of = encoded(X[:40], X[40:]), (40 + np.arange(20)) % 3
    index = np.searchsorted(model.classes_, y[40:])
    before = model.calibration_
    by_hand = deepcopy(model.estimators_)
    outputs = [
        (member.predict_distribution(A[of == i % 3]), of == i % 3)
        for i, member in enumerate(by_hand)
    ]

    def log_p(T: float) -> Any:
        """Return the log probabilities given by the network of each fold."""
        found = np.zeros(20)
        for p, at in outputs:
            likelihood = model.likelihood_
            tempered = likelihood.of_outputs(p.mean / np.sqrt(T), p.std**2, ENGINES["native"])
            found[at] += np.exp(tempered.log_proba[np.arange(at.sum()), index[at]])
        return np.log(found)

    known = np.log(before.temperature)
    best = minimize_scalar(
        lambda t: -log_p(np.exp(t)).sum() + 0.5 * before.precision * (t - known) ** 2,
        bounds=(-2.0, 2.0),
        method="bounded",
    )
    model.partial_fit(X[40:], y[40:])
    after = model.calibration_
    assert_allclose(np.log(after.temperature), best.x, atol=0.01)
    assert after.precision >= before.precision
    for old, new, T in (
        (before.log_loss, after.log_loss, before.temperature),
        (before.raw_log_loss, after.raw_log_loss, 1.0),
    ):
        assert_allclose(new, (40 * old - log_p(T).sum()) / 60, rtol=1e-5)
    for i, member in enumerate(by_hand):
        member.partial_fit(A[of != i % 3], y[40:][of != i % 3])
        found = model.estimators_[i].posterior_.m_w[0]
        assert_allclose(found, member.posterior_.m_w[0], atol=1e-5)


def test_one_row_at_a_time() -> None:
    X, y = waves(30)
    model = small().fit(X, y)
    new, y_new = waves(6, seed=1)
    for i in range(6):
        before = model.estimators_
        model.partial_fit(new[i : i + 1], y_new[i : i + 1])
        same = [a is b for a, b in zip(before, model.estimators_, strict=True)]
        assert same == [j == i % 3 for j in range(3)]
    assert [member.n_samples_seen_ for member in model.estimators_] == [24] * 3
    assert model.n_samples_seen_ == 36


def test_the_first_call_is_a_fit() -> None:
    X, y = waves(30)
    assert_array_equal(small().partial_fit(X, y).predict(X), small().fit(X, y).predict(X))
    X, y = labels(30)
    ours, theirs = small(PBPClassifierCV).partial_fit(X, y), small(PBPClassifierCV).fit(X, y)
    assert_array_equal(ours.predict_proba(X), theirs.predict_proba(X))
    more = small(PBPClassifierCV).partial_fit(X, y, classes=["later", "no", "yes"])
    assert more.predict_proba(X).shape == (30, 3)
    more.partial_fit(X[:3], ["later", "later", "no"])
    with pytest.raises(ValueError, match="do not exist in the initial classes"):
        ours.partial_fit(X[:1], ["later"])


def test_the_network_of_a_single_fold_learns_all() -> None:
    X, y = waves(30)
    model = small(cv=[(np.arange(20), np.arange(20, 30))]).fit(X, y)
    model.partial_fit(*waves(5, seed=1))
    assert model.estimators_[0].n_samples_seen_ == 25


# ---- Streams


def test_a_stream_makes_it_better() -> None:
    X, y = waves(60)
    model = small().fit(X, y)
    test, y_test = waves(500, seed=99)
    before = model.predict_distribution(test).logpdf(y_test).mean()
    for seed in range(1, 9):
        model.partial_fit(*waves(60, seed=seed))
    p = model.predict_distribution(test)
    assert p.logpdf(y_test).mean() > before + 0.1
    assert 0.9 < np.mean(np.abs(y_test - p.mean) < 1.96 * p.std) < 0.99


def test_the_factor_follows_noise_that_grows() -> None:
    X, y = waves(200)
    model = small(candidates=[Candidate(8, (10,), None)]).fit(X, y)
    factor = model.calibration_.factor
    test, y_test = waves(500, noise=0.6, seed=99)

    def misfit() -> float:
        p = model.predict_distribution(test)
        return float(np.mean((y_test - p.mean) ** 2 / p.var))

    assert misfit() > 4.0
    for seed in range(1, 9):
        model.partial_fit(*waves(100, noise=0.6, seed=seed))
    assert model.calibration_.factor > 2.0 * factor
    assert 0.6 < misfit() < 1.5


def test_the_temperature_follows_labels_that_lie() -> None:
    X, y = labels(200)
    model = small(PBPClassifierCV, candidates=[Candidate(None, (10,), None)]).fit(X, y)
    temperature = model.calibration_.temperature
    for seed in range(1, 7):
        model.partial_fit(*labels(100, flipped=0.3, seed=seed))
    assert model.calibration_.temperature > 1.5 * temperature
    assert model.calibration_.log_loss < model.calibration_.raw_log_loss
    test, y_test = labels(1000, flipped=0.3, seed=99)
    p = model.predict_proba(test)
    sure = p.max(axis=1)
    right = model.predict(test) == y_test
    assert abs(sure.mean() - right.mean()) < 0.1


def test_the_noise_network_is_updated_with_new_residuals() -> None:
    rng = np.random.RandomState(0)
    X = rng.uniform(-1.0, 1.0, size=(300, 1))
    model = small().fit(X, X[:, 0] + np.exp(1.5 * X[:, 0]) * rng.standard_normal(300))
    assert model.calibration_.noise is not None

    def log_ratio() -> float:
        h = model.calibration_.noise.log_scale(np.array([[-0.8], [0.8]]))
        return float(np.diff(h.mean)[0])

    before = log_ratio()
    assert before > 2.0
    for _ in range(5):  # from now on the noise is the same everywhere
        X = rng.uniform(-1.0, 1.0, size=(200, 1))
        model.partial_fit(X, X[:, 0] + rng.standard_normal(200))
    assert log_ratio() < 0.6 * before


def test_the_range_grows() -> None:
    X, y = waves(30)
    model = small().fit(X, y)
    far = np.array([[5.0, 0.0]])
    assert model.calibration_.range.std(far) > 0.0
    low = model.calibration_.range.low
    model.partial_fit(far, [1.0])
    assert model.calibration_.range.std(far) == 0.0
    assert_array_equal(model.calibration_.range.low, low)


def test_what_is_missing_does_not_bound_the_range() -> None:
    box = Range(np.zeros(2), np.ones(2), np.ones(2), 1.0).grown(np.array([[np.nan, 3.0]]))
    assert_array_equal(box.low, [0.0, 0.0])
    assert_array_equal(box.high, [1.0, 3.0])
    assert_array_equal(box.std(np.array([[np.nan, 5.0], [2.0, np.nan]])), [2.0, 1.0])


# ---- What fails leaves no trace


@pytest.mark.parametrize("error", [KeyboardInterrupt, FloatingPointError])
def test_as_it_was(monkeypatch: pytest.MonkeyPatch, error: Any) -> None:
    X, y = waves(40)
    model = small(missing="error").fit(X, y)
    before, history = model.predict(X, return_std=True), list(model.estimators_[0].history_)
    calibration = type(model.calibration_)

    def broken(*arguments: Any) -> Any:
        raise error

    for target, name in ((base_module, "update_members"), (calibration, "after")):
        with monkeypatch.context() as patched:
            patched.setattr(target, name, broken)
            with pytest.raises(error):
                model.partial_fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X * np.nan, y)
    for a, b in zip(model.predict(X, return_std=True), before, strict=True):
        assert_array_equal(a, b)
    assert model.estimators_[0].history_ == history
    assert model.n_samples_seen_ == 40


def test_threads_do_not_change_it() -> None:
    X, y = waves(40)
    one, two = (small(n_jobs=n).fit(X, y).partial_fit(*waves(9, seed=1)) for n in (1, 2))
    assert_array_equal(one.predict(X), two.predict(X))
