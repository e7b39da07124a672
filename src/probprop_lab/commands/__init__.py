"""The commands of the laboratory: ``data``, ``compare`` and ``reproduce``."""

from __future__ import annotations

import typer

from probprop_lab.commands import comparing, data, reproducing


def add_commands(app: typer.Typer) -> None:
    """Add them to the command `probprop`, which finds this function by entry point."""
    app.command(epilog=comparing.COMPARE_EXAMPLES)(comparing.compare)
    app.command(epilog=reproducing.REPRODUCE_EXAMPLES)(reproducing.reproduce)
    app.add_typer(data.app, name="data")
