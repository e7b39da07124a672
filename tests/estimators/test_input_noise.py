"""PBPRegressor(noise="input"): heteroscedastic noise, with the same mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import parametrize_with_checks

import probprop
from probprop import PBPRegressor
from probprop.active.strategies import by_variance
from probprop.inference import noise, prediction
from probprop.inference.engine import ENGINES
from sklearn_checks import expected_failures


def trumpet(n: int = 300, seed: int = 0, n_targets: int = 1):
    """Noise whose standard deviation grows from 0.1 to 2 along the first of two features."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    std = 1.05 + 0.95 * X[:, 0]
    y = 3.0 * X[:, 1, None] + std[:, None] * rng.standard_normal((n, n_targets))
    return X, (y[:, 0] if n_targets == 1 else y), std


@pytest.fixture(scope="module")
def both():
    X, y, _ = trumpet()
    return [PBPRegressor(noise=n, random_state=3).fit(X, y) for n in ("constant", "input")]


@pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")  # some leave the seed open
@parametrize_with_checks(
    [PBPRegressor(noise="input", n_epochs=10)], expected_failed_checks=expected_failures
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- The mean does not change


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"hidden_layer_sizes": (8, 8)},
        {"dtype": "float32", "evidence_cap": 3.0},
        {"engine": "reference", "n_epochs": 8, "hidden_layer_sizes": 4},
        {"n_targets": 2, "hidden_layer_sizes": ()},
    ],
)
def test_the_mean_is_bit_for_bit_that_of_constant_noise(parameters):
    parameters = {"n_epochs": 12, "random_state": 1} | parameters
    X, y, _ = trumpet(60, n_targets=parameters.pop("n_targets", 1))
    constant = PBPRegressor(noise="constant", **parameters).fit(X, y)
    varying = PBPRegressor(noise="input", noise_layer_sizes=5, **parameters).fit(X, y)
    for one, other in zip(constant.posterior_.m_w, varying.posterior_.m_w, strict=True):
        assert_array_equal(one, other)
    before, after = constant.predict_distribution(X), varying.predict_distribution(X)
    assert_array_equal(before.mean, after.mean)
    assert_array_equal(before.epistemic_std, after.epistemic_std)
    assert constant.history_ == varying.history_
    assert np.ptp(after.aleatoric_std, axis=0).min() > 0.0


def test_a_stream_has_the_same_mean():
    X, y, _ = trumpet(200)
    models = [PBPRegressor(noise=n, random_state=1) for n in ("constant", "input")]
    for model in models:
        for rows in np.array_split(np.arange(200), 4):
            model.partial_fit(X[rows], y[rows])
    constant, varying = models
    assert_array_equal(constant.predict(X), varying.predict(X))
    assert constant.n_samples_seen_ == varying.n_samples_seen_ == 200


# ---- The noise follows the data


def test_predicted_noise_grows_where_the_true_noise_does(both):
    X, y, std = trumpet(1000, seed=9)
    constant, varying = (model.predict_distribution(X) for model in both)
    error = np.abs(np.log(varying.aleatoric_std / std))
    assert np.median(error) < 0.5 * np.median(np.abs(np.log(constant.aleatoric_std / std)))
    assert np.corrcoef(varying.aleatoric_std, std)[0, 1] > 0.9
    assert varying.logpdf(y).mean() > constant.logpdf(y).mean() + 0.1
    quiet = X[:, 0] < -0.5
    for predicted, lowest, highest in [(varying, 0.88, 0.995), (constant, 0.995, 1.0)]:
        lower, upper = predicted.interval(0.95)
        assert lowest <= np.mean((lower <= y) & (y <= upper), where=quiet) <= highest


def test_a_stream_learns_it_too():
    X, y, std = trumpet(4000)
    model = PBPRegressor(noise="input", random_state=0)
    for rows in np.array_split(np.arange(4000), 40):
        model.partial_fit(X[rows], y[rows])
    assert np.corrcoef(model.predict_distribution(X).aleatoric_std, std)[0, 1] > 0.9


