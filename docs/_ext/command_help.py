"""The directive ``command-help``: what the command prints for ``--help``, run at build time.

``{command-help} fit`` is replaced by the output of ``probprop fit --help``, so the page cannot
disagree with the command. A command that does not exist is an error of the build.
"""

import os
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_RUN = """
import importlib.metadata as metadata, sys
if not metadata.entry_points(group="probprop.commands"):  # the laboratory is not installed
    sys.path.append("lab/src")
    lab = metadata.EntryPoint("lab", "probprop_lab.commands:add_commands", "probprop.commands")
    metadata.entry_points = lambda group: [lab]
from probprop.cli import main
main()
"""
_PLAIN = {"COLUMNS": "88", "TERMINAL_WIDTH": "88", "NO_COLOR": "1", "TYPER_USE_RICH": "0"}


class CommandHelp(SphinxDirective):
    """The help of one command, as a literal block."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Run the command and return what it printed."""
        command = [*self.arguments, "--help"]
        done = subprocess.run(
            [sys.executable, "-c", _RUN, *command],
            cwd=Path(__file__).parents[2],
            env=os.environ | _PLAIN,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise self.error(f"probprop {' '.join(command)} failed: {done.stderr.strip()}")
        text = done.stdout.replace("Usage: -c ", "Usage: probprop ").strip("\n")
        text = "\n".join(line.rstrip() for line in text.splitlines())
        return [nodes.literal_block(text, text, language="text", classes=["command-help"])]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
