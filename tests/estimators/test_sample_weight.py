"""sample_weight and y_std of the estimators: what they mean, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal

import probprop
from probprop import PBPClassifier, PBPRegressor
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox

RANDOM = RandomState(0)
N = 60
X = RANDOM.standard_normal((N, 3))
Y = 10.0 + 5.0 * np.sin(X[:, 0]) + RANDOM.standard_normal(N)
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
W = RANDOM.uniform(0.2, 2.0, N)
SMALL: dict[str, Any] = {"hidden_layer_sizes": (6,), "n_epochs": 4, "random_state": 0}


def regressor(**parameters: Any) -> PBPRegressor:
    return PBPRegressor(**SMALL | parameters)


def classifier(**parameters: Any) -> PBPClassifier:
    return PBPClassifier(**SMALL | parameters)


MODELS = {
    "regressor": (regressor(), Y),
    "float32, evidence cap": (regressor(dtype="float32", evidence_cap=3.0), Y),
    "two targets": (regressor(), np.column_stack([Y, -X[:, 1]])),
    "three classes": (classifier(), LABELS),
    "two classes": (classifier(), LABELS == "a"),
    "labels": (classifier(), np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(int)),
}


def outcome(model: Any) -> list[np.ndarray]:
    """All that a fit leaves, as arrays."""
    networks = getattr(model, "estimators_", [model])
    return [
        np.asarray(a)
        for network in networks
        for a in (
            *network.posterior_.m_w,
            *network.posterior_.v_w,
            network.posterior_.beta_noise,
            network.standardizer_.y_scale,
            network.log_evidence_,
            network.n_samples_seen_,
            [epoch.mean_log_Z for epoch in network.history_],
        )
    ]


def same(a: Any, b: Any) -> bool:
    return all(map(np.array_equal, outcome(a), outcome(b)))


@pytest.mark.parametrize("kind", MODELS)
def test_weights_of_one_change_nothing(kind: str) -> None:
    model, y = MODELS[kind]
    plain = outcome(model.fit(X, y))
    for weights in (np.ones(N), 1, np.ones(N, int).tolist()):
        assert all(map(np.array_equal, plain, outcome(model.fit(X, y, weights))))
    assert not all(map(np.array_equal, plain, outcome(model.fit(X, y, W))))


@pytest.mark.parametrize("kind", MODELS)
def test_rows_of_weight_zero_are_as_if_they_were_not_there(kind: str) -> None:
    model, y = MODELS[kind]
    weights = np.where(np.arange(N) % 3 == 0, 0.0, W)
    counts = weights > 0
    wild = np.where(counts[:, None], X, 1e6)  # would change the standardizer
    found = outcome(model.fit(wild, y, weights))
    expected = outcome(model.fit(X[counts], y[counts], weights[counts]))
    for a, b in zip(found, expected, strict=True):
        assert_array_equal(a, b)


def test_a_class_of_weight_zero_is_no_class() -> None:
    model = classifier().fit(X, LABELS, (LABELS != "b").astype(float))
    assert model.classes_.tolist() == ["a", "c"]


def test_a_column_that_only_rows_of_weight_zero_have_is_refused() -> None:
    gaps = X.copy()
    gaps[1:, 2] = np.nan
    model, weights = regressor(missing="marginalize"), np.r_[0.0, np.ones(N - 1)]
    with pytest.raises(ValueError, match=r"no value at all in the column\(s\) \[2\]"):
        model.fit(gaps, Y, weights)


@pytest.mark.parametrize("kind", MODELS)
def test_a_stream_has_weights_too(kind: str) -> None:
    model, y = MODELS[kind]
    weights = np.where(np.arange(N) % 3 == 0, 0.0, W)
    counts = weights > 0
    model.fit(X, y)
    first = outcome(model)
    model.partial_fit(X, y, sample_weight=weights)
    weighted = outcome(model)
    model.fit(X, y).partial_fit(X[counts], y[counts], sample_weight=weights[counts])
    for a, b in zip(weighted, outcome(model), strict=True):
        assert_array_equal(a, b)
    model.fit(X, y).partial_fit(X[counts], y[counts])
    assert not all(map(np.array_equal, weighted, outcome(model)))
    assert not all(map(np.array_equal, weighted, first))


@pytest.mark.parametrize("make", [regressor, classifier])
def test_the_engines_agree(make: Any) -> None:
    y = Y if make is regressor else LABELS
    a, b = (make(engine=engine).fit(X, y, W) for engine in ("native", "reference"))
    for one, other in zip(outcome(a), outcome(b), strict=True):
        assert_allclose(one, other, rtol=1e-8, atol=1e-9)


def test_a_callback_sees_the_same_fit() -> None:
    seen: list[float] = []
    watched = regressor().fit(X, Y, W, callback=lambda epoch: seen.append(epoch.mean_log_Z))
    assert same(watched, regressor().fit(X, Y, W))
    assert len(seen) == 4


# ---- What they mean


FACTORS = [1e-300, 1e-6, 0.1, 7.3, 1e6, 1e300]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("factor", FACTORS)
def test_a_constant_factor_of_the_weights_changes_nothing(kind: str, factor: float) -> None:
    model, y = MODELS[kind]
    for weights in (W, np.ones(N)):
        fitted = outcome(model.fit(X, y, weights))
        mean = model.mean_sample_weight_
        streamed = outcome(model.partial_fit(X, y, sample_weight=W[::-1]))
        assert all(map(np.array_equal, fitted, outcome(model.fit(X, y, factor * weights))))
        assert_allclose(model.mean_sample_weight_, factor * mean, rtol=1e-14)
        again = outcome(model.partial_fit(X, y, sample_weight=factor * W[::-1]))
        assert all(map(np.array_equal, streamed, again))


@pytest.mark.parametrize("kind", MODELS)
def test_later_weights_are_in_the_units_of_the_first_fit(kind: str) -> None:
    model, y = MODELS[kind]
    mean = model.fit(X, y, W).mean_sample_weight_
    assert_allclose(mean, W.mean(), rtol=1e-14)
    plain = outcome(model.partial_fit(X, y))  # of mean weight
    assert model.mean_sample_weight_ == mean
    same_weight = outcome(model.fit(X, y, W).partial_fit(X, y, sample_weight=np.full(N, mean)))
    other = outcome(model.fit(X, y, W).partial_fit(X, y, sample_weight=np.full(N, 2.0 * mean)))
    assert all(map(np.array_equal, plain, same_weight))
    assert not all(map(np.array_equal, plain, other))
    assert model.mean_sample_weight_ == mean
    assert model.fit(X, y).mean_sample_weight_ == 1.0


def test_the_first_batch_of_a_stream_gives_the_unit() -> None:
    a, b = regressor(), regressor()
    for i in range(0, N, 20):
        at = slice(i, i + 20)
        a.partial_fit(X[at], Y[at], W[at])
        b.partial_fit(X[at], Y[at], 1e6 * W[at])
    assert same(a, b)
    assert_allclose(a.mean_sample_weight_, W[:20].mean(), rtol=1e-14)


@pytest.mark.parametrize("kind", MODELS)
def test_the_mean_weight_is_saved(kind: str, tmp_path: Path) -> None:
    model, y = MODELS[kind]
    model.fit(X, y, 300.0 * W).save(tmp_path / "model.pbp")
    loaded = probprop.load(tmp_path / "model.pbp")
    assert loaded.mean_sample_weight_ == model.mean_sample_weight_
    for m in (model, loaded):
        m.partial_fit(X, y, sample_weight=300.0 * W)
    assert same(model, loaded)


def test_a_file_with_a_mean_weight_that_cannot_be_is_refused(tmp_path: Path) -> None:
    model = regressor().fit(X, Y, W)
    model.mean_sample_weight_ = 0.0
    with pytest.raises(ValueError, match=r"mean_sample_weight_ is 0\.0"):
        model.save(tmp_path / "model.pbp")


def test_weights_beyond_floats_in_the_units_of_the_first_fit_are_refused() -> None:
    model = regressor().fit(X, Y, np.full(N, 1e-200))
    with pytest.raises(ValueError, match=r"the value 1e\+200, but the mean weight .* was 1e-200"):
        model.partial_fit(X, Y, np.full(N, 1e200))
    with pytest.raises(ValueError, match=r"the value 1e\+200, but the mean weight"):
        model.predict_distribution(X, sample_weight=1e200)


@pytest.mark.parametrize("kind", ["regressor", "two targets", "heavy", "input"])
def test_a_prediction_may_have_a_weight(kind: str) -> None:
    options = {"heavy": {"noise_tail": "heavy"}, "input": {"noise": "input"}}.get(kind)
    model, y = MODELS[kind] if options is None else (regressor(**options), Y)
    model.fit(X, y, 50.0 * W)
    p = model.predict_distribution(X)
    own = 50.0 * W
    weighted = model.predict_distribution(X, sample_weight=own)
    ratio = np.sqrt(own.mean() / own).reshape(-1, *[1] * (p.mean.ndim - 1))
    assert_array_equal(weighted.mean, p.mean)
    assert_array_equal(weighted.epistemic_std, p.epistemic_std)
    assert_allclose(weighted.aleatoric_std, ratio * p.aleatoric_std, rtol=1e-6)
    assert_allclose(
        weighted.std, np.hypot(weighted.epistemic_std, weighted.aleatoric_std), rtol=1e-12
    )
    at_mean = model.predict_distribution(X, sample_weight=own.mean())
    assert_array_equal(at_mean.std, p.std)
    for bad, message in ((0.0, "at least one non-zero"), (np.arange(N), "must be above 0")):
        with pytest.raises(ValueError, match=message):
            model.predict_distribution(X, sample_weight=bad)


def test_the_student_t_of_a_weight() -> None:
    model = regressor().fit(X, Y, W)
    p = model.predict_distribution(X, student_t=True, sample_weight=4.0 * W.mean())
    usual = model.predict_distribution(X, student_t=True)
    assert usual.dof is not None
    expected = Mixture.of_one(
        usual.mean, usual.epistemic_std, usual.aleatoric_std / 2.0, dof=usual.dof[0]
    )
    assert_allclose(p.logpdf(Y), expected.logpdf(Y), rtol=1e-9)


def test_probabilities_have_no_weight() -> None:
    with pytest.raises(TypeError, match="sample_weight"):
        classifier().fit(X, LABELS).predict_distribution(X, sample_weight=W)  # type: ignore[call-arg]


def test_large_weights_do_not_make_a_classifier_too_sure() -> None:
    train, test = np.arange(N) < 40, np.arange(N) >= 40
    noisy = np.where(RandomState(5).uniform(size=N) < 0.2, "a", LABELS)

    def log_loss_with(weight: float) -> float:
        model = classifier(n_epochs=40).fit(X[train], noisy[train], np.full(40, weight))
        log_p = model.predict_log_proba(X[test])
        return -float(log_p[np.arange(20), np.searchsorted(model.classes_, noisy[test])].mean())

    assert log_loss_with(10.0) == log_loss_with(1.0)


def test_means_of_several_measurements_are_weighted_by_their_number() -> None:
    # The noise of one measurement is learned from means of 1 to 16 of them.
    random = RandomState(1)
    n, n_measured = 1500, random.choice([1, 4, 16], 1500)
    x = random.uniform(-2.0, 2.0, (n, 1))
    y = np.sin(2.0 * x[:, 0]) + 0.8 * random.standard_normal(n) / np.sqrt(n_measured)
    weighted = PBPRegressor((20,), random_state=0).fit(x, y, n_measured)
    of_one = weighted.noise_variance_ * weighted.mean_sample_weight_
    assert np.sqrt(of_one) == pytest.approx(0.8, rel=0.05)
    alone = weighted.predict_distribution(x, sample_weight=1)
    assert_allclose(alone.aleatoric_std, np.sqrt(of_one), rtol=1e-6)
    plain = PBPRegressor((20,), random_state=0).fit(x, y)
    grid = np.linspace(-1.8, 1.8, 50)[:, None]
    errors = [
        np.sqrt(np.mean((m.predict(grid) - np.sin(2.0 * grid[:, 0])) ** 2))
        for m in (weighted, plain)
    ]
    assert errors[0] < 0.1
    assert plain.noise_variance_ < 0.5 * of_one


def test_known_errors_are_not_attributed_to_noise() -> None:
    random = RandomState(2)
    n = 1500
    x, y_std = random.uniform(-2.0, 2.0, (n, 1)), random.choice([0.0, 0.5, 2.0], n)
    clean, draws = 30.0 + 4.0 * x[:, 0], random.standard_normal(n)
    y = clean + np.hypot(0.5, y_std) * draws
    without = PBPRegressor((20,), random_state=0).fit(x, clean + 0.5 * draws)
    known = PBPRegressor((20,), random_state=0).fit(x, y, y_std=y_std)
    assert known.noise_variance_ == pytest.approx(without.noise_variance_, rel=0.2)
    unknown = PBPRegressor((20,), random_state=0).fit(x, y)
    assert np.sqrt(unknown.noise_variance_) == pytest.approx(np.sqrt(0.25 + np.mean(y_std**2)), 0.1)
    assert known.log_evidence_ > unknown.log_evidence_ + 100.0
    # A prediction has the noise of a row without a known error.
    assert known.predict_distribution(x[:3]).aleatoric_std == pytest.approx(
        np.sqrt(known.noise_variance_)
    )


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_known_errors_of_a_transformed_target(power: float) -> None:
    """`y_std` times the derivative y^(power - 1) is the error of a Box-Cox transformed target."""
    random = RandomState(3)
    n = 1500
    x, share = random.uniform(-2.0, 2.0, (n, 1)), random.choice([0.0, 0.1, 0.25], n)
    g = BoxCox(power, 1.0)
    exact = g.inverse(6.0 + x[:, 0] + 0.1 * random.standard_normal(n))
    y_std = share * exact ** (1.0 - power)
    y = exact + y_std * random.standard_normal(n)
    z = g.forward(y)
    known = PBPRegressor((20,), random_state=0).fit(x, z, y_std=y_std * y ** (power - 1.0))
    without = PBPRegressor((20,), random_state=0).fit(x, g.forward(exact))
    unknown = PBPRegressor((20,), random_state=0).fit(x, z)
    noise, expected, all_of_it = (m.noise_variance_**0.5 for m in (known, without, unknown))
    assert noise == pytest.approx(expected, rel=0.15)
    assert all_of_it > 1.4 * expected


def test_errors_are_in_target_units_for_each_target() -> None:
    two = np.column_stack([Y, -X[:, 1]])
    stds = RANDOM.uniform(0.1, 1.0, (N, 2))
    given = regressor().fit(X, two * [1.0, 1024.0], y_std=stds * [1.0, 1024.0])
    other = regressor().fit(X, two, y_std=stds)
    assert_allclose(given.predict(X), other.predict(X) * [1.0, 1024.0], rtol=1e-9)
    same_for_both = regressor().fit(X, two, y_std=stds[:, 0])
    assert same(same_for_both, regressor().fit(X, two, y_std=stds[:, [0, 0]]))
    assert same(
        regressor().fit(X, two, y_std=[0.3, 0.1]),
        regressor().fit(X, two, y_std=np.tile([0.3, 0.1], (N, 1))),
    )


def test_errors_in_the_wrong_order_of_axes_are_refused() -> None:
    two = np.column_stack([Y, -X[:, 1]])
    with pytest.raises(ValueError, match=rf"y_std must have the shape of y, \({N}, 2\)"):
        regressor().fit(X, two, y_std=np.ones((2, N)))
    assert same(regressor().fit(X, Y, y_std=W[:, None]), regressor().fit(X, Y, y_std=W))


def test_zero_errors_change_nothing() -> None:
    assert same(regressor().fit(X, Y, y_std=0.0), regressor().fit(X, Y))


def test_rows_of_small_weight_say_little() -> None:
    of_a = LABELS == "a"
    more, less = (
        classifier().fit(X, LABELS, np.where(of_a, w, 1.0)).predict_proba(X) for w in (1.0, 0.01)
    )
    assert less[of_a, 0].mean() < 0.3 < 0.6 < more[of_a, 0].mean()


# ---- What is refused


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(N - 1), rf"sample_weight must be .* the shape \({N},\). Got the shape \({N - 1},"),
        (np.ones((N, 2)), "sample_weight must be"),
        (-np.ones(N), "Negative values in data passed to `sample_weight`.* Got -1.0 instead"),
        (np.zeros(N), "at least one non-zero number"),
        (0.0, "at least one non-zero number"),
        (np.full(N, np.nan), "sample_weight contains NaN"),
        (np.full(N, np.inf), "sample_weight contains infinity"),
        (float("inf"), "sample_weight contains infinity"),
        (["heavy"] * N, "could not convert string"),
    ],
)
@pytest.mark.parametrize("kind", ["regressor", "three classes"])
def test_bad_weights_are_refused(kind: str, weights: Any, message: str) -> None:
    model, y = MODELS[kind]
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, weights)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y).partial_fit(X, y, sample_weight=weights)


@pytest.mark.parametrize(
    ("y_std", "message"),
    [
        (np.ones(N - 1), rf"y_std must have the shape of y, \({N},\).* Got \({N - 1},\) instead"),
        (-1.0, r"range \[0.0, inf\), in the units of the target. Got -1.0 instead"),
        (np.nan, "Got nan instead"),
        (np.inf, "Got inf instead"),
        (1e40, "y_std contains a value too large for dtype float64"),
    ],
)
def test_bad_errors_are_refused(y_std: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regressor().fit(X, Y, y_std=y_std)


def test_classes_have_no_error() -> None:
    with pytest.raises(ValueError, match="y_std is for regressors"):
        classifier().fit(X, LABELS, y_std=1.0)


def test_a_series_of_weights_is_taken_by_position() -> None:
    weights = pd.Series(W, index=range(N)[::-1])
    assert same(regressor().fit(X, Y, weights), regressor().fit(X, Y, W))
