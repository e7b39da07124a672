"""A real browser for the tests: Debian's chromium, spoken to through its debugging pipe."""

from __future__ import annotations

import base64
import io
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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

NEEDS_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
"""The marks of a module whose tests drive it: ``pytestmark = NEEDS_CHROMIUM``."""

# Codes of the keys that have no letter, as the debugging protocol wants them.
KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    " ": 32,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Backspace": 8,
    "Delete": 46,
}
MODIFIERS = {"Alt": 1, "Control": 2, "Shift": 8}

# Largest difference of equal pictures, in 255ths, and the share of pixels that are far apart.
MEAN_DIFFERENCE, LARGE_DIFFERENCES = 8.0, 0.04

BROKEN_IMAGES = "[...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).length"
TOO_WIDE = """[...document.querySelectorAll('main *, header *, footer *')]
    .filter(e => !e.closest('.scroll table'))  // which scrolls what is too wide
    .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML)"""


class Browser:
    """One headless chromium: JSON messages ending in a zero byte, on its descriptors 3 and 4.

    Parameters
    ----------
    profile : Path
        An empty folder.
    """

    def __init__(self, profile: Path) -> None:
        import fcntl  # here: Windows has no such module, and tests import this one

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
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    # ---- The protocol

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the debugging protocol and return its answer."""
        self._n_sent += 1
        message = {"id": self._n_sent, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self._out, left) :]
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

    # ---- Pages

    def open(
        self,
        page: Path | str,
        width: int = 1280,
        *,
        height: int = 900,
        dark: bool = False,
        touch: bool = False,
        scripts: bool = True,
    ) -> None:
        """Load a file or an address afresh and wait until all of it is there.

        Parameters
        ----------
        page : Path or str
        width, height : int
            Size of the viewport, in CSS pixels.
        dark : bool
            The color scheme of the page.
        touch : bool
            Whether there is a touch screen.
        scripts : bool
            Whether scripts run.
        """
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        # A link to a part of the page that is open would not load it again.
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        url = page.as_uri() if isinstance(page, Path) else page
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        loader = answer["loaderId"]

        def is_loaded() -> bool:
            return any(
                event["name"] == "load" and event["loaderId"] == loader
                for event in self.params("Page.lifecycleEvent")
            )

        while not is_loaded():
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, or of its promise, in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + ANSWER_SECONDS
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never became true: {condition}"
            time.sleep(0.01)

    # ---- What a person does

    def center(self, selector: str) -> tuple[float, float]:
        """Scroll to the first element that a CSS selector finds; return where its center is."""
        x, y = self.evaluate(
            f"""(() => {{
                const element = document.querySelector({json.dumps(selector)});
                element.scrollIntoView({{block: 'nearest'}});
                const box = element.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        return x, y

    def mouse(self, kind: str, x: float, y: float, *, held: bool = False) -> None:
        """Send one event: pressed, moved or released; `held` is whether the button is down."""
        self.call(
            "Input.dispatchMouseEvent",
            type=f"mouse{kind.capitalize()}",
            x=x,
            y=y,
            button="none" if kind == "moved" and not held else "left",
            buttons=1 if held or kind == "pressed" else 0,
            clickCount=0 if kind == "moved" else 1,
        )

    def click(self, at: str | tuple[float, float]) -> None:
        """Click an element, or a place in the viewport."""
        x, y = self.center(at) if isinstance(at, str) else at
        self.mouse("moved", x, y)
        self.mouse("pressed", x, y)
        self.mouse("released", x, y)

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 5) -> None:
        """Press at one place, move in a straight line, and let go at another."""
        self.mouse("moved", *start)
        self.mouse("pressed", *start)
        for i in range(1, steps + 1):
            x, y = (a + (b - a) * i / steps for a, b in zip(start, end, strict=True))
            self.mouse("moved", x, y, held=True)
        self.mouse("released", *end)

    def tap(self, x: float, y: float) -> None:
        """Touch a place with a finger, shortly."""
        self.touch([(x, y)])

    def touch(self, path: list[tuple[float, float]]) -> None:
        """Put down a finger, move it along a path, and lift it."""
        for i, (x, y) in enumerate(path):
            kind = "touchMove" if i else "touchStart"
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str, *modifiers: str) -> None:
        """Press and release a key, given as the page's `event.key`: "Tab", "ArrowUp", "a"."""
        code = KEYS.get(key, ord(key[0].upper()))
        held = sum(MODIFIERS[name] for name in modifiers)
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": held}
        down = (
            event | {"type": "keyDown" if text else "rawKeyDown"} | ({"text": text} if text else {})
        )
        self.call("Input.dispatchKeyEvent", **down)
        self.call("Input.dispatchKeyEvent", **event, type="keyUp")

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    # ---- What can be seen

    def params(self, method: str) -> list[dict[str, Any]]:
        """The contents of the events of this kind since the page was opened."""
        return [e["params"] for e in self.events if e.get("method") == method]

    def said(self) -> list[dict[str, Any]]:
        """All messages and errors in the page's console."""
        self.evaluate("0")  # what was said before is in the events now
        kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [message for kind in kinds for message in self.params(kind)]

    def requests(self) -> list[str]:
        """The addresses that were requested, the page's own first, without data and blob ones."""
        self.evaluate("0")
        urls = (r["request"]["url"] for r in self.params("Network.requestWillBeSent"))
        return [url for url in urls if not url.startswith(("data:", "blob:"))]

    def screenshot(self, *, whole: bool = True) -> bytes:
        """A PNG file of the page, or of what the viewport shows of it."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        """What is printed on A4."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(answer["data"])

    def close(self) -> None:
        """End the browser."""
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(ANSWER_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._out)
            os.close(self._in)


def assert_looks_as_before(name: str, screenshot: bytes) -> None:
    """Compare a picture with the one kept in tests/data/pages, roughly: fonts may differ.

    Both are made a quarter as wide and high. ``PROBPROP_BASELINES=1`` keeps the new one instead.

    Parameters
    ----------
    name : str
        Name of the file, without its ending.
    screenshot : bytes
        A PNG file.
    """
    from PIL import Image

    keep(f"{name}.png", screenshot)
    whole = Image.open(io.BytesIO(screenshot)).convert("RGB")
    seen = whole.resize((whole.width // 4, whole.height // 4), Image.Resampling.BOX)
    path = Path(__file__).parent / "data" / "pages" / f"{name}.png"
    if os.environ.get("PROBPROP_BASELINES"):
        path.parent.mkdir(exist_ok=True)
        seen.quantize(64).save(path, optimize=True)
        return
    before = Image.open(path).convert("RGB")
    what = f"{name} does not look as before; if it should, run with PROBPROP_BASELINES=1"
    assert abs(seen.height - before.height) <= 0.05 * before.height, what
    pair = [np.asarray(p.resize(before.size), float) for p in (seen, before)]
    difference = np.abs(pair[0] - pair[1]).mean(axis=2)
    assert difference.mean() < MEAN_DIFFERENCE, f"{what}: {difference.mean():.1f}"
    assert (difference > 60).mean() < LARGE_DIFFERENCES, f"{what}: {(difference > 60).mean():.3f}"


def keep(name: str, data: bytes) -> None:
    """Leave what was seen in the folder PROBPROP_SCREENSHOTS, for people to look at."""
    if folder := os.environ.get("PROBPROP_SCREENSHOTS"):
        Path(folder, name).write_bytes(data)
