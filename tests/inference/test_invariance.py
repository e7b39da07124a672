"""What must not matter: names of units, units of measurement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from probprop import PBPRegressor
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Posterior, initial_posterior


def permuted(posterior: Posterior, layer: int, order: np.ndarray) -> Posterior:
    """Rename the units of one hidden layer."""
    m_w, v_w = list(posterior.m_w), list(posterior.v_w)
    columns = np.append(order, len(order))  # the bias stays last
    for w in (m_w, v_w):
        w[layer] = w[layer][order]
        w[layer + 1] = w[layer + 1][:, columns]
    return replace(posterior, m_w=tuple(m_w), v_w=tuple(v_w))


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), layer=st.sampled_from([0, 1]))
def test_permuted_units_give_the_permuted_posterior(engine: str, seed: int, layer: int) -> None:
    # The ADF pass alone: the refinement sweep depends on the order of the weights.
    random = np.random.RandomState(seed)
    start = initial_posterior(
        (4, 9, 7, 1),
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=random,
        dtype=np.dtype(np.float64),
    )
    X, y = random.standard_normal((15, 4)), random.standard_normal(15)
    order = random.permutation(start.layer_sizes[layer + 1])
    points = np.arange(15)
    adf_pass = ENGINES[engine].adf_pass
    expected = permuted(adf_pass(start, X, y, points)[0], layer, order)
    got = adf_pass(permuted(start, layer, order), X, y, points)[0]
    for a, b in zip((*got.m_w, *got.v_w), (*expected.m_w, *expected.v_w), strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    assert got.alpha_noise == pytest.approx(expected.alpha_noise, rel=1e-11)


@pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")  # small data: some undone
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    x_scale=st.floats(1e-3, 1e3),
    x_shift=st.floats(-10.0, 10.0),
    y_scale=st.floats(1e-3, 1e3),
    y_shift=st.floats(-10.0, 10.0),
)
def test_shift_and_scale_of_the_data_shift_and_scale_the_predictions(
    seed: int, x_scale: float, x_shift: float, y_scale: float, y_shift: float
) -> None:
    random = np.random.RandomState(seed)
    X = random.standard_normal((30, 3))
    y = X[:, 0] * X[:, 1] + 0.1 * random.standard_normal(30)
    assume(y.std() > 0.1)
    new = random.standard_normal((10, 3))
    model = PBPRegressor((8,), n_epochs=3, random_state=0)
    plain = model.fit(X, y).predict_distribution(new)
    moved = model.fit(x_scale * (X + x_shift), y_scale * (y + y_shift)).predict_distribution(
        x_scale * (new + x_shift)
    )
    assert_allclose(moved.mean, y_scale * (plain.mean + y_shift), rtol=1e-9, atol=1e-9 * y_scale)
    assert_allclose(moved.epistemic_std, y_scale * plain.epistemic_std, rtol=1e-9)
    assert_allclose(moved.aleatoric_std, y_scale * plain.aleatoric_std, rtol=1e-9)


def test_a_posterior_shows_its_layers_and_no_arrays() -> None:
    X = np.random.RandomState(0).standard_normal((20, 3))
    model = PBPRegressor((4, 2), n_epochs=1, random_state=0).fit(X, X[:, :2])
    assert repr(model.posterior_).startswith("Posterior(3-4-2-2, float64, noise variance ")
    assert "array" not in repr(model.posterior_)
