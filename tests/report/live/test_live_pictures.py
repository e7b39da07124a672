"""How the what-if page looks: compared with pictures that were checked by eye."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from browser import NEEDS_CHROMIUM, Browser, assert_looks_as_before
from live_models import write_page

Image = pytest.importorskip("PIL.Image", reason="Matplotlib brings it")

pytestmark = NEEDS_CHROMIUM

PLACE = """(() => {
    const box = document.querySelector('#what-if').getBoundingClientRect();
    return [box.left, box.top + scrollY, box.right, box.bottom + scrollY].map(Math.round);
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pictures")
    names = {"values": "cv, ramps", "classes": "cv, three classes"}
    return {key: write_page(folder / f"{key}.html", name) for key, name in names.items()}


def picture(browser: Browser, page: Path, width: int, *, dark: bool) -> bytes:
    """A screenshot of the section, once all of it is drawn."""
    browser.open(page, width, dark=dark)
    browser.evaluate("whatIfReady")
    browser.wait_for("document.querySelector('[role=status]').textContent !== ''")
    cut, file = browser.evaluate(PLACE), io.BytesIO()
    Image.open(io.BytesIO(browser.screenshot())).crop(cut).save(file, "png")
    return file.getvalue()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["values", "classes"])
def test_the_page_looks_as_it_did(
    browser: Browser, pages: dict[str, Path], kind: str, width: int, dark: bool
) -> None:
    name = f"what-if-{kind}-{width}-{'dark' if dark else 'light'}"
    assert_looks_as_before(name, picture(browser, pages[kind], width, dark=dark))


@pytest.mark.skipif("PROBPROP_BASELINES" in os.environ, reason="it would be kept")
def test_another_page_is_noticed(browser: Browser, pages: dict[str, Path]) -> None:
    other = picture(browser, pages["classes"], 1280, dark=False)
    with pytest.raises(AssertionError, match="does not look as before"):
        assert_looks_as_before("what-if-values-1280-light", other)