def test_each_target_has_its_own():
    X, y, std = trumpet(600, n_targets=2)
    y[:, 1] = (
        3.0 * X[:, 1] + (y[:, 1] - 3.0 * X[:, 1]) * (2.1 - std) / std
    )  # quiet where the other is loud
    predicted = PBPRegressor(noise="input", random_state=0).fit(X, y).predict_distribution(X)
    assert predicted.aleatoric_std.shape == (600, 2)
    first, second = predicted.aleatoric_std.T
    assert np.corrcoef(first, std)[0, 1] > 0.8
    assert np.corrcoef(second, std)[0, 1] < -0.8


def test_constant_noise_stays_nearly_constant():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1.0, 1.0, (2000, 3))
    y = np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(2000)
    models = [PBPRegressor(noise=n, random_state=0).fit(X[:500], y[:500]) for n in KINDS]
    constant, varying = (m.predict_distribution(X[500:]).logpdf(y[500:]).mean() for m in models)
    assert varying > constant - 0.03


KINDS = ("constant", "input")


# ---- Engines, precision, threads


@pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")  # of the outlier
@pytest.mark.parametrize("hidden", [(), (6,), (5, 4)])
@pytest.mark.parametrize("evidence_cap", [None, 2.0])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_the_engines_agree(hidden, evidence_cap, n_targets):
    X, y, _ = trumpet(40, n_targets=n_targets)
    y[3] += 30.0
    models = [
        PBPRegressor(
            hidden,
            noise="input",
            noise_layer_sizes=(4,),
            n_epochs=9,
            evidence_cap=evidence_cap,
            engine=engine,
            random_state=2,
        ).fit(X, y)
        for engine in ENGINES
    ]
    networks = [model.posterior_.noise_network for model in models]
    for field in ("m_w", "v_w"):
        for one, other in zip(*(getattr(q, field) for q in networks), strict=True):
            assert_allclose(one, other, rtol=1e-10, atol=1e-13)
    one, other = (model.predict_distribution(X) for model in models)
    assert_allclose(one.aleatoric_std, other.aleatoric_std, rtol=1e-10)


def test_single_precision_says_the_same():
    X, y, _ = trumpet(300)
    models = [PBPRegressor(noise="input", dtype=t, random_state=0) for t in ("float64", "float32")]
    one, other = (model.fit(X, y).predict_distribution(X).aleatoric_std for model in models)
    assert_allclose(one, other, rtol=0.02)


# ---- What the network sees


def test_it_is_trained_on_the_residuals_before_each_update():
    X, y, _ = trumpet(30)
    model = PBPRegressor(6, n_epochs=2, random_state=0).fit(X, y)
    q, scale = model.posterior_, model.standardizer_
    Xs, ys = scale.checked_X(X, np.dtype(float)), scale.transform_y(y)
    seen = np.empty((30, 3))
    ENGINES["reference"].adf_pass(q, Xs, ys, np.arange(30)[::-1], seen=seen)
    for i in reversed(range(30)):
        mean, variance = ENGINES["native"].predict_moments(q, Xs[i : i + 1])
        assert_allclose(seen[i], [ys[i] - mean[0], variance[0], q.noise_variance[0]], rtol=1e-10)
        q, _ = ENGINES["native"].adf_pass(q, Xs, ys, np.array([i]))


def test_the_first_epochs_leave_it_alone():
    X, y, _ = trumpet(50)
    model = PBPRegressor(noise="input", n_epochs=16, random_state=0)
    model.fit(X, y, callback=lambda epoch: epoch.n_iter == 2)
    head = model.posterior_.noise_network.m_w[-1]
    assert_array_equal(head, np.zeros_like(head))
    model.fit(X, y, callback=lambda epoch: epoch.n_iter == 3)
    assert np.abs(model.posterior_.noise_network.m_w[-1]).min() > 0.0


def test_steps_do_not_matter():
    """Epochs one at a time, as callbacks need them, are the epochs of one call."""
    X, y, _ = trumpet(50)
    whole = PBPRegressor(noise="input", n_epochs=20, random_state=0).fit(X, y)
    steps = PBPRegressor(noise="input", n_epochs=20, random_state=0)
    steps.fit(X, y, callback=lambda epoch: None)
    assert_array_equal(
        whole.predict_distribution(X).aleatoric_std, steps.predict_distribution(X).aleatoric_std
    )


