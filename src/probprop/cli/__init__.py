"""The command `probprop`: parse, call, print; no mathematics.

One module per group of commands: `training` (fit), `prediction` (predict), `judging` (evaluate,
info, update), `reporting` (report), `active` (active), `comparing` (compare), `showing` (demo,
play, bench). Other packages add commands by the entry point group ``probprop.commands``, and
methods of `compare` by ``probprop.methods``. Signatures need typer only: a command imports what it
works with when it runs, so that ``--help`` is quick.
`application` puts the commands together and turns every failure into one line; they print with
`console` and write tables with `output`.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["app", "main"]

_MISSING = "the command needs the package {!r}: install it with `pip install 'probprop[cli]'`"


def main() -> None:
    """Run the command on the arguments of the process and exit with its code."""
    try:
        from probprop.cli.application import run
    except ModuleNotFoundError as error:
        sys.exit(f"error: {_MISSING.format(error.name)}")
    sys.exit(run(sys.argv[1:]))


def __getattr__(name: str) -> Any:
    """Import the typer app only where it is asked for: typer is an extra."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from probprop.cli.application import app
    except ModuleNotFoundError as error:
        raise ImportError(_MISSING.format(error.name)) from error
    return app
