"""The search offers exact output layers; all that a model does, it does with them."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probprop
from finite_differences import assert_gradient, differences
from limits import Limits
from probprop import Candidate, PBPClassifierCV, PBPRegressorCV

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")

RNG = np.random.RandomState(0)
X = RNG.standard_normal((160, 3))
WITHOUT_NOISE = X @ [1.0, -2.0, 0.5] + np.abs(X[:, 0])
NOISY = WITHOUT_NOISE + 2.0 * RNG.standard_normal(160)


@cache
def fitted(*, noisy: bool = False) -> PBPRegressorCV:
    model = PBPRegressorCV(3, budget="fast", dtype="float64", random_state=0)
    return model.fit(X[:120], (NOISY if noisy else WITHOUT_NOISE)[:120])


def layers(model: PBPRegressorCV) -> set[str]:
    return {group.candidate.output_layer for group in model.groups_}


def test_without_noise_they_are_stacked_and_predict_better(limits: Limits) -> None:
    model = fitted()
    assert "full" in layers(model)
    assert any(member.posterior_.output_layer is not None for member in model.estimators_)
    assert {p["output_layer"] for p in model.cv_results_["params"]} == {"mean_field", "full"}
    limits.of_policy(most_features=0)
    without = deepcopy(model).fit(X[:120], WITHOUT_NOISE[:120])
    assert layers(without) == {"mean_field"}
    scores = [
        each.predict_distribution(X[120:]).logpdf(WITHOUT_NOISE[120:]).mean()
        for each in (without, model)
    ]
    assert scores[1] > scores[0] + 0.1


def test_with_noise_they_are_not() -> None:
    assert layers(fitted(noisy=True)) == {"mean_field"}


def test_files_gradients_functions_and_new_samples(tmp_path: Path) -> None:
    model, rows = fitted(), X[120:]
    again = model.predict_out_of_fold(X[model.oof_rows_])
    assert_allclose(again.std, model.oof_predictive_.std, rtol=0.1)
    model.save(tmp_path / "model")
    loaded: Any = probprop.load(tmp_path / "model")
    expected = model.predict(rows, return_std=True)
    for a, b in zip(loaded.predict(rows, return_std=True), expected, strict=True):
        assert_array_equal(a, b)
    inside = rows[model.calibration_.range.std(rows) == 0.0][:10]
    steps = np.full(3, 1e-5)
    at = model.predict_gradient(inside)
    dmean = differences(model.predict, inside, steps)
    near = np.abs(at.dmean_dX - dmean).max(axis=1) < 1e-4  # but at a kink of an encoding
    assert near.mean() > 0.7
    [f] = model.sample_functions(1, random_state=0)
    value, gradient = f.gradient(inside[near])
    assert_allclose(value, f(inside[near]), rtol=1e-9)
    assert_gradient(gradient, differences(f, inside[near], steps), 1e-3)
    after = deepcopy(model).partial_fit(rows, WITHOUT_NOISE[120:])
    assert after.n_samples_seen_ == 160
    rmse = [np.sqrt(np.mean((m.predict(rows) - WITHOUT_NOISE[120:]) ** 2)) for m in (model, after)]
    assert rmse[1] < rmse[0]


def test_candidates_may_name_them_and_classes_have_none() -> None:
    candidate = Candidate(None, (8,), 10.0, prior="per_column", output_layer="full")
    assert "prior='per_column', output_layer='full'" in repr(candidate)
    assert "a prior per column, an exact output layer" in candidate.in_words
    model = PBPRegressorCV(3, candidates=[candidate], budget="fast", random_state=0)
    [*members] = model.fit(X, WITHOUT_NOISE).estimators_
    assert all(m.posterior_.output_layer is not None and m.prior == "per_column" for m in members)
    with pytest.raises(ValueError, match="prior of a candidate is for the targets of a regr"):
        PBPClassifierCV(candidates=[candidate]).fit(X, NOISY > 0.0)
    with pytest.raises(ValueError, match="output_layer of a candidate must be"):
        Candidate(output_layer="exact")  # type: ignore[arg-type]
