"""Missing values in cross-validated estimators: completed from the features that are present."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal

import uci
from probprop import PBPClassifierCV, PBPRegressorCV
from probprop.encoding.missing import N_NODES, learn_joint
from probprop.encoding.piecewise import encode
from probprop.estimators.cv.folds import Encodings
from probprop.estimators.cv.policy import Bins
from probprop.inference import training
from probprop.inference.inputs import Inputs, dense, normal_nodes
from probprop.inference.likelihoods import Gaussian
from probprop.inference.plan import Plan
from probprop.table import fit_table_model

N_TRAIN = 300
NAMES = ["sun", "warmth", "season", "wind"]


def weather(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Four features of which three depend on each other, one of them discrete, and a target."""
    rng = RandomState(seed)
    warmth, wind = rng.standard_normal(n), rng.gamma(2.0, 1.0, n)
    sun = warmth + 0.2 * rng.standard_normal(n)
    season = np.digitize(warmth, [-0.8, 0.0, 0.8]).astype(float)
    y = 3.0 * sun - 2.0 * warmth + season + 0.5 * wind + 0.2 * rng.standard_normal(n)
    return np.stack([sun, warmth, season, wind], axis=1), y


def fast(kind: Any = PBPRegressorCV, **options: Any) -> Any:
    return kind(cv=3, budget="fast", missing="marginalize", random_state=0, **options)


@cache
def fitted() -> PBPRegressorCV:
    """A model on features that are not encoded, fitted on complete samples; no test changes it."""
    return fast(candidates=[{"hidden_layer_sizes": (50,), "evidence_cap": 10.0}]).fit(
        *weather(N_TRAIN)
    )  # type: ignore[no-any-return]


def blank(X: np.ndarray, j: int) -> np.ndarray:
    return np.where(np.arange(X.shape[1]) == j, np.nan, X)


def rmse_and_coverage(predictive: Any, y: np.ndarray) -> tuple[float, float]:
    low, high = predictive.interval(0.95)
    error = float(np.sqrt(np.mean((predictive.mean - y) ** 2)))
    return error, float(np.mean((low <= y) & (y <= high)))


# ---- What is promised


@pytest.mark.parametrize("j", range(4), ids=NAMES)
def test_a_feature_that_is_missing_in_all_new_samples(j: int) -> None:
    (X, y), (X_test, y_test) = weather(N_TRAIN), weather(1000, seed=1)
    without = fast().fit(np.delete(X, j, axis=1), y)
    reference = without.predict_distribution(np.delete(X_test, j, axis=1))
    error, coverage = rmse_and_coverage(fitted().predict_distribution(blank(X_test, j)), y_test)
    assert error < 1.25 * rmse_and_coverage(reference, y_test)[0]
    assert coverage > 0.91


def test_a_random_quarter_of_the_values_is_missing() -> None:
    X, y = weather(1000, seed=2)
    gaps = np.where(RandomState(0).uniform(size=X.shape) < 0.25, np.nan, X)
    predictive = fitted().predict_distribution(gaps)
    assert rmse_and_coverage(predictive, y)[1] > 0.91
    missing = np.isnan(gaps).any(axis=1)
    assert predictive.std[missing].mean() > 1.2 * predictive.std[~missing].mean()


@pytest.mark.slow
@pytest.mark.parametrize("j", [0, 2, 6, 7, None])
def test_features_of_energy_which_follow_from_each_other(j: int | None) -> None:
    X, y = uci.load("energy")
    order = RandomState(0).permutation(len(y))
    train, test = order[:512], order[512:]
    model = fast().fit(X[train], y[train])
    if j is None:
        gaps = np.where(RandomState(1).uniform(size=X.shape) < 0.25, np.nan, X)[test]
        assert rmse_and_coverage(model.predict_distribution(gaps), y[test])[1] > 0.91
        return
    without = fast().fit(np.delete(X[train], j, axis=1), y[train])
    reference = without.predict_distribution(np.delete(X[test], j, axis=1))
    error, coverage = rmse_and_coverage(model.predict_distribution(blank(X[test], j)), y[test])
    assert error < 1.25 * rmse_and_coverage(reference, y[test])[0]
    assert coverage > 0.91


