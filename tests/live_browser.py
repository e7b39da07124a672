"""What the tests of the what-if page do in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from browser import Browser

SHOWN = """(() => {
    const found = {};
    for (const node of document.querySelectorAll('[data-name]')) {
        found[node.dataset.name] = Number(node.dataset.value);
    }
    return found;
})()"""
STILL = """new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
    setTimeout(done, 50)))).then(() => whatIf.page.more)"""  # with what a frame puts off


def open_page(browser: Browser, page: Path | str, width: int = 1280, **options: Any) -> None:
    browser.open(page, width, **options)
    browser.evaluate("whatIfReady")
    browser.evaluate(STILL)


def shown(browser: Browser) -> dict[str, float]:
    """The numbers of the answer, with all digits."""
    browser.evaluate(STILL)
    found: dict[str, float] = browser.evaluate(SHOWN)
    return found


def set_value(browser: Browser, selector: str, value: str, event: str = "input") -> None:
    browser.evaluate(
        f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.value = {json.dumps(value)};
            node.dispatchEvent(new Event('{event}', {{bubbles: true}}));
        }})()"""
    )
