"""PBPRegressorCV: its folds against separate fits, its calibration, and scikit-learn's contract."""

from __future__ import annotations

import pickle
import re
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, ShuffleSplit, TimeSeriesSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

from cv_folds import drawn_folds
from probprop import (
    Candidate,
    Mixture,
    PBPRegressor,
    PBPRegressorCV,
    PiecewiseLinearEncoder,
)
from probprop.estimators.cv.folds import time_folds
from sklearn_checks import expected_failures

SMALL = [Candidate(None, (5,), 10.0)]
pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")


def waves(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, 5.0 + 2.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def small(**parameters: Any) -> PBPRegressorCV:
    usual = {"cv": 3, "candidates": SMALL, "budget": "fast", "random_state": 0}
    return PBPRegressorCV(**{**usual, **parameters})


@parametrize_with_checks(
    [small(cv=2), small(cv=2, missing="marginalize")], expected_failed_checks=expected_failures
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


# ---- What it is made of


@pytest.mark.parametrize("n_bins", [None, 4])
def test_the_folds_are_fits_of_their_own(n_bins: int | None) -> None:
    X, y = waves(60)
    A, is_encoded = X, n_bins is not None
    dtype = "float64" if is_encoded else "float32"
    model = small(candidates=[Candidate(n_bins, (6,), 10.0)], dtype=dtype).fit(X, y)
    if n_bins is not None:
        A = PiecewiseLinearEncoder(n_bins).fit_transform(X)
    mean, std = np.empty(60), np.empty(60)
    seen = np.zeros(60, int)
    for member, (train, test) in zip(model.estimators_, drawn_folds(60, 3), strict=True):
        center, scale = 0.0, 1.0
        if is_encoded:  # the encoding has scaled the features of all samples already
            of_y = member.standardizer_.y_mean, member.standardizer_.y_scale
            center, scale = (float(a[0]) for a in of_y)
            assert_allclose([center, scale], [y[train].mean(), y[train].std()])
        alone = PBPRegressor(
            6,
            n_epochs=model.groups_[0].n_epochs,
            evidence_cap=10.0,
            standardize=not is_encoded,
            dtype=dtype,
            random_state=member.random_state,
        ).fit(A[train], (y[train] - center) / scale)
        rounding = 1e-8 if is_encoded else 0.0
        assert_allclose(alone.posterior_.m_w[0], member.posterior_.m_w[0], rounding, rounding)
        assert is_encoded or alone.history_ == member.history_
        predicted = alone.predict_distribution(A[test])
        mean[test], std[test] = scale * predicted.mean + center, scale * predicted.std
        seen[test] += 1
    assert_array_equal(seen, 1)
    assert len({member.random_state for member in model.estimators_}) == 3
    assert_allclose(model.oof_predictive_.mean, mean, rtol=1e-6)
    factor = np.mean((y - mean) ** 2 / std**2)
    assert_allclose(model.calibration_.factor, factor, rtol=1e-5)
    score = norm.logpdf(y, mean, np.sqrt(factor) * std).mean()
    assert_allclose(model.best_score_, score, rtol=1e-5)


def test_two_layers_learn_from_the_first_epochs_on() -> None:
    """As the paper has it, their units begin all alike, and 20 epochs find little but the mean."""
    X = np.random.RandomState(0).standard_normal((200, 6))
    y = np.sign(X[:, 0] * X[:, 1])
    model = small(candidates=[Candidate(None, (20, 20), 10.0)], cv=2).fit(X, y)
    of_the_mean = norm.logpdf(y, y.mean(), y.std()).mean()
    assert model.trials_[0].means[0] > of_the_mean + 0.1


def test_the_variances_match_the_residuals() -> None:
    X, y = waves(15)  # too few rows for a noise network
    model = small().fit(X, y)
    p = model.oof_predictive_
    assert isinstance(p, Mixture)
    assert p.tail is None
    assert model.calibration_.noise is None
    assert np.isnan(model.calibration_.gain)
    assert_allclose(np.mean((y - p.mean) ** 2 / p.std**2), 1.0, rtol=1e-12)
    assert_array_equal(model.oof_rows_, np.arange(15))


def test_predictions_are_the_mixture_of_the_members() -> None:
    X, y = waves(15)
    model = small().fit(X, y)
    new, at = waves(7, seed=1)
    new *= 0.5  # inside of the range of X
    p = model.predict_distribution(new)
    each = [member.predict(new, return_std=True) for member in model.estimators_]
    a = np.sqrt(model.calibration_.factor)
    density = np.mean([norm.pdf(at, mean, a * std) for mean, std in each], axis=0)
    assert_allclose(p.logpdf(at), np.log(density), rtol=1e-9)
    mean, std = model.predict(new, return_std=True)
    assert_array_equal(mean, model.predict(new))
    assert_allclose(mean, np.mean([m for m, _ in each], axis=0))
    second = np.mean([m**2 + (a * s) ** 2 for m, s in each], axis=0)
    assert_allclose(std**2, second - mean**2, rtol=1e-6)


def test_it_chooses_what_fits() -> None:
    rng = np.random.RandomState(0)
    X = rng.uniform(-1.0, 1.0, size=(200, 1))
    y = np.sign(np.sin(9.0 * X[:, 0])) + 0.1 * rng.standard_normal(200)
    candidates = [
        Candidate(None, (5,), 10.0),
        {"n_bins": 32, "hidden_layer_sizes": 5, "evidence_cap": 10.0},
    ]
    model = small(candidates=candidates).fit(X, y)
    assert {group.candidate for group in model.groups_} == {Candidate(32, (5,), 10.0)}
    assert model.trials_[0].outcome == "behind the leader"
    assert model.groups_[0].encoding is not None
    assert model.trials_[1].best[1] > model.trials_[0].best[1] + 0.5


def test_it_is_the_same_again_and_with_any_number_of_threads() -> None:
    X, y = waves(60)
    candidates = [*SMALL, Candidate(4, (5,), None), Candidate(4, (5, 5), 10.0)]
    one, again, two = (small(candidates=candidates, n_jobs=n).fit(X, y) for n in (None, 1, 2))
    for other in (again, two):
        assert_array_equal(one.predict(X), other.predict(X))
        assert_array_equal(one.oof_predictive_.std, other.oof_predictive_.std)
        assert one.trials_[1].scores == other.trials_[1].scores
    assert (
        small(random_state=1, candidates=candidates).fit(X, y).predict(X) != one.predict(X)
    ).any()


# ---- Folds


def parted(model: PBPRegressorCV, groups: Any) -> bool:
    """Whether a group is in both the training and the validation set of a network."""
    n = len(groups)
    counts = [member.n_samples_seen_ for member in model.estimators_]
    return sum(counts) != (len(counts) - len(model.groups_)) * n


def test_rows_of_a_group_stay_together() -> None:
    X, y = waves(40)
    groups = np.repeat(np.arange(10), 4)
    # A target that is the same in a group, and says nothing about others.
    y = np.random.RandomState(1).standard_normal(10)[groups]
    X = groups[:, None] + 0.01 * X
    together = small(cv=5).fit(X, y, groups=groups)
    splitter = small(cv=GroupKFold(5)).fit(X, y, groups=groups)
    apart = small(cv=5).fit(X, y)
    for model in (together, splitter):
        assert not parted(model, groups)
        assert {member.n_samples_seen_ for member in model.estimators_} == {32}
    scores = [m.trials_[0].means[-1] for m in (together, splitter, apart)]
    assert max(scores[:2]) < scores[2]


def test_splitters_and_rows_that_are_in_no_validation_set() -> None:
    X, y = waves(40)
    in_time = small(cv=TimeSeriesSplit(3)).fit(X, y)
    assert_array_equal(in_time.oof_rows_, np.arange(10, 40))
    assert len(in_time.oof_predictive_) == 30
    assert [member.n_samples_seen_ for member in in_time.estimators_] == [10, 20, 30]
    often = small(cv=ShuffleSplit(3, test_size=20, random_state=0)).fit(X, y)
    assert len(often.oof_rows_) == 60 > len(np.unique(often.oof_rows_))
    assert (np.diff(often.oof_rows_) >= 0).all()
    half = np.arange(40) < 20
    masks = small(cv=[(half, ~half)]).fit(X, y)
    rows = small(cv=[(np.arange(20), np.arange(20, 40))]).fit(X, y)
    assert_array_equal(masks.predict(X), rows.predict(X))
    assert len(rows.estimators_) == 1
    residual = y[20:] - rows.oof_predictive_.mean
    assert_allclose(rows.oof_predictive_.mean, rows.estimators_[0].predict(X[20:]), rtol=1e-6)
    assert np.abs(residual).max() < 4.0


def test_out_of_fold_samples_can_be_predicted_again() -> None:
    """By the networks that held them out: the prediction is the one of the fit."""
    X, y = waves(40)
    for model in (
        small(cv=5),
        small(cv=TimeSeriesSplit(3)),
        small(cv=ShuffleSplit(3, test_size=20, random_state=0)),
    ):
        model.set_params(candidates=[Candidate(None, (5,), 10.0, noise="constant")]).fit(X, y)
        rows = model.oof_rows_
        assert model.oof_members_.shape == (len(model.groups_), len(rows))
        again = model.predict_out_of_fold(X[rows])
        assert_allclose(again.mean, model.oof_predictive_.mean, rtol=1e-9, atol=1e-12)
        assert_allclose(again.std, model.oof_predictive_.std, rtol=1e-9)
        some = np.array([7, 3])
        part = model.predict_out_of_fold(X[rows[some]], some)
        assert_allclose(part.mean, model.oof_predictive_.mean[some], rtol=1e-9, atol=1e-12)
    assert np.abs(again.mean - model.predict(X[rows])).max() > 1e-3


def test_folds_in_time() -> None:
    times = np.random.RandomState(0).permutation(40) / 7.0
    folds = time_folds(times, 5)
    assert len(folds) == 5
    assert [len(test) for _, test in folds] == [4] * 5
    for train, test in folds:
        assert times[train].max() < times[test].min()
        assert len(train) == (times < times[test].min()).sum()
    held = np.concatenate([test for _, test in folds])
    assert sorted(times[held]) == sorted(times)[20:]
    assert len(folds[0][0]) == 36  # the last block comes first
    # Ties are in one fold, whatever their number.
    for values, n_folds in (([1, 1, 1, 2], 1), ([1, 2, 2, 2], 1), ([1, 1, 2, 3], 2)):
        folds = time_folds(np.repeat(values, 5), 5)
        assert len(folds) == n_folds
        assert all(len(train) and len(test) for train, test in folds)
    with pytest.raises(ValueError, match="times must have at least 2 different values"):
        time_folds(np.ones(8), 5)


# ---- Few rows, odd rows


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_few_rows(n: int) -> None:
    X, y = waves(n)
    model = PBPRegressorCV(random_state=0, budget="fast").fit(X, y)
    assert len(model.estimators_) == min(5, n) * len(model.groups_)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    assert np.isfinite(std).all()


def test_a_constant_target() -> None:
    X, _ = waves(30)
    mean, std = small().fit(X, np.full(30, 7.0)).predict(X, return_std=True)
    assert_allclose(mean, 7.0, atol=0.2)
    assert (std > 0.0).all()
    assert (std < 1.0).all()


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_units_of_the_target(unit: float) -> None:
    X, y = waves(60)
    ours, theirs = (small(dtype="float64").fit(X, a * y) for a in (1.0, unit))
    assert (ours.calibration_.noise is None) == (theirs.calibration_.noise is None)
    assert_allclose(ours.calibration_.gain, theirs.calibration_.gain, rtol=1e-5)
    for p, q in zip(ours.predict(X, True), theirs.predict(X, True), strict=True):
        assert_allclose(unit * p, q, rtol=1e-5)


def test_single_precision_frames_and_pickles() -> None:
    X, y = waves(60)
    frame = pd.DataFrame(X, columns=["a", "b"])
    candidates = [Candidate(8, (5,), 10.0)]
    model = small(candidates=candidates).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    single = small(candidates=candidates).fit(X.astype(np.float32), y.astype(np.float32))
    assert_allclose(single.predict(X.astype(np.float32)), model.predict(frame), atol=0.05)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.best_params_ == model.best_params_
    assert clone(model).get_params()["candidates"] == candidates


def test_the_std_grows_away_from_the_data() -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((150, 2))
    y = X[:, 0] ** 2 + np.sin(2.0 * X[:, 1]) + 0.1 * rng.standard_normal(150)
    candidates = [Candidate(16, (20,), 10.0), Candidate(None, (20,), 10.0)]
    model = small(cv=5, candidates=candidates).fit(X, y)
    near = model.predict(X, return_std=True)[1].mean()
    for direction in ([1.0, 0.0], [0.0, -1.0]):
        X_5, X_50 = (X + far * np.array(direction) for far in (5.0, 50.0))
        std_5, std_50 = (model.predict(far, return_std=True)[1].mean() for far in (X_5, X_50))
        assert 2.0 * near < std_5 < std_50 < 20.0 * near


def test_beyond_the_range_of_the_rows() -> None:
    X, y = waves(60)
    model = small().fit(X, y)
    edge = X.max(axis=0)
    distances = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]])
    p, q = (
        model.predict_distribution(edge + X.std(axis=0) * d) for d in (distances, distances[:1])
    )
    beyond = model.calibration_.range.std(edge + X.std(axis=0) * distances)
    assert_allclose(beyond, 0.3 * y[: len(y)].std() * np.array([0.0, 3.0, 5.0]), rtol=0.2)
    bounded = model.bounds_.apply(edge + X.std(axis=0) * distances)
    assert (p.epistemic_std[1:] > 0.9 * model.calibration_.range.std(bounded)[1:]).all()
    assert_allclose(p.aleatoric_std, q.aleatoric_std[0])  # the edge's


