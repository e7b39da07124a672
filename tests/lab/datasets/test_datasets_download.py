"""Downloads, for real: an HTTP server on loopback that serves zips, good and bad."""

from __future__ import annotations

import io
import multiprocessing
import os
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from test_datasets import DATA, RAW, TABLE, Known, assert_is_made, cache, made_source

from probprop_lab import datasets
from probprop_lab.datasets import DataError, store
from probprop_lab.datasets.registry import SOURCES

__all__ = ["cache"]  # the fixture, used by every test

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server(ThreadingHTTPServer):
    """Answers each path as `answers` says, and 404 for the others."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Answer] = {}
        self.requests: list[str] = []
        self.stop_waiting = threading.Event()

    def serve(self, path: str, answer: Answer | bytes) -> str:
        """Answer a path with bytes, or as the function does; return its address."""
        self.answers[path] = sending(answer) if isinstance(answer, bytes) else answer
        return self.address(path)

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        answer = self.server.answers.get(self.path)
        if answer is None:
            self.send_error(404)
        else:
            answer(self)

    def log_message(self, *_: object) -> None:
        pass


def sending(body: bytes, claimed: int | None = None) -> Answer:
    """Send a body with a Content-Length, by default the right one; -1 sends none."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        if claimed != -1:
            handler.send_header("Content-Length", str(len(body) if claimed is None else claimed))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.stop_waiting.set()
        running.shutdown()
        thread.join()


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


ZIP = zipped({"Readme.txt": b"what it is", "made.data": RAW})


def register(known: Known, address: str, **changes: object) -> None:
    known("made", made_source(address=address, **changes))


