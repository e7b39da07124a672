"""The what-if page in a browser: controls, pictures, links, and what it must not do."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from browser import NEEDS_CHROMIUM, TOO_WIDE, Browser
from live_browser import STILL, open_page, set_value, shown
from live_models import CITIES, FEATURES, fitted, rows_of, table, write_page
from probprop import PBPRegressor
from probprop import report as make_report
from probprop.report import Section, write_report
from probprop.report.live import live_page
from probprop.table import fit_table_model

pytestmark = NEEDS_CHROMIUM

HOSTILE = "</script><img src=x onerror=alert(1)> & \"quotes\" 'too' ${1}"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("live") / "page.html", "cv, ramps")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("live") / "classes.html", "cv, three classes")


# ---- It makes no requests and logs nothing


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_loads_quietly_and_fits(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    open_page(browser, page, width, dark=dark)
    assert browser.said() == []
    assert browser.requests() == [page.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(TOO_WIDE) == []


def test_the_policy_lets_only_this_script_run(browser: Browser, page: Path) -> None:
    text = page.read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "script-src 'wasm-unsafe-eval' 'sha256-" in policy[1]
    assert "unsafe-inline" not in policy[1].split("script-src")[1].split(";")[0]
    open_page(browser, page)
    browser.evaluate(
        """document.body.append(Object.assign(document.createElement('script'),
            {textContent: 'globalThis.ran = true'}))"""
    )
    assert browser.evaluate("globalThis.ran === undefined")


def test_without_scripts_it_is_the_static_report(browser: Browser, page: Path) -> None:
    browser.open(page, scripts=False)
    visible = "document.querySelector('#what-if').checkVisibility()"
    assert browser.evaluate(visible) is False
    assert browser.evaluate("document.querySelector('section.full:not(#what-if) h2').innerText")


def test_a_browser_that_cannot_unpack_it_says_so(browser: Browser, page: Path) -> None:
    added = browser.call(
        "Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.DecompressionStream"
    )
    try:
        browser.open(page)
        browser.evaluate("whatIfReady")
        text = browser.evaluate("document.querySelector('#what-if').innerText")
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
    assert "This browser cannot run the model" in text


def test_markup_in_names_and_cells_is_text(browser: Browser, tmp_path: Path) -> None:
    frame = table()[["area <m²>", "city", "price"]].dropna()[:60]
    frame["city"] = frame["city"].astype(object).replace({CITIES[0]: HOSTILE})
    names = {"area <m²>": f"a {HOSTILE}", "city": "__proto__", "price": f"y {HOSTILE}"}
    frame = frame.rename(columns=names)
    small = PBPRegressor((5,), n_epochs=3, missing="marginalize")
    model = fit_table_model(frame, names["price"], estimator=small)
    page = tmp_path / "hostile.html"
    live = live_page(model, rows=frame, train=frame)
    write_report(page, HOSTILE, [Section("None", HOSTILE)], live)
    open_page(browser, page)
    assert browser.said() == []
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.querySelectorAll('script').length") == 4
    text = browser.evaluate("document.querySelector('#what-if').textContent")
    assert HOSTILE in text
    assert "__proto__" in text
    line = browser.evaluate("document.querySelector('.wi-sharing textarea').value")
    read = pd.read_csv(StringIO(line))
    assert list(read.columns) == [names["area <m²>"], "__proto__"]


# ---- Controls


def test_every_control_moves_the_numbers(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    before = shown(browser)
    assert set(before) == {"mean", "std", "epistemic_std", "aleatoric_std", "lower", "upper"}
    controls = {
        "#wi-0": ("140", "input"),
        ".wi-cell:nth-child(1) input[type=range]": ("20", "input"),
        "#wi-1": ("6", "input"),
        ".wi-cell:nth-child(2) input[type=range]": ("1", "input"),
        "#wi-2": ("1", "change"),
        "#wi-4": ("2020-02-29T23:10", "input"),
    }
    for selector, (value, event) in controls.items():
        set_value(browser, selector, value, event)
        after = shown(browser)
        assert after["mean"] != before["mean"], selector
        before = after
    for selector in (
        "#wi-3",
        *(f".wi-cell:nth-child({i}) .wi-unknown input" for i in (1, 2, 4, 5)),
    ):
        browser.click(selector)
        after = shown(browser)
        assert after["mean"] != before["mean"], selector
        before = after
    set_value(browser, "#wi-2", "", "change")
    assert shown(browser)["mean"] != before["mean"]
    assert browser.said() == []


def test_beyond_the_data_the_band_opens(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    column = browser.evaluate("whatIf.page.columns[0]")
    widths = []
    for area in (column["high"], column["high"] * 2, column["high"] * 4):
        set_value(browser, "#wi-0", str(area))
        widths.append(shown(browser)["epistemic_std"])
    assert widths[0] < widths[1] < widths[2]
    assert browser.evaluate("document.querySelector('.wi-cell').classList.contains('wi-beyond')")


def test_the_keyboard_is_enough(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    before = shown(browser)
    browser.evaluate("document.querySelector('.wi-cell input[type=range]').focus()")
    browser.press("ArrowRight")
    after = shown(browser)
    assert after["mean"] != before["mean"]
    browser.press("Tab")
    browser.press("Tab")
    focused = "document.activeElement.closest('.wi-cell') !== null"
    assert browser.evaluate(focused)
    named = """[...document.querySelectorAll('#what-if :is(input, select, textarea, button)')]
        .filter((e) => !(e.labels?.length || e.getAttribute('aria-label') || e.innerText.trim()))
        .map((e) => e.outerHTML)"""
    assert browser.evaluate(named) == []
    browser.wait_for("document.querySelector('[role=status]').textContent.includes('price: ')")


def test_a_far_number_is_predicted_as_predict_does(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    set_value(browser, "#wi-0", "1e12")
    browser.evaluate(STILL)
    assert not browser.evaluate("document.querySelector('.wi-far').checkVisibility()")
    cells = browser.evaluate("whatIf.page.cells")
    model = fitted("cv, ramps")
    predicted = model.predict_distribution(pd.DataFrame([cells], columns=FEATURES))
    np.testing.assert_allclose(shown(browser)["mean"], predicted.mean[0], rtol=1e-5)


def test_a_number_that_predict_refuses_is_refused(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, write_page(tmp_path / "page.html", "no gaps, float32"))
    set_value(browser, "#wi-0", "1e12")
    browser.evaluate(STILL)
    assert browser.evaluate("document.querySelector('.wi-far').checkVisibility()")
    set_value(browser, "#wi-0", "80")
    browser.evaluate(STILL)
    assert not browser.evaluate("document.querySelector('.wi-far').checkVisibility()")


# ---- Rows, links, lines


def test_a_click_on_a_point_loads_its_row(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    n = browser.evaluate("document.querySelectorAll('.wi-point').length")
    assert n == len(browser.evaluate("whatIf.page.model.rows.numbers")) > 50
    browser.click(".wi-point")
    row = browser.evaluate("whatIf.page.row")
    assert row is not None
    cells = browser.evaluate(f"whatIf.page.model.rows.cells.map((column) => column[{row}])")
    assert browser.evaluate("whatIf.page.cells") == cells
    # The page's model predicted the points too, so it predicts the same now.
    point = browser.evaluate(f"whatIf.page.model.rows.predicted[{row}]")
    np.testing.assert_allclose(shown(browser)["mean"], point, rtol=1e-5)
    browser.click(".wi-buttons button[aria-label*=next]")
    assert browser.evaluate("whatIf.page.row") == row + 1
    browser.click(".wi-buttons button")
    typical = browser.evaluate("whatIf.page.row")
    assert typical == browser.evaluate("whatIf.page.model.rows.typical")
    assert "typical" in browser.evaluate("document.querySelector('.wi-buttons').innerText")


def test_a_link_restores_the_state(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    set_value(browser, "#wi-0", "123.5")
    set_value(browser, "#wi-2", "1", "change")
    set_value(browser, "#wi-along", "2", "change")
    browser.click(".wi-cell:nth-child(4) .wi-unknown input")
    expected = shown(browser)
    browser.wait_for("location.hash.includes('123.5')")
    link = browser.evaluate("location.href")
    open_page(browser, link)
    assert shown(browser) == expected
    assert browser.evaluate("whatIf.page.along") == 2
    assert browser.evaluate("whatIf.page.cells[3]") is None
    open_page(browser, page.as_uri() + "#what-if&c.rooms=none&along=nothing&c.city=Rome")
    assert browser.evaluate("whatIf.page.cells") == browser.evaluate("whatIf.page.typical")


def test_the_copied_line_predicts_the_same(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    model = fitted("cv, ramps")
    for change in ("", "#wi-0", "#wi-2"):
        if change:
            set_value(browser, change, "2", "input" if change == "#wi-0" else "change")
        found = shown(browser)
        line = browser.evaluate("document.querySelector('.wi-sharing textarea').value")
        row = pd.read_csv(StringIO(line))
        assert list(row.columns) == FEATURES
        predicted: Any = model.predict_distribution(row)
        np.testing.assert_allclose(found["mean"], predicted.mean[0], rtol=2e-6)
        np.testing.assert_allclose(found["std"], predicted.std[0], rtol=2e-6)
    assert CITIES[2].replace('"', '""') in line


@pytest.mark.parametrize("allowed", [True, False], ids=["clipboard", "selection"])
def test_the_buttons_copy_row_and_link(browser: Browser, page: Path, allowed: bool) -> None:
    open_page(browser, page)
    if allowed:
        browser.evaluate("navigator.clipboard.writeText = async (t) => { globalThis.copied = t; }")
    else:
        browser.evaluate(
            """(() => {
                navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'));
                document.addEventListener('copy', (event) => {
                    globalThis.copied = event.target.value;
                });
            })()"""
        )
    browser.click(".wi-sharing button")
    line = browser.evaluate("document.querySelector('.wi-sharing textarea').value")
    browser.wait_for("globalThis.copied")
    assert browser.evaluate("copied") == line
    browser.click(".wi-sharing button:last-child")
    browser.wait_for("copied.startsWith('file:')")
    assert browser.evaluate("copied") == page.as_uri() + browser.evaluate("whatIf.page.hash()")


# ---- Pictures


def test_the_profile_follows_the_chosen_column(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    for i, name in enumerate(FEATURES):
        set_value(browser, "#wi-along", str(i), "change")
        browser.evaluate(STILL)
        chart = "document.querySelector('.wi-box:has(#wi-along) svg')"
        assert browser.evaluate(f"{chart}.getAttribute('aria-label')") == f"price along {name}"
        assert browser.evaluate(f"{chart}.querySelectorAll('.wi-line, .wi-dot').length") > 0
    set_value(browser, "#wi-along", "0", "change")
    before = shown(browser)
    x, y = browser.center(".wi-box:has(#wi-along) svg")
    browser.drag((x, y), (x + 60, y))
    assert shown(browser)["mean"] != before["mean"]
    assert browser.said() == []


INFLUENCE = """[...document.querySelectorAll('.wi-influence li')].map((row) => ({
    name: row.querySelector('.wi-name').innerText,
    change: Number(row.querySelector('.wi-change').dataset.value),
    std: Number(row.querySelector('.wi-change').dataset.std),
    words: row.querySelector('small').innerText}))"""


def test_the_influence_is_the_change_between_common_cells(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    model, frame = fitted("cv, ramps"), rows_of(fitted("cv, ramps"))
    found = browser.evaluate(INFLUENCE)
    assert {each["name"] for each in found} == set(FEATURES)
    sizes = [abs(each["change"]) for each in found]
    assert sizes == sorted(sizes, reverse=True)
    here = pd.DataFrame([browser.evaluate("whatIf.page.cells")], columns=FEATURES)
    area = next(each for each in found if each["name"] == "area <m²>")
    low, high = frame["area <m²>"].quantile([0.1, 0.9], interpolation="higher")
    assert area["words"].startswith(f"{low:.4g} → {high:.4g}, ±")
    rows = pd.concat([here.assign(**{"area <m²>": v}) for v in (low, high)])
    ends = model.predict_distribution(rows)
    np.testing.assert_allclose(area["change"], ends.mean[1] - ends.mean[0], rtol=1e-4)
    members: Any = model.estimator.predict_distribution(model.encode(rows))
    means = members.base.means
    each = means[:, 1] - means[:, 0]
    np.testing.assert_allclose(area["std"], each.std(), rtol=1e-3)
    city = next(each for each in found if each["name"] == "city")
    common = frame["city"].value_counts(normalize=True)
    first, second = city["words"].split(", ±")[0].split(" → ")
    assert first == common.index[0]
    assert common[second] >= 0.05
    means = model.predict(pd.concat([here.assign(city=v) for v in (first, second)]))
    np.testing.assert_allclose(city["change"], means[1] - means[0], rtol=1e-4)


def test_many_columns_are_folded_and_searched(browser: Browser, tmp_path: Path) -> None:
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({f"a rather long name {i}": rng.standard_normal(80) for i in range(82)})
    frame["y"] = 3.0 * frame["a rather long name 70"] + rng.standard_normal(80)
    model = fit_table_model(frame, "y", estimator=PBPRegressor((10,), n_epochs=5, random_state=0))
    important = ["a rather long name 70", "a rather long name 7"]
    page = tmp_path / "wide.html"
    live = live_page(model, rows=frame, train=frame, important=important)
    write_report(page, "Wide", [], live)
    for width in (1280, 390):
        open_page(browser, page, width)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate(TOO_WIDE) == []
        assert browser.evaluate("document.querySelector('#what-if').offsetHeight") < 3500
    seen = "[...document.querySelectorAll('.wi-cell')].filter((e) => e.checkVisibility())"
    names = f"{seen}.map((e) => e.querySelector('label').innerText)"
    assert browser.evaluate(names)[:2] == important
    assert len(browser.evaluate(names)) == 12
    assert browser.evaluate("document.querySelector('#wi-along').selectedIndex") == 0
    assert browser.evaluate("whatIf.page.along") == 70
    set_value(browser, ".wi-search", "NAME 81")
    assert browser.evaluate(names) == ["a rather long name 81"]
    set_value(browser, ".wi-search", "")
    assert len(browser.evaluate(names)) == 12
    assert len(browser.evaluate(INFLUENCE)) == 10
    browser.click(".wi-influence + button")
    assert len(browser.evaluate(INFLUENCE)) == 82
    assert browser.said() == []


CLIPPED = """[...document.querySelectorAll('svg.wi-chart')].flatMap((chart) => {
    const box = chart.getBoundingClientRect();
    const texts = [...chart.querySelectorAll('text')].map((t) => [t, t.getBoundingClientRect()]);
    const out = texts.filter(([, r]) => r.left < box.left - 1 || r.right > box.right + 1
        || r.bottom > box.bottom + 1).map(([t]) => t.textContent);
    const foot = texts.filter(([t]) => !t.hasAttribute('transform')
        && t.getAttribute('text-anchor') !== 'end').sort((a, b) => a[1].left - b[1].left);
    const touching = foot.filter(([, r], i) => i && Math.abs(r.top - foot[i - 1][1].top) < 2
        && r.left < foot[i - 1][1].right).map(([t]) => t.textContent);
    return [...out, ...touching];
})"""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_text_of_a_picture_is_cut_or_touches_another(
    browser: Browser, page: Path, classes: Path, width: int
) -> None:
    for path in (page, classes):
        open_page(browser, path, width)
        for i in range(len(FEATURES)):
            set_value(browser, "#wi-along", str(i), "change")
            browser.evaluate(STILL)
            assert browser.evaluate(CLIPPED) == []


def test_two_classes_are_shown_by_the_positive_one(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, write_page(tmp_path / "two.html", "cv, two classes"))
    words = browser.evaluate("document.querySelector('.wi-answer').innerText")
    assert "probability of yes" in words
    texts = browser.evaluate("document.querySelector('#what-if').innerText")
    assert "Change of the probability of yes" in texts
    assert "Horizontal: probability of yes" in texts


def test_the_density_holds_the_probability_of_its_interval(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    share = """(() => {
        const [p] = whatIf.page.here;
        const [lower, upper] = p.interval(0.95);
        const n = 50000;  // the density has steps
        let sum = 0;
        for (let i = 0; i < n; i += 1) sum += p.pdf(lower + ((i + 0.5) * (upper - lower)) / n);
        return [(sum * (upper - lower)) / n, p.cdf(upper) - p.cdf(lower)];
    })()"""
    np.testing.assert_allclose(browser.evaluate(share), 0.95, rtol=1e-5)


def test_classes_have_probabilities_and_two_kinds_of_doubt(browser: Browser, classes: Path) -> None:
    open_page(browser, classes)
    found = shown(browser)
    assert set(found) == {"high", "low", "middle", "entropy_model", "entropy_noise"}
    assert sum(found[k] for k in ("high", "low", "middle")) == pytest.approx(1.0)
    set_value(browser, "#wi-0", "400")
    assert shown(browser)["high"] > 0.9
    browser.click(".wi-point")
    assert browser.evaluate("whatIf.page.row") is not None
    assert browser.said() == []


def test_several_targets_have_a_panel_each(browser: Browser, tmp_path: Path) -> None:
    page = write_page(tmp_path / "two.html", "two targets, heavy")
    open_page(browser, page)
    assert browser.evaluate("document.querySelectorAll('.wi-target').length") == 2
    titles = "[...document.querySelectorAll('.wi-first h3')].map((e) => e.innerText)"
    assert browser.evaluate(titles) == ["price", "rent"]
    assert browser.said() == []


def test_a_skewed_column_has_a_logarithmic_slider_and_axis(
    browser: Browser, tmp_path: Path
) -> None:
    x = np.exp(np.random.RandomState(0).normal(3.0, 2.0, 300))
    frame, y = pd.DataFrame({"budget": x, "z": np.arange(300.0)}), np.log(x)
    model = PBPRegressor(n_epochs=2, random_state=0).fit(frame, y)
    make_report(model, frame, y, tmp_path / "page.html", held_out=True)
    open_page(browser, tmp_path / "page.html")
    found = browser.evaluate(
        """(async () => {
            const { page } = whatIf;
            const [box, slider] = ["#wi-0", "input[type=range]"].map((s) =>
                document.querySelector(`.wi-cell:has(#wi-0) ${s}`));
            slider.value = (Number(slider.min) + Number(slider.max)) / 2;
            slider.dispatchEvent(new Event("input"));
            await new Promise(requestAnimationFrame);
            await page.more;
            const words = [...document.querySelectorAll(".wi-legend")].map((e) => e.innerText);
            return { value: Number(box.value), words: words.join(" ") };
        })()"""
    )
    assert found["value"] == pytest.approx(np.sqrt(x.min() * x.max()), rel=0.01)
    assert "The horizontal axis is logarithmic." in found["words"]
    assert browser.said() == []


# ---- Speed


def test_the_numbers_do_not_wait_for_the_pictures(browser: Browser, page: Path) -> None:
    """However slow predictions are, a frame shows its own: pictures are drawn in pieces after."""
    open_page(browser, page)
    found = browser.evaluate(
        """(async () => {
            const { page } = whatIf;
            const predict = page.model.predict.bind(page.model);
            let calls = 0;
            page.model.predict = (rows) => {
                calls += 1;
                for (const start = performance.now(); performance.now() - start < 20;);
                return predict(rows);
            };
            page.cells = page.cells.with(0, 91);
            page.draw();
            const [atOnce, mean] = [calls, page.here[0].mean];
            await page.more;
            delete page.model.predict;
            return { atOnce, later: calls, mean };
        })()"""
    )
    assert found["atOnce"] <= 2
    assert found["later"] > 8
    assert shown(browser)["mean"] == found["mean"]
