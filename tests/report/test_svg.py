"""Drawings as parts of a page: shapes and text only, small, and in colours that follow the page."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="the report needs the extra cli")
pytest.importorskip("matplotlib", reason="the report needs the extra cli")

from matplotlib.figure import Figure

from probprop.report import Section, figure, render
from probprop.report.svg import declarations, inline, on_dark


def drawing(n: int = 50) -> Any:
    ax = Figure(figsize=(4.0, 3.2)).subplots()
    x = np.linspace(0.0, 1.0, n)
    ax.plot(x, x**2, "o", color="#0072b2", markeredgecolor="white", label="dots")
    ax.vlines(x, 0.0, x, color="#d55e00")
    ax.legend()
    return ax


def made(n: int = 50, title: str = "A title", key: str = "p1") -> str:
    return inline(figure(drawing(n), title)[0], title, key).markup


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


def test_every_dot_and_line_is_still_there_and_the_file_is_small() -> None:
    before = figure(drawing(200), "a")[0]
    markup = made(200)
    assert len(markup) < 0.45 * len(before)
    drawn = ElementTree.fromstring(markup)
    marks = [use for use in drawn.iter("use") if use.get("style") is None]
    assert len(marks) == 200
    assert sum(path.get("d", "").count("M") >= 200 for path in drawn.iter("path")) == 1


def test_places_are_kept_to_a_hundredth_of_a_point() -> None:
    drawn = [ElementTree.fromstring(svg) for svg in (figure(drawing(), "a")[0], made())]
    uses = [[e for e in svg.iter() if e.tag.endswith("use")] for svg in drawn]
    places = [[float(use.attrib[k]) for use in found for k in "xy"] for found in uses]
    assert len(places[0]) == len(places[1]) > 100
    np.testing.assert_allclose(places[0], places[1], atol=0.0051)


def test_text_has_the_font_of_the_page_and_its_colours_are_variables() -> None:
    markup = made()
    assert "font-family" not in markup
    assert "font-size:10px" in markup
    assert re.findall(r"#[0-9a-f]{6}", markup) == []
    assert "var(--ink)" in markup
    assert "var(--card)" in markup
    assert "var(--c0072b2)" in markup


def test_ids_of_two_pictures_differ_and_links_find_theirs() -> None:
    page = render("T", [Section("S", figures=[figure(drawing(), t) for t in "ab"])], footer="")
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    links = re.findall(r'(?:href="#|url\(#|labelledby=")([^")]+)', page)
    assert set(links) <= set(ids)
    assert len(links) > 10


def test_nothing_but_shapes_and_text_is_taken_over() -> None:
    svg = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" onload="bad()">
    <!-- a comment --><script>bad()</script><foreignObject><p>bad</p></foreignObject>
    <a href="https://bad.invalid"><path d="M 0 0"/></a><style>@import "bad";</style>
    <image href="https://bad.invalid/a.png"/><path d="M 1 1" onclick="bad()"
      style="fill: url(https://bad.invalid); stroke: #ff0000"/><use href="javascript:bad()"/>
    <text>&lt;b&gt; stays text</text></svg>"""
    markup = inline(svg, "t", "p1").markup
    assert "bad" not in markup
    assert "stroke:var(--cff0000)" in markup
    assert "&lt;b&gt; stays text" in markup


def test_a_description_is_for_those_who_cannot_see_it() -> None:
    image, title = figure(drawing(), "A < B", "It rises & falls.")
    drawn = ElementTree.fromstring(inline(image, title, "p7").markup)
    assert drawn.get("role") == "img"
    for tag, attribute, text in (
        ("title", "aria-labelledby", "A < B"),
        ("desc", "aria-describedby", "It rises & falls."),
    ):
        element = drawn.find(tag)
        assert element is not None
        assert element.text == text
        assert drawn.get(attribute) == element.get("id")


@pytest.mark.parametrize(
    "colour",
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555", "#08306b", "#882255"],
)
def test_colours_of_marks_can_be_seen_on_both_pages(colour: str) -> None:
    assert contrast(on_dark(colour), "#1d232b") >= 3.0


def test_shades_stay_shades() -> None:
    for shade in ("#e6f0fa", "#b7d2e9", "#87b5d9"):
        assert 1.05 < contrast(on_dark(shade), "#1d232b") < 3.0


def test_variables_are_declared_once_for_each_scheme() -> None:
    page = render("T", [Section("S", figures=[figure(drawing(), "a")])], footer="")
    assert page.count(declarations(["#0072b2"], dark=False)) == 1
    assert page.count(declarations(["#0072b2"], dark=True)) == 1
    used = set(re.findall(r"var\((--c[0-9a-f]{6})\)", page))
    assert used == set(re.findall(r"(--c[0-9a-f]{6}):", page))
