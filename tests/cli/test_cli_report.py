"""`probprop report`, and the what-if page of the other commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from browser import NEEDS_CHROMIUM, Browser
from cli_tables import call, write_homes
from limits import Limits

FIT = (
    "fit homes.csv --target price --drop id --fast --n-epochs 3 --hidden-layer-sizes 8 -q -o m.pbp"
)
PAGE, ROWS = 'id="what-if-model"', '"rows":{"cells"'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_homes(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_report_of_a_fit_has_the_page() -> None:
    assert call(f"{FIT} --report live.html") == 0
    text = Path("live.html").read_text()
    assert PAGE in text
    assert ROWS in text
    assert "Largest errors" in text
    assert call(f"{FIT} --report static.html --static") == 0
    assert "<script" not in Path("static.html").read_text()
    assert call(f"{FIT} --report none.html --no-rows") == 0
    text = Path("none.html").read_text()
    assert PAGE in text
    assert ROWS not in text
    assert '"counts"' not in text
    assert "Largest errors" not in text


def test_without_a_test_set_no_complete_row_is_in_it() -> None:
    assert call(f"{FIT} --test-fraction 0 --report all.html") == 0
    text = Path("all.html").read_text()
    assert ROWS not in text
    assert '"counts"' in text


def test_options_of_a_report_need_one(capfd: pytest.CaptureFixture[str]) -> None:
    assert call(f"{FIT} --no-rows") == 2
    assert "--no-rows: it needs a report: give --report FILE too" in capfd.readouterr().err


def test_report_writes_what_is_requested(capfd: pytest.CaptureFixture[str]) -> None:
    assert call(FIT) == 0
    assert call("report m.pbp sold.csv -o live.html") == 0
    assert "wrote live.html: 50 rows" in capfd.readouterr().err
    assert PAGE in Path("live.html").read_text()
    assert call("report m.pbp sold.csv --live --no-rows -o none.html") == 0
    assert ROWS not in Path("none.html").read_text()
    assert call("report m.pbp sold.csv --static -o static.html") == 0
    assert PAGE not in Path("static.html").read_text()
    assert call("evaluate m.pbp sold.csv -q --report scored.html") == 0
    assert PAGE in Path("scored.html").read_text()
    assert call("report m.pbp new.csv -o no-target.html") == 1
    assert not Path("no-target.html").exists()


def test_a_model_that_is_too_large_has_a_sentence_instead(limits: Limits) -> None:
    limits.numbers_in_a_page(10)
    assert call(FIT) == 0
    assert call("report m.pbp sold.csv -o r.html") == 0
    text = Path("r.html").read_text()
    assert "<script" not in text
    assert "This report has no what-if page: its networks have" in text


class TestInABrowser:
    pytestmark = NEEDS_CHROMIUM

    def test_the_page_of_a_fit_is_the_model_that_is_saved(
        self, browser: Browser, folder: Path
    ) -> None:
        assert call(f"{FIT} --report live.html") == 0  # which fits again on all rows
        assert call("predict m.pbp new.csv -q -o predicted.parquet") == 0
        predicted = pd.read_parquet("predicted.parquet")
        browser.open(folder / "live.html")
        browser.evaluate("whatIfReady")
        cells = predicted[["city", "rooms", "area", "fixed"]].assign(new=predicted["new"] == "True")
        rows = cells.to_json(orient="records")
        found = browser.evaluate(f"{rows}.map((row) => whatIf.predict(row)[0].mean)")
        np.testing.assert_allclose(found, predicted["mean"], rtol=1e-9)
        assert browser.said() == []


# ---- A report that fails leaves the model


def fail_to_write(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("probprop.report.whole.save_html", fails)


@pytest.mark.parametrize("options", ["", "--test-fraction 0", "--static"])
def test_a_report_that_fails_leaves_the_model(
    options: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fail_to_write(monkeypatch, ValueError("this report cannot be written"))
    line = FIT.replace(" -q", "")
    assert call(f"{line} {options} --report live.html") == 1
    err = capfd.readouterr().err
    assert err.index("wrote m.pbp: ") < err.index("error: this report cannot be written")
    assert call("predict m.pbp new.csv -q -o predicted.csv") == 0
    rows = 500 if options == "--test-fraction 0" else 450
    assert f"wrote m.pbp: {rows} rows" in err


def test_ctrl_c_in_the_report_leaves_the_model(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fail_to_write(monkeypatch, KeyboardInterrupt())
    assert call(f"{FIT} --report live.html") == 130
    assert capfd.readouterr().err == "error: interrupted; every file is complete or as it was\n"
    assert call("predict m.pbp new.csv -q -o predicted.csv") == 0
    assert not Path("live.html").exists()


def test_scores_that_fail_leave_the_model(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no scores")

    monkeypatch.setattr("probprop.cli.judging.judge", fails)
    assert call(f"{FIT.replace(' -q', '')}") == 1
    assert "no scores" in capfd.readouterr().err
    assert call("predict m.pbp new.csv -q -o predicted.csv") == 0


def test_columns_that_hardly_say_anything_do_no_harm(capfd: pytest.CaptureFixture[str]) -> None:
    """Constant except for rounding, a replaced sensor, a single value: a model and its report."""
    rng = np.random.RandomState(0)
    x, shares = rng.standard_normal(120), rng.dirichlet([1.0, 1.0, 1.0], 120)
    frame = pd.DataFrame(
        {
            "x": x,
            "total": shares.sum(axis=1),
            "third": np.where(rng.uniform(size=120) < 0.5, 0.3, 0.1 + 0.2),
            "large": 1e17,
            "old": np.where(np.arange(120) < 60, x, np.nan),
            "rare": np.where(np.arange(120) == 7, 3.0, np.nan),
            "y": x + 0.1 * rng.standard_normal(120),
        }
    )
    frame.to_csv("rows.csv", index=False)
    other = frame.assign(total=2.5, third=1e9, large=-1.0).drop(columns="y")
    other.to_csv("other.csv", index=False)
    frame.drop(columns="y").to_csv("same.csv", index=False)
    for options in ("--budget fast", "--fast --n-epochs 3"):
        line = f"fit rows.csv --target y {options} --report r.html -q -o own.pbp"
        assert call(line) == 0, capfd.readouterr().err
        assert PAGE in Path("r.html").read_text()
        assert call("predict own.pbp same.csv -q -o same_out.csv") == 0
        if "budget" in options:  # one network takes such a column as the paper does
            assert call("predict own.pbp other.csv -q -o other_out.csv") == 0
            means = [pd.read_csv(f"{k}_out.csv")["mean"] for k in ("same", "other")]
            np.testing.assert_allclose(*means, rtol=1e-3, atol=1e-3)
