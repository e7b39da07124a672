"""The command on positive targets with a Box-Cox model: scores, rows left out, and digits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="the command needs the extra cli")

from cli_tables import call
from limits import Limits
from probprop import Candidate, PBPRegressorCV, load
from probprop.table import fit_table_model

Captured = pytest.CaptureFixture[str]


def rates(n: int) -> pd.DataFrame:
    """Rates whose logarithm has a standard deviation of 5 about its mean."""
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"amount": rng.standard_normal(n), "term": rng.uniform(1.0, 9.0, n)})
    return frame.assign(rate=np.exp(frame["amount"] + 5.0 * rng.standard_normal(n)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    estimator = PBPRegressorCV(
        candidates=[Candidate(None, (4,), power=0.0)], cv=2, budget="fast", random_state=0
    )
    path = tmp_path_factory.mktemp("rates") / "rates.pbp"
    fit_table_model(rates(120), "rate", estimator=estimator).save(path)
    return path


@pytest.fixture(autouse=True)
def in_folder(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rates.pbp").write_bytes(saved.read_bytes())
    frame = rates(160)[120:].reset_index(drop=True)
    frame.loc[3, "amount"] = 40.0  # standard deviations
    frame.loc[[4, 10], "rate"] = [0.0, -2.5]
    frame.to_csv("new.csv", index=False)


def evaluated(capfd: Captured) -> dict[str, Any]:
    assert call("evaluate rates.pbp new.csv --json") == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def test_evaluate_gives_every_score_and_names_the_rows_left_out(
    capfd: Captured, limits: Limits
) -> None:
    found = evaluated(capfd)
    assert found["left_out"] == {"log_likelihood": {"n": 2, "first_rows": [5, 11]}}
    frame = pd.read_csv("new.csv")
    p = load("rates.pbp").predict_distribution(frame)
    y, known = frame["rate"].to_numpy(), frame["rate"].to_numpy() > 0.0
    assert found["log_likelihood"] == pytest.approx(p.logpdf(y)[known].mean())
    for name in ("rmse", "mae", "r2", "crps", "coverage_50", "coverage_95", "log_likelihood"):
        assert np.isfinite([found[name], found["baseline"][name]]).all()
    lower, upper = p.interval(0.95)
    assert found["coverage_95"] == pytest.approx(np.mean((lower <= y) & (y <= upper)))
    assert call("evaluate rates.pbp new.csv --report r.html") == 0
    out, err = capfd.readouterr()
    words = "the log-likelihood leaves out 2 rows whose target has density 0: 5, 11"
    assert f"note: {words}" in err
    assert re.search(r"measure +value +baseline\n", out)
    names = ["RMSE", "MAE", "R²", "log-likelihood", "CRPS", "inside 50 %", "inside 95 %"]
    for name in names:
        assert re.search(rf"(?m)^{name}.* +[-\d.,e+]+( %)? +[-\d.,e+]+( %)?$", out), (name, out)
    page = Path("r.html").read_text()
    assert "density 0: 5, 11" in page
    assert all(f"<td>{name}" in page or f">{name}<" in page for name in ("MAE", "R²", "CRPS"))
    limits.chunks_of(7)
    parts = evaluated(capfd)
    assert parts.pop("left_out") == found.pop("left_out")
    verdicts = [one.pop("verdict") for one in (parts, found)]
    scales = [verdict["all_rows"]["scale"] for verdict in verdicts]
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)
    assert verdicts[0]["calibrated"] == verdicts[1]["calibrated"]
    assert parts.pop("baseline") == pytest.approx(found.pop("baseline"))
    # The noise network is of single precision, and exp(variance/2) multiplies its rounding.
    assert parts == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize("output", ["out.csv", "out.tsv", None])
def test_every_prediction_can_be_read_back_to_four_digits(
    output: str | None, capfd: Captured
) -> None:
    destination = "" if output is None else f"-o {output} "
    assert call(f"predict rates.pbp new.csv {destination}--quiet") == 0
    if output is None:
        Path("out.csv").write_text(capfd.readouterr().out)
    path = output or "out.csv"
    written = pd.read_csv(path, sep="\t" if path.endswith("tsv") else ",")
    exact = load("rates.pbp").predict_distribution(pd.read_csv("new.csv")).to_frame()
    assert (exact["std"] > 1e3 * exact["lower"]).all()  # whose digits differ from the std's
    for name in exact:
        np.testing.assert_allclose(written[name], exact[name], rtol=5.1e-4)
        assert np.isfinite(written[name]).all()
    assert (written["lower"] > 0.0).all()


def test_a_far_row_has_a_mean_and_a_std_of_the_scale_of_its_interval() -> None:
    p = load("rates.pbp").predict_distribution(pd.read_csv("new.csv"))
    lower, upper = p.interval(0.9999)
    assert (p.mean <= upper).all()
    assert (p.std <= upper - lower).all()
