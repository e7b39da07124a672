"""Several modules of JavaScript as one script, so that a page needs no other file.

A module begins with its imports, each ``import { a, b } from "./other.js";``, and exports
functions, classes and constants where it defines them. No more of the module system is understood.
"""

from __future__ import annotations

import re

from probprop.web import text_of

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";\n', re.M)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const|let)) (\w+)", re.M)


def bundle(folder: str, entry: str) -> str:
    """Return a script that runs a module, after those that it imports.

    Parameters
    ----------
    folder : str
        Of this package, in which all modules lie.
    entry : str
        The name of the module.

    Examples
    --------
    >>> script = bundle("whatif", "table.js")
    >>> script.startswith('"use strict";'), "export" in script
    (True, False)
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
