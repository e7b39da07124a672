"""Heteroscedastic noise with heavy tails, and its density."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_input_noise import trumpet

import probprop
from probprop import PBPRegressor
from probprop.estimators.base import plan_of
from probprop.inference import native, prediction
from probprop.inference.engine import ENGINES


@pytest.fixture(scope="module")
def model():
    X, y, _ = trumpet()
    return PBPRegressor(noise="input", random_state=3).fit(X, y)


@pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")
def test_heteroscedastic_noise_with_heavy_tails():
    """The network explains the levels, and the tail the outliers."""
    X, y, std = trumpet(600)
    rng = np.random.RandomState(1)
    wild = rng.permutation(600)[:12]
    y[wild] += 40.0 * rng.choice([-1.0, 1.0], 12)
    model = PBPRegressor(noise="input", noise_tail="heavy", random_state=0).fit(X, y)
    predicted = model.predict_distribution(X)
    level = predicted.aleatoric_std * np.exp(-0.25 * predicted.tail[0])  # the median
    kept = np.delete(np.arange(600), wild)
    assert np.corrcoef(np.log(level[kept]), np.log(std[kept]))[0, 1] > 0.8
    assert model.posterior_.noise_network.tail[0] > 0.05
    assert np.all(predicted.tail > model.posterior_.noise_network.tail[0])
    constant = PBPRegressor(noise_tail="heavy", random_state=0).fit(X, y)
    assert_array_equal(constant.predict(X), model.predict(X))
    assert_array_equal(constant.posterior_.tail, model.posterior_.tail)


@pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")
@pytest.mark.parametrize("n_targets", [1, 2])
def test_heavy_tails_in_both_engines_and_in_a_file(n_targets, tmp_path):
    X, y, _ = trumpet(40, n_targets=n_targets)
    y[3] += 30.0
    models = [
        PBPRegressor(
            4, noise="input", noise_tail="heavy", n_epochs=8, engine=engine, random_state=2
        ).fit(X, y)
        for engine in ENGINES
    ]
    one, other = (model.posterior_.noise_network for model in models)
    assert one.tail.shape == (n_targets,)
    assert_allclose(one.tail, other.tail, rtol=1e-9)
    assert_allclose(one.m_w[0], other.m_w[0], rtol=1e-9, atol=1e-12)
    models[0].save(tmp_path / "m.pbp")
    loaded = probprop.load(tmp_path / "m.pbp")
    assert_array_equal(loaded.posterior_.noise_network.tail, one.tail)
    assert_array_equal(
        loaded.predict_distribution(X).logpdf(y), models[0].predict_distribution(X).logpdf(y)
    )


def test_student_t_is_for_constant_noise(model):
    with pytest.raises(ValueError, match=r'noise="input".*give False'):
        model.predict_distribution(trumpet(3)[0], student_t=True)


def test_the_density_is_the_mixture_over_the_noise(model):
    """log p of a target is log Z of the likelihood `scale`, which has its own oracles."""
    X, y, _ = trumpet(30, seed=6)
    predicted = model.predict_distribution(X)
    scale = model.standardizer_.y_scale[0]
    found = prediction.noise_at(
        plan_of(model, model.likelihood_),
        model.posterior_,
        model.standardizer_,
        prediction.Inputs(X, None),
    )
    log_Z = native.scale_mixture(
        (y - predicted.mean) / scale,
        (predicted.epistemic_std / scale) ** 2,
        np.log(found.level) + found.log_scale.mean,
        found.log_scale.variance,
    )[0]
    assert_allclose(predicted.logpdf(y), log_Z - np.log(scale), rtol=1e-9)
