"""The kernel for pages: cpp/ as WebAssembly, the script that calls it, and pages that hold both.

``kernel.wasm`` is what ``make generated`` builds from the sources of the compiled kernel;
``kernel.json`` says from which. ``kernel.js`` begins with its interface.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources


def text_of(name: str) -> str:
    """Return the text of a file of this package, such as ``kernel.js``."""
    return resources.files("probprop.web").joinpath(name).read_text(encoding="utf-8")


def kernel_module() -> bytes:
    """Return the WebAssembly module."""
    return resources.files("probprop.web").joinpath("kernel.wasm").read_bytes()


@cache
def packed_kernel() -> str:
    """Return the module compressed (gzip) in base64, as ``ProbpropKernel.loadPacked`` takes it."""
    return compressed(kernel_module())


def compressed(data: bytes) -> str:
    """Return bytes as base64 of their gzip stream, which a browser can inflate."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def content_security_policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return the policy of a page that runs only these scripts and styles, and the kernel."""
    sources = {
        "default-src": ["'none'"],
        "img-src": ["data:"],
        "script-src": ["'wasm-unsafe-eval'", *map(source_hash, scripts)],
        "style-src": [source_hash(style) for style in styles] or ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(" ".join([name, *allowed]) for name, allowed in sources.items())


def source_hash(text: str) -> str:
    """Return how a policy names a script or a style, to the letter."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


# ---- The page that learns as one clicks


def play_page(*, embedded: bool = False) -> str:
    """Return the page, an HTML document that asks for nothing else.

    If it is `embedded`, another page has the title and the introduction. ``presets.json`` has the
    points that the page begins with, and the settings that suit them.
    """
    import jinja2  # heavy, and of the extra `cli`

    scripts = ("plot", "points", "curve", "plane", "controls", "play")
    names = ["kernel.js", "learning.js", *(f"play/{name}.js" for name in scripts)]
    script, style = "\n".join(map(text_of, names)), text_of("play/play.css")
    presets = json.loads(text_of("play/presets.json"))
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text_of("play/play.html.jinja")).render(
        policy=content_security_policy([script], [style]),
        style=style,
        script=script,
        kernel=packed_kernel(),
        presets=presets,
        presets_json=json.dumps(presets),
        embedded=embedded,
    )


# ---- Several modules of JavaScript as one script, so that a page needs no other file


_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";\n', re.M)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const|let)) (\w+)", re.M)


def bundle(folder: str, entry: str) -> str:
    """Return a script that runs the module `entry` of a folder of this package, and its imports.

    A module begins with its imports, each ``import { a, b } from "./other.js";``, and exports
    functions, classes and constants where it defines them. No more of the module system is
    understood.
    """
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in texts:
            return
        source = text_of(f"{folder}/{name}")
        for _, other in _IMPORT.findall(source):
            add(other)
        texts[name] = _wrapped(name, source)

    add(entry)
    return '"use strict";\n' + "".join(texts.values())


def _wrapped(name: str, source: str) -> str:
    """Return a module as a function of its own, which returns what it exports."""
    exports = [found for _, found in _EXPORT.findall(source)]
    body = _IMPORT.sub(lambda m: f"const {{{m[1]}}} = {_variable(m[2])};\n", source)
    body = _EXPORT.sub(r"\1 \2", body)
    if left := re.search(r"^(import|export)\b.*", body, re.M):
        raise ValueError(f"{name} has a line that is not understood: {left[0]}")
    returned = ", ".join(exports)
    return f"const {_variable(name)} = (() => {{\n{body}return {{ {returned} }};\n}})();\n"


def _variable(name: str) -> str:
    return f"module_{name.removesuffix('.js').replace('-', '_')}"
