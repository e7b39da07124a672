"""What is measured of `PBPRegressorCV` for the guide, on few rows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.guide import far_values, missing_values, optimism, powers, seconds, seconds_fit

from probprop import PBPRegressorCV
from probprop.estimators.cv.policy import default_candidates, policy_of

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")


def prices(name: str, split: int) -> Rows:
    """Errors are a share of the price, but for the set "concrete", where they are of one size."""
    rng = np.random.default_rng(split)
    X = rng.uniform(0.0, 1.0, (260, 2))
    truth = np.exp(1.0 + 3.0 * X[:, 0])
    noise = rng.standard_normal(260)
    y = 50.0 + truth + noise if name == "concrete" else truth * np.exp(0.2 * noise)
    return X[:200], y[:200], X[200:], y[200:]


def test_powers_are_compared_with_untransformed_targets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--sets", "wine_red", "concrete", "--budget", "fast", "--results", str(tmp_path)]
    powers.main(arguments, prices)
    page = (tmp_path / "powers.md").read_text()
    assert page in capsys.readouterr().out
    assert "| wine (red) | 2 of 2 |" in page
    assert "| concrete | 0 of 2 |  |" in page
    assert "tried in 2 of 4 fits and used in 2" in page
    taken, _, level, _ = map(json.loads, (tmp_path / "powers.jsonl").read_text().splitlines())
    assert taken["power"] < 0.3
    assert taken["with"]["log_likelihood"] > taken["without"]["log_likelihood"]
    assert taken["with"]["seconds"] > taken["without"]["seconds"]
    assert not level["tried"]
    assert level["with"] == level["without"]


def test_without_a_power_the_search_is_the_same() -> None:
    X, y, X_test, y_test = prices("wine_red", 1)
    plain = PBPRegressorCV(
        candidates=default_candidates("fast", policy_of(len(y), classification=False)),
        budget="fast",
        random_state=1,
    ).fit(X, y)
    log_p = float(np.mean(plain.predict_distribution(X_test).logpdf(y_test)))
    found = powers.measure("wine_red", 1, "fast", prices)["without"]
    assert found["log_likelihood"] == pytest.approx(log_p)


def test_optimism_is_measured_on_samples_that_are_out_of_fold_and_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y, halves = X[:, 0] + 0.3 * rng.normal(size=60), (np.arange(30), np.arange(30, 60))
    splits = [halves, halves[::-1]]
    arguments = ["--sets", "yacht", "--budget", "fast", "--results", str(tmp_path)]
    optimism.main(arguments, lambda name: (X, y, splits))
    page = (tmp_path / "optimism.md").read_text()
    assert page in capsys.readouterr().out
    assert "| yacht | 60 |" in page
    row = json.loads((tmp_path / "optimism.jsonl").read_text())
    oof, test = [], []
    for split, (train, other) in enumerate(splits):
        model = PBPRegressorCV(budget="fast", random_state=split).fit(X[train], y[train])
        oof.append(model.oof_predictive_.logpdf(y[train]).mean())
        test.append(model.predict_distribution(X[other]).logpdf(y[other]).mean())
    assert row["difference"][0] == pytest.approx(np.mean(oof) - np.mean(test))
    parts = row["selection"][0] - row["averaging"][0]
    assert row["difference"][0] == pytest.approx(parts)


def test_random_splits_have_no_row_twice() -> None:
    X = np.arange(442.0)[:, np.newaxis]
    parts = powers.rows_to_fit_and_test("diabetes", 3, lambda name: (X, X[:, 0]))
    X_fit, y_fit, X_test, y_test = parts
    assert (len(y_fit), len(y_test)) == (342, 100)
    assert len(np.union1d(y_fit, y_test)) == 442
    assert (X_fit[:, 0] == y_fit).all()
    assert (X_test[:, 0] == y_test).all()


def test_how_time_grows_with_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--sizes", "60", "--results", str(tmp_path)]
    seconds.main(arguments, partial(seconds_fit.fit, n_test=30))
    page = (tmp_path / "seconds_rows.md").read_text()
    assert page in capsys.readouterr().out
    assert page.splitlines()[2].startswith("| 60 |")


def test_a_fit_has_a_process_of_its_own() -> None:
    found = seconds.in_own_process("made 60", 0, "fast")
    assert found["n_train"] == 60
    assert found["n_networks"] % 5 == 0
    assert found["peak_above"] > 0


@pytest.mark.slow
def test_missing_values_are_compared_with_complete_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).standard_normal((150, 2))
    X = np.stack([x[:, 0], x[:, 0] + 0.1 * x[:, 1]], axis=1)
    made = SimpleNamespace(X=X, y=X[:, 1] - 3.0 * X[:, 0])
    arguments = ["--sets", "yacht", "--splits", "1", "--results", str(tmp_path)]
    missing_values.main(arguments, lambda name: made)
    page = (tmp_path / "missing_values.md").read_text()
    assert page in capsys.readouterr().out
    assert "| yacht | 2 |" in page
    [row] = map(json.loads, (tmp_path / "missing_values.jsonl").read_text().splitlines())
    for feature in row["features"]:
        assert feature["completed"]["rmse"] < 2.0 * feature["without"]["rmse"]
        assert feature["independent"]["rmse"] > 2.0 * feature["without"]["rmse"]


@pytest.mark.slow
def test_far_values_with_and_without_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"seed": 0, "distance": 40.0, "tail": 2.0, "target": "positive"}
    chosen = [
        case
        for case in far_values.cases(sets=())
        if case.items() <= {**case, **wanted}.items() and case.get("effect") != "saturating"
    ]
    far_values.main(["--results", str(tmp_path)], chosen, far_values.Sizes(150, 60))
    page = (tmp_path / "far_values.md").read_text()
    assert page in capsys.readouterr().out
    assert page.count("\n") == 2 + 6
    assert "| test: errors, positive target | 1 |" in page
    rows = [json.loads(line) for line in (tmp_path / "far_values.jsonl").read_text().splitlines()]
    assert [row["group"] for row in rows] == 3 * ["single"] + 2 * ["log-normal"] + 2 * ["trend"]
    for row in rows[1:3]:
        assert row["with"]["far"]["rmse"] < 20.0 < 1e3 < row["without"]["far"]["rmse"]


def test_without_bounds_values_stay_as_they_are() -> None:
    X = np.array([[-1e300, 0.0], [1e9, np.nan]])
    assert far_values.unbounded(X).apply(X) is X
