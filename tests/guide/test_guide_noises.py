"""The figures of the page on noise, on few splits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.guide import noises

from probprop import PBPRegressor, metrics


def made_split(name: str, split: int) -> tuple[np.ndarray, ...]:
    X, y, _ = noises.trumpet(300, split)
    return X[:200], y[:200], X[200:], y[200:]


def test_the_rows_match_the_page() -> None:
    rng = np.random.default_rng(0)
    X, y, truth = noises.trumpet(1000, 0)
    np.testing.assert_array_equal(X, rng.uniform(0.0, 10.0, (1000, 1)))
    noise = (y - truth) / (0.1 + 0.12 * X[:, 0])
    np.testing.assert_allclose(noise, rng.standard_normal(1000), rtol=1e-9, atol=1e-12)


def test_outliers_are_in_the_training_set_only() -> None:
    found = noises.tails(made_split("yacht", 0), 0)
    X, y, X_test, y_test = made_split("", 0)
    clean = PBPRegressor(noise_tail="heavy", random_state=0).fit(X, y).predict(X_test)
    assert found["heavy"]["rmse"] == metrics.rmse(y_test, clean)
    assert found["gaussian"]["rmse_outliers"] > 2.0 * found["heavy"]["rmse_outliers"]
    assert found["gaussian"]["rmse_outliers"] > 1.5 > found["gaussian"]["rmse"] / y.std()


def test_noises_write_their_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--sets", "yacht", "--splits", "2", "--repeats", "1", "--pairs", "3"]
    noises.main([*few, "--results", str(tmp_path)], made_split)
    printed = capsys.readouterr().out
    for name in ("held", "motorcycle", "tails", "outliers", "cost"):
        assert (tmp_path / f"noises_{name}.md").read_text() in printed
    found = json.loads((tmp_path / "noises.json").read_text())
    constant, own = (found["held"][noise] for noise in noises.NOISES)
    assert constant["quarter 1"] > 0.98 > 0.9 > constant["quarter 4"]
    assert all(0.92 < share < 0.98 for share in own.values())
    ways = found["motorcycle"]
    assert ways["constant"] < ways["input"] < ways["passes"]
    widths = [found["outliers"][name]["width"] for name in ("without", "heavy", "gaussian")]
    assert widths[0] < 0.7 * widths[1] < 0.7 * widths[2]
    assert found["prediction"] > 1.0
