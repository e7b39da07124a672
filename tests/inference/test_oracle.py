"""Every engine reproduces the authors' C code step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oracle
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import PassInfo, SweepInfo


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    return ENGINES[request.param]


@pytest.fixture(params=oracle.NAMES)
def authors(request: pytest.FixtureRequest) -> oracle.Oracle:
    return oracle.load(request.param)


def test_initial_predictions(engine: Any, authors: oracle.Oracle) -> None:
    mean, variance = engine.predict_moments(authors.posterior(authors.initial), authors.X_test)
    assert_allclose(mean, authors.initial_predictions["m"], rtol=oracle.RTOL)
    assert_allclose(variance, authors.initial_predictions["v"], rtol=oracle.RTOL)


def test_after_one_point(engine: Any, authors: oracle.Oracle) -> None:
    posterior, info = engine.adf_pass(
        authors.posterior(authors.initial), authors.X_train, authors.y_train, np.arange(1)
    )
    oracle.assert_matches(posterior, authors.after_point_1)
    assert (info.n_points, info.n_undone, info.n_guarded, info.n_skipped) == (1, 0, 0, 0)


def test_after_one_epoch(engine: Any, authors: oracle.Oracle) -> None:
    n = len(authors.y_train)
    posterior, info = engine.adf_pass(
        authors.posterior(authors.initial), authors.X_train, authors.y_train, np.arange(n)
    )
    oracle.assert_matches(posterior, authors.adf_only_epoch1)
    assert info == PassInfo(info.log_Z_sum, n_points=n, n_undone=0, n_guarded=0, n_skipped=0)


def test_epochs_with_refinement(engine: Any, authors: oracle.Oracle) -> None:
    posterior = authors.posterior(authors.initial)
    for state in authors.epochs:
        order = np.arange(len(authors.y_train))
        posterior, _ = engine.adf_pass(posterior, authors.X_train, authors.y_train, order)
        posterior, sweep = engine.refine_prior(posterior, informative_ratio=math.inf)
        oracle.assert_matches(posterior, state)
        assert sweep == SweepInfo(n_skipped=0, n_uninformative=0)

        mean, variance = engine.predict_moments(posterior, authors.X_test)
        assert_allclose(mean, state["predictions"]["m"], rtol=oracle.RTOL)
        assert_allclose(variance, state["predictions"]["v"], rtol=oracle.RTOL)
        assert_allclose(posterior.noise_variance, state["predictions"]["v_noise"], rtol=oracle.RTOL)
