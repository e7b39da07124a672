"""The code of the guide's pages that say it runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probprop import Candidate, PBPRegressor, PBPRegressorCV, load

GUIDE = Path(__file__).parents[1] / "docs" / "guide"


def run_page(name: str) -> dict[str, Any]:
    """Run the blocks of a page one after another, and return what they leave."""
    page = GUIDE / name
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    left: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), left)
    return left


@pytest.mark.filterwarnings("ignore:In .* weight updates undone:RuntimeWarning")
def test_classification() -> None:
    left = run_page("classification.md")
    assert left["model"].score(left["X_test"], left["y_test"]) > 0.95
    assert left["tags"].predict(left["X_many"][300:]).shape == (100, 4)


def test_uncertain_inputs() -> None:
    left = run_page("uncertain-inputs.md")
    X_test, y_test = left["X_test"], left["y_test"]
    wide = left["model"].predict_distribution(X_test, X_std=0.02)
    assert (wide.std > left["model"].predict(X_test, return_std=True)[1]).all()
    rows = np.isnan(left["holed"][342:]).any(axis=1)
    predicted = left["marginalizing"].predict_distribution
    known, holed = predicted(X_test), predicted(left["holed"][342:])
    assert (holed.epistemic_std[rows] > known.epistemic_std[rows]).mean() > 0.9
    # What is there stays, what was drawn has a spread.
    there = ~np.isnan(left["holed"])
    assert_allclose(left["filled"][there], left["holed"][there])
    assert (left["filled_std"][~there] > 0.0).all()
    assert left["filled_std"][there].max() < 1e-12
    assert np.corrcoef(left["mean"], y_test)[0, 1] > 0.6


def test_noise() -> None:
    left = run_page("noise.md")
    truth = [0.22, 1.18]
    assert_allclose(left["predicted"].aleatoric_std, truth, rtol=0.15)
    assert_allclose(left["predicted"].aleatoric_std, [0.21, 1.10], atol=0.02)  # as the page says
    constant = PBPRegressor(random_state=0).fit(left["X"], left["y"])
    assert np.sqrt(constant.noise_variance_) == pytest.approx(0.78, abs=0.02)
    far = left["model"].predict_distribution([[20.0], [40.0], [-10.0]]).aleatoric_std
    assert_allclose(far, [2.4, 11.0, 0.003], rtol=0.3)
    X, error, z = left["X"], left["error"], left["z"]
    robust, plain = (left["rmse"](left["truth"], left[k].predict(X)) for k in ("robust", "plain"))
    assert_allclose([robust, plain], [0.13, 0.49], atol=0.03)
    known, unknown = (
        PBPRegressor(noise="input", random_state=0).fit(X, z, y_std=e) for e in (error, None)
    )
    new = [[1.0], [9.0]]
    assert_array_equal(left["known"].predict(X), known.predict(X))
    assert_allclose(known.predict_distribution(new).aleatoric_std, truth, rtol=0.25)
    assert_allclose(known.predict_distribution(new).aleatoric_std, [0.25, 1.06], atol=0.05)
    assert_allclose(unknown.predict_distribution(new).aleatoric_std, [1.0, 1.5], atol=0.1)


def test_several_targets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    left = run_page("several-targets.md")
    X, y, predicted = left["X"], left["y"], left["predicted"]
    for found in (left["mean"], left["std"], predicted.epistemic_std, predicted.logpdf(y)):
        assert found.shape == (20, 3)
    assert left["model"].noise_variance_.shape == (3,)
    assert predicted.aleatoric_std.shape == (20, 3)
    assert_array_equal(load(tmp_path / "linnerud.pbp").predict(X), left["model"].predict(X))


def test_out_of_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    x = np.linspace(0.0, 1.0, 200)
    pd.DataFrame({"x": x, "price": 3.0 * x}).to_parquet("data/homes.parquet")
    left = run_page("out-of-core.md")
    assert left["model"].n_samples_seen_ == 200
    assert left["model"].feature_names_in_.tolist() == ["x"]
    assert sum(len(y) for _, y in left["years"]()) == 5000


def test_a_posterior_by_hand() -> None:
    left = run_page("../developer.md")
    assert left["info"].n_points == 1
    assert (left["after"].m_w[0] != left["posterior"].m_w[0]).any()


def test_weights() -> None:
    left = run_page("weights.md")
    assert_allclose(left["of_one"], 0.5, rtol=0.15)
    assert left["n_measured"].mean() == pytest.approx(7.3, abs=0.05)  # as the page says
    assert_allclose(left["at_mean"], left["of_one"] / np.sqrt(7.3), rtol=0.01)
    assert left["log_model"].noise_variance_ == pytest.approx(left["known"].noise_variance_)
    assert left["known"].noise_variance_ == pytest.approx(left["model"].noise_variance_, rel=0.3)
    assert left["classifier"].classes_.tolist() == ["rare", "usual"]


def test_encoding() -> None:
    left = run_page("encoding.md")
    assert left["names"].tolist()[:3] == ["age", "sex", "age from 19 to 38"]
    assert left["search"].best_params_ == {"piecewiselinearencoder": "passthrough"}
    scores = left["search"].cv_results_["mean_test_score"]
    assert_allclose(scores, [-5.42, -5.45, -5.46], atol=0.02)  # as the page says
    assert np.corrcoef(left["mean"], left["y_test"])[0, 1] > 0.5


@pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
def test_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    left = run_page("best.md")
    model, y = left["model"], left["y"]
    out = capsys.readouterr().out
    assert out.count("Candidate(") == len(model.trials_) == 2
    assert_array_equal(load("diabetes.pbp").predict(left["X"][400:]), left["mean"])
    assert left["at"].dmean_dX.shape == (42, 10)
    assert np.corrcoef(left["mean"], y[400:])[0, 1] > 0.6
    held = (left["lower"] <= y[400:]) & (y[400:] <= left["upper"])
    assert held.mean() > 0.85
    assert 45.0 < np.sqrt(np.mean(left["residuals"] ** 2)) < 65.0
    assert left["mine"].groups_[0].candidate in left["mine"].candidates
    assert left["model"].calibration_.transformation is None  # as the page says
    assert (left["low"] > 0.0).all()


def test_what_if(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2", reason="the report needs the extra cli")
    monkeypatch.chdir(tmp_path)
    left = run_page("what-if.md")
    text = Path("diabetes.html").read_text()
    assert text == left["report"].html
    assert 'id="what-if"' in text
    assert "Predicting target" in text


def test_saving(tmp_path: Path) -> None:
    """Files are as large as the page says, on rows that decide nothing about that."""
    page = " ".join((GUIDE / "saving.md").read_text(encoding="utf-8").split())
    (kilobytes,) = re.findall(r"50 hidden units on 10 features takes about (\d+) kB", page)
    (megabytes,) = re.findall(
        r"32 bins for each of 13 features, five networks take about (\d+) MB", page
    )
    X = np.random.default_rng(0).standard_normal((200, 13))
    y = X[:, 0] + X[:, 1] ** 2
    at = tmp_path / "one.ckpt"
    sizes: list[int] = []
    PBPRegressor(random_state=0).fit(
        X[:, :10], y, checkpoint=at, callback=lambda _: bool(sizes.append(at.stat().st_size))
    ).save(tmp_path / "one.pbp")
    one = (tmp_path / "one.pbp").stat().st_size
    assert one == pytest.approx(1e3 * float(kilobytes), rel=0.05)
    assert max(sizes) == pytest.approx(one, rel=0.2)
    five = PBPRegressorCV(candidates=[Candidate(32, (50, 50), 10.0)], budget="fast", random_state=0)
    five.fit(X, y).save(tmp_path / "five.pbp")
    assert len(five.estimators_) == 5
    size = (tmp_path / "five.pbp").stat().st_size
    assert size == pytest.approx(1e6 * float(megabytes), rel=0.1)


def test_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    left = run_page("../getting-started.md")
    assert left["cost"] < left["cost_by_mean"]
    assert left["scores"]["rmse"] == pytest.approx(280.0, abs=15.0)


def test_tables() -> None:
    left = run_page("tables.md")
    columns = left["model"].columns_.set_index("column")
    assert columns.loc["year", "encoding"] == columns.loc["species", "encoding"] == "one-hot"
    assert columns.loc["sex", "missing"] == 9
    assert (left["std"] > 100.0).all()


def test_decisions() -> None:
    """The page has the assertion itself; this holds the figures in its comment."""
    left = run_page("decisions.md")
    cost = left["cost"]
    assert cost(left["order"]) == pytest.approx(30.4, abs=1.5)
    assert cost(left["mean"]) == pytest.approx(34.8, abs=1.5)
    assert cost(left["boxes"]) < cost(left["mean"])


def test_packages() -> None:
    pytest.importorskip("mapie", reason="MAPIE is not installed")
    left = run_page("../packages.md")
    y, X = left["y_test"], left["X_test"]
    conformal = left["intervals"][:, :, 0]
    ours = left["model"].predict_interval(X, coverage=0.9)
    for low, high in (conformal.T, ours.T):
        assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.92, abs=0.03)
    assert np.diff(conformal).mean() / np.diff(ours).mean() == pytest.approx(1.05, abs=0.06)
