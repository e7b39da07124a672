"""On the benchmark sets of [PBP15]: the authors' results, and deep networks that don't diverge."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import uci
from probprop import PBPRegressor

AUTHORS = json.loads((Path(__file__).parents[1] / "data" / "authors_one_layer.json").read_text())


def standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


@pytest.mark.parametrize("name", uci.READERS)
def test_one_hidden_layer_reproduces_the_authors_results(name: str) -> None:
    X, y = uci.load(name)
    rmse, log_likelihood = [], []
    for seed, (train, test) in enumerate(uci.splits(len(y))):
        predicted = (
            PBPRegressor((50,), random_state=seed)
            .fit(X[train], y[train])
            .predict_distribution(X[test])
        )
        rmse.append(float(np.sqrt(np.mean((predicted.mean - y[test]) ** 2))))
        log_likelihood.append(float(predicted.logpdf(y[test]).mean()))
    authors = AUTHORS["results"][name]
    for ours, key in ((rmse, "rmse"), (log_likelihood, "ll")):
        combined = np.hypot(standard_error(ours), authors[f"{key}_se"])
        assert abs(np.mean(ours) - authors[f"{key}_mean"]) < combined, key


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("name", ["yacht", "energy", "boston_housing", "concrete"])
@pytest.mark.slow
def test_deep_networks_do_not_diverge(name: str, depth: int) -> None:
    X, y = uci.load(name)
    for seed, (train, test) in enumerate(uci.splits(len(y))):
        with warnings.catch_warnings():
            # A few updates undone among a million are ordinary in deep networks.
            warnings.filterwarnings("ignore", "In .* updates", RuntimeWarning)
            model = PBPRegressor((50,) * depth, random_state=seed).fit(X[train], y[train])
        rmse = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))
        assert rmse < y.std(), seed
        assert all(0.0 < epoch.prior_variance < 1000.0 for epoch in model.history_), seed
