"""Sections in, one self-contained HTML document out. It does not depend on models."""

from __future__ import annotations

import base64
import io
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from itertools import groupby
from textwrap import wrap
from typing import Any

import numpy as np

try:
    import jinja2
    import matplotlib
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import AutoLocator
except ModuleNotFoundError as error:
    raise ImportError(
        f"Reports need {error.name}, which is not installed: pip install 'probprop[cli]'"
    ) from error

from probprop._atomic import replacing
from probprop.plot.parts import label_of, plain_numbers
from probprop.web import source_hash

Table = tuple[list[str], list[list[str]]]
"""A header, empty for none, and rows of as many cells."""

Picture = tuple[bytes, str]
"""An SVG or PNG file, and what a reader who cannot see it should know."""

_SIZE = (4.0, 3.2)  # inches, of every picture: its text is as large as the page's
_DPI = 200  # of rasterized layers; sharp in print at half a page's width
_VECTOR_LIMIT = 500  # marks; above, a layer is smaller and faster to show as pixels
_NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # a column's name may contain them
_VALUE = r"[-−+]?(\d[\d,]*(\.\d*)?([eE][-−+]?\d+)?|inf|nan)"
_NUMBER = re.compile(rf"({_VALUE}( ± {_VALUE})?( ?(%|ms|s))?|–)?")  # a number may be missing
_LINE, _UPRIGHT = 32, 20  # letters of the label of an axis: names of categories take its height
_FEW = 5  # columns whose first may be wide
_SHORT = 14  # letters of cells that stay on one line


@dataclass(frozen=True)
class Section:
    """One part of a report. Every string is plain text: markup in it is shown as text.

    Parameters
    ----------
    title : str
    text : str, default=""
        Paragraphs, separated by blank lines; the caption of a single figure without a table.
    table : (header, rows), default=None
        Lists of strings; an empty header is left out.
    figures : sequence of (bytes, str), default=()
        What `figure` returns: an SVG or PNG file, and its alternative text.
    names_rows : bool, default=False
        Whether it has cells of single rows of someone's table.
    """

    title: str
    text: str = ""
    table: Table | None = None
    figures: Sequence[Picture] = ()
    names_rows: bool = False

    @property
    def captioned(self) -> bool:
        """Whether the text is the caption of a figure."""
        return len(self.figures) == 1 and self.table is None

    @property
    def paragraphs(self) -> list[str]:
        """The text, cut at blank lines."""
        return [p.strip() for p in re.split(r"\n\s*\n", self.text) if p.strip()]

    @property
    def classes(self) -> list[str]:
        """How the cells of each column are set: as numbers, on one line, or neither."""
        made = []
        for cells in zip(*self.table[1], strict=True) if self.table is not None else ():
            numeric = any(cells) and all(map(_NUMBER.fullmatch, cells))
            made.append("number" if numeric else "short" if max(map(len, cells)) <= _SHORT else "")
        return made

    @property
    def layout(self) -> str:
        """Whether the table has few columns or many, and explains itself in the last of them."""
        classes = self.classes
        if len(classes) > _FEW:
            return "many"
        explains = len(classes) > 2 and not classes[-1] and all(classes[1:-1])
        return "few explains" if explains else "few"


@dataclass(frozen=True)
class Live:
    """A part of a report that a script fills. Where scripts do not run, it is not shown.

    `style` and `script` are CSS and JavaScript of probprop itself: nothing of a user may be in
    them.
    """

    key: str  # the id of its section, which comes first
    title: str
    style: str
    script: str
    data: Mapping[str, str]  # texts without a "<" that the script reads, by their elements' ids


