"""The noise network, out of fold: against single epochs, and integrals by quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose
from scipy.stats import norm

from probprop.distributions.base import Moments
from probprop.encoding.piecewise import encode
from probprop.estimators.cv.calibration import (
    Calibration,
    LearnedNoise,
    OutOfFold,
    RegressionScorer,
    Squares,
    learn_noise,
)
from probprop.estimators.cv.folds import Encodings, Fold, HeldOut
from probprop.inference.engine import ENGINES
from probprop.inference.likelihoods import Gaussian, Scale
from probprop.inference.noise import LogScale, start_noise_network

N, FACTOR = 60, 1.7
FLOAT64 = np.dtype(np.float64)


@pytest.fixture(scope="module")
def made() -> tuple[Any, OutOfFold, Any]:
    rng = RandomState(0)
    X = rng.uniform(-1.0, 1.0, size=(N, 2))
    residual = np.exp(X[:, 0]) * rng.standard_normal(N)
    oof = OutOfFold(np.zeros(N), residual, np.full(N, 0.3), np.full(N, 0.8), unit=2.0)
    return X, oof, np.arange(N) % 3


@pytest.fixture(scope="module")
def learned(made: Any) -> LearnedNoise:
    X, oof, fold = made
    folds = [Fold(np.flatnonzero(fold != k), np.flatnonzero(fold == k), 0) for k in range(3)]
    return learn_noise(Encodings(X, FLOAT64), HeldOut(folds), oof, FACTOR, 7, 2)


def slowly(A: Any, oof: OutOfFold) -> Any:
    """Twenty passes of a fifth of the evidence each, one by one; return h of rows."""
    variances = [FACTOR * std**2 / oof.unit**2 for std in (oof.epistemic_std, oof.aleatoric_std)]
    y = np.stack([oof.residual / oof.unit, *variances], axis=1)
    rng = RandomState(7)
    # The network of a mean, which is not used, is drawn first.
    for sizes in ((20, A.shape[1] + 1), (1, 21)):
        rng.standard_normal(sizes)
    network = start_noise_network((A.shape[1], 20, 1), rng, FLOAT64)
    engine = ENGINES["reference"]
    for _ in range(20):
        order = rng.permutation(len(y))
        network, _ = engine.adf_pass(network, A, y, order, likelihood=Scale(), power=0.2)
    return lambda B: engine.predict_moments(network, B)


def test_it_learns_as_single_epochs_do(made: Any, learned: LearnedNoise) -> None:
    X, oof, fold = made
    A = encode(X, learned.network.encoding)
    m_h, v_h = slowly(A, oof)(A)
    found = learned.network.log_scale(X)
    assert_allclose(found.mean, m_h, atol=1e-6)
    assert_allclose(found.variance, v_h, rtol=1e-6)
    own = fold != 1
    part = OutOfFold(*(a[own] for a in list(vars(oof).values())[:4]), unit=oof.unit)
    h = LogScale(*slowly(A[own], part)(A[~own])).bounded(*learned.network.levels)
    assert_allclose(learned.held_out.mean[~own], h.mean, atol=1e-6)
    assert_allclose(learned.held_out.variance[~own], h.variance, rtol=1e-6)


def density(residual: Any, v: Any, level: Any, m_h: Any, v_h: Any) -> Any:
    """Integrate N(residual | 0, v + level e^h) over h ~ N(m_h, v_h), with many nodes."""
    nodes = np.linspace(-9.0, 9.0, 2001)[:, np.newaxis]
    weights = norm.pdf(nodes) * (nodes[1] - nodes[0])
    std = np.sqrt(v + level * np.exp(m_h + np.sqrt(v_h) * nodes))
    return (weights * norm.pdf(residual, 0.0, std)).sum(axis=0)


def test_the_gain_matches_the_exact_density(made: Any, learned: LearnedNoise) -> None:
    _, oof, _ = made
    v, level = FACTOR * oof.epistemic_std**2, FACTOR * oof.aleatoric_std**2
    h = learned.held_out
    exact = np.log(density(oof.residual, v, level, h.mean, h.variance))
    constant = norm.logpdf(oof.residual, 0.0, np.sqrt(v + level))
    assert_allclose(learned.gain, exact - constant, atol=1e-6)


def calibrated(X: Any, oof: OutOfFold) -> Calibration:
    held_out = HeldOut([Fold(np.arange(N), np.arange(N), 0)])
    scorer = RegressionScorer(Gaussian())
    encodings = Encodings(X, FLOAT64)
    return scorer.calibrate([oof], np.ones(1), held_out, encodings, 0, 1, 0).calibration


def test_predictions_are_the_exact_mixture(made: Any, learned: LearnedNoise) -> None:
    X, oof, _ = made
    box = calibrated(X, oof).range
    calibration = Calibration(Squares(FACTOR, 0.0, N), box, learned.network)
    of = [Moments(X[:, 0] + i, 0.1 + X[:, 1] ** 2, np.full(N, 0.5 + i)) for i in range(2)]
    at = np.linspace(-3.0, 3.0, N)
    h = learned.network.log_scale(X)
    each = [
        density(
            at - p.mean,
            FACTOR * p.epistemic_std**2,
            FACTOR * p.aleatoric_std**2,
            h.mean,
            h.variance,
        )
        for p in of
    ]
    members = Moments(*map(np.stack, zip(*of, strict=True)))
    found = calibration.mixture(members, X)
    assert_allclose(found.logpdf(at), np.log(np.mean(each, axis=0)), atol=1e-6)


def test_a_single_fold_is_scored_in_parts(made: Any) -> None:
    X, oof, _ = made
    calibration = calibrated(X, oof)
    assert np.isfinite(calibration.gain)
    assert calibration.gain_error > 0.0


def test_bounds() -> None:
    h = LogScale(np.array([-50.0, 1.0, 50.0]), np.array([9.0, 1.0, 4.5])).bounded()
    assert h.mean.tolist() == [-20.0, 1.0, 20.0]
    assert h.variance.tolist() == [4.0, 1.0, 4.0]


def test_rows_without_any_error_have_no_scale() -> None:
    one = np.ones(3)
    assert OutOfFold(one, 0.0 * one, one, one, 1.0).factor == 1.0
