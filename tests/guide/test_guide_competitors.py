"""What the paper's competitors depend on, measured on synthetic data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.guide import competitors
from benchmarks.guide.pages import rows_of

from probprop import metrics
from probprop_lab.baselines import HMCRegressor, LaplaceRegressor, laplace
from probprop_lab.baselines.hmc import WEAK_NOISE
from probprop_lab.experiments.paper.active import split


@pytest.fixture
def data() -> SimpleNamespace:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 2))
    return SimpleNamespace(X=X, y=np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(160))


@pytest.fixture
def rmse(data: SimpleNamespace) -> Callable[..., float]:
    """The error of `competitors.measure` on the data, by method, variant and repetition."""

    def measured(method: str, variant: str, repetition: int) -> float:
        found = competitors.measure(method, "made", variant, repetition, lambda name: data)
        return found["rmse"]

    return measured


@pytest.mark.slow
def test_all_learn_the_29_points_of_a_repetition(
    data: SimpleNamespace, rmse: Callable[..., float]
) -> None:
    rows = split(160, 3)
    train = np.concatenate([rows.train, rows.pool[:9]])
    X, y = data.X[train], data.y[train]
    weak = HMCRegressor(
        (10,), kernel="hmc", n_samples=500, n_warmup=500, random_state=3, **WEAK_NOISE
    )
    expected = {
        ("LA", "0.1 and 10"): LaplaceRegressor(10, random_state=3).fit(X, y),
        ("HMC", "500 draws"): weak.fit(X, y),
    }
    for (method, variant), model in expected.items():
        found = rmse(method, variant, 3)
        assert found == pytest.approx(
            metrics.rmse(data.y[rows.test], model.predict(data.X[rows.test]))
        )
    constant = rmse("LA", competitors.CONSTANT, 3)
    assert constant == pytest.approx(metrics.rmse(data.y[rows.test], np.full(100, y.mean())))


def test_the_start_of_la_is_set_for_the_fit_alone(rmse: Callable[..., float]) -> None:
    usual = laplace.START
    found = [rmse("LA", start, 0) for start in competitors.STARTS]
    assert usual == laplace.START
    # From a strong prior every weight decays to 0.
    constant = rmse("LA", competitors.CONSTANT, 0)
    assert found[2] == pytest.approx(constant, rel=1e-3)
    assert found[0] < 0.9 * constant


def test_a_prior_that_few_points_cannot_leave_impairs_ep(rmse: Callable[..., float]) -> None:
    found = {p: rmse("EP", p, 1) for p in competitors.PRIORS}
    assert found["Gamma(6, 6)"] > found["Gamma(2, 0.02)"]


def test_the_pages(tmp_path: Path) -> None:
    cases = [
        {"method": method, "dataset": name, "variant": variant, "repetition": repetition}
        for method, sets, variants, _ in competitors.COMPARISONS
        for name in sets
        for variant in variants
        for repetition in range(2)
    ]

    def measure(method: str, dataset: str, variant: str, repetition: int) -> dict[str, float]:
        return {"rmse": 2.0 + repetition + (variant == "2,000 draws")}

    pages = competitors.pages(rows_of(tmp_path / "rows.jsonl", cases, measure))
    assert "| Gamma(6, 6) | 2.50 ± 0.50 |" in pages["competitors_ep"]
    assert "| the paper's | 3.616 ± 0.101 |" in pages["competitors_ep"]
    assert pages["competitors_la"].count("2.50 ± 0.50") == 12
    assert "| energy | 2.50 ± 0.50 | 3.50 ± 0.50 | 1.000 ± 0.000 |" in pages["competitors_hmc"]
