"""`probprop demo`, `probprop play` and `probprop bench`: what this is, and how fast it is here."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from probprop.cli.arguments import Fast
from probprop.cli.console import terminal_of
from probprop.cli.output import check_destination, check_replaces_page, naming

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

DEMO_EXAMPLES = """\b
Examples:
  probprop demo
  probprop demo -o report.html
"""
BENCH_EXAMPLES = """\b
Examples:
  probprop bench
  PROBPROP_CPU_LEVEL=v2 probprop bench
"""

_SHAPES = [(13, 50, 1), (9, 100, 1), (90, 100, 1), (13, 50, 50, 1)]
_SECONDS = 0.3  # per shape and precision


def demo(
    context: typer.Context,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="HTML report to write.")
    ] = "probprop-demo.html",
    fast: Fast = False,
) -> None:
    """Fit two small data sets and write an interactive report.

    The first is a table of 344 penguins, with text columns and empty cells; the target is their
    body mass. Hyperparameters are selected by cross-validation and the error bars are calibrated,
    as `probprop fit --budget fast` does; with --fast one network is fitted. The report begins with
    the model itself, with a control for every column of the table. The second is the toy problem of
    the paper: 20 points of y = x^3 + noise, and one network of 100 hidden units.
    """
    check_destination(output)
    check_replaces_page(output)
    from probprop.demo import fit_penguins, fit_toy, result_table, write_demo_report

    terminal = terminal_of(context)
    with terminal.working("fitting two data sets"):
        penguins, toy = fit_penguins(fast=fast), fit_toy()
    terminal.table(*result_table([penguins.result, toy.result]))
    terminal.say("rows: training + test; scores are on the test rows; fit: processor time")
    terminal.say("baseline: one prediction for all test rows, mean and std of the training rows")
    with naming(output), terminal.working("writing the report"):
        write_demo_report(output, penguins, toy)
    terminal.result(f"The report is {os.path.abspath(output)}: open it in a browser.")


def bench(context: typer.Context) -> None:
    """Measure the training speed of this machine.

    The unit is updates per second of processor time on one core. An update learns one row of a
    table once; an epoch has one update per row.
    """
    from probprop.estimators.cost import updates_per_second
    from probprop.inference.engine import cpu_level

    terminal = terminal_of(context)
    rows = []
    for sizes in _SHAPES:
        speeds = [updates_per_second(sizes, dtype, _SECONDS) for dtype in ("float64", "float32")]
        hidden = "-".join(str(n) for n in sizes[1:-1])
        rows.append([f"{sizes[0]} features, {hidden} hidden", *(f"{v:,.0f}" for v in speeds)])
    terminal.table(["network", "float64 updates/s", "float32 updates/s"], rows)
    terminal.result(f"instruction set: {cpu_level()}")


# ---- `probprop play`: the page that learns as one clicks


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
        typer.Option(metavar="N", min=0, max=65535, help="Port to serve on; 0 chooses a free one."),
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address without opening a browser.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="HTML file to write instead."),
    ] = None,
) -> None:
    """Open a page on which a network learns from clicks.

    It fits a curve with error bars through the points that you click, or two classes in the plane;
    the kernel runs in the page. The page is served on this machine only, until Ctrl-C. With -o it
    is written to one file, which needs neither a server nor a network.
    """
    terminal = terminal_of(context)
    if output is not None:
        check_destination(output)
        check_replaces_page(output)
    from probprop.web import play_page

    page = play_page()
    if output is not None:
        from probprop._atomic import replacing

        with naming(output), replacing(output) as file:
            file.write(page.encode())
        terminal.result(f"The page is {os.path.abspath(output)}: open it in a browser.")
        return
    import threading
    import webbrowser

    def ready(url: str) -> None:
        terminal.result(f"The page is at {url} (Ctrl-C ends it).")
        if not no_browser:  # one that runs in the terminal would keep the page from being served
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    serve(page, port, ready)


# ---- One page, served to the browsers of this machine and to nobody else


HOST = "127.0.0.1"


def serve(page: str, port: int = 0, ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve an HTML document at 127.0.0.1 until Ctrl-C; port 0 takes one that is free.

    `ready` is called with the address once the page can be requested.
    """
    with _server(page, port) as server:
        ready(f"http://{HOST}:{server.server_port}/")
        with suppress(KeyboardInterrupt):  # how one ends it
            server.serve_forever()


def _server(page: str, port: int) -> ThreadingHTTPServer:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    document = page.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(document)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing: there is one page."""

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ValueError(
            f"port {port} is in use: give another --port, or 0 for a free one"
        ) from error
