"""The page predicts what `probprop predict` does: every kind of model, 100 rows, in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from browser import NEEDS_CHROMIUM, Browser
from live_models import FEATURES, MODELS, fitted, new_rows, write_page
from probprop.cli.application import run
from probprop.distributions.base import frame_columns
from probprop.estimators.kind import networks_of
from probprop.table import TableModel

pytestmark = NEEDS_CHROMIUM

# Weights of single precision are computed with in double precision in the page.
RTOL = {"float64": 1e-9, "float32": 2e-6}


def cells_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as the page takes them: null where something is missing."""
    given = frame[FEATURES].astype(object)
    return [
        {k: None if pd.isna(v) else v for k, v in row.items()} for row in given.to_dict("records")
    ]


def answers(browser: Browser, page: Path, rows: pd.DataFrame) -> list[list[dict[str, Any]]]:
    browser.open(page)
    browser.evaluate("whatIfReady")
    given = json.dumps(cells_of(rows))
    found: list[list[dict[str, Any]]] = browser.evaluate(
        f"{given}.map((row) => whatIf.predict(row))"
    )
    return found


def predicted(model: TableModel, rows: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """What the command writes, with all digits."""
    model.save(folder / "model.pbp")
    rows[FEATURES].to_csv(folder / "rows.csv", index=False)
    names = [folder / "model.pbp", folder / "rows.csv", "-o", folder / "predicted.parquet"]
    assert run(["--quiet", "predict", *map(str, names)]) == 0
    return pd.read_parquet(folder / "predicted.parquet")


@pytest.mark.parametrize("name", MODELS)
def test_the_page_shows_what_predict_writes(browser: Browser, tmp_path: Path, name: str) -> None:
    model, page = fitted(name), write_page(tmp_path / "page.html", name)
    rows = new_rows(model)
    assert len(rows) == 100
    found, expected = answers(browser, page, rows), predicted(model, rows, tmp_path)
    rtol = RTOL[str(networks_of(model.estimator)[0].posterior_.dtype)]
    if model.classes is not None:
        proba = np.array([row["proba"] for [row] in found])
        wanted = expected[[f"p_{name}" for name in model.classes]]
        np.testing.assert_allclose(proba, wanted, rtol=0, atol=rtol)
        of_rows: Any = model.predict_distribution(rows)
        for part in ("entropy", "entropy_model", "entropy_noise"):
            got = [row[part] for [row] in found]
            np.testing.assert_allclose(got, getattr(of_rows, part), rtol=0, atol=rtol, err_msg=part)
        return
    n = len(frame_columns(["y"]))
    names = frame_columns(model.targets)
    for k, target in enumerate(model.targets):
        own = dict(zip(frame_columns(["y"]), names[n * k : n * (k + 1)], strict=True))
        std = expected[own["std"]].to_numpy()
        for part, column in own.items():
            got = np.array([row[k][part] for row in found])
            # Means and ends of intervals may be near 0.
            scale = np.maximum(np.abs(expected[column]), 0.0 if part.endswith("std") else std)
            worst = np.max(np.abs(got - expected[column]) / scale)
            assert worst < rtol, f"{part} of {target}"


@pytest.mark.parametrize("name", ["cv, learned shape", "cv, learned shape, root"])
def test_the_density_of_a_learned_shape(browser: Browser, tmp_path: Path, name: str) -> None:
    model, page = fitted(name), write_page(tmp_path / "page.html", name)
    row = new_rows(model)[30:31]
    p: Any = model.predict_distribution(row)
    y = np.concatenate([[39.0, 40.0], *(p.ppf(q) for q in (1e-9, 0.1, 0.4, 0.7, 1.0 - 1e-9))])
    browser.open(page)
    browser.evaluate("whatIfReady")
    cells = json.dumps(list(cells_of(row)[0].values()))
    given = f"whatIf.page.model.predict([{cells}])[0][0]"
    found = browser.evaluate(
        f"{json.dumps(y.tolist())}.map((y) => {{const p = {given}; return [p.pdf(y), p.cdf(y)]}})"
    )
    pdf, cdf = np.array(found).T
    np.testing.assert_allclose(pdf, p.pdf(y), rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(cdf, p.cdf(y), rtol=1e-4)


def test_no_kind_of_model_is_left_out() -> None:
    kinds = {type(estimator).__name__ for _, estimator in MODELS.values()}
    assert kinds == {
        "PBPRegressor",
        "PBPClassifier",
        "PBPRegressorCV",
        "PBPClassifierCV",
    }
    cv: Any = {name: fitted(name).estimator for name in MODELS if name.startswith("cv")}
    assert any(g.encoding is not None for m in cv.values() for g in m.groups_)
    calibrations = [m.calibration_ for m in cv.values()]
    assert any(getattr(c, "noise", None) is not None for c in calibrations)
    for name in ("cv, learned shape", "cv, learned shape, root"):
        assert len(cv[name].calibration_.recalibration.cells)
    assert {getattr(c.transformation, "power", 1) for c in calibrations if hasattr(c, "noise")} == {
        0.0,
        0.5,
        1,
    }
