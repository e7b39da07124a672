"""Draw pages as a reader sees them, and name those that scroll sideways.

python tools/page_pictures.py FOLDER [PAGE ...]: without names, all pages in docs/_build/html.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import Browser  # noqa: E402  (of the tests)

SITE = ROOT / "docs" / "_build" / "html"
WIDTHS = (1280, 390)
MOST_HEIGHT = 5_000
TOO_WIDE = """(() => {
    const room = document.documentElement.clientWidth
    const scrolls = e => {
        for (let p = e.parentElement; p; p = p.parentElement)
            if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)
                && p.getBoundingClientRect().right <= room + 0.5 && p !== document.body) return true
        return false
    }
    return [...document.querySelectorAll('main *, header *, footer *')]
        .filter(e => e.getBoundingClientRect().right > room + 0.5 && e.checkVisibility())
        .filter(e => !scrolls(e)).map(e => e.outerHTML.slice(0, 100)).slice(0, 3)
        .concat(document.documentElement.scrollWidth > room ? ['the page scrolls sideways'] : [])
        .concat(room < 1000 ? [] : [...document.querySelectorAll("main .highlight > pre, table")]
            .map(e => e.tagName == 'PRE' ? e : e.parentElement)
            .filter(e => e.scrollWidth > e.clientWidth + 1)
            .map(e => `cut off by ${e.scrollWidth - e.clientWidth}: ${e.innerText.slice(0, 60)}`))
})()"""


def main(folder: Path, pages: list[Path]) -> int:
    """Write a picture of every page at every width, and return how many are too wide."""
    folder.mkdir(parents=True, exist_ok=True)
    n_bad = 0
    for page in pages:
        for width in WIDTHS:
            with tempfile.TemporaryDirectory() as profile:
                browser = Browser(Path(profile))  # one page each: leaving some pages hangs
                browser.open(page, width)
                height = min(browser.evaluate("document.documentElement.scrollHeight"), MOST_HEIGHT)
                if bad := browser.evaluate(TOO_WIDE):
                    n_bad += 1
                    print(width, page, *bad, sep="\n    ", flush=True)
                size = {"width": width, "height": height, "deviceScaleFactor": 1}
                browser.call("Emulation.setDeviceMetricsOverride", mobile=width < 600, **size)
                name = "-".join(page.with_suffix("").parts[-2:]) + f"-{width}.png"
                (folder / name).write_bytes(browser.screenshot(whole=False))
                browser.close()
    print(f"{len(pages)} pages at {len(WIDTHS)} widths; {n_bad} too wide")
    return n_bad


if __name__ == "__main__":
    given = [Path(name).resolve() for name in sys.argv[2:]]
    hidden = {"genindex.html", "search.html", "py-modindex.html"}
    found = [p for p in sorted(SITE.rglob("*.html")) if "_static" not in p.parts]
    sys.exit(bool(main(Path(sys.argv[1]), given or [p for p in found if p.name not in hidden])))