def left_in(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


# ---- Good ones
GOOD = {
    "at the top": ZIP,
    "in a folder": zipped({"__MACOSX/._made.data": b"x", "A set/made.data": RAW}),
    "in a zip in the zip": zipped({"Other.zip": zipped({"a": b"b"}), "Made set.zip": ZIP}),
}


@pytest.mark.parametrize("where", GOOD)
def test_a_member_is_downloaded_once(where: str, server: Server, cache: Path, known: Known) -> None:
    register(known, server.serve("/made+set.zip", GOOD[where]))
    for _ in range(2):
        assert_is_made(datasets.load("made"))
    assert server.requests == ["/made+set.zip"]
    assert (cache / "made.data").read_bytes() == RAW
    assert [name.partition("-")[0] for name in left_in(cache)] == ["arrays/made", "made.data"]


@pytest.mark.parametrize("name", datasets.NAMES[:-1])
def test_the_real_files_come_through(name: str, server: Server, known: Known) -> None:
    if not DATA:
        pytest.skip("set PROBPROP_DATA to the folder of the raw benchmark files")
    raw, source = Path(DATA, SOURCES[name].file).read_bytes(), SOURCES[name]
    body = raw if source.member is None else zipped({f"set/{source.member}": raw})
    address = server.serve("/real", body)
    known(name, replace(source, address=address))
    data = datasets.load(name)
    assert store.array_hashes(data.X, data.y) == source.parsed_sha256
    assert server.requests == ["/real"]


def test_a_member_is_stored_under_the_name_of_the_file(
    server: Server, cache: Path, known: Known
) -> None:
    address = server.serve("/a.zip", zipped({"data.txt": RAW}))
    register(known, address, member="data.txt")
    assert_is_made(datasets.load("made"))
    assert (cache / "made.data").read_bytes() == RAW
    register(known, server.address("/none.zip"), member="data.txt", sha256="0" * 64)
    (cache / "made.data").unlink()
    with pytest.raises(DataError, match=r"put data.txt from the zip under the name made.data"):
        datasets.load("made")


def test_a_file_without_a_zip(server: Server, known: Known) -> None:
    register(known, server.serve("/made.data", RAW), member=None)
    assert_is_made(datasets.load("made"))


def test_a_file_of_unknown_hash_is_checked_by_its_shape(server: Server, known: Known) -> None:
    register(known, server.serve("/a.zip", ZIP), sha256=None)
    assert_is_made(datasets.load("made"))
    register(known, server.address("/a.zip"), sha256=None, shape=(31, 4))
    with pytest.raises(DataError, match=r"shape \(30, 4\) instead of \(31, 4\)"):
        datasets.load("made")


class Screen(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("claimed", "shown"), [(None, "of 0.3 MB"), (-1, "0.1 MB")])
def test_a_terminal_shows_how_much_has_come(
    server: Server, monkeypatch: pytest.MonkeyPatch, claimed: int | None, shown: str
) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    address = server.serve("/set.zip", sending(os.urandom(300_000), claimed))
    with pytest.raises(DataError, match="zip"):
        store.download(replace(made_source(), address=address))
    assert screen.getvalue().startswith("\rset.zip ")
    assert shown in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")  # nothing is left of it


def test_a_slow_server_is_waited_for(server: Server, known: Known) -> None:
    def trickle(handler: BaseHTTPRequestHandler) -> None:
        sending(b"", len(ZIP))(handler)
        for start in range(0, len(ZIP), 100):
            handler.wfile.write(ZIP[start : start + 100])
            handler.wfile.flush()
            time.sleep(0.02)

    register(known, server.serve("/a.zip", trickle))
    assert_is_made(datasets.load("made"))


# ---- Bad ones
STORED = zipped({"made.data": RAW}, zipfile.ZIP_STORED)
BAD: dict[str, tuple[Answer, str]] = {
    "broken off": (sending(ZIP[: len(ZIP) // 2], len(ZIP)), "the connection broke off"),
    "cut": (sending(ZIP[: len(ZIP) // 2], -1), "not a zip file"),
    "empty": (sending(b""), "not a zip file"),
    "another page": (sending(b"<html>log in first</html>"), "not a zip file"),
    "damaged": (sending(STORED.replace(RAW[:9], RAW[1:10])), "Bad CRC-32"),
    "without it": (sending(zipped({"other.data": RAW})), "the zip has no made.data"),
    "wrong hash": (sending(zipped({"made.data": RAW + b" "})), "downloaded is not used.*sha256 is"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_bad_download_is_explained_and_leaves_nothing(
    how: str, server: Server, cache: Path, known: Known
) -> None:
    answer, reason = BAD[how]
    register(known, server.serve("/a.zip", answer))
    assert_explained(server.address("/a.zip"), reason, cache)
    server.serve("/a.zip", ZIP)  # and does not block a good one
    assert_is_made(datasets.load("made"))


def assert_explained(address: str, reason: str, cache: Path) -> None:
    with pytest.raises(DataError, match=f"^made.data: .*{reason}") as caught:
        datasets.load("made")
    advice = f"get {address} and put made.data from the zip into {cache} or a folder"
    assert advice in str(caught.value)
    assert left_in(cache) == []


def test_a_wrong_file_without_a_zip(server: Server, cache: Path, known: Known) -> None:
    register(known, server.serve("/made.data", b"<html></html>"), member=None)
    with pytest.raises(
        DataError, match=r"downloaded is not used, its sha256 is .*put made.data in"
    ):
        datasets.load("made")
    assert left_in(cache) == []


def test_an_address_that_is_gone(server: Server, cache: Path, known: Known) -> None:
    register(known, server.address("/gone.zip"))
    assert_explained(server.address("/gone.zip"), "404", cache)


def test_a_server_that_falls_silent(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, known: Known
) -> None:
    def stall(handler: BaseHTTPRequestHandler) -> None:
        sending(ZIP[:100], len(ZIP))(handler)
        server.stop_waiting.wait()

    monkeypatch.setattr(store, "TIMEOUT", 0.2)
    register(known, server.serve("/a.zip", stall))
    assert_explained(server.address("/a.zip"), "the server sent nothing for 0.2 s", cache)


def test_a_connection_that_is_refused(cache: Path, known: Known) -> None:
    with socket.socket() as closed:  # bound but not listening: nobody else gets the port
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/a.zip"
        register(known, address)
        assert_explained(address, "there is no connection to the server", cache)


def test_offline_every_set_says_where_to_get_it_and_where_to_put_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    for name in datasets.NAMES:
        with pytest.raises(DataError) as caught:
            datasets.load(name)
        for part in (SOURCES[name].file, SOURCES[name].address, str(cache), "no connection"):
            assert part in str(caught.value)


def test_a_cache_that_cannot_be_written(server: Server, cache: Path, known: Known) -> None:
    cache.write_bytes(b"")  # a file where the folder would be
    register(known, server.serve("/a.zip", ZIP))
    with pytest.raises(DataError, match=r"made.data: .*cache.*PROBPROP_DATA"):
        datasets.load("made")


# ---- Two at once
def load_often(address: str, folder: str) -> int:
    """Load `made` over and over, taking its arrays away each time; runs in a process."""
    os.environ["PROBPROP_CACHE"] = folder
    SOURCES["made"] = made_source(address=address)
    n_good = 0
    for _ in range(100):
        data = datasets.load("made")
        n_good += np.array_equal(data.X, TABLE[:, :3]) and np.array_equal(data.y, TABLE[:, 3])
        for path in Path(folder, "arrays").glob("*.npz"):
            path.unlink(missing_ok=True)
    return n_good


@pytest.mark.process
def test_two_processes_at_once_do_no_harm(server: Server, cache: Path) -> None:
    both = threading.Barrier(2)

    def together(handler: BaseHTTPRequestHandler) -> None:
        both.wait(60)  # for the other, so that the downloads overlap
        sending(ZIP)(handler)

    address = server.serve("/a.zip", together)
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        counts = [pool.submit(load_often, address, str(cache)) for _ in range(2)]
        assert [count.result() for count in counts] == [100, 100]
    assert server.requests == ["/a.zip", "/a.zip"]
    assert set(left_in(cache)) <= {"made.data"}