def test_evidence_is_bounded_by_a_few_epochs():
    power = noise.noise_schedule(range(1, 41), 40, None, 1000, 5).power
    assert_allclose(power.sum(), noise.PASSES)
    assert_array_equal(power[:5], 0.0)
    few = noise.noise_schedule(range(1, 41), 40, None, noise.FEW_ROWS, 3).power
    assert_allclose(few.sum(), noise.PASSES / 9.0)
    assert_array_equal(noise.noise_schedule(range(1, 3), 2, None, 100, 1).power, [1.0, 1.0])
    assert_array_equal(noise.noise_schedule(range(7, 8), None, None, 100, 1).power, [1.0])


# ---- Invariants


@settings(max_examples=10, deadline=None)
@given(st.floats(-6.0, 6.0), st.floats(-100.0, 100.0))
def test_scaling_the_target_scales_the_noise(log10_scale, shift):
    X, y, _ = trumpet(40)
    scale = 10.0**log10_scale
    model = PBPRegressor(5, noise="input", n_epochs=8, random_state=0)
    before = model.fit(X, y).predict_distribution(X)
    after = model.fit(X, scale * (y + shift)).predict_distribution(X)
    assert_allclose(after.aleatoric_std, scale * before.aleatoric_std, rtol=1e-7)
    assert_allclose(after.epistemic_std, scale * before.epistemic_std, rtol=1e-7)


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(20)))
def test_the_order_of_hidden_units_does_not_matter(both, order):
    model, order = both[1], list(order)
    q = model.posterior_.noise_network
    shuffled = replace(
        q,
        m_w=(q.m_w[0][order], q.m_w[1][:, [*order, 20]]),
        v_w=(q.v_w[0][order], q.v_w[1][:, [*order, 20]]),
    )
    X = trumpet(20)[0]
    scale = model.standardizer_
    found = [ENGINES["native"].predict_moments(each, X, None, scale) for each in (q, shuffled)]
    assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-14)


# ---- Gradients


def test_the_gradient_of_the_noise(both):
    X = trumpet(5, seed=4)[0]
    at = both[1].predict_gradient(X)
    predicted = both[1].predict_distribution(X)
    assert_allclose(at.aleatoric_std, predicted.aleatoric_std, rtol=1e-12)
    assert_allclose(at.std, predicted.std, rtol=1e-12)
    for j in range(2):
        step = np.zeros(2)
        step[j] = 1e-5
        ahead, behind = (both[1].predict_distribution(X + s * step) for s in (1, -1))
        for name in ("std", "aleatoric_std", "epistemic_std"):
            slope = (getattr(ahead, name) - getattr(behind, name)) / 2e-5
            assert_allclose(getattr(at, f"d{name}_dX")[:, j], slope, rtol=1e-5, atol=1e-8)
    assert np.all(at.daleatoric_std_dX[:, 0] > 0.0)
    assert_array_equal(both[0].predict_gradient(X).daleatoric_std_dX, np.zeros((5, 2)))


# ---- Files


def test_a_saved_model_predicts_and_continues_the_same(both, tmp_path):
    X, y, _ = trumpet(50, seed=5)
    both[1].save(tmp_path / "m.pbp")
    loaded = probprop.load(tmp_path / "m.pbp")
    assert loaded.noise == "input"
    assert loaded.noise_layer_sizes == (20,)
    one, other = (model.predict_distribution(X) for model in (both[1], loaded))
    assert_array_equal(one.aleatoric_std, other.aleatoric_std)
    again = PBPRegressor(noise="input", random_state=3).fit(*trumpet()[:2])
    assert_array_equal(
        again.partial_fit(X, y).predict_distribution(X).aleatoric_std,
        loaded.partial_fit(X, y).predict_distribution(X).aleatoric_std,
    )


# ---- The unusual


def test_far_from_the_data_it_is_finite(both):
    far = np.array([[1e3, 0.0], [1e8, -1e8], [-1e10, 1e10]])
    predicted = both[1].predict_distribution(far)
    assert np.isfinite(predicted.std).all()
    assert np.isfinite(predicted.logpdf(predicted.mean)).all()


