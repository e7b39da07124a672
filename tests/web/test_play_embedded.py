"""The page that learns inside of a page of the documentation."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from browser import ANSWER_SECONDS, NEEDS_CHROMIUM, Browser

pytest.importorskip("jinja2", reason="the page needs the extra cli")

from probprop.web import play_page

pytestmark = NEEDS_CHROMIUM

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    (folder / "play.html").write_text(play_page(embedded=True), "utf-8")
    script = (DOCS / "_static" / "play-frame.js").read_text()
    path = folder / "index.html"
    path.write_text(
        f"""<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">
        <link rel="icon" href="data:,"><title>Docs</title><script>{script}</script></head>
        <body><iframe class="play" src="play.html" title="Play" width="100%"></iframe></body></html>
        """,
        "utf-8",
    )
    return path


def in_frame(browser: Browser, expression: str) -> object:
    """Evaluate in the frame, which to the page around it is a stranger."""
    contexts = [c["context"] for c in browser.params("Runtime.executionContextCreated")]
    inner = [c["id"] for c in contexts if c["auxData"]["frameId"] != main_frame(browser)]
    answer = browser.call(
        "Runtime.evaluate", expression=expression, contextId=inner[-1], returnByValue=True
    )
    assert "exceptionDetails" not in answer, answer
    value: object = answer["result"].get("value")
    return value


def wait_in_frame(browser: Browser, condition: str) -> None:
    """Wait until an expression is true in the frame; messages between pages take their time."""
    end = time.monotonic() + ANSWER_SECONDS
    while in_frame(browser, condition) is not True:
        assert time.monotonic() < end, f"never became true: {condition}"
        time.sleep(0.01)


def main_frame(browser: Browser) -> str:
    frame: str = browser.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
    return frame


@pytest.mark.parametrize("width", [900, 390])
def test_the_frame_is_as_high_as_the_page_in_it(browser: Browser, around: Path, width: int) -> None:
    browser.open(around, width)
    browser.wait_for("document.querySelector('iframe').style.height !== ''")
    whole = "document.documentElement"
    wait_in_frame(browser, f"{whole}.clientHeight === {whole}.scrollHeight")
    wait_in_frame(browser, f"{whole}.clientHeight - document.body.offsetHeight <= 1")
    assert in_frame(browser, "document.querySelector('header, footer')") is None
    assert browser.said() == []


def test_the_frame_has_the_colors_around_it(browser: Browser, around: Path) -> None:
    browser.open(around, 900)
    browser.wait_for("document.querySelector('iframe').style.height !== ''")
    for theme in ("dark", "light"):
        browser.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        browser.evaluate(
            "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"
        )
        assert in_frame(browser, "document.documentElement.dataset.theme") == theme
