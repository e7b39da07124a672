"""The figures on bases of the encoding, on few rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.guide import bases
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold

from made_splits import Parts, sharp
from probprop import PBPRegressor, PiecewiseLinearEncoder
from probprop.encoding.piecewise import fit_piecewise


def made(dataset: str, split: int, n: int, folder: Path | None) -> Parts:
    return sharp(len(dataset), 100, 50)


def test_hats_are_a_hierarchy_of_halves() -> None:
    hats = bases.hats_at(8)
    assert_array_equal(np.count_nonzero(hats, axis=0), [7, 3, 3, 1, 1, 1, 1])
    assert_allclose(hats.max(axis=0) ** 2, [1.0, 0.5, 0.5, *[0.25] * 4])
    inside = 0.5 * (hats[1:] + hats[:-1])
    assert_array_equal(np.count_nonzero(inside, axis=1), 3)  # one of each level
    # With independent weights, and a line, they are Brownian motion at the knots.
    t = np.arange(9) / 8
    brownian = np.minimum.outer(t, t)
    assert_allclose(np.outer(t, t) + 0.25 * hats @ hats.T, brownian, atol=1e-12)
    assert bases.hats_at(1).shape == (2, 0)


@pytest.mark.parametrize("basis", ["ramps", "centered ramps", "hats", "columns"])
def test_what_networks_see(basis: str) -> None:
    X, _, X_test, _ = made("yacht", 0, 0, None)
    A = bases.encoder_of(basis, 8, X)(X_test)
    assert A.shape == (50, {"columns": 2, "hats": 2 + 7}.get(basis, 2 + 8))
    if basis == "ramps":
        assert_allclose(A, PiecewiseLinearEncoder(8).fit(X).transform(X_test), rtol=1e-6)
    else:
        center = X.mean(axis=0)
        assert_allclose(A[:, :2], (X_test - center) / X.std(axis=0), rtol=1e-5, atol=1e-6)
    if basis == "hats":
        knots = fit_piecewise(X, 8).knots[0][:, np.newaxis]
        at = bases.encoder_of(basis, 8, X)(np.hstack([knots, 0.0 * knots]))
        assert_allclose(at[:, 2:], bases.hats_at(8), atol=1e-6)


def test_a_row_is_what_networks_predict() -> None:
    form = {"basis": "columns", "n_bins": 0, "layers": 1, "units": 5, "start": "paper"}
    found = bases.evaluate("yacht", 0, 750, load=made, epochs=(2, 4), **form)
    X, y, X_test, y_test = made("yacht", 0, 0, None)
    A, A_test = ((rows - X.mean(axis=0)) / X.std(axis=0) for rows in (X, X_test))
    mean, std, tests = np.empty(100), np.empty(100), []
    for k, (train, test) in enumerate(KFold(5, shuffle=True, random_state=0).split(X)):
        center, scale = y[train].mean(), y[train].std()
        alone = PBPRegressor(
            5,
            n_epochs=found["epochs"],
            evidence_cap=10.0,
            standardize=False,
            dtype="float32",
            random_state=k,
        ).fit(A[train].astype(np.float32), (y[train] - center) / scale)
        mean[test], std[test] = alone.predict(A[test].astype(np.float32), return_std=True)
        mean[test], std[test] = scale * mean[test] + center, scale * std[test]
        tests.append(scale * alone.predict(A_test.astype(np.float32)) + center)
    assert_allclose(found["rmse"], np.sqrt(np.mean((y - mean) ** 2)), rtol=1e-4)
    assert_allclose(found["test_rmse"], np.sqrt(np.mean((y_test - tests) ** 2)), rtol=1e-4)
    variance = np.mean(((y - mean) / std) ** 2) * std**2
    log_p = -0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)
    assert_allclose(found["log_likelihood"], log_p.mean(), rtol=1e-4)
    assert max(found["scores"]) == round(found["log_likelihood"], 4)
    assert found["not_0"] == 1.0


def test_bases_write_their_page(tmp_path: Path, capsys: Any) -> None:
    arguments = ["--results", str(tmp_path), "--sets", "yacht", "energy", "--epochs", "2", "4"]
    bases.main(arguments, made)
    page = (tmp_path / "bases.md").read_text()
    assert page in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "bases.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * len(bases.forms())
    one = {"layers": 1, "basis": "ramps", "n_bins": 16, "units": 50, "start": "paper"}
    base = one | {"basis": "centered ramps", "n_bins": 32}
    gains = [
        a["log_likelihood"] - b["log_likelihood"]
        for a in rows
        for b in rows
        if a["dataset"] == b["dataset"] and one.items() <= a.items() and base.items() <= b.items()
    ]
    (line,) = [line for line in page.splitlines() if line.startswith("| 16 ramps, 50 |")]
    assert line.split("|")[2].split()[0] == f"{np.mean(gains):.3f}".replace("-", "−")
    more = ["--results", str(tmp_path), "--sets", "concrete", "--show"]
    bases.main(more, lambda *_: pytest.fail("it was measured"))
    assert (tmp_path / "bases.md").read_text() == page


def test_a_set_of_the_density_benchmark_needs_its_folder() -> None:
    with pytest.raises(ValueError, match=r"CalHousing .* give --density FOLDER"):
        bases.load("CalHousing", 0, 750, None)
    assert {case["dataset"] for case in bases.cases(None, ["CalHousing", "yacht"], 1)} == {"yacht"}
