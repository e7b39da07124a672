"""The page that learns, in a real browser: what its controls do, and whose numbers it shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import NEEDS_CHROMIUM, TOO_WIDE, Browser, assert_looks_as_before
from probprop import PBPClassifier, PBPRegressor

pytest.importorskip("jinja2", reason="the page needs the extra cli")

from probprop.web import play_page

pytestmark = NEEDS_CHROMIUM

# All that the picture shows, so that two pictures can be compared.
PICTURE = """[...play.active().panel.querySelectorAll("path:not(.cross)")]
    .map((path) => path.getAttribute("d") + path.getAttribute("transform")).join()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("play") / "play.html"
    path.write_text(play_page(), "utf-8")
    return path


@pytest.fixture
def shown(browser: Browser, page: Path) -> Iterator[Browser]:
    """The page, at rest; it must stay quiet."""
    browser.open(page)
    browser.wait_for("window.play && play.n_fits > 0")
    settle(browser)
    yield browser
    assert browser.said() == []
    assert browser.requests() == [page.as_uri()]


def settle(browser: Browser) -> None:
    """Wait until the request is drawn."""
    browser.evaluate("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
    browser.wait_for("!play.active().stale")


def picture(browser: Browser) -> Any:
    settle(browser)
    return browser.evaluate(PICTURE)


def points(browser: Browser) -> list[dict[str, float]]:
    found: list[dict[str, float]] = browser.evaluate("play.active().points.all")
    return found


def place(browser: Browser, x: float, y: float) -> tuple[float, float]:
    """Where a point of the data lies in the viewport."""
    left, top = browser.evaluate(
        f"""(() => {{
            const {{plot}} = play.active();
            plot.svg.scrollIntoView({{block: "nearest"}});
            const box = plot.svg.getBoundingClientRect();
            return [box.left + plot.px({x}), box.top + plot.py({y})];
        }})()"""
    )
    return left, top


def choose(browser: Browser, menu: str, value: str) -> None:
    browser.evaluate(
        f"""(() => {{
            const menu = document.querySelector('[name="{menu}"]');
            menu.value = "{value}";
            menu.dispatchEvent(new Event("change", {{bubbles: true}}));
        }})()"""
    )
    settle(browser)


# ---- Points


def test_a_click_places_a_drag_moves_and_the_eraser_erases(shown: Browser) -> None:
    before = picture(shown)
    shown.click(place(shown, 0.0, 60.0))
    after = picture(shown)
    assert after != before
    assert len(points(shown)) == 21
    assert points(shown)[-1] == pytest.approx({"x": 0.0, "y": 60.0, "label": None}, abs=0.5)
    assert shown.evaluate("document.querySelector('[name=preset-curve]').value") == "own"

    shown.drag(place(shown, 0.0, 60.0), place(shown, 2.0, -80.0))
    assert picture(shown) != after
    assert len(points(shown)) == 21
    assert points(shown)[-1] == pytest.approx({"x": 2.0, "y": -80.0, "label": None}, abs=0.5)

    shown.click("[name=mode][value=erase]")
    shown.click(place(shown, -5.0, 100.0))  # where there is none
    assert len(points(shown)) == 21
    shown.click(place(shown, 2.0, -80.0))
    assert len(points(shown)) == 20
    assert picture(shown) == before


def test_a_finger_places_and_drags(browser: Browser, page: Path) -> None:
    browser.open(page, 390, height=844, touch=True)
    browser.wait_for("window.play && play.n_fits > 0")
    browser.tap(*place(browser, 0.0, 80.0))
    settle(browser)
    assert points(browser)[-1] == pytest.approx({"x": 0.0, "y": 80.0, "label": None}, abs=1.0)
    path = [place(browser, x, 80.0) for x in (0.0, 1.0, 2.0, 3.0)]
    browser.touch(path)
    settle(browser)
    assert len(points(browser)) == 21
    assert points(browser)[-1] == pytest.approx({"x": 3.0, "y": 80.0, "label": None}, abs=1.0)
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)


def test_the_keyboard_alone_will_do(shown: Browser) -> None:
    shown.evaluate("play.active().plot.svg.focus()")
    before = picture(shown)
    for key in ("ArrowUp", "ArrowUp", "ArrowRight", "Enter"):
        shown.press(key)
    assert picture(shown) != before
    assert points(shown)[-1] == pytest.approx({"x": 0.2, "y": 8.0, "label": None})
    assert "21 points" in shown.evaluate("document.querySelector('#live').textContent")

    shown.press("PageUp")  # picks the last point
    shown.press("ArrowDown", "Shift")
    settle(shown)
    assert "Point 21 of 21" in shown.evaluate("document.querySelector('#live').textContent")
    assert points(shown)[-1] == pytest.approx({"x": 0.2, "y": -12.0, "label": None})
    shown.press("Delete")
    shown.press("Escape")
    assert picture(shown) == before


