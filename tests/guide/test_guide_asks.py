"""The benchmarks of active learning whose tables the guide includes, on few rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import paired
from benchmarks.guide import asks, asks_cv, asks_further, branin

from probprop import PBPRegressor, metrics
from probprop.active import ActiveLearner
from probprop_lab.experiments.beyond import acquisition_sets

Printed = pytest.CaptureFixture[str]


def test_changes_are_in_percent_and_compared_with_their_errors() -> None:
    assert paired.change([90.0, 80.0, 70.0], [100.0, 100.0, 100.0]) == "−20.0 ± 5.8"
    assert paired.verdict([90.0, 80.0, 70.0], [100.0] * 3) == -1
    assert paired.verdict([100.0] * 3, [90.0, 80.0, 70.0]) == 1
    assert paired.verdict([90.0, 110.0, 105.0], [100.0] * 3) == 0


# ---- Batches and warm starts


def test_the_highest_are_the_highest() -> None:
    X, y = acquisition_sets.load("diabetes")
    learner = ActiveLearner(PBPRegressor((5,), n_epochs=4, random_state=0)).tell(X[:20], y[:20])
    std = learner.estimator_.predict(X[20:], return_std=True)[1]
    np.testing.assert_array_equal(asks.highest(learner, X[20:], 3), np.argsort(-std)[:3])
    assert std[asks.highest(learner, X[20:], 1)[0]] == std.max()


def test_asks_write_their_pages(tmp_path: Path, capsys: Printed) -> None:
    few = ["--sets", "diabetes", "--repetitions", "2", "--results", str(tmp_path)]
    asks.main(few, [asks.Added("diabetes", 20, 4, 2, 10, 20)])
    printed = capsys.readouterr().out
    for name in ("asks_batches", "asks_warm"):
        assert (tmp_path / f"{name}.md").read_text() in printed
    assert all(f"| {title} |" in printed for title in list(asks.WAYS)[1:])
    found = json.loads((tmp_path / "asks.json").read_text())
    ways = found["batches"]["diabetes"]
    # One row at a time: a batch has no distances; a batch of neighbors has the smaller ones.
    assert ways["random"][0]["apart"] == 0.0
    mean = {title: np.mean([run["apart"] for run in runs]) for title, runs in ways.items()}
    assert mean[asks.FIVE_HIGHEST] < mean[asks.FIVE_ASKED]
    (warm,) = found["warm"]
    assert all(run["warm"]["rmse"] != run["scratch"]["rmse"] for run in warm["runs"])
    assert "diabetes: 20, then 4, 2 at a time" in printed


def test_a_warm_learner_gets_what_the_table_says() -> None:
    added = asks.Added("diabetes", 20, 2, 1, 10, 1)
    X, y = acquisition_sets.load("diabetes")
    train, test, pool = acquisition_sets.split(len(y), 3)
    model = PBPRegressor((10,), random_state=3)
    learner = ActiveLearner(model, warm_start=True, random_state=3).tell(X[train], y[train])
    for _ in range(2):
        batch = pool[learner.ask(X[pool], 1)]
        learner.tell(X[batch], y[batch])
    expected = metrics.rmse(y[test], learner.estimator_.predict(X[test]))
    assert asks.tell(added, 3, warm=True)["rmse"] == expected


# ---- Beyond 60 rows, and another model


def test_sixty_rows_are_there_at_first() -> None:
    rows = acquisition_sets.split(1_000, 0, 60)
    assert [len(part) for part in rows] == [60, 333, 607]
    assert len({*np.concatenate(rows)}) == 1_000
    assert len(asks_further.SETS) == 14
    asked = asks_further.N_ASKS * asks_further.BATCH
    pools = [
        acquisition_sets.split(acquisition_sets.size(n), 0, 60).pool for n in asks_further.SETS
    ]
    assert min(map(len, pools)) > 1.9 * asked


def test_asking_further_writes_its_page(tmp_path: Path, capsys: Printed) -> None:
    few = ["--repetitions", "2", "--asks", "2", "--members", "2", "--epochs", "5"]
    asks_further.main(["--sets", "friedman1", *few, "--results", str(tmp_path)])
    assert (tmp_path / "asks_further.md").read_text() in capsys.readouterr().out
    kept = (tmp_path / "asks_further.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in kept]
    assert len(rows) == 2 * 3
    assert len({row["rmses"][0] for row in rows}) == 2  # strategies share their first fit
    X, y = acquisition_sets.load("friedman1")
    train, test, _ = acquisition_sets.split(len(y), 0, 60)
    seeds = [0, int(np.random.RandomState(0).randint(2**31 - 1))]
    given: Any = {"n_epochs": 5, "evidence_cap": 10.0}
    models = [PBPRegressor(random_state=s, **given).fit(X[train], y[train]) for s in seeds]
    mean = np.mean([model.predict(X[test]) for model in models], axis=0)
    assert rows[0]["rmses"][0] == pytest.approx(metrics.rmse(y[test], mean))


def repetitions(method: str, rmse: float, n: int = 4) -> list[dict[str, object]]:
    """Return rows of n repetitions."""
    common = {"dataset": "yacht", "method": method, "log_likelihood": -rmse}
    return [{"split": k, "rmse": rmse + 0.01 * k, **common} for k in range(n)]


def test_models_are_compared_on_the_repetitions_that_they_share() -> None:
    own = repetitions("random CV", 2.0) + repetitions("variance_reduction CV", 1.0)[:3]
    page = asks_cv.page(own, repetitions("random", 3.0) + repetitions("variance_reduction", 2.4))
    assert "| yacht | 3 | 3.01 | −19.9 ± 0.0 | 2.01 | −49.8 ± 0.0 | 1.000 ± 0.000 |" in page
    assert "on 1 of 1 sets, worse on none; with five seeds on 1 and none." in page


# ---- Branin


def test_branin_has_its_lowest_value_at_three_points() -> None:
    at = np.array([(-np.pi, 12.275), (np.pi, 2.275), (9.42478, 2.475)])
    np.testing.assert_allclose(branin.branin(at), branin.LEAST, atol=1e-5)


def test_rows_at_random_need_what_is_known() -> None:
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(500)[:5].min() + 1 for _ in range(4_000)]
    assert branin.at_random(500) == pytest.approx(np.median(drawn), abs=3)
    assert branin.at_random(5) == 1


@pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
def test_branin_writes_its_page(tmp_path: Path, capsys: Printed) -> None:
    few = ["--seeds", "2", "--epochs", "10", "--candidates", "30"]
    branin.main([*few, "--results", str(tmp_path)])
    assert (tmp_path / "branin.md").read_text() in capsys.readouterr().out
    found = json.loads((tmp_path / "branin.json").read_text())
    assert all(1 <= needed <= 30 for needed in found["pool"]["10"])
