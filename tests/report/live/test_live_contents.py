"""What a what-if page holds of someone's rows, and how large it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

from browser import NEEDS_CHROMIUM, Browser
from live_browser import open_page, shown
from live_models import FEATURES, table, write_page
from probprop import PBPRegressor, PBPRegressorCV
from probprop.estimators.cv.policy import Candidate
from probprop.report import write_report
from probprop.report.live import live_page
from probprop.table import fit_table_model

pytestmark = NEEDS_CHROMIUM


def test_without_rows_there_is_no_row_in_it(browser: Browser, tmp_path: Path) -> None:
    page = write_page(tmp_path / "none.html", "cv, ramps", rows=None, train=None)
    open_page(browser, page)
    assert browser.evaluate("whatIf.page.model.rows") is None
    assert browser.evaluate("whatIf.page.columns.every((column) => !column.counts)")
    assert browser.evaluate("document.querySelectorAll('.wi-point, .wi-rows').length") == 0
    assert np.isfinite(shown(browser)["mean"])
    assert browser.said() == []


def test_training_rows_are_in_it_only_as_summaries(tmp_path: Path) -> None:
    page = write_page(tmp_path / "summaries.html", "one network", rows=None)
    whole = write_page(tmp_path / "whole.html", "one network")
    days = table()["sold"].dropna()[:300].str[:16]
    assert sum(day in page.read_text() for day in days) <= 5  # quantiles
    assert sum(day in whole.read_text() for day in table()["sold"].dropna()[320:].str[:16]) > 50


def test_a_model_of_50_units_is_below_a_megabyte(tmp_path: Path) -> None:
    frame = table()
    estimator = PBPRegressor((50,), n_epochs=2, missing="marginalize")
    model = fit_table_model(frame, "price", features=FEATURES, estimator=estimator)
    write_report(tmp_path / "50.html", "Size", [], live_page(model, rows=frame, train=frame))
    assert (tmp_path / "50.html").stat().st_size < 1_000_000


def test_five_networks_on_ramps_are_as_large_as_the_guide_says(tmp_path: Path) -> None:
    X, y = make_friedman1(600, 10, noise=1.0, random_state=0)
    frame = pd.DataFrame(X).rename(columns=str).assign(y=y)
    estimator = PBPRegressorCV(candidates=[Candidate(n_bins=32)], budget="fast", random_state=0)
    model = fit_table_model(frame[:400], "y", estimator=estimator)
    networks = model.estimator.estimators_
    assert [len(networks), networks[0].n_features_in_] == [5, 330]
    page = live_page(model, rows=frame[400:], train=frame[:400])
    write_report(tmp_path / "five.html", "Five networks", [], page)
    assert (tmp_path / "five.html").stat().st_size == pytest.approx(0.95e6, rel=0.15)