def test_tabs_go_by_the_keyboard(shown: Browser) -> None:
    shown.evaluate("document.querySelector('#tab-curve').focus()")
    shown.press("ArrowRight")
    settle(shown)
    assert shown.evaluate("play.active().name") == "plane"
    assert shown.evaluate("document.activeElement.id") == "tab-plane"
    assert shown.evaluate("document.querySelector('#panel-curve').hidden")


def test_the_curve_is_read_where_the_pointer_is(shown: Browser) -> None:
    shown.mouse("moved", *place(shown, 3.0, 0.0))
    settle(shown)
    words = shown.evaluate("document.querySelector('#readout').textContent")
    assert words.startswith("At x = 3")
    assert "epistemic std" in words


# ---- Controls


CONTROLS = {
    "epochs": "#n_epochs",
    "evidence cap": "#evidence_cap",
    "width": "#width",
    "depth": "[name=depth][value='2']",
    "noise": "[name=noise][value=input]",
    "tails": "[name=noise_tail][value=heavy]",
    "functions": "[name=functions]",
    "seed": "#reseed",
    "longer": "[data-protocol=long]",
    "clear": "#clear",
}


@pytest.mark.parametrize("control", CONTROLS)
def test_every_control_changes_the_picture(shown: Browser, control: str) -> None:
    before, n_fits = picture(shown), shown.evaluate("play.n_fits")
    shown.click(CONTROLS[control])
    if control in ("epochs", "evidence cap", "width"):  # a slider; the click chose its middle
        shown.press("ArrowLeft")
    after = picture(shown)
    assert after != before
    refitted = shown.evaluate("play.n_fits") - n_fits
    assert refitted == 0 if control == "functions" else refitted >= 1


def test_the_protocol_of_the_paper_comes_back(shown: Browser) -> None:
    before = picture(shown)
    shown.click("[data-protocol=long]")
    assert picture(shown) != before
    shown.click("[data-protocol=paper]")
    assert picture(shown) == before


@pytest.mark.parametrize("preset", ["trumpet", "gap", "outliers", "blank"])
def test_presets_of_the_curve(shown: Browser, preset: str) -> None:
    before = picture(shown)
    choose(shown, "preset-curve", preset)
    assert picture(shown) != before
    axes = shown.evaluate("play.active().plot.axes()")
    for point in points(shown):
        assert axes["x"][0] <= point["x"] <= axes["x"][1]
        assert axes["y"][0] <= point["y"] <= axes["y"][1]


@pytest.mark.parametrize("preset", ["blobs", "corners", "ring", "blank"])
def test_presets_and_labels_of_the_plane(shown: Browser, preset: str) -> None:
    shown.click("#tab-plane")
    before = picture(shown)
    choose(shown, "preset-plane", preset)
    chosen = picture(shown)
    assert chosen != before
    n = len(points(shown))
    shown.click(place(shown, 2.4, -2.4))
    shown.click("[name=label][value='-1']")
    shown.click(place(shown, -2.4, 2.6))
    assert picture(shown) != chosen
    assert [point["label"] for point in points(shown)[n:]] == [1, -1]


# ---- Numbers


def settings_of(browser: Browser) -> dict[str, Any]:
    given: dict[str, Any] = browser.evaluate("play.active().settings")
    return {
        "hidden_layer_sizes": given["hidden"],
        "n_epochs": given["n_epochs"],
        "evidence_cap": given["evidence_cap"],
        "noise": given["noise"],
        "noise_tail": given["noise_tail"],
        "random_state": given["seed"],
    }


