"""`probprop demo`, `probprop play` and `probprop bench`: what this is, and how fast it is here."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from probprop.cli.arguments import Fast
from probprop.cli.console import terminal_of
from probprop.cli.output import check_destination, naming

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
_ROWS = 2_000


def demo(
    context: typer.Context,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="HTML report to write.")
    ] = "probprop-demo.html",
    fast: Fast = False,
) -> None:
    """Fit two small data sets and write a report to click.

    The weight of 344 penguins, from a table with columns of text and empty cells: settings are
    compared by cross-validation and the best are calibrated, as `probprop fit --budget fast`
    does; with --fast it is one network. The report begins with the model itself, a control for
    every column of the table. The other data are the toy problem of the paper, 20 points of
    y = x^3 + noise, and one network of 100 hidden units.
    """
    check_destination(output)
    from probprop.demo import fit_penguins, fit_toy, result_table, write_demo_report

    terminal = terminal_of(context)
    with terminal.working("fitting two data sets"):
        penguins, toy = fit_penguins(fast=fast), fit_toy()
    terminal.table(*result_table([penguins.result, toy.result]))
    terminal.say("rows: to fit + to test; every score is on the test rows; fit: processor seconds")
    terminal.say("baseline: one prediction for all test rows, mean and std of the rows to fit")
    with naming(output), terminal.working("writing the report"):
        write_demo_report(output, penguins, toy)
    terminal.result(f"The report is {os.path.abspath(output)}: open it in a browser.")


def bench(context: typer.Context) -> None:
    """Measure the updates per second of this machine, on one core, in processor time.

    One update is one row of a table, learned once; an epoch is as many as there are rows.
    """
    from probprop.inference.engine import cpu_level

    terminal = terminal_of(context)
    rows = []
    for sizes in _SHAPES:
        speeds = [updates_per_second(sizes, dtype) for dtype in ("float64", "float32")]
        hidden = "-".join(str(n) for n in sizes[1:-1])
        rows.append([f"{sizes[0]} features, {hidden} hidden", *(f"{v:,.0f}" for v in speeds)])
    terminal.table(["network", "float64 updates/s", "float32 updates/s"], rows)
    terminal.result(f"instruction set: {cpu_level()}")


def updates_per_second(sizes: tuple[int, ...], dtype: str) -> float:
    """Return the updates per second of processor time, of the fastest of some passes."""
    import numpy as np

    from probprop.inference.engine import ENGINES
    from probprop.inference.posterior import initial_posterior

    random_state = np.random.RandomState(0)
    posterior = initial_posterior(
        sizes,
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=random_state,
        dtype=np.dtype(dtype),
    )
    X = random_state.standard_normal((_ROWS, sizes[0])).astype(dtype)
    y = np.sin(X[:, 0].astype(np.float64)) + 0.1 * random_state.standard_normal(_ROWS)
    order = random_state.permutation(_ROWS)
    fastest = float("inf")
    end = time.thread_time() + _SECONDS
    while (start := time.thread_time()) < end:
        posterior, _ = ENGINES["native"].adf_pass(posterior, X, y, order)
        fastest = min(fastest, time.thread_time() - start)
    return _ROWS / fastest


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
            f"the port {port} is taken: give another one, or none for one that is free"
        ) from error
