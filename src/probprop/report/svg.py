"""A drawing of Matplotlib as a part of a page: in its font and colours, and small.

An SVG file is read and written again, so that nothing of it reaches the page but shapes and text.
Every colour becomes a CSS variable, which has a second value for dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from probprop._types import FloatArray

_SHAPES = {"svg", "g", "defs", "clipPath", "path", "use", "rect", "circle", "line", "image"}
_TEXTS = {"text", "tspan", "title", "desc"}
_LINKS = {"href", "{http://www.w3.org/1999/xlink}href"}
_ATTRIBUTES = {"d", "x", "y", "width", "height", "cx", "cy", "r", "points", "transform", "viewBox"}
_ATTRIBUTES |= {"x1", "x2", "y1", "y2", "clip-path", "style", "id", "dx", "dy"}

_DECIMAL = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LINK = re.compile(r"url\(#([^)]+)\)")

_NARROW = 340.0  # points: what a telephone shows at the size of its text

INK, CARD = "#000000", "#ffffff"  # Matplotlib's text and background, which the page has as well
_DARK = {  # of Okabe and Ito's palette, as light as a dark page needs
    "#0072b2": "#56b4e9",
    "#d55e00": "#f58b4c",
    "#009e73": "#2fc79b",
    "#cc79a7": "#e29cc3",
    "#e69f00": "#f0b840",
    "#56b4e9": "#9ad4f5",
}


class Inline(NamedTuple):
    """A picture as markup that can stand in a page."""

    markup: str  # one element, svg, without an address of anything outside
    colours: frozenset[str]  # colors that have a variable, such as "#0072b2"


def inline(svg: bytes, title: str, key: str) -> Inline:
    """Turn an SVG file as Matplotlib writes it into a part of a page; a ``desc`` at its top stays.

    `title` is what a reader who cannot see it is told first. `key` begins every id, so that no two
    pictures of a page share one.
    """
    source = ElementTree.fromstring(svg)
    used = {link for e in source.iter() for link in _links(e)}
    colours: set[str] = set()
    root = _copied(source, {name: f"{key}-{i}" for i, name in enumerate(sorted(used))}, colours)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    width = float(root.get("viewBox", "0 0 0 0").split()[2])
    if width > _NARROW:  # the page scrolls it, rather than shrink its text
        root.set("style", f"min-width:{width:.0f}px")
    heading = Element("title", {"id": f"{key}-t"})
    heading.text = title
    root.insert(0, heading)
    root.set("class", "chart")
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-t")
    if (more := root.find("desc")) is not None:
        more.set("id", f"{key}-d")
        root.set("aria-describedby", f"{key}-d")
    return Inline(ElementTree.tostring(root, encoding="unicode"), frozenset(colours))


# ---- Shapes


def _links(element: Element) -> Iterable[str]:
    """Yield the ids that an element refers to."""
    for name, value in element.attrib.items():
        if name in _LINKS and value.startswith("#"):
            yield value[1:]
        yield from _LINK.findall(value)


def _copied(source: Element, ids: dict[str, str], colours: set[str]) -> Element:
    """Copy what a page may show of an element, as short as it can be written."""
    name = _local(source.tag)
    copy = Element(name)
    for attribute, value in source.attrib.items():
        if attribute in _LINKS:
            if value.startswith("#"):
                copy.set("href", "#" + ids[value[1:]])
            elif value.startswith("data:image/png;base64,"):
                copy.set("href", value)
        elif attribute == "id":
            if value in ids:
                copy.set("id", ids[value])
        elif attribute == "style":
            if style := _style(value, colours):
                copy.set("style", style)
        elif attribute in _ATTRIBUTES and not value.startswith("rotate(-0 "):
            copy.set(attribute, _LINK.sub(lambda m: f"url(#{ids[m[1]]})", _short(value)))
    if name in _TEXTS:
        copy.text = source.text
    for child in source:
        if _local(child.tag) not in _SHAPES | _TEXTS:
            continue
        part = _copied(child, ids, colours)
        if name in _TEXTS:
            part.tail = child.tail
        for shape in list(part) if part.tag == "g" and not part.attrib else [part]:
            last = copy[-1] if len(copy) else None
            if last is not None and _same_line(last, shape):  # it becomes part of the one before
                last.set("d", last.attrib["d"] + shape.attrib["d"])
            else:
                copy.append(shape)
    if name == "g":
        _lift_style(copy)
    return copy


def _local(tag: object) -> str:
    """Return a tag without its namespace; empty for comments, which have none."""
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _same_line(a: Element, b: Element) -> bool:
    """Whether two paths are lines drawn alike."""
    rest = [{k: v for k, v in e.attrib.items() if k != "d"} for e in (a, b)]
    is_line = a.tag == b.tag == "path" and "fill:none" in a.get("style", "")
    return is_line and rest[0] == rest[1] and "id" not in a.attrib


def _lift_style(group: Element) -> None:
    """Write the style that all marks of a group share once, at the group."""
    styles = {child.get("style") for child in group}
    if {child.tag for child in group} == {"use"} and len(group) > 1 and len(styles) == 1:
        shared = styles.pop()
        if shared is not None and "style" not in group.attrib:
            group.set("style", shared)
            for child in group:
                del child.attrib["style"]


def _short(value: str) -> str:
    """Round the numbers of a path or a place to hundredths of a point."""
    rounded = _DECIMAL.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)
    joined = " ".join(rounded.split()).replace("-0 ", "0 ")
    return re.sub(r" ?([MLCQz]) ?", r"\1", joined)


# ---- Colours


def _style(value: str, colours: set[str]) -> str:
    """Write a style without a font of its own, and with variables for its colours."""
    kept = []
    for declaration in value.split(";"):
        name, _, what = (part.strip() for part in declaration.partition(":"))
        if not name or name in ("font-family", "font") or "url(" in what:
            continue
        found = set(_COLOUR.findall(what))
        colours |= found - {INK, CARD}
        for colour in found:
            what = what.replace(colour, f"var({variable(colour)})")
        kept.append(f"{name}:{_short(what)}")
    return ";".join(kept)


def variable(colour: str) -> str:
    """Return the name of the CSS variable of a colour, such as --c0072b2."""
    return {INK: "--ink", CARD: "--card"}.get(colour, f"--c{colour[1:]}")


def declarations(colours: Iterable[str], *, dark: bool) -> str:
    """Return the values of the variables of colours, as CSS."""
    return " ".join(
        f"{variable(colour)}: {on_dark(colour) if dark else colour};" for colour in sorted(colours)
    )


def on_dark(colour: str) -> str:
    """Return what a colour is on a dark page: as far from its background, with the same hue.

    The lightness of OKLab is turned round, from that of the text to that of the card.
    """
    if colour in _DARK:
        return _DARK[colour]
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    lab = _TO_LAB @ np.cbrt(_TO_LMS @ linear)
    lab[0] = 0.92 - 0.67 * lab[0] ** 1.5  # faint shades stay in sight
    turned: FloatArray = np.linalg.solve(_TO_LMS, np.linalg.solve(_TO_LAB, lab) ** 3).clip(0.0, 1.0)
    back = np.where(turned <= 0.0031308, 12.92 * turned, 1.055 * turned ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(255 * float(v)):02x}" for v in back)


# B. Ottosson, "A perceptual color space for image processing" (2020).
_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
