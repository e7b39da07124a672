"""`probprop demo` and `play`: an example, and an interactive page."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from probprop.cli.arguments import Fast
from probprop.cli.console import terminal_of
from probprop.cli.output import check_destination, check_replaces_page, naming
from probprop.cli.training import fit

DEMO_EXAMPLES = """\b
Examples:
  probprop demo
  probprop demo -o report.html
"""


def demo(
    context: Context,
    output: Annotated[
        str, Option("-o", "--output", metavar="FILE", help="HTML report to write.")
    ] = "probprop-demo.html",
    fast: Fast = False,
) -> None:
    """Fit a small table and write an interactive report.

    The table has 344 penguins, with text columns and missing values; the target is their body mass.
    The command runs `probprop fit --budget fast`, or --fast, on it, and prints that command. The
    report begins with the model itself, with a control for every column of the table. The model is
    written to the same folder.
    """
    check_replaces_page(output)
    model, how = str(Path(output).with_suffix(".pbp")), "--fast" if fast else "--budget fast"
    words = f"fit penguins.csv --target body_mass_g {how} -o {model} --report {output}"
    terminal_of(context).say(f"probprop {words}")
    with resources.as_file(resources.files("probprop") / "penguins.csv") as path:
        fit(
            context,
            data=[str(path)],
            target=["body_mass_g"],
            output=model,
            fast=fast,
            budget=None if fast else "fast",
            report=output,
        )
    terminal_of(context).result(f"The report is {os.path.abspath(output)}: open it in a browser.")


PLAY_EXAMPLES = """\b
Examples:
  probprop play
  probprop play --no-browser -o play.html
"""


def play(
    context: Context,
    output: Annotated[
        str, Option("-o", "--output", metavar="FILE", help="HTML file to write.")
    ] = "probprop-play.html",
    no_browser: Annotated[
        bool, Option("--no-browser", help="Write the page without opening a browser.")
    ] = False,
) -> None:
    """Open an interactive demo that fits a network to clicked points.

    The page fits a curve with intervals to the points that you click, or two classes in the plane.
    The kernel runs in the page, which is one file and needs neither a server nor an internet
    connection.
    """
    check_destination(output)
    check_replaces_page(output)
    from probprop._atomic import replacing
    from probprop.web import play_page

    with naming(output), replacing(output) as file:
        file.write(play_page().encode())
    path = Path(output).absolute()
    terminal_of(context).result(f"The page is {path}: open it in a browser.")
    if not no_browser:
        import webbrowser

        webbrowser.open(path.as_uri())
