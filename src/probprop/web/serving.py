"""One page, served to the browsers of this machine and to nobody else."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"


def serve(page: str, port: int = 0, ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve a page at 127.0.0.1 until Ctrl-C.

    Parameters
    ----------
    page : str
        An HTML document that needs nothing else.
    port : int, default=0
        0 takes one that is free.
    ready : callable
        Called with the address once the page can be asked for.
    """
    with _server(page, port) as server:
        ready(f"http://{HOST}:{server.server_port}/")
        with suppress(KeyboardInterrupt):  # how one ends it
            server.serve_forever()


def _server(page: str, port: int) -> ThreadingHTTPServer:
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