def test_classes_without_a_feature_that_others_determine() -> None:
    (X, y), (X_test, y_test) = weather(N_TRAIN), weather(500, seed=1)
    model = fast(PBPClassifierCV).fit(X, y > 1.5)
    whole, gaps = (np.mean(model.predict(Z) == (y_test > 1.5)) for Z in (X_test, blank(X_test, 2)))
    assert gaps > whole - 0.05
    proba = model.predict_proba(np.full((1, 4), np.nan))[0]
    assert_allclose(proba[1], np.mean(y > 1.5), atol=0.1)


def test_training_samples_with_missing_values() -> None:
    (X, y), (X_test, y_test) = weather(N_TRAIN), weather(1000, seed=1)
    X = np.where(RandomState(3).uniform(size=X.shape) < 0.2, np.nan, X)
    model = fast().fit(X, y)
    for Z in (X_test, *(blank(X_test, j) for j in range(4))):
        assert rmse_and_coverage(model.predict_distribution(Z), y_test)[1] > 0.91
    model.partial_fit(blank(X_test, 1), y_test)
    assert rmse_and_coverage(model.predict_distribution(blank(X_test, 1)), y_test)[1] > 0.91


@pytest.mark.filterwarnings("ignore:.warmth.. possible leak")
def test_a_missing_category_is_completed_by_categories() -> None:
    rng = RandomState(0)
    warmth = rng.standard_normal(200)
    place = np.where(warmth > 0.3, "south", np.where(warmth > -0.3, "middle", "north"))
    frame = pd.DataFrame({"place": place, "warmth": warmth, "y": warmth + (place == "south")})
    model = fit_table_model(frame, "y", estimator=fast())
    new = frame.assign(place=None)
    assert np.corrcoef(model.predict(new), frame["y"])[0, 1] > 0.99
    joint = model.estimator.joint_  # type: ignore[union-attr]
    completed = joint.complete(model.encode(new))
    assert set(np.unique(completed.values)) == {0.0, 1.0}


# ---- What stays


@pytest.mark.parametrize("bins", [None, (8, False), (32, False)])
def test_networks_read_filled_inputs_as_arrays_of_means_and_variances(bins: Bins) -> None:
    X, y = weather(N_TRAIN, seed=3)
    rng = RandomState(1)
    one_hot = np.eye(40)[rng.permutation(np.arange(N_TRAIN) % 40)]
    gaps = np.where(rng.uniform(size=X.shape) < 0.1, np.nan, X)
    X = np.column_stack([gaps, one_hot])
    encodings = Encodings(X, np.dtype(np.float64), learn_joint(X))
    completed, rows = encodings.completed, encodings.inputs(bins)
    assert rows.X.X.shape == (N_TRAIN, 5)  # the set of columns is one of codes

    encoding = encodings.of(bins)
    ends = np.cumsum(completed.missing.sum(axis=1))
    mean = encode(X, encoding)
    std = np.zeros(mean.shape)
    for i, (gap, missing) in enumerate(zip(completed.gaps, completed.missing, strict=True)):
        nodes = np.repeat(X[gap][np.newaxis], N_NODES, axis=0)
        nodes[:, missing] = completed.values[:, ends[i] - missing.sum() : ends[i]]
        A, w = encode(nodes, encoding), completed.weights[:, i, np.newaxis]
        mean[gap] = (w * A).sum(axis=0)
        std[gap] = np.sqrt((w * (A - mean[gap]) ** 2).sum(axis=0))
        std[gap][~np.isnan(encode(X[gap][np.newaxis], encoding)[0])] = 0.0
    assert_allclose(dense(rows.X), mean, rtol=1e-12, atol=1e-12)
    assert_allclose(rows.std.toarray(), std, rtol=1e-12, atol=1e-12)

    plan = Plan(Gaussian(1), hidden=(20,), evidence_cap=10.0)
    scales = encodings.standardizer(np.arange(N_TRAIN), None, bins)
    before = training.start(plan, rows, y, RandomState(0), scales)
    runs = [
        training.begin(plan, before, inputs, y, RandomState(0), n_epochs=1)
        for inputs in (rows, Inputs(mean, std))
    ]
    (filled, array), _ = training.advance(runs, 1)
    for a, b in zip(filled.fitted.posterior.m_w, array.fitted.posterior.m_w, strict=True):
        assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_complete_samples_among_others_keep_their_bits() -> None:
    X, _ = weather(40, seed=4)
    gaps = X.copy()
    gaps[::3, 1] = np.nan
    model, kept = fitted(), np.arange(40) % 3 > 0
    alone, among = (model.predict(Z, return_std=True) for Z in (X[kept], gaps))
    for a, b in zip(alone, among, strict=True):
        assert_array_equal(a, b[kept])