def test_uncertain_and_missing_inputs():
    X, y, _ = trumpet(200)
    model = PBPRegressor(noise="input", missing="marginalize", random_state=0).fit(X, y)
    X[:3, 0] = np.nan
    assert np.isfinite(model.predict_distribution(X).aleatoric_std).all()
    at = model.predict_distribution(X[3:6], X_std=0.2)
    certain = model.predict_distribution(X[3:6], X_std=0.0)
    assert not np.allclose(at.aleatoric_std, certain.aleatoric_std)
    assert_allclose(
        certain.aleatoric_std, model.predict_distribution(X[3:6]).aleatoric_std, rtol=1e-10
    )


def test_an_outlier_is_survived():
    X, y, _ = trumpet(300)
    y[7] = 1000.0 * y.std()
    model = PBPRegressor(noise="input", random_state=0).fit(X, y)
    # One row in 12,000 updates is too few for a warning; the history has it.
    assert sum(epoch.n_guarded for epoch in model.history_) > 0
    assert np.isfinite(model.predict_distribution(X).aleatoric_std).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"noise": "heteroscedastic"}, r"noise must be one of \['constant', 'input'\]"),
        ({"noise_layer_sizes": 0}, "each entry of noise_layer_sizes == 0, must be >= 1"),
        ({"noise_layer_sizes": "a"}, "noise_layer_sizes must be an int or a sequence of int"),
    ],
)
def test_parameters_are_checked(parameters, message):
    X, y, _ = trumpet(10)
    with pytest.raises((ValueError, TypeError), match=message):
        PBPRegressor(**parameters).fit(X, y)


def test_active_learning_ignores_aleatoric_uncertainty(both):
    X = trumpet(200, seed=8)[0]
    predicted = both[1].predict_distribution(X)
    (asked,) = by_variance(both[1], X[:1], X, 1, np.random.RandomState(0))
    assert asked == predicted.epistemic_std.argmax() != predicted.std.argmax()


def test_the_noise_of_uncertain_inputs_matches_the_moments(both):
    """`prediction.noise_at` takes h(x) over an uncertain x as a Gaussian."""
    model, X = both[1], trumpet(4)[0]
    plan = model_plan(model)
    inputs = prediction.Inputs(X, np.full_like(X, 0.1))
    found = prediction.noise_at(plan, model.posterior_, model.standardizer_, inputs)
    rng = np.random.RandomState(0)
    draws = (X + 0.1 * rng.standard_normal((20000, 4, 2))).reshape(-1, 2)
    m, v = ENGINES["native"].predict_moments(
        model.posterior_.noise_network, draws, None, model.standardizer_
    )
    m, v = m.reshape(-1, 4), v.reshape(-1, 4)
    assert_allclose(found.log_scale.mean, m.mean(0), atol=0.01)
    assert_allclose(found.log_scale.variance, v.mean(0) + m.var(0), rtol=0.1)


def model_plan(model):
    from probprop.estimators.base import plan_of

    return plan_of(model, model.likelihood_)


def test_weights_and_known_errors_reach_the_noise():
    """A weight divides the noise of its row, a known error is none of it: in both engines."""
    X, y, std = trumpet(400)
    told = PBPRegressor(noise="input", random_state=0).fit(X, y, sample_weight=1.0 / std**2)
    at = told.predict_distribution(X).aleatoric_std  # at weight 1
    blind = (
        PBPRegressor(noise="input", random_state=0).fit(X, y).predict_distribution(X).aleatoric_std
    )
    assert np.ptp(np.log(at)) < 0.1 * np.ptp(np.log(blind))
    models = [
        PBPRegressor(4, noise="input", n_epochs=4, engine=engine, random_state=0).fit(
            X[:40], y[:40], sample_weight=1.0 / std[:40], y_std=0.2
        )
        for engine in ENGINES
    ]
    one, other = (model.predict_distribution(X).aleatoric_std for model in models)
    assert_allclose(one, other, rtol=1e-10)
