"""The command `probprop`: parse, call, print; no mathematics.

One module per group of commands: `training` (fit), `prediction` (predict), `judging` (evaluate,
report, info, update), `active` (active), `comparing` (compare), `showing` (demo, play).
Other packages add commands by the entry point group ``probprop.commands``, and methods of `compare`
by ``probprop.methods``. Signatures need typer only: a command imports what it works with when it
runs, so that ``--help`` is quick. `application` puts the commands together and turns every failure
into one line; they print with `console` and write tables with `output`.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command on the arguments of the process and exit with its code."""
    try:
        from probprop.cli.application import run
    except ModuleNotFoundError as error:
        sys.exit(
            f"error: the command needs the package {error.name!r}: install it with "
            "`pip install 'probprop[cli]'`"
        )
    sys.exit(run(sys.argv[1:]))
