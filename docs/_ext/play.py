"""The directive ``play``: the page that learns, embedded, made when these pages are built."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from probprop.web import play_page

_FRAME = """<iframe class="play" src="{up}_static/play.html" loading="lazy"
title="A page on which a network learns the points that you click"></iframe>"""


class Play(SphinxDirective):
    """The page in a frame, which tells its height to play-frame.js."""

    def run(self) -> list[nodes.Node]:
        """Return the frame."""
        up = "../" * self.env.docname.count("/")
        return [nodes.raw("", _FRAME.format(up=up), format="html")]


def write_page(app: Sphinx, error: Exception | None) -> None:
    """Put the page beside the style sheets."""
    if error is None and app.builder.format == "html":
        static = Path(app.outdir, "_static")
        static.mkdir(exist_ok=True)
        (static / "play.html").write_text(play_page(embedded=True), "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of both."""
    app.add_directive("play", Play)
    app.add_js_file("play-frame.js")
    app.connect("build-finished", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