# ---- Noise that depends on the inputs


def test_noise_that_is_larger_on_one_side() -> None:
    rng = np.random.RandomState(0)
    X = rng.uniform(-1.0, 1.0, size=(400, 1))
    true = np.exp(1.5 * X[:, 0])
    y = X[:, 0] + true * rng.standard_normal(400)
    model = small(n_jobs=2).fit(X, y)
    calibration = model.calibration_
    assert calibration.noise is not None
    assert calibration.gain > 3.0 * calibration.gain_error > 0.0
    p = model.predict_distribution([[-0.8], [0.8]])
    assert isinstance(p, Mixture)
    assert p.tail is not None
    assert 4.0 < p.aleatoric_std[1] / p.aleatoric_std[0] < 25.0  # exp(2.4) is 11
    # The gain is out of fold: the out-of-fold predictive distribution has it.
    mean, var = np.empty(400), np.empty(400)
    for member, (_, test) in zip(model.estimators_, drawn_folds(400, 3), strict=True):
        each = member.predict_distribution(X[test])
        mean[test], var[test] = each.mean, each.var
    constant = norm.logpdf(y, mean, np.sqrt(np.mean((y - mean) ** 2 / var) * var))
    gained = model.oof_predictive_.logpdf(y).mean() - constant.mean()
    assert_allclose(gained, calibration.gain, rtol=1e-4)