def test_blocks_do_not_change_predictions() -> None:
    X, _ = weather(40, seed=4)
    gaps = np.where(RandomState(0).uniform(size=X.shape) < 0.3, np.nan, X)
    n = 1 + (1 << 14) // len(gaps)  # more rows than a block has
    few, many = (fitted().predict(rows, return_std=True) for rows in (gaps, np.tile(gaps, (n, 1))))
    for a, b in zip(few, many, strict=True):
        assert_allclose(np.tile(a, n), b, rtol=1e-6)


# ---- Oracles


def test_predictions_are_means_over_completed_samples() -> None:
    """Each completed sample is predicted on its own, and the moments are added up."""
    model, X = fitted(), weather(3, seed=5)[0]
    gaps = X.copy()
    gaps[0, [0, 2]] = gaps[1, 1] = np.nan
    joint, a2 = model.joint_, model.calibration_.factor
    assert joint is not None
    found = model.predict_distribution(gaps)
    completed = joint.complete(gaps)
    assert_array_equal(completed.gaps, [0, 1])
    start = 0
    for i, factor in ((0, joint.factor[-1]), (1, joint.factor[1])):
        n = int(np.isnan(gaps[i]).sum())
        w, own = completed.weights[:, i], completed.values[:, start : start + n]
        start += n
        rows = np.repeat(gaps[i : i + 1], N_NODES, axis=0)
        rows[:, np.isnan(gaps[i])] = own
        moments = []
        for member in model.estimators_:
            each = member.predict_distribution(rows)
            center = w @ each.mean
            between = w @ (each.mean - center) ** 2
            moments.append((center, a2 * (w @ each.epistemic_std**2) + factor * between))
        means, variances = np.array(moments).T
        assert_allclose(found.mean[i], means.mean(), rtol=1e-5)
        assert_allclose(found.epistemic_std[i] ** 2, variances.mean() + means.var(), rtol=1e-4)


def test_nodes_follow_the_conditional_gaussian() -> None:
    """Scores of completed samples against the textbook formula, on Gaussian features."""
    rng = RandomState(0)
    X = rng.standard_normal((5000, 3)) @ np.array(
        [[1.0, 0.8, 0.3], [0.0, 0.6, 0.5], [0.0, 0.0, 0.8]]
    )
    joint = learn_joint(X)
    S, row = np.cov(X.T), np.array([0.7, np.nan, np.nan])
    completed = joint.complete(row[np.newaxis])
    w, values = completed.weights[:, 0], completed.values
    mean = w @ values
    assert_allclose(mean, S[1:, 0] / S[0, 0] * 0.7, atol=0.05)
    expected = S[1:, 1:] - np.outer(S[1:, 0], S[0, 1:]) / S[0, 0]
    assert_allclose((w[:, np.newaxis] * (values - mean)).T @ (values - mean), expected, atol=0.07)


