"""Columns of more than 1,000 categories: the search may choose their mean target as an input."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probprop
from browser import NEEDS_CHROMIUM, Browser
from probprop import Candidate, PBPClassifierCV, PBPRegressorCV, metrics
from probprop.table import TableEncoder, fit_table_model

N, N_SHOPS = 4_400, 1_100
RNG = np.random.default_rng(0)
SHOP = RNG.permutation(np.arange(N) % N_SHOPS)  # four rows each: all levels are pooled
EFFECT = RNG.normal(size=N_SHOPS)
FRAME = pd.DataFrame({"x": RNG.normal(size=N), "shop": [f"s{k}" for k in SHOP]})
Y = (FRAME["x"] + 3.0 * EFFECT[SHOP] + 0.3 * RNG.normal(size=N)).to_numpy()
PLAIN, MEANS = Candidate(4, 5), Candidate(4, 5, codes=True)


def small(*candidates: Candidate, kind: Any = PBPRegressorCV, **options: Any) -> Any:
    given = {"cv": 2, "budget": "fast", "random_state": 0, **options}
    return kind(candidates=list(candidates or (PLAIN, MEANS)), **given)


@pytest.fixture(scope="module")
def model() -> PBPRegressorCV:
    return small().fit(FRAME, Y)


def test_means_are_never_over_the_sample_itself() -> None:
    before = TableEncoder().fit_transform(FRAME, Y)
    for i in (0, 17):
        after = TableEncoder().fit_transform(FRAME, np.where(np.arange(N) == i, 1e6, Y))
        assert abs(after[i, -1] - before[i, -1]) < 500.0  # by the mean of all samples
        assert (np.abs(after[:, -1] - before[:, -1]) > 500.0).sum() > 0
    assert np.corrcoef(before[:, -1], EFFECT[SHOP])[0, 1] > 0.9


def test_means_of_new_samples() -> None:
    encoder = TableEncoder().fit(FRAME, Y)
    assert encoder.names == ["x", "shop=(other)", "shop.mean"]
    how = encoder.columns_["encoding"][1]
    assert how == "one-hot, rare levels pooled, mean target"
    new = pd.DataFrame({"x": 0.0, "shop": ["s3", "never", None]})
    found = encoder.transform(new)[:, -1]
    own = Y[SHOP == 3].mean()
    assert min(own, Y.mean()) < found[0] < max(own, Y.mean())
    assert abs(found[0] - own) < 0.2
    assert_allclose(found[1:], Y.mean())
    assert TableEncoder().fit(FRAME).dropped == [
        "dropped 'shop': its 1,100 distinct values are all rare"
    ]


def test_the_search_chooses(model: PBPRegressorCV) -> None:
    assert model.groups_[0].candidate == MEANS
    noise = RNG.permutation(FRAME["shop"])
    other = small().fit(FRAME.assign(shop=noise), Y)
    scores = {t.candidate: t.best[1] for t in other.trials_}
    assert scores[MEANS] < scores[PLAIN] + 0.01
    fresh = pd.DataFrame({"x": RNG.normal(size=N_SHOPS), "shop": [f"s{k}" for k in range(N_SHOPS)]})
    error = model.predict(fresh) - fresh["x"] - 3.0 * EFFECT
    assert np.std(error) < 0.8


def test_classes() -> None:
    label = np.where(np.median(Y) < Y, "dear", "cheap")
    found = small(kind=PBPClassifierCV).fit(FRAME, label)
    assert found.groups_[0].candidate == MEANS
    assert found.score(FRAME, label) > 0.85


def test_folds_that_keep_samples_apart_do_without() -> None:
    """Means over random other samples would be over samples of the same group, or of the future."""
    splits = [(np.arange(N // 2), np.arange(N // 2, N))]
    for options, given in ((({"groups": np.arange(N) // 2}), {}), ({}, {"cv": splits})):
        found = small(**given).fit(FRAME, Y, **options)
        moved = FRAME.assign(shop="s3")
        assert_allclose(found.predict(moved), found.predict(FRAME), atol=1e-6)


def test_both_doors_files_and_updates(model: PBPRegressorCV, tmp_path: Path) -> None:
    expected = model.predict(FRAME)
    whole = fit_table_model(FRAME.assign(y=Y), "y", estimator=small())
    assert_array_equal(whole.predict(FRAME), expected)
    for k, own in enumerate((model, whole)):
        own.save(tmp_path / f"{k}.pbp")
        assert_array_equal(probprop.load(tmp_path / f"{k}.pbp").predict(FRAME), expected)
    again = pickle.loads(pickle.dumps(model)).partial_fit(FRAME[:9], Y[:9])
    assert (again.predict(FRAME) != expected).any()


def test_reports_and_importance_are_out_of_fold(model: PBPRegressorCV) -> None:
    rows = model.oof_rows_
    [found] = metrics.permutation_importance(
        model, FRAME.iloc[rows], Y[rows], n_repeats=1, out_of_fold=True
    )
    assert found.names == ("shop", "x")
    pytest.importorskip("jinja2", reason="the report needs the extra cli")
    assert "out-of-fold samples" in probprop.report(model, FRAME, Y).html


@NEEDS_CHROMIUM[0]
@NEEDS_CHROMIUM[1]
def test_the_page_knows_the_means(model: PBPRegressorCV, browser: Browser, tmp_path: Path) -> None:
    probprop.report(model, FRAME, Y, tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.evaluate("whatIfReady")
    given = [{"x": 0.5, "shop": "s3"}, {"x": 0.5, "shop": "never"}, {"x": -1.0, "shop": None}]
    found = browser.evaluate(f"{json.dumps(given)}.map((row) => whatIf.predict(row)[0].mean)")
    assert_allclose(found, model.predict(pd.DataFrame(given)), rtol=1e-5)
    assert browser.said() == []
