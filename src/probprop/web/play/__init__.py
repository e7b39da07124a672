"""The page that learns as one clicks: one HTML file with the kernel in it."""

from __future__ import annotations

import json
from importlib import resources

from probprop.web import content_security_policy, packed_kernel, text_of
from probprop.web.play.presets import curves, planes

__all__ = ["play_page"]

_LEARNING = ("kernel.js", "learning.js")
_SCRIPTS = ("plot.js", "points.js", "curve.js", "plane.js", "controls.js", "play.js")


def play_page(*, embedded: bool = False) -> str:
    """Return the page, an HTML document that asks for nothing else.

    Parameters
    ----------
    embedded : bool, default=False
        Whether it is part of another page, which has a title and an introduction.

    Examples
    --------
    >>> page = play_page()
    >>> page.startswith("<!DOCTYPE html>"), "<script src" in page
    (True, False)
    """
    import jinja2  # heavy, and of the extra `cli`

    folder = resources.files("probprop.web.play")
    texts = {
        name: folder.joinpath(name).read_text(encoding="utf-8")
        for name in (*_SCRIPTS, "play.css", "play.html.jinja")
    }
    script = "\n".join([*map(text_of, _LEARNING), *(texts[name] for name in _SCRIPTS)])
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    presets = {"curve": curves(), "plane": planes()}
    return environment.from_string(texts["play.html.jinja"]).render(
        policy=content_security_policy([script], [texts["play.css"]]),
        style=texts["play.css"],
        script=script,
        kernel=packed_kernel(),
        presets=presets,
        presets_json=json.dumps(presets),
        embedded=embedded,
    )