def test_what_is_given_by_the_covariance_itself() -> None:
    """Mean and covariance from the precision against those from the blocks of the covariance."""
    X, _ = weather(200)
    joint = learn_joint(X)
    assert joint.covariance is not None
    pattern = np.array([True, False, True, False])
    A = RandomState(1).standard_normal((2, len(joint.covariance)))
    column = np.r_[np.arange(4), joint.encoding.column]
    m, o = np.flatnonzero(pattern[column]), np.flatnonzero(~pattern[column])
    S = joint.covariance.astype(np.float64)
    W = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, m)])
    A[:, m] = 0.0
    mean, root = joint.given_present(pattern, A)
    assert_allclose(mean, A[:, o] @ W, rtol=1e-8, atol=1e-8)
    assert_allclose(root @ root.T, S[np.ix_(m, m)] - S[np.ix_(m, o)] @ W, rtol=1e-7, atol=1e-10)


# ---- Awkward columns


def test_values_that_exclude_each_other() -> None:
    """A level that never occurs with the values present has hardly any weight."""
    rng = RandomState(0)
    area = rng.choice([0.0, 1.0, 2.0, 3.0], 400, p=[0.1, 0.3, 0.3, 0.3])
    where = np.where(area == 0.0, 0.0, rng.randint(1, 6, 400))
    joint = learn_joint(np.stack([area, where], axis=1))
    completed = joint.complete(np.array([[0.0, np.nan], [2.0, np.nan]]))
    share = completed.weights * (completed.values == 0.0)
    assert share[:, 0].sum() > 0.9
    assert share[:, 1].sum() < 0.1


@pytest.mark.parametrize(
    "column",
    [np.zeros(50), np.full(50, 1e-300), np.arange(50.0) * 1e300, 1.7e9 + np.arange(50.0)],
    ids=["constant", "tiny", "huge", "Unix times"],
)
def test_columns_of_any_kind(column: np.ndarray) -> None:
    x = RandomState(0).standard_normal(50)
    joint = learn_joint(np.stack([x, column], axis=1))
    values = joint.complete(np.array([[0.5, np.nan], [np.nan, np.nan]])).values
    assert np.isfinite(values).all()
    assert ((values[:, 0] >= column.min()) & (values[:, 0] <= column.max())).all()


def test_a_column_without_any_value() -> None:
    X = np.stack([RandomState(0).standard_normal(30), np.full(30, np.nan)], axis=1)
    completed = learn_joint(X).complete(np.array([[0.5, np.nan]]))
    assert_array_equal(completed.values, np.zeros((N_NODES, 1)))


def test_more_columns_than_a_covariance_is_learned_of() -> None:
    X = RandomState(0).standard_normal((20, 600)).round(1)
    joint = learn_joint(X)
    assert joint.covariance is None
    completed = joint.complete(np.full((1, 600), np.nan))
    assert_allclose(completed.values.mean(axis=0), X.mean(axis=0), atol=0.4)


def test_samples_by_number() -> None:
    X, _ = weather(30)
    gaps = np.where(RandomState(0).uniform(size=X.shape) < 0.4, np.nan, X)
    joint, rows = learn_joint(X), np.array([7, 3, 3, 20, 0])
    some, alone = joint.complete(gaps)[rows], joint.complete(gaps[rows])
    assert_array_equal(some.gaps, alone.gaps)
    assert_array_equal(some.missing, alone.missing)
    assert_allclose(some.values, alone.values)
    assert_allclose(some.weights, alone.weights)


def test_fewer_nodes_are_as_good_in_the_moments() -> None:
    nodes = normal_nodes(2, N_NODES)
    assert nodes.shape == (N_NODES, 2)
    assert_allclose(nodes.T @ nodes / N_NODES, np.eye(2), atol=1e-12)
