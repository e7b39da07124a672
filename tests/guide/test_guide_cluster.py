"""The figures of the page on threads and clusters, on few rows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import out_of_core, out_of_core_fit
from benchmarks.guide import cluster, shards
from benchmarks.scale_out_fit import rows

from made_splits import Parts, linear
from probprop import PBPRegressor, PBPRegressorCV
from probprop.data import fitting

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")


def made_split(name: str, split: int) -> Parts:
    return linear(split, 1600, 200, 3)


# ---- Threads


def test_a_fit_in_one_piece_and_one_in_shards_are_scored_on_new_rows() -> None:
    found = shards.evaluate(2, 1, 2_000, 500)
    learned, new = rows(2_000, 3), rows(500, 4)
    for name, n_shards in (("one", None), ("shared", 8)):
        model = PBPRegressor(n_epochs=2, evidence_cap=3, n_shards=n_shards, random_state=1)
        model.fit(learned.drop(columns="y").to_numpy(), learned["y"])
        predicted = model.predict_distribution(new.drop(columns="y").to_numpy())
        assert found[name] == pytest.approx(np.mean(predicted.logpdf(new["y"])))
    assert found["one"] != found["shared"]


def test_what_one_thread_does_alone_is_a_part_of_the_cost() -> None:
    found = shards.cost(5_000, 1)
    assert 0.0 < found["alone"] < found["shared"]
    assert found["one"] > 0.0


def test_idle_cores_share_all_but_what_one_thread_does_alone() -> None:
    figures = {"n": 10, "one": 3.0, "shared": 4.0, "alone": 1.0}
    assert shards.gain(figures, 1) == pytest.approx(0.75)
    assert shards.gain(figures, 2) == pytest.approx(1.2)
    scored = [
        {"n_epochs": n, "seed": seed, "one": 0.1 + seed, "shared": 0.3 + seed}
        for n in shards.EPOCHS
        for seed in range(2)
    ]
    pages = shards.pages([figures], scored)
    assert "| 10 | 3.00 | 4.00 | 1.00 | 1.20 | 2.18 |" in pages["shards_cost"]
    assert "| 12 | 0.600 | 0.800 | 0.200 ± 0.000 |" in pages["shards_epochs"]


# ---- Clusters


@pytest.mark.process
def test_sorted_shards_are_worse_and_warned_of() -> None:
    fitted = partial(cluster.ordered, load=made_split, n_epochs=2)
    random, by_target = (fitted("made", 0, order) for order in cluster.ORDERS)
    assert not random["warned"]
    assert by_target["warned"]
    assert by_target["log_likelihood"] < random["log_likelihood"]


def test_the_sample_that_decides_is_set_for_the_fit_on_the_cluster() -> None:
    """The tests of `probprop.data` fit on clusters; here one machine replaces them."""
    samples = []

    def fit(network: PBPRegressorCV, rows: Any, n_shards: int) -> Any:
        X, y = rows
        assert X.numblocks == (n_shards, 1)
        samples.append(fitting.SAMPLE)
        return network.fit(X.compute(), y.compute())

    def few(name: str, split: int) -> tuple[np.ndarray, ...]:
        X, y, X_test, y_test = made_split(name, split)
        return X[:60], y[:60], X_test, y_test

    usual = fitting.SAMPLE
    found = [cluster.chosen("made", 0, way, few, fit) for way in cluster.WAYS]
    assert samples == [20_000, 2_000]
    assert usual == fitting.SAMPLE
    assert len({row["log_likelihood"] for row in found}) == 1
    assert all(row["seconds"] > 0.0 for row in found)


def test_rows_become_tables_by_split(tmp_path: Path) -> None:
    kept = [
        {"dataset": "power_plant", "split": 0, "way": way, "log_likelihood": -k, "seconds": 10 * k}
        for k, way in enumerate(cluster.WAYS)
    ]
    (tmp_path / "cluster.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    arguments = ["--results", str(tmp_path), "--splits", "1", "--sorted-splits", "2"]
    cluster.main(arguments, lambda **case: {"log_likelihood": float(case["order"] == "random")})
    assert "| mean | 1.000 | 0.000 |" in (tmp_path / "cluster_sorted.md").read_text()
    choices = (tmp_path / "cluster_cv.md").read_text()
    assert "mean" not in choices
    assert "| processor s | 0 | 10 | 20 |" in choices
    assert len((tmp_path / "cluster.jsonl").read_text().splitlines()) == 7


# ---- More rows than memory


def test_the_files_of_the_out_of_core_run_have_the_same_rows(tmp_path: Path) -> None:
    out_of_core_fit.write(tmp_path, text=False, n_rows=60, n_files=3)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".parquet"] * 3
    out_of_core_fit.write(tmp_path, text=True, n_rows=60, n_files=3)
    whole = np.loadtxt(tmp_path / "rows.csv", delimiter=",", skiprows=1)
    expected = np.concatenate([rows(20, i).to_numpy() for i in range(3)])
    np.testing.assert_allclose(whole, expected, atol=1e-6)


@pytest.mark.process
def test_the_command_of_the_out_of_core_run_works(tmp_path: Path) -> None:
    out_of_core_fit.write(tmp_path, text=False, n_rows=3_000)
    for limit in ("", " --memory-limit 700MB"):
        used = out_of_core.commanded(tmp_path, limit)
        assert used["seconds"] > 0.0
        assert used["peak"] > 1e8
