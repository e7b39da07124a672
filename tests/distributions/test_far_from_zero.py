"""Quantiles and probabilities of targets that lie far from 0 compared with their spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import ShuffleSplit

from probprop import (
    BoxCox,
    Candidate,
    Mixture,
    PBPRegressor,
    PBPRegressorCV,
    TransformedMixture,
)

Q = np.array([1e-9, 0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 1.0 - 1e-6])
KINDS = ["Gaussian", "Student-t", "Student-t mixture", "mixture", "heavy", "heavy mixture"]


def distribution(kind: str, means: np.ndarray[Any, Any], scale: float, tail: float) -> Mixture:
    """Return a distribution of two rows with components of these means, (3, 2)."""
    epistemic_stds = scale * np.array([[0.1, 1.0], [0.5, 0.5], [0.0, 2.0]])
    aleatoric_stds = scale * np.array([[1.0, 0.3], [2.0, 0.3], [0.5, 0.1]])
    members = slice(None) if kind.endswith("mixture") else slice(1)
    return Mixture(
        means[members],
        epistemic_stds[members],
        aleatoric_stds[members],
        tail=tail if kind.startswith("heavy") else None,
        dof=6.0 if kind.startswith("Student-t") else None,
    )


def check_quantiles(p: Any, n_spacings: int = 1) -> None:
    """Check that quantiles are finite and ordered, and invert the cdf as far as floats allow."""
    y = p.ppf(Q)
    assert np.isfinite(y).all()
    assert (np.diff(y, axis=0) >= 0.0).all()
    step, q = n_spacings * np.spacing(np.abs(y)), Q[:, np.newaxis]
    assert (p.cdf(y - step) <= q * (1.0 + 1e-7)).all()
    assert (p.cdf(y + step) >= q * (1.0 - 1e-7)).all()
    lower, upper = p.interval(0.95)
    np.testing.assert_allclose([lower, upper], [y[2], y[6]], rtol=1e-9, atol=1e-9 * np.ptp(y))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(
    log_offset=st.floats(0.0, 18.0),
    sign=st.sampled_from([-1.0, 1.0]),
    log_scale=st.floats(-100.0, 100.0),
    apart=st.sampled_from([0.0, 1e-6, 1.0, 30.0]),
    tail=st.sampled_from([0.0, 0.5, 3.0]),
)
@example(log_offset=7.0, sign=1.0, log_scale=0.0, apart=0.0, tail=0.5)
@example(log_offset=12.0, sign=1.0, log_scale=0.0, apart=1e-6, tail=0.5)
@example(log_offset=18.0, sign=-1.0, log_scale=0.0, apart=30.0, tail=3.0)
def test_quantiles_invert_the_cdf_at_any_offset_and_scale(
    kind: str, log_offset: float, sign: float, log_scale: float, apart: float, tail: float
) -> None:
    scale = 10.0**log_scale
    means = scale * (sign * 10.0**log_offset + apart * np.array([[0.0, 1.0], [1.0, 0.0], [2, -1]]))
    check_quantiles(distribution(kind, means, scale, tail))


@pytest.mark.parametrize("kind", KINDS)
def test_components_that_are_the_same_have_the_quantiles_of_one(kind: str) -> None:
    """A Unix time in seconds, known to a millisecond."""
    p = distribution(kind, np.full((3, 2), 1.7e9), 1e-3, 1.0)
    at_zero = distribution(kind, np.zeros((3, 2)), 1e-3, 1.0)
    np.testing.assert_allclose(p.ppf(Q) - 1.7e9, at_zero.ppf(Q), atol=3e-7)
    np.testing.assert_array_equal(p.ppf(0.5), [1.7e9, 1.7e9])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("relative", [1e-1, 1e-7, 1e-12])
def test_quantiles_of_transformed_targets(kind: str, power: float, relative: float) -> None:
    """The transformed target has a spread of `relative`; the target lies near its unit of 1e12."""
    means = relative * np.array([[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    z = distribution(kind, means, relative, 0.5)
    check_quantiles(TransformedMixture(z, BoxCox(power, 1e12)), n_spacings=8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_target_has_no_probability(kind: str) -> None:
    p = distribution(kind, np.zeros((3, 2)), 1.0, 0.5)
    assert np.isnan(p.cdf(np.nan)).all()
    assert np.isnan(p.logpdf(np.nan)).all()


MODELS: dict[str, Any] = {
    "regressor": PBPRegressor(n_epochs=3, noise_tail="heavy", random_state=0),
    "cv": PBPRegressorCV(candidates=[Candidate(4, (5,))], budget="fast", random_state=0),
    "cv, one network": PBPRegressorCV(
        candidates=[Candidate(None, (5,), noise="input")],
        cv=ShuffleSplit(1, test_size=0.3, random_state=0),
        random_state=0,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 1.7e9, 1e12])
@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_models_of_times_have_medians_and_intervals(model: Any, offset: float) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((150, 2))
    y = offset + 10.0 * X[:, 0] + rng.standard_t(2, 150)
    p = model.fit(X, y).predict_distribution(X[:20])
    check_quantiles(p)
    assert np.median(np.abs(p.ppf(0.5) - y[:20])) < 4.0
