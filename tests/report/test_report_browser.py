"""The report in a real browser."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from browser import BROKEN_IMAGES, NEEDS_CHROMIUM, TOO_WIDE, Browser, keep
from probprop import PBPRegressor

pytest.importorskip("jinja2", reason="the report needs the extra cli")
pytest.importorskip("matplotlib", reason="the report needs the extra cli")

from matplotlib.image import imread

from probprop.report import Section, figure, write_report
from report_sections import sections_of

HOSTILE = "<script>alert(1)</script> & \"quotes\" 'too' $x_{$"

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = load_diabetes(return_X_y=True)
    model = PBPRegressor(random_state=0).fit(X[:350], y[:350])
    names = load_diabetes().feature_names
    names[2] = HOSTILE  # the body mass index, which matters most and so is drawn
    sections = sections_of(
        model, X[350:], y[350:], feature_names=names, target="progression", held_out=True
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, "Disease progression", sections)
    return path


CHARTS = "document.querySelectorAll('img').length"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_loads_whole_and_quietly(
    browser: Browser, report: Path, width: int, dark: bool
) -> None:
    browser.open(report, width, dark=dark)
    assert browser.evaluate(CHARTS) >= 15
    assert browser.evaluate(BROKEN_IMAGES) == 0
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(TOO_WIDE) == []

    assert browser.said() == []
    assert browser.requests() == [report.as_uri()]

    shot = browser.screenshot()
    keep(f"report-{width}-{'dark' if dark else 'light'}.png", shot)
    assert shot.startswith(b"\x89PNG")


def test_markup_in_names_is_text(browser: Browser, report: Path) -> None:
    browser.open(report, 1280)
    assert browser.evaluate("document.scripts.length") == 0
    assert HOSTILE in browser.evaluate("document.body.textContent")
    texts = browser.evaluate("[...document.images].map(image => image.alt)")
    assert any(HOSTILE in text for text in texts)


def test_what_is_too_wide_does_not_widen_the_page(browser: Browser, tmp_path: Path) -> None:
    table = ([f"column {i}" for i in range(12)], [["1,234.5"] * 12])
    sections = [Section("n" * 80, "n" * 80, table), Section("S", table=([], [["a", "n" * 80]]))]
    path = tmp_path / "wide.html"
    write_report(path, "n" * 80, sections)
    browser.open(path, 390)
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    # The wide table can be scrolled to its end.
    assert browser.evaluate("document.querySelector('.scroll').scrollWidth") > 390


def test_prints_on_few_pages(browser: Browser, report: Path) -> None:
    browser.open(report, 1280)
    pdf = browser.pdf()
    keep("report.pdf", pdf)
    assert pdf.startswith(b"%PDF")
    assert 1 < pdf.count(b"/Type /Page\n") <= 6


def test_rasterized_layers_are_shown(browser: Browser, tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    ax.plot(np.arange(20_000) % 140, np.arange(20_000) / 140, "o", color="#ff0000", markersize=9)
    path = tmp_path / "dots.html"
    write_report(path, "Dots", [Section("Dots", figures=[figure(ax, "dots")])])
    browser.open(path, 390)
    box = browser.evaluate("document.querySelector('img').getBoundingClientRect().toJSON()")
    seen = imread(io.BytesIO(browser.screenshot()))
    red = seen[round(box["y"] + box["height"] / 2), round(box["x"] + box["width"] / 2)]
    assert red[:3].tolist() == [1.0, 0.0, 0.0]


SCALES = "[...document.images].map(image => image.width / image.naturalWidth)"
FILTER = "getComputedStyle(document.querySelector('img')).filter"


@pytest.mark.parametrize("width", [1280, 390])
def test_text_in_charts_is_as_large_as_one_reads(
    browser: Browser, report: Path, width: int
) -> None:
    browser.open(report, width)
    smallest, largest = (9 * 96 / 72 * f(browser.evaluate(SCALES)) for f in (min, max))  # pixels
    assert smallest >= 10.0
    assert largest <= 20.0


def test_charts_follow_the_dark_theme(browser: Browser, report: Path) -> None:
    browser.open(report, 1280)
    assert browser.evaluate(FILTER) == "none"
    browser.open(report, 1280, dark=True)
    assert browser.evaluate(FILTER).startswith("invert")


@pytest.mark.parametrize(
    "part",
    [
        '<img src="https://example.invalid/a.png">',
        '<link rel="stylesheet" href="https://example.invalid/a.css">',
        "<script>1</script>",
        '<img src="data:image/png;base64,AAAA">',
    ],
)
def test_these_checks_would_notice(
    browser: Browser, report: Path, tmp_path: Path, part: str
) -> None:
    spoiled = tmp_path / "spoiled.html"
    spoiled.write_text(report.read_text("utf-8").replace("</main>", part + "</main>"), "utf-8")
    browser.open(spoiled, 1280)
    assert browser.said() or browser.evaluate(BROKEN_IMAGES) > 0
