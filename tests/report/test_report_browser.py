"""The report in a real browser: Debian's chromium, spoken to through its debugging pipe."""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from probprop import PBPRegressor

pytest.importorskip("jinja2", reason="the report needs the extra cli")
pytest.importorskip("matplotlib", reason="the report needs the extra cli")

from matplotlib.image import imread

from probprop.report import Section, figure, regression_sections, write_report

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
]
ANSWER_SECONDS = 60.0  # only so that a browser that hangs does not hang the tests
HOSTILE = "<script>alert(1)</script> & \"quotes\" 'too' $x_{$"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


class Browser:
    """One headless chromium: JSON messages ending in a zero byte, on its descriptors 3 and 4."""

    def __init__(self, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def arrange() -> None:  # in the child; the pipes may be 3 and 4 already, crosswise
            moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs_in, theirs_out)]
            os.dup2(moved[0], 3)
            os.dup2(moved[1], 4)

        assert CHROMIUM is not None
        self._process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=arrange,
            close_fds=False,
        )
        for fd in (theirs_in, theirs_out):
            os.close(fd)
        self._buffer = b""
        self._n_sent = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._n_sent += 1
        message = {"id": self._n_sent, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._n_sent:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], ANSWER_SECONDS)
            received = os.read(self._in, 1 << 20) if ready else b""
            assert received, "chromium does not answer"
            self._buffer += received
        message, self._buffer = self._buffer.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer

    def open(self, page: Path, width: int, *, dark: bool = False) -> None:
        """Load a page afresh at a width in CSS pixels and wait until all of it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def params(self, method: str) -> list[dict[str, Any]]:
        """The contents of the events of this kind since the page was opened."""
        return [e["params"] for e in self.events if e.get("method") == method]

    def screenshot(self) -> bytes:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(answer["data"])

    def close(self) -> None:
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(ANSWER_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._out)
            os.close(self._in)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = load_diabetes(return_X_y=True)
    model = PBPRegressor(random_state=0).fit(X[:350], y[:350])
    names = [HOSTILE, *load_diabetes().feature_names[1:]]
    names[2] = HOSTILE  # the body mass index, which matters most and so is drawn
    sections = regression_sections(
        model, X[350:], y[350:], feature_names=names, target="progression", held_out=True
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, "Disease progression", sections)
    return path


CHARTS = "document.querySelectorAll('svg.chart').length"
BROKEN_IMAGES = "[...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).length"
TOO_WIDE = """[...document.querySelectorAll('main *, header *, footer *')]
    .filter(e => !e.closest('.scroll table'))  // which scrolls what is too wide
    .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML)"""


def keep(name: str, data: bytes) -> None:
    """Leave what was seen in the folder PROBPROP_SCREENSHOTS, for people to look at."""
    if folder := os.environ.get("PROBPROP_SCREENSHOTS"):
        Path(folder, name).write_bytes(data)


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

    said = browser.params("Log.entryAdded") + browser.params("Runtime.consoleAPICalled")
    assert said + browser.params("Runtime.exceptionThrown") == []
    requests = [r["request"]["url"] for r in browser.params("Network.requestWillBeSent")]
    assert requests[0] == report.as_uri()
    assert [url[:80] for url in requests[1:] if not url.startswith("data:")] == []

    shot = browser.screenshot()
    keep(f"report-{width}-{'dark' if dark else 'light'}.png", shot)
    assert shot.startswith(b"\x89PNG")


def test_markup_in_names_is_text(browser: Browser, report: Path) -> None:
    browser.open(report, 1280)
    assert browser.evaluate("document.scripts.length") == 0
    assert HOSTILE in browser.evaluate("document.body.textContent")
    titles = browser.evaluate(
        "[...document.querySelectorAll('svg > title')].map(t => t.textContent)"
    )
    assert any(HOSTILE in title for title in titles)


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


def test_rasterised_layers_are_shown(browser: Browser, tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    ax.plot(np.arange(20_000) % 140, np.arange(20_000) / 140, "o", color="#ff0000", markersize=9)
    path = tmp_path / "dots.html"
    write_report(path, "Dots", [Section("Dots", figures=[figure(ax, "dots")])])
    browser.open(path, 390)
    box = browser.evaluate("document.querySelector('svg image').getBoundingClientRect().toJSON()")
    seen = imread(io.BytesIO(browser.screenshot()))
    red = seen[round(box["y"] + box["height"] / 2), round(box["x"] + box["width"] / 2)]
    assert red[:3].tolist() == [1.0, 0.0, 0.0]


FONTS = """[...document.querySelectorAll('svg.chart text')].map(t => {
    const svg = t.ownerSVGElement, width = svg.getBoundingClientRect().width;
    return parseFloat(getComputedStyle(t).fontSize) * width / svg.viewBox.baseVal.width; })"""
INK = "getComputedStyle(document.querySelector('svg.chart text')).fill"
FAMILY = "getComputedStyle(document.querySelector('svg.chart text')).fontFamily"


@pytest.mark.parametrize("width", [1280, 390])
def test_text_in_charts_is_as_large_as_one_reads(
    browser: Browser, report: Path, width: int
) -> None:
    browser.open(report, width)
    sizes = browser.evaluate(FONTS)
    assert len(sizes) > 100
    assert min(sizes) >= 10.0
    assert max(sizes) <= 20.0
    assert browser.evaluate(FAMILY) == browser.evaluate(
        "getComputedStyle(document.body).fontFamily"
    )


def test_charts_follow_the_dark_theme(browser: Browser, report: Path) -> None:
    inks, marks = [], []
    for dark in (False, True):
        browser.open(report, 1280, dark=dark)
        inks.append(browser.evaluate(INK))
        colour = "getComputedStyle(document.documentElement).getPropertyValue('--c0072b2').trim()"
        marks.append(browser.evaluate(colour))
        assert inks[-1] == browser.evaluate("getComputedStyle(document.body).color")
    assert inks[0] != inks[1]
    assert marks == ["#0072b2", "#56b4e9"]


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
    loud = bool(browser.params("Log.entryAdded"))
    assert loud or browser.evaluate(BROKEN_IMAGES) > 0
