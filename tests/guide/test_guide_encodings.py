"""The figures of the page on encodings, on few rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.guide import encodings
from benchmarks.markdown import best_bold
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from made_splits import Parts, sharp
from probprop import PBPRegressor, PiecewiseLinearEncoder, metrics


def made_split(name: str, split: int) -> Parts:
    return sharp(split, 200, 100)


def test_hats_are_appended_to_the_columns_at_the_knots_of_the_ramps() -> None:
    X = made_split("", 0)[0]
    encoder = encodings.encoder_of("hats", 8, X)
    hats = encoder.fit_transform(X)
    assert_array_equal(hats[:, :2], X)
    assert hats.shape == (200, 2 + 9)  # none for two values
    assert_allclose(hats[:, 2:].sum(axis=1), 1.0)
    (knots, none) = PiecewiseLinearEncoder(8).fit(X).knots_
    assert len(none) == 0
    at = encoder.transform(np.column_stack([knots, np.zeros(9)]))
    assert_allclose(at[:, 2:], np.eye(9), atol=1e-12)


def test_a_row_is_what_the_pipeline_predicts() -> None:
    found = encodings.evaluate("wine_red", 3, "ramps", 8, 10.0, made_split)
    X, y, X_test, y_test = made_split("", 3)
    model = make_pipeline(
        PiecewiseLinearEncoder(8), PBPRegressor(evidence_cap=10.0, random_state=3)
    )
    mean = model.fit(X, y).predict(X_test)
    assert found["rmse"] == metrics.rmse(y_test, mean)
    assert found["inputs"] == 2 + 8


def test_encodings_write_their_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--sets", "boston_housing", "wine_red", "--splits", "2"]
    encodings.main([*few, "--results", str(tmp_path)], made_split)
    printed = capsys.readouterr().out
    for name in ("encodings_sets", "encodings_evidence_cap", "encodings_diabetes"):
        assert (tmp_path / f"{name}.md").read_text() in printed
    lines = (tmp_path / "encodings.jsonl").read_text().splitlines()
    assert len(lines) == 2 * 2 * (3 + 3 * 2) + 5 * 3
    rows = encodings.rows_of(
        tmp_path / "encodings.jsonl",
        encodings.cases({"boston_housing": 2, "wine_red": 2}),
        encodings.evaluate,
    )
    columns, ramps = (
        encodings._values(rows, "rmse", dataset="wine_red", encoding=encoding, evidence_cap=None)
        for encoding in ("columns", "ramps")
    )
    assert np.mean(ramps) < 0.8 * np.mean(columns)
    (line,) = [line for line in printed.splitlines() if line.startswith("| wine_red |")]
    assert line.split("|")[2] == f" {np.mean(columns):.3f} "
    assert line.split("|")[3].strip(" *") == f"{np.mean(ramps):.3f}"
    assert "| wine_red (2) |" in printed
    assert "make −5.4" in printed  # diabetes itself, as it is in the page


def test_the_best_is_bold_as_it_is_printed() -> None:
    assert best_bold(["−1.63", "−1.59", "−1.59"], max) == ["−1.63", "**−1.59**", "**−1.59**"]
    assert best_bold(["0.0060", "0.0010"], min) == ["0.0060", "**0.0010**"]
