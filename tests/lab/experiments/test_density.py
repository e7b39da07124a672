"""The density benchmark: its protocol, its scores and its ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from probprop import Mixture
from probprop_lab.experiments.beyond import density
from probprop_lab.experiments.harness.experiment import Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.results import Row


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one set of the benchmark's form."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(600, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.standard_normal(600)
    np.savetxt(tmp_path / "Puma8NH.csv.gz", np.column_stack([X, y]), delimiter=",")
    monkeypatch.setenv(density.FOLDER, str(tmp_path))
    density.load.cache_clear()
    return tmp_path


def test_jobs_by_default_and_of_a_selection() -> None:
    everything = density.jobs(Selection())
    assert len(everything) == 4 * (11 + 11 + 10)  # white wine has fewer than 5,000 samples
    assert {job.method for job in everything} == {"PBPRegressorCV"}
    chosen = density.jobs(Selection(datasets=["Puma8NH"], n_splits=2, methods=["PBP"]))
    assert [(job.dataset, job.split) for job in chosen[:3]] == [
        ("Puma8NH, n = 500", 0),
        ("Puma8NH, n = 500", 1),
        ("Puma8NH, n = 1000", 0),
    ]
    with pytest.raises(ValueError, match=r"unknown sets \['Mars'\]"):
        density.jobs(Selection(datasets=["Mars"]))


def test_a_job_follows_the_protocol(folder: Path) -> None:
    row = density.measure(Job("density", "Puma8NH, n = 500", 0, "PBP"))
    assert row["n_train"] == 375
    assert_allclose(row["log_likelihood"], row["exact_log_likelihood"], atol=0.1)
    assert_allclose(row["crps"], row["exact_crps"], rtol=0.1)
    assert 0.7 < row["coverage_90"] <= 1.0


def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(density.FOLDER, raising=False)
    density.load.cache_clear()
    with pytest.raises(ValueError, match=r"Diamonds is read from Diamonds.csv.gz"):
        density.load("Diamonds")


def test_scores_on_the_grid_match_the_density() -> None:
    y = np.array([-1.5, 0.0, 0.7])
    normal = Mixture.of_one(np.zeros(3), np.zeros(3), np.ones(3))
    row = density.on_a_grid(normal, np.array([-7.0, 7.0]), y)
    assert_allclose(row["log_likelihood"], stats.norm.logpdf(y).mean(), atol=2e-3)
    assert_allclose(row["crps"], normal.crps(y).mean(), rtol=0.05)  # a rectangle rule


def test_a_target_without_density_costs_the_floor() -> None:
    narrow = Mixture.of_one(np.zeros(1), np.zeros(1), np.full(1, 0.1))
    row = density.on_a_grid(narrow, np.array([-1.0, 9.0]), np.array([8.0]))
    assert_allclose(row["log_likelihood"], np.log(1e-10))


def rows_of(values: dict[str, tuple[float, float]]) -> list[Row]:
    shared = {"method": "PBPRegressorCV", "coverage_90": 0.9, "seconds": 1.0}
    return [
        {"dataset": name, "log_likelihood": ll, "crps": crps, **shared}
        for name, (ll, crps) in values.items()
    ]


def test_ranks_among_the_published_methods() -> None:
    best = rows_of({"Kin8nm, n = 1000": (100.0, 0.0)})
    worst = rows_of({"Kin8nm, n = 1000": (-100.0, 1e9)})
    assert [r["crps_rank"] for r in density.records(best)] == [1]
    assert [r["log_likelihood_rank"] for r in density.records(worst)] == [23]
    ranked = density.mean_ranks(density.records(best))
    assert ranked[0]["method"] == "probprop: PBPRegressorCV"
    assert len(ranked) == 23
    assert ranked[0]["crps_rank"] == 1.0
