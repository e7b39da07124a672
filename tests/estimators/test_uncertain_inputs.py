"""Inputs with standard deviations, and inputs that are missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from probprop import PBPClassifier, PBPRegressor, load
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import N_NODES
from probprop.inference.posterior import initial_posterior
from probprop.inference.standardize import fit_standardizer
from probprop.reference.adf import gradients
from sklearn_checks import expected_failures


def start(sizes: list[int]):
    posterior = initial_posterior(
        sizes,
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=np.random.RandomState(0),
        dtype=np.dtype(float),
    )
    return replace(posterior, v_w=tuple(0.3 * v for v in posterior.v_w))


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:200], y[:200]


@pytest.fixture(scope="module")
def incomplete(diabetes):
    X, y = diabetes
    holes = np.random.RandomState(0).uniform(size=X.shape) < 0.2
    return np.where(holes, np.nan, X), y


# ---- The engine, against Monte Carlo


@pytest.mark.parametrize("engine", ENGINES)
def test_a_linear_network_has_the_moments_of_drawn_inputs(engine: str) -> None:
    posterior = start([3, 1])
    x, x_var = np.array([[0.7, -1.1, 0.4]]), np.array([[0.5, 2.0, 0.1]])
    mean, variance = ENGINES[engine].predict_moments(posterior, x, x_var)
    random = np.random.RandomState(1)
    n = 2_000_000
    drawn = np.column_stack(
        [x + np.sqrt(x_var) * random.standard_normal((n, 3)), np.ones(n)]
    ) / np.sqrt(4.0)
    weights = posterior.m_w[0] + np.sqrt(posterior.v_w[0]) * random.standard_normal((n, 4))
    f = (drawn * weights).sum(axis=1)
    assert mean[0] == pytest.approx(f.mean(), abs=5 * f.std() / np.sqrt(n))
    assert variance[0] == pytest.approx(f.var(), rel=5 * np.sqrt(2.0 / n))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_moments_of_hidden_units_are_near_sampled_moments(engine: str) -> None:
    # Activations are taken for independent Gaussians, [PBP15] section 3.1: with many inputs and
    # weights that vary they nearly are, so that drawing the inputs gives nearly the same.
    posterior = start([30, 40, 1])
    random = np.random.RandomState(2)
    x, x_var = random.standard_normal((1, 30)), random.uniform(0.2, 1.0, (1, 30))
    mean, variance = ENGINES[engine].predict_moments(posterior, x, x_var)
    drawn = x + np.sqrt(x_var) * random.standard_normal((20_000, 30))
    means, variances = ENGINES["native"].predict_moments(posterior, drawn)
    assert mean[0] == pytest.approx(means.mean(), abs=0.05 * np.sqrt(variance[0]))
    assert variance[0] == pytest.approx(variances.mean() + means.var(), rel=0.1)
    assert variance[0] > 1.2 * ENGINES[engine].predict_moments(posterior, x)[1][0]


@pytest.mark.parametrize("hidden", [[], [4], [4, 3]])
def test_gradients_match_log_Z(hidden: list[int]) -> None:
    posterior = start([3, *hidden, 1])
    x, y, x_var = np.array([0.7, -1.1, 0.4]), 1.3, np.array([0.5, 0.0, 2.0])
    _, by_m, by_v = gradients(posterior, x, y, x_var=x_var)
    for name, exact in (("m_w", by_m), ("v_w", by_v)):
        for layer, index in [(i, j) for i in range(len(exact)) for j in np.ndindex(exact[i].shape)]:
            ends = []
            for step in (-1e-5, 1e-5):
                layers = [a.copy() for a in getattr(posterior, name)]
                layers[layer][index] += step
                moved = replace(posterior, **{name: tuple(layers)})
                ends.append(gradients(moved, x, y, x_var=x_var)[0])
            quotient = (ends[1] - ends[0]) / 2e-5
            assert quotient == pytest.approx(exact[layer][index], rel=1e-6, abs=1e-9)


# ---- Standard deviations


@pytest.mark.parametrize("hidden", [(), (30,), (20, 20)])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_trained_network_has_the_moments_of_drawn_inputs(
    diabetes, hidden: tuple[int, ...], share: float
) -> None:
    X, y = diabetes
    std = share * X.std(axis=0)
    model = PBPRegressor(hidden, random_state=0).fit(X, y)
    at = model.predict_distribution(X[:8], X_std=std)
    random = np.random.RandomState(1)
    drawn = X[:8] + std * random.standard_normal((10_000, *X[:8].shape))
    p = model.predict_distribution(drawn.reshape(-1, X.shape[1]))
    means, variances = (a.reshape(10_000, 8) for a in (p.mean, p.epistemic_std**2))
    exact = np.sqrt(variances.mean(axis=0) + means.var(axis=0))
    assert_allclose(at.mean, means.mean(axis=0), atol=0.15 * exact.max())
    assert_allclose(at.epistemic_std, exact, rtol=0.15)
    assert_allclose(np.median(at.epistemic_std / exact), 1.0, atol=0.06)
    assert (at.epistemic_std > 1.02 * model.predict_distribution(X[:8]).epistemic_std).all()


def test_blocks_of_rows_do_not_change_predictions(diabetes) -> None:
    X, y = diabetes
    model = PBPRegressor(8, n_epochs=3, random_state=0).fit(X, np.column_stack([y, y**2]))
    n = 1 + (1 << 16) // (N_NODES * len(X))  # more rows than a block has
    few, many = (
        model.predict(rows, return_std=True, X_std=0.02) for rows in (X, np.tile(X, (n, 1)))
    )
    assert n > 1
    assert_allclose(many, np.tile(few, (n, 1)), rtol=1e-13)


def test_several_targets_and_both_kinds_of_doubt(diabetes) -> None:
    X, y = diabetes
    X = X.copy()
    X[0, 0] = np.nan
    model = PBPRegressor(10, n_epochs=5, random_state=0, missing="marginalize")
    model.fit(X, np.column_stack([y, -y]), X_std=0.01)
    one, both = (model.predict_distribution(X, X_std=s).epistemic_std for s in (None, 0.05))
    assert one.shape == both.shape == (200, 2)
    assert (both > one).all()


def test_predictions_widen(diabetes) -> None:
    X, y = diabetes
    model = PBPRegressor(20, random_state=0).fit(X, y)
    widths = [model.predict(X, return_std=True, X_std=s * X.std(axis=0))[1] for s in (0, 0.5, 2)]
    assert_allclose(widths[0], model.predict(X, return_std=True)[1], rtol=1e-9)
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()


def test_noisy_inputs_are_distinguished_from_noise(diabetes) -> None:
    # y = x + small noise, but x is seen with a standard deviation of 1: a model with this X_std
    # attributes the scatter to the inputs, so that its predictions at an exact x are narrow.
    random = np.random.RandomState(0)
    x, noise = random.uniform(-6, 6, 2000), 0.1 * random.standard_normal(2000)
    seen = x + random.standard_normal(2000)
    X, y = seen[:, np.newaxis], x + noise
    told = PBPRegressor((), random_state=0).fit(X, y, X_std=1.0)
    untold = PBPRegressor((), random_state=0).fit(X, y)
    assert told.noise_variance_ < 0.4 * untold.noise_variance_
    assert untold.noise_variance_ == pytest.approx(0.9, rel=0.1)


@pytest.mark.parametrize(
    ("std", "message"),
    [
        (-1.0, r"range \[0.0, inf\).* Got -1.0 instead"),
        (np.nan, r"Got nan instead"),
        (np.inf, r"Got inf instead"),
        (np.ones(3), r"shape of X, \(200, 10\).* Got \(3,\) instead"),
        (1e40, "X_std contains a value too large"),
    ],
)
def test_what_is_no_standard_deviation(diabetes, std, message: str) -> None:
    X, y = diabetes
    with pytest.raises(ValueError, match=message):
        PBPRegressor(2, n_epochs=1).fit(X, y, X_std=std)
    with pytest.raises(ValueError, match=message):
        PBPRegressor(2, n_epochs=1).fit(X, y).predict(X, X_std=std)
    with pytest.raises(ValueError, match=message):
        PBPClassifier(2, n_epochs=1).fit(X, y > 100, X_std=std)


def test_every_method_takes_them(diabetes) -> None:
    X, y = diabetes
    std = np.full(X.shape, 0.05)
    labels = y > np.median(y)
    classifier = PBPClassifier(5, n_epochs=3, random_state=0).fit(X, labels, X_std=std)
    at = classifier.predict_proba(X, X_std=10.0 * std)
    assert np.abs(at - 0.5).mean() < 0.6 * np.abs(classifier.predict_proba(X) - 0.5).mean()
    assert_allclose(np.log(at), classifier.predict_log_proba(X, X_std=10.0 * std), rtol=1e-13)
    assert classifier.predict(X, X_std=std).shape == (200,)
    classifier.partial_fit(X, labels, X_std=std)
    stream = PBPRegressor(5, random_state=0).partial_fit(X, y, X_std=std)
    one = PBPRegressor(5, n_epochs=1, random_state=0).partial_fit(X, y)
    assert stream.noise_variance_ != one.noise_variance_
    assert stream.predict(X, return_std=True, X_std=std)[1].shape == (200,)


def test_metadata_routing_through_a_pipeline(diabetes) -> None:
    X, y = diabetes
    std = np.full(X.shape, 0.3)
    scaled = MinMaxScaler().fit_transform(X)
    with sklearn.config_context(enable_metadata_routing=True):
        model = PBPRegressor(4, n_epochs=3, random_state=0)
        model.set_fit_request(X_std=True).set_predict_request(X_std=True)
        pipeline = make_pipeline(MinMaxScaler(), model).fit(X, y, X_std=std)
        routed = pipeline.predict(X, X_std=std)
    direct = PBPRegressor(4, n_epochs=3, random_state=0).fit(scaled, y, X_std=std)
    assert_array_equal(routed, direct.predict(scaled, X_std=std))


# ---- Missing entries


@pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")  # some leave the seed open
@parametrize_with_checks(
    [
        PBPRegressor(5, n_epochs=3, missing="marginalize"),
        PBPClassifier(5, n_epochs=3, missing="marginalize"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


def test_a_missing_entry_is_a_gaussian_of_its_feature(incomplete) -> None:
    X, y = incomplete
    model = PBPRegressor(8, n_epochs=5, random_state=0, missing="marginalize").fit(X, y)
    mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    assert_allclose(model.standardizer_.x_mean, mean)
    assert_allclose(model.standardizer_.x_scale, scale)
    filled = np.where(np.isnan(X), mean, X)
    complete = PBPRegressor(8, n_epochs=5, random_state=0).fit(filled, y)
    got = model.predict_distribution(X)
    moments = ENGINES["reference"].predict_moments(
        model.posterior_, (filled - mean) / scale, np.isnan(X).astype(float)
    )
    assert_allclose(got.mean, moments[0] * y.std() + y.mean(), rtol=1e-9)
    assert_allclose(got.epistemic_std**2, moments[1] * y.var(), rtol=1e-9)
    assert (got.std >= model.predict(filled, return_std=True)[1]).all()
    assert (
        model.noise_variance_ < complete.noise_variance_
    )  # which treats imputed entries as values


def test_nothing_missing_changes_nothing(diabetes) -> None:
    X, y = diabetes
    models = [
        PBPRegressor(8, n_epochs=5, random_state=0, missing=missing).fit(X, y)
        for missing in ("error", "marginalize")
    ]
    assert_array_equal(*(m.predict(X) for m in models))


def test_a_constant_feature_is_known_even_where_it_is_missing(diabetes) -> None:
    X, y = diabetes
    X = np.column_stack([X, np.full(len(X), 7.0)])
    X[::3, -1] = np.nan
    model = PBPRegressor(8, n_epochs=5, random_state=0, missing="marginalize").fit(X, y)
    assert model.standardizer_.missing_variance.tolist() == [1.0] * 10 + [0.0]
    known = np.where(np.isnan(X), 7.0, X)
    for a, b in zip(*(model.predict(Z, return_std=True) for Z in (X, known)), strict=True):
        assert_allclose(a, b, rtol=1e-12)


def test_moments_of_columns_with_missing_values(incomplete) -> None:
    X, y = incomplete
    X = np.column_stack([X, np.full(len(X), np.nan)])
    s = fit_standardizer(X, y)
    assert_allclose(s.x_mean[:-1], np.nanmean(X[:, :-1], axis=0))
    assert s.x_scale[-1] == np.inf
    assert s.missing_variance[-1] == 0.0


def test_errors_say_what_to_do(incomplete, diabetes) -> None:
    X, y = incomplete
    for estimator in (PBPRegressor(2), PBPClassifier(2)):
        with pytest.raises(ValueError, match=r'X contains NaN.*give the estimator missing="margin'):
            estimator.fit(X, y > 100)
    model = PBPRegressor(2, n_epochs=1, missing="marginalize").fit(X, y)
    with pytest.raises(ValueError, match=r"predict_gradient has no gradient.*without missing"):
        model.predict_gradient(X)
    assert model.predict_gradient(diabetes[0]).mean.shape == (200,)
    empty = X.copy()
    empty[:, 3] = np.nan
    with pytest.raises(ValueError, match=r"no value at all in the column\(s\) \[3\].*Leave them"):
        model.fit(empty, y)
    with pytest.raises(ValueError, match="missing must be one of"):
        PBPRegressor(missing="mean").fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.where(np.isnan(X), np.inf, X), y)


def test_saved_and_loaded(incomplete, tmp_path: Path) -> None:
    X, y = incomplete
    X = np.column_stack([X, np.ones(len(X))])
    model = PBPRegressor(4, n_epochs=3, random_state=0, missing="marginalize").fit(X, y)
    model.save(tmp_path / "m")
    X[:, -1] = np.nan
    assert_array_equal(load(tmp_path / "m").predict(X), model.predict(X))
