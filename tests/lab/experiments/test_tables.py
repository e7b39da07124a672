"""Mixed tables compared with boosted trees: the jobs, the categories, the scores and the ranks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor

from probprop import Mixture
from probprop_lab.experiments.beyond import tables
from probprop_lab.experiments.harness.experiment import Selection
from probprop_lab.experiments.harness.job import Job


def test_jobs_by_default_and_of_a_selection() -> None:
    everything = tables.jobs(Selection(show=True))
    assert len(everything) == 12 * 4 * tables.N_SPLITS
    assert sum(source.classes for source in tables.SOURCES.values()) == 4
    chosen = tables.jobs(Selection(datasets=["HMDA"], methods=["HistGB"], n_splits=2, seed=3))
    assert [(job.split, job.seed) for job in chosen] == [(0, 3000), (1, 3001)]
    with pytest.raises(ValueError, match=r"unknown tables \['Mars'\]"):
        tables.jobs(Selection(datasets=["Mars"]))
    with pytest.raises(ValueError, match=r"unknown methods \['SVM'\]"):
        tables.jobs(Selection(methods=["SVM"]))


def test_no_column_says_the_answer() -> None:
    for name, source in tables.SOURCES.items():
        X, y = tables.load(name)
        assert source.target not in X
        assert "rownames" not in X
        assert len(X) == len(y) <= 10_000
        assert not pd.isna(y).any()


def test_splits_share_no_row_and_keep_the_classes() -> None:
    X_train, X_test, y_train, y_test = tables.load_split("HMDA", 0)
    assert not set(X_train.index) & set(X_test.index)
    assert_allclose(np.mean(y_train == "yes"), np.mean(y_test == "yes"), atol=0.01)


def test_text_is_a_category_and_unseen_ones_are_missing() -> None:
    frame = pd.DataFrame({"color": ["red", "blue", None] * 40, "x": np.arange(120.0)})
    y = np.where(frame["color"] == "red", 5.0, 1.0)
    trees = HistGradientBoostingRegressor(categorical_features="from_dtype")
    model = tables.WithCategories(trees, random_state=0).fit(frame, y)
    new = pd.DataFrame({"color": ["red", "blue", "green"], "x": [3.0, 4.0, 5.0]})
    assert_allclose(model.predict(new), [5.0, 1.0, 1.0], atol=0.1)


@pytest.mark.parametrize(("name", "measure"), [("penguins", "crps"), ("HMDA", "accuracy")])
def test_a_job_is_scored_on_its_test_part(name: str, measure: str) -> None:
    row = tables.measure(Job("tables", name, 0, "HistGB"))
    assert np.isfinite(row["log_likelihood"])
    assert row[measure] > 0.0
    assert row["seconds"] > 0.0


def test_scores_of_numbers_match_the_distribution() -> None:
    y = np.random.RandomState(0).standard_normal(2_000)
    found = tables.of_numbers(Mixture.of_one(np.zeros(2_000), np.zeros(2_000), np.ones(2_000)), y)
    assert_allclose(found["log_likelihood"], stats.norm.logpdf(y).mean())
    assert_allclose(found["rmse"], np.sqrt(np.mean(y**2)))
    for coverage in tables.COVERAGES:
        assert_allclose(found[f"coverage_{coverage}"], coverage, atol=0.03)


def test_ranks_are_within_a_table_and_a_task() -> None:
    shared = {"n_train": 10, "seconds": 1.0, "warnings": [], "split": 0}

    def row(name: str, method: str, log_likelihood: float, **more: float) -> dict[str, object]:
        found = {"dataset": name, "method": method, "log_likelihood": log_likelihood}
        return shared | found | more

    rows = [
        row("penguins", "probprop", -7.0, crps=1.0, rmse=3.0),
        row("penguins", "CatBoost", -8.0, crps=2.0, rmse=2.0),
        row("HMDA", "probprop", -0.3, accuracy=0.9),
        row("HMDA", "CatBoost", -0.2, accuracy=0.9),
    ]
    records = {(r["dataset"], r["method"]): r for r in tables.records(rows)}
    assert records["penguins", "probprop"]["crps_rank"] == 1.0
    assert records["penguins", "probprop"]["rmse_rank"] == 2.0
    assert records["HMDA", "probprop"]["log_likelihood_rank"] == 2.0
    assert records["HMDA", "probprop"]["crps_rank"] is None
    [(_, (header, lines))] = tables.summaries(list(records.values()))
    assert dict(zip(header, lines[0], strict=True))["log-likelihood or log-loss"] == "1.50"
