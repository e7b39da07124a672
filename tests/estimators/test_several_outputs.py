"""Regression with several targets: one network, a noise for each."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.datasets import load_linnerud
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score

from posteriors import start
from probprop import PBPRegressor, load
from probprop.distributions.mixture import Mixture
from probprop.inference.engine import ENGINES
from probprop.reference.adf import gradients
from probprop_lab.datasets import store
from probprop_lab.datasets.parse import read_sheet
from probprop_lab.datasets.registry import SOURCES


@pytest.fixture(scope="module")
def linnerud():
    return load_linnerud(return_X_y=True)


@pytest.fixture(scope="module")
def model(linnerud) -> PBPRegressor:
    return PBPRegressor(8, random_state=0).fit(*linnerud)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_network_without_hidden_units_is_one_network_per_target(engine: str) -> None:
    # Its targets share no weight: one joint update equals an update on each.
    random = np.random.RandomState(1)
    X, y = random.standard_normal((30, 4)), random.standard_normal((30, 3))
    together = start([4, 3], n_noise=3)
    passed, info = ENGINES[engine].adf_pass(together, X, y, np.arange(30))
    log_Z = 0.0
    for k in range(3):
        alone = replace(
            together,
            alpha_noise=6.0,
            beta_noise=6.0,
            tail=None,
            **{name: (getattr(together, name)[0][k : k + 1],) for name in ("m_w", "v_w")},
        )
        own, own_info = ENGINES[engine].adf_pass(alone, X, y[:, k], np.arange(30))
        for name in ("m_w", "v_w"):
            assert_allclose(getattr(passed, name)[0][k], getattr(own, name)[0][0], rtol=1e-12)
        assert passed.alpha_noise[k] == pytest.approx(own.alpha_noise, rel=1e-13)
        assert passed.beta_noise[k] == pytest.approx(own.beta_noise, rel=1e-13)
        log_Z += own_info.log_Z_sum
    assert info.log_Z_sum == pytest.approx(log_Z, rel=1e-13)


def test_gradients_match_the_joint_log_Z() -> None:
    posterior = start([3, 4, 2], n_noise=2)
    x, y = np.array([0.7, -1.1, 0.4]), np.array([1.3, -0.6])
    _, by_m, by_v = gradients(posterior, x, y)
    for name, exact in (("m_w", by_m[0]), ("v_w", by_v[0]), ("m_w", by_m[1]), ("v_w", by_v[1])):
        layer = 0 if exact.shape == (4, 4) else 1
        for index in np.ndindex(exact.shape):
            ends = []
            for step in (-1e-5, 1e-5):
                layers = [a.copy() for a in getattr(posterior, name)]
                layers[layer][index] += step
                ends.append(gradients(replace(posterior, **{name: tuple(layers)}), x, y)[0])
            assert (ends[1] - ends[0]) / 2e-5 == pytest.approx(exact[index], rel=1e-6, abs=1e-9)


# ---- The estimator


def test_shapes_and_units(model: PBPRegressor, linnerud) -> None:
    X, y = linnerud
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape
    assert model.n_outputs_ == 3
    assert model.noise_variance_.shape == (3,)
    assert (std**2 > model.noise_variance_).all()
    # Other units of a target change that target's predictions and nothing else.
    scaled = PBPRegressor(8, random_state=0).fit(X, y * [1.0, 10.0, 1.0])
    assert_allclose(scaled.predict(X), mean * [1.0, 10.0, 1.0], rtol=1e-7)
    assert scaled.log_evidence_ == pytest.approx(model.log_evidence_ - len(X) * math.log(10.0))


def test_log_evidence_is_the_density_of_all_targets(linnerud) -> None:
    X, y = linnerud
    model = PBPRegressor(4, n_epochs=1, random_state=0).fit(X, y)
    pinned = PBPRegressor(4, n_epochs=1, random_state=0, engine="reference").fit(X, y)
    assert model.log_evidence_ == pytest.approx(pinned.log_evidence_, rel=1e-10)
    epoch = model.history_[0]
    assert len(epoch.noise_variance) == 3
    assert_allclose(np.square(epoch.noise_std), epoch.noise_variance)
    assert_array_equal(model.noise_variance_, epoch.noise_variance)


def test_the_predictive_is_one_of_each_target(model: PBPRegressor, linnerud) -> None:
    X, y = linnerud
    for student_t in (False, True):
        joint = model.predict_distribution(X, student_t=student_t)
        quantiles = joint.ppf([0.1, 0.7])
        assert quantiles.shape == (2, *y.shape)
        assert joint.rvs(5, random_state=0).shape == (5, *y.shape)
        for k in range(3):
            one = Mixture.of_one(
                joint.mean[:, k],
                joint.epistemic_std[:, k],
                joint.aleatoric_std[:, k],
                dof=joint.dof[0, :, k] if joint.dof is not None else None,
            )
            assert (one.dof is not None) == student_t
            assert_allclose(joint.logpdf(y)[:, k], one.logpdf(y[:, k]), rtol=1e-13)
            assert_allclose(joint.cdf(y)[:, k], one.cdf(y[:, k]), rtol=1e-13)
            assert_allclose(quantiles[..., k], one.ppf([0.1, 0.7]), rtol=1e-13)
            for got, expected in zip(joint.interval(0.9), one.interval(0.9), strict=True):
                assert_allclose(got[:, k], expected, rtol=1e-13)
    gaussian = model.predict_distribution(X)
    assert_allclose(gaussian.logpdf(y), norm(gaussian.mean, gaussian.std).logpdf(y), rtol=1e-12)


def test_save_and_load(model: PBPRegressor, linnerud, tmp_path: Path) -> None:
    X, _ = linnerud
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    for a, b in zip(
        loaded.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
    ):
        assert_array_equal(a, b)
    assert loaded.history_ == model.history_
    assert_array_equal(loaded.noise_variance_, model.noise_variance_)


def test_partial_fit_needs_the_same_number_of_targets(linnerud) -> None:
    X, y = linnerud
    model = PBPRegressor(4, random_state=0).partial_fit(X, y).partial_fit(X, y)
    assert model.n_iter_ == 2
    with pytest.raises(ValueError, match=r"y has 2 target.* fitted on 3"):
        model.partial_fit(X, y[:, :2])
    with pytest.raises(ValueError, match=r"y has 1 target.* fitted on 3"):
        model.partial_fit(X, y[:, 0])


def test_what_is_for_one_target_says_so(model: PBPRegressor, linnerud) -> None:
    for method, argument in (("predict_gradient", linnerud[0]), ("sample_functions", 1)):
        with pytest.raises(ValueError, match=f"{method} is for one target, but this model has 3"):
            getattr(model, method)(argument)


def test_a_column_is_one_target(linnerud) -> None:
    X, y = linnerud
    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = PBPRegressor(4, n_epochs=2, random_state=0).fit(X, y[:, :1])
    vector = PBPRegressor(4, n_epochs=2, random_state=0).fit(X, y[:, 0])
    assert_array_equal(column.predict(X), vector.predict(X))
    assert isinstance(column.noise_variance_, float)


def test_energy_loads_of_heating_and_cooling() -> None:
    """Two targets of one network are predicted as well as by two networks."""
    path = store.find_raw(SOURCES["energy"])
    if path is None:
        pytest.skip("PROBPROP_DATA names no folder with ENB2012_data.xlsx")
    X, y = np.split(read_sheet(path), [8], axis=1)
    train = np.random.RandomState(0).permutation(len(y)) < 600
    settings = {"n_epochs": 100, "evidence_cap": 10.0, "random_state": 0}
    both = PBPRegressor(**settings).fit(X[train], y[train]).predict(X[~train])
    for k in range(2):
        alone = PBPRegressor(**settings).fit(X[train], y[train, k]).predict(X[~train])
        unexplained = [1.0 - r2_score(y[~train, k], mean) for mean in (both[:, k], alone)]
        assert unexplained[0] < 0.05
        assert unexplained[0] < 1.5 * unexplained[1]
