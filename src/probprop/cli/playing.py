"""`probprop play`: the page that learns as one clicks."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from probprop.cli.console import terminal_of
from probprop.cli.output import check_destination, naming

PLAY_EXAMPLES = """\b
Examples:
  probprop play
  probprop play --port 8000 --no-browser
  probprop play -o play.html
"""


def play(
    context: typer.Context,
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="Port to serve on; 0 is one that is free."
        ),
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, and open no browser.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="HTML file to write instead."),
    ] = None,
) -> None:
    """Open a page on which a network learns the points that you click.

    A curve through points with its error bars, or two classes in the plane; the kernel runs in the
    page. It is served on this machine only, until Ctrl-C. With -o it is one file, which works
    without a server and without a network.
    """
    terminal = terminal_of(context)
    if output is not None:
        check_destination(output)
    from probprop.web.play import play_page

    page = play_page()
    if output is not None:
        from probprop._atomic import replacing

        with naming(output), replacing(output) as file:
            file.write(page.encode())
        terminal.result(f"The page is {os.path.abspath(output)}: open it in a browser.")
        return
    import threading
    import webbrowser

    from probprop.web.serving import serve

    def ready(url: str) -> None:
        terminal.result(f"The page is at {url} (Ctrl-C ends it).")
        if not no_browser:  # one that runs in the terminal would keep the page from being served
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    serve(page, port, ready)