def test_noise_that_is_the_same_everywhere_is_left_alone() -> None:
    rng = np.random.RandomState(3)
    X = rng.uniform(-1.0, 1.0, size=(60, 4))
    model = small().fit(X, X[:, 0] + 0.5 * rng.standard_normal(60))
    assert model.calibration_.gain <= 0.0
    assert model.calibration_.noise is None
    p = model.predict_distribution(X)
    assert isinstance(p, Mixture)
    assert p.tail is None


# ---- Refusals


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"cv": 1}, ValueError, "cv == 1, must be >= 2."),
        ({"cv": True}, TypeError, "cv must be an instance of int, not bool."),
        ({"cv": [([0, 1], [])]}, ValueError, "cv gives a fold without rows to test on"),
        ({"cv": []}, ValueError, "cv gives no folds at all"),
        ({"budget": "slow"}, ValueError, "budget must be one of ['fast', 'good', 'best']."),
        ({"budget": 1.0}, ValueError, "budget must be one of"),
        ({"cv": "all"}, ValueError, "cv must be one of ['auto']."),
        ({"candidates": "all"}, ValueError, "candidates must be one of ['auto']."),
        ({"candidates": {"n_bins": 3}}, TypeError, 'candidates must be "auto" or a sequence'),
        ({"candidates": []}, ValueError, "candidates must have at least one entry."),
        ({"candidates": [3]}, TypeError, "each of candidates must be a Candidate or a dict."),
        ({"candidates": [{"bins": 3}]}, ValueError, "a candidate has the keys"),
        ({"candidates": [{"n_bins": 1}]}, ValueError, "n_bins of a candidate == 1, must be >= 2."),
        ({"candidates": [{"evidence_cap": 0.5}]}, ValueError, "evidence_cap == 0.5, must be >= 1."),
        (
            {"candidates": [{"evidence_cap": "auto"}]},
            TypeError,
            "evidence_cap of a candidate must be a float",
        ),
        (
            {"candidates": [{"hidden_layer_sizes": 0}]},
            ValueError,
            "each entry of hidden_layer_sizes of a candidate == 0",
        ),
        ({"candidates": [{}, Candidate()]}, ValueError, "candidates must differ"),
        ({"dtype": "float16"}, ValueError, "dtype must be one of"),
        ({"n_jobs": 0}, ValueError, "n_jobs == 0"),
    ],
)
def test_parameters(parameters: Any, error: type[Exception], message: str) -> None:
    X, y = waves(10)
    model = small(**parameters)
    with pytest.raises(error, match=re.escape(message)):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_rows_that_cannot_be_used() -> None:
    X, y = waves(10)
    with pytest.raises(ValueError, match=r"at least 2 samples.* Got n_samples = 1\."):
        small().fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="groups must have at least 2 different values"):
        small().fit(X, y, groups=np.zeros(10))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small().fit(X, y, groups=np.arange(9))
    model = small(candidates=[Candidate(4, (5,), 10.0)]).fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        model.predict([[np.inf, 0.0]])


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    X, y = waves(20)
    model = small().fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X[:, :1], y[:5])
    assert_array_equal(model.predict(X), before)


# ---- What a prediction costs


@pytest.mark.parametrize("n_bins", [None, 4])
def test_a_mean_is_predicted_in_ten_modules(n_bins: int | None) -> None:
    X, y = waves(60)
    model = small(candidates=[Candidate(n_bins, (5,), 10.0, noise="input")]).fit(X, y)
    entered = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            entered.add(frame.f_globals.get("__name__", ""))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        model.predict(X)
    finally:
        sys.setprofile(before)
    modules = {name for name in entered if name.startswith("probprop")}
    assert "probprop.estimators.cv.regressor" in modules
    assert len(modules) <= 10, sorted(modules)