def figure(drawing: Axes | Figure, alt: str, description: str = "") -> Picture:
    """Turn a drawing into an SVG file for a `Section`.

    It has no background, and a dark page inverts it. Layers of more than 500 marks are rasterized.

    Parameters
    ----------
    drawing : matplotlib Axes or Figure
        The whole figure of an Axes is drawn.
    alt : str
        What the picture shows, for readers who cannot see it.
    description : str, default=""
        What can be read off it, for them too.
    """
    whole = drawing if isinstance(drawing, Figure) else drawing.get_figure(root=True)
    if whole is None:
        raise ValueError("The axes are no longer part of a figure: draw them again.")
    file = io.BytesIO()
    # Text stays text: the browser has the glyphs of languages that Matplotlib's font lacks.
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "probprop"}
    no_metadata = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    for layer in (layer for ax in whole.axes for layer in ax.get_children()):
        layer.set_rasterized(_n_marks(layer) > _VECTOR_LIMIT)
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
        whole.savefig(file, format="svg", dpi=_DPI, metadata=no_metadata, transparent=True)
    svg = _NOT_XML.sub(b"", file.getvalue())
    return svg[svg.index(b"<svg") :], f"{alt}. {description}" if description else alt


def _n_marks(layer: Artist) -> int:
    """How many points or line segments a layer draws; 0 for what is neither."""
    if isinstance(layer, Collection):
        return max(len(layer.get_offsets()), len(layer.get_paths()))  # type: ignore[arg-type]
    return np.size(layer.get_xdata()) if isinstance(layer, Line2D) else 0


def picture(draw: Callable[[Axes], object], alt: str, description: str = "") -> Picture:
    """Draw on a figure of its own, which pyplot does not keep."""
    whole = Figure(figsize=_SIZE, layout="constrained")
    ax = whole.subplots()
    with matplotlib.rc_context({"date.converter": "concise"}):
        draw(ax)
    if isinstance(locator := ax.xaxis.get_major_locator(), AutoLocator):
        locator.set_params(nbins=5)  # labels such as 300,000 would touch
    plain_numbers(*whole.axes)
    for axis in (axis for each in whole.axes for axis in (each.xaxis, each.yaxis)):
        length = _LINE if axis.axis_name == "x" else _UPRIGHT
        axis.label.set_text("\n".join(wrap(axis.label.get_text(), length)))
    return figure(ax, alt, description)


def axis_label(name: str) -> str:
    """Shorten a name for an axis."""
    return label_of(name, 60)


def render(
    title: str, sections: Sequence[Section], *, footer: str | None = None, live: Live | None = None
) -> str:
    """Lay out sections as one HTML document without external parts; all strings are escaped.

    `footer` is a line at the end; None says which version of probprop wrote it and when. `live` is
    a part with a script, the only one that the document runs.
    """
    from probprop._version import __version__

    written = f"Written by probprop {__version__} on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC."
    allowed = "" if live is None else f"script-src 'wasm-unsafe-eval' {source_hash(live.script)}; "
    return _template().render(
        title=title,
        placed=zip(sections, _placement(sections), strict=True),
        footer=written if footer is None else footer,
        live=live,
        script_policy=allowed,
    )


def _address(image: bytes) -> str:
    """Return a picture as a data URL."""
    kind = "png" if image.startswith(b"\x89PNG") else "svg+xml"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def _placement(sections: Sequence[Section]) -> list[str]:
    """Return "full", "half" or "wide" for each section.

    Sections of one captioned picture are placed in pairs; the last of an odd run takes the full
    width, with its caption at the side.
    """
    placement: list[str] = []
    for is_single, run in groupby(sections, lambda s: s.captioned):
        n = len(list(run))
        placement += ["half"] * (n - n % 2) + ["wide"] * (n % 2) if is_single else ["full"] * n
    return placement


@cache
def _template() -> jinja2.Template:
    source = resources.files("probprop.report").joinpath("template.html.jinja")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["address"] = _address
    environment.filters["unparted"] = lambda text: re.sub(
        r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", text
    )
    return environment.from_string(source.read_text(encoding="utf-8"))


def save_html(path: str | os.PathLike[str], document: str) -> None:
    """Write a document to a file, which appears whole or not at all."""
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"The report {os.fspath(path)} cannot be written: there is no folder {folder}; "
            "make it first, or give another path."
        )
    with replacing(path) as file:
        file.write(document.encode("utf-8", "replace"))


def write_report(
    path: str | os.PathLike[str],
    title: str,
    sections: Sequence[Section],
    live: Live | None = None,
) -> None:
    """Write sections of any kind to one HTML file, as `render` lays them out."""
    save_html(path, render(title, sections, live=live))
