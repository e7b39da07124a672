"""How the what-if page looks: screenshots beside those that were looked at and kept.

The pictures in `baselines/` are grey and an eighth as wide: fonts differ between machines, and so
do the screenshots, but not what stands where. ``PROBPROP_BASELINES=1`` writes them anew.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from browser import NEEDS_CHROMIUM, Browser, keep
from live_models import write_page
from probprop._types import FloatArray

Image = pytest.importorskip("PIL.Image", reason="Matplotlib brings it")

pytestmark = NEEDS_CHROMIUM

BASELINES = Path(__file__).parent / "baselines"
SMALLER = 8
PLACE = """(() => {
    const box = document.querySelector('#what-if').getBoundingClientRect();
    return [box.left, box.top + scrollY, box.right, box.bottom + scrollY].map(Math.round);
})()"""
MOST = 0.02  # mean difference of a pixel, white less black being 1


def small(picture: bytes, box: list[float]) -> FloatArray:
    """A part of a screenshot in grey, an eighth as wide and as high."""
    image = Image.open(io.BytesIO(picture)).convert("L").crop(box)
    size = (image.width // SMALLER, image.height // SMALLER)
    return np.asarray(image.resize(size, Image.Resampling.BOX), np.float64) / 255.0


def pixels(path: Path) -> FloatArray:
    return np.asarray(Image.open(path), np.float64) / 255.0


def stretched(a: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """The same picture stretched to a height."""
    image = Image.fromarray((255.0 * a).round().astype(np.uint8))
    return np.asarray(image.resize(shape[::-1], Image.Resampling.BOX), np.float64) / 255.0


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pictures")
    names = {"values": "cv, ramps", "classes": "cv, three classes"}
    return {key: write_page(folder / f"{key}.html", name) for key, name in names.items()}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["values", "classes"])
def test_the_page_looks_as_it_did(
    browser: Browser, pages: dict[str, Path], kind: str, width: int, dark: bool
) -> None:
    browser.open(pages[kind], width, dark=dark)
    browser.evaluate("whatIfReady")
    browser.wait_for("document.querySelector('[role=status]').textContent !== ''")
    name = f"what-if-{kind}-{width}-{'dark' if dark else 'light'}.png"
    shot = browser.screenshot()
    keep(name, shot)
    found, baseline = small(shot, browser.evaluate(PLACE)), BASELINES / name
    if os.environ.get("PROBPROP_BASELINES"):
        BASELINES.mkdir(exist_ok=True)
        Image.fromarray((255.0 * found).round().astype(np.uint8)).save(baseline, optimize=True)
    kept = pixels(baseline)
    assert abs(found.shape[0] / kept.shape[0] - 1.0) < 0.15
    assert np.abs(stretched(found, kept.shape) - kept).mean() < MOST


@pytest.mark.parametrize("dark", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_another_page_would_be_noticed(width: int, dark: str) -> None:
    values, classes = (
        pixels(BASELINES / f"what-if-{kind}-{width}-{dark}.png") for kind in ("values", "classes")
    )
    assert np.abs(stretched(values, classes.shape) - classes).mean() > 1.5 * MOST
    assert np.abs(np.median(values) - values).mean() > 1.5 * MOST  # an empty one