@pytest.mark.parametrize("preset", ["cubic", "trumpet", "gap", "outliers"])
def test_what_is_drawn_is_what_the_estimator_predicts(shown: Browser, preset: str) -> None:
    choose(shown, "preset-curve", preset)
    seen = shown.evaluate(
        """Object.fromEntries(Object.entries(play.active().shown)
            .filter(([name]) => name !== "functions").map(([name, a]) => [name, Array.from(a)]))"""
    )
    X = np.array([[point["x"]] for point in points(shown)])
    y = np.array([point["y"] for point in points(shown)])
    model: Any = PBPRegressor(**settings_of(shown))
    predicted = model.fit(X, y).predict_distribution(np.array(seen["X"])[:, np.newaxis])
    noise = np.broadcast_to(predicted.aleatoric_std, len(seen["X"]))
    lower, upper = predicted.interval(0.95)
    ours = {
        "mean": predicted.mean,
        "epistemic_std": predicted.epistemic_std,
        "aleatoric_std": noise,
    }
    for name, value in ours.items():
        np.testing.assert_allclose(seen[name], value, rtol=1e-7, err_msg=name)
    for name, value in {"lower": lower, "upper": upper}.items():
        np.testing.assert_allclose(seen[name], value, atol=1e-4 * np.ptp(y), err_msg=name)


def test_the_probabilities_match_the_classifier(shown: Browser) -> None:
    shown.click("#tab-plane")
    settle(shown)
    shown_there = shown.evaluate(
        "[Array.from(play.active().shown.X), Array.from(play.active().shown.probability)]"
    )
    X_new, probability = (np.array(a) for a in shown_there)
    X = np.array([[point["x"], point["y"]] for point in points(shown)])
    y = np.array([point["label"] for point in points(shown)])
    given = settings_of(shown)
    model = PBPClassifier(**{k: v for k, v in given.items() if not k.startswith("noise")})
    proba = model.fit(X, y).predict_proba(X_new.reshape(-1, 2))
    np.testing.assert_allclose(probability, proba[:, 1], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("tab", ["curve", "plane"])
def test_the_code_it_shows_makes_the_same_model(shown: Browser, tab: str) -> None:
    shown.click(f"#tab-{tab}")
    settle(shown)
    scope: dict[str, Any] = {}
    exec(shown.evaluate("document.querySelector('#python').textContent"), scope)
    m_w = shown.evaluate("Array.from(play.active().view.model().posterior.m_w)")
    fitted = np.concatenate([layer.ravel() for layer in scope["model"].posterior_.m_w])
    np.testing.assert_allclose(m_w, fitted, atol=1e-9)


def test_thirty_points_are_learned_in_one_call(shown: Browser, capsys: Any) -> None:
    took = shown.evaluate(
        """(() => {
            const X = Float64Array.from({length: 30}, (_, i) => Math.sin(7.3 * i));
            const y = Array.from(X, (x) => x ** 3);
            const times = [];
            for (let i = 0; i < 21; ++i) {
                const start = performance.now();
                play.learning.fit(X, y);
                times.push(performance.now() - start);
            }
            return times.sort((a, b) => a - b)[10];
        })()"""
    )
    with capsys.disabled():
        print(f"\n30 points, 40 epochs, 50 units: {took:.1f} ms in the page (median of 21)")
    calls = shown.evaluate(
        """(() => {
            const kernel = play.kernel, train = kernel.train;
            let n = 0;
            kernel.train = (task) => (++n, train.call(kernel, task));
            play.learning.fit(new Float64Array(30).map((_, i) => i), Array(30).fill(1));
            delete kernel.train;
            return n;
        })()"""
    )
    assert calls == 1


# ---- Looks


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("tab", ["curve", "plane"])
def test_it_fits_the_screen(browser: Browser, page: Path, width: int, dark: bool, tab: str) -> None:
    browser.open(page, width, dark=dark)
    browser.wait_for("window.play && play.n_fits > 0")
    browser.click(f"#tab-{tab}")
    settle(browser)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(TOO_WIDE) == []
    name = f"play-{tab}-{width}-{'dark' if dark else 'light'}"
    assert_looks_as_before(name, browser.screenshot())
    assert browser.said() == []


def test_another_look_would_be_noticed(shown: Browser) -> None:
    with pytest.raises(AssertionError, match="does not look as before"):
        assert_looks_as_before("play-curve-1280-dark", shown.screenshot())


def test_every_control_has_a_name(shown: Browser) -> None:
    tree = shown.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "slider", "radio", "checkbox", "combobox", "tab", "application"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"] and node["role"]["value"] in roles
    ]
    assert len(named) > 20
    assert [role for role, name in named if not name] == []


def test_the_page_around_it_chooses_the_colors(shown: Browser) -> None:
    before = shown.evaluate("getComputedStyle(document.body).color")
    shown.evaluate("window.postMessage({theme: 'dark'}, '*')")
    shown.wait_for(f"getComputedStyle(document.body).color !== '{before}'")


def test_without_scripts_it_says_so(browser: Browser, page: Path) -> None:
    browser.open(page, scripts=False)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "needs JavaScript" in browser.evaluate("document.body.innerText")
